/** How Workflow failures and timeouts look at the client, and failed Workflow Tasks. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, TimeoutFailure } from '@temporalio/common';
import { temporal } from '@temporalio/proto';
import { eventTypes, rejection, scenario, start, statusOf, unique } from '../harness';
import * as wf from '../workflows';

describe('workflow failures', { concurrency: 8 }, () => {
  scenario('ApplicationFailure with type, details and cause', async () => {
    const handle = await start(wf.failWithDetails, []);
    const err = await rejection(handle.result());
    assert.ok(err instanceof WorkflowFailedError);
    const failure = err.cause;
    assert.ok(failure instanceof ApplicationFailure);
    assert.equal(failure.message, 'outer');
    assert.equal(failure.type, 'OuterError');
    assert.equal(failure.nonRetryable, true);
    assert.deepEqual(failure.details, [{ code: 42 }, 'second']);
    const inner = failure.cause;
    assert.ok(inner instanceof ApplicationFailure);
    assert.equal(inner.message, 'inner');
    assert.equal(inner.type, 'InnerError');
    assert.deepEqual(inner.details, ['deep']);
    assert.equal(await statusOf(handle), 'FAILED');
  });

  scenario('run timeout and execution timeout', async () => {
    for (const options of [{ workflowRunTimeout: '1s' }, { workflowExecutionTimeout: '1s' }] as const) {
      const handle = await start(wf.waitForever, [], options);
      const err = await rejection(handle.result());
      assert.ok(err instanceof WorkflowFailedError);
      assert.ok(err.cause instanceof TimeoutFailure);
      assert.equal(err.cause.timeoutType, 'START_TO_CLOSE');
      assert.equal(await statusOf(handle), 'TIMED_OUT');
    }
  });

  scenario('a workflow that no worker takes times out', async () => {
    const handle = await start(wf.greet, ['x'], { taskQueue: unique('nobody'), workflowRunTimeout: '1s' });
    const err = await rejection(handle.result());
    assert.ok(err.cause instanceof TimeoutFailure);
    assert.deepEqual(eventTypes(await handle.fetchHistory()), [
      'WORKFLOW_EXECUTION_STARTED',
      'WORKFLOW_TASK_SCHEDULED',
      'WORKFLOW_EXECUTION_TIMED_OUT',
    ]);
  });

  scenario('a plain error fails the workflow task, not the workflow, which then recovers', async () => {
    const handle = await start(wf.buggyAtFirst, []);
    assert.equal(await handle.result(), 'recovered');
    const history = await handle.fetchHistory();
    const failed = history.events!.filter((e) => e.workflowTaskFailedEventAttributes);
    assert.equal(failed.length, 1);
    const attributes = failed[0].workflowTaskFailedEventAttributes!;
    assert.equal(attributes.failure?.message, 'bug in workflow code');
    assert.equal(
      attributes.cause,
      temporal.api.enums.v1.WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE
    );
    assert.equal(eventTypes(history).at(-1), 'WORKFLOW_EXECUTION_COMPLETED');
  });
});
