"""A worker that does not hear whether its answer was taken sends it again, and hears the first response."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.command.v1 import Command, ScheduleActivityTaskCommandAttributes
from temporalio.api.common.v1 import ActivityType, Payload, Payloads, RetryPolicy
from temporalio.api.enums.v1 import CommandType
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollActivityTaskQueueRequest,
    PollActivityTaskQueueResponse,
    RequestCancelWorkflowExecutionRequest,
    RespondActivityTaskCanceledRequest,
    RespondActivityTaskCompletedRequest,
    RespondActivityTaskFailedRequest,
    RespondWorkflowTaskCompletedRequest,
    TerminateWorkflowExecutionRequest,
)

from helpers import COMPLETE_WORKFLOW, NAMESPACE, Env, SegnoServer, event_counts, raises
from test_durable_restart import BOTH_WAYS, connect, restart

RESULT = Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=b'"done"')])


def schedule(env: Env, name: str, **fields: Any) -> Command:
    return Command(
        command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
        schedule_activity_task_command_attributes=ScheduleActivityTaskCommandAttributes(
            activity_id=name,
            activity_type=ActivityType(name=name),
            task_queue=TaskQueue(name=env.task_queue),
            start_to_close_timeout=duration(100),
            **fields,
        ),
    )


def duration(seconds: float) -> Duration:
    result = Duration()
    result.FromTimedelta(timedelta(seconds=seconds))
    return result


def completion(task_token: bytes, *commands: Command, **fields: Any) -> RespondWorkflowTaskCompletedRequest:
    return RespondWorkflowTaskCompletedRequest(
        namespace=NAMESPACE, task_token=task_token, identity="raw-test", commands=commands, **fields
    )


async def poll_activity(env: Env, stub: Any) -> PollActivityTaskQueueResponse:
    queue = TaskQueue(name=env.task_queue)
    request = PollActivityTaskQueueRequest(namespace=NAMESPACE, task_queue=queue, identity="raw-test")
    return await stub.PollActivityTaskQueue(request, timeout=20)


async def refused(call: Any, request: Any) -> None:
    """The request is answered NOT_FOUND."""
    error = await raises(grpc.aio.AioRpcError, call(request, timeout=10))
    assert error.code() == grpc.StatusCode.NOT_FOUND, error


def answer_of(kind: str, token: bytes, identity: str = "raw-test") -> tuple[str, Any]:
    """An answer to an activity, as the method and its request."""
    fields: dict[str, Any] = dict(namespace=NAMESPACE, task_token=token, identity=identity)
    match kind:
        case "completed":
            return "RespondActivityTaskCompleted", RespondActivityTaskCompletedRequest(result=RESULT, **fields)
        case "canceled":
            return "RespondActivityTaskCanceled", RespondActivityTaskCanceledRequest(details=RESULT, **fields)
        case _:
            info = ApplicationFailureInfo(non_retryable=kind == "failed")
            failure = Failure(message="no", application_failure_info=info)
            return "RespondActivityTaskFailed", RespondActivityTaskFailedRequest(failure=failure, **fields)


async def test_a_repeated_completion(env: Env):
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        eager = schedule(env, "eager", request_eager_execution=True)
        request = completion(
            task.task_token,
            eager,
            return_new_workflow_task=True,
            force_create_new_workflow_task=True,
        )
        first = await stub.RespondWorkflowTaskCompleted(request, timeout=10)
        assert first.workflow_task.task_token and len(first.activity_tasks) == 1
        # On another connection, as after a broken one.
        async with env.raw() as other:
            assert await other.RespondWorkflowTaskCompleted(request, timeout=10) == first
        request.identity = "another"
        await refused(stub.RespondWorkflowTaskCompleted, request)
        # What came twice is one task: it is completed once, and that may be repeated too.
        last = completion(first.workflow_task.task_token, COMPLETE_WORKFLOW)
        for _ in range(3):
            response = await stub.RespondWorkflowTaskCompleted(last, timeout=10)
            assert not response.workflow_task.task_token
        await refused(stub.RespondWorkflowTaskCompleted, completion(first.workflow_task.task_token))
    counts = await event_counts(env.handle())
    assert counts["ActivityTaskScheduled"] == 1 and counts["WorkflowTaskCompleted"] == 2, counts


async def test_a_repeated_completion_that_failed_the_task(env: Env):
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        bad = Command(command_type=CommandType.COMMAND_TYPE_START_TIMER)
        request = completion(task.task_token, bad)
        errors = [
            await raises(grpc.aio.AioRpcError, stub.RespondWorkflowTaskCompleted(request, timeout=10))
            for _ in range(3)
        ]
        assert {(error.code(), error.details()) for error in errors} == {
            (grpc.StatusCode.INVALID_ARGUMENT, errors[0].details())
        }
    assert (await event_counts(env.handle()))["WorkflowTaskFailed"] == 1


@pytest.mark.parametrize("kind", ["completed", "failed", "retried", "canceled"])
async def test_a_repeated_result(env: Env, kind: str):
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        retry = RetryPolicy(initial_interval=duration(0.01))
        await stub.RespondWorkflowTaskCompleted(
            completion(task.task_token, schedule(env, "a", retry_policy=retry)), timeout=10
        )
        activity = await poll_activity(env, stub)
        if kind == "canceled":
            cancel = RequestCancelWorkflowExecutionRequest(
                namespace=NAMESPACE, workflow_execution=env.execution()
            )
            await stub.RequestCancelWorkflowExecution(cancel)
            task = await env.raw_poll_workflow_task(stub)
            command = Command(command_type=CommandType.COMMAND_TYPE_REQUEST_CANCEL_ACTIVITY_TASK)
            command.request_cancel_activity_task_command_attributes.scheduled_event_id = 5
            await stub.RespondWorkflowTaskCompleted(completion(task.task_token, command), timeout=10)
        method, request = answer_of(kind, activity.task_token)
        call = getattr(stub, method)
        first = await call(request, timeout=10)
        if kind == "retried":
            # The next attempt belongs to another worker, and is not disturbed.
            again = await poll_activity(env, stub)
            assert again.attempt == 2
        for _ in range(2):
            assert await call(request, timeout=10) == first
        _, other = answer_of(kind, activity.task_token, "another")
        await refused(call, other)
        for unlike in {"completed", "failed", "canceled"} - {kind}:
            method, request_of_other_kind = answer_of(unlike, activity.task_token)
            await refused(getattr(stub, method), request_of_other_kind)
        terminate = TerminateWorkflowExecutionRequest(
            namespace=NAMESPACE, workflow_execution=env.execution()
        )
        await stub.TerminateWorkflowExecution(terminate)
        assert await call(request, timeout=10) == first
        await refused(call, other)


@BOTH_WAYS
async def test_repeats_after_a_restart(durable_server: SegnoServer, how: str):
    durable_server.start()
    env = await connect(durable_server, "repeats")
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        request = completion(
            task.task_token,
            schedule(env, "a"),
            return_new_workflow_task=True,
            force_create_new_workflow_task=True,
        )
        first = await stub.RespondWorkflowTaskCompleted(request, timeout=10)
        activity = await poll_activity(env, stub)
        method, result = answer_of("completed", activity.task_token)
        await getattr(stub, method)(result, timeout=10)
    await restart(durable_server, how)
    async with env.raw() as stub:
        assert await stub.RespondWorkflowTaskCompleted(request, timeout=10) == first
        await getattr(stub, method)(result, timeout=10)
        result.identity = "another"
        await refused(getattr(stub, method), result)
        last = completion(first.workflow_task.task_token, COMPLETE_WORKFLOW)
        # The result is buffered behind the task, so that the run does not close yet.
        errors = [
            await raises(grpc.aio.AioRpcError, stub.RespondWorkflowTaskCompleted(last, timeout=10))
            for _ in range(2)
        ]
        assert {error.details() for error in errors} == {"UnhandledCommand"}
        task = await env.raw_poll_workflow_task(stub)
        last = completion(task.task_token, COMPLETE_WORKFLOW)
        await stub.RespondWorkflowTaskCompleted(last, timeout=10)
    await restart(durable_server, how)
    async with env.raw() as stub:
        await stub.RespondWorkflowTaskCompleted(last, timeout=10)
        last.identity = "another"
        await refused(stub.RespondWorkflowTaskCompleted, last)
