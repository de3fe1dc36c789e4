"""Handlers of Nexus operations, called over HTTP. The answers are those of Temporal's own server.

With SEGNO_ADDRESS the server's HTTP port is at SEGNO_HTTP_ADDRESS.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
import urllib.request
from typing import Any, AsyncIterator, Iterator

import grpc
import pytest
import pytest_asyncio
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import NexusHandlerErrorRetryBehavior as Retry
from temporalio.api.failure.v1 import (
    ApplicationFailureInfo,
    CanceledFailureInfo,
    NexusHandlerFailureInfo,
)
from temporalio.api.failure.v1 import Failure as TemporalFailure
from temporalio.api.nexus.v1 import (
    CancelOperationResponse,
    Failure,
    HandlerError,
    Link,
    Response,
    StartOperationResponse,
    UnsuccessfulOperationError,
)
from temporalio.client import Client

from helpers import NAMESPACE, Env, SegnoServer, eventually, is_segno, segno_binary
from nexus import prepare
from nexus_http import JSON, NEW_FORM, Handler, Reply, Respond, error, handling, send, sync

RETRYABLE = Retry.NEXUS_HANDLER_ERROR_RETRY_BEHAVIOR_RETRYABLE
NON_RETRYABLE = Retry.NEXUS_HANDLER_ERROR_RETRY_BEHAVIOR_NON_RETRYABLE
INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(scope="module")
def addresses(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where the server speaks gRPC, and where HTTP."""
    given = request.config.getoption("--segno-address")
    if given:
        if "SEGNO_HTTP_ADDRESS" not in os.environ:
            pytest.skip("where is the HTTP port? set SEGNO_HTTP_ADDRESS")
        yield given, os.environ["SEGNO_HTTP_ADDRESS"]
        return
    if not segno_binary().exists():
        pytest.skip("needs the binary: set SEGNO_BIN")
    server = SegnoServer(log=tmp_path_factory.mktemp("nexus-http") / "server.log")
    server.start()
    try:
        yield server.address, f"127.0.0.1:{server.http_port}"
    finally:
        server.kill()


@pytest_asyncio.fixture
async def here(addresses: tuple[str, str], request: pytest.FixtureRequest) -> Env:
    client = await Client.connect(addresses[0], namespace=NAMESPACE)
    return Env(addresses[0], client, re.sub(r"[^A-Za-z0-9_]+", "-", request.node.name.removeprefix("test_")))


@pytest_asyncio.fixture
async def handler(here: Env, addresses: tuple[str, str]) -> AsyncIterator[Handler]:
    """A handler at a queue of this test's own."""
    async with handling(here, addresses[1]) as handler:
        yield handler


@pytest.fixture
def segno(addresses: tuple[str, str]) -> None:
    """Skips a test that Temporal's own server does not pass."""
    if not is_segno(addresses[0]):
        pytest.skip("Temporal's own server does otherwise")


def seconds(text: str) -> float:
    assert text.endswith("s") and not text.endswith("ms"), text
    return float(text[:-1])


async def test_a_start_is_a_task(handler: Handler) -> None:
    headers = {
        "Content-Type": "application/json",
        "Nexus-Request-Id": "rid1",
        "Nexus-Callback-Foo": "bar",
        "Request-Timeout": "8s",
        "Operation-Timeout": "5000ms",
        "X-Own": "v",
        "X-Forwarded-For": "1.2.3.4",
        "Nexus-Link": '<temporal:///a>; type="T", <temporal:///b>; type="U"',
    }
    link = Link(url="temporal:///x", type="T")
    path = handler.path + "?callback=http%3A%2F%2Flocalhost%2Fcb"
    reply = await handler.call(sync(links=[link]), headers, b'"in"', path)

    header = dict(handler.request.header)
    left = [seconds(header.pop(name)) for name in ("request-timeout", "Request-Timeout")]
    assert all(5 < each < 8 for each in left)
    for name in ("host", "accept-encoding", "operation-timeout"):
        header.pop(name, None)
    assert header == {
        "nexus-request-id": "rid1",
        "x-own": "v",
        "nexus-link": '<temporal:///a>; type="T", <temporal:///b>; type="U"',
    }
    start = handler.request.start_operation
    assert (start.service, start.operation, start.request_id) == ("svc", "op", "rid1")
    assert (start.callback, dict(start.callback_header)) == ("http://localhost/cb", {"foo": "bar"})
    assert start.payload == Payload(metadata={"encoding": b"json/plain"}, data=b'"in"')
    assert list(start.links) == [link_to("a", "T"), link_to("b", "U")]
    assert not handler.request.capabilities.temporal_failure_responses
    assert handler.request.scheduled_time.seconds > 0

    assert (reply.status, reply.body) == (200, b'"res"')
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["nexus-link"] == '<temporal:///x>; type="T"'


