"""How many updates a run takes, and how large."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from temporalio.api.command.v1 import Command, ProtocolMessageCommandAttributes
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import CommandType, SuggestContinueAsNewReason
from temporalio.api.protocol.v1 import Message
from temporalio.api.update.v1 import Acceptance, Outcome, Request, Response
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueResponse,
    UpdateWorkflowExecutionRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.service import RPCError, RPCStatusCode

from helpers import Env, event_name, events, eventually, raises
from updating import ACCEPTED, ADMITTED, Basket, code, poll, update_request, value

TOO_MANY_UPDATES = SuggestContinueAsNewReason.SUGGEST_CONTINUE_AS_NEW_REASON_TOO_MANY_UPDATES


async def call(stub: WorkflowServiceStub, request: UpdateWorkflowExecutionRequest) -> Any:
    """An update without the SDK, which would try again when it is refused."""
    return await stub.UpdateWorkflowExecution(request, timeout=30)


async def admit_all_until_refused(
    env: Env, stub: WorkflowServiceStub, item: Any, most: int
) -> tuple[list[asyncio.Task[Any]], grpc.aio.AioRpcError | None]:
    """Calls for updates that no worker takes, one after the other, until one is refused."""
    calls: list[asyncio.Task[Any]] = []

    async def stands(id: str, made: asyncio.Task[Any]) -> bool:
        if made.done():
            return True
        return (await poll(env.client, env.id, id, ADMITTED)).stage == ADMITTED

    for n in range(most):
        request = update_request(env.id, "add", item, id=f"u{n}", stage=ACCEPTED)
        made = asyncio.create_task(call(stub, request))
        await eventually(lambda: stands(f"u{n}", made))
        if made.done():
            error = made.exception()
            assert isinstance(error, grpc.aio.AioRpcError)
            return calls, error
        calls.append(made)
    return calls, None


async def test_length_of_an_id(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        assert await handle.execute_update(Basket.add, 1, id="x" * 1000) == 1
        refused = await raises(RPCError, handle.execute_update(Basket.add, 2, id="x" * 1001))
        assert refused.status == RPCStatusCode.INVALID_ARGUMENT
        assert refused.message == "UpdateId length exceeds limit."
        # In bytes, not in letters.
        refused = await raises(RPCError, handle.execute_update(Basket.add, 2, id="ä" * 501))
        assert refused.status == RPCStatusCode.INVALID_ARGUMENT
        await handle.signal(Basket.finish)
        assert await handle.result() == [1]


async def test_updates_in_flight(env: Env):
    """One that is refused disturbs none that are in flight; their answers make room."""
    handle = await env.start(Basket)
    async with env.raw() as stub:
        calls, refused = await admit_all_until_refused(env, stub, 1, 200)
        assert refused is not None
        assert code(refused) == grpc.StatusCode.RESOURCE_EXHAUSTED
        text = "limit on number of concurrent in-flight updates has been reached"
        assert refused.details() == f"{text} ({len(calls)})"
        assert len(calls) >= 10
        # A repeated call is none more.
        again = asyncio.create_task(call(stub, update_request(env.id, "add", 1, id="u0")))
        async with env.worker(Basket):
            await asyncio.gather(*calls)
            answer = await again
            counts = [await answered(env, n) for n in range(len(calls))]
            assert counts[0] == value(answer.outcome)
            assert sorted(counts) == list(range(1, len(calls) + 1))
            assert await handle.execute_update(Basket.add, 2) == len(calls) + 1


async def answered(env: Env, n: int) -> int:
    return value((await poll(env.client, env.id, f"u{n}")).outcome)


async def test_bytes_in_flight(env: Env):
    await env.start(Basket)
    options = {"options": [("grpc.max_receive_message_length", -1)]}
    async with env.raw(**options) as stub:
        calls, refused = await admit_all_until_refused(env, stub, "x" * 3_800_000, 8)
        assert refused is not None
        assert len(calls) == 5
        assert code(refused) == grpc.StatusCode.RESOURCE_EXHAUSTED
        text = "limit on total payload size of in-flight updates has been reached"
        assert refused.details() == f"{text} ({20 * 1024 * 1024} bytes)"
        # A small one has room.
        small = asyncio.create_task(call(stub, update_request(env.id, "add", 1, id="small")))
        await eventually(lambda: poll(env.client, env.id, "small", ADMITTED))
        await env.handle().terminate()
        for error in await asyncio.gather(*calls, small, return_exceptions=True):
            assert code(error) == grpc.StatusCode.NOT_FOUND


async def take_updates(
    env: Env, stub: WorkflowServiceStub, task: PollWorkflowTaskQueueResponse
) -> None:
    """Completes a task as a worker that accepts and answers every update in it."""
    messages: list[Message] = []
    for message in task.messages:
        request = Request()
        assert message.body.Unpack(request)
        acceptance, response = AnyMessage(), AnyMessage()
        acceptance.Pack(
            Acceptance(
                accepted_request_message_id=message.id,
                accepted_request_sequencing_event_id=message.event_id,
                accepted_request=request,
            )
        )
        response.Pack(Response(meta=request.meta, outcome=Outcome(success=Payloads())))
        for kind, body in [("accept", acceptance), ("answer", response)]:
            instance = message.protocol_instance_id
            messages.append(Message(id=f"{instance}/{kind}", protocol_instance_id=instance, body=body))
    commands = [
        Command(
            command_type=CommandType.COMMAND_TYPE_PROTOCOL_MESSAGE,
            protocol_message_command_attributes=ProtocolMessageCommandAttributes(message_id=m.id),
        )
        for m in messages
    ]
    await env.raw_complete_workflow_task(stub, task.task_token, *commands, messages=messages)


async def test_updates_of_one_run(env: Env):
    """2000 of them; from 1800 on the worker is told to continue as new."""
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())

        async def work() -> None:
            while True:
                task = await env.raw_poll_workflow_task(stub)
                if task.task_token:
                    await take_updates(env, stub, task)

        worker = asyncio.create_task(work())
        try:
            for first in range(0, 2000, 10):
                requests = [update_request(env.id, "x", id=f"u{n}") for n in range(first, first + 10)]
                await asyncio.gather(*(call(stub, request) for request in requests))
            error = await raises(
                grpc.aio.AioRpcError, call(stub, update_request(env.id, "x", id="more"))
            )
        finally:
            worker.cancel()
        assert code(error) == grpc.StatusCode.FAILED_PRECONDITION
        assert error.details().startswith(
            "The limit on the total number of distinct updates in this workflow has been reached (2000)."
        )
        # One that it has had is found all the same.
        again = await call(stub, update_request(env.id, "x", id="u7"))
        assert again.outcome.HasField("success")
    seen, completed = 0, 0
    for event in await events(env.handle()):
        name = event_name(event)
        if name == "WorkflowTaskStarted" and not 1790 <= seen < 1800:
            reasons = event.workflow_task_started_event_attributes.suggest_continue_as_new_reasons
            # There are other reasons too: the history becomes long.
            assert (TOO_MANY_UPDATES in reasons) == (seen >= 1800), seen
        seen += name == "WorkflowExecutionUpdateAccepted"
        completed += name == "WorkflowExecutionUpdateCompleted"
    assert (seen, completed) == (2000, 2000)
