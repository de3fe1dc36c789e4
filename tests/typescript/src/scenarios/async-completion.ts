/** Activities that a client completes: by task token and by id. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { ActivityCancelledError, ActivityNotFoundError, WorkflowFailedError } from '@temporalio/client';
import { ActivityFailure, ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { openTokens } from '../activities';
import { client, eventually, rejection, scenario, start } from '../harness';
import * as wf from '../workflows';

const OPTIONS = { startToCloseTimeout: '30s', retry: { maximumAttempts: 1 } } as const;

async function open(options: Record<string, unknown> = {}) {
  const handle = await start(wf.callCompleteLater, [{ ...OPTIONS, ...options }]);
  const token = await eventually('the task token', () => openTokens.get(handle.workflowId));
  return { handle, token };
}

describe('asynchronous activity completion', { concurrency: 8 }, () => {
  scenario('complete by task token', async () => {
    const { handle, token } = await open();
    await client.activity.complete(token, 'by token');
    assert.equal(await handle.result(), 'by token');
    assert.ok((await rejection(client.activity.complete(token, 'again'))) instanceof ActivityNotFoundError);
  });

  scenario('complete by id', async () => {
    const { handle } = await open({ activityId: 'open-one' });
    await client.activity.complete({ workflowId: handle.workflowId, activityId: 'open-one' }, 'by id');
    assert.equal(await handle.result(), 'by id');
  });

  scenario('fail by task token and by id', async () => {
    const byToken = await open();
    await client.activity.fail(byToken.token, ApplicationFailure.create({ message: 'token says no', type: 'No' }));
    const byId = await open({ activityId: 'failing-one' });
    await client.activity.fail(
      { workflowId: byId.handle.workflowId, runId: byId.handle.firstExecutionRunId, activityId: 'failing-one' },
      new Error('id says no')
    );
    for (const [opened, message] of [[byToken, 'token says no'], [byId, 'id says no']] as const) {
      const err = await rejection(opened.handle.result());
      assert.ok(err instanceof WorkflowFailedError);
      assert.ok(err.cause instanceof ActivityFailure);
      assert.equal(err.cause.cause?.message, message);
    }
  });

  scenario('heartbeat from a client shows in describe and learns of cancellation', async () => {
    const { handle, token } = await open({
      activityId: 'beating',
      heartbeatTimeout: '20s',
      cancellationType: 'WAIT_CANCELLATION_COMPLETED',
    });
    const id = { workflowId: handle.workflowId, activityId: 'beating' };
    await client.activity.heartbeat(token, { done: 1 });
    await client.activity.heartbeat(id, { done: 2 });
    const pending = (await handle.describe()).raw.pendingActivities![0];
    assert.equal(Buffer.from(pending.heartbeatDetails!.payloads![0].data!).toString(), '{"done":2}');
    assert.equal(pending.activityId, 'beating');

    await handle.cancel();
    await eventually('the heartbeat to report the cancellation', async () => {
      const err = await client.activity.heartbeat(token).then(() => undefined, (e) => e);
      if (err && !(err instanceof ActivityCancelledError)) throw err;
      return err;
    });
    await client.activity.reportCancellation(id, 'stopped at 2');
    const err = await rejection(handle.result());
    assert.ok(err instanceof WorkflowFailedError);
    assert.ok(err.cause instanceof ActivityFailure || err.cause instanceof CancelledFailure, String(err.cause));
    assert.equal((await handle.describe()).status.name, 'CANCELLED');
  });

  scenario('completing what does not exist', async () => {
    const id = { workflowId: 'no-such-workflow', activityId: 'no-such-activity' };
    assert.ok((await rejection(client.activity.complete(id, 1))) instanceof ActivityNotFoundError);
    assert.ok((await rejection(client.activity.heartbeat(id))) instanceof ActivityNotFoundError);
  });
});
