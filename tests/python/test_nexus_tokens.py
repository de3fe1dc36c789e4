"""Tokens of Nexus tasks and completion callbacks, by raw gRPC: altered, of another namespace, and repeated."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator

import grpc
import pytest
from temporalio.api.common.v1 import Callback, Payload, Payloads, WorkflowType
from temporalio.api.enums.v1 import CallbackState
from temporalio.api.failure.v1 import Failure
from temporalio.api.nexus.v1 import CancelOperationResponse, Response, StartOperationResponse
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollNexusTaskQueueRequest,
    PollNexusTaskQueueResponse,
    PollWorkflowTaskQueueRequest,
    RespondNexusTaskCompletedRequest,
    RespondNexusTaskFailedRequest,
    RespondWorkflowTaskCompletedRequest,
    StartWorkflowExecutionRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.client import WorkflowExecutionStatus

from flows import Echo
from helpers import COMPLETE_WORKFLOW, NAMESPACE, eventually
from nexus import Caller, CallsAll, Nexus, happened, operation_events, pending_operations

GONE = "Nexus task not found or already expired"
INVALID = grpc.StatusCode.INVALID_ARGUMENT


class Handler:
    """A handler that speaks gRPC."""

    def __init__(self, stub: WorkflowServiceStub, nexus: Nexus) -> None:
        self.stub = stub
        self.namespace = nexus.handler.client.namespace
        self.queue = nexus.handler.task_queue

    async def poll(self) -> PollNexusTaskQueueResponse:
        request = PollNexusTaskQueueRequest(
            namespace=self.namespace, task_queue=TaskQueue(name=self.queue), identity="raw"
        )
        task = await self.stub.PollNexusTaskQueue(request, timeout=20)
        assert task.task_token
        return task

    async def complete(self, token: bytes, response: Response, namespace: str = "") -> None:
        request = RespondNexusTaskCompletedRequest(
            namespace=namespace or self.namespace, task_token=token, response=response, identity="raw"
        )
        await self.stub.RespondNexusTaskCompleted(request, timeout=10)

    async def fail(self, token: bytes, namespace: str = "") -> None:
        failure = Failure(message="raw failure")
        failure.nexus_handler_failure_info.type = "BAD_REQUEST"
        request = RespondNexusTaskFailedRequest(
            namespace=namespace or self.namespace, task_token=token, failure=failure, identity="raw"
        )
        await self.stub.RespondNexusTaskFailed(request, timeout=10)


@asynccontextmanager
async def raw_handler(nexus: Nexus) -> AsyncIterator[Handler]:
    """Runs the worker of the caller; the handler is the test itself."""
    async with nexus.handler.raw() as stub, nexus.callers():
        yield Handler(stub, nexus)


def sync(data: bytes = b'"raw result"') -> Response:
    """The operation has completed."""
    payload = Payload(metadata={"encoding": b"json/plain"}, data=data)
    return Response(start_operation=StartOperationResponse(sync_success=StartOperationResponse.Sync(payload=payload)))


def async_success(token: str) -> Response:
    """The operation has started."""
    started = StartOperationResponse.Async(operation_token=token)
    return Response(start_operation=StartOperationResponse(async_success=started))


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


def altered(token: bytes) -> list[bytes]:
    """The token with each of its bits flipped, one at a time."""
    tokens = []
    for bit in range(8 * len(token)):
        changed = bytearray(token)
        changed[bit // 8] ^= 1 << bit % 8
        tokens.append(bytes(changed))
    return tokens


async def test_altered_task_token(nexus: Nexus, segno_only: None):
    """No token with one bit changed, cut or continued is taken. Those of Temporal are not signed."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        token = (await handler.poll()).task_token
        wrong = [*altered(token), token[:-1], token[1:], token + b"\0", b"\0", b"x" * 100]
        answers = [handler.complete(changed, sync()) for changed in wrong]
        answers += [handler.fail(changed) for changed in wrong]
        for error in await asyncio.gather(*map(refused, answers)):
            assert (error.code(), error.details()) == (INVALID, "Error deserializing task token.")
        assert await operation_events(handle) == ["Scheduled"]
        await handler.complete(token, sync())
        assert await handle.result() == "raw result"