def link_to(name: str, kind: str) -> Link:
    return Link(url=f"temporal:///{name}", type=kind)


async def test_what_is_for_the_server_stays_there(handler: Handler, segno: None) -> None:
    headers = {"Authorization": "Bearer secret", "Cookie": "segno=secret", "xdc-redirection-api": "1"} | NEW_FORM
    await handler.call(sync(), headers)
    assert set(handler.request.header) == {"request-timeout", "Request-Timeout"}
    assert handler.request.capabilities.temporal_failure_responses
    assert 9 < seconds(handler.request.header["request-timeout"]) <= 10


async def test_an_operation_goes_on_after_its_start(handler: Handler) -> None:
    started = StartOperationResponse.Async(operation_token='t"k', links=[link_to("a", "T"), link_to("b", "U")])
    reply = await handler.call(Response(start_operation=StartOperationResponse(async_success=started)))
    assert (reply.status, reply.body) == (201, b'{"token":"t\\"k","state":"running"}')
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["nexus-link"] == '<temporal:///a>; type="T", <temporal:///b>; type="U"'


BOOM = TemporalFailure(
    message="boom", application_failure_info=ApplicationFailureInfo(type="T", non_retryable=True)
)
BOOM_JSON = {
    "message": "boom",
    "metadata": {"type": "temporal.api.failure.v1.Failure"},
    "details": {"applicationFailureInfo": {"type": "T", "nonRetryable": True}},
}
CANCELED_JSON = {
    "message": "can",
    "metadata": {"type": "temporal.api.failure.v1.Failure"},
    "details": {"canceledFailureInfo": {}},
}
PLAIN = Failure(message="m", stack_trace="st", metadata={"k": "v"}, details=b'{"a": 1}')
PLAIN_JSON = {"message": "m", "stackTrace": "st", "metadata": {"k": "v"}, "details": {"a": 1}}


def handler_failure(kind: str, retry: Any = 0, **fields: Any) -> Respond:
    """Fails the task with a failure in the newer form."""
    info = NexusHandlerFailureInfo(type=kind, retry_behavior=retry)
    failure = TemporalFailure(nexus_handler_failure_info=info, **fields)
    return lambda handler, token: handler.fail(token, failure=failure)


def handler_error(kind: str, retry: Any = 0, **fields: Any) -> Respond:
    """Fails the task with an error in the older form."""
    return lambda handler, token: handler.fail(
        token, error=HandlerError(error_type=kind, retry_behavior=retry, **fields)
    )


def start_response(**fields: Any) -> Response:
    return Response(start_operation=StartOperationResponse(**fields))


def operation_error(state: str) -> Response:
    unsuccessful = UnsuccessfulOperationError(operation_state=state, failure=PLAIN)
    return start_response(operation_error=unsuccessful)


def wrapped(state: str, cause: Any) -> dict[str, Any]:
    metadata = {"type": "nexus.OperationError", "unwrap-error": "true"}
    return {"message": "operation error", "metadata": metadata, "details": {"state": state}, "cause": cause}


