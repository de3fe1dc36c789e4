/** Child Workflows and external Workflows. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, ChildWorkflowFailure } from '@temporalio/common';
import { ChildWorkflowCancellationType, isCancellation, ParentClosePolicy } from '@temporalio/workflow';
import { records } from '../activities';
import {
  client,
  eventTypes,
  eventually,
  execute,
  hasEvent,
  NAMESPACE,
  rejection,
  scenario,
  start,
  statusOf,
  unique,
} from '../harness';
import * as wf from '../workflows';

describe('child workflows', { concurrency: 8 }, () => {
  scenario('result, parent info and memo', async () => {
    const childId = unique('child');
    const parent = await start(wf.parentOfGreet, [childId]);
    assert.deepEqual(await parent.result(), {
      greeting: 'Hello, child!',
      parent: { workflowId: parent.workflowId, runId: parent.firstExecutionRunId, namespace: NAMESPACE },
      memo: { from: 'parent' },
    });
    const child = await client.workflow.getHandle(childId).describe();
    assert.equal(child.parentExecution?.workflowId, parent.workflowId);
    assert.deepEqual(
      eventTypes(await parent.fetchHistory()).filter((t) => t.includes('CHILD')).slice(0, 3),
      [
        'START_CHILD_WORKFLOW_EXECUTION_INITIATED',
        'CHILD_WORKFLOW_EXECUTION_STARTED',
        'CHILD_WORKFLOW_EXECUTION_COMPLETED',
      ]
    );
  });

  scenario('10 children at once', async () => {
    const results = await execute(wf.parentOfMany, [10]);
    assert.deepEqual(results, Array.from({ length: 10 }, (_, i) => `Hello, #${i}!`));
  });

  scenario('a child failure ends the parent and reaches the client whole', async () => {
    const childId = unique('child');
    const err = await rejection(execute(wf.parentOfFailure, [childId]));
    assert.ok(err instanceof WorkflowFailedError);
    const failure = err.cause;
    assert.ok(failure instanceof ChildWorkflowFailure);
    assert.equal(failure.workflowType, 'failWithDetails');
    assert.equal(failure.execution.workflowId, childId);
    assert.ok(failure.cause instanceof ApplicationFailure);
    assert.equal(failure.cause.type, 'OuterError');
    assert.deepEqual(failure.cause.details, [{ code: 42 }, 'second']);
    assert.equal((failure.cause.cause as ApplicationFailure).type, 'InnerError');
  });

  scenario('a child that is terminated', async () => {
    const childId = unique('child');
    const parent = await start(wf.observeChild, ['waitForever', [], { workflowId: childId }]);
    await eventually('the child', () => hasEvent(parent, 'CHILD_WORKFLOW_EXECUTION_STARTED'));
    await client.workflow.getHandle(childId).terminate('gone');
    const seen = (await parent.result()) as Record<string, unknown>;
    assert.equal(seen.name, 'ChildWorkflowFailure');
    assert.equal(seen.workflowId, childId);
    assert.equal(seen.cause, 'TerminatedFailure');
    assert.ok(await hasEvent(parent, 'CHILD_WORKFLOW_EXECUTION_TERMINATED'));
  });

  scenario('a child that times out', async () => {
    const parent = await start(wf.observeChild, [
      'waitForever',
      [],
      { workflowId: unique('child'), workflowRunTimeout: '1s' },
    ]);
    const seen = (await parent.result()) as Record<string, unknown>;
    assert.equal(seen.cause, 'TimeoutFailure');
    assert.ok(await hasEvent(parent, 'CHILD_WORKFLOW_EXECUTION_TIMED_OUT'));
  });

  scenario('a child with a retry policy, and one that continues as new', async () => {
    const retried = await execute(wf.observeChild, [
      'succeedsOnAttempt',
      [3],
      { workflowId: unique('child'), retry: { initialInterval: '50ms', backoffCoefficient: 1 } },
    ]);
    assert.deepEqual(retried, { result: 3 });
    const continued = (await execute(wf.observeChild, ['countdown', [2], { workflowId: unique('child') }])) as {
      result: string[];
    };
    assert.equal(new Set(continued.result).size, 3);
  });

  scenario('a child id that is taken', async () => {
    const childId = unique('child');
    const parent = await start(wf.startTwice, [childId]);
    assert.deepEqual(await parent.result(), { name: 'WorkflowExecutionAlreadyStartedError', workflowId: childId });
    assert.ok(await hasEvent(parent, 'START_CHILD_WORKFLOW_EXECUTION_FAILED'));
  });

  scenario('signals to a child', async () => {
    assert.deepEqual(await execute(wf.signalChild, [unique('child')]), { total: 103, seen: [1, 2] });
  });

  scenario('parent close policies: TERMINATE, ABANDON, REQUEST_CANCEL', async () => {
    const ends = { TERMINATE: 'TERMINATED', ABANDON: 'COMPLETED', REQUEST_CANCEL: 'CANCELLED' } as const;
    await Promise.all(
      Object.entries(ends).map(async ([policy, end]) => {
        const childId = unique(`child-${policy.toLowerCase()}`);
        // Only the abandoned child gets to its end.
        const ms = policy === 'ABANDON' ? 1_500 : 60_000;
        const runId = await execute(wf.leaveChild, [childId, policy as ParentClosePolicy, ms]);
        const child = client.workflow.getHandle(childId, runId);
        const status = await eventually(`the end of the ${policy} child`, async () => {
          const now = await statusOf(child);
          return now !== 'RUNNING' && now;
        });
        assert.equal(status, end, policy);
      })
    );
  });

  scenario('cancelling the parent cancels the child and waits for its cleanup', async () => {
    const childId = unique('child');
    const parent = await start(wf.waitForChild, [
      childId,
      ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
      'cleanUpWhenCancelled',
    ]);
    const child = client.workflow.getHandle(childId);
    await eventually('the child', () => hasEvent(parent, 'CHILD_WORKFLOW_EXECUTION_STARTED'));
    await eventually('its timer', () => hasEvent(child, 'TIMER_STARTED'));
    await parent.cancel();
    const err = await rejection(parent.result());
    assert.ok(isCancellation(err.cause));
    assert.equal(await statusOf(parent), 'CANCELLED');
    assert.equal(await statusOf(child), 'CANCELLED');
    assert.deepEqual(records.get(childId), ['cleanup', 'cleanup done']);
    assert.ok(await hasEvent(parent, 'CHILD_WORKFLOW_EXECUTION_CANCELED'));
  });

  scenario('a parent cancels its child and goes on', async () => {
    const childId = unique('child');
    assert.equal(await execute(wf.cancelChildScope, [childId]), 'child cancelled');
    assert.equal(await statusOf(client.workflow.getHandle(childId)), 'CANCELLED');
  });
});

describe('external workflows', { concurrency: 8 }, () => {
  scenario('signal another workflow', async () => {
    const target = await start(wf.counter, [1]);
    const sender = await start(wf.signalExternal, [target.workflowId, 41]);
    assert.equal(await sender.result(), 'signalled');
    assert.deepEqual(await target.result(), { total: 42, seen: [41] });
    const types = eventTypes(await sender.fetchHistory());
    assert.equal(types.filter((t) => t === 'SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED').length, 2);
    assert.equal(types.filter((t) => t === 'EXTERNAL_WORKFLOW_EXECUTION_SIGNALED').length, 2);
  });

  scenario('cancel another workflow', async () => {
    const target = await start(wf.waitForever, []);
    const sender = await start(wf.cancelExternal, [target.workflowId]);
    assert.equal(await sender.result(), 'requested');
    assert.ok((await rejection(target.result())).cause instanceof CancelledFailure);
    assert.ok(await hasEvent(sender, 'EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED'));
  });

  scenario('signal and cancel a workflow that does not exist', async () => {
    const sender = await start(wf.reachMissing, [unique('missing')]);
    const seen = await sender.result();
    assert.notEqual(seen.signal, 'no error');
    assert.notEqual(seen.cancel, 'no error');
    const types = eventTypes(await sender.fetchHistory());
    assert.ok(types.includes('SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED'));
    assert.ok(types.includes('REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED'));
  });
});
