"""Scripts that call Nexus operations, and scripts that are the handlers behind an endpoint.

The other side is the stock SDK, another script, or a program that speaks HTTP.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import uuid
from dataclasses import asdict
from typing import Any, AsyncIterator, Iterator

import grpc
import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import CallbackState, EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollNexusTaskQueueRequest, ResetWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError, NexusOperationError, TimeoutError

from flows import Waiter
from helpers import (
    NAMESPACE,
    SegnoServer,
    chain,
    event_counts,
    eventually,
    find_event,
    find_events,
    raises,
    segno_binary,
)
from nexus import Caller, Fault, Nexus, create_endpoint, happened, operation_events, pending_operations, prepare
from nexus_http import JSON, NEW_FORM, Reply, send
from scripts import QUEUE, Flows
from test_durable_restart import BOTH_WAYS, connect, restart

CALL = """workflow call(endpoint, operation, input, options) {
  return await Nexus.call(endpoint, "Sample", operation, input, options)
}
"""
CAUGHT = """workflow caught(endpoint, operation, input, options) {
  try {
    return await Nexus.call(endpoint, "Sample", operation, input, options)
  } catch (e) {
    return { ...Object.pick(e, ["type", "message", "details", "retryable", "source"]), cause: e.cause?.message }
  }
}
"""
# A handler that waits for signals, and says so when it is canceled.
WAITER = """workflow waiter(input) {
  try {
    const end = await wait_for_signal("end")
    if (end == "fail") throw Error("failed on purpose", { type: "OnPurpose", details: input, retryable: false })
    return { input, end }
  } catch (e) {
    if (e.type == "Canceled" && input == "stubborn") return "not canceled"
    throw e
  }
}
"""
DOUBLE = "workflow double(x) { return x * 2 }\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    if not segno_binary().exists():
        pytest.exit(f"no server: build {segno_binary()}", returncode=3)
    server = SegnoServer(log=tmp_path_factory.mktemp("nexus-scripts") / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest_asyncio.fixture
async def nexus(server: SegnoServer, request: pytest.FixtureRequest) -> Nexus:
    """A caller in the default namespace, handlers in another one, and an endpoint that leads to their worker."""
    return await prepared(server, re.sub(r"[^A-Za-z0-9_]+", "-", request.node.name.removeprefix("test_")))


async def prepared(server: SegnoServer, name: str) -> Nexus:
    return await prepare(await connect(server, name))


def flows(server: SegnoServer, namespace: str = NAMESPACE) -> Flows:
    return Flows(f"127.0.0.1:{server.http_port}", namespace)


async def call(nexus: Nexus, server: SegnoServer, operation: str, input: Any = None, **options: Any) -> WorkflowHandle:
    """Starts a script that calls an operation, and fails with its error."""
    return await started(nexus, server, CALL, "call", operation, input, **options)


async def caught(nexus: Nexus, server: SegnoServer, operation: str, input: Any = None, **options: Any) -> Any:
    """The result of a script that calls an operation, or the error that it catches."""
    return await (await started(nexus, server, CAUGHT, "caught", operation, input, **options)).result()


async def started(
    nexus: Nexus, server: SegnoServer, source: str, name: str, operation: str, input: Any, **options: Any
) -> WorkflowHandle:
    flows(server).deploy(source)
    args = [nexus.endpoint.spec.name, operation, input, options or None]
    return await nexus.caller.client.start_workflow(name, args=args, id=nexus.caller.id, task_queue=QUEUE)


def failed_with(**fields: Any) -> dict[str, Any]:
    """An error as the script sees it."""
    source = {"kind": "nexus", "name": f"Sample.{fields.pop('operation')}", "item_id": "nexus-1"}
    return {"details": None, "retryable": True, "cause": None, "source": source, **fields}


# A script calls.


async def test_sync_result(server: SegnoServer, nexus: Nexus):
    """The handler receives input and headers; two turns suffice."""
    async with nexus.serving():
        handle = await call(nexus, server, "echo", {"n": 1}, headers={"X-Own": "v"}, summary="an echo")
        assert await handle.result() == {"n": 1}
    assert await operation_events(handle) == ["Scheduled", "Completed"]
    assert (await event_counts(handle))["WorkflowTaskCompleted"] == 2
    scheduled = await find_event(handle, "NexusOperationScheduled")
    assert (scheduled.endpoint, scheduled.endpoint_id) == (nexus.endpoint.spec.name, nexus.endpoint.id)
    assert dict(scheduled.nexus_header) == {"x-own": "v"}
    [start] = nexus.handlers.starts
    assert start.headers["x-own"] == "v" and start.request_id == scheduled.request_id


async def test_async_result(server: SegnoServer, nexus: Nexus):
    """A workflow behind the operation. Its start needs no turn of the script."""
    async with nexus.serving():
        handle = await call(nexus, server, "flow", asdict(nexus.flow("Waiter")))
        await happened(handle, "NexusOperationStarted")
        [operation] = await pending_operations(handle)
        assert operation.operation == "flow"
        state = flows(server).call("GET", f"/runs/{handle.id}/flow").body
        [item] = state["pending"]
        assert (item["item_id"], item["kind"], item["name"]) == ("nexus-1", "nexus", "Sample.flow")
        assert state["code"][0]["waiting_for"] == ["nexus-1"]
        behind = nexus.handler.handle()
        await behind.signal(Waiter.add, 1)
        await behind.signal(Waiter.finish)
        assert await handle.result() == [1]
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
    assert (await event_counts(handle))["WorkflowTaskCompleted"] == 2


async def test_errors(server: SegnoServer, nexus: Nexus):
    """Each way to fail, as the script catches it."""
    async with nexus.serving():
        error = await caught(nexus, server, "unsuccessful", "failed")
        assert (error["message"], error["source"]["name"]) == ("ended on purpose", "Sample.unsuccessful")
        error = await caught(nexus, server, "unsuccessful", "canceled")
        assert error == failed_with(operation="unsuccessful", type="Canceled", message="canceled", cause=error["cause"])
        error = await caught(nexus, server, "faulty", asdict(Fault("NOT_FOUND")))
        wanted = {"type": "NOT_FOUND", "message": "handler broke", "retryable": False}
        assert error == failed_with(operation="faulty", **wanted, cause=error["cause"])
        error = await caught(nexus, server, "flow", asdict(nexus.flow("Fails")))
        wanted = {"type": "OnPurpose", "message": "failed on purpose", "details": ["detail", 7]}
        assert error == failed_with(operation="flow", **wanted)
        assert await caught(nexus, server, "faulty", asdict(Fault("INTERNAL", attempts=1))) == 2


@pytest.mark.parametrize("kind", ["schedule_to_close", "schedule_to_start", "start_to_close"])
async def test_timeouts(server: SegnoServer, nexus: Nexus, kind: str):
    async with nexus.serving():
        if kind != "start_to_close":
            nexus.handlers.open.clear()
        error = await caught(nexus, server, "flow", asdict(nexus.flow("Waiter")), **{kind: "500ms"})
        nexus.handlers.open.set()
    details = {"kind": kind, "last_heartbeat": None}
    assert error == failed_with(operation="flow", type="Timeout", message="operation timed out", details=details)


async def test_error_that_is_not_caught(server: SegnoServer, nexus: Nexus):
    """Clients see what they see of workflows in code."""
    async with nexus.serving():
        handle = await call(nexus, server, "flow", asdict(nexus.flow("Fails")))
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, NexusOperationError), chain(error)
    assert (error.cause.service, error.cause.operation) == ("Sample", "flow")
    cause = error.cause.__cause__
    assert isinstance(cause, ApplicationError) and cause.type == "OnPurpose"


async def test_cancelled_while_it_waits(server: SegnoServer, nexus: Nexus):
    """The operation is asked to cancel, and the script ends at once."""
    async with nexus.serving():
        handle = await call(nexus, server, "flow", asdict(nexus.flow("EndsLater")))
        await happened(handle, "NexusOperationStarted")
        await handle.cancel()
        error = await raises(WorkflowFailureError, handle.result())
        assert isinstance(error.cause, CancelledError)
        assert await operation_events(handle) == ["Scheduled", "Started", "CancelRequested"]


async def test_waits_for_the_end_of_what_it_cancelled(server: SegnoServer, nexus: Nexus):
    async with nexus.serving():
        input = asdict(nexus.flow("Waiter"))
        flows(server).deploy(CAUGHT)
        handle = await started(nexus, server, CAUGHT, "caught", "flow", input, on_cancel="wait")
        await happened(handle, "NexusOperationStarted")
        await handle.cancel()
        result = await handle.result()
        assert (await nexus.handler.handle().describe()).status == WorkflowExecutionStatus.CANCELED
    assert result["type"] == "Canceled"
    names = [name for name in await operation_events(handle) if name != "CancelRequestCompleted"]
    assert names == ["Scheduled", "Started", "CancelRequested", "Canceled"]


async def test_left_alone(server: SegnoServer, nexus: Nexus):
    """A cancellation waits for the end of the operation."""
    async with nexus.serving():
        handle = await call(nexus, server, "flow", asdict(nexus.flow("Waiter")), on_cancel="ignore")
        await happened(handle, "NexusOperationStarted")
        await handle.cancel()
        await nexus.handler.handle().signal(Waiter.finish)
        assert await handle.result() == []
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_lost_race(server: SegnoServer, nexus: Nexus):
    """The one that lost is asked to cancel."""
    source = """workflow race(endpoint, slow) {
  const first = await Task.race({
    slow: Nexus.call(endpoint, "Sample", "flow", slow),
    quick: Nexus.call(endpoint, "Sample", "echo", "q"),
    late: Task.delay("1h"),
  }, { cancel: true })
  await Task.delay(1)
  return [first.item_id, first.result]
}
"""
    flows(server).deploy(source)
    async with nexus.serving():
        args = [nexus.endpoint.spec.name, asdict(nexus.flow("EndsLater"))]
        handle = await nexus.caller.client.start_workflow("race", args=args, id=nexus.caller.id, task_queue=QUEUE)
        assert await handle.result() == ["quick", "q"]
    [scheduled, _] = await find_events(handle, "NexusOperationScheduled")
    assert scheduled.operation == "flow"
    requested = await find_event(handle, "NexusOperationCancelRequested")
    assert requested.scheduled_event_id == 5
    assert (await event_counts(handle))["TimerCanceled"] == 1


async def test_many_at_once(server: SegnoServer, nexus: Nexus):
    """Operations and tasks together in a group: two turns."""
    source = """workflow many(endpoint) {
  const calls = List.range(50).map(i => Nexus.call(endpoint, "Sample", "echo", i))
  return (await Task.all(calls)).reduce((a, b) => a + b, 0)
}
"""
    flows(server).deploy(source)
    async with nexus.serving():
        args = [nexus.endpoint.spec.name]
        handle = await nexus.caller.client.start_workflow("many", args=args, id=nexus.caller.id, task_queue=QUEUE)
        assert await handle.result() == 1225
    assert (await event_counts(handle))["WorkflowTaskCompleted"] == 2


async def test_unknown_endpoint(server: SegnoServer, nexus: Nexus):
    """The turn fails and is repeated, as any whose command is refused: once the endpoint exists it goes on."""
    name = f"late-{uuid.uuid4().hex[:8]}"
    nexus.endpoint.spec.name = name
    handle = await call(nexus, server, "echo", "found")
    failed = await happened(handle, "WorkflowTaskFailed")
    failed = failed.workflow_task_failed_event_attributes
    assert f'endpoint "{name}" not found' in failed.failure.message
    client = nexus.caller.client
    await create_endpoint(client, name, nexus.handler.client.namespace, nexus.handler.task_queue)
    async with nexus.serving():
        assert await handle.result() == "found"


async def test_reset(server: SegnoServer, nexus: Nexus):
    """The state at an event is computed from history, which does not name the promises."""
    source = """workflow steps(endpoint) {
  const first = await Nexus.call(endpoint, "Sample", "echo", 1)
  const [second, third] = await Task.all([
    Nexus.call(endpoint, "Sample", "echo", 2), Nexus.call(endpoint, "Sample", "echo", 3),
  ])
  await wait_for_signal("go")
  return [first, second, third, await Nexus.call(endpoint, "Sample", "echo", 4)]
}
"""
    flows(server).deploy(source)
    client, name = nexus.caller.client, nexus.endpoint.spec.name
    async with nexus.serving():
        handle = await client.start_workflow("steps", args=[name], id=nexus.caller.id, task_queue=QUEUE)
        await handle.signal("go")
        assert await handle.result() == [1, 2, 3, 4]
        history = (await handle.fetch_history()).events
        completed = [event.event_id for event in history if event.HasField("workflow_task_completed_event_attributes")]
        seen = flows(server).call("GET", f"/runs/{handle.id}/flow", at_event=completed[1] + 2).body
        assert seen["code"][0]["waiting_for"] == ["nexus-2", "nexus-3"]
        for event_id in completed:
            request = ResetWorkflowExecutionRequest(
                namespace=NAMESPACE,
                workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.result_run_id or ""),
                workflow_task_finish_event_id=event_id,
                request_id=str(uuid.uuid4()),
            )
            reset = await client.workflow_service.reset_workflow_execution(request)
            again = client.get_workflow_handle(handle.id, run_id=reset.run_id)
            assert await again.result() == [1, 2, 3, 4]


async def test_moved_to_another_version(server: SegnoServer, nexus: Nexus):
    """A pending operation stays when its run moves to another version."""
    flows(server).deploy(CALL.replace("workflow call", "workflow moved"))
    async with nexus.serving():
        args = [nexus.endpoint.spec.name, "flow", asdict(nexus.flow("Waiter")), None]
        handle = await nexus.caller.client.start_workflow("moved", args=args, id=nexus.caller.id, task_queue=QUEUE)
        await happened(handle, "NexusOperationStarted")
        flows(server).deploy("const MORE = 1\n" + CALL.replace("workflow call", "workflow moved"))
        answer = flows(server).call("POST", f"/runs/{handle.id}:migrate", b"{}")
        assert answer.status == 200, answer
        await nexus.handler.handle().signal(Waiter.finish)
        assert await handle.result() == []


@BOTH_WAYS
async def test_call_outlives_the_server(durable_server: SegnoServer, how: str):
    durable_server.start()
    nexus = await prepared(durable_server, "outlives")
    async with nexus.serving():
        handle = await call(nexus, durable_server, "flow", asdict(nexus.flow("Waiter")))
        await happened(handle, "NexusOperationStarted")
        await restart(durable_server, how)
        await eventually(handle.describe)
        await nexus.handler.handle().signal(Waiter.finish)
        assert await handle.result() == []
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


# A script is called.


async def endpoint_of_scripts(nexus: Nexus) -> None:
    """Leads to the scripts of the handlers' namespace from now on."""
    name = "s-" + nexus.caller.id.replace("_", "-")
    nexus.endpoint = await create_endpoint(nexus.caller.client, name, nexus.handler.client.namespace, QUEUE)