async def test_task_token_is_text(nexus: Nexus):
    """The Python SDK decodes a token as UTF-8 when it logs that a request has timed out; its worker ends if that fails."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.caller.start(CallsAll, [nexus.call("echo", n) for n in range(20)])
        for _ in range(20):
            token = (await handler.poll()).task_token
            token.decode()
            await handler.complete(token, sync())
        assert await handle.result() == ["raw result"] * 20


async def test_task_token_of_another_namespace(nexus: Nexus):
    """The namespace of the handler has handed out the token: in that of the caller it is not valid."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        token = (await handler.poll()).task_token
        assert (await refused(handler.complete(token, sync(), namespace=NAMESPACE))).code() == INVALID
        assert (await refused(handler.fail(token, namespace=NAMESPACE))).code() == INVALID
        assert await operation_events(handle) == ["Scheduled"]
        await handler.complete(token, sync())
        assert await handle.result() == "raw result"


async def test_token_of_another_kind(nexus: Nexus, segno_only: None):
    """A token of a workflow task is none of a Nexus task, nor the other way round."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        token = (await handler.poll()).task_token
        await handler.stub.StartWorkflowExecution(start_request(nexus, nexus.handler.id))
        queue = TaskQueue(name=handler.queue)
        poll = PollWorkflowTaskQueueRequest(namespace=handler.namespace, task_queue=queue, identity="raw")
        other = (await handler.stub.PollWorkflowTaskQueue(poll, timeout=20)).task_token
        assert (await refused(handler.complete(other, sync()))).code() == INVALID
        assert (await refused(handler.fail(other))).code() == INVALID
        complete = RespondWorkflowTaskCompletedRequest(namespace=handler.namespace, identity="raw")
        complete.commands.append(COMPLETE_WORKFLOW)
        complete.task_token = token
        assert (await refused(handler.stub.RespondWorkflowTaskCompleted(complete, timeout=10))).code() == INVALID
        complete.task_token = other
        await handler.stub.RespondWorkflowTaskCompleted(complete, timeout=10)
        await handler.complete(token, sync())
        assert await handle.result() == "raw result"


async def test_repeated_answers(nexus: Nexus):
    """An answer that comes again, before or after the end of the caller, changes nothing."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x", stays=True)
        token = (await handler.poll()).task_token
        await handler.complete(token, sync())
        await happened(handle, "NexusOperationCompleted")
        for closed in (False, True):
            if closed:
                await handle.signal(Caller.finish)
                assert await handle.result() == "raw result"
            for answer in (handler.complete(token, sync(b'"again"')), handler.fail(token)):
                error = await refused(answer)
                assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, GONE)
    assert await operation_events(handle) == ["Scheduled", "Completed"]


async def test_token_of_the_start_after_the_start(nexus: Nexus):
    """The request to cancel has a token of its own; that of the start is over."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        start = (await handler.poll()).task_token
        await handler.complete(start, async_success("raw-token"))
        await happened(handle, "NexusOperationStarted")
        await handle.signal(Caller.cancel)
        task = await handler.poll()
        assert task.request.cancel_operation.operation_token == "raw-token"
        assert task.task_token != start
        for answer in (handler.complete(start, sync()), handler.fail(start)):
            assert (await refused(answer)).code() == grpc.StatusCode.NOT_FOUND
        await handler.complete(task.task_token, Response(cancel_operation=CancelOperationResponse()))
        await happened(handle, "NexusOperationCancelRequestCompleted")
        again = handler.complete(task.task_token, Response(cancel_operation=CancelOperationResponse()))
        assert (await refused(again)).code() == grpc.StatusCode.NOT_FOUND
        assert await operation_events(handle) == ["Scheduled", "Started", "CancelRequested", "CancelRequestCompleted"]
        await handle.terminate()


async def test_answer_after_the_time_out_of_the_request(nexus: Nexus):
    """A request that is not answered in 10 s is handed out again, and the first token is over."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        first = await handler.poll()
        second = await handler.poll()
        assert second.request.start_operation.request_id == first.request.start_operation.request_id
        [operation] = await pending_operations(handle)
        assert operation.attempt == 1
        failure = operation.last_attempt_failure
        assert (failure.message, failure.nexus_handler_failure_info.type) == ("upstream timeout", "UPSTREAM_TIMEOUT")
        for answer in (handler.complete(first.task_token, sync()), handler.fail(first.task_token)):
            assert (await refused(answer)).code() == grpc.StatusCode.NOT_FOUND
        await handler.complete(second.task_token, sync())
        assert await handle.result() == "raw result"


