/** Workflows about activities: retries, timeouts, cancellation, local activities, asynchronous completion. */
import {
  ActivityCancellationType,
  type ActivityOptions,
  CancellationScope,
  isCancellation,
  type LocalActivityOptions,
  proxyActivities,
  proxyLocalActivities,
  scheduleActivity,
  sleep,
} from '@temporalio/workflow';
import type * as activities from '../activities';
import type { FailPlan } from '../activities';

/** Calls any activity with any options; failures reach the client. */
export async function callActivity(type: string, args: unknown[], options: ActivityOptions): Promise<unknown> {
  return await scheduleActivity(type, args, options);
}

/** Waits for the signal-free moment the client cancels the Workflow, with the given cancellation type. */
export async function cancellableActivity(
  cancellationType: ActivityCancellationType,
  type: 'heartbeatUntilCancelled' | 'ignoreCancellation',
  grace: number
): Promise<unknown> {
  const acts = proxyActivities<typeof activities>({
    startToCloseTimeout: '30s',
    heartbeatTimeout: '5s',
    cancellationType,
  });
  return type === 'ignoreCancellation' ? await acts.ignoreCancellation() : await acts.heartbeatUntilCancelled(grace);
}

/** Cancels an activity from the Workflow, through a scope; the Workflow itself goes on. */
export async function cancelActivityScope(): Promise<string> {
  const acts = proxyActivities<typeof activities>({
    startToCloseTimeout: '30s',
    heartbeatTimeout: '5s',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  });
  const scope = new CancellationScope();
  const running = scope.run(() => acts.heartbeatUntilCancelled());
  await sleep(200);
  scope.cancel();
  try {
    await running;
    return 'not cancelled';
  } catch (err) {
    if (!isCancellation(err)) throw err;
    return await acts.echo('activity cancelled, workflow alive');
  }
}

export async function localActivities(): Promise<unknown> {
  const local = proxyLocalActivities<typeof activities>({ startToCloseTimeout: '10s' });
  const [a, b, self] = await Promise.all([local.echo('a'), local.echo({ b: 1 }), local.describeSelf()]);
  return { a, b, isLocal: self.isLocal };
}

export async function localActivityWith(plan: FailPlan, options: LocalActivityOptions): Promise<number> {
  return await proxyLocalActivities<typeof activities>(options).failing(plan);
}

/** A local activity that outlives the Workflow Task timeout. */
export async function longLocalActivity(ms: number): Promise<string> {
  const local = proxyLocalActivities<typeof activities>({ startToCloseTimeout: '20s' });
  return await local.slowEcho('long local', ms);
}

/** Holds its Workflow Task for as long as a local activity takes on the worker that it is stuck on. */
export async function stuckTask(worker: string): Promise<string> {
  const { stuckOn } = proxyLocalActivities<{ stuckOn(worker: string): Promise<string> }>({
    startToCloseTimeout: '10 minutes',
  });
  return await stuckOn(worker);
}

export async function callCompleteLater(options: ActivityOptions): Promise<string> {
  return await proxyActivities<typeof activities>(options).completeLater();
}
