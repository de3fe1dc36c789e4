"""Completion callbacks that go to a URL: what is sent, and what becomes of the answer."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any, AsyncIterator, Iterator

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.api.common.v1 import Callback, Payloads, WorkflowType
from temporalio.api.enums.v1 import CallbackState
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.converter import PayloadConverter
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from helpers import NAMESPACE, Env, SegnoServer, eventually, raises, segno_binary
from http_handler import Answer, OutsideServer

STATE = CallbackState
ALLOWED = ["--callback-allowed-addresses", "http://127.0.0.1:*,example.com"]


@workflow.defn
class Ends:
    """Ends as it is told."""

    @workflow.run
    async def run(self, how: str) -> Any:
        if how == "fails":
            raise ApplicationError("boom", type="T", non_retryable=True)
        if how == "waits":
            await asyncio.sleep(100)
        return {"a": 1} if how == "completes" else None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    """A server whose callbacks may go to this machine."""
    if not segno_binary().exists():
        pytest.exit(f"no server: set SEGNO_ADDRESS, or build {segno_binary()}", returncode=3)
    server = SegnoServer(log=tmp_path_factory.mktemp("segno") / "server.log", flags=ALLOWED)
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
    yield Env(server.address, client, request.node.originalname)


async def start(env: Env, url: str, how: str = "completes", headers: dict[str, str] | None = None) -> WorkflowHandle[Any, Any]:
    """Starts a workflow with a callback."""
    workflow_id = f"{env.id}-{uuid.uuid4().hex[:6]}"
    request = StartWorkflowExecutionRequest(
        namespace=NAMESPACE,
        workflow_id=workflow_id,
        workflow_type=WorkflowType(name="Ends"),
        task_queue=TaskQueue(name=env.task_queue),
        request_id=uuid.uuid4().hex,
        input=Payloads(payloads=[PayloadConverter.default.to_payload(how)]),
        completion_callbacks=[Callback(nexus=Callback.Nexus(url=url, header=headers or {}))],
    )
    await env.client.workflow_service.start_workflow_execution(request)
    return env.handle(workflow_id)


async def callback_of(handle: WorkflowHandle[Any, Any]) -> Any:
    """The callback of a workflow as it is described."""
    [callback] = (await handle.describe()).raw_description.callbacks
    return callback


async def settled(handle: WorkflowHandle[Any, Any], state: Any, timeout: float = 10) -> Any:
    """The callback of a workflow, once it is in a state."""

    async def found() -> Any:
        callback = await callback_of(handle)
        return callback if callback.state == state else None

    return await eventually(found, timeout)


ENDS = [
    ("completes", "", "succeeded", {"a": 1}),
    ("returns", "", "succeeded", None),
    ("fails", "", "failed", {"applicationFailureInfo": {"type": "T", "nonRetryable": True}}),
    ("waits", "cancel", "canceled", {"canceledFailureInfo": {}}),
    ("waits", "terminate", "failed", {"terminatedFailureInfo": {}}),
]


@pytest.mark.parametrize("how, act, state, body", ENDS)
async def test_ends(own: Env, outside: OutsideServer, how: str, act: str, state: str, body: Any):
    """The end of the workflow is reported with its state, its times and a link to its start."""
    outside.answers["/done"] = Answer(200)
    async with own.worker(Ends):
        headers = {"X-Own": "v", "Nexus-Operation-Token": "t"}
        handle = await start(own, outside.url + "/done", how, headers)
        if act == "cancel":
            await handle.cancel()
        if act == "terminate":
            await handle.terminate()
        callback = await settled(handle, STATE.CALLBACK_STATE_SUCCEEDED)
    assert (callback.attempt, callback.HasField("last_attempt_failure")) == (1, False)
    [request] = outside.requests
    sent = request.headers
    assert (request.method, sent["nexus-operation-state"], sent["x-own"]) == ("POST", state, "v")
    assert sent["nexus-operation-token"] == "t"
    assert sent["nexus-operation-start-time"].endswith(" GMT") and sent["nexus-operation-close-time"].endswith("Z")
    assert f"/workflows/{handle.id}/" in sent["nexus-link"] and "eventID=1" in sent["nexus-link"]
    assert sent["user-agent"] == "temporalio/server"
    if state == "succeeded":
        assert (json.loads(request.body) if request.body else None) == body
    else:
        failure = json.loads(request.body)
        assert failure["metadata"] == {"type": "temporal.api.failure.v1.Failure"}
        assert failure["details"] == body


FAILURES = [
    (Answer(404), "handler error (NOT_FOUND)"),
    (Answer(400, {"message": "m"}), "handler error (BAD_REQUEST)"),
    (Answer(503, b"", {"Nexus-Request-Retryable": "false"}), "handler error (UNAVAILABLE)"),
]


@pytest.mark.parametrize("number", range(len(FAILURES)))
async def test_refused(own: Env, outside: OutsideServer, number: int):
    """An error that is not to be repeated ends the callback."""
    outside.answers["/done"], text = FAILURES[number]
    async with own.worker(Ends):
        callback = await settled(await start(own, outside.url + "/done"), STATE.CALLBACK_STATE_FAILED)
    assert callback.last_attempt_failure.message == text
    assert callback.last_attempt_failure.application_failure_info.non_retryable
    assert len(outside.requests) == 1


async def test_repeated(own: Env, outside: OutsideServer):
    """A callback that fails is described with its next attempt, and repeated."""
    answers = iter([Answer(503), Answer(302, b"", {"Location": "/elsewhere"}), Answer(204)])
    outside.answers["/done"] = lambda _: next(answers)
    async with own.worker(Ends):
        handle = await start(own, outside.url + "/done")
        callback = await settled(handle, STATE.CALLBACK_STATE_BACKING_OFF)
        assert callback.last_attempt_failure.message == "handler error (UNAVAILABLE)"
        assert not callback.last_attempt_failure.application_failure_info.non_retryable
        assert callback.next_attempt_schedule_time.seconds >= callback.last_attempt_complete_time.seconds
        callback = await settled(handle, STATE.CALLBACK_STATE_SUCCEEDED)
    assert callback.attempt == 3
    assert not outside.at("/elsewhere")


async def test_survives_a_restart(durable_server: SegnoServer, outside: OutsideServer, request: pytest.FixtureRequest):
    """A callback that waits for its next attempt is delivered by the next process."""
    durable_server.flags = ALLOWED
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    env = Env(durable_server.address, client, request.node.name)
    outside.answers["/done"] = Answer(503)
    async with env.worker(Ends):
        handle = await start(env, outside.url + "/done")
        await settled(handle, STATE.CALLBACK_STATE_BACKING_OFF)
    durable_server.kill()
    outside.answers["/done"] = Answer(200)
    made = len(outside.requests)
    durable_server.start()
    callback = await settled(handle, STATE.CALLBACK_STATE_SUCCEEDED, 20)
    assert callback.attempt == made + 1 == len(outside.requests)


async def test_two_callers(own: Env, outside: OutsideServer):
    """A breaker belongs to one host: callbacks to another one are delivered meanwhile, and those to it say why they wait."""
    outside.answers["/down"] = Answer(503)
    with OutsideServer() as other:
        other.answers["/done"] = Answer(200)
        async with own.worker(Ends):
            for _ in range(6):
                await settled(await start(own, outside.url + "/down"), STATE.CALLBACK_STATE_BACKING_OFF)
            blocked = await settled(await start(own, outside.url + "/done"), STATE.CALLBACK_STATE_BLOCKED)
            assert blocked.blocked_reason == "The circuit breaker is open."
            await settled(await start(own, other.url + "/done"), STATE.CALLBACK_STATE_SUCCEEDED)


REFUSED = [
    ("http://example.org/x", "url does not match any configured callback address: http://example.org/x"),
    ("http://example.com/x", "callback address does not allow insecure connections: http://example.com/x"),
]


@pytest.mark.parametrize("url, text", REFUSED)
async def test_addresses_have_to_be_allowed(own: Env, url: str, text: str):
    """A callback to another address is refused when it is attached."""
    error = await raises(RPCError, start(own, url))
    assert (error.status, error.message) == (RPCStatusCode.INVALID_ARGUMENT, f"invalid url: {text}")