FAILURES: dict[str, tuple[Response | Respond, int, dict[str, str], Any, Any]] = {
    # The answer, the status, the headers beside the source, the body for those who know the new form, and for others.
    "handler failure": (
        handler_failure("NOT_FOUND", NON_RETRYABLE, message="hf", cause=BOOM),
        404,
        {"nexus-request-retryable": "false"},
        error("NOT_FOUND", "hf", retryableOverride=False) | {"cause": BOOM_JSON},
        BOOM_JSON,
    ),
    "handler failure without a cause": (
        handler_failure("INTERNAL", message="hf"),
        500,
        {},
        error("INTERNAL", "hf"),
        error("INTERNAL", "hf"),
    ),
    "handler error": (
        handler_error("CONFLICT", RETRYABLE, failure=PLAIN),
        409,
        {"nexus-request-retryable": "true"},
        {
            "metadata": {"type": "nexus.HandlerError"},
            "details": {"type": "CONFLICT", "retryableOverride": True},
            "cause": PLAIN_JSON,
        },
        PLAIN_JSON,
    ),
    "handler error without a failure": (
        handler_error("CONFLICT"),
        409,
        {},
        {"metadata": {"type": "nexus.HandlerError"}, "details": {"type": "CONFLICT"}, "cause": {}},
        {},
    ),
    "failed": (
        operation_error("failed"),
        424,
        {"nexus-operation-state": "failed"},
        wrapped("failed", PLAIN_JSON),
        PLAIN_JSON,
    ),
    "canceled": (
        operation_error("canceled"),
        424,
        {"nexus-operation-state": "canceled"},
        wrapped("canceled", PLAIN_JSON),
        PLAIN_JSON,
    ),
    "failed with a failure of Temporal": (
        start_response(failure=BOOM),
        424,
        {"nexus-operation-state": "failed"},
        wrapped("failed", BOOM_JSON),
        BOOM_JSON,
    ),
    "canceled with a failure of Temporal": (
        start_response(failure=TemporalFailure(message="can", canceled_failure_info=CanceledFailureInfo())),
        424,
        {"nexus-operation-state": "canceled"},
        wrapped("canceled", CANCELED_JSON),
        CANCELED_JSON,
    ),
    "nothing": (
        Response(),
        500,
        {},
        error("INTERNAL", "empty outcome"),
        error("INTERNAL", "empty outcome"),
    ),
}


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "old"])
@pytest.mark.parametrize("name", FAILURES)
async def test_failures(handler: Handler, name: str, is_new: bool) -> None:
    respond, status, headers, new, old = FAILURES[name]
    reply = await handler.call(respond, NEW_FORM if is_new else {})
    assert (reply.status, reply.failure()) == (status, new if is_new else old)
    assert reply.headers["temporal-nexus-failure-source"] == "worker"
    for header in ("nexus-request-retryable", "nexus-operation-state"):
        assert reply.headers.get(header) == headers.get(header), header


TYPES = {
    "BAD_REQUEST": 400,
    "UNAUTHENTICATED": 401,
    "UNAUTHORIZED": 403,
    "NOT_FOUND": 404,
    "REQUEST_TIMEOUT": 408,
    "CONFLICT": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "NOT_IMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "UPSTREAM_TIMEOUT": 520,
    "SOMETHING_ELSE": 500,
}


async def test_errors_of_handlers_have_statuses(handler: Handler) -> None:
    for kind, status in TYPES.items():
        for respond in (handler_error(kind, failure=PLAIN), handler_failure(kind, message="m")):
            reply = await handler.call(respond, NEW_FORM)
            assert (reply.status, reply.failure()["details"]) == (status, {"type": kind})


def payload(data: bytes = b"", **metadata: str) -> Payload:
    return Payload(metadata={name: value.encode() for name, value in metadata.items()}, data=data)


UNKNOWN = "unknown/nexus-content"
WHOLE = payload(b"1", encoding="json/plain", a="b")
INPUTS: list[tuple[dict[str, str], bytes, Payload]] = [
    (JSON, b"1", payload(b"1", encoding="json/plain")),
    (JSON, b"", payload(b"", encoding="json/plain")),
    ({"Content-Type": "APPLICATION/JSON"}, b"1", payload(b"1", encoding="json/plain")),
    ({"Content-Type": "application/octet-stream"}, b"1", payload(b"1", encoding="binary/plain")),
    (
        {"Content-Type": 'application/json; format=protobuf; message-type="a.B"'},
        b"{}",
        payload(b"{}", encoding="json/protobuf", messageType="a.B"),
    ),
    (
        {"Content-Type": "application/x-protobuf; message-type=a.B"},
        b"1",
        payload(b"1", encoding="binary/protobuf", messageType="a.B"),
    ),
    ({"Content-Type": "application/x-temporal-payload"}, WHOLE.SerializeToString(), WHOLE),
    ({}, b"", payload(encoding="binary/null")),
    ({}, b"x", payload(b"x", encoding=UNKNOWN)),
    ({"Content-Type": "text/plain"}, b"x", payload(b"x", encoding=UNKNOWN, type="text/plain")),
    ({"Content-Type": "bad;;"}, b"x", payload(b"x", encoding=UNKNOWN, type="bad;;")),
    (
        {"Content-Type": "application/json; charset=utf-8"},
        b"1",
        payload(b"1", encoding=UNKNOWN, type="application/json; charset=utf-8"),
    ),
    (
        JSON | {"Content-Foo": "y"},
        b"1",
        payload(b"1", encoding=UNKNOWN, type="application/json", foo="y"),
    ),
]