@pytest_asyncio.fixture
async def scripts(server: SegnoServer, nexus: Nexus) -> AsyncIterator[Flows]:
    """The scripts behind the endpoint; a worker runs the callers."""
    await endpoint_of_scripts(nexus)
    scripts = flows(server, nexus.handler.client.namespace)
    scripts.deploy(WAITER)
    scripts.deploy(DOUBLE)
    async with nexus.callers():
        yield scripts


async def behind(nexus: Nexus, handle: WorkflowHandle) -> WorkflowHandle:
    """The workflow behind the operation of a caller, which has started."""
    request_id = (await find_event(handle, "NexusOperationScheduled")).request_id
    return nexus.handler.handle(f"flow-nexus/{request_id}")


async def test_script_answers(server: SegnoServer, nexus: Nexus, scripts: Flows):
    """An operation behind which there is a script is one behind which there is a workflow."""
    handle = await nexus.start("waiter", {"n": 1})
    started = (await happened(handle, "NexusOperationStarted")).nexus_operation_started_event_attributes
    script = await behind(nexus, handle)
    token = started.operation_token
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert "=" not in token
    assert json.loads(text) == {"t": 1, "ns": nexus.handler.client.namespace, "wid": script.id}
    await script.signal("end", "well")
    assert await handle.result() == {"input": {"n": 1}, "end": "well"}
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
    description = (await script.describe()).raw_description
    assert description.workflow_execution_info.type.name == "waiter"

    async def delivered() -> bool:
        [callback] = (await script.describe()).raw_description.callbacks
        return callback.state == CallbackState.CALLBACK_STATE_SUCCEEDED

    await eventually(delivered)


