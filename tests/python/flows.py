"""Small workflows and activities that several test files use."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError

SHORT = timedelta(seconds=10)


@workflow.defn
class Echo:
    """Returns its input."""

    @workflow.run
    async def run(self, value: Any = None) -> Any:
        return value


@workflow.defn
class Waiter:
    """Waits for the signal `finish`; its result is the list of all values given to `add`."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.finished = False

    @workflow.run
    async def run(self) -> list[Any]:
        await workflow.wait_condition(lambda: self.finished)
        return self.values

    @workflow.signal
    def add(self, value: Any) -> None:
        self.values.append(value)

    @workflow.signal
    def finish(self) -> None:
        self.finished = True

    @workflow.query
    def current(self) -> list[Any]:
        return self.values

    @workflow.query
    def broken(self) -> None:
        raise ApplicationError("query failed on purpose", type="BrokenQuery")


@workflow.defn
class Fails:
    """Fails with a given message."""

    @workflow.run
    async def run(self, message: str = "failed on purpose") -> None:
        raise ApplicationError(message, "detail", 7, type="OnPurpose")


@workflow.defn
class Sleeper:
    """Sleeps."""

    @workflow.run
    async def run(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "slept"


@workflow.defn
class CallActivity:
    """Calls one activity by name with options given by the test."""

    @workflow.run
    async def run(self, name: str, args: list[Any], options: dict[str, Any]) -> Any:
        return await workflow.execute_activity(name, args=args, **activity_options(options))


def activity_options(options: dict[str, Any]) -> dict[str, Any]:
    """JSON-friendly activity options to SDK ones: *_timeout in seconds, retry as a dict."""
    from temporalio.common import RetryPolicy

    made: dict[str, Any] = {}
    for key, value in options.items():
        if key.endswith("_timeout"):
            made[key] = timedelta(seconds=value)
        elif key == "retry":
            seconds = {k: timedelta(seconds=v) for k, v in value.items() if k.endswith("_interval")}
            made["retry_policy"] = RetryPolicy(**{**value, **seconds})
        elif key == "cancellation_type":
            made[key] = workflow.ActivityCancellationType(value)
        else:
            made[key] = value
    if not {"start_to_close_timeout", "schedule_to_close_timeout"} & made.keys():
        made["start_to_close_timeout"] = SHORT
    return made


@activity.defn
async def echo(value: Any = None) -> Any:
    """Returns its input."""
    return value


@activity.defn
async def attempt() -> int:
    """Returns which attempt it is."""
    return activity.info().attempt


@activity.defn
async def fail_until(attempts: int) -> int:
    """Fails until it is the given attempt."""
    if activity.info().attempt < attempts:
        raise ApplicationError(f"attempt {activity.info().attempt} fails", type="NotYet")
    return activity.info().attempt
