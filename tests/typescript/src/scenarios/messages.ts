/** Signals and queries. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import {
  QueryNotRegisteredError,
  QueryRejectedError,
  WorkflowNotFoundError,
  Client,
} from '@temporalio/client';
import { records } from '../activities';
import {
  client,
  connection,
  eventTypes,
  eventually,
  NAMESPACE,
  rejection,
  scenario,
  start,
  TASK_QUEUE,
  unique,
} from '../harness';
import * as wf from '../workflows';

describe('signals and queries', { concurrency: 8 }, () => {
  scenario('50 signals arrive in order', async () => {
    const handle = await start(wf.counter, []);
    const numbers = Array.from({ length: 50 }, (_, i) => i);
    for (const n of numbers) await handle.signal(wf.addSignal, n);
    await handle.signal(wf.finishSignal);
    assert.deepEqual(await handle.result(), { total: 1225, seen: numbers });
  });

  scenario('a signal sent before any worker task is not lost', async () => {
    const handle = await start(wf.counter, [], { startDelay: '400ms' });
    await handle.signal(wf.addSignal, 3);
    await handle.signal(wf.finishSignal);
    assert.deepEqual(await handle.result(), { total: 3, seen: [3] });
  });

  scenario('signalWithStart starts once, then only signals', async () => {
    const workflowId = unique('signal-with-start');
    const options = { workflowId, taskQueue: TASK_QUEUE, args: [10] as [number] };
    const first = await client.workflow.signalWithStart(wf.counter, {
      ...options,
      signal: wf.addSignal,
      signalArgs: [1],
    });
    const second = await client.workflow.signalWithStart(wf.counter, {
      ...options,
      signal: wf.addSignal,
      signalArgs: [2],
    });
    assert.equal(second.signaledRunId, first.signaledRunId);
    await second.signal(wf.finishSignal);
    assert.deepEqual(await first.result(), { total: 13, seen: [1, 2] });
    // Closed by now: a third one starts a new run.
    const third = await client.workflow.signalWithStart(wf.counter, {
      ...options,
      signal: wf.addSignal,
      signalArgs: [5],
    });
    assert.notEqual(third.signaledRunId, first.signaledRunId);
    await third.signal(wf.finishSignal);
    assert.deepEqual(await third.result(), { total: 15, seen: [5] });
  });

  scenario('a signal that arrives while the workflow is completing is seen first', async () => {
    const handle = await start(wf.completeDespiteSignal, []);
    await eventually('the local activity', () => records.get(handle.workflowId));
    await handle.signal(wf.addSignal, 9);
    assert.deepEqual(await handle.result(), [9]);
  });

  scenario('signalling, querying or cancelling what does not exist', async () => {
    const missing = client.workflow.getHandle(unique('missing'));
    assert.ok((await rejection(missing.signal('add', 1))) instanceof WorkflowNotFoundError);
    assert.ok((await rejection(missing.query('total'))) instanceof WorkflowNotFoundError);
    assert.ok((await rejection(missing.cancel())) instanceof WorkflowNotFoundError);
    assert.ok((await rejection(missing.terminate())) instanceof WorkflowNotFoundError);
    assert.ok((await rejection(missing.describe())) instanceof WorkflowNotFoundError);
    assert.ok((await rejection(missing.result())) instanceof WorkflowNotFoundError);
    assert.equal((await rejection(missing.fetchHistory())).code, 5); // gRPC NOT_FOUND
  });

  scenario('signalling a closed workflow is an error', async () => {
    const handle = await start(wf.greet, ['x']);
    await handle.result();
    assert.ok((await rejection(handle.signal('add', 1))) instanceof WorkflowNotFoundError);
  });

  scenario('query sees the signals sent before it, with and without arguments', async () => {
    const handle = await start(wf.counter, [1]);
    assert.equal(await handle.query(wf.totalQuery), 1);
    await handle.signal(wf.addSignal, 2);
    assert.equal(await handle.query(wf.totalQuery), 3);
    assert.equal(await handle.query(wf.scaledQuery, 10), 30);
    assert.match(await handle.query<string>('__stack_trace'), /condition|counter/);
    await handle.signal(wf.finishSignal);
    await handle.result();
    // Queries leave no trace in the history, and a closed workflow still answers them.
    const length = (await handle.describe()).historyLength;
    assert.equal(await handle.query(wf.totalQuery), 3);
    assert.equal((await handle.describe()).historyLength, length);
  });

  scenario('many queries at once', async () => {
    const handle = await start(wf.counter, [7]);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, i) => handle.query(wf.scaledQuery, i)));
    assert.deepEqual(answers, Array.from({ length: 20 }, (_, i) => i * 7));
    await handle.terminate();
  });

  scenario('query that fails, and one that is not registered', async () => {
    const handle = await start(wf.counter, []);
    const failed = await rejection(handle.query(wf.brokenQuery));
    assert.ok(failed instanceof QueryNotRegisteredError);
    assert.match(failed.message, /this query always fails/);
    const unknown = await rejection(handle.query('no-such-query'));
    assert.ok(unknown instanceof QueryNotRegisteredError);
    assert.match(unknown.message, /no-such-query/);
    // Neither harms the workflow.
    await handle.signal(wf.finishSignal);
    assert.deepEqual(await handle.result(), { total: 0, seen: [] });
    assert.ok(!eventTypes(await handle.fetchHistory()).includes('WORKFLOW_TASK_FAILED'));
  });

  scenario('query reject condition on a closed workflow', async () => {
    const handle = await start(wf.counter, []);
    await handle.signal(wf.finishSignal);
    await handle.result();
    const strict = new Client({
      connection,
      namespace: NAMESPACE,
      workflow: { queryRejectCondition: 'NOT_OPEN' },
    });
    const err = await rejection(strict.workflow.getHandle(handle.workflowId).query(wf.totalQuery));
    assert.ok(err instanceof QueryRejectedError);
  });
});