async def test_bodies_are_payloads(handler: Handler) -> None:
    for headers, body, wanted in INPUTS:
        await handler.call(sync(), headers, body)
        assert handler.request.start_operation.payload == wanted, headers
        assert not [name for name in handler.request.header if name.startswith("content-")]


OUTPUTS: list[tuple[Payload, str | None]] = [
    (payload(b"1", encoding="json/plain"), "application/json"),
    (payload(b"1", encoding="binary/plain"), "application/octet-stream"),
    (payload(encoding="binary/null"), None),
    (
        payload(b"{}", encoding="json/protobuf", messageType="a.B"),
        'application/json; format=protobuf; message-type="a.B"',
    ),
    (payload(b"1", encoding="binary/protobuf", messageType="a B"), 'application/x-protobuf; message-type="a B"'),
    (payload(b"x", encoding=UNKNOWN, type="text/plain", foo="bar"), "text/plain"),
    (WHOLE, "application/x-temporal-payload"),
    (Payload(data=b"x"), "application/x-temporal-payload"),
]


async def test_payloads_are_bodies(handler: Handler) -> None:
    for result, kind in OUTPUTS:
        reply = await handler.call(sync(result))
        assert (reply.status, reply.headers.get("content-type")) == (200, kind)
        if kind == "application/x-temporal-payload":
            assert Payload.FromString(reply.body) == result
        else:
            assert reply.body == result.data
        foo = result.metadata.get("foo", b"").decode() or None
        assert reply.headers.get("content-foo") == foo
    nothing = start_response(sync_success=StartOperationResponse.Sync())
    assert (await handler.call(nothing)).body == b""


async def test_cancel_has_the_token_in_three_places(handler: Handler) -> None:
    accepted = Response(cancel_operation=CancelOperationResponse())
    for headers, end, token in (
        ({"Nexus-Operation-Token": "tok", "Nexus-Callback-A": "b", "Content-Foo": "x"}, "/cancel", "tok"),
        ({}, "/cancel?token=t%2Fk+1", "t/k 1"),
        ({}, "/t%20k/cancel", "t k"),
    ):
        reply = await handler.call(accepted, headers, path=handler.path + end)
        assert (reply.status, reply.body) == (202, b"")
        cancel = handler.request.cancel_operation
        assert (cancel.service, cancel.operation, cancel.operation_token, cancel.operation_id) == (
            "svc",
            "op",
            token,
            token,
        )
        header = handler.request.header
        assert header.get("nexus-callback-a") == headers.get("Nexus-Callback-A")
        assert header.get("content-foo") == headers.get("Content-Foo")
        assert "nexus-operation-token" not in header
    failed = await handler.call(handler_error("NOT_FOUND", failure=PLAIN), {}, path=handler.path + "/tok/cancel")
    assert (failed.status, failed.failure()) == (404, PLAIN_JSON)
    missing = await handler.send(handler.path + "/cancel")
    assert (missing.status, missing.failure()) == (400, error("BAD_REQUEST", "missing operation token"))


async def test_an_encoded_slash_is_part_of_a_name(handler: Handler, segno: None) -> None:
    path = handler.path.removesuffix("svc/op") + "a%2Fb/c%2Fd%20e"
    await handler.call(sync(), path=path)
    start = handler.request.start_operation
    assert (start.service, start.operation) == ("a/b", "c/d e")


