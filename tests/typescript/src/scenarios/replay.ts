/** Replay of histories fetched from the server. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils';
import { type ReplayHistoriesIterable, Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { bundle, client, eventTypes, rejection, scenario, start, started } from '../harness';
import * as wf from '../workflows';

describe('replay', () => {
  scenario('a fetched history replays, also after a round trip through JSON', async () => {
    const handle = await start(wf.patchedFlow, []);
    await handle.result();
    const history = await handle.fetchHistory();
    await Worker.runReplayHistory({ workflowBundle: bundle }, history, handle.workflowId);
    const json = JSON.parse(historyToJSON(history));
    assert.deepEqual(eventTypes(historyFromJSON(json)), eventTypes(history));
    await Worker.runReplayHistory({ workflowBundle: bundle }, json, handle.workflowId);
  });

  scenario('a changed history is found out', async () => {
    const handle = await start(wf.roundTrip<number>, [1]);
    await handle.result();
    const history = await handle.fetchHistory();
    const scheduled = history.events!.find((e) => e.activityTaskScheduledEventAttributes)!;
    scheduled.activityTaskScheduledEventAttributes!.activityType!.name = 'somethingElse';
    const err = await rejection(Worker.runReplayHistory({ workflowBundle: bundle }, history, handle.workflowId));
    assert.ok(err instanceof DeterminismViolationError, String(err));
  });

  scenario('every workflow that this suite started replays', async (t) => {
    async function* histories(): ReplayHistoriesIterable {
      for (const { workflowId, runId } of started) {
        const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
        // Runs that no worker ever took up have nothing to replay.
        if (!eventTypes(history).includes('WORKFLOW_TASK_COMPLETED')) continue;
        yield { workflowId, history };
      }
    }
    let count = 0;
    const wrong: string[] = [];
    for await (const result of Worker.runReplayHistories({ workflowBundle: bundle }, histories())) {
      count += 1;
      if (result.error) wrong.push(`${result.workflowId}: ${result.error}`);
    }
    t.diagnostic(`${count} histories replayed`);
    assert.deepEqual(wrong, []);
    assert.ok(count > 20);
  });
});
