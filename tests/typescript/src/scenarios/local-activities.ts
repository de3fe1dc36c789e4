/** Local activities: for the server they are markers and long Workflow Tasks. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure } from '@temporalio/common';
import { records } from '../activities';
import { eventTypes, rejection, scenario, start } from '../harness';
import * as wf from '../workflows';

describe('local activities', { concurrency: 8 }, () => {
  scenario('results are recorded as markers', async () => {
    const handle = await start(wf.localActivities, []);
    assert.deepEqual(await handle.result(), { a: 'a', b: { b: 1 }, isLocal: true });
    const types = eventTypes(await handle.fetchHistory());
    assert.equal(types.filter((t) => t === 'MARKER_RECORDED').length, 3);
    assert.ok(!types.includes('ACTIVITY_TASK_SCHEDULED'));
  });

  scenario('retried in the worker', async () => {
    const handle = await start(wf.localActivityWith, [
      { failures: 2 },
      { startToCloseTimeout: '5s', retry: { initialInterval: '50ms', backoffCoefficient: 1 } },
    ]);
    assert.equal(await handle.result(), 3);
    assert.deepEqual(records.get(handle.workflowId), [1, 2, 3]);
  });

  scenario('a backoff beyond the local threshold becomes a timer', async () => {
    const handle = await start(wf.localActivityWith, [
      { failures: 1 },
      { startToCloseTimeout: '5s', localRetryThreshold: '100ms', retry: { initialInterval: '500ms' } },
    ]);
    assert.equal(await handle.result(), 2);
    assert.ok(eventTypes(await handle.fetchHistory()).includes('TIMER_FIRED'));
  });

  scenario('failure reaches the client', async () => {
    const handle = await start(wf.localActivityWith, [
      { failures: 9, nonRetryable: true, type: 'LocalFatal' },
      { startToCloseTimeout: '5s' },
    ]);
    const err = await rejection(handle.result());
    assert.ok(err instanceof WorkflowFailedError);
    // The SDK wraps it in an ActivityFailure or not, by how the local activity ended.
    const cause = err.cause instanceof ActivityFailure ? err.cause.cause : err.cause;
    assert.ok(cause instanceof ApplicationFailure);
    assert.equal(cause.type, 'LocalFatal');
    assert.equal(cause.message, 'attempt 1 failed');
    assert.deepEqual(records.get(handle.workflowId), [1]);
  });

  scenario('one longer than the workflow task timeout: the task is kept alive', async () => {
    const handle = await start(wf.longLocalActivity, [5_500], { workflowTaskTimeout: '3s' });
    assert.equal(await handle.result(), 'long local');
    const types = eventTypes(await handle.fetchHistory());
    assert.ok(!types.includes('WORKFLOW_TASK_TIMED_OUT'), types.join());
    assert.ok(types.filter((t) => t === 'WORKFLOW_TASK_COMPLETED').length >= 2, types.join());
  });
});
