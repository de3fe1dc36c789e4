/** Scripts of the server whose tasks and children this SDK's Worker carries out. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { records } from '../activities';
import {
  client,
  deploy,
  eventTypes,
  eventually,
  execute,
  httpAddress,
  rejection,
  scenario,
  TASK_QUEUE,
  unique,
} from '../harness';
import * as wf from '../workflows';

/** Starts a deployed script, whose tasks go to the shared Worker. */
async function run(name: string, ...args: unknown[]) {
  return await client.workflow.start(name, { taskQueue: TASK_QUEUE, workflowId: unique(name), args });
}

describe('scripts', { concurrency: 8 }, () => {
  scenario('tasks: values, parallel calls, an activity that sees its workflow', async (t) => {
    if (!httpAddress) return t.skip('no HTTP address');
    await deploy(`workflow ts_tasks(inputs) {
      const one = await Task.run("echo", inputs)
      const many = await Task.map(List.range(5), async n => await Task.run("echo", n * n))
      const self = await Task.run("describeSelf")
      return { one, many, type: self.workflowType, attempt: self.attempt, queue: self.taskQueue }
    }`);
    const handle = await run('ts_tasks', { name: 'ä', list: [1, null, true] });
    assert.deepEqual(await handle.result(), {
      one: { name: 'ä', list: [1, null, true] },
      many: [0, 1, 4, 9, 16],
      type: 'ts_tasks',
      attempt: 1,
      queue: TASK_QUEUE,
    });
    const types = eventTypes(await handle.fetchHistory());
    assert.equal(types.filter((type) => type === 'ACTIVITY_TASK_COMPLETED').length, 7);
  });

  scenario('a task is retried, and its last failure is caught by its type', async (t) => {
    if (!httpAddress) return t.skip('no HTTP address');
    await deploy(`workflow ts_failures() {
      const retry = { initial_interval: "10ms" }
      const attempts = await Task.run("failing", { failures: 2 }, { retry })
      try {
        await Task.run("failing", { failures: 9, type: "Broken", nonRetryable: true, details: [7] })
      } catch (e) {
        return { attempts, type: e.type, message: e.message, details: e.details }
      }
    }`);
    const handle = await run('ts_failures');
    assert.deepEqual(await handle.result(), { attempts: 3, type: 'Broken', message: 'attempt 1 failed', details: 7 });
    assert.deepEqual(records.get(handle.workflowId), [1, 2, 3, 1]);
  });

  scenario('a failure that no code catches ends the script', async (t) => {
    if (!httpAddress) return t.skip('no HTTP address');
    await deploy(`workflow ts_uncaught() {
      await Task.run("failing", { failures: 1, type: "Broken" }, { retry: false })
    }`);
    const error = await rejection((await run('ts_uncaught')).result());
    assert.ok(error instanceof WorkflowFailedError);
    let cause: any = error.cause;
    while (cause && !(cause instanceof ApplicationFailure && cause.type === 'Broken')) cause = cause.cause;
    assert.equal(cause?.message, 'attempt 1 failed');
  });

  scenario('a running task is cancelled and cleans up', async (t) => {
    if (!httpAddress) return t.skip('no HTTP address');
    await deploy(`workflow ts_cancel() {
      const task = Task.run("heartbeatUntilCancelled", 10, { heartbeat: "5s", on_cancel: "wait" })
      await wait_for_signal("enough")
      Task.cancel(task)
      try { await task } catch (e) { return e.type }
    }`);
    const handle = await run('ts_cancel');
    await eventually('the task runs', async () => {
      const { raw } = await handle.describe();
      return raw.pendingActivities?.some((activity) => activity.lastHeartbeatTime);
    });
    await handle.signal('enough');
    assert.equal(await handle.result(), 'Canceled');
    assert.equal(records.get(handle.workflowId)?.at(-1), 'cleaned up');
  });

  scenario('a task that no code awaits outlives its script', async (t) => {
    if (!httpAddress) return t.skip('no HTTP address');
    await deploy(`workflow ts_forgets(n = 0) {
      Task.run("record", n)
      if (n < 1) return Workflow.continueAsNew(n + 1)
      return n
    }`);
    const handle = await run('ts_forgets');
    assert.equal(await handle.result(), 1);
    await eventually('both tasks ran', () => records.get(handle.workflowId)?.length === 2);
    assert.deepEqual([...records.get(handle.workflowId)!].sort(), [0, 1]);
  });

  scenario('a script starts a workflow of this SDK, and the other way round', async (t) => {
    if (!httpAddress) return t.skip('no HTTP address');
    await deploy('workflow ts_parent(name) { return await Workflow.run("greet", name) }');
    await deploy('workflow ts_child(x) { return await Task.run("echo", x) + 1 }');
    assert.equal(await (await run('ts_parent', 'script')).result(), 'Hello, script!');
    const workflowId = unique('ts_child');
    assert.deepEqual(await execute(wf.observeChild, ['ts_child', [41], { workflowId }]), { result: 42 });
  });
});
