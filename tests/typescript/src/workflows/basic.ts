import {
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  log,
  patched,
  deprecatePatch,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  sleep,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import { ApplicationFailure, defineSearchAttributeKey } from '@temporalio/common';
import type * as activities from '../activities';

const { echo, record, slowEcho } = proxyActivities<typeof activities>({ startToCloseTimeout: '20s' });

export async function greet(name: string): Promise<string> {
  return `Hello, ${name}!`;
}

export async function roundTrip<T>(value: T): Promise<T> {
  return await echo(value);
}

export async function sleeper(ms: number): Promise<string> {
  await sleep(ms);
  return `slept ${ms}`;
}

export async function waitForever(): Promise<void> {
  await condition(() => false);
}

export async function parallelActivities(n: number): Promise<number[]> {
  return await Promise.all(Array.from({ length: n }, (_, i) => slowEcho(i, 20)));
}

// --- signals and queries ---

export const addSignal = defineSignal<[number]>('add');
export const finishSignal = defineSignal('finish');
export const totalQuery = defineQuery<number>('total');
export const scaledQuery = defineQuery<number, [number]>('scaled');
export const brokenQuery = defineQuery<void>('broken');

/** Sums `add` signals until `finish`. */
export async function counter(initial = 0): Promise<{ total: number; seen: number[] }> {
  let total = initial;
  let finished = false;
  const seen: number[] = [];
  setHandler(addSignal, (n) => {
    total += n;
    seen.push(n);
  });
  setHandler(finishSignal, () => {
    finished = true;
  });
  setHandler(totalQuery, () => total);
  setHandler(scaledQuery, (by) => total * by);
  setHandler(brokenQuery, () => {
    throw new Error('this query always fails');
  });
  await condition(() => finished);
  return { total, seen };
}

/** Does an activity and a timer between signals, so that a Worker without a cache replays a mixed history. */
export async function steps(): Promise<string[]> {
  const out: string[] = [];
  let signals = 0;
  setHandler(addSignal, (n) => {
    signals += 1;
    out.push(`signal ${n}`);
  });
  setHandler(totalQuery, () => out.length);
  for (let i = 1; i <= 3; i++) {
    await condition(() => signals >= i);
    out.push(await echo(`activity ${i}`));
    await sleep(20);
  }
  return out;
}

/** Holds a Workflow Task open in a local activity, then completes with the signals it has seen. */
export async function completeDespiteSignal(): Promise<number[]> {
  const seen: number[] = [];
  setHandler(addSignal, (n) => void seen.push(n));
  const local = proxyLocalActivities<typeof activities>({ startToCloseTimeout: '10s' });
  await local.record('task open');
  await local.slowEcho('x', 1_500);
  return seen;
}

// --- timers ---

export async function raceTimers(): Promise<string> {
  return await Promise.race([
    sleep('30s').then(() => 'long'),
    sleep('100ms').then(() => 'short'),
    condition(() => false).then(() => 'never'),
  ]);
}

export async function conditionTimeout(): Promise<{ timedOut: boolean; signalled: boolean }> {
  let flag = false;
  setHandler(finishSignal, () => {
    flag = true;
  });
  const early = await condition(() => flag, '100ms');
  const late = await condition(() => flag, '30s');
  return { timedOut: !early, signalled: late };
}

export async function activityOrTimer(): Promise<string> {
  return await Promise.race([slowEcho('activity', 5), sleep('30s').then(() => 'timer')]);
}

// --- continue as new ---

export async function countdown(n: number, runs: string[] = []): Promise<string[]> {
  const all = [...runs, workflowInfo().runId];
  if (n > 0) await continueAsNew<typeof countdown>(n - 1, all);
  return all;
}

/** Continues as new once when signalled; a signal sent to the chain reaches the new run. */
export async function rollover(carried: number[] = [], generation = 1): Promise<unknown> {
  const seen = [...carried];
  setHandler(addSignal, (n) => void seen.push(n));
  setHandler(totalQuery, () => generation);
  await condition(() => seen.length >= generation);
  if (generation < 3) await continueAsNew<typeof rollover>(seen, generation + 1);
  const info = workflowInfo();
  return { seen, generation, memo: info.memo, firstExecutionRunId: info.firstExecutionRunId };
}

// --- memo, search attributes, info ---

export async function memoFlow(): Promise<Record<string, unknown> | undefined> {
  upsertMemo({ added: [1, 2], replaced: 'new', removed: null });
  await sleep(10);
  return workflowInfo().memo;
}

export async function searchAttributeFlow(name: string, value: string): Promise<unknown> {
  const key = defineSearchAttributeKey(name, 'KEYWORD');
  const before = workflowInfo().typedSearchAttributes.get(key);
  upsertSearchAttributes([{ key, value }]);
  await sleep(10);
  return { before, after: workflowInfo().typedSearchAttributes.get(key) };
}

export async function whoAmI(): Promise<Record<string, unknown>> {
  const info = workflowInfo();
  log.info('who am I');
  return {
    workflowId: info.workflowId,
    runId: info.runId,
    workflowType: info.workflowType,
    taskQueue: info.taskQueue,
    namespace: info.namespace,
    attempt: info.attempt,
    memo: info.memo,
    executionTimeoutMs: info.executionTimeoutMs,
    runTimeoutMs: info.runTimeoutMs,
    taskTimeoutMs: info.taskTimeoutMs,
    historyLength: info.historyLength,
    hasHistorySize: info.historySize > 0,
    parent: info.parent,
  };
}

// --- versioning markers ---

export async function patchedFlow(): Promise<string[]> {
  const out: string[] = [];
  if (patched('change-a')) out.push(await echo('new a'));
  else out.push(await echo('old a'));
  await sleep(20);
  deprecatePatch('change-b');
  out.push(await echo('only b'));
  if (patched('change-a')) out.push('still new a');
  return out;
}

// --- whole-Workflow retry, cron, failures ---

export async function succeedsOnAttempt(wanted: number, nonRetryable = false): Promise<number> {
  const { attempt } = workflowInfo();
  if (attempt < wanted) {
    throw ApplicationFailure.create({ message: `run attempt ${attempt}`, type: 'RunFailed', nonRetryable });
  }
  return attempt;
}

/** Run 1 returns 1, run 2 fails, later runs return. Each records what it knows of the runs before. */
export async function cronFlow(): Promise<number> {
  const { lastResult, lastFailure } = workflowInfo();
  const run = await record({ lastResult, lastFailure: lastFailure?.message });
  if (run === 2) throw ApplicationFailure.nonRetryable('second run fails');
  return run;
}

export async function failWithDetails(): Promise<void> {
  throw ApplicationFailure.create({
    message: 'outer',
    type: 'OuterError',
    nonRetryable: true,
    details: [{ code: 42 }, 'second'],
    cause: ApplicationFailure.create({ message: 'inner', type: 'InnerError', details: ['deep'] }),
  });
}

/**
 * Throws a plain error, which fails the Workflow Task and not the Workflow, until the history has the events of
 * that failed task.
 */
export async function buggyAtFirst(): Promise<string> {
  if (workflowInfo().historyLength <= 3) throw new Error('bug in workflow code');
  return await echo('recovered');
}
