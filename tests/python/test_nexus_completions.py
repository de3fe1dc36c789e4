"""Nexus operations that a handler outside the server completes over HTTP.

With SEGNO_ADDRESS the server's HTTP port is at SEGNO_HTTP_ADDRESS.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any, AsyncIterator

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.nexus.v1 import Response, StartOperationResponse
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError, NexusOperationError

from helpers import Env, SegnoServer, event_name, events, eventually
from nexus import Nexus, happened, operation_events, prepare
from nexus_http import JSON, Reply, error, send
from test_durable_restart import BOTH_WAYS, restart
from test_nexus_http import addresses, here, segno  # noqa: F401: fixtures
from test_nexus_restart import served
from test_nexus_tokens import Handler, raw_handler

SUCCEEDED = JSON | {"Nexus-Operation-State": "succeeded"}
START = "Wed, 06 Nov 2024 08:49:37 GMT"
LINK = (
    "<temporal:///namespaces/default/workflows/w/r/history?eventID=1&eventType=WorkflowExecutionStarted"
    '&referenceType=EventReference>; type="temporal.api.common.v1.Link.WorkflowEvent"'
)


class Pending:
    """An operation that waits for its completion."""

    def __init__(self, http: str, handle: WorkflowHandle[Any, Any], task: Any) -> None:
        self.http = http
        self.handle = handle
        self.task = task
        self.token = task.request.start_operation.callback_header["temporal-callback-token"]

    async def complete(
        self,
        headers: dict[str, str],
        body: bytes = b"",
        path: str = "/nexus/callback",
        token: str | None = "",
        method: str = "POST",
    ) -> Reply:
        """Reports that the operation ended; with its own token, unless another or none is given."""
        shown = self.token if token == "" else token
        if shown is not None:
            headers = headers | {"Temporal-Callback-Token": shown}
        return await asyncio.to_thread(send, self.http, path, headers, body, method=method)


class Site:
    """A caller with a worker, and its handler, which is the test itself."""

    def __init__(self, nexus: Nexus, handler: Handler, http: str) -> None:
        self.nexus = nexus
        self.handler = handler
        self.http = http
        self.count = 0

    async def operation(self, **options: Any) -> Pending:
        """A workflow whose operation the handler got, and did not answer."""
        self.count += 1
        handle = await self.nexus.start("echo", id=f"{self.nexus.caller.id}-{self.count}", **options)
        return Pending(self.http, handle, await self.handler.poll())


@asynccontextmanager
async def visiting(nexus: Nexus, http: str) -> AsyncIterator[Site]:
    async with raw_handler(nexus) as handler:
        yield Site(nexus, handler, http)


@pytest_asyncio.fixture
async def site(here: Env, addresses: tuple[str, str]) -> AsyncIterator[Site]:  # noqa: F811
    async with visiting(await prepare(here), addresses[1]) as site:
        yield site


async def test_completion_before_the_answer_to_the_start(site: Site) -> None:
    pending = await site.operation(stays=True)
    headers = SUCCEEDED | {
        "Nexus-Operation-Token": "optok",
        "Nexus-Operation-Start-Time": START,
        "Nexus-Operation-Close-Time": "2024-11-06T08:49:38.5Z",
        "Nexus-Link": LINK,
    }
    path = f"/namespaces/{site.nexus.caller.client.namespace}/nexus/callback"
    reply = await pending.complete(headers, b'"res"', path)
    assert (reply.status, reply.body) == (200, b"")
    assert await operation_events(pending.handle) == ["Scheduled", "Started", "Completed"]
    started = await happened(pending.handle, "NexusOperationStarted")
    attributes = started.nexus_operation_started_event_attributes
    assert (attributes.operation_token, started.event_time.seconds) == ("optok", 1730882977)
    [link] = started.links
    assert (link.workflow_event.workflow_id, link.workflow_event.event_ref.event_id) == ("w", 1)
    # The answer to the start comes too late, and changes nothing.
    await site.handler.complete(pending.task.task_token, async_start("optok"))
    assert await operation_events(pending.handle) == ["Scheduled", "Started", "Completed"]
    await pending.handle.signal("finish")
    assert await pending.handle.result() == "res"


def async_start(token: str) -> Any:
    started = StartOperationResponse.Async(operation_token=token)
    return Response(start_operation=StartOperationResponse(async_success=started))


async def test_completion_after_the_start(site: Site) -> None:
    pending = await site.operation()
    await site.handler.complete(pending.task.task_token, async_start("optok"))
    await happened(pending.handle, "NexusOperationStarted")
    reply = await pending.complete(SUCCEEDED, b'{"a": 1}')
    assert reply.status == 200
    assert await pending.handle.result() == {"a": 1}
    assert await operation_events(pending.handle) == ["Scheduled", "Started", "Completed"]


WRAPPER = {"type": "nexus.OperationError", "unwrap-error": "true"}
BOOM = {
    "message": "boom",
    "metadata": {"type": "temporal.api.failure.v1.Failure"},
    "details": {"applicationFailureInfo": {"type": "T"}},
}
# The state that the header says, the failure; the class and message of the cause that the workflow sees.
ENDS: list[tuple[str, dict[str, Any], type[BaseException], str]] = [
    (
        "failed",
        {"message": "operation failed", "metadata": WRAPPER, "details": {"state": "failed"}, "cause": BOOM},
        ApplicationError,
        "boom",
    ),
    (
        "canceled",
        {"message": "w", "metadata": WRAPPER, "details": {"state": "canceled"}, "cause": {"message": "x"}},
        CancelledError,
        "x",
    ),
    ("canceled", {"message": "m", "metadata": {"k": "v"}}, CancelledError, "m"),
    (
        "failed",
        {"message": "m", "metadata": {"type": "nexus.OperationError"}, "details": {"state": "canceled"}},
        CancelledError,
        "m",
    ),
]


async def test_failures(site: Site) -> None:
    for state, failure, kind, message in ENDS:
        pending = await site.operation()
        headers = JSON | {"Nexus-Operation-State": state}
        assert (await pending.complete(headers, json.dumps(failure).encode())).status == 200
        with pytest.raises(WorkflowFailureError) as failed:
            await pending.handle.result()
        operation = failed.value.cause
        assert isinstance(operation, NexusOperationError), operation
        assert isinstance(operation.cause, kind) and operation.cause.message == message, operation.cause
        last = "Canceled" if kind is CancelledError else "Failed"
        assert await operation_events(pending.handle) == ["Scheduled", "Started", last]


LONG = b'"' + b"x" * (2 * 1024 * 1024) + b'"'
FAILED = {"Nexus-Operation-State": "failed"}
# What is wrong, and the text of the answer.
REFUSED: list[tuple[dict[str, str], bytes, str]] = [
    ({}, b"", 'invalid request operation state: ""'),
    ({"Nexus-Operation-State": "odd"}, b"", 'invalid request operation state: "odd"'),
    (FAILED | {"Content-Type": "text/plain"}, b"x", 'invalid request content type: "text/plain"'),
    (FAILED, b"", 'invalid request content type: ""'),
    (FAILED | JSON, b"x", "failed to decode Failure from request body"),
    (SUCCEEDED | {"Nexus-Operation-Start-Time": "x"}, b"", "failed to parse operation start time header"),
    (
        SUCCEEDED | {"Nexus-Operation-Start-Time": "2024-11-06T08:49:37Z"},
        b"",
        "failed to parse operation start time header",
    ),
    (SUCCEEDED | {"Nexus-Operation-Close-Time": "x"}, b"", "failed to parse operation close time header"),
    (SUCCEEDED | {"Nexus-Link": "x"}, b"", "failed to decode links from request headers"),
    (
        SUCCEEDED | {"Nexus-Operation-Token": "x" * 5000},
        b"",
        "operation token length exceeds allowed limit (5000/4096)",
    ),
    (SUCCEEDED, LONG, "invalid result content"),
    (SUCCEEDED, LONG[2:], "result exceeds size limit"),
    (SUCCEEDED | {"Content-Type": "application/x-temporal-payload"}, b"\xff\xff", "invalid result content"),
]


async def test_refusals_leave_the_operation_as_it_is(site: Site) -> None:
    pending = await site.operation()
    for headers, body, text in REFUSED:
        reply = await pending.complete(headers, body)
        assert (reply.status, reply.failure()) == (400, error("BAD_REQUEST", text)), headers
    for token in (None, "x", '{"v":1,"d":"xx"}', pending.token.replace('"v":1', '"v":2')):
        reply = await pending.complete(SUCCEEDED, b"1", token=token)
        assert (reply.status, reply.failure()) == (400, error("BAD_REQUEST", "invalid callback token"))
    for namespace in ("nix", site.nexus.handler.client.namespace):
        reply = await pending.complete(SUCCEEDED, b"1", path=f"/namespaces/{namespace}/nexus/callback")
        assert (reply.status, reply.failure()) == (400, error("BAD_REQUEST", "invalid callback token"))
    assert await operation_events(pending.handle) == ["Scheduled"]
    assert (await pending.complete(SUCCEEDED, b"1")).status == 200


async def test_an_altered_token_is_refused(site: Site, segno: None) -> None:  # noqa: F811
    pending = await site.operation()
    start = pending.token.index('"d":"') + 5
    for at in range(start, len(pending.token) - 2, 7):
        other = "A" if pending.token[at] != "A" else "B"
        token = pending.token[:at] + other + pending.token[at + 1 :]
        reply = await pending.complete(SUCCEEDED, b"1", token=token)
        assert (reply.status, reply.failure()) == (400, error("BAD_REQUEST", "invalid callback token")), at
    get = await pending.complete(SUCCEEDED, method="GET")
    assert (get.status, get.failure()["message"]) == (400, 'invalid request method: expected POST, got "GET"')
    assert await operation_events(pending.handle) == ["Scheduled"]


async def test_what_is_over_cannot_be_completed(site: Site, segno: None) -> None:  # noqa: F811
    pending = await site.operation()
    assert (await pending.complete(SUCCEEDED, b"1")).status == 200
    await pending.handle.result()
    again = await pending.complete(SUCCEEDED, b"2")
    assert (again.status, again.failure()["details"]["type"]) == (404, "NOT_FOUND")
    closed = await site.operation()
    await closed.handle.terminate()
    reply = await closed.complete(SUCCEEDED, b"1")
    assert (reply.status, reply.failure()) == (404, error("NOT_FOUND", "workflow execution already completed"))


async def test_an_operation_that_is_over_in_an_open_workflow(site: Site, segno: None) -> None:  # noqa: F811
    pending = await site.operation(stays=True)
    assert (await pending.complete(SUCCEEDED, b"1")).status == 200
    again = await pending.complete(SUCCEEDED, b"2")
    assert (again.status, again.failure()) == (404, error("NOT_FOUND", "operation not found"))
    await pending.handle.signal("finish")
    assert await pending.handle.result() == 1


async def test_completion_after_a_reset(site: Site) -> None:
    pending = await site.operation()
    await pending.handle.signal("finish")

    async def second_task() -> int:
        found = [event for event in await events(pending.handle) if event_name(event) == "WorkflowTaskCompleted"]
        return found[1].event_id if len(found) > 1 else 0

    at = await eventually(second_task)
    await site.nexus.caller.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=site.nexus.caller.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=pending.handle.id),
            workflow_task_finish_event_id=at,
            request_id="reset",
        )
    )
    assert (await pending.complete(SUCCEEDED, b'"after"')).status == 200
    current = site.nexus.caller.handle(pending.handle.id)
    assert await current.result() == "after"


@BOTH_WAYS
async def test_a_token_outlives_the_server(durable_server: SegnoServer, how: str) -> None:
    nexus = await served(durable_server, "completed-later")
    async with visiting(nexus, f"127.0.0.1:{durable_server.http_port}") as site:
        pending = await site.operation()
        await site.handler.complete(pending.task.task_token, async_start("optok"))
        await happened(pending.handle, "NexusOperationStarted")
        await restart(durable_server, how)
        await eventually(pending.handle.describe)
        assert (await pending.complete(SUCCEEDED, b'"late"')).status == 200
        assert await pending.handle.result() == "late"
