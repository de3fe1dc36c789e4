"""Time skipping: the SDK's time-skipping environment with Segno as its test server, and `--skip-time`."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from typing import Any, AsyncIterator

import pytest
from google.protobuf.empty_pb2 import Empty
from temporalio import activity, workflow
from temporalio.api.testservice.v1 import (
    LockTimeSkippingRequest,
    SleepRequest,
    SleepUntilRequest,
    UnlockTimeSkippingRequest,
)
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
    WorkflowFailureError,
)
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import segno_binary

QUEUE = "skipping"
DAY = timedelta(days=1)
# Far less than anything that is skipped here, far more than a busy machine needs.
SOON = 30.0


@pytest.fixture(autouse=True)
def binary() -> None:
    if not segno_binary().exists():
        pytest.skip("needs the binary: set SEGNO_BIN")


@workflow.defn
class Sleeper:
    """Sleeps and says how long that took by its own clock."""

    def __init__(self) -> None:
        self.days = 0

    @workflow.run
    async def run(self, days: int) -> float:
        begun = workflow.now()
        for _ in range(days):
            await workflow.sleep(DAY)
            self.days += 1
        return (workflow.now() - begun).total_seconds()

    @workflow.query
    def slept(self) -> int:
        return self.days


@workflow.defn
class Waiter:
    """Waits for a signal that may never come."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)


@activity.defn
async def slow() -> float:
    """Takes a second of real time."""
    begun = time.monotonic()
    await asyncio.sleep(1)
    return time.monotonic() - begun


@activity.defn
async def third_time_lucky() -> int:
    attempt = activity.info().attempt
    if attempt < 3:
        raise ApplicationError("not yet")
    return attempt


@workflow.defn
class Caller:
    """An activity next to a timer that is far away."""

    @workflow.run
    async def run(self, name: str) -> list[float]:
        begun = workflow.now()
        timer = asyncio.create_task(asyncio.sleep(3600))
        await workflow.execute_activity(
            name,
            start_to_close_timeout=timedelta(seconds=20),
            retry_policy=RetryPolicy(initial_interval=timedelta(hours=3), backoff_coefficient=2),
        )
        return [(workflow.now() - begun).total_seconds(), float(timer.done())]


@workflow.defn
class Oversleeper:
    """An activity that has to report within twenty seconds, on a queue of its own."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            "oversleep",
            task_queue="oversleep",
            schedule_to_close_timeout=timedelta(seconds=1000),
            heartbeat_timeout=timedelta(seconds=20),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


@workflow.defn
class Parent:
    @workflow.run
    async def run(self) -> float:
        return await workflow.execute_child_workflow(Sleeper.run, 2, id="child-of-parent")


@asynccontextmanager
async def skipping(**options: Any) -> AsyncIterator[WorkflowEnvironment]:
    """The SDK's time-skipping test environment, with this binary as its test server."""
    env = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=str(segno_binary()), **options
    )
    async with env:
        async with worker(env.client):
            yield env


def worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Sleeper, Waiter, Caller, Oversleeper, Parent],
        activities=[slow, third_time_lucky],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


async def test_a_month_passes_while_the_result_is_awaited() -> None:
    async with skipping() as env:
        begun, clock = time.monotonic(), await env.get_current_time()
        slept = await env.client.execute_workflow(Sleeper.run, 30, id="month", task_queue=QUEUE)
        assert timedelta(seconds=slept) >= 30 * DAY
        assert timedelta(seconds=slept) < 31 * DAY
        assert time.monotonic() - begun < SOON
        now = await env.get_current_time()
        assert 30 * DAY <= now - clock < 31 * DAY
        events = [event async for event in env.client.get_workflow_handle("month").fetch_history_events()]
        assert events[-1].event_time.ToDatetime(tzinfo=timezone.utc) <= now


async def test_without_an_unlock_time_passes_as_usual() -> None:
    async with skipping() as env:
        handle = await env.client.start_workflow(Sleeper.run, 1, id="locked", task_queue=QUEUE)
        with env.auto_time_skipping_disabled():
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(handle.result(), 2)
        assert await env.get_current_time() - datetime.now(timezone.utc) < timedelta(minutes=1)
        assert await handle.query(Sleeper.slept) == 0
        assert timedelta(seconds=await handle.result()) >= DAY


async def test_sleep_passes_exactly_what_lies_on_its_way() -> None:
    async with skipping() as env:
        handle = await env.client.start_workflow(Sleeper.run, 10, id="walk", task_queue=QUEUE)
        begun = time.monotonic()
        for days in (1, 2, 3):
            await env.sleep(DAY + timedelta(minutes=1))
            # All that was due has happened when the sleep ends: no wait, no retry.
            assert await handle.query(Sleeper.slept) == days
        assert time.monotonic() - begun < SOON
        await env.sleep(3 * DAY)
        assert await handle.query(Sleeper.slept) == 6


async def test_an_activity_under_way_holds_time() -> None:
    async with skipping() as env:
        passed, timer_fired = await env.client.execute_workflow(
            Caller.run, "slow", id="slow", task_queue=QUEUE
        )
        assert 1 <= passed < 60
        assert not timer_fired


async def test_an_activity_can_skip_the_time_that_it_holds() -> None:
    async with skipping() as env:

        @activity.defn
        async def oversleep() -> None:
            await env.sleep(40)

        begun = time.monotonic()
        async with Worker(env.client, task_queue="oversleep", activities=[oversleep]):
            with pytest.raises(WorkflowFailureError) as raised:
                await env.client.execute_workflow(Oversleeper.run, id="oversleeper", task_queue=QUEUE)
        assert isinstance(raised.value.cause, ActivityError)
        assert isinstance(raised.value.cause.cause, TimeoutError)
        assert raised.value.cause.cause.type == TimeoutType.HEARTBEAT
        assert time.monotonic() - begun < SOON


