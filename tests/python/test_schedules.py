"""Schedules through the SDK: what they start, when, and what becomes of it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from temporalio import workflow
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import EventType
from temporalio.api.schedule.v1 import SchedulePatch, TriggerImmediatelyRequest
from temporalio.api.workflowservice.v1 import PatchScheduleRequest
from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleCalendarSpec,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
    WorkflowExecutionStatus,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from flows import Echo, Waiter
from helpers import Env, events, eventually

NEVER = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(days=365))])
OFTEN = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=1))])
ALLOW = SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL)


@workflow.defn
class Remembers:
    """Returns what the run before it returned, and how it failed; fails if told to."""

    @workflow.run
    async def run(self, fail: bool) -> list[Any]:
        last = workflow.get_last_completion_result() if workflow.has_last_completion_result() else None
        failure = workflow.get_last_failure()
        if fail and last is not None and failure is None:
            raise ApplicationError("told to")
        return [1 if last is None else last[0] + 1, str(failure) if failure else None]


async def create(env: Env, spec: ScheduleSpec = NEVER, run: Any = Waiter, *args: Any, **options: Any) -> ScheduleHandle:
    """Creates a schedule of this test, which starts workflows with its id and queue."""
    schedule_options = {key: options.pop(key) for key in ("memo", "search_attributes") if key in options}
    action = ScheduleActionStartWorkflow(
        run.run, args=args, id=f"{env.id}-wf", task_queue=env.task_queue, **options.pop("action", {})
    )
    schedule = Schedule(action=action, spec=spec, **options)
    return await env.client.create_schedule(env.id, schedule, **schedule_options)


async def taken(handle: ScheduleHandle, actions: int) -> Any:
    """The description of a schedule once it has taken that many actions."""

    async def look() -> Any:
        description = await handle.describe()
        return description if description.info.num_actions >= actions else None

    return await eventually(look, timeout=20)


async def over(handle: ScheduleHandle) -> Any:
    """The description of a schedule once nothing runs."""

    async def look() -> Any:
        description = await handle.describe()
        return description if not description.info.running_actions else None

    return await eventually(look, timeout=20)


async def ids(env: Env, query: str = "") -> list[str]:
    """Ids of the workflows that the schedule started."""
    mine = f"TemporalScheduledById = '{env.id}'{query}"
    return sorted([found.id async for found in env.client.list_workflows(mine)])


async def test_fires_at_its_times(env: Env) -> None:
    handle = await create(env, OFTEN, Echo, "x", policy=ALLOW)
    async with env.worker(Echo):
        description = await taken(handle, 3)
        await handle.pause(note="enough")
        for action in description.info.recent_actions:
            late = action.started_at - action.scheduled_at
            assert timedelta(0) <= late < timedelta(seconds=1), late
            name = f"{env.id}-wf-{action.scheduled_at.strftime('%Y-%m-%dT%H:%M:%SZ')}"
            assert action.action.workflow_id == name
            started = env.handle(name, run_id=action.action.first_execution_run_id)
            assert await started.result() == "x"
            first = (await events(started))[0].workflow_execution_started_event_attributes
            assert first.identity == f"temporal-scheduler-default-{env.id}"
            attributes = (await started.describe()).typed_search_attributes
            told = {pair.key.name: pair.value for pair in attributes}
            assert told["TemporalScheduledById"] == env.id
            assert told["TemporalScheduledStartTime"] == action.scheduled_at


async def test_description(env: Env) -> None:
    state = ScheduleState(note="a note", paused=True, limited_actions=True, remaining_actions=3)
    policy = SchedulePolicy(
        overlap=ScheduleOverlapPolicy.BUFFER_ONE, catchup_window=timedelta(minutes=5), pause_on_failure=True
    )
    spec = ScheduleSpec(
        calendars=[ScheduleCalendarSpec(hour=[ScheduleRange(3, 9, 3)], comment="mornings")],
        cron_expressions=["0 12 * * MON-FRI"],
        intervals=[ScheduleIntervalSpec(every=timedelta(hours=2), offset=timedelta(minutes=5))],
        jitter=timedelta(seconds=10),
        time_zone_name="Europe/Berlin",
    )
    handle = await create(env, spec, state=state, policy=policy, memo={"about": "it"})
    description = await handle.describe()
    assert description.schedule.state == state
    assert description.schedule.policy == policy
    said = description.schedule.spec
    assert said.intervals == spec.intervals and said.time_zone_name == "Europe/Berlin"
    assert [calendar.comment for calendar in said.calendars] == ["mornings", None]
    assert list(said.calendars[0].hour) == [ScheduleRange(3, 9, 3)]
    assert list(said.calendars[1].day_of_week) == [ScheduleRange(1, 5, 1)]
    assert await description.memo() == {"about": "it"}
    assert len(description.info.next_action_times) == 3
    assert description.info.created_at <= datetime.now(timezone.utc)


async def test_errors(env: Env) -> None:
    handle = await create(env)
    with pytest.raises(ScheduleAlreadyRunningError):
        await create(env)
    with pytest.raises(RPCError) as wrong:
        await env.client.create_schedule(
            f"{env.id}-bad",
            Schedule(
                action=ScheduleActionStartWorkflow("X", id="x", task_queue="q"),
                spec=ScheduleSpec(cron_expressions=["nonsense"]),
            ),
        )
    assert wrong.value.status == RPCStatusCode.INVALID_ARGUMENT
    assert wrong.value.message == "Invalid schedule spec: CronString does not have 5-7 fields"
    await handle.delete()
    for call in (handle.describe, handle.delete, handle.trigger):
        with pytest.raises(RPCError) as gone:
            await call()
        assert gone.value.status == RPCStatusCode.NOT_FOUND
    await (await create(env)).delete()


async def test_overlapping_starts_are_skipped_or_wait(env: Env) -> None:
    handle = await create(env)
    await handle.trigger()
    first = (await taken(handle, 1)).info.running_actions[0]
    await asyncio.sleep(1.1)
    await handle.trigger()
    await handle.trigger(overlap=ScheduleOverlapPolicy.BUFFER_ONE)
    await asyncio.sleep(0.5)
    description = await handle.describe()
    assert description.info.num_actions_skipped_overlap == 1 and description.info.num_actions == 1
    await env.handle(first.workflow_id).terminate()
    description = await taken(handle, 2)
    assert description.info.running_actions[0].workflow_id != first.workflow_id
    statuses = [action.action for action in description.info.recent_actions]
    assert [status.workflow_id for status in statuses] == [first.workflow_id, description.info.running_actions[0].workflow_id]


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        (ScheduleOverlapPolicy.CANCEL_OTHER, WorkflowExecutionStatus.CANCELED),
        (ScheduleOverlapPolicy.TERMINATE_OTHER, WorkflowExecutionStatus.TERMINATED),
    ],
)
async def test_the_next_one_ends_the_last(
    env: Env, policy: ScheduleOverlapPolicy, status: WorkflowExecutionStatus
) -> None:
    async with env.worker(Waiter):
        handle = await create(env)
        await handle.trigger()
        first = (await taken(handle, 1)).info.running_actions[0].workflow_id
        await asyncio.sleep(1.1)
        await handle.trigger(overlap=policy)
        description = await taken(handle, 2)
        assert (await env.handle(first).describe()).status == status
        assert description.info.running_actions[0].workflow_id != first


async def test_results_and_failures_are_handed_on(env: Env) -> None:
    async with env.worker(Remembers):
        handle = await create(env, NEVER, Remembers, True)
        results = []
        for number in range(4):
            await handle.trigger()
            description = await taken(handle, number + 1)
            started = env.handle(description.info.recent_actions[-1].action.workflow_id)
            try:
                results.append(await started.result())
            except Exception:
                results.append(["failed"])
            await over(handle)
            await asyncio.sleep(1.1)
        assert results[0] == [1, None]
        assert results[1] == ["failed"]
        assert results[2][0] == 2 and "told to" in results[2][1]
        assert results[3] == ["failed"], "a success forgets the failure"


async def test_pause_and_unpause(env: Env) -> None:
    handle = await create(env, OFTEN, Echo, policy=ALLOW, state=ScheduleState(paused=True, note="not yet"))
    await asyncio.sleep(1.5)
    assert (await handle.describe()).info.num_actions == 0
    await handle.unpause(note="now")
    description = await taken(handle, 1)
    assert description.schedule.state.note == "now"
    await handle.pause(note="stop")
    assert (await handle.describe()).schedule.state.paused
    before = (await handle.describe()).info.num_actions
    await asyncio.sleep(2.2)
    assert (await handle.describe()).info.num_actions <= before + 1


async def test_a_failure_pauses_it(env: Env) -> None:
    async with env.worker(Remembers):
        handle = await create(env, NEVER, Remembers, True, policy=SchedulePolicy(pause_on_failure=True))
        for number in (1, 2):
            await handle.trigger()
            await taken(handle, number)
            await over(handle)
            await asyncio.sleep(1.1)

        async def paused() -> bool:
            return (await handle.describe()).schedule.state.paused

        await eventually(paused)
        note = (await handle.describe()).schedule.state.note or ""
        assert note.startswith(f"paused due to workflow failure: {env.id}-wf-") and note.endswith(": told to"), note


async def test_limited_actions(env: Env) -> None:
    state = ScheduleState(limited_actions=True, remaining_actions=2)
    handle = await create(env, OFTEN, Echo, policy=ALLOW, state=state)
    await taken(handle, 2)
    await asyncio.sleep(1.5)
    description = await handle.describe()
    assert description.info.num_actions == 2
    assert description.schedule.state.remaining_actions == 0
    assert description.info.next_action_times == []


async def test_backfill(env: Env) -> None:
    spec = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(hours=1))])
    handle = await create(env, spec, Echo, state=ScheduleState(paused=True))
    start = datetime(2024, 1, 1, tzinfo=timezone.utc)
    span = ScheduleBackfill(
        start_at=start, end_at=start + timedelta(hours=23), overlap=ScheduleOverlapPolicy.ALLOW_ALL
    )
    await handle.backfill(span)
    description = await taken(handle, 24)
    expected = [f"{env.id}-wf-2024-01-01T{hour:02}:00:00Z" for hour in range(24)]

    async def listed() -> bool:
        return await ids(env) == expected

    await eventually(listed)
    recent = [action.scheduled_at for action in description.info.recent_actions]
    assert recent == [start + timedelta(hours=hour) for hour in range(14, 24)]


async def test_update(env: Env) -> None:
    handle = await create(env, NEVER, Echo, "old")
    before = await handle.describe()

    def change(seen: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule = seen.description.schedule
        assert isinstance(schedule.action, ScheduleActionStartWorkflow)
        schedule.action.args = ["new"]
        schedule.spec = OFTEN
        schedule.state.note = "changed"
        return ScheduleUpdate(schedule)

    await handle.update(change)
    async with env.worker(Echo):
        description = await taken(handle, 1)
        assert description.schedule.state.note == "changed"
        assert description.info.last_updated_at and description.info.last_updated_at >= before.info.created_at
        started = env.handle(description.info.recent_actions[-1].action.workflow_id)
        assert await started.result() == "new"
        await handle.delete()


async def test_lists(env: Env) -> None:
    await create(env, memo={"about": "it"})
    ours = f"ScheduleId = '{env.id}'"

    async def found(query: str) -> list[Any]:
        return [entry async for entry in await env.client.list_schedules(query=query)]

    async def one() -> Any:
        return await found(ours)

    entry = (await eventually(one))[0]
    assert entry.id == env.id and await entry.memo() == {"about": "it"}
    assert entry.schedule.action.workflow == "Waiter"
    assert not entry.schedule.state.paused and len(entry.info.next_action_times) == 5
    handle = env.client.get_schedule_handle(env.id)
    await handle.pause()
    asleep = f"{ours} AND TemporalSchedulePaused = true"

    async def one_asleep() -> Any:
        return await found(asleep)

    assert len(await eventually(one_asleep)) == 1
    assert [w.id async for w in env.client.list_workflows(f"WorkflowId = 'temporal-sys-scheduler:{env.id}'")] == []
    await handle.delete()

    async def none() -> bool:
        return await found(ours) == []

    await eventually(none)


async def test_a_deleted_schedule_leaves_its_workflows_alone(env: Env) -> None:
    handle = await create(env)
    await handle.trigger()
    started = (await taken(handle, 1)).info.running_actions[0].workflow_id
    await handle.delete()
    assert (await env.handle(started).describe()).status == WorkflowExecutionStatus.RUNNING
    async with env.worker(Waiter):
        await env.handle(started).signal(Waiter.finish)
        await env.handle(started).result()
    names = [event.event_type for event in await events(env.handle(started))]
    assert names[-1] == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED


async def test_whoever_triggers_finds_the_action(env: Env) -> None:
    """A description waits for actions that are being taken."""
    handle = await create(env, policy=ALLOW)
    for number in range(1, 101):
        trigger = TriggerImmediatelyRequest(scheduled_time=Timestamp(seconds=number))
        patch = SchedulePatch(trigger_immediately=trigger)
        await env.client.workflow_service.patch_schedule(
            PatchScheduleRequest(namespace=env.client.namespace, schedule_id=env.id, patch=patch)
        )
        assert (await handle.describe()).info.num_actions == number