LONG = b'"' + b"x" * (2 * 1024 * 1024) + b'"'
# The end of the path, headers, method, body; status and failure.
REFUSED: list[tuple[str, dict[str, str], str, bytes, int, dict[str, Any]]] = [
    ("svc/op", {}, "GET", b"", 400, error("BAD_REQUEST", 'invalid request method: expected POST, got "GET"')),
    ("svc/op", {}, "PUT", b"", 400, error("BAD_REQUEST", 'invalid request method: expected POST, got "PUT"')),
    ("svc/op", {"Request-Timeout": "abc"}, "POST", b"", 400, error("BAD_REQUEST", "invalid request timeout header")),
    ("svc/op", {"Nexus-Link": "abc"}, "POST", b"", 400, error("BAD_REQUEST", 'invalid "nexus-link" header')),
    ("svc/op", JSON, "POST", LONG, 400, error("BAD_REQUEST", "invalid input")),
    ("svc/op", JSON, "POST", LONG[2:], 400, error("BAD_REQUEST", "input exceeds size limit")),
    (
        "svc/op",
        {"Content-Type": "application/x-temporal-payload"},
        "POST",
        b"\xff\xff",
        400,
        error("BAD_REQUEST", "invalid input"),
    ),
    ("svc", {}, "POST", b"", 404, error("NOT_FOUND", "not found")),
    ("svc/op/x", {}, "POST", b"", 404, error("NOT_FOUND", "not found")),
    ("svc/op/x/y/cancel", {}, "POST", b"", 404, error("NOT_FOUND", "not found")),
]


async def test_refusals(handler: Handler) -> None:
    for end, headers, method, body, status, failure in REFUSED:
        path = handler.path.removesuffix("svc/op") + end
        reply = await handler.send(path, headers, body, method=method)
        assert (reply.status, reply.failure()) == (status, failure), (end, headers, method)
        assert "temporal-nexus-failure-source" not in reply.headers
    unknown = await handler.send("/namespaces/nix/task-queues/q/nexus-services/s/o")
    assert (unknown.status, unknown.failure()) == (404, error("NOT_FOUND", 'namespace not found: "nix"'))
    no_endpoint = await handler.send("/nexus/endpoints/6fa7e3f2-4f0b-4d3e-9a62-7c1ef25c3d11/services/s/o")
    assert no_endpoint.status == 404
    assert no_endpoint.failure() == error("NOT_FOUND", "nexus endpoint not found", retryableOverride=False)
    assert no_endpoint.headers["nexus-request-retryable"] == "false"


async def test_a_queue_must_have_a_usable_name(handler: Handler, segno: None) -> None:
    for queue in ("%2F_sys%2Fq", "x" * 2000):
        reply = await handler.send(f"/namespaces/default/task-queues/{queue}/nexus-services/s/o")
        assert (reply.status, reply.failure()["details"]) == (400, {"type": "BAD_REQUEST"})
    not_a_uuid = await handler.send("/nexus/endpoints/x/services/s/o")
    assert not_a_uuid.status == 404


async def test_no_worker_answers_in_time(handler: Handler) -> None:
    begun = time.monotonic()
    reply = await handler.send(headers={"Request-Timeout": "3s"})
    assert time.monotonic() - begun < 3
    assert (reply.status, reply.failure()) == (520, error("UPSTREAM_TIMEOUT", "upstream timeout"))
    assert reply.headers["temporal-nexus-failure-source"] == "worker"


async def test_a_caller_uses_all_of_its_time(handler: Handler, segno: None) -> None:
    for timeout, least, most in (("3s", 2.5, 2.95), ("200ms", 0.15, 0.9)):
        begun = time.monotonic()
        assert (await handler.send(headers={"Request-Timeout": timeout})).status == 520
        assert least <= time.monotonic() - begun <= most
    begun = time.monotonic()
    assert (await handler.send()).status == 520
    assert 9.5 < time.monotonic() - begun < 12