async def test_links_both_ways(server: SegnoServer, nexus: Nexus, scripts: Flows):
    handle = await nexus.start("waiter")
    [link] = (await happened(handle, "NexusOperationStarted")).links
    script = await behind(nexus, handle)
    execution = (await script.describe()).raw_description.workflow_execution_info.execution
    to = link.workflow_event
    assert (to.namespace, to.workflow_id, to.run_id) == (
        nexus.handler.client.namespace, execution.workflow_id, execution.run_id,
    )
    assert (to.event_ref.event_id, to.event_ref.event_type) == (1, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
    [callback] = (await find_event(script, "WorkflowExecutionStarted")).completion_callbacks
    [back] = callback.links
    assert (back.workflow_event.namespace, back.workflow_event.workflow_id) == (NAMESPACE, handle.id)
    assert back.workflow_event.event_ref.event_type == EventType.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED
    await script.signal("end")


async def test_script_that_ends_at_once(server: SegnoServer, nexus: Nexus, scripts: Flows):
    """Its end may be known before the answer to its start."""
    assert await (await nexus.start("double", 21)).result() == 42
    scripts.deploy("workflow none() { return 1 }")
    assert await (await nexus.start("none", None, id=f"{nexus.caller.id}-none")).result() == 1


async def test_script_fails(server: SegnoServer, nexus: Nexus, scripts: Flows):
    handle = await nexus.start("waiter", 7)
    await happened(handle, "NexusOperationStarted")
    await (await behind(nexus, handle)).signal("end", "fail")
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, NexusOperationError), chain(error)
    cause = error.cause.__cause__
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.message, cause.details, cause.non_retryable) == ("OnPurpose", "failed on purpose", (7,), True)


