"""Nexus operations outlive the server: it is killed or stopped, and each of them ends once.

`SEGNO_NEXUS_OPERATIONS` and `SEGNO_NEXUS_KILLS` make the test of kills longer: 10000 operations and 100 kills take some
minutes.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import defaultdict
from typing import Any, Awaitable, Callable

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, TimeoutError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

import helpers
from flows import Waiter
from helpers import SegnoServer, chain, event_counts, event_name, events, eventually, raises
from nexus import Caller, CallsAll, EndsLater, Nexus, happened, operation_events, pending_operations, prepare
from test_durable_restart import BOTH_WAYS, connect, restart
from test_nexus_tokens import raw_handler, sync

OPERATIONS = int(os.environ.get("SEGNO_NEXUS_OPERATIONS", "200"))
KILLS = int(os.environ.get("SEGNO_NEXUS_KILLS", "3"))
# Operations of one workflow, and workflows that are open at the same time.
AT_ONCE = 10
CALLERS = 8
FULL_S = 60 + OPERATIONS // 10 + 10 * KILLS


async def served(server: SegnoServer, name: str) -> Nexus:
    """Starts the server, with a caller, a handler and an endpoint."""
    server.start()
    return await prepare(await connect(server, name))


@BOTH_WAYS
async def test_operation_outlives_the_server(durable_server: SegnoServer, how: str):
    """The server goes down between the start and the completion of the operation."""
    nexus = await served(durable_server, "started")
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter")
        [before] = await pending_operations(handle)

        await restart(durable_server, how)

        await eventually(handle.describe)
        assert list(await pending_operations(handle)) == [before]
        behind = nexus.handler.handle()
        await behind.signal(Waiter.add, "after the restart")
        await behind.signal(Waiter.finish)
        assert await handle.result() == ["after the restart"]
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
    assert len(nexus.handlers.starts) == 1


@BOTH_WAYS
async def test_operation_that_no_worker_has_taken(durable_server: SegnoServer, how: str):
    nexus = await served(durable_server, "untaken")
    async with nexus.callers():
        handle = await nexus.start("flow", nexus.flow("Echo", "still here"))
        await happened(handle, "NexusOperationScheduled")
        await restart(durable_server, how)
        await eventually(handle.describe)
        async with nexus.serving():
            assert await handle.result() == "still here"
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_kill_while_the_handler_starts_the_operation(durable_server: SegnoServer):
    """The request is handed out again with the same id, so that one workflow is started."""
    nexus = await served(durable_server, "starting")
    async with nexus.workers():
        nexus.handlers.open.clear()
        handle = await nexus.start("flow", nexus.flow("Waiter"))
        await eventually(lambda: received(nexus, 1))
        await restart(durable_server, "SIGKILL")
        await eventually(lambda: received(nexus, 2), timeout=20)
        nexus.handlers.open.set()
        await happened(handle, "NexusOperationStarted")
        behind = nexus.handler.handle()
        run_id = (await behind.describe()).run_id
        await behind.signal(Waiter.finish)
        assert await handle.result() == []
    assert (await behind.describe()).run_id == run_id
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
    assert len({start.request_id for start in nexus.handlers.starts}) == 1


async def test_request_that_is_handed_out_again_has_another_token(durable_server: SegnoServer):
    """A worker that still has the first one would take the second one for the same task."""
    nexus = await served(durable_server, "tokens")
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        first = await handler.poll()
        await restart(durable_server, "SIGKILL")
        await eventually(handle.describe)
    async with raw_handler(nexus) as handler:
        second = await handler.poll()
        assert second.request.start_operation.request_id == first.request.start_operation.request_id
        assert second.task_token != first.task_token
        await handler.complete(second.task_token, sync())
        assert await handle.result() == "raw result"


async def test_request_at_a_worker_when_the_run_went_on(durable_server: SegnoServer):
    """A commit of the run while a worker has the request stores nothing of that worker: the request is offered again at once."""
    nexus = await served(durable_server, "went-on")
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo", "x")
        await handler.poll()
        await handle.signal("unknown", "a commit of the run")
        await restart(durable_server, "SIGKILL")
        await eventually(handle.describe)
    async with raw_handler(nexus) as handler:
        again = await handler.poll()
        [pending] = await pending_operations(handle)
        assert pending.attempt == 0
        assert not pending.HasField("last_attempt_failure")
        await handler.complete(again.task_token, sync())
        assert await handle.result() == "raw result"


async def received(nexus: Nexus, requests: int) -> bool:
    return len(nexus.handlers.starts) >= requests


async def test_kill_between_the_request_to_cancel_and_its_answer(durable_server: SegnoServer):
    nexus = await served(durable_server, "cancelling")
    async with nexus.callers():
        async with nexus.serving():
            handle = await nexus.start_flow("EndsLater")
        await handle.signal(Caller.cancel)
        await happened(handle, "NexusOperationCancelRequested")
        await restart(durable_server, "SIGKILL")
        await eventually(handle.describe)
        async with nexus.serving():
            await happened(handle, "NexusOperationCancelRequestCompleted", timeout=20)
            await nexus.handler.handle().signal(EndsLater.finish)
            error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(chain(error)[-1], CancelledError)
    assert await operation_events(handle) == [
        "Scheduled",
        "Started",
        "CancelRequested",
        "CancelRequestCompleted",
        "Canceled",
    ]


async def test_time_out_that_expired_while_the_server_was_down(durable_server: SegnoServer):
    nexus = await served(durable_server, "expired")
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter", timeouts_s={"schedule_to_close": 3})
        await asyncio.to_thread(durable_server.kill)
        await asyncio.sleep(3)
        await asyncio.to_thread(durable_server.start)
        await eventually(handle.describe)
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(chain(error)[-1], TimeoutError)
    assert await operation_events(handle) == ["Scheduled", "Started", "TimedOut"]


@pytest.mark.timeout(FULL_S + 30)
async def test_each_operation_completes_once(durable_server: SegnoServer, monkeypatch: pytest.MonkeyPatch):
    """The server is killed at random moments while operations are started and completed."""
    monkeypatch.setattr(helpers, "BODY_TIMEOUT", FULL_S)
    nexus = await served(durable_server, "kills")
    workflows, closed = OPERATIONS // AT_ONCE, 0
    room = asyncio.Semaphore(CALLERS)

    async def call(number: int) -> WorkflowHandle[Any, Any]:
        """Calls operations from a workflow, and waits for their results."""
        nonlocal closed
        places = range(number * AT_ONCE, (number + 1) * AT_ONCE)
        calls = [nexus.call("flow", nexus.flow("Echo", n, id=f"{nexus.handler.id}-{n}")) for n in places]
        async with room:
            handle = await patiently(lambda: start_once(nexus, calls, f"{nexus.caller.id}-{number}"))
            assert await patiently(handle.result) == list(places)
        closed += 1
        return handle

    async def kill() -> None:
        for kills in range(KILLS):
            while closed * (KILLS + 1) < workflows * kills:
                await asyncio.sleep(0.01)
            await asyncio.sleep(random.uniform(0.05, 0.5))
            await restart(durable_server, "SIGKILL")

    async with nexus.workers():
        killing = asyncio.create_task(kill())
        handles = await asyncio.gather(*[call(number) for number in range(workflows)])
        await killing
    for handle in handles:
        await check(handle)
    # A handler that got a request twice started one workflow.
    runs = (await nexus.handler.client.count_workflows("WorkflowType = 'Echo'")).count
    print(f"{len(nexus.handlers.starts)} requests for {OPERATIONS} operations, {runs} workflows behind them")
    assert runs == OPERATIONS


async def patiently(call: Callable[[], Awaitable[Any]]) -> Any:
    """Makes a call again while the server goes down, whose connections then break in the midst of calls."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return await call()
        except RPCError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


async def start_once(nexus: Nexus, calls: list[Any], id: str) -> WorkflowHandle[Any, Any]:
    """Starts a workflow; a start whose answer was lost counts."""
    try:
        return await nexus.caller.start(
            CallsAll, calls, id=id, id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE
        )
    except WorkflowAlreadyStartedError:
        return nexus.caller.handle(id)


async def check(handle: WorkflowHandle[Any, Any]) -> None:
    """Each operation is scheduled, started and completed, in this order and once."""
    operations: dict[int, list[str]] = defaultdict(list)
    for event in await events(handle):
        name = event_name(event)
        if name.startswith("NexusOperation"):
            attributes = getattr(event, event.WhichOneof("attributes"))
            scheduled = event.event_id if name == "NexusOperationScheduled" else attributes.scheduled_event_id
            operations[scheduled].append(name.removeprefix("NexusOperation"))
    assert len(operations) == AT_ONCE
    for scheduled, found in operations.items():
        assert found == ["Scheduled", "Started", "Completed"], (handle.id, scheduled, found)
    assert (await event_counts(handle))["WorkflowTaskFailed"] == 0
