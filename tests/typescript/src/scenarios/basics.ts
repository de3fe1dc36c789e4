/** Start and result, timers, payloads, memo, search attributes, what describe and the history show. */
import assert from 'node:assert/strict';
import { describe } from 'node:test';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import { temporal } from '@temporalio/proto';
import {
  client,
  connection,
  delay,
  EventType,
  eventTypes,
  eventually,
  execute,
  NAMESPACE,
  scenario,
  start,
  TASK_QUEUE,
  unique,
} from '../harness';
import * as wf from '../workflows';

describe('basics', { concurrency: 8 }, () => {
  scenario('start a workflow and get its result', async () => {
    const handle = await start(wf.greet, ['Segno']);
    assert.match(handle.firstExecutionRunId, /^[0-9a-f-]{36}$/);
    assert.equal(await handle.result(), 'Hello, Segno!');
    // A handle made from the id alone, after the fact, gives the same.
    assert.equal(await client.workflow.getHandle(handle.workflowId).result(), 'Hello, Segno!');
    assert.equal(await client.workflow.result(handle.workflowId, handle.firstExecutionRunId), 'Hello, Segno!');
  });

  scenario('result waits through a long poll for a workflow that is still running', async () => {
    const handle = await start(wf.sleeper, [1_500]);
    const begin = Date.now();
    assert.equal(await handle.result(), 'slept 1500');
    assert.ok(Date.now() - begin >= 1_000);
  });

  scenario('20 workflows at once', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `w${i}`);
    const results = await Promise.all(names.map((n) => execute(wf.greet, [n])));
    assert.deepEqual(results, names.map((n) => `Hello, ${n}!`));
  });

  scenario('30 parallel activities', async () => {
    const handle = await start(wf.parallelActivities, [30]);
    assert.deepEqual(await handle.result(), Array.from({ length: 30 }, (_, i) => i));
    const types = eventTypes(await handle.fetchHistory());
    for (const type of ['SCHEDULED', 'STARTED', 'COMPLETED']) {
      assert.equal(types.filter((t) => t === `ACTIVITY_TASK_${type}`).length, 30, type);
    }
  });

  scenario('1 MB payload through workflow, activity and back', async () => {
    const big = 'x'.repeat(1_000_000);
    const echoed = await execute(wf.roundTrip<string>, [big]);
    assert.equal(echoed.length, big.length);
    assert.ok(echoed === big);
  });

  scenario('payload kinds: null, undefined, unicode, bytes, nested', async () => {
    for (const value of [null, 'ünïcode ✓ \u{1f3b5}', { a: [1, { b: null }], c: false }, 0, '']) {
      assert.deepEqual(await execute(wf.roundTrip<unknown>, [value]), value);
    }
    assert.equal(await execute(wf.roundTrip<undefined>, [undefined]), undefined);
    const bytes = new Uint8Array([0, 255, 7, 128]);
    assert.deepEqual(new Uint8Array(await execute(wf.roundTrip<Uint8Array>, [bytes])), bytes);
  });

  scenario('timers race: the short one wins', async () => {
    const handle = await start(wf.raceTimers, []);
    assert.equal(await handle.result(), 'short');
    const types = eventTypes(await handle.fetchHistory());
    assert.equal(types.filter((t) => t === 'TIMER_STARTED').length, 2);
    assert.equal(types.filter((t) => t === 'TIMER_FIRED').length, 1);
  });

  scenario('activity against timer: the activity wins', async () => {
    assert.equal(await execute(wf.activityOrTimer, []), 'activity');
  });

  scenario('condition with timeout, then a signal in time', async () => {
    const handle = await start(wf.conditionTimeout, []);
    await eventually('first timer', async () => eventTypes(await handle.fetchHistory()).includes('TIMER_FIRED'));
    await handle.signal(wf.finishSignal);
    assert.deepEqual(await handle.result(), { timedOut: true, signalled: true });
    assert.ok(eventTypes(await handle.fetchHistory()).includes('TIMER_CANCELED'));
  });

  scenario('start delay postpones the first workflow task', async () => {
    const begin = Date.now();
    const handle = await start(wf.greet, ['later'], { startDelay: '2500ms' });
    await delay(300);
    const early = await handle.fetchHistory();
    assert.deepEqual(eventTypes(early), ['WORKFLOW_EXECUTION_STARTED']);
    const attributes = early.events![0].workflowExecutionStartedEventAttributes!;
    assert.ok(Number(attributes.firstWorkflowTaskBackoff?.seconds ?? 0) === 2);
    assert.equal(await handle.result(), 'Hello, later!');
    assert.ok(Date.now() - begin >= 2_400, `${Date.now() - begin} ms`);
  });

  scenario('workflow info: what the server tells a workflow of itself', async () => {
    const handle = await start(wf.whoAmI, [], {
      workflowExecutionTimeout: '60s',
      workflowRunTimeout: '30s',
      workflowTaskTimeout: '7s',
      memo: { colour: 'teal' },
    });
    assert.deepEqual(await handle.result(), {
      workflowId: handle.workflowId,
      runId: handle.firstExecutionRunId,
      workflowType: 'whoAmI',
      taskQueue: TASK_QUEUE,
      namespace: NAMESPACE,
      attempt: 1,
      memo: { colour: 'teal' },
      executionTimeoutMs: 60_000,
      runTimeoutMs: 30_000,
      taskTimeoutMs: 7_000,
      historyLength: 3,
      hasHistorySize: true,
    });
  });

  scenario('memo: set at start, changed by upsertMemo, shown by describe', async () => {
    const handle = await start(wf.memoFlow, [], { memo: { kept: 'k', replaced: 'old', removed: 'r' } });
    const expected = { kept: 'k', replaced: 'new', added: [1, 2] };
    assert.deepEqual(await handle.result(), expected);
    assert.deepEqual((await handle.describe()).memo, expected);
    assert.ok(eventTypes(await handle.fetchHistory()).includes('WORKFLOW_PROPERTIES_MODIFIED'));
  });

  scenario('search attributes: set at start, upserted, shown by describe', async (t) => {
    const name = 'SegnoTsKeyword';
    try {
      await connection.operatorService.addSearchAttributes({
        namespace: NAMESPACE,
        searchAttributes: { [name]: temporal.api.enums.v1.IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD },
      });
    } catch (err) {
      const { code } = err as { code?: number };
      if (code === 12) return t.skip('the server cannot register search attributes');
      if (code !== 6) throw err; // 6: already there, from an earlier run
    }
    const key = defineSearchAttributeKey(name, 'KEYWORD');
    const handle = await eventually('the search attribute to be known', () =>
      start(wf.searchAttributeFlow, [name, 'second'], {
        typedSearchAttributes: new TypedSearchAttributes([{ key, value: 'first' }]),
      }).catch((err) => {
        if (/no mapping|not defined/i.test(String(err.cause ?? err))) return undefined;
        throw err;
      })
    );
    assert.deepEqual(await handle.result(), { before: 'first', after: 'second' });
    assert.equal((await handle.describe()).typedSearchAttributes.get(key), 'second');
    assert.ok(eventTypes(await handle.fetchHistory()).includes('UPSERT_WORKFLOW_SEARCH_ATTRIBUTES'));
  });

  scenario('describe: running, then completed', async () => {
    const handle = await start(wf.counter, [5], { staticSummary: 'a summary', staticDetails: 'some *details*' });
    const running = await handle.describe();
    assert.equal(running.status.name, 'RUNNING');
    assert.equal(running.type, 'counter');
    assert.equal(running.workflowId, handle.workflowId);
    assert.equal(running.runId, handle.firstExecutionRunId);
    assert.equal(running.taskQueue, TASK_QUEUE);
    assert.equal(running.closeTime, undefined);
    assert.ok(Math.abs(Date.now() - running.startTime.getTime()) < 60_000);
    assert.equal(await running.staticSummary(), 'a summary');
    assert.equal(await running.staticDetails(), 'some *details*');

    await handle.signal(wf.finishSignal);
    await handle.result();
    const closed = await handle.describe();
    assert.equal(closed.status.name, 'COMPLETED');
    assert.ok(closed.closeTime!.getTime() >= closed.startTime.getTime());
    const events = (await handle.fetchHistory()).events!;
    assert.equal(closed.historyLength, events.length);
  });

  scenario('describe shows pending activities and children', async () => {
    const failing = await start(wf.callActivity, [
      'failing',
      [{ failures: 100, type: 'StillBroken' }],
      { startToCloseTimeout: '5s', retry: { initialInterval: '200ms', backoffCoefficient: 1 }, activityId: 'the-id' },
    ]);
    const pending = await eventually('a retried activity', async () => {
      const found = (await failing.describe()).raw.pendingActivities?.[0];
      return found && (found.attempt ?? 0) >= 2 && found.lastFailure ? found : undefined;
    });
    assert.equal(pending.activityId, 'the-id');
    assert.equal(pending.activityType?.name, 'failing');
    assert.match(pending.lastFailure!.message!, /^attempt \d+ failed$/);
    assert.equal(pending.lastFailure!.applicationFailureInfo?.type, 'StillBroken');
    await failing.terminate();

    const childId = unique('pending-child');
    const parent = await start(wf.waitForChild, [childId, 'ABANDON', 'waitForever']);
    const child = await eventually('a pending child', async () => (await parent.describe()).raw.pendingChildren?.[0]);
    assert.equal(child.workflowId, childId);
    assert.equal(child.workflowTypeName, 'waitForever');
    await parent.terminate();
  });

  scenario('history of a one-activity workflow, event by event', async () => {
    const handle = await start(wf.roundTrip<string>, ['x']);
    await handle.result();
    const history = await handle.fetchHistory();
    assert.deepEqual(eventTypes(history), [
      'WORKFLOW_EXECUTION_STARTED',
      'WORKFLOW_TASK_SCHEDULED',
      'WORKFLOW_TASK_STARTED',
      'WORKFLOW_TASK_COMPLETED',
      'ACTIVITY_TASK_SCHEDULED',
      'ACTIVITY_TASK_STARTED',
      'ACTIVITY_TASK_COMPLETED',
      'WORKFLOW_TASK_SCHEDULED',
      'WORKFLOW_TASK_STARTED',
      'WORKFLOW_TASK_COMPLETED',
      'WORKFLOW_EXECUTION_COMPLETED',
    ]);
    const events = history.events!;
    assert.deepEqual(events.map((e) => Number(e.eventId)), events.map((_, i) => i + 1));
    const times = events.map((e) => Number(e.eventTime!.seconds) * 1e9 + Number(e.eventTime!.nanos ?? 0));
    assert.deepEqual(times, [...times].sort((a, b) => a - b));
    const begun = events[0].workflowExecutionStartedEventAttributes!;
    assert.equal(begun.workflowType?.name, 'roundTrip');
    assert.equal(begun.originalExecutionRunId, handle.firstExecutionRunId);
    assert.equal(begun.firstExecutionRunId, handle.firstExecutionRunId);
    assert.equal(begun.attempt, 1);
    assert.equal(Number(events[6].activityTaskCompletedEventAttributes!.scheduledEventId), 5);
    assert.equal(Number(events[6].activityTaskCompletedEventAttributes!.startedEventId), 6);
    assert.equal(Number(events[4].activityTaskScheduledEventAttributes!.workflowTaskCompletedEventId), 4);
  });

  scenario('history in pages, and only its close event', async () => {
    const handle = await start(wf.parallelActivities, [10]);
    await handle.result();
    const whole = (await handle.fetchHistory()).events!;
    const execution = { workflowId: handle.workflowId, runId: handle.firstExecutionRunId };
    const ids: number[] = [];
    let pages = 0;
    let nextPageToken: Uint8Array | undefined;
    do {
      const page = await connection.workflowService.getWorkflowExecutionHistory({
        namespace: NAMESPACE,
        execution,
        maximumPageSize: 5,
        nextPageToken,
      });
      ids.push(...page.history!.events!.map((e) => Number(e.eventId)));
      nextPageToken = page.nextPageToken?.length ? page.nextPageToken : undefined;
      assert.ok(++pages < 100);
    } while (nextPageToken);
    assert.deepEqual(ids, whole.map((e) => Number(e.eventId)));
    assert.ok(pages > 1);

    const close = await connection.workflowService.getWorkflowExecutionHistory({
      namespace: NAMESPACE,
      execution,
      historyEventFilterType: temporal.api.enums.v1.HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
    });
    assert.deepEqual(
      close.history!.events!.map((e) => e.eventType),
      [EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED]
    );
  });
});
