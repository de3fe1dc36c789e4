"""Timers."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

from temporalio import workflow

from flows import Sleeper
from helpers import Env, event_counts, event_names, find_event, find_events


async def test_sleep(env: Env):
    async with env.worker(Sleeper):
        begin = time.monotonic()
        handle = await env.start(Sleeper, 0.5)
        assert await handle.result() == "slept"
        assert time.monotonic() - begin >= 0.5
    assert await event_names(handle) == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "TimerStarted",
        "TimerFired",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "WorkflowExecutionCompleted",
    ]
    started = await find_event(handle, "TimerStarted")
    fired = await find_event(handle, "TimerFired")
    assert started.start_to_fire_timeout.ToTimedelta() == timedelta(seconds=0.5)
    assert fired.timer_id == started.timer_id
    assert fired.started_event_id == 5


@workflow.defn
class ManyTimers:
    @workflow.run
    async def run(self, count: int) -> int:
        await asyncio.gather(*(asyncio.sleep(0.5 + n / 100) for n in range(count)))
        return count


async def test_50_timers(env: Env):
    async with env.worker(ManyTimers):
        handle = await env.start(ManyTimers, 50)
        assert await handle.result() == 50
    counts = await event_counts(handle)
    assert counts["TimerStarted"] == counts["TimerFired"] == 50


@workflow.defn
class TimerOrder:
    @workflow.run
    async def run(self) -> list[float]:
        fired: list[float] = []

        async def sleep(seconds: float) -> None:
            await asyncio.sleep(seconds)
            fired.append(seconds)

        await asyncio.gather(sleep(2.5), sleep(0.2), sleep(1.3))
        return fired


async def test_timers_fire_by_their_time(env: Env):
    async with env.worker(TimerOrder):
        assert await env.execute(TimerOrder) == [0.2, 1.3, 2.5]


@workflow.defn
class CancelsTimer:
    @workflow.run
    async def run(self) -> str:
        long = asyncio.create_task(asyncio.sleep(3600))
        await asyncio.sleep(0.01)
        long.cancel()
        try:
            await long
        except asyncio.CancelledError:
            return "timer cancelled"
        return "no"


async def test_cancelled_timer(env: Env):
    async with env.worker(CancelsTimer):
        handle = await env.start(CancelsTimer)
        assert await handle.result() == "timer cancelled"
    started = await find_events(handle, "TimerStarted")
    canceled = await find_event(handle, "TimerCanceled")
    long = next(timer for timer in started if timer.start_to_fire_timeout.seconds == 3600)
    assert canceled.timer_id == long.timer_id


@workflow.defn
class WaitsWithTimeout:
    def __init__(self) -> None:
        self.go = False

    @workflow.run
    async def run(self, seconds: float) -> str:
        try:
            await workflow.wait_condition(lambda: self.go, timeout=seconds)
            return "signal"
        except asyncio.TimeoutError:
            return "timeout"

    @workflow.signal
    def proceed(self) -> None:
        self.go = True


async def test_wait_condition_runs_into_its_timeout(env: Env):
    async with env.worker(WaitsWithTimeout):
        assert await env.execute(WaitsWithTimeout, 0.2) == "timeout"


async def test_signal_beats_the_timeout(env: Env):
    async with env.worker(WaitsWithTimeout):
        handle = await env.start(WaitsWithTimeout, 3600)
        await handle.signal(WaitsWithTimeout.proceed)
        assert await handle.result() == "signal"


@workflow.defn
class WorkflowTime:
    @workflow.run
    async def run(self) -> list[float]:
        before = workflow.time()
        await workflow.sleep(1, summary="a named nap")
        return [before, workflow.time()]


async def test_workflow_time_moves_with_the_timer(env: Env):
    async with env.worker(WorkflowTime):
        handle = await env.start(WorkflowTime)
        before, after = await handle.result()
    assert 1 <= after - before < 5
    assert abs(before - time.time()) < 60
    named = [e for e in (await handle.fetch_history()).events if e.HasField("user_metadata")]
    assert [e.user_metadata.summary.data for e in named] == [b'"a named nap"']


async def test_timer_fires_while_no_worker_runs(env: Env):
    async with env.worker(Sleeper):
        handle = await env.start(Sleeper, 1)

        while "TimerStarted" not in await event_names(handle):
            await asyncio.sleep(0.02)
    await asyncio.sleep(1.2)
    async with env.worker(Sleeper):
        assert await handle.result() == "slept"
