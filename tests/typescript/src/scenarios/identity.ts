/** Workflow ids: reuse and conflict policies. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowExecutionAlreadyStartedError, type WorkflowStartOptions } from '@temporalio/client';
import { client, execute, rejection, scenario, start, statusOf, TASK_QUEUE, unique } from '../harness';
import * as wf from '../workflows';

type Options = Partial<WorkflowStartOptions>;

describe('workflow ids', { concurrency: 8 }, () => {
  scenario('conflict policy FAIL, the default', async () => {
    const workflowId = unique('conflict');
    const first = await start(wf.waitForever, [], { workflowId });
    for (const extra of [{}, { workflowIdConflictPolicy: 'FAIL' }] as Options[]) {
      const err = await rejection(client.workflow.start(wf.greet, { workflowId, taskQueue: TASK_QUEUE, args: ['x'], ...extra } as never));
      assert.ok(err instanceof WorkflowExecutionAlreadyStartedError);
      assert.equal(err.workflowId, workflowId);
    }
    assert.equal(await statusOf(first), 'RUNNING');
    await first.terminate();
  });

  scenario('conflict policy USE_EXISTING', async () => {
    const workflowId = unique('conflict');
    const first = await start(wf.counter, [1], { workflowId });
    const second = await start(wf.counter, [100], { workflowId, workflowIdConflictPolicy: 'USE_EXISTING' });
    assert.equal(second.firstExecutionRunId, first.firstExecutionRunId);
    assert.equal(await second.query(wf.totalQuery), 1);
    await first.terminate();
  });

  scenario('conflict policy TERMINATE_EXISTING', async () => {
    const workflowId = unique('conflict');
    const first = await start(wf.waitForever, [], { workflowId });
    const second = await start(wf.greet, ['next'], { workflowId, workflowIdConflictPolicy: 'TERMINATE_EXISTING' });
    assert.notEqual(second.firstExecutionRunId, first.firstExecutionRunId);
    assert.equal(await second.result(), 'Hello, next!');
    assert.equal(await statusOf(client.workflow.getHandle(workflowId, first.firstExecutionRunId)), 'TERMINATED');
  });

  scenario('reuse policy ALLOW_DUPLICATE, the default', async () => {
    const workflowId = unique('reuse');
    assert.equal(await execute(wf.greet, ['1'], { workflowId }), 'Hello, 1!');
    assert.equal(await execute(wf.greet, ['2'], { workflowId }), 'Hello, 2!');
    const again = { workflowId, workflowIdReusePolicy: 'ALLOW_DUPLICATE' } as const;
    assert.equal(await execute(wf.greet, ['3'], again), 'Hello, 3!');
  });

  scenario('reuse policy REJECT_DUPLICATE', async () => {
    const workflowId = unique('reuse');
    await execute(wf.greet, ['1'], { workflowId });
    const err = await rejection(start(wf.greet, ['2'], { workflowId, workflowIdReusePolicy: 'REJECT_DUPLICATE' }));
    assert.ok(err instanceof WorkflowExecutionAlreadyStartedError);
  });

  scenario('reuse policy ALLOW_DUPLICATE_FAILED_ONLY', async () => {
    const workflowId = unique('reuse');
    const policy = { workflowId, workflowIdReusePolicy: 'ALLOW_DUPLICATE_FAILED_ONLY' } as const;
    await rejection(execute(wf.failWithDetails, [], policy));
    assert.equal(await execute(wf.greet, ['after failure'], policy), 'Hello, after failure!');
    const err = await rejection(start(wf.greet, ['after success'], policy));
    assert.ok(err instanceof WorkflowExecutionAlreadyStartedError);
  });
});
