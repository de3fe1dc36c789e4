/** Updates: validated, accepted, answered; with a start; across workers, runs and resets. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe } from 'node:test';
import {
  WithStartWorkflowOperation,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  WorkflowUpdateRPCTimeoutOrCancelledError,
  WorkflowUpdateStage,
  type WorkflowHandle,
  type WorkflowStartOptions,
  type WorkflowUpdateHandle,
} from '@temporalio/client';
import { ApplicationFailure, CancelledFailure, WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import { temporal } from '@temporalio/proto';
import { records } from '../activities';
import {
  client,
  connection,
  delay,
  eventTypes,
  eventually,
  hasEvent,
  NAMESPACE,
  rejection,
  scenario,
  start,
  started,
  startWorker,
  statusOf,
  TASK_QUEUE,
  unique,
  withWorker,
} from '../harness';
import * as wf from '../workflows';

const ACCEPTED = WorkflowUpdateStage.ACCEPTED;
const UPDATE_ACCEPTED = 'WORKFLOW_EXECUTION_UPDATE_ACCEPTED';
const UPDATE_ADMITTED = 'WORKFLOW_EXECUTION_UPDATE_ADMITTED';
const UPDATE_COMPLETED = 'WORKFLOW_EXECUTION_UPDATE_COMPLETED';

type Ledger = WorkflowHandle<typeof wf.ledger>;

function put(handle: Ledger, n: number, updateId?: string): Promise<number> {
  return handle.executeUpdate(wf.putUpdate, { args: [n], updateId });
}

/** An update that stays accepted until the signal `openGate`. */
function putAccepted(handle: Ledger, n: number, updateId?: string): Promise<WorkflowUpdateHandle<number>> {
  return handle.startUpdate(wf.putWhenReleasedUpdate, { args: [n], waitForStage: ACCEPTED, updateId });
}

/** How often events of the type are in the execution's history. */
async function count(handle: WorkflowHandle, type: string): Promise<number> {
  return eventTypes(await handle.fetchHistory()).filter((t) => t === type).length;
}

/** Ids of updates in the order of their acceptance. */
async function acceptedIds(handle: WorkflowHandle): Promise<string[]> {
  const events = (await handle.fetchHistory()).events ?? [];
  return events.flatMap((e) => e.workflowExecutionUpdateAcceptedEventAttributes?.protocolInstanceId ?? []);
}

/** Waits until the server has the update, whether or not a worker has. */
async function known(handle: WorkflowHandle, updateId: string): Promise<void> {
  const stage = temporal.api.enums.v1.UpdateWorkflowExecutionLifecycleStage;
  const request = {
    namespace: NAMESPACE,
    updateRef: { workflowExecution: { workflowId: handle.workflowId }, updateId },
    waitPolicy: { lifecycleStage: stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED },
  };
  await eventually(`update ${updateId}`, () =>
    connection.workflowService.pollWorkflowExecutionUpdate(request).catch((err) => {
      if (err.code !== 5) throw err; // gRPC NOT_FOUND
      return undefined;
    })
  );
}

/** The failure of an update: what the client throws and what is inside it. */
async function updateFailure(promise: Promise<unknown>): Promise<ApplicationFailure> {
  const err = await rejection(promise);
  assert.ok(err instanceof WorkflowUpdateFailedError, `${err?.name}: ${err?.message}, cause: ${err?.cause}`);
  assert.ok(err.cause instanceof ApplicationFailure, String(err.cause));
  return err.cause;
}

async function updateNotFound(promise: Promise<unknown>, message: RegExp): Promise<void> {
  const err = await rejection(promise);
  assert.ok(err instanceof WorkflowNotFoundError, `${err?.name}: ${err?.message}, cause: ${err?.cause}`);
  assert.match(err.message, message);
}

async function inTurn<T>(items: T[], work: (item: T) => Promise<unknown>): Promise<void> {
  for (const item of items) await work(item);
}

function withStart(
  workflowId: string,
  workflowIdConflictPolicy: 'FAIL' | 'USE_EXISTING' | 'TERMINATE_EXISTING',
  options: Partial<WorkflowStartOptions<typeof wf.ledger>> = {}
): WithStartWorkflowOperation<typeof wf.ledger> {
  const made = { workflowId, taskQueue: TASK_QUEUE, args: [[]], ...options, workflowIdConflictPolicy };
  return new WithStartWorkflowOperation(wf.ledger, made as never);
}