# Completion callbacks.


def start_request(nexus: Nexus, id: str, *callbacks: Callback, value: bytes = b"0") -> StartWorkflowExecutionRequest:
    """The start of a workflow of the handler, with callbacks."""
    return StartWorkflowExecutionRequest(
        namespace=nexus.handler.client.namespace,
        workflow_id=id,
        workflow_type=WorkflowType(name="Echo"),
        task_queue=TaskQueue(name=nexus.handler.task_queue),
        input=Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=value)]),
        request_id=str(uuid.uuid4()),
        completion_callbacks=callbacks,
    )


def callback(task: PollNexusTaskQueueResponse, **header: str) -> Callback:
    start = task.request.start_operation
    return Callback(nexus=Callback.Nexus(url=start.callback, header={**start.callback_header, **header}))


async def delivered(nexus: Nexus, id: str) -> int:
    """The state of the only callback of a workflow that has closed, once it is final."""
    final = (CallbackState.CALLBACK_STATE_SUCCEEDED, CallbackState.CALLBACK_STATE_FAILED)

    async def state() -> int:
        described = await nexus.handler.handle(id).describe()
        assert described.status == WorkflowExecutionStatus.COMPLETED
        [found] = described.raw_description.callbacks
        return found.state if found.state in final else 0

    return await eventually(state)


async def test_repeated_callback(nexus: Nexus):
    """Workflows have the same callback: the first one that closes completes the operation, the others change nothing."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x", stays=True)
        task = await handler.poll()
        await handler.complete(task.task_token, async_success("raw-token"))
        await happened(handle, "NexusOperationStarted")
        ids = [f"{nexus.handler.id}-{n}" for n in range(3)]
        states = []
        async with nexus.handler.worker(Echo):
            for number, id in enumerate(ids):
                if number == 2:
                    await handle.signal(Caller.finish)
                    assert await handle.result() == 0
                await handler.stub.StartWorkflowExecution(
                    start_request(nexus, id, callback(task), value=str(number).encode())
                )
                states.append(await delivered(nexus, id))
    failed = CallbackState.CALLBACK_STATE_FAILED
    assert states == [CallbackState.CALLBACK_STATE_SUCCEEDED, failed, failed]
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_altered_callback_token(nexus: Nexus, segno_only: None):
    """A callback whose token has a bit changed fails, and the operation is pending as before."""
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        task = await handler.poll()
        await handler.complete(task.task_token, async_success("raw-token"))
        await happened(handle, "NexusOperationStarted")
        [(key, token)] = task.request.start_operation.callback_header.items()
        # The lowest bit of a character, at several places of the token.
        places = [*range(0, len(token), 7), len(token) - 2]
        wrong = [token[:n] + chr(ord(token[n]) ^ 1) + token[n + 1 :] for n in places] + [token[:-4], ""]
        async with nexus.handler.worker(Echo):
            for number, changed in enumerate(wrong):
                request = start_request(nexus, f"{nexus.handler.id}-{number}", callback(task, **{key: changed}))
                await handler.stub.StartWorkflowExecution(request)
            for number, changed in enumerate(wrong):
                assert await delivered(nexus, f"{nexus.handler.id}-{number}") == CallbackState.CALLBACK_STATE_FAILED
            assert len(await pending_operations(handle)) == 1
            await handler.stub.StartWorkflowExecution(start_request(nexus, nexus.handler.id, callback(task)))
            assert await handle.result() == 0
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
