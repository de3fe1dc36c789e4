/** Workers: sticky caches, shutdown, hand-over, eager start. These have Workers of their own. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { Client, type WorkflowHandle } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { records } from '../activities';
import {
  address,
  client,
  delay,
  eventually,
  execute,
  NAMESPACE,
  nativeConnection,
  scenario,
  start,
  startWorker,
  unique,
  withWorker,
} from '../harness';
import * as wf from '../workflows';

describe('workers', { concurrency: 3 }, () => {
  scenario('a worker without a cache replays from the server at every task', async () => {
    const taskQueue = unique('no-cache');
    await withWorker({ taskQueue, maxCachedWorkflows: 0 }, async () => {
      const stepping = await start(wf.steps, [], { taskQueue });
      const patched = await start(wf.patchedFlow, [], { taskQueue });
      for (let i = 1; i <= 3; i++) {
        await stepping.signal(wf.addSignal, i);
        assert.ok((await stepping.query(wf.totalQuery)) >= i);
        await delay(30);
      }
      const out = await stepping.result();
      assert.deepEqual(out.filter((s) => s.startsWith('signal')), ['signal 1', 'signal 2', 'signal 3']);
      assert.deepEqual(out.filter((s) => s.startsWith('activity')), ['activity 1', 'activity 2', 'activity 3']);
      assert.deepEqual(await patched.result(), ['new a', 'only b', 'still new a']);
    });
  });

  scenario('an idle worker shuts down promptly', async (t) => {
    const { stop } = await startWorker({ taskQueue: unique('idle') });
    await delay(500); // its polls are now waiting at the server
    const begin = Date.now();
    await stop();
    t.diagnostic(`stopped in ${Date.now() - begin} ms`);
    assert.ok(Date.now() - begin < 5_000, `${Date.now() - begin} ms`);
  });

  scenario('worker shutdown with work in hand; another worker takes over', async () => {
    const taskQueue = unique('hand-over');
    const first = await startWorker({ taskQueue });
    const counting = await start(wf.counter, [], { taskQueue });
    const hanging = await start(wf.callActivity, ['hang', [20_000, 100], {
      startToCloseTimeout: '30s',
      retry: { initialInterval: '50ms' },
    }], { taskQueue });
    assert.equal(await counting.query(wf.totalQuery), 0);
    await eventually('the activity', () => records.get(hanging.workflowId));
    const begin = Date.now();
    await first.stop();
    assert.ok(Date.now() - begin < 5_000, `${Date.now() - begin} ms`);

    // Sent while no worker runs.
    await counting.signal(wf.addSignal, 4);
    await withWorker({ taskQueue }, async () => {
      assert.equal(await counting.query(wf.totalQuery), 4);
      await counting.signal(wf.finishSignal);
      assert.deepEqual(await counting.result(), { total: 4, seen: [4] });
      await hanging.result();
      // The activity was cancelled by the shutdown and tried again.
      assert.deepEqual(records.get(hanging.workflowId), ['hang 1', 'hang 2']);
    });
  });

  scenario('tasks of a queue wait for their worker', async () => {
    const taskQueue = unique('late');
    const handles: WorkflowHandle<typeof wf.greet>[] = [];
    for (let i = 0; i < 5; i++) handles.push(await start(wf.greet, [`#${i}`], { taskQueue }));
    await delay(300);
    await withWorker({ taskQueue }, async () => {
      const results = await Promise.all(handles.map((h) => h.result()));
      assert.deepEqual(results, [0, 1, 2, 3, 4].map((i) => `Hello, #${i}!`));
    });
  });

  scenario('two workers share a queue', async () => {
    const taskQueue = unique('shared');
    // The SDK allows one worker for a queue on each connection.
    const other = await NativeConnection.connect({ address });
    try {
      await withWorker({ taskQueue }, () =>
        withWorker({ taskQueue, connection: other }, async () => {
          const results = Array.from({ length: 10 }, (_, i) => execute(wf.roundTrip<number>, [i], { taskQueue }));
          assert.deepEqual(await Promise.all(results), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        })
      );
    } finally {
      await other.close();
    }
  });

  scenario('eager start: the first task comes with the start response, if the server does that', async (t) => {
    const taskQueue = unique('eager');
    await withWorker({ taskQueue }, async () => {
      const native = new Client({ connection: nativeConnection, namespace: NAMESPACE });
      const handle = await native.workflow.start(wf.roundTrip<string>, {
        taskQueue,
        workflowId: unique('eager'),
        args: ['eager'],
        requestEagerStart: true,
      });
      assert.equal(await handle.result(), 'eager');
      const begun = (await client.workflow.getHandle(handle.workflowId).fetchHistory()).events![0]
        .workflowExecutionStartedEventAttributes!;
      t.diagnostic(`eager execution accepted: ${begun.eagerExecutionAccepted} / ${handle.eagerlyStarted}`);
    });
  });
});