async def test_operation_of_a_script_is_cancelled(server: SegnoServer, nexus: Nexus, scripts: Flows):
    handle = await nexus.start("waiter")
    await happened(handle, "NexusOperationStarted")
    await handle.signal(Caller.cancel)
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, NexusOperationError) and isinstance(error.cause.cause, CancelledError), chain(error)
    script = await behind(nexus, handle)
    assert (await script.describe()).status == WorkflowExecutionStatus.CANCELED
    requested = await find_event(script, "WorkflowExecutionCancelRequested")
    assert requested.external_workflow_execution.workflow_id == handle.id
    assert (await event_counts(handle))["NexusOperationCancelRequestCompleted"] == 1


async def test_script_goes_on_after_a_request_to_cancel(server: SegnoServer, nexus: Nexus, scripts: Flows):
    handle = await nexus.start("waiter", "stubborn")
    await happened(handle, "NexusOperationStarted")
    await handle.signal(Caller.cancel)
    assert await handle.result() == "not canceled"


async def test_timeout_of_an_operation_of_a_script(server: SegnoServer, nexus: Nexus, scripts: Flows):
    handle = await nexus.start("waiter", timeouts_s={"schedule_to_close": 0.5})
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, NexusOperationError) and isinstance(error.cause.cause, TimeoutError), chain(error)


