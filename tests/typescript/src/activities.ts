/**
 * Activities of the suite. They run in the tests' own process, so the exported maps let a test see what an
 * activity saw and let an activity wait for a test.
 */
import {
  ApplicationFailure,
  activityInfo,
  CancelledFailure,
  CompleteAsyncError,
  Context,
  heartbeat,
  sleep,
} from '@temporalio/activity';
import { setTimeout as delay } from 'node:timers/promises';

/** Task token of the activity that `completeLater` left open, by Workflow id. */
export const openTokens = new Map<string, Uint8Array>();
/** Values recorded by `record`, by Workflow id. */
export const records = new Map<string, unknown[]>();

function workflowId(): string {
  return activityInfo().workflowExecution!.workflowId;
}

function note(value: unknown): void {
  const id = workflowId();
  records.set(id, [...(records.get(id) ?? []), value]);
}

export async function echo<T>(value: T): Promise<T> {
  return value;
}

export async function record(value: unknown): Promise<number> {
  note(value);
  return records.get(workflowId())!.length;
}

export async function attemptNumber(): Promise<number> {
  return activityInfo().attempt;
}

export async function slowEcho<T>(value: T, ms: number): Promise<T> {
  await delay(ms);
  return value;
}

export interface FailPlan {
  /** Attempts that fail before one succeeds. */
  failures: number;
  type?: string;
  nonRetryable?: boolean;
  nextRetryDelay?: number;
  details?: unknown[];
}

export async function failing(plan: FailPlan): Promise<number> {
  const { attempt } = activityInfo();
  note(attempt);
  if (attempt <= plan.failures) {
    throw ApplicationFailure.create({
      message: `attempt ${attempt} failed`,
      type: plan.type ?? 'Flaky',
      nonRetryable: plan.nonRetryable,
      nextRetryDelay: plan.nextRetryDelay,
      details: plan.details,
    });
  }
  return attempt;
}

export async function throwPlainError(message: string): Promise<void> {
  throw new TypeError(message);
}

/** Heartbeats until it is cancelled; `grace` ms later it reports the cancellation. */
export async function heartbeatUntilCancelled(grace = 0): Promise<void> {
  try {
    for (let beat = 1; ; beat++) {
      heartbeat(beat);
      await sleep(50);
    }
  } catch (err) {
    if (!(err instanceof CancelledFailure)) throw err;
    note(`cancelled: ${err.message}`);
    if (grace) await delay(grace);
    note('cleaned up');
    throw err;
  }
}

/** Heartbeats until it is cancelled, then returns a value all the same. */
export async function ignoreCancellation(): Promise<string> {
  try {
    for (let beat = 1; ; beat++) {
      heartbeat(beat);
      await sleep(50);
    }
  } catch (err) {
    if (!(err instanceof CancelledFailure)) throw err;
    return 'finished anyway';
  }
}

/** First attempt: one heartbeat with details, then silence. Second: returns the details it finds. */
export async function resumeFromHeartbeat(): Promise<{ attempt: number; details: unknown }> {
  const { attempt, heartbeatDetails } = activityInfo();
  if (attempt === 1) {
    heartbeat({ progress: 7, page: 'p-7' });
    await Promise.race([Context.current().cancelled.catch(() => undefined), delay(6_000)]);
    throw new Error('the heartbeat timeout should have come first');
  }
  return { attempt, details: heartbeatDetails };
}

/** Runs until cancelled or for `ms`; attempts after the first for `laterMs`. */
export async function hang(ms: number, laterMs = ms): Promise<void> {
  const { attempt } = activityInfo();
  note(`hang ${attempt}`);
  await sleep(attempt === 1 ? ms : laterMs);
}

/** Leaves the activity open for a client to complete. */
export async function completeLater(): Promise<string> {
  openTokens.set(workflowId(), activityInfo().taskToken);
  throw new CompleteAsyncError();
}

export async function describeSelf(): Promise<Record<string, unknown>> {
  const info = activityInfo();
  return {
    activityId: info.activityId,
    activityType: info.activityType,
    attempt: info.attempt,
    isLocal: info.isLocal,
    taskQueue: info.taskQueue,
    workflowId: info.workflowExecution?.workflowId,
    workflowType: info.workflowType,
    namespace: info.workflowNamespace,
    startToCloseTimeoutMs: info.startToCloseTimeoutMs,
    heartbeatTimeoutMs: info.heartbeatTimeoutMs,
    hasTimes: info.scheduledTimestampMs > 0 && info.currentAttemptScheduledTimestampMs > 0,
  };
}
