"""Errors: invalid requests, limits on sizes, and failures with all their details."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkflowExecutionRequest,
    RespondActivityTaskCompletedRequest,
    RespondWorkflowTaskCompletedRequest,
    StartWorkflowExecutionRequest,
)
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import ActivityError, ApplicationError, ServerError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from flows import SHORT, CallActivity, Echo, Fails, Waiter, echo
from helpers import NAMESPACE, Env, chain, eventually, find_event, find_events, raises

MB = 1_000_000


async def invalid(awaitable: Any) -> str:
    """Assert that the server calls this invalid, and return its message."""
    error = await raises(RPCError, awaitable)
    assert error.status == RPCStatusCode.INVALID_ARGUMENT, error
    return error.message


# --- failures ---


async def test_workflow_failure_has_type_message_and_details(env: Env):
    async with env.worker(Fails):
        handle = await env.start(Fails, "what went wrong")
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.message == "what went wrong"
    assert error.cause.type == "OnPurpose"
    assert list(error.cause.details) == ["detail", 7]
    failed = await find_event(handle, "WorkflowExecutionFailed")
    assert failed.failure.stack_trace


@activity.defn
async def fail_with_causes() -> None:
    try:
        try:
            raise KeyError("innermost")
        except KeyError as err:
            raise ValueError("middle") from err
    except ValueError as err:
        raise ApplicationError("outermost", non_retryable=True) from err


async def test_chain_of_causes(env: Env):
    async with env.worker(CallActivity, fail_with_causes):
        error = await raises(
            WorkflowFailureError, env.execute(CallActivity, "fail_with_causes", [], {})
        )
    causes = chain(error)
    assert isinstance(causes[1], ActivityError)
    assert [e.message for e in causes[2:]] == ["outermost", "middle", "'innermost'"]
    assert [e.type for e in causes[3:]] == ["ValueError", "KeyError"]


async def test_unknown_workflow_result_is_not_found(env: Env):
    error = await raises(RPCError, env.handle().result())
    assert error.status == RPCStatusCode.NOT_FOUND


# --- invalid requests ---


@pytest.mark.parametrize(
    "options",
    [{"id": ""}, {"id": "i" * 1001}, {"task_queue": "q" * 1001}],
    ids=["empty id", "long id", "long task queue"],
)
async def test_invalid_start_options(env: Env, options: dict[str, str]):
    await invalid(env.start(Echo, 1, **options))


@pytest.mark.parametrize("name", ["", "t" * 1001], ids=["empty", "long"])
async def test_invalid_workflow_type(env: Env, name: str):
    await invalid(env.start(name))


@pytest.mark.parametrize("name", ["", "s" * 1001], ids=["empty", "long"])
async def test_invalid_signal_name(env: Env, name: str):
    handle = await env.start(Waiter)
    await invalid(handle.signal(name))
    await handle.terminate()


async def test_invalid_run_id(env: Env):
    await invalid(env.handle(run_id="not a uuid").describe())


async def test_empty_requests(env: Env):
    async with env.raw() as stub:
        for call in [
            stub.StartWorkflowExecution(StartWorkflowExecutionRequest(namespace=NAMESPACE)),
            stub.StartWorkflowExecution(StartWorkflowExecutionRequest()),
            stub.DescribeWorkflowExecution(DescribeWorkflowExecutionRequest(namespace=NAMESPACE)),
        ]:
            error = await raises(grpc.aio.AioRpcError, call)
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("token", [b"", b"rubbish"], ids=["empty", "rubbish"])
async def test_invalid_task_tokens(env: Env, token: bytes):
    async with env.raw() as stub:
        for call in [
            stub.RespondWorkflowTaskCompleted(
                RespondWorkflowTaskCompletedRequest(namespace=NAMESPACE, task_token=token)
            ),
            stub.RespondActivityTaskCompleted(
                RespondActivityTaskCompletedRequest(namespace=NAMESPACE, task_token=token)
            ),
        ]:
            error = await raises(grpc.aio.AioRpcError, call)
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_unknown_namespace(env: Env):
    client = await Client.connect(env.address, namespace="no-such-namespace")
    for call in [
        client.start_workflow("Echo", id=env.id, task_queue=env.task_queue),
        client.get_workflow_handle(env.id).describe(),
        client.get_workflow_handle(env.id).terminate(),
        client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace="no-such-namespace")
        ),
    ]:
        error = await raises(RPCError, call)
        assert error.status == RPCStatusCode.NOT_FOUND


async def test_worker_refuses_an_unknown_namespace(env: Env):
    client = await Client.connect(env.address, namespace="no-such-namespace")
    worker = Worker(
        client,
        task_queue=env.task_queue,
        workflows=[Echo],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    error = await raises(RuntimeError, worker.run())
    assert "no-such-namespace" in str(error)


# --- sizes ---


async def test_1_mb_payloads_pass(env: Env):
    text = "x" * MB
    async with env.worker(CallActivity, echo):
        handle = await env.start(CallActivity, "echo", [text], {})
        assert await handle.result() == text


async def test_1_mb_signals_and_queries_pass(env: Env):
    text = "x" * MB
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        await handle.signal(Waiter.add, text)
        assert await handle.query(Waiter.current) == [text]
        await handle.signal(Waiter.finish)
        assert await handle.result() == [text]


async def test_history_of_several_mb(env: Env):
    """Such a history comes in pages, both to the client and to a worker that replays it."""
    handle = await env.start(CountsCharacters)
    for n in range(5):
        await handle.signal(CountsCharacters.add, str(n) * MB)
    signaled = await find_events(handle, "WorkflowExecutionSignaled")
    assert [s.input.payloads[0].data[1:2] for s in signaled] == [b"%d" % n for n in range(5)]
    async with env.worker(CountsCharacters):
        assert await handle.result() == 5 * MB


@workflow.defn
class CountsCharacters:
    def __init__(self) -> None:
        self.characters = 0

    @workflow.run
    async def run(self) -> int:
        await workflow.wait_condition(lambda: self.characters >= 5 * MB)
        return self.characters

    @workflow.signal
    def add(self, text: str) -> None:
        self.characters += len(text)


async def test_too_big_input(env: Env):
    await invalid(env.start(Echo, "x" * 3 * MB))


async def test_too_big_memo(env: Env):
    await invalid(env.start(Echo, 1, memo={"big": "x" * 3 * MB}))


async def test_too_big_signal(env: Env):
    handle = await env.start(Waiter)
    await invalid(handle.signal(Waiter.add, "x" * 3 * MB))
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    await handle.terminate()


async def test_too_big_request(env: Env):
    request = env.raw_start_request()
    request.input.payloads.add().data = b"x" * 5 * MB
    async with env.raw() as stub:
        error = await raises(grpc.aio.AioRpcError, stub.StartWorkflowExecution(request))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@activity.defn
async def make_text(length: int) -> str:
    return "y" * length


@workflow.defn
class BigSteps:
    """Produces something big in the place the test wants."""

    @workflow.run
    async def run(self, where: str, length: int) -> str:
        if where == "activity input":
            return await workflow.execute_activity(
                "echo", "z" * length, start_to_close_timeout=SHORT
            )
        if where == "query":
            await asyncio.sleep(3600)
        return "z" * length

    @workflow.query
    def text(self, length: int) -> str:
        return "z" * length


ONCE = {"retry": {"maximum_attempts": 1}}


async def test_worker_refuses_a_too_big_activity_result(env: Env):
    """The SDK learns the limit from the namespace and fails the activity itself."""
    async with env.worker(CallActivity, make_text):
        error = await raises(
            WorkflowFailureError, env.execute(CallActivity, "make_text", [3 * MB], ONCE)
        )
    assert isinstance(error.cause, ActivityError)
    assert error.cause.cause.type == "PayloadsTooLarge"


async def test_server_refuses_a_too_big_activity_result(env: Env):
    async with env.worker(CallActivity, make_text, disable_payload_error_limit=True):
        error = await raises(
            WorkflowFailureError, env.execute(CallActivity, "make_text", [3 * MB], ONCE)
        )
    assert isinstance(error.cause, ActivityError)
    assert isinstance(error.cause.cause, ServerError)


@pytest.mark.parametrize("where", ["activity input", "workflow result"])
async def test_worker_refuses_a_too_big_command(env: Env, where: str):
    async with env.worker(BigSteps, echo):
        handle = await env.start(BigSteps, where, 3 * MB)
        failed = await eventually(lambda: find_events(handle, "WorkflowTaskFailed"))
        cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_PAYLOADS_TOO_LARGE
        assert failed[0].cause == cause
        await handle.terminate()


@pytest.mark.parametrize("where", ["activity input", "workflow result"])
async def test_server_terminates_on_a_too_big_command(env: Env, where: str):
    async with env.worker(BigSteps, echo, disable_payload_error_limit=True):
        handle = await env.start(BigSteps, where, 3 * MB)
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, TerminatedError)
    assert "exceeds size limit" in error.cause.message


async def test_too_big_query_and_answer(env: Env):
    async with env.worker(BigSteps):
        handle = await env.start(BigSteps, "query", 0)
        await raises(WorkflowQueryFailedError, handle.query(BigSteps.text, 3 * MB))
        await raises(WorkflowQueryFailedError, handle.query("text", "x" * 3 * MB))
        assert await handle.query(BigSteps.text, 3) == "zzz"
        await handle.terminate()