async def test_workers_get_no_call_whose_caller_left(handler: Handler, segno: None) -> None:
    assert (await handler.send(headers={"Request-Timeout": "100ms"})).status == 520
    with pytest.raises(TimeoutError):
        await handler.send(timeout=0.3)
    # The server hears of a closed connection a moment later.
    await asyncio.sleep(2)
    reply = await handler.call(sync(), {"Nexus-Request-Id": "later"})
    assert reply.status == 200
    assert [task.request.header["nexus-request-id"] for task in handler.tasks] == ["later"]


async def test_a_thousand_calls_wait(handler: Handler, segno: None) -> None:
    """The next one is refused, and the HTTP port serves other requests meanwhile."""
    host, port = handler.http.split(":")
    path = f"/namespaces/{NAMESPACE}/task-queues/{handler.queue}/nexus-services/s/o"
    head = f"POST {path} HTTP/1.1\r\nHost: {handler.http}\r\nRequest-Timeout: 20s\r\nContent-Length: 0\r\n\r\n"

    async def call() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode())
        return reader, writer

    calls = [await call() for _ in range(1000)]
    try:
        # All of them are read before the next one comes.
        await asyncio.sleep(2)
        refused, writer = await call()
        assert (await refused.readline()).startswith(b"HTTP/1.1 429 ")
        writer.close()
        assert (await asyncio.to_thread(urllib.request.urlopen, f"http://{handler.http}/healthz")).status == 200
        assert not any(reader.at_eof() for reader, _ in calls)
    finally:
        for _, writer in calls:
            writer.close()


async def test_a_wrong_answer_leaves_the_call_as_it_is(handler: Handler) -> None:
    async def respond(handler: Handler, token: bytes) -> None:
        no_token = start_response(async_success=StartOperationResponse.Async())
        long = start_response(async_success=StartOperationResponse.Async(operation_token="x" * 4097))
        no_json = Failure(message="m", details=b"{")
        for respond in (
            handler.complete(token, no_token),
            handler.complete(token, long),
            handler.fail(token),
            handler.fail(token, error=HandlerError(failure=no_json)),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                await respond
            assert refused.value.code() == INVALID
        await handler.complete(token, sync())
        with pytest.raises(grpc.RpcError) as again:
            await handler.complete(token, sync())
        assert again.value.details() == "Nexus task not found or already expired"

    assert (await handler.call(respond)).status == 200


async def test_a_worker_that_left_gives_the_call_to_another_one(handler: Handler, here: Env, segno: None) -> None:
    """The first worker's connection is closed while it polls."""
    async with here.raw() as stub:
        first = Handler(stub, handler.http, handler.queue)
        poll = asyncio.create_task(first.poll())
        await asyncio.sleep(0.2)
        poll.cancel()
    assert (await handler.call(sync())).status == 200


async def test_handlers_of_an_sdk_behind_an_endpoint(here: Env, addresses: tuple[str, str]) -> None:
    nexus = await prepare(here)
    path = f"/nexus/endpoints/{nexus.endpoint.id}/services/Sample"
    assert nexus.endpoint.url_prefix == path.removesuffix("/Sample")
    headers = JSON | {"Nexus-Request-Id": "over HTTP"}

    async def post(operation: str, body: bytes, more: dict[str, str] = {}) -> Reply:
        return await asyncio.to_thread(send, addresses[1], f"{path}/{operation}", headers | more, body)

    async with nexus.serving():
        reply = await eventually(lambda: found(post("echo", b'{"a":[1]}')))
        assert (reply.status, reply.body) == (200, b'{"a":[1]}')
        [start] = nexus.handlers.starts
        assert (start.endpoint, start.request_id) == (nexus.endpoint.spec.name, "over HTTP")
        failed = await post("unsuccessful", b'"failed"', NEW_FORM)
        assert (failed.status, failed.headers["nexus-operation-state"]) == (424, "failed")
        assert failed.failure()["details"] == {"state": "failed"}
        endless = await post("endless", b'"t1"')
        assert (endless.status, endless.body) == (201, b'{"token":"t1","state":"running"}')
        refused = await post("endless/cancel", b"", {"Nexus-Operation-Token": "t1"})
        assert refused.status == 501
        assert (await post("nothing", b"1")).status == 404


async def found(awaitable: Any) -> Reply:
    """A response, unless it says that the server does not know the endpoint yet."""
    reply = await awaitable
    assert reply.status != 404
    return reply