async def test_unknown_script(server: SegnoServer, nexus: Nexus, scripts: Flows):
    """It is not tried again."""
    handle = await nexus.start("nothing")
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, NexusOperationError), chain(error)
    namespace = nexus.handler.client.namespace
    assert f'there is no script "nothing" in namespace "{namespace}"' in str(error.cause.cause)
    assert await operation_events(handle) == ["Scheduled", "Failed"]
    [failed] = await find_events(handle, "NexusOperationFailed")
    assert failed.failure.cause.nexus_handler_failure_info.type == "NOT_FOUND"


async def test_script_continues_as_new(server: SegnoServer, nexus: Nexus, scripts: Flows):
    """The operation completes with the result of the last run."""
    scripts.deploy("workflow again(n) { if (n > 0) return Workflow.continueAsNew(n - 1); return \"last\" }")
    assert await (await nexus.start("again", 2)).result() == "last"


async def test_script_calls_script(server: SegnoServer, nexus: Nexus, scripts: Flows):
    assert await (await call(nexus, server, "double", 4)).result() == 8


async def test_tasks_of_the_script(server: SegnoServer, nexus: Nexus, scripts: Flows):
    """Scripts behind operations are as any other: they run tasks, and take signals."""
    scripts.deploy("workflow pair(x) { const p = Task.delay(1); await p; return [x, Workflow.info().workflow_id] }")
    handle = await nexus.start("pair", 1)
    result = await handle.result()
    assert result == [1, (await behind(nexus, handle)).id]


