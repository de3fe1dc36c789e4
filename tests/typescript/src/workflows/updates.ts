/** Workflows that take updates. */
import {
  allHandlersFinished,
  condition,
  continueAsNew,
  defineQuery,
  defineSignal,
  defineUpdate,
  executeChild,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  sleep,
} from '@temporalio/workflow';
import { ApplicationFailure } from '@temporalio/common';
import type * as activities from '../activities';
import { greet } from './basic';

const { record } = proxyActivities<typeof activities>({ startToCloseTimeout: '20s' });
const local = proxyLocalActivities<typeof activities>({ startToCloseTimeout: '20s' });

/** Validated: negative numbers are refused. Answers with the number of entries. */
export const putUpdate = defineUpdate<number, [number]>('put');
/** Accepted at once, answered after the signal `release`. */
export const putWhenReleasedUpdate = defineUpdate<number, [number]>('putWhenReleased');
/** Answered after an activity, a local activity, a timer and a child. */
export const workUpdate = defineUpdate<unknown, [string]>('work');
/** Accepted, then fails. */
export const failUpdate = defineUpdate<void, [string]>('fail');
/** Ends the Workflow, and answers in the same Workflow Task. */
export const closeUpdate = defineUpdate<string>('close');

export const entrySignal = defineSignal<[number]>('entry');
export const openGateSignal = defineSignal('openGate');
export const endSignal = defineSignal('end');
export const rollSignal = defineSignal('roll');
export const entriesQuery = defineQuery<number[]>('entries');
export const generationQuery = defineQuery<number>('generation');

/**
 * Entries that updates and signals make, in order. Ends, or continues as new with its entries, without waiting for
 * handlers unless `patient`.
 */
export async function ledger(carried: number[] = [], generation = 1, patient = false): Promise<number[]> {
  const entries = [...carried];
  let gate = false;
  let ended = false;
  let roll = false;
  // Before the updates, so that a first Workflow Task that brings both handles signals first.
  setHandler(entrySignal, (n) => void entries.push(n));
  setHandler(openGateSignal, () => {
    gate = true;
  });
  setHandler(endSignal, () => {
    ended = true;
  });
  setHandler(rollSignal, () => {
    roll = true;
  });
  setHandler(
    putUpdate,
    (n) => {
      entries.push(n);
      return entries.length;
    },
    {
      validator: (n) => {
        if (n < 0) {
          throw ApplicationFailure.create({ message: `${n} is negative`, type: 'Negative', details: [n] });
        }
      },
    }
  );
  setHandler(putWhenReleasedUpdate, async (n) => {
    await condition(() => gate);
    entries.push(n);
    return entries.length;
  });
  setHandler(workUpdate, async (word) => {
    const nth = await record(word);
    const loud = await local.slowEcho(word.toUpperCase(), 10);
    await sleep(20);
    const greeting = await executeChild(greet, { args: [word] });
    entries.push(nth);
    return { nth, loud, greeting };
  });
  setHandler(failUpdate, async (message) => {
    await sleep(1);
    throw ApplicationFailure.create({ message, type: 'OnPurpose', details: [{ code: 7 }] });
  });
  setHandler(closeUpdate, () => {
    ended = true;
    return `closed with ${entries.length}`;
  });
  setHandler(entriesQuery, () => entries);
  setHandler(generationQuery, () => generation);
  await condition(() => ended || roll);
  if (patient) await condition(allHandlersFinished);
  if (!ended) await continueAsNew<typeof ledger>(entries, generation + 1, patient);
  return entries;
}

/**
 * Holds a Workflow Task open in a local activity, then closes the first run with it: `complete`, `fail`, or
 * `continue`, which goes on as a ledger.
 */
export async function closeUnderUpdate(how: 'complete' | 'fail' | 'continue', generation = 1): Promise<number[]> {
  if (generation > 1) return await ledger([], generation);
  setHandler(putUpdate, () => -1);
  let begin = false;
  setHandler(openGateSignal, () => {
    begin = true;
  });
  await condition(() => begin);
  await local.record('task open');
  await local.slowEcho('x', 1_500);
  if (how === 'continue') await continueAsNew<typeof closeUnderUpdate>(how, generation + 1);
  if (how === 'fail') throw ApplicationFailure.nonRetryable('closed by failure');
  return [];
}
