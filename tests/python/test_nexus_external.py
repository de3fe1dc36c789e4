"""Nexus endpoints that have a URL: requests to handlers outside, and their answers."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any, AsyncIterator, Iterator

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import NexusOperationCancellationState, PendingNexusOperationState
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest, UpdateNexusEndpointRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError, NexusOperationError
from temporalio.service import RPCError, RPCStatusCode

from helpers import NAMESPACE, Env, SegnoServer, eventually, find_event, raises, segno_binary
from http_handler import Answer, OutsideServer, Request
from nexus import Call, Caller, happened, operation_events, pending_operations

STATE = PendingNexusOperationState
ALLOWED = ["--nexus-allowed-targets", "http://127.0.0.1:*", "--nexus-standalone"]
SYNC = "/nexus/svc/op"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    """A server that may call servers on this machine."""
    if not segno_binary().exists():
        pytest.exit(f"no server: set SEGNO_ADDRESS, or build {segno_binary()}", returncode=3)
    server = SegnoServer(log=tmp_path_factory.mktemp("segno") / "server.log")
    server.flags = [*ALLOWED, "--nexus-callback-url", f"http://127.0.0.1:{server.http_port}"]
    server.start()
    yield server
    server.kill()


@pytest.fixture
def outside() -> Iterator[OutsideServer]:
    with OutsideServer() as outside:
        yield outside


@pytest_asyncio.fixture
async def own(server: SegnoServer, request: pytest.FixtureRequest) -> AsyncIterator[Env]:
    """A client and unique names for one test."""
    client = await Client.connect(server.address, namespace=NAMESPACE)
    yield Env(server.address, client, "".join(c if c.isalnum() else "-" for c in request.node.name))


async def endpoint(env: Env, url: str) -> str:
    """Creates an endpoint of a URL, and returns its name."""
    name = "e-" + env.id.strip("-").replace("--", "-")
    target = EndpointTarget(external=EndpointTarget.External(url=url))
    request = CreateNexusEndpointRequest(spec=EndpointSpec(name=name, target=target))
    await env.client.operator_service.create_nexus_endpoint(request)
    return name


async def call(env: Env, outside: OutsideServer, answer: Any = None, **options: Any) -> WorkflowHandle[Any, Any]:
    """Starts a workflow that calls an operation of a server outside, which answers this."""
    outside.answers[SYNC] = answer or Answer(200, "ok")
    name = await endpoint(env, outside.url + "/nexus")
    return await env.start(Caller, Call(name, "op", {"in": 1}, service="svc", **options))


async def failed_attempt(handle: WorkflowHandle[Any, Any]) -> Any:
    """The pending operation, once an attempt of it has failed."""

    async def found() -> Any:
        operations = await pending_operations(handle)
        return next((operation for operation in operations if operation.attempt), None)

    return await eventually(found)


async def test_sync(own: Env, outside: OutsideServer):
    """The handler gets headers, callback and input; its result and its link become those of the operation."""
    link = "temporal:///namespaces/n/workflows/w/r/history?eventID=1&eventType=WorkflowExecutionStarted&referenceType=EventReference"
    header = f'<{link}>; type="temporal.api.common.v1.Link.WorkflowEvent"'
    answer = Answer(200, {"a": 1}, {"Nexus-Link": header})
    async with own.worker(Caller):
        handle = await call(own, outside, answer, headers={"X-Own": "v"}, timeouts_s={"schedule_to_close": 100})
        assert await handle.result() == {"a": 1}
    assert await operation_events(handle) == ["Scheduled", "Completed"]
    [request] = outside.requests
    scheduled = await find_event(handle, "NexusOperationScheduled")
    assert (request.method, json.loads(request.body)) == ("POST", {"in": 1})
    [callback] = request.query["callback"]
    assert callback.endswith(f"/namespaces/{NAMESPACE}/nexus/callback")
    headers = request.headers
    assert headers["nexus-request-id"] == scheduled.request_id
    assert headers["nexus-callback-temporal-callback-token"].startswith('{"v":1,"d":"')
    assert "eventType=NexusOperationScheduled" in headers["nexus-link"]
    assert headers["temporal-nexus-failure-support"] == "true"
    assert headers["user-agent"] == "temporalio/server"
    assert (headers["x-own"], headers["content-type"]) == ("v", "application/json")
    assert 9000 < int(headers["request-timeout"].removesuffix("ms")) <= 10000
    assert 90_000 < int(headers["operation-timeout"].removesuffix("ms")) <= 100_000
    [event] = [event async for event in handle.fetch_history_events() if "COMPLETED" in str(event) and event.links]
    assert event.links[0].workflow_event.workflow_id == "w"


async def test_async_and_completed(own: Env, outside: OutsideServer):
    """The operation is started with a token, and ends when its handler calls the callback."""
    async with own.worker(Caller):
        handle = await call(own, outside, Answer(201, {"token": "t", "state": "running"}))
        started = await happened(handle, "NexusOperationStarted")
        assert started.nexus_operation_started_event_attributes.operation_token == "t"
        [request] = outside.requests
        headers = {
            "Temporal-Callback-Token": request.headers["nexus-callback-temporal-callback-token"],
            "Nexus-Operation-State": "succeeded",
            "Content-Type": "application/json",
        }
        completion = urllib.request.Request(request.query["callback"][0], b'"late"', headers)
        assert urllib.request.urlopen(completion, timeout=5).status == 200
        assert await handle.result() == "late"
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_cancel(own: Env, outside: OutsideServer):
    """A request to cancel names the token; that it was accepted does not end the operation."""
    outside.answers[SYNC + "/cancel"] = Answer(202)
    async with own.worker(Caller):
        handle = await call(own, outside, Answer(201, {"token": "t", "state": "running"}))
        await happened(handle, "NexusOperationStarted")
        await handle.signal(Caller.cancel)
        await happened(handle, "NexusOperationCancelRequestCompleted")
    [request] = outside.at(SYNC + "/cancel")
    assert (request.headers["nexus-operation-token"], request.body) == ("t", b"")
    [operation] = await pending_operations(handle)
    assert operation.state == STATE.PENDING_NEXUS_OPERATION_STATE_STARTED
    succeeded = NexusOperationCancellationState.NEXUS_OPERATION_CANCELLATION_STATE_SUCCEEDED
    assert operation.cancellation_info.state == succeeded
    await handle.terminate()


@pytest.mark.parametrize("state, kind", [("failed", ApplicationError), ("canceled", CancelledError)])
async def test_unsuccessful(own: Env, outside: OutsideServer, state: str, kind: type):
    """A handler ends the operation without a result."""
    failure = {"message": "no result", "metadata": {"k": "v"}}
    async with own.worker(Caller):
        handle = await call(own, outside, Answer(424, failure, {"Nexus-Operation-State": state}))
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, NexusOperationError)
    assert isinstance(error.cause.__cause__, kind)
    assert "no result" in str(error.cause.__cause__)


async def test_error_that_is_not_repeated(own: Env, outside: OutsideServer):
    """An error of a handler fails the operation; a body that is no JSON has no message."""
    async with own.worker(Caller):
        handle = await call(own, outside, Answer(400, b"plain"))
        await raises(WorkflowFailureError, handle.result())
    failed = await find_event(handle, "NexusOperationFailed")
    assert failed.failure.cause.nexus_handler_failure_info.type == "BAD_REQUEST"
    assert failed.failure.cause.message == ""
    assert len(outside.requests) == 1


async def test_error_that_is_repeated(own: Env, outside: OutsideServer):
    """A handler that is away is called again, with the same request id."""
    answers = iter([Answer(503, {"message": "away"}), Answer(200, "back")])
    async with own.worker(Caller):
        handle = await call(own, outside, lambda _: next(answers))
        operation = await failed_attempt(handle)
        assert operation.last_attempt_failure.nexus_handler_failure_info.type == "UNAVAILABLE"
        assert operation.last_attempt_failure.cause.message == "away"
        assert await handle.result() == "back"
    first, second = [request.headers["nexus-request-id"] for request in outside.requests]
    assert first == second


ODD = {
    "redirect": (Answer(302, b"", {"Location": "/elsewhere"}), 'unexpected response status: "302 Found"'),
    "gateway": (Answer(502, b"<h1>", {"Content-Type": "text/html"}), 'unexpected response status: "502 Bad Gateway"'),
    "no_json": (Answer(201, b"t", {"Content-Type": "text/plain"}), 'invalid response content type: "text/plain"'),
    "no_token": (Answer(201, {"state": "running"}), "empty operation token in response"),
    "no_state": (Answer(424, {"message": "m"}), 'invalid operation state header: "": m'),
}


@pytest.mark.parametrize("name", ODD)
async def test_odd_answers(own: Env, outside: OutsideServer, name: str):
    """An answer that means nothing in Nexus is an attempt that failed. Redirects are not followed."""
    answer, text = ODD[name]
    async with own.worker(Caller):
        handle = await call(own, outside, answer)
        operation = await failed_attempt(handle)
    assert operation.last_attempt_failure.message == text
    assert operation.last_attempt_failure.application_failure_info.type == "CallError"
    assert not outside.at("/elsewhere")
    await handle.terminate()


async def test_body_too_large(own: Env, outside: OutsideServer):
    """A result above the limit fails the operation."""
    async with own.worker(Caller):
        handle = await call(own, outside, Answer(200, b"x" * (5 << 20), {"Content-Type": "application/octet-stream"}))
        await raises(WorkflowFailureError, handle.result())
    failed = await find_event(handle, "NexusOperationFailed")
    assert failed.failure.cause.message == "http: response body too large"


async def test_handler_without_an_answer(own: Env, outside: OutsideServer):
    """A handler has ten seconds for its answer."""

    def slow(_: Request) -> Answer:
        time.sleep(11)
        return Answer(200, "late")

    async with own.worker(Caller):
        handle = await call(own, outside, slow)

        async def found() -> Any:
            return next((operation for operation in await pending_operations(handle) if operation.attempt), None)

        operation = await eventually(found, 15)
    assert operation.last_attempt_failure.message == "request timed out"
    await handle.terminate()


async def test_connection_refused(own: Env, outside: OutsideServer):
    """A server that is not there is called again."""
    outside.__exit__()
    async with own.worker(Caller):
        handle = await call(own, outside)
        operation = await failed_attempt(handle)
    assert "refused" in operation.last_attempt_failure.message
    await handle.terminate()


async def test_breaker(own: Env, outside: OutsideServer):
    """After six failures in a row the operations of the endpoint wait, and say so."""
    outside.answers[SYNC] = Answer(503)
    name = await endpoint(own, outside.url + "/nexus")
    async with own.worker(Caller):
        handles = []
        for number in range(6):
            handles.append(await own.start(Caller, Call(name, "op", service="svc"), id=f"{own.id}-{number}"))
            await failed_attempt(handles[-1])
        made = len(outside.requests)
        assert made >= 6
        outside.answers[SYNC] = Answer(200)
        last = await own.start(Caller, Call(name, "op", service="svc"))

        async def blocked() -> Any:
            operations = await pending_operations(last)
            return operations and operations[0].state == STATE.PENDING_NEXUS_OPERATION_STATE_BLOCKED and operations[0]

        operation = await eventually(blocked)
        assert (operation.attempt, operation.blocked_reason) == (0, "The circuit breaker is open.")
        client = own.client.create_nexus_client("svc", name)
        alone = await client.start_operation("op", None, id=own.id)
        described = (await alone.describe()).raw_description
        assert described.state == STATE.PENDING_NEXUS_OPERATION_STATE_BLOCKED
        assert described.blocked_reason == "The circuit breaker is open."
        await alone.terminate()
        # The requests that were tried again in between did not close it.
        assert len(outside.requests) <= made + 5
    for handle in [*handles, last]:
        await handle.terminate()


@pytest_asyncio.fixture
async def bare(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Env]:
    """A server with the flags of the test."""
    server = SegnoServer(log=tmp_path / "server.log", flags=request.param)
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    yield Env(server.address, client, "bare")
    server.kill()


@pytest.mark.parametrize("bare", [ALLOWED], indirect=True)
async def test_no_callback_url(bare: Env, outside: OutsideServer):
    """Without an address for callbacks no operation is started. The description says so; it is tried again after a minute."""
    async with bare.worker(Caller):
        handle = await call(bare, outside)
        operation = await failed_attempt(handle)
    assert "nexus-callback-url" in operation.last_attempt_failure.message
    assert operation.state == STATE.PENDING_NEXUS_OPERATION_STATE_BACKING_OFF
    pause = operation.next_attempt_schedule_time.seconds - operation.last_attempt_complete_time.seconds
    assert pause >= 60
    assert not outside.requests


@pytest.mark.parametrize("bare", [[]], indirect=True)
async def test_targets_have_to_be_allowed(bare: Env, outside: OutsideServer):
    """By default no endpoint has a URL."""
    error = await raises(RPCError, endpoint(bare, outside.url))
    assert error.status == RPCStatusCode.INVALID_ARGUMENT
    assert "is not allowed" in error.message and "nexus-allowed-targets" in error.message


async def test_update_to_a_target_that_is_not_allowed(own: Env, outside: OutsideServer):
    """A change of an endpoint is checked as well."""
    target = EndpointTarget(external=EndpointTarget.External(url=outside.url))
    request = CreateNexusEndpointRequest(spec=EndpointSpec(name="e-updated", target=target))
    created = (await own.client.operator_service.create_nexus_endpoint(request)).endpoint
    created.spec.target.external.url = "https://example.com"
    update = UpdateNexusEndpointRequest(id=created.id, version=created.version, spec=created.spec)
    error = await raises(RPCError, own.client.operator_service.update_nexus_endpoint(update))
    assert error.status == RPCStatusCode.INVALID_ARGUMENT


LOOSE = ["--nexus-allowed-targets", "http://*", "--nexus-callback-url", "http://127.0.0.1:1"]


@pytest.mark.parametrize("bare", [LOOSE], indirect=True)
async def test_private_addresses_have_to_be_named(bare: Env, outside: OutsideServer):
    """A pattern of all hosts allows none that leads to this machine."""
    async with bare.worker(Caller):
        handle = await call(bare, outside)
        operation = await failed_attempt(handle)
    assert "127.0.0.1, which is loopback" in operation.last_attempt_failure.message
    assert not outside.requests
