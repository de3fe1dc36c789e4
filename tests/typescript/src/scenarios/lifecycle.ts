/** Chains of runs: continue-as-new, Workflow retry, cron; and patches. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { WorkflowContinuedAsNewError, WorkflowFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { records } from '../activities';
import { client, eventTypes, eventually, rejection, scenario, start, statusOf } from '../harness';
import * as wf from '../workflows';

describe('chains of runs', { concurrency: 8 }, () => {
  scenario('continue as new: the result follows the chain', async () => {
    const handle = await start(wf.countdown, [3]);
    const runs = await handle.result();
    assert.equal(runs.length, 4);
    assert.equal(new Set(runs).size, 4);
    assert.equal(runs[0], handle.firstExecutionRunId);
    assert.equal((await client.workflow.getHandle(handle.workflowId).describe()).runId, runs[3]);
    const first = client.workflow.getHandle(handle.workflowId, runs[0]);
    assert.equal(await statusOf(first), 'CONTINUED_AS_NEW');
    assert.equal(eventTypes(await first.fetchHistory()).at(-1), 'WORKFLOW_EXECUTION_CONTINUED_AS_NEW');
    const second = client.workflow.getHandle(handle.workflowId, runs[1]);
    const begun = (await second.fetchHistory()).events![0].workflowExecutionStartedEventAttributes!;
    assert.equal(begun.continuedExecutionRunId, runs[0]);
    assert.equal(begun.firstExecutionRunId, runs[0]);

    const unfollowed = client.workflow.getHandle(handle.workflowId, runs[0], { followRuns: false });
    const err = await rejection(unfollowed.result());
    assert.ok(err instanceof WorkflowContinuedAsNewError);
    assert.equal(err.newExecutionRunId, runs[1]);
  });

  scenario('continue as new keeps the memo; signals reach the newest run', async () => {
    const handle = await start(wf.rollover, [], { memo: { kept: true } });
    const any = client.workflow.getHandle(handle.workflowId);
    for (const generation of [1, 2, 3]) {
      await eventually(`generation ${generation}`, async () => (await any.query(wf.totalQuery)) === generation);
      await any.signal(wf.addSignal, generation * 10);
    }
    assert.deepEqual(await handle.result(), {
      seen: [10, 20, 30],
      generation: 3,
      memo: { kept: true },
      firstExecutionRunId: handle.firstExecutionRunId,
    });
  });

  scenario('workflow retry policy', async () => {
    const handle = await start(wf.succeedsOnAttempt, [3], {
      retry: { initialInterval: '100ms', backoffCoefficient: 1, maximumAttempts: 5 },
    });
    assert.equal(await handle.result(), 3);
    const first = client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
    assert.equal(await statusOf(first), 'FAILED');
    const latest = client.workflow.getHandle(handle.workflowId);
    assert.notEqual((await latest.describe()).runId, handle.firstExecutionRunId);
    const begun = (await latest.fetchHistory()).events![0].workflowExecutionStartedEventAttributes!;
    assert.equal(begun.attempt, 3);
    assert.equal(begun.firstExecutionRunId, handle.firstExecutionRunId);
  });

  scenario('workflow retry policy: attempts used up, and a failure that is not retried', async () => {
    const spent = await start(wf.succeedsOnAttempt, [9], {
      retry: { initialInterval: '50ms', backoffCoefficient: 1, maximumAttempts: 2 },
    });
    const spentError = await rejection(spent.result());
    assert.ok(spentError instanceof WorkflowFailedError);
    assert.equal(spentError.cause?.message, 'run attempt 2');

    const fatal = await start(wf.succeedsOnAttempt, [9, true], { retry: { initialInterval: '50ms' } });
    const fatalError = await rejection(fatal.result());
    assert.equal(fatalError.cause.message, 'run attempt 1');
    assert.ok(fatalError.cause instanceof ApplicationFailure);
  });

  scenario('cron: runs on, with the last result and the last failure', async () => {
    const handle = await start(wf.cronFlow, [], { cronSchedule: '@every 1s' });
    const seen = await eventually('four cron runs', () => {
      const all = records.get(handle.workflowId) ?? [];
      return all.length >= 4 && all;
    });
    await client.workflow.getHandle(handle.workflowId).terminate();
    assert.deepEqual(seen.slice(0, 4), [
      {},
      { lastResult: 1 },
      { lastResult: 1, lastFailure: 'second run fails' },
      { lastResult: 3 },
    ]);
    const first = client.workflow.getHandle(handle.workflowId, handle.firstExecutionRunId);
    const begun = (await first.fetchHistory()).events![0].workflowExecutionStartedEventAttributes!;
    assert.equal(begun.cronSchedule, '@every 1s');
  });

  scenario('patched and deprecatePatch leave markers and TemporalChangeVersion', async () => {
    const handle = await start(wf.patchedFlow, []);
    assert.deepEqual(await handle.result(), ['new a', 'only b', 'still new a']);
    const types = eventTypes(await handle.fetchHistory());
    assert.equal(types.filter((t) => t === 'MARKER_RECORDED').length, 2);
    assert.ok(types.includes('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES'));
    const versions = (await handle.describe()).searchAttributes.TemporalChangeVersion as string[];
    assert.ok(versions.includes('change-a'), JSON.stringify(versions));
  });
});