/** The run that an update-with-start began or found. */
async function runOf(operation: WithStartWorkflowOperation<typeof wf.ledger>): Promise<string> {
  const handle = await operation.workflowHandle();
  const { runId } = await handle.describe();
  if (!started.some((s) => s.runId === runId)) started.push({ workflowId: handle.workflowId, runId });
  return runId;
}

async function reset(
  handle: WorkflowHandle,
  runId: string,
  more: Partial<temporal.api.workflowservice.v1.IResetWorkflowExecutionRequest> = {}
): Promise<string> {
  const response = await connection.workflowService.resetWorkflowExecution({
    namespace: NAMESPACE,
    workflowExecution: { workflowId: handle.workflowId, runId },
    workflowTaskFinishEventId: 4 as never,
    requestId: randomUUID(),
    reason: 'test',
    ...more,
  });
  return response.runId;
}

describe('updates', { concurrency: 8 }, () => {
  // First, because it takes longest.
  scenario('calls that outlast the long polls of the server', async () => {
    const taskQueue = unique('long-poll');
    const unseen = await start(wf.ledger, [], { taskQueue });
    const admitted = put(unseen, 1);
    const handle = await start(wf.ledger, []);
    const accepted = await putAccepted(handle, 2);
    const answers = [admitted, accepted.result()];
    assert.equal(await Promise.race([...answers, delay(21_000).then(() => 'none yet')]), 'none yet');
    await handle.signal(wf.openGateSignal);
    await withWorker({ taskQueue }, async () => {
      assert.deepEqual(await Promise.all(answers), [1, 1]);
    });
    assert.equal(await count(unseen, UPDATE_ACCEPTED), 1);
    await unseen.terminate();
    await handle.terminate();
  });

  // --- stages and outcomes ---

  scenario('an update is accepted and answered, and the history says so', async () => {
    const handle = await start(wf.ledger, []);
    assert.equal(await put(handle, 10, 'first'), 1);
    assert.equal(await put(handle, 11, 'second'), 2);
    const history = await handle.fetchHistory();
    assert.deepEqual(eventTypes(history).slice(-5), [
      'WORKFLOW_TASK_SCHEDULED',
      'WORKFLOW_TASK_STARTED',
      'WORKFLOW_TASK_COMPLETED',
      UPDATE_ACCEPTED,
      UPDATE_COMPLETED,
    ]);
    const [accepted, completed] = history.events!.slice(-2);
    const acceptance = accepted.workflowExecutionUpdateAcceptedEventAttributes!;
    assert.equal(acceptance.protocolInstanceId, 'second');
    assert.equal(acceptance.acceptedRequest?.input?.name, 'put');
    assert.equal(acceptance.acceptedRequest?.meta?.updateId, 'second');
    const completion = completed.workflowExecutionUpdateCompletedEventAttributes!;
    assert.equal(completion.meta?.updateId, 'second');
    assert.equal(String(completion.acceptedEventId), String(accepted.eventId));
    assert.equal(Buffer.from(completion.outcome!.success!.payloads![0].data!).toString(), '2');
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [10, 11]);
  });

  scenario('an update that its validator rejects leaves no trace', async () => {
    const handle = await start(wf.ledger, []);
    await put(handle, 1);
    const before = await handle.fetchHistory();
    for (let i = 1; i <= 5; i++) {
      const failure = await updateFailure(put(handle, -i));
      assert.equal(failure.message, `-${i} is negative`);
      assert.equal(failure.type, 'Negative');
      assert.deepEqual(failure.details, [-i]);
    }
    // startUpdate reports it as well, there and then.
    const waiting = handle.startUpdate(wf.putUpdate, { args: [-9], waitForStage: ACCEPTED });
    assert.equal((await updateFailure(waiting.then((u) => u.result()))).message, '-9 is negative');
    assert.deepEqual(eventTypes(await handle.fetchHistory()), eventTypes(before));
    assert.equal((await handle.describe()).historyLength, before.events!.length);
    assert.equal(await put(handle, 2), 2);
    assert.equal((await acceptedIds(handle)).length, 2);
    await handle.terminate();
  });

  scenario('an update that has no handler is rejected', async () => {
    const handle = await start(wf.ledger, []);
    await put(handle, 1);
    const failure = await updateFailure(handle.executeUpdate('noSuchUpdate'));
    assert.match(failure.message, /noSuchUpdate/);
    assert.equal(await count(handle, UPDATE_ACCEPTED), 1);
    assert.equal(await put(handle, 2), 2);
    await handle.terminate();
  });

  scenario('a handler that throws fails its update and nothing else', async () => {
    const handle = await start(wf.ledger, []);
    const update = await handle.startUpdate(wf.failUpdate, { args: ['as told'], waitForStage: ACCEPTED });
    for (const found of [update, handle.getUpdateHandle(update.updateId)]) {
      const failure = await updateFailure(found.result());
      assert.equal(failure.message, 'as told');
      assert.equal(failure.type, 'OnPurpose');
      assert.deepEqual(failure.details, [{ code: 7 }]);
    }
    assert.equal(await count(handle, UPDATE_COMPLETED), 1);
    assert.equal(await put(handle, 1), 1);
    await handle.terminate();
  });

  scenario('accepted first, answered later', async () => {
    const handle = await start(wf.ledger, []);
    const update = await putAccepted(handle, 5);
    assert.equal(update.workflowRunId, handle.firstExecutionRunId);
    assert.equal(await count(handle, UPDATE_ACCEPTED), 1);
    assert.equal(await count(handle, UPDATE_COMPLETED), 0);
    const results = [
      update.result(),
      handle.getUpdateHandle<number>(update.updateId).result(),
      handle.executeUpdate(wf.putWhenReleasedUpdate, { args: [5], updateId: update.updateId }),
    ];
    const early = await Promise.race([...results, delay(300).then(() => 'none yet')]);
    assert.equal(early, 'none yet');
    // Other updates pass it.
    assert.equal(await put(handle, 6), 1);
    await handle.signal(wf.openGateSignal);
    assert.deepEqual(await Promise.all(results), [2, 2, 2]);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [6, 5]);
  });

  scenario('a handler that runs activities, a timer and a child', async () => {
    const handle = await start(wf.ledger, []);
    const answers = await Promise.all(
      ['one', 'two', 'three'].map((word) => handle.executeUpdate(wf.workUpdate, { args: [word] }))
    );
    assert.deepEqual(
      answers.map((a: any) => [a.loud, a.greeting]),
      [['ONE', 'Hello, one!'], ['TWO', 'Hello, two!'], ['THREE', 'Hello, three!']]
    );
    assert.deepEqual(answers.map((a: any) => a.nth).sort(), [1, 2, 3]);
    assert.deepEqual([...records.get(handle.workflowId)!].sort(), ['one', 'three', 'two']);
    await handle.signal(wf.endSignal);
    assert.deepEqual((await handle.result()).sort(), [1, 2, 3]);
  });

  // --- one id, one update ---

  scenario('calls with one id are one update', async () => {
    const handle = await start(wf.ledger, []);
    const calls = Array.from({ length: 5 }, () => put(handle, 3, 'the-one'));
    assert.deepEqual(await Promise.all(calls), [1, 1, 1, 1, 1]);
    // Other arguments or another name make no other update of it.
    assert.equal(await put(handle, 4, 'the-one'), 1);
    assert.equal(await handle.executeUpdate(wf.closeUpdate, { updateId: 'the-one' }), 1);
    // In another workflow it is another update.
    const other = await start(wf.ledger, [[0]]);
    assert.equal(await put(other, 3, 'the-one'), 2);
    await other.terminate();
    assert.deepEqual(await acceptedIds(handle), ['the-one']);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [3]);
    assert.equal(await put(handle, 3, 'the-one'), 1, 'also after the end');
  });

  scenario('a caller that gives up and calls again', async () => {
    const taskQueue = unique('impatient');
    const handle = await start(wf.ledger, [], { taskQueue });
    const err = await rejection(client.withDeadline(Date.now() + 500, () => put(handle, 1, 'mine')));
    assert.ok(err instanceof WorkflowUpdateRPCTimeoutOrCancelledError, `${err?.name}: ${err?.message}`);
    await withWorker({ taskQueue }, async () => {
      assert.equal(await put(handle, 1, 'mine'), 1);
      assert.equal(await put(handle, 2), 2);
      await handle.signal(wf.endSignal);
      assert.deepEqual(await handle.result(), [1, 2]);
    });
  });

  // --- the end of the workflow ---

  scenario('results can be had after the workflow has closed', async () => {
    const handle = await start(wf.ledger, []);
    assert.equal(await put(handle, 1, 'good'), 1);
    await updateFailure(handle.executeUpdate(wf.failUpdate, { args: ['kept'], updateId: 'bad' }));
    await handle.signal(wf.endSignal);
    await handle.result();
    for (const workflowRunId of [undefined, handle.firstExecutionRunId]) {
      assert.equal(await handle.getUpdateHandle('good', { workflowRunId }).result(), 1);
      assert.equal((await updateFailure(handle.getUpdateHandle('bad', { workflowRunId }).result())).message, 'kept');
    }
    assert.equal(await put(handle, 1, 'good'), 1);
  });

  scenario('updates of what does not exist or is closed', async () => {
    const missing = client.workflow.getHandle(unique('missing')) as Ledger;
    await updateNotFound(put(missing, 1), /workflow not found for ID/);
    await updateNotFound(missing.getUpdateHandle('x').result(), /workflow not found for ID/);
    const handle = await start(wf.ledger, []);
    await put(handle, 1);
    await updateNotFound(handle.getUpdateHandle('unknown').result(), /update "unknown" not found/);
    await handle.signal(wf.endSignal);
    await handle.result();
    await updateNotFound(put(handle, 2), /^workflow execution already completed$/);
    await updateNotFound(handle.getUpdateHandle('unknown').result(), /update "unknown" not found/);
  });

  scenario('an update that ends the workflow gets its answer', async () => {
    const handle = await start(wf.ledger, [[1, 2]]);
    assert.equal(await handle.executeUpdate(wf.closeUpdate), 'closed with 2');
    assert.deepEqual(await handle.result(), [1, 2]);
    assert.deepEqual(eventTypes(await handle.fetchHistory()).slice(-3), [
      UPDATE_ACCEPTED,
      UPDATE_COMPLETED,
      'WORKFLOW_EXECUTION_COMPLETED',
    ]);
  });

  for (const how of ['complete', 'terminate'] as const) {
    scenario(`an accepted update whose workflow ends: ${how}`, async () => {
      const handle = await start(wf.ledger, []);
      const update = await putAccepted(handle, 1);
      const waiting = updateFailure(update.result());
      if (how === 'complete') await handle.signal(wf.endSignal);
      else await handle.terminate();
      const failure = await waiting;
      assert.equal(failure.type, 'AcceptedUpdateCompletedWorkflow');
      assert.equal(failure.nonRetryable, true);
      assert.match(failure.message, /Workflow completed before the Update completed/);
      // It stays that way.
      const later = await updateFailure(handle.getUpdateHandle(update.updateId).result());
      assert.equal(later.type, 'AcceptedUpdateCompletedWorkflow');
      assert.equal(await count(handle, UPDATE_COMPLETED), 0);
    });
  }

  scenario('cancelling the workflow cancels its handlers', async () => {
    const handle = await start(wf.ledger, []);
    const update = await putAccepted(handle, 1);
    const failing = rejection(update.result());
    await handle.cancel();
    const err = await failing;
    assert.ok(err instanceof WorkflowUpdateFailedError, `${err?.name}: ${err?.message}`);
    assert.ok(err.cause instanceof CancelledFailure, String(err.cause));
    const result = await rejection(handle.result());
    assert.ok(result.cause instanceof CancelledFailure, String(result.cause));
    assert.equal(await count(handle, UPDATE_COMPLETED), 1);
  });

  for (const how of ['complete', 'fail'] as const) {
    scenario(`an update that comes while the workflow is closing: ${how}`, async () => {
      const handle = await start(wf.closeUnderUpdate, [how]);
      await handle.signal(wf.openGateSignal);
      await eventually('the task to be held', () => records.get(handle.workflowId));
      const call = handle.executeUpdate(wf.putUpdate, { args: [1] });
      await updateNotFound(call, /^workflow update was aborted by closing workflow$/);
      assert.equal(await statusOf(handle), how === 'complete' ? 'COMPLETED' : 'FAILED');
      assert.equal(await count(handle, UPDATE_ACCEPTED), 0);
    });
  }

  scenario('updates in a race with the end get an answer or an error, never both or neither', async (t) => {
    const seen = new Map<string, number>();
    for (let round = 0; round < 5; round++) {
      const handle = await start(wf.ledger, []);
      await put(handle, 0);
      const calls = [1, 2, 3, 4, 5, 6].map(async (n) => {
        await delay(n * 6);
        try {
          await put(handle, n);
          return n;
        } catch (err: any) {
          assert.ok(err instanceof WorkflowNotFoundError, `${err?.name}: ${err?.message}, cause: ${err?.cause}`);
          seen.set(err.message, (seen.get(err.message) ?? 0) + 1);
          return undefined;
        }
      });
      await delay(15);
      await handle.signal(wf.endSignal);
      const answered = (await Promise.all(calls)).filter((n) => n !== undefined);
      const entries = await handle.result();
      assert.deepEqual([...answered].sort(), entries.slice(1).sort());
    }
    t.diagnostic(JSON.stringify([...seen]));
  });

  // --- continue as new ---

  scenario('continue-as-new ends the updates that the old run had accepted', async () => {
    const handle = await start(wf.ledger, []);
    const update = await putAccepted(handle, 1, 'one-id');
    const waiting = updateFailure(update.result());
    await handle.signal(wf.rollSignal);
    assert.equal((await waiting).type, 'AcceptedUpdateCompletedWorkflow');
    await eventually('the next run', async () => (await handle.query(wf.generationQuery)) === 2);
    // To the new run the id is new.
    const again = await putAccepted(handle, 1, 'one-id');
    assert.notEqual(again.workflowRunId, update.workflowRunId);
    started.push({ workflowId: handle.workflowId, runId: again.workflowRunId! });
    await handle.signal(wf.openGateSignal);
    assert.equal(await again.result(), 1);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [1]);
  });

  scenario('a workflow that waits for its handlers answers them before it continues as new', async () => {
    const handle = await start(wf.ledger, [[], 1, true]);
    const update = await putAccepted(handle, 1);
    await handle.signal(wf.rollSignal);
    await delay(200);
    await handle.signal(wf.openGateSignal);
    assert.equal(await update.result(), 1);
    assert.equal(await put(handle, 2), 2);
    assert.equal(await handle.query(wf.generationQuery), 2);
    assert.equal(await update.result(), 1);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [1, 2]);
  });

  scenario('an update that comes while the workflow continues as new is taken by the next run', async () => {
    const handle = await start(wf.closeUnderUpdate, ['continue']);
    await handle.signal(wf.openGateSignal);
    await eventually('the task to be held', () => records.get(handle.workflowId));
    const update = await handle.startUpdate(wf.putUpdate, { args: [8], waitForStage: ACCEPTED });
    assert.equal(await update.result(), 1);
    assert.notEqual(update.workflowRunId, handle.firstExecutionRunId);
    const first = client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
    assert.equal(await count(first, UPDATE_ACCEPTED), 0);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [8]);
  });

  // --- update with start ---

  scenario('update-with-start: a new workflow', async () => {
    const operation = withStart(unique('uws-new'), 'FAIL', { args: [[7]] });
    assert.equal(
      await client.workflow.executeUpdateWithStart(wf.putUpdate, { args: [1], startWorkflowOperation: operation }),
      2
    );
    await runOf(operation);
    const handle = await operation.workflowHandle();
    // The update came with the first Workflow Task.
    assert.deepEqual(eventTypes(await handle.fetchHistory()), [
      'WORKFLOW_EXECUTION_STARTED',
      'WORKFLOW_TASK_SCHEDULED',
      'WORKFLOW_TASK_STARTED',
      'WORKFLOW_TASK_COMPLETED',
      UPDATE_ACCEPTED,
      UPDATE_COMPLETED,
    ]);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [7, 1]);
  });

  scenario('update-with-start: a running workflow, by conflict policy', async () => {
    const workflowId = unique('uws-running');
    const run = async (policy: 'FAIL' | 'USE_EXISTING' | 'TERMINATE_EXISTING', n: number) => {
      const operation = withStart(workflowId, policy);
      const result = await client.workflow.executeUpdateWithStart(wf.putUpdate, {
        args: [n],
        startWorkflowOperation: operation,
      });
      return { result, runId: await runOf(operation), operation };
    };
    const first = await run('USE_EXISTING', 1);
    const second = await run('USE_EXISTING', 2);
    assert.deepEqual([first.result, second.result], [1, 2]);
    assert.equal(second.runId, first.runId);

    const refused = withStart(workflowId, 'FAIL');
    const err = await rejection(
      client.workflow.executeUpdateWithStart(wf.putUpdate, { args: [3], startWorkflowOperation: refused })
    );
    assert.ok(err instanceof WorkflowExecutionAlreadyStartedError, `${err?.name}: ${err?.message}`);
    assert.ok((await rejection(refused.workflowHandle())) instanceof WorkflowExecutionAlreadyStartedError);

    const third = await run('TERMINATE_EXISTING', 4);
    assert.equal(third.result, 1);
    assert.notEqual(third.runId, first.runId);
    assert.equal(await statusOf(client.workflow.getHandle(workflowId, first.runId)), 'TERMINATED');
    const handle = await third.operation.workflowHandle();
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [4]);

    // Closed by now: the next one starts a run, unless the reuse policy forbids that.
    const fourth = await run('USE_EXISTING', 5);
    assert.equal(fourth.result, 1);
    assert.notEqual(fourth.runId, third.runId);
    await client.workflow.getHandle(workflowId).terminate();
    const forbidden = withStart(workflowId, 'USE_EXISTING', { workflowIdReusePolicy: 'REJECT_DUPLICATE' });
    const refusal = await rejection(
      client.workflow.executeUpdateWithStart(wf.putUpdate, { args: [6], startWorkflowOperation: forbidden })
    );
    assert.ok(refusal instanceof WorkflowExecutionAlreadyStartedError, `${refusal?.name}: ${refusal?.message}`);
  });

  scenario('update-with-start: accepted, then answered', async () => {
    const operation = withStart(unique('uws-accepted'), 'FAIL');
    const update = await client.workflow.startUpdateWithStart(wf.putWhenReleasedUpdate, {
      args: [1],
      waitForStage: ACCEPTED,
      startWorkflowOperation: operation,
    });
    assert.equal(update.workflowRunId, await runOf(operation));
    const handle = await operation.workflowHandle();
    assert.equal(await count(handle, UPDATE_COMPLETED), 0);
    await handle.signal(wf.openGateSignal);
    assert.equal(await update.result(), 1);
    await handle.terminate();
  });

  scenario('update-with-start: a rejected update leaves a started workflow', async () => {
    const operation = withStart(unique('uws-rejected'), 'FAIL');
    const failure = await updateFailure(
      client.workflow.executeUpdateWithStart(wf.putUpdate, { args: [-1], startWorkflowOperation: operation })
    );
    assert.equal(failure.type, 'Negative');
    await runOf(operation);
    const handle = (await operation.workflowHandle()) as Ledger;
    assert.equal(await statusOf(handle), 'RUNNING');
    assert.equal(await count(handle, UPDATE_ACCEPTED), 0);
    assert.equal(await put(handle, 1), 1);
    await handle.terminate();
  });

  scenario('update-with-start: one update id is one update, also when its workflow has closed', async () => {
    const workflowId = unique('uws-dedupe');
    const call = async () => {
      const operation = withStart(workflowId, 'USE_EXISTING');
      const result = await client.workflow.executeUpdateWithStart(wf.putUpdate, {
        args: [1],
        updateId: 'the-one',
        startWorkflowOperation: operation,
      });
      return { result, runId: await runOf(operation) };
    };
    const calls = [await call(), await call()];
    const handle = client.workflow.getHandle<typeof wf.ledger>(workflowId);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await handle.result(), [1]);
    calls.push(await call());
    assert.deepEqual(calls.map((c) => c.result), [1, 1, 1]);
    assert.deepEqual(new Set(calls.map((c) => c.runId)).size, 1);
  });

  scenario('update-with-start: many at once start one workflow', async () => {
    const workflowId = unique('uws-many');
    const results = await Promise.all(
      [1, 2, 3, 4, 5].map((n) =>
        client.workflow.executeUpdateWithStart(wf.putUpdate, {
          args: [n],
          startWorkflowOperation: withStart(workflowId, 'USE_EXISTING'),
        })
      )
    );
    assert.deepEqual(results.sort(), [1, 2, 3, 4, 5]);
    const handle = client.workflow.getHandle<typeof wf.ledger>(workflowId);
    await handle.signal(wf.endSignal);
    assert.deepEqual((await handle.result()).sort(), [1, 2, 3, 4, 5]);
  });

  // --- workers come and go ---

  scenario('updates wait for a worker and reach it in one task, in order', async () => {
    const taskQueue = unique('update-late');
    const handle = await start(wf.ledger, [], { taskQueue });
    const ids = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    const calls: Promise<number>[] = [];
    for (const id of ids) {
      calls.push(put(handle, calls.length * 10, id));
      await known(handle, id);
    }
    const withNew = withStart(unique('uws-late'), 'FAIL', { taskQueue });
    const newCall = client.workflow.executeUpdateWithStart(wf.putUpdate, {
      args: [1],
      startWorkflowOperation: withNew,
    });
    await delay(300);
    await withWorker({ taskQueue }, async () => {
      assert.deepEqual(await Promise.all(calls), [1, 2, 3, 4, 5, 6, 7, 8]);
      assert.equal(await newCall, 1);
      assert.deepEqual(await acceptedIds(handle), ids);
      assert.equal(await count(handle, 'WORKFLOW_TASK_COMPLETED'), 1);
      await (await withNew.workflowHandle()).terminate();
      await handle.signal(wf.endSignal);
      assert.deepEqual(await handle.result(), [0, 10, 20, 30, 40, 50, 60, 70]);
    });
  });

  scenario('a worker that starts anew between updates', async () => {
    const taskQueue = unique('update-restart');
    const handle = await start(wf.ledger, [], { taskQueue });
    let expected = 0;
    let accepted: WorkflowUpdateHandle<number> | undefined;
    for (let i = 0; i < 3; i++) {
      await withWorker({ taskQueue }, async () => {
        assert.equal(await put(handle, expected), ++expected);
        await updateFailure(put(handle, -1));
        assert.equal(await put(handle, expected), ++expected);
        accepted ??= await putAccepted(handle, 99);
      });
    }
    // Called while no worker runs, with an update accepted by a worker that is gone.
    const call = put(handle, expected);
    await delay(200);
    await withWorker({ taskQueue }, async () => {
      assert.equal(await call, ++expected);
      await handle.signal(wf.openGateSignal);
      assert.equal(await accepted!.result(), ++expected);
      await handle.signal(wf.endSignal);
      assert.deepEqual(await handle.result(), [0, 1, 2, 3, 4, 5, 6, 99]);
    });
  });

  scenario('a worker without a cache replays updates, also rejected ones', async () => {
    const taskQueue = unique('update-no-cache');
    await withWorker({ taskQueue, maxCachedWorkflows: 0 }, async () => {
      const handle = await start(wf.ledger, [], { taskQueue });
      const held = await putAccepted(handle, 100);
      for (let n = 1; n <= 4; n++) {
        assert.equal(await put(handle, n), n);
        await updateFailure(put(handle, -n));
        await handle.executeUpdate(wf.failUpdate, { args: ['x'] }).catch(() => undefined);
      }
      await handle.signal(wf.openGateSignal);
      assert.equal(await held.result(), 5);
      assert.ok(!(await hasEvent(handle, 'WORKFLOW_TASK_FAILED')));
      await handle.signal(wf.endSignal);
      assert.deepEqual(await handle.result(), [1, 2, 3, 4, 100]);
    });
  });

  scenario('an update to a worker that stops while it is called', async () => {
    const taskQueue = unique('update-hand-over');
    const first = await startWorker({ taskQueue });
    const handle = await start(wf.ledger, [], { taskQueue });
    assert.equal(await put(handle, 1), 1);
    const stopping = first.stop();
    const calls = [put(handle, 2), delay(20).then(() => put(handle, 3))];
    await stopping;
    await withWorker({ taskQueue }, async () => {
      assert.deepEqual((await Promise.all(calls)).sort(), [2, 3]);
      await handle.signal(wf.endSignal);
      assert.deepEqual((await handle.result()).sort(), [1, 2, 3]);
    });
  });

  // --- reset ---

  scenario('reset applies accepted updates again', async () => {
    const handle = await start(wf.ledger, []);
    await handle.signal(wf.entrySignal, 0);
    assert.equal(await put(handle, 1, 'one'), 2);
    await updateFailure(put(handle, -1));
    const held = await putAccepted(handle, 2, 'two');
    const lost = updateFailure(held.result());
    const runId = await reset(handle, handle.firstExecutionRunId);
    assert.notEqual(runId, handle.firstExecutionRunId);
    started.push({ workflowId: handle.workflowId, runId });
    assert.equal((await lost).type, 'AcceptedUpdateCompletedWorkflow');
    const old = client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
    assert.equal(await statusOf(old), 'TERMINATED');
    // The new run has the updates under their ids.
    assert.equal(await handle.getUpdateHandle('one').result(), 2);
    await handle.signal(wf.openGateSignal);
    assert.equal(await handle.getUpdateHandle('two').result(), 3);
    assert.equal(await put(handle, 1, 'one'), 2);
    assert.equal(await put(handle, 3), 4);
    const types = eventTypes(await handle.fetchHistory());
    assert.equal(types.filter((type) => type === UPDATE_ADMITTED).length, 2);
    assert.equal(types.filter((type) => type === UPDATE_ACCEPTED).length, 3);
    await handle.signal(wf.endSignal);
    assert.deepEqual(await client.workflow.getHandle(handle.workflowId, runId).result(), [0, 1, 2, 3]);
  });

  scenario('reset of a closed workflow, without its updates', async () => {
    const { RESET_REAPPLY_EXCLUDE_TYPE_UPDATE: UPDATE } = temporal.api.enums.v1.ResetReapplyExcludeType;
    const handle = await start(wf.ledger, []);
    assert.equal(await put(handle, 1, 'one'), 1);
    await handle.signal(wf.entrySignal, 5);
    await handle.executeUpdate(wf.closeUpdate, { updateId: 'closing' });
    assert.deepEqual(await handle.result(), [1, 5]);
    const runId = await reset(handle, handle.firstExecutionRunId, { resetReapplyExcludeTypes: [UPDATE] });
    started.push({ workflowId: handle.workflowId, runId });
    const again = client.workflow.getHandle<typeof wf.ledger>(handle.workflowId, runId);
    await eventually('the signal', async () => (await again.query(wf.entriesQuery)).length === 1);
    assert.equal(await count(again, UPDATE_ADMITTED), 0);
    await updateNotFound(again.getUpdateHandle('one').result(), /update "one" not found/);
    // With them, the update that closed the first run closes this one too. All are in one task: signals first.
    const third = await reset(handle, handle.firstExecutionRunId);
    const last = client.workflow.getHandle<typeof wf.ledger>(handle.workflowId, third);
    assert.deepEqual(await last.result(), [5, 1]);
    assert.equal(await last.getUpdateHandle('closing').result(), 'closed with 2');
  });

  // --- everything together ---

  scenario('signals, queries and updates see each other in order', async () => {
    const handle = await start(wf.ledger, []);
    for (let i = 0; i < 4; i++) {
      await handle.signal(wf.entrySignal, i * 2);
      assert.equal(await put(handle, i * 2 + 1), i * 2 + 2);
      assert.deepEqual(
        await handle.query(wf.entriesQuery),
        Array.from({ length: i * 2 + 2 }, (_, n) => n)
      );
    }
    await handle.terminate();
  });

  scenario('signals, queries and updates all at once', async () => {
    const handle = await start(wf.ledger, []);
    const counts: number[] = [];
    const numbers = Array.from({ length: 10 }, (_, n) => n);
    // Each kind in a line of its own: Temporal's server takes 10 updates of a run and buffers 1 query at a time, and
    // what it refuses beyond that disturbs the others.
    await Promise.all([
      inTurn([...numbers, ...numbers.map((n) => n + 10)], (n) => handle.signal(wf.entrySignal, n)),
      inTurn(numbers, async (n) => counts.push(await put(handle, 100 + n))),
      inTurn(numbers, async (n) => counts.push(await put(handle, 110 + n))),
      inTurn(numbers, (n) => updateFailure(put(handle, -1 - n))),
      inTurn(numbers, async () => {
        const before = counts.length;
        assert.ok((await handle.query(wf.entriesQuery)).length >= before);
      }),
    ]);
    assert.equal(new Set(counts).size, 20);
    await handle.signal(wf.endSignal);
    const entries = await handle.result();
    assert.deepEqual(
      [...entries].sort((a, b) => a - b),
      Array.from({ length: 40 }, (_, n) => (n < 20 ? n : 80 + n))
    );
    assert.equal(await count(handle, UPDATE_ACCEPTED), 20);
    assert.equal(await count(handle, UPDATE_COMPLETED), 20);
    assert.equal(await count(handle, 'WORKFLOW_TASK_FAILED'), 0);
  });
});
