/** Activities: retries, timeouts, heartbeats. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/common';
import { records } from '../activities';
import { eventTypes, execute, NAMESPACE, rejection, scenario, start, TASK_QUEUE, unique } from '../harness';
import * as wf from '../workflows';

/** The ActivityFailure a workflow of this suite ended with. */
async function activityFailure(promise: Promise<unknown>): Promise<ActivityFailure> {
  const err = await rejection(promise);
  assert.ok(err instanceof WorkflowFailedError, String(err));
  assert.ok(err.cause instanceof ActivityFailure, String(err.cause));
  return err.cause;
}

describe('activities', { concurrency: 8 }, () => {
  scenario('activity info', async () => {
    const handle = await start(wf.callActivity, [
      'describeSelf',
      [],
      { startToCloseTimeout: '9s', heartbeatTimeout: '8s', activityId: 'my-activity' },
    ]);
    assert.deepEqual(await handle.result(), {
      activityId: 'my-activity',
      activityType: 'describeSelf',
      attempt: 1,
      isLocal: false,
      taskQueue: TASK_QUEUE,
      workflowId: handle.workflowId,
      workflowType: 'callActivity',
      namespace: NAMESPACE,
      startToCloseTimeoutMs: 9_000,
      heartbeatTimeoutMs: 8_000,
      hasTimes: true,
    });
  });

  scenario('retried until it succeeds; the history has one started event', async () => {
    const handle = await start(wf.callActivity, [
      'failing',
      [{ failures: 3 }],
      { startToCloseTimeout: '5s', retry: { initialInterval: '50ms', backoffCoefficient: 1 } },
    ]);
    assert.equal(await handle.result(), 4);
    assert.deepEqual(records.get(handle.workflowId), [1, 2, 3, 4]);
    const history = await handle.fetchHistory();
    const begun = history.events!.filter((e) => e.activityTaskStartedEventAttributes);
    assert.equal(begun.length, 1);
    assert.equal(begun[0].activityTaskStartedEventAttributes!.attempt, 4);
    assert.equal(begun[0].activityTaskStartedEventAttributes!.lastFailure?.message, 'attempt 3 failed');
  });

  scenario('maximum attempts reached', async () => {
    const handle = await start(wf.callActivity, [
      'failing',
      [{ failures: 100, details: ['d', { n: 1 }] }],
      { startToCloseTimeout: '5s', retry: { initialInterval: '50ms', maximumAttempts: 3 } },
    ]);
    const failure = await activityFailure(handle.result());
    assert.equal(failure.activityType, 'failing');
    assert.equal(failure.retryState, 'MAXIMUM_ATTEMPTS_REACHED');
    assert.ok(failure.cause instanceof ApplicationFailure);
    assert.equal(failure.cause.message, 'attempt 3 failed');
    assert.equal(failure.cause.type, 'Flaky');
    assert.deepEqual(failure.cause.details, ['d', { n: 1 }]);
    assert.deepEqual(records.get(handle.workflowId), [1, 2, 3]);
    assert.ok(eventTypes(await handle.fetchHistory()).includes('ACTIVITY_TASK_FAILED'));
  });

  scenario('non-retryable, by the failure and by its type', async () => {
    const byFlag = await start(wf.callActivity, [
      'failing',
      [{ failures: 9, nonRetryable: true }],
      { startToCloseTimeout: '5s' },
    ]);
    const flagged = await activityFailure(byFlag.result());
    assert.equal(flagged.retryState, 'NON_RETRYABLE_FAILURE');
    assert.equal((flagged.cause as ApplicationFailure).nonRetryable, true);
    assert.deepEqual(records.get(byFlag.workflowId), [1]);

    const byType = await start(wf.callActivity, [
      'failing',
      [{ failures: 9, type: 'Fatal' }],
      { startToCloseTimeout: '5s', retry: { nonRetryableErrorTypes: ['Fatal'] } },
    ]);
    assert.equal((await activityFailure(byType.result())).retryState, 'NON_RETRYABLE_FAILURE');
    assert.deepEqual(records.get(byType.workflowId), [1]);
  });

  scenario('nextRetryDelay overrides the retry policy, shorter and longer', async () => {
    const begin = Date.now();
    const shorter = await execute(wf.callActivity, [
      'failing',
      [{ failures: 2, nextRetryDelay: 100 }],
      { startToCloseTimeout: '5s', retry: { initialInterval: '1h' } },
    ]);
    assert.equal(shorter, 3);
    const middle = Date.now();
    assert.ok(middle - begin < 10_000);
    const longer = await execute(wf.callActivity, [
      'failing',
      [{ failures: 1, nextRetryDelay: 1_500 }],
      { startToCloseTimeout: '5s', retry: { initialInterval: '20ms' } },
    ]);
    assert.equal(longer, 2);
    assert.ok(Date.now() - middle >= 1_400, `${Date.now() - middle} ms`);
  });

  scenario('a plain error becomes an ApplicationFailure of its name', async () => {
    const failure = await activityFailure(
      execute(wf.callActivity, [
        'throwPlainError',
        ['no such thing'],
        { startToCloseTimeout: '5s', retry: { maximumAttempts: 1 } },
      ])
    );
    assert.ok(failure.cause instanceof ApplicationFailure);
    assert.equal(failure.cause.type, 'TypeError');
    assert.equal(failure.cause.message, 'no such thing');
    assert.match(failure.cause.stack ?? '', /throwPlainError/);
  });

  scenario('heartbeat timeout; the next attempt gets the heartbeat details', async () => {
    const result = await execute(wf.callActivity, [
      'resumeFromHeartbeat',
      [],
      { startToCloseTimeout: '20s', heartbeatTimeout: '1500ms', retry: { initialInterval: '50ms' } },
    ]);
    assert.deepEqual(result, { attempt: 2, details: { progress: 7, page: 'p-7' } });
  });

  scenario('heartbeat timeout without retries carries the last details', async () => {
    const failure = await activityFailure(
      execute(wf.callActivity, [
        'resumeFromHeartbeat',
        [],
        { startToCloseTimeout: '20s', heartbeatTimeout: '1500ms', retry: { maximumAttempts: 1 } },
      ])
    );
    assert.ok(failure.cause instanceof TimeoutFailure);
    assert.equal(failure.cause.timeoutType, 'HEARTBEAT');
    assert.deepEqual(failure.cause.lastHeartbeatDetails, { progress: 7, page: 'p-7' });
  });

  scenario('start-to-close timeout', async () => {
    const handle = await start(wf.callActivity, [
      'hang',
      [2_500],
      { startToCloseTimeout: '500ms', retry: { maximumAttempts: 2, initialInterval: '50ms' } },
    ]);
    const failure = await activityFailure(handle.result());
    assert.ok(failure.cause instanceof TimeoutFailure);
    assert.equal(failure.cause.timeoutType, 'START_TO_CLOSE');
    assert.deepEqual(records.get(handle.workflowId), ['hang 1', 'hang 2']);
    assert.ok(eventTypes(await handle.fetchHistory()).includes('ACTIVITY_TASK_TIMED_OUT'));
  });

  scenario('schedule-to-start timeout on a queue that no worker serves', async () => {
    const failure = await activityFailure(
      execute(wf.callActivity, [
        'echo',
        [1],
        { taskQueue: unique('nobody'), scheduleToStartTimeout: '400ms', startToCloseTimeout: '5s' },
      ])
    );
    assert.ok(failure.cause instanceof TimeoutFailure);
    assert.equal(failure.cause.timeoutType, 'SCHEDULE_TO_START');
  });

  scenario('schedule-to-close timeout ends the retries', async () => {
    const begin = Date.now();
    const failure = await activityFailure(
      execute(wf.callActivity, [
        'failing',
        [{ failures: 1_000 }],
        { scheduleToCloseTimeout: '1s', retry: { initialInterval: '200ms', backoffCoefficient: 1 } },
      ])
    );
    assert.ok(Date.now() - begin < 8_000);
    assert.ok(failure.cause instanceof ApplicationFailure || failure.cause instanceof TimeoutFailure);
    assert.equal(failure.retryState, 'TIMEOUT');
  });
});
