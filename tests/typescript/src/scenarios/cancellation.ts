/** Cancelling and terminating Workflows, and what cancellation does to timers and activities. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client';
import { CancelledFailure, TerminatedFailure } from '@temporalio/common';
import { ActivityCancellationType, isCancellation } from '@temporalio/workflow';
import { records } from '../activities';
import { eventTypes, eventually, execute, hasEvent, rejection, scenario, start, statusOf } from '../harness';
import * as wf from '../workflows';

describe('cancellation and termination', { concurrency: 8 }, () => {
  scenario('cancel a waiting workflow', async () => {
    const handle = await start(wf.waitForever, []);
    await handle.cancel();
    await handle.cancel(); // a second request is not an error
    const err = await rejection(handle.result());
    assert.ok(err instanceof WorkflowFailedError);
    assert.ok(err.cause instanceof CancelledFailure);
    assert.equal(await statusOf(handle), 'CANCELLED');
    const types = eventTypes(await handle.fetchHistory());
    assert.equal(types.filter((t) => t === 'WORKFLOW_EXECUTION_CANCEL_REQUESTED').length, 1);
    assert.equal(types.at(-1), 'WORKFLOW_EXECUTION_CANCELED');
  });

  scenario('CancellationScope.nonCancellable: cleanup activity after a cancellation', async () => {
    const handle = await start(wf.cleanUpWhenCancelled, []);
    await eventually('the timer', () => hasEvent(handle, 'TIMER_STARTED'));
    await handle.cancel();
    const err = await rejection(handle.result());
    assert.ok(err.cause instanceof CancelledFailure);
    assert.deepEqual(records.get(handle.workflowId), ['cleanup', 'cleanup done']);
    assert.ok(await hasEvent(handle, 'TIMER_CANCELED'));
  });

  scenario('a workflow may swallow the cancellation', async () => {
    const handle = await start(wf.swallowCancellation, []);
    await eventually('the timer', () => hasEvent(handle, 'TIMER_STARTED'));
    await handle.cancel();
    assert.equal(await handle.result(), 'swallowed');
    assert.equal(await statusOf(handle), 'COMPLETED');
  });

  scenario('a workflow shielded from cancellation goes on', async () => {
    const handle = await start(wf.shieldedFromCancellation, []);
    await handle.cancel();
    await eventually('the cancel task', async () => (await handle.describe()).historyLength >= 5);
    await handle.signal(wf.releaseSignal);
    assert.equal(await handle.result(), 'shielded');
  });

  scenario('a scope timeout cancels its timer only', async () => {
    assert.equal(await execute(wf.scopeTimeout, []), 'scope timed out');
  });

  scenario('cancel an activity that heartbeats, waiting for it', async () => {
    const handle = await start(wf.cancellableActivity, [
      ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
      'heartbeatUntilCancelled',
      300,
    ]);
    await eventually('a heartbeat', async () => (await handle.describe()).raw.pendingActivities?.[0]?.heartbeatDetails);
    await handle.cancel();
    const err = await rejection(handle.result());
    assert.ok(isCancellation(err.cause));
    assert.deepEqual(records.get(handle.workflowId), ['cancelled: CANCELLED', 'cleaned up']);
    assert.equal(await statusOf(handle), 'CANCELLED');
    const types = eventTypes(await handle.fetchHistory());
    assert.ok(types.includes('ACTIVITY_TASK_CANCEL_REQUESTED'));
    assert.ok(types.includes('ACTIVITY_TASK_CANCELED'));
  });

  scenario('cancel an activity with TRY_CANCEL: the workflow does not wait', async () => {
    const handle = await start(wf.cancellableActivity, [
      ActivityCancellationType.TRY_CANCEL,
      'heartbeatUntilCancelled',
      2_500,
    ]);
    await eventually('a heartbeat', async () => (await handle.describe()).raw.pendingActivities?.[0]?.heartbeatDetails);
    await handle.cancel();
    assert.ok(isCancellation((await rejection(handle.result())).cause));
    assert.ok(!(records.get(handle.workflowId) ?? []).includes('cleaned up'));
    assert.ok(!(await hasEvent(handle, 'ACTIVITY_TASK_CANCELED')));
    await eventually('the activity to notice', () => records.get(handle.workflowId)?.includes('cleaned up'));
  });

  scenario('an activity that finishes in spite of the cancellation', async () => {
    const handle = await start(wf.cancellableActivity, [
      ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
      'ignoreCancellation',
      0,
    ]);
    await eventually('a heartbeat', async () => (await handle.describe()).raw.pendingActivities?.[0]?.heartbeatDetails);
    await handle.cancel();
    assert.equal(await handle.result(), 'finished anyway');
    assert.ok(await hasEvent(handle, 'ACTIVITY_TASK_COMPLETED'));
  });

  scenario('a workflow cancels its own activity and goes on', async () => {
    const handle = await start(wf.cancelActivityScope, []);
    assert.equal(await handle.result(), 'activity cancelled, workflow alive');
  });

  scenario('terminate with a reason', async () => {
    const handle = await start(wf.waitForever, []);
    await handle.terminate('enough');
    const err = await rejection(handle.result());
    assert.ok(err instanceof WorkflowFailedError);
    assert.ok(err.cause instanceof TerminatedFailure);
    assert.equal(err.cause.message, 'enough');
    assert.equal(await statusOf(handle), 'TERMINATED');
    const last = (await handle.fetchHistory()).events!.at(-1)!;
    assert.equal(last.workflowExecutionTerminatedEventAttributes!.reason, 'enough');
    assert.ok((await rejection(handle.terminate())) instanceof WorkflowNotFoundError);
  });

  scenario('terminate while an activity runs', async () => {
    const handle = await start(wf.callActivity, [
      'heartbeatUntilCancelled',
      [],
      { startToCloseTimeout: '30s', heartbeatTimeout: '5s' },
    ]);
    await eventually('a heartbeat', async () => (await handle.describe()).raw.pendingActivities?.[0]?.heartbeatDetails);
    await handle.terminate();
    assert.ok((await rejection(handle.result())).cause instanceof TerminatedFailure);
    // The activity learns of it through its next heartbeat.
    await eventually('the activity to stop', () => records.get(handle.workflowId)?.includes('cleaned up'));
  });
});