@BOTH_WAYS
async def test_operation_of_a_script_outlives_the_server(durable_server: SegnoServer, how: str):
    durable_server.start()
    nexus = await prepared(durable_server, "script-outlives")
    await endpoint_of_scripts(nexus)
    flows(durable_server, nexus.handler.client.namespace).deploy(WAITER)
    async with nexus.callers():
        handle = await nexus.start("waiter", "x")
        await happened(handle, "NexusOperationStarted")
        script = await behind(nexus, handle)
        await restart(durable_server, how)
        await eventually(handle.describe)
        await script.signal("end", "later")
        assert await handle.result() == {"input": "x", "end": "later"}
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_kills_while_scripts_are_called(durable_server: SegnoServer):
    """However often the server is killed, each operation completes once."""
    durable_server.start()
    nexus = await prepared(durable_server, "kills")
    await endpoint_of_scripts(nexus)
    source = """workflow calls(endpoint) {
  return await Task.map(List.range(40), async i => {
    await Task.delay(i / 20)
    return await Nexus.call(endpoint, "Any", "slow", i)
  })
}
"""
    flows(durable_server).deploy(source)
    behind = flows(durable_server, nexus.handler.client.namespace)
    behind.deploy("workflow slow(x) { await Task.delay(0.2); return x * 10 }")
    args = [nexus.endpoint.spec.name]
    handle = await nexus.caller.client.start_workflow("calls", args=args, id=nexus.caller.id, task_queue=QUEUE)
    for _ in range(3):
        await asyncio.sleep(0.5)
        await restart(durable_server, "SIGKILL")
    await eventually(handle.describe)
    assert await asyncio.wait_for(handle.result(), 40) == [10 * i for i in range(40)]
    counts = await event_counts(handle)
    assert (counts["NexusOperationScheduled"], counts["NexusOperationStarted"]) == (40, 40)
    assert counts["NexusOperationCompleted"] == 40
    runs = [run async for run in nexus.handler.client.list_workflows("WorkflowType = 'slow'")]
    assert len(runs) == 40


async def test_workers_cannot_poll_the_queue_of_scripts(server: SegnoServer, nexus: Nexus):
    async with nexus.handler.raw() as stub:
        request = PollNexusTaskQueueRequest(
            namespace=nexus.handler.client.namespace, task_queue=TaskQueue(name=QUEUE), identity="raw"
        )
        error = await raises(grpc.aio.AioRpcError, stub.PollNexusTaskQueue(request, timeout=5))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == 'task queue "segno-flow" is served by the server itself'


