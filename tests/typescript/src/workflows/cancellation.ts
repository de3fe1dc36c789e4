import {
  CancellationScope,
  condition,
  defineSignal,
  isCancellation,
  proxyActivities,
  setHandler,
  sleep,
} from '@temporalio/workflow';
import type * as activities from '../activities';

const { record } = proxyActivities<typeof activities>({ startToCloseTimeout: '20s' });

/** On cancellation, runs a cleanup activity in a non-cancellable scope and ends as cancelled. */
export async function cleanUpWhenCancelled(): Promise<void> {
  try {
    await sleep('1 hour');
  } catch (err) {
    if (!isCancellation(err)) throw err;
    await CancellationScope.nonCancellable(async () => {
      await record('cleanup');
      await sleep(50);
      await record('cleanup done');
    });
    throw err;
  }
}

/** A cancellation that the Workflow swallows: it completes. */
export async function swallowCancellation(): Promise<string> {
  try {
    await condition(() => false, '1 hour');
    return 'not cancelled';
  } catch (err) {
    if (!isCancellation(err)) throw err;
    return 'swallowed';
  }
}

/** Everything runs in a non-cancellable scope, so a cancellation request changes nothing. */
export async function shieldedFromCancellation(): Promise<string> {
  let released = false;
  setHandler(releaseSignal, () => {
    released = true;
  });
  return await CancellationScope.nonCancellable(async () => {
    await condition(() => released);
    await sleep(20);
    return CancellationScope.current().consideredCancelled ? 'cancelled' : 'shielded';
  });
}

export const releaseSignal = defineSignal('release');

/** A scope with a timeout: the timer of the scope fires and cancels the inner timer. */
export async function scopeTimeout(): Promise<string> {
  try {
    await CancellationScope.withTimeout(100, () => sleep('1 hour'));
    return 'not cancelled';
  } catch (err) {
    if (!isCancellation(err)) throw err;
    return 'scope timed out';
  }
}
