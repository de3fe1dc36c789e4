"""Local activities: they run in the workflow task and leave markers in history."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, TimeoutError

from flows import SHORT, echo, fail_until
from helpers import Env, event_counts, event_names, eventually, find_event, raises


@workflow.defn
class CallLocal:
    """Calls one local activity by name with options given by the test."""

    @workflow.run
    async def run(self, name: str, args: list[Any], options: dict[str, Any]) -> Any:
        retry = RetryPolicy(
            initial_interval=timedelta(seconds=options.get("interval", 0.05)),
            backoff_coefficient=1.0,
            maximum_attempts=options.get("attempts", 0),
        )
        return await workflow.execute_local_activity(
            name,
            args=args,
            start_to_close_timeout=timedelta(seconds=options.get("timeout", 30)),
            retry_policy=retry,
            local_retry_threshold=timedelta(seconds=options.get("threshold", 60)),
        )


async def test_local_activity(env: Env):
    async with env.worker(CallLocal, echo):
        handle = await env.start(CallLocal, "echo", ["local"], {})
        assert await handle.result() == "local"
    assert await event_names(handle) == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "MarkerRecorded",
        "WorkflowExecutionCompleted",
    ]
    marker = await find_event(handle, "MarkerRecorded")
    assert marker.marker_name == "core_local_activity"


async def test_local_activity_retries(env: Env):
    async with env.worker(CallLocal, fail_until):
        handle = await env.start(CallLocal, "fail_until", [3], {})
        assert await handle.result() == 3
    assert (await event_counts(handle))["MarkerRecorded"] == 1


async def test_local_activity_retries_by_timer(env: Env):
    """A backoff above the threshold becomes a timer of the workflow."""
    async with env.worker(CallLocal, fail_until):
        options = {"interval": 0.5, "threshold": 0.1}
        handle = await env.start(CallLocal, "fail_until", [2], options)
        assert await handle.result() == 2
    counts = await event_counts(handle)
    assert counts["TimerStarted"] == counts["TimerFired"] == 1
    assert counts["MarkerRecorded"] == 2


async def test_local_activity_fails(env: Env):
    async with env.worker(CallLocal, fail_until):
        handle = await env.start(CallLocal, "fail_until", [9], {"attempts": 2})
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.message == "attempt 2 fails"
    marker = await find_event(handle, "MarkerRecorded")
    assert marker.HasField("failure")


async def test_local_activity_timeout(env: Env):
    async with env.worker(CallLocal, nap):
        handle = await env.start(CallLocal, "nap", [30], {"timeout": 0.3, "attempts": 1})
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause.cause, TimeoutError)


@activity.defn
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


async def test_long_local_activity_keeps_its_task_alive(env: Env):
    """The worker extends a short workflow task by completing it and asking for a new one."""
    async with env.worker(CallLocal, nap):
        handle = await env.start(CallLocal, "nap", [3.5], {}, task_timeout=timedelta(seconds=2))
        assert await handle.result() == "rested"
    counts = await event_counts(handle)
    assert counts["WorkflowTaskCompleted"] >= 3
    assert counts["WorkflowTaskTimedOut"] == 0
    assert counts["MarkerRecorded"] == 1


@workflow.defn
class LocalThenWait:
    def __init__(self) -> None:
        self.go = False
        self.values: list[Any] = []

    @workflow.run
    async def run(self) -> list[Any]:
        for n in range(3):
            value = await workflow.execute_local_activity(
                "count_calls", n, start_to_close_timeout=SHORT
            )
            self.values.append(value)
        await workflow.wait_condition(lambda: self.go)
        return self.values

    @workflow.signal
    def proceed(self) -> None:
        self.go = True

    @workflow.query
    def current(self) -> list[Any]:
        return self.values


async def test_replay_does_not_run_local_activities_again(env: Env):
    calls: list[int] = []

    @activity.defn
    async def count_calls(n: int) -> int:
        calls.append(n)
        return n * 10

    async with env.worker(LocalThenWait, count_calls):
        handle = await env.start(LocalThenWait)

        async def recorded() -> bool:
            return (await event_counts(handle))["MarkerRecorded"] == 3

        await eventually(recorded)
    async with env.worker(LocalThenWait, count_calls):
        await handle.signal(LocalThenWait.proceed)
        assert await handle.result() == [0, 10, 20]
    assert calls == [0, 1, 2]


@workflow.defn
class ManyLocals:
    @workflow.run
    async def run(self, count: int) -> list[int]:
        runs = (
            workflow.execute_local_activity(echo, n, start_to_close_timeout=SHORT)
            for n in range(count)
        )
        return list(await asyncio.gather(*runs))


async def test_many_local_activities(env: Env):
    async with env.worker(ManyLocals, echo):
        assert await env.execute(ManyLocals, 30) == list(range(30))


async def test_signal_during_a_local_activity(env: Env):
    async with env.worker(LocalWithSignal, nap):
        handle = await env.start(LocalWithSignal)
        await asyncio.sleep(0.2)
        await handle.signal(LocalWithSignal.note, "meanwhile")
        assert await handle.result() == ["meanwhile"]


@workflow.defn
class LocalWithSignal:
    def __init__(self) -> None:
        self.notes: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.execute_local_activity(nap, 0.6, start_to_close_timeout=SHORT)
        await workflow.wait_condition(lambda: bool(self.notes))
        return self.notes

    @workflow.signal
    def note(self, text: str) -> None:
        self.notes.append(text)