async def test_back_offs_of_activities_are_skipped() -> None:
    async with skipping() as env:
        begun = time.monotonic()
        passed, timer_fired = await env.client.execute_workflow(
            Caller.run, "third_time_lucky", id="retried", task_queue=QUEUE
        )
        # Three hours, then six.
        assert 9 * 3600 <= passed < 9 * 3600 + 120
        assert timer_fired
        assert time.monotonic() - begun < SOON


async def test_an_attempt_that_nobody_takes_holds_time() -> None:
    async with skipping() as env:
        handle = await env.client.start_workflow(Sleeper.run, 1, id="alone", task_queue="nobody")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(env.sleep(DAY), 2)
        assert await env.get_current_time() - datetime.now(timezone.utc) < timedelta(minutes=1)
        await handle.terminate()


async def test_time_outs_of_workflows_and_start_delays_are_skipped() -> None:
    async with skipping() as env:
        begun = time.monotonic()
        with pytest.raises(WorkflowFailureError) as failed:
            await env.client.execute_workflow(
                Waiter.run,
                id="waiter",
                task_queue=QUEUE,
                execution_timeout=timedelta(days=400),
                start_delay=timedelta(days=3),
            )
        assert isinstance(failed.value.cause, TimeoutError)
        described = await env.client.get_workflow_handle("waiter").describe()
        assert described.close_time and described.execution_time
        # Expiration is rounded to milliseconds.
        assert described.close_time - described.start_time > timedelta(days=400, milliseconds=-1)
        assert time.monotonic() - begun < SOON


async def test_children_are_waited_for() -> None:
    async with skipping() as env:
        slept = await env.client.execute_workflow(Parent.run, id="parent", task_queue=QUEUE)
        assert 2 * DAY <= timedelta(seconds=slept) < 3 * DAY


async def test_schedules_fire_on_the_way() -> None:
    async with skipping() as env:
        handle = await env.client.create_schedule(
            "hourly",
            Schedule(
                action=ScheduleActionStartWorkflow(
                    Sleeper.run, 0, id="scheduled", task_queue=QUEUE
                ),
                spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(hours=1))]),
            ),
        )
        await env.sleep(timedelta(hours=5, minutes=1))
        described = await handle.describe()
        assert described.info.num_actions == 5
        times = [action.scheduled_at for action in described.info.recent_actions]
        assert all(at.minute == 0 for at in times)
        await handle.delete()


async def test_cron_fires_on_the_way() -> None:
    async with skipping() as env:
        handle = await env.client.start_workflow(
            Sleeper.run, 0, id="cron", task_queue=QUEUE, cron_schedule="0 * * * *"
        )
        await env.sleep(timedelta(hours=3, minutes=1))
        runs = [run async for run in env.client.list_workflows("WorkflowId = 'cron'")]
        assert len(runs) == 4
        await env.client.get_workflow_handle(handle.id).terminate()


async def test_what_ended_before_a_jump_can_still_be_read() -> None:
    async with skipping() as env:
        await env.client.execute_workflow(Sleeper.run, 0, id="first", task_queue=QUEUE)
        await env.client.execute_workflow(Sleeper.run, 365, id="second", task_queue=QUEUE)
        assert await env.client.get_workflow_handle("first").result() == pytest.approx(0, abs=5)


async def test_calls_of_the_test_service() -> None:
    async with skipping() as env:
        service = env.client.test_service
        before = (await service.get_current_time(Empty())).time.ToDatetime(tzinfo=timezone.utc)
        assert abs(before - datetime.now(timezone.utc)) < timedelta(minutes=1)
        # Locked twice: one unlock is not enough.
        await service.lock_time_skipping(LockTimeSkippingRequest())
        await service.unlock_time_skipping(UnlockTimeSkippingRequest())
        request = SleepRequest()
        request.duration.FromTimedelta(DAY)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(service.sleep(request), 1)
        await service.unlock_time_skipping(UnlockTimeSkippingRequest())
        until = SleepUntilRequest()
        until.timestamp.FromDatetime(before + 7 * DAY)
        await asyncio.wait_for(service.sleep_until(until), SOON)
        now = (await service.get_current_time(Empty())).time.ToDatetime(tzinfo=timezone.utc)
        assert 7 * DAY <= now - before < 8 * DAY
        # A moment that has passed is no sleep.
        await asyncio.wait_for(service.sleep_until(until), SOON)
        with pytest.raises(RPCError) as refused:
            await service.unlock_time_skipping(UnlockTimeSkippingRequest())
        assert refused.value.status == RPCStatusCode.UNKNOWN
        assert refused.value.message == "Application error processing RPC"
        await service.lock_time_skipping(LockTimeSkippingRequest())


async def test_a_development_server_that_skips_time_from_its_start() -> None:
    env = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(segno_binary()), dev_server_extra_args=["--skip-time"]
    )
    async with env, worker(env.client):
        begun = time.monotonic()
        slept = await env.client.execute_workflow(Sleeper.run, 30, id="month", task_queue=QUEUE)
        assert timedelta(seconds=slept) >= 30 * DAY
        assert time.monotonic() - begun < SOON


async def test_other_servers_have_no_test_service(env: Any) -> None:
    with pytest.raises(RPCError) as refused:
        await env.client.test_service.get_current_time(Empty())
    assert refused.value.status == RPCStatusCode.UNIMPLEMENTED
