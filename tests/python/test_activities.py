"""Activities: results, retries, timeouts, heartbeats, asynchronous completion, eager dispatch."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration
from temporalio import activity, workflow
from temporalio.api.command.v1 import Command, ScheduleActivityTaskCommandAttributes
from temporalio.api.common.v1 import ActivityType
from temporalio.api.enums.v1 import CommandType, PendingActivityState, WorkflowTaskFailedCause
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import RespondActivityTaskCompletedRequest
from temporalio.client import AsyncActivityCancelledError, WorkflowFailureError
from temporalio.common import Priority
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    RetryState,
    TimeoutError,
    TimeoutType,
)
from temporalio.service import RPCError, RPCStatusCode

from flows import SHORT, CallActivity, attempt, echo, fail_until
from helpers import (
    COMPLETE_WORKFLOW,
    NAMESPACE,
    Env,
    event_counts,
    event_names,
    eventually,
    find_event,
    find_events,
    pending_activity,
    raises,
)


def activity_error(error: WorkflowFailureError) -> ActivityError:
    """The activity error a workflow failed with."""
    assert isinstance(error.cause, ActivityError), error.cause
    return error.cause


async def test_activity_result(env: Env):
    async with env.worker(CallActivity, echo):
        handle = await env.start(CallActivity, "echo", ["hi"], {})
        assert await handle.result() == "hi"
    assert await event_names(handle) == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "ActivityTaskScheduled",
        "ActivityTaskStarted",
        "ActivityTaskCompleted",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "WorkflowExecutionCompleted",
    ]


@activity.defn
async def describe_self() -> dict[str, Any]:
    info = activity.info()
    return {
        "id": info.activity_id,
        "type": info.activity_type,
        "workflow": info.workflow_id,
        "queue": info.task_queue,
        "attempt": info.attempt,
        "workflow_type": info.workflow_type,
        "namespace": info.workflow_namespace,
        "start_to_close": info.start_to_close_timeout.total_seconds(),
        "heartbeat": info.heartbeat_timeout.total_seconds(),
    }


async def test_activity_info(env: Env):
    async with env.worker(CallActivity, describe_self):
        options = {"activity_id": "my-id", "start_to_close_timeout": 9, "heartbeat_timeout": 5}
        result = await env.execute(CallActivity, "describe_self", [], options)
    assert result == {
        "id": "my-id",
        "type": "describe_self",
        "workflow": env.id,
        "queue": env.task_queue,
        "attempt": 1,
        "workflow_type": "CallActivity",
        "namespace": NAMESPACE,
        "start_to_close": 9,
        "heartbeat": 5,
    }


async def test_scheduled_event_has_timeouts_and_default_retry_policy(env: Env):
    async with env.worker(CallActivity, echo):
        options = {"schedule_to_close_timeout": 30, "start_to_close_timeout": 20}
        handle = await env.start(CallActivity, "echo", ["x"], options)
        await handle.result()
    scheduled = await find_event(handle, "ActivityTaskScheduled")
    assert scheduled.schedule_to_close_timeout.seconds == 30
    assert scheduled.schedule_to_start_timeout.seconds == 30
    assert scheduled.start_to_close_timeout.seconds == 20
    assert scheduled.retry_policy.initial_interval.seconds == 1
    assert scheduled.retry_policy.backoff_coefficient == 2.0
    assert scheduled.retry_policy.maximum_interval.seconds == 100
    assert scheduled.retry_policy.maximum_attempts == 0
    assert scheduled.workflow_task_completed_event_id == 4


@activity.defn
async def own_priority() -> int | None:
    return activity.info().priority.priority_key


@workflow.defn
class ActivityWithSummaryAndPriority:
    @workflow.run
    async def run(self) -> int | None:
        return await workflow.execute_activity(
            own_priority,
            start_to_close_timeout=SHORT,
            summary="what it does",
            priority=Priority(priority_key=4),
        )


async def test_activity_summary_and_priority(env: Env):
    async with env.worker(ActivityWithSummaryAndPriority, own_priority):
        handle = await env.start(ActivityWithSummaryAndPriority)
        assert await handle.result() == 4
    scheduled = [e for e in (await handle.fetch_history()).events if e.event_id == 5][0]
    assert scheduled.user_metadata.summary.data == b'"what it does"'


# --- retries ---

FAST = {"initial_interval": 0.05, "backoff_coefficient": 1.0}


async def test_retries_until_success(env: Env):
    async with env.worker(CallActivity, fail_until):
        handle = await env.start(CallActivity, "fail_until", [3], {"retry": FAST})
        assert await handle.result() == 3
    started = await find_event(handle, "ActivityTaskStarted")
    assert started.attempt == 3
    assert started.last_failure.application_failure_info.type == "NotYet"
    assert (await event_counts(handle))["ActivityTaskScheduled"] == 1


async def test_maximum_attempts(env: Env):
    async with env.worker(CallActivity, fail_until):
        options = {"retry": {**FAST, "maximum_attempts": 2}}
        handle = await env.start(CallActivity, "fail_until", [9], options)
        error = activity_error(await raises(WorkflowFailureError, handle.result()))
    assert error.retry_state == RetryState.MAXIMUM_ATTEMPTS_REACHED
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.message == "attempt 2 fails"
    assert error.activity_type == "fail_until"
    assert error.scheduled_event_id == 5
    assert error.started_event_id == 6


async def test_non_retryable_error_type_of_the_policy(env: Env):
    async with env.worker(CallActivity, fail_until):
        options = {"retry": {**FAST, "non_retryable_error_types": ["NotYet"]}}
        handle = await env.start(CallActivity, "fail_until", [9], options)
        error = activity_error(await raises(WorkflowFailureError, handle.result()))
    assert error.retry_state == RetryState.NON_RETRYABLE_FAILURE
    assert error.cause.message == "attempt 1 fails"


@activity.defn
async def fail_for_good() -> None:
    raise ApplicationError("never again", {"why": "test"}, type="Final", non_retryable=True)


async def test_non_retryable_error(env: Env):
    async with env.worker(CallActivity, fail_for_good):
        handle = await env.start(CallActivity, "fail_for_good", [], {})
        error = activity_error(await raises(WorkflowFailureError, handle.result()))
    assert error.retry_state == RetryState.NON_RETRYABLE_FAILURE
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.type == "Final"
    assert error.cause.non_retryable
    assert list(error.cause.details) == [{"why": "test"}]


@activity.defn
async def fail_with_delay() -> int:
    if activity.info().attempt == 1:
        raise ApplicationError("wait a little", next_retry_delay=timedelta(milliseconds=200))
    return activity.info().attempt


async def test_next_retry_delay_overrides_the_policy(env: Env):
    async with env.worker(CallActivity, fail_with_delay):
        options = {"retry": {"initial_interval": 1000, "maximum_interval": 1000}}
        handle = await env.start(CallActivity, "fail_with_delay", [], options)
        assert await handle.result() == 2


async def test_retry_backoff_grows(env: Env):
    times: list[float] = []

    @activity.defn
    async def note_time() -> None:
        times.append(time.monotonic())
        if activity.info().attempt < 3:
            raise ApplicationError("again")

    async with env.worker(CallActivity, note_time):
        options = {"retry": {"initial_interval": 0.5, "backoff_coefficient": 2.0}}
        await env.execute(CallActivity, "note_time", [], options)
    first, second = times[1] - times[0], times[2] - times[1]
    assert first >= 0.45
    assert second >= 0.95


async def test_retry_stops_at_schedule_to_close(env: Env):
    async with env.worker(CallActivity, fail_until):
        options = {
            "schedule_to_close_timeout": 1,
            "retry": {"initial_interval": 30, "maximum_interval": 30},
        }
        begin = time.monotonic()
        handle = await env.start(CallActivity, "fail_until", [9], options)
        error = activity_error(await raises(WorkflowFailureError, handle.result()))
    assert error.retry_state in (RetryState.TIMEOUT, RetryState.NON_RETRYABLE_FAILURE)
    assert time.monotonic() - begin < 10


async def test_unregistered_activity_type_is_retried(env: Env):
    async with env.worker(CallActivity, echo):
        options = {"retry": {**FAST, "maximum_attempts": 2}}
        handle = await env.start(CallActivity, "no_such_activity", [], options)
        error = activity_error(await raises(WorkflowFailureError, handle.result()))
    assert error.cause.type == "NotFoundError"


# --- timeouts ---


@activity.defn
async def hang() -> None:
    await asyncio.sleep(30)


ONCE = {"maximum_attempts": 1}


async def timeout_of(env: Env, *definitions: Any, **options: Any) -> tuple[ActivityError, Any]:
    """Run `hang` with these options and return the activity error and its timeout."""
    async with env.worker(CallActivity, *definitions):
        handle = await env.start(CallActivity, "hang", [], options)
        error = activity_error(await raises(WorkflowFailureError, handle.result()))
    assert isinstance(error.cause, TimeoutError)
    assert (await event_counts(handle))["ActivityTaskTimedOut"] == 1
    return error, error.cause


async def test_start_to_close_timeout(env: Env):
    error, timeout = await timeout_of(env, hang, start_to_close_timeout=0.5, retry=ONCE)
    assert timeout.type == TimeoutType.START_TO_CLOSE
    assert error.retry_state == RetryState.MAXIMUM_ATTEMPTS_REACHED


async def test_schedule_to_start_timeout(env: Env):
    options = {"schedule_to_start_timeout": 0.5, "start_to_close_timeout": 10}
    error, timeout = await timeout_of(env, **options)
    assert timeout.type == TimeoutType.SCHEDULE_TO_START
    assert error.started_event_id == 0


async def test_schedule_to_close_timeout(env: Env):
    _, timeout = await timeout_of(env, hang, schedule_to_close_timeout=0.5)
    assert timeout.type == TimeoutType.SCHEDULE_TO_CLOSE


async def test_heartbeat_timeout(env: Env):
    _, timeout = await timeout_of(
        env, hang, heartbeat_timeout=0.5, start_to_close_timeout=20, retry=ONCE
    )
    assert timeout.type == TimeoutType.HEARTBEAT


async def test_start_to_close_timeout_is_retried(env: Env):
    @activity.defn(name="hang_once")
    async def hang_once() -> int:
        if activity.info().attempt == 1:
            await asyncio.sleep(30)
        return activity.info().attempt

    async with env.worker(CallActivity, hang_once):
        options = {"start_to_close_timeout": 1, "retry": FAST}
        assert await env.execute(CallActivity, "hang_once", [], options) == 2


# --- heartbeats ---


@activity.defn
async def heartbeat_then_hang() -> list[Any]:
    info = activity.info()
    if info.attempt == 1:
        activity.heartbeat("progress", 42)
        await asyncio.sleep(30)
    return list(info.heartbeat_details)


async def test_heartbeat_details_go_to_the_next_attempt(env: Env):
    async with env.worker(CallActivity, heartbeat_then_hang):
        options = {"heartbeat_timeout": 1, "start_to_close_timeout": 20, "retry": FAST}
        result = await env.execute(CallActivity, "heartbeat_then_hang", [], options)
    assert result == ["progress", 42]


@activity.defn
async def heartbeat_then_fail() -> list[Any]:
    info = activity.info()
    if info.attempt < 3:
        activity.heartbeat(info.attempt)
        raise ApplicationError("after heartbeat")
    return list(info.heartbeat_details)


async def test_heartbeat_details_survive_a_failure(env: Env):
    async with env.worker(CallActivity, heartbeat_then_fail):
        result = await env.execute(CallActivity, "heartbeat_then_fail", [], {"retry": FAST})
    assert result == [2]


async def test_heartbeat_timeout_carries_the_last_details(env: Env):
    @activity.defn(name="hang")
    async def beat_once() -> None:
        activity.heartbeat("last words")
        await asyncio.sleep(30)

    _, timeout = await timeout_of(
        env, beat_once, heartbeat_timeout=1, start_to_close_timeout=20, retry=ONCE
    )
    assert list(timeout.last_heartbeat_details) == ["last words"]


async def test_heartbeats_keep_an_activity_alive(env: Env):
    @activity.defn
    async def beat_on() -> int:
        for _ in range(20):
            activity.heartbeat()
            await asyncio.sleep(0.1)
        return activity.info().attempt

    async with env.worker(CallActivity, beat_on):
        options = {"heartbeat_timeout": 1, "start_to_close_timeout": 20}
        assert await env.execute(CallActivity, "beat_on", [], options) == 1


async def test_describe_shows_heartbeat_details(env: Env):
    release = asyncio.Event()

    @activity.defn
    async def beat_and_wait() -> None:
        activity.heartbeat("at", 50)
        await release.wait()

    async with env.worker(CallActivity, beat_and_wait):
        options = {"heartbeat_timeout": 20, "start_to_close_timeout": 20}
        handle = await env.start(CallActivity, "beat_and_wait", [], options)

        async def beaten():
            pending = await pending_activity(handle)
            return pending if pending and pending.HasField("heartbeat_details") else None

        pending = await eventually(beaten)
        assert [p.data for p in pending.heartbeat_details.payloads] == [b'"at"', b"50"]
        assert pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        release.set()
        await handle.result()


# --- asynchronous completion ---


class AsyncActivity:
    """An activity that hands its task token to the test instead of finishing."""

    def __init__(self) -> None:
        self.tokens: asyncio.Queue[bytes] = asyncio.Queue()

    @activity.defn(name="asynchronous")
    async def run(self) -> None:
        self.tokens.put_nowait(activity.info().task_token)
        activity.raise_complete_async()


async def test_complete_by_token(env: Env):
    work = AsyncActivity()
    async with env.worker(CallActivity, work.run):
        handle = await env.start(CallActivity, "asynchronous", [], {})
        by_token = env.client.get_async_activity_handle(task_token=await work.tokens.get())
        await by_token.complete("by token")
        assert await handle.result() == "by token"


async def test_complete_by_id(env: Env):
    work = AsyncActivity()
    async with env.worker(CallActivity, work.run):
        handle = await env.start(CallActivity, "asynchronous", [], {"activity_id": "act"})
        await work.tokens.get()
        by_id = env.client.get_async_activity_handle(
            workflow_id=env.id, run_id=handle.first_execution_run_id, activity_id="act"
        )
        await by_id.heartbeat("still here")
        await by_id.complete("by id")
        assert await handle.result() == "by id"


async def test_complete_by_id_without_run_id(env: Env):
    work = AsyncActivity()
    async with env.worker(CallActivity, work.run):
        handle = await env.start(CallActivity, "asynchronous", [], {"activity_id": "act"})
        await work.tokens.get()
        by_id = env.client.get_async_activity_handle(
            workflow_id=env.id, run_id=None, activity_id="act"
        )
        await by_id.complete("current run")
        assert await handle.result() == "current run"


async def test_fail_by_token_is_retried(env: Env):
    work = AsyncActivity()
    async with env.worker(CallActivity, work.run):
        handle = await env.start(CallActivity, "asynchronous", [], {"retry": FAST})
        first = env.client.get_async_activity_handle(task_token=await work.tokens.get())
        await first.fail(ApplicationError("first try"))
        second = env.client.get_async_activity_handle(task_token=await work.tokens.get())
        await second.complete(2)
        assert await handle.result() == 2


async def test_fail_by_id_for_good(env: Env):
    work = AsyncActivity()
    async with env.worker(CallActivity, work.run):
        options = {"activity_id": "act"}
        handle = await env.start(CallActivity, "asynchronous", [], options)
        await work.tokens.get()
        by_id = env.client.get_async_activity_handle(
            workflow_id=env.id, run_id=None, activity_id="act"
        )
        await by_id.fail(ApplicationError("given up", type="GivenUp", non_retryable=True))
        error = activity_error(await raises(WorkflowFailureError, handle.result()))
    assert error.cause.type == "GivenUp"


async def test_complete_twice_is_not_found(env: Env):
    work = AsyncActivity()
    async with env.worker(CallActivity, work.run):
        handle = await env.start(CallActivity, "asynchronous", [], {})
        by_token = env.client.get_async_activity_handle(task_token=await work.tokens.get())
        await by_token.complete(1)
        error = await raises(RPCError, by_token.complete(2))
        assert error.status == RPCStatusCode.NOT_FOUND
        assert await handle.result() == 1


async def test_asynchronous_activity_reports_cancellation(env: Env):
    work = AsyncActivity()
    async with env.worker(CallActivity, work.run):
        wait = workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
        options = {"cancellation_type": int(wait)}
        handle = await env.start(CallActivity, "asynchronous", [], options)
        by_token = env.client.get_async_activity_handle(task_token=await work.tokens.get())
        await handle.cancel()

        async def cancelled() -> bool:
            try:
                await by_token.heartbeat()
                return False
            except AsyncActivityCancelledError:
                return True

        await eventually(cancelled)
        await by_token.report_cancellation("cleaned up")
        error = await raises(WorkflowFailureError, handle.result())
        assert isinstance(error.cause, CancelledError)
    canceled = await find_event(handle, "ActivityTaskCanceled")
    assert canceled.details.payloads[0].data == b'"cleaned up"'


# --- many, threads, eager ---


@workflow.defn
class FanOut:
    @workflow.run
    async def run(self, count: int) -> list[int]:
        return list(
            await asyncio.gather(
                *(
                    workflow.execute_activity(echo, n, start_to_close_timeout=SHORT)
                    for n in range(count)
                )
            )
        )


async def test_50_parallel_activities(env: Env):
    async with env.worker(FanOut, echo):
        handle = await env.start(FanOut, 50)
        assert await handle.result() == list(range(50))
    counts = await event_counts(handle)
    assert counts["ActivityTaskScheduled"] == counts["ActivityTaskCompleted"] == 50


async def test_synchronous_activity_in_a_thread(env: Env):
    @activity.defn
    def thread_name() -> bool:
        return threading.current_thread() is not threading.main_thread()

    with ThreadPoolExecutor(4) as executor:
        options = {"activity_executor": executor, "max_concurrent_activities": 4}
        async with env.worker(CallActivity, thread_name, **options):
            assert await env.execute(CallActivity, "thread_name", [], {}) is True


async def test_without_eager_activities(env: Env):
    async with env.worker(FanOut, echo, disable_eager_activity_execution=True):
        assert await env.execute(FanOut, 5) == list(range(5))


async def test_eager_activity_comes_with_the_completion(env: Env):
    """A workflow task completion that asks for it gets the activity task in its response."""
    schedule = Command(
        command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
        schedule_activity_task_command_attributes=ScheduleActivityTaskCommandAttributes(
            activity_id="eager",
            activity_type=ActivityType(name="some_activity"),
            task_queue=TaskQueue(name=env.task_queue),
            start_to_close_timeout=Duration(seconds=10),
            request_eager_execution=True,
        ),
    )
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        response = await env.raw_complete_workflow_task(stub, task.task_token, schedule)
        assert [t.activity_id for t in response.activity_tasks] == ["eager"]
        eager = response.activity_tasks[0]
        assert eager.activity_type.name == "some_activity"
        assert eager.attempt == 1
        assert eager.workflow_execution.workflow_id == env.id
        await stub.RespondActivityTaskCompleted(
            RespondActivityTaskCompletedRequest(
                namespace=NAMESPACE, task_token=eager.task_token, identity="raw-test"
            )
        )
        task = await env.raw_poll_workflow_task(stub)
        await env.raw_complete_workflow_task(stub, task.task_token, COMPLETE_WORKFLOW)
    names = await event_names(env.handle())
    assert names[4:7] == ["ActivityTaskScheduled", "ActivityTaskStarted", "ActivityTaskCompleted"]


@workflow.defn
class SameActivityIdTwice:
    @workflow.run
    async def run(self) -> None:
        options: dict[str, Any] = {"activity_id": "same", "start_to_close_timeout": SHORT}
        await asyncio.gather(
            workflow.execute_activity("echo", **options),
            workflow.execute_activity("echo", **options),
        )


async def test_duplicate_activity_id_fails_the_task(env: Env):
    """Two pending activities may not share an id."""
    async with env.worker(SameActivityIdTwice):
        handle = await env.start(SameActivityIdTwice)
        failed = await eventually(lambda: find_events(handle, "WorkflowTaskFailed"))
        cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_SCHEDULE_ACTIVITY_DUPLICATE_ID
        assert failed[0].cause == cause
        await handle.terminate()


async def test_attempt_starts_at_one(env: Env):
    async with env.worker(CallActivity, attempt):
        assert await env.execute(CallActivity, "attempt", [], {}) == 1