# A program calls a script over HTTP.


async def post(server: SegnoServer, path: str, headers: dict[str, str], body: bytes = b"") -> Reply:
    return await asyncio.to_thread(send, f"127.0.0.1:{server.http_port}", path, headers, body)


def path_of(nexus: Nexus, operation: str) -> str:
    return f"/namespaces/{nexus.handler.client.namespace}/task-queues/{QUEUE}/nexus-services/any/{operation}"


async def test_direct_call(server: SegnoServer, nexus: Nexus, scripts: Flows):
    """The same request starts one workflow; the endpoint and the queue are two ways to the same."""
    request_id = str(uuid.uuid4())
    headers = {**JSON, "Nexus-Request-Id": request_id}
    first = await post(server, path_of(nexus, "waiter"), headers, b'"in"')
    assert first.status == 201, first
    answer = json.loads(first.body)
    assert answer["state"] == "running"
    script = nexus.handler.handle(f"flow-nexus/{request_id}")
    assert f"/workflows/flow-nexus%2F{request_id}/" in first.headers["nexus-link"]
    path = f"/nexus/endpoints/{nexus.endpoint.id}/services/other/waiter"
    second = await post(server, path, headers, b'"in"')
    assert second.body == first.body and second.headers["nexus-link"] == first.headers["nexus-link"]
    await script.signal("end", 1)
    assert await script.result() == {"input": "in", "end": 1}
    third = await post(server, path, headers, b'"in"')
    assert (third.status, third.body) == (201, first.body)
    unnamed = [await post(server, path, JSON, b"1") for _ in range(2)]
    assert len({reply.body for reply in unnamed}) == 2


async def test_direct_cancel(server: SegnoServer, nexus: Nexus, scripts: Flows):
    started = await post(server, path_of(nexus, "waiter"), JSON, b"1")
    token = json.loads(started.body)["token"]
    path = path_of(nexus, "waiter") + "/cancel"
    reply = await post(server, path, {"Nexus-Operation-Token": token})
    assert (reply.status, reply.body) == (202, b"")
    padded = token + "=" * (-len(token) % 4)
    script = nexus.handler.handle(json.loads(base64.urlsafe_b64decode(padded))["wid"])
    error = await raises(WorkflowFailureError, script.result())
    assert isinstance(error.cause, CancelledError)
    # Once more, after its end.
    assert (await post(server, path, {"Nexus-Operation-Token": token})).status == 202


def token_of(namespace: str, workflow_id: str) -> str:
    text = json.dumps({"t": 1, "ns": namespace, "wid": workflow_id}).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


async def test_direct_calls_that_are_refused(server: SegnoServer, nexus: Nexus, scripts: Flows):
    namespace = nexus.handler.client.namespace
    unknown = await post(server, path_of(nexus, "nothing"), {**JSON, **NEW_FORM}, b"1")
    assert unknown.status == 404
    assert unknown.failure()["message"] == f'there is no script "nothing" in namespace "{namespace}"'
    assert unknown.failure()["details"] == {"type": "NOT_FOUND"}
    callback = await post(server, path_of(nexus, "double") + "?callback=http%3A%2F%2Flocalhost%2Fcb", JSON, b"1")
    assert callback.status == 400
    assert "url does not match any configured callback address" in callback.failure()["message"]
    assert (await post(server, path_of(nexus, "double"), {**JSON, "Nexus-Request-Id": "x" * 995}, b"1")).status == 400
    cancel = path_of(nexus, "waiter") + "/cancel"
    for token, status in [
        ("?", 400),
        (token_of("other", "flow-nexus/x"), 400),
        (token_of(namespace, "another workflow"), 400),
        (token_of(namespace, "flow-nexus/none"), 404),
    ]:
        assert (await post(server, cancel, {"Nexus-Operation-Token": token})).status == status, token
