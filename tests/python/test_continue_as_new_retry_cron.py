"""Workflows of more than one run: continue-as-new, workflow retries and cron schedules."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.api.enums.v1 import ContinueAsNewInitiator, RetryState
from temporalio.client import (
    WorkflowContinuedAsNewError,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, TimeoutError
from temporalio.service import RPCError, RPCStatusCode

from flows import Sleeper
from helpers import Env, event_names, eventually, find_event, raises


async def run_ids(env: Env, first: str) -> list[str]:
    """The run ids of a chain, from its first run on."""
    found = [first]
    while True:
        history = await env.handle(run_id=found[-1]).fetch_history()
        last = history.events[-1]
        attributes = getattr(last, last.WhichOneof("attributes"))
        new = getattr(attributes, "new_execution_run_id", "")
        if not new:
            return found
        found.append(new)


# --- continue as new ---


@workflow.defn
class CountsDown:
    @workflow.run
    async def run(self, left: int, seen: list[int]) -> list[int]:
        seen.append(left)
        if left:
            workflow.continue_as_new(args=[left - 1, seen])
        return seen


async def test_continue_as_new(env: Env):
    async with env.worker(CountsDown):
        handle = await env.start(CountsDown, 2, [])
        assert await handle.result() == [2, 1, 0]
    chain = await run_ids(env, handle.first_execution_run_id)
    assert len(chain) == 3
    first, second = env.handle(run_id=chain[0]), env.handle(run_id=chain[1])
    assert (await first.describe()).status == WorkflowExecutionStatus.CONTINUED_AS_NEW
    assert (await event_names(first))[-1] == "WorkflowExecutionContinuedAsNew"
    started = await find_event(second, "WorkflowExecutionStarted")
    assert started.continued_execution_run_id == chain[0]
    assert started.first_execution_run_id == chain[0]
    assert started.initiator == ContinueAsNewInitiator.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
    assert (await env.handle().describe()).run_id == chain[2]


async def test_result_of_one_run_only(env: Env):
    async with env.worker(CountsDown):
        handle = await env.start(CountsDown, 1, [])
        await handle.result()
        first = env.handle(run_id=handle.first_execution_run_id)
        error = await raises(WorkflowContinuedAsNewError, first.result(follow_runs=False))
        assert error.new_execution_run_id == (await env.handle().describe()).run_id


async def test_terminate_by_the_first_run_id_reaches_the_last_run(env: Env):
    async with env.worker(ContinuesThenWaits):
        handle = await env.start(ContinuesThenWaits, True)
        await eventually(lambda: second_run(handle))
        # The handle knows only the first run; terminate() sends it as the first execution's id.
        await handle.terminate()
        assert (await env.handle().describe()).status == WorkflowExecutionStatus.TERMINATED


async def second_run(handle) -> bool:
    return (await handle.describe()).run_id != handle.first_execution_run_id


@workflow.defn
class ContinuesThenWaits:
    def __init__(self) -> None:
        self.values: list[Any] = []
        self.finished = False

    @workflow.run
    async def run(self, again: bool) -> list[Any]:
        if again:
            workflow.continue_as_new(False)
        await workflow.wait_condition(lambda: self.finished)
        return self.values

    @workflow.signal
    def add(self, value: Any) -> None:
        self.values.append(value)

    @workflow.signal
    def finish(self) -> None:
        self.finished = True


async def test_signal_without_run_id_goes_to_the_current_run(env: Env):
    async with env.worker(ContinuesThenWaits):
        handle = await env.start(ContinuesThenWaits, True)
        await eventually(lambda: second_run(handle))
        await env.handle().signal("add", "second")
        await env.handle().signal("finish")
        assert await handle.result() == ["second"]
        old = env.handle(run_id=handle.first_execution_run_id)
        error = await raises(RPCError, old.signal("add", 1))
        assert error.status == RPCStatusCode.NOT_FOUND


@workflow.defn
class ChangesOptions:
    @workflow.run
    async def run(self, second: bool) -> list[Any]:
        info = workflow.info()
        if not second:
            workflow.continue_as_new(
                True, memo={"run": "second"}, task_timeout=timedelta(seconds=8)
            )
        return [
            workflow.memo_value("run"),
            info.task_timeout.total_seconds(),
            info.run_timeout.total_seconds(),
            info.continued_run_id is not None,
        ]


async def test_continue_as_new_keeps_and_changes_options(env: Env):
    async with env.worker(ChangesOptions):
        result = await env.execute(
            ChangesOptions, False, memo={"run": "first"}, run_timeout=timedelta(seconds=77)
        )
    assert result == ["second", 8, 77, True]


@workflow.defn
class DrainsSignals:
    """Carries the signals of each run over into the next."""

    def __init__(self) -> None:
        self.values: list[int] = []

    @workflow.run
    async def run(self, total: int, seen: list[int]) -> list[int]:
        while True:
            await workflow.wait_condition(lambda: bool(self.values))
            seen.extend(self.values)
            self.values.clear()
            if len(seen) >= total:
                return seen
            workflow.continue_as_new(args=[total, seen])

    @workflow.signal
    def add(self, value: int) -> None:
        self.values.append(value)


async def test_no_signal_is_lost_between_runs(env: Env):
    async with env.worker(DrainsSignals):
        handle = await env.start(DrainsSignals, 12, [])
        for n in range(12):
            await env.handle().signal("add", n)
        assert await handle.result() == list(range(12))


# --- workflow retries ---


@workflow.defn
class FailsUntil:
    @workflow.run
    async def run(self, attempts: int) -> list[Any]:
        info = workflow.info()
        if info.attempt < attempts:
            raise ApplicationError(f"attempt {info.attempt}", type="NotYet")
        last = workflow.get_last_failure()
        return [info.attempt, str(last.cause or last) if last else None]


def fast_retry(**options: Any) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=timedelta(milliseconds=100), backoff_coefficient=1.0, **options
    )


async def test_workflow_retry(env: Env):
    async with env.worker(FailsUntil):
        handle = await env.start(FailsUntil, 2, retry_policy=fast_retry())
        attempt, last_failure = await handle.result()
        assert attempt == 2
        assert "attempt 1" in last_failure
    chain = await run_ids(env, handle.first_execution_run_id)
    assert len(chain) == 2
    failed = await find_event(env.handle(run_id=chain[0]), "WorkflowExecutionFailed")
    assert failed.retry_state == RetryState.RETRY_STATE_IN_PROGRESS
    started = await find_event(env.handle(run_id=chain[1]), "WorkflowExecutionStarted")
    assert started.attempt == 2
    assert started.initiator == ContinueAsNewInitiator.CONTINUE_AS_NEW_INITIATOR_RETRY
    assert started.continued_failure.message == "attempt 1"
    assert started.first_execution_run_id == chain[0]


async def test_workflow_retry_gives_up(env: Env):
    async with env.worker(FailsUntil):
        handle = await env.start(FailsUntil, 9, retry_policy=fast_retry(maximum_attempts=2))
        error = await raises(WorkflowFailureError, handle.result())
    assert error.cause.message == "attempt 2"
    chain = await run_ids(env, handle.first_execution_run_id)
    failed = await find_event(env.handle(run_id=chain[-1]), "WorkflowExecutionFailed")
    assert failed.retry_state == RetryState.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED


async def test_workflow_retry_stops_at_a_non_retryable_type(env: Env):
    policy = fast_retry(non_retryable_error_types=["NotYet"])
    async with env.worker(FailsUntil):
        handle = await env.start(FailsUntil, 9, retry_policy=policy)
        error = await raises(WorkflowFailureError, handle.result())
    assert error.cause.message == "attempt 1"
    failed = await find_event(handle, "WorkflowExecutionFailed")
    assert failed.retry_state == RetryState.RETRY_STATE_NON_RETRYABLE_FAILURE


async def test_no_retry_without_a_policy(env: Env):
    async with env.worker(FailsUntil):
        handle = await env.start(FailsUntil, 2)
        await raises(WorkflowFailureError, handle.result())
    failed = await find_event(handle, "WorkflowExecutionFailed")
    assert failed.retry_state == RetryState.RETRY_STATE_RETRY_POLICY_NOT_SET


async def test_run_timeout_is_retried(env: Env):
    async with env.worker(Sleeper):
        handle = await env.start(
            Sleeper,
            60,
            run_timeout=timedelta(seconds=1),
            retry_policy=fast_retry(maximum_attempts=2),
        )
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, TimeoutError)
    assert len(await run_ids(env, handle.first_execution_run_id)) == 2


async def test_workflow_retry_is_cut_by_the_execution_timeout(env: Env):
    policy = RetryPolicy(initial_interval=timedelta(seconds=60))
    async with env.worker(FailsUntil):
        handle = await env.start(
            FailsUntil, 9, execution_timeout=timedelta(seconds=5), retry_policy=policy
        )
        await raises(WorkflowFailureError, asyncio.wait_for(handle.result(), 10))
    assert len(await run_ids(env, handle.first_execution_run_id)) == 1


# --- cron ---


@workflow.defn
class CronCounter:
    @workflow.run
    async def run(self) -> int:
        if not workflow.has_last_completion_result():
            return 1
        return workflow.get_last_completion_result(int) + 1


async def cron_chain(env: Env, first: str, length: int) -> list[str]:
    """Wait until the chain has that many runs."""

    async def long_enough():
        chain = await run_ids(env, first)
        return chain if len(chain) >= length else None

    return await eventually(long_enough, timeout=20, interval=0.2)


async def test_cron_runs_again_and_again(env: Env):
    async with env.worker(CronCounter):
        handle = await env.start(CronCounter, cron_schedule="@every 1s")
        chain = await cron_chain(env, handle.first_execution_run_id, 3)
        await env.handle().terminate()
    first = await find_event(env.handle(run_id=chain[0]), "WorkflowExecutionStarted")
    assert first.cron_schedule == "@every 1s"
    assert first.first_workflow_task_backoff.ToTimedelta() > timedelta(0)
    second = await find_event(env.handle(run_id=chain[1]), "WorkflowExecutionStarted")
    assert second.initiator == ContinueAsNewInitiator.CONTINUE_AS_NEW_INITIATOR_CRON_SCHEDULE
    assert second.attempt == 1
    completed = [
        await find_event(env.handle(run_id=run_id), "WorkflowExecutionCompleted")
        for run_id in chain[:2]
    ]
    assert [c.result.payloads[0].data for c in completed] == [b"1", b"2"]


@workflow.defn
class CronFailsFirst:
    @workflow.run
    async def run(self) -> str:
        if workflow.get_last_failure() is None and not workflow.has_last_completion_result():
            raise ApplicationError("first run fails")
        return "recovered"


async def test_cron_goes_on_after_a_failure(env: Env):
    async with env.worker(CronFailsFirst):
        handle = await env.start(CronFailsFirst, cron_schedule="@every 1s")
        chain = await cron_chain(env, handle.first_execution_run_id, 3)
        await env.handle().terminate()
    assert (await event_names(env.handle(run_id=chain[0])))[-1] == "WorkflowExecutionFailed"
    assert (await event_names(env.handle(run_id=chain[1])))[-1] == "WorkflowExecutionCompleted"


async def test_cron_ends_with_a_cancelled_run(env: Env):
    async with env.worker(Sleeper):
        handle = await env.start(Sleeper, 60, cron_schedule="@every 1s")
        await eventually(lambda: has_timer(handle))
        await handle.cancel()
        await raises(WorkflowFailureError, handle.result())
        await asyncio.sleep(1.2)
        described = await env.handle().describe()
    assert described.status == WorkflowExecutionStatus.CANCELED
    assert described.run_id == handle.first_execution_run_id


async def has_timer(handle) -> bool:
    return "TimerStarted" in await event_names(handle)


async def test_invalid_cron_schedule(env: Env):
    error = await raises(RPCError, env.start(CronCounter, cron_schedule="every now and then"))
    assert error.status == RPCStatusCode.INVALID_ARGUMENT
