"""Scripts whose old history was removed: looks into the past and resets begin with a checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest, ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from helpers import SegnoServer, raises
from nexus import create_endpoint
from scripts import QUEUE, Flows, eventually, start

NAMESPACE = "short"
KEPT = 40
LOOPS = """workflow loops(n) {
  const long = Task.delay("1h")
  let i = 0
  while (i < n) {
    await Task.delay("1ms")
    i += 1
  }
  const won = await Task.race([long, wait_for_signal("go")])
  return [i, won.result]
}
"""


@pytest_asyncio.fixture
async def client(durable_server: SegnoServer) -> Client:
    durable_server.start()
    client = await Client.connect(durable_server.address)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=NAMESPACE,
            workflow_execution_retention_period=Duration(seconds=86400),
            data={"segno.flow.history-events-kept": str(KEPT)},
        )
    )
    return await Client.connect(durable_server.address, namespace=NAMESPACE)


@pytest.fixture
def flows(durable_server: SegnoServer) -> Flows:
    return Flows(f"127.0.0.1:{durable_server.http_port}", NAMESPACE)


async def events_of(handle: WorkflowHandle) -> list[Any]:
    return list((await handle.fetch_history()).events)


async def compacted(handle: WorkflowHandle) -> tuple[list[Any], int]:
    """The events of a run that waits for its signal, and the last one that was removed."""

    async def waits() -> bool:
        state = await handle.query("__segno_flow_state")
        return "go" in str(state["pending"])

    await eventually(waits, 30)
    events = await events_of(handle)
    marker = next(event for event in events if event.HasField("marker_recorded_event_attributes"))
    attributes = marker.marker_recorded_event_attributes
    assert attributes.marker_name == "segno.compacted"
    details = {name: payloads.payloads[0].data for name, payloads in attributes.details.items()}
    assert details.keys() == {"from", "to"} and int(details["to"]) == marker.event_id
    return events, marker.event_id


def turns_of(events: list[Any]) -> list[int]:
    """The completed events of turns."""
    return [e.event_id for e in events if e.HasField("workflow_task_completed_event_attributes")]


async def reset(client: Client, handle: WorkflowHandle, event: int) -> WorkflowHandle:
    request = ResetWorkflowExecutionRequest(
        namespace=NAMESPACE,
        workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.run_id or ""),
        reason="test",
        workflow_task_finish_event_id=event,
        request_id=f"reset-{handle.id}-{handle.run_id}-{event}",
    )
    response = await client.workflow_service.reset_workflow_execution(request)
    return client.get_workflow_handle(handle.id, run_id=response.run_id)


@activity.defn
async def double(x: int) -> int:
    return 2 * x


@pytest.mark.asyncio
async def test_a_loop_over_tasks_is_compacted(client: Client, flows: Flows) -> None:
    """A task is pending at each checkpoint: what was before it goes all the same."""
    flows.deploy(
        """workflow steps(n) {
  let sum = 0
  for (const i of List.range(n)) sum += await Task.run("double", i)
  return [sum, await wait_for_signal("go")]
}
"""
    )
    async with Worker(client, task_queue="default", activities=[double]):
        handle = await start(client, "steps", "steps", 60)
        events, removed = await compacted(handle)
        assert len(events) < 5 * KEPT
        turns = [event for event in turns_of(events) if event > removed]
        handle = await reset(client, handle, turns[len(turns) // 2])
        await compacted(handle)
        await handle.signal("go", "gone")
        assert await handle.result() == [60 * 59, "gone"]


@pytest.mark.asyncio
async def test_a_look_into_the_past_after_compaction(client: Client, flows: Flows) -> None:
    flows.deploy(LOOPS)
    handle = await start(client, "loops", "looks", 60)
    events, removed = await compacted(handle)
    seen = {}
    for event in turns_of(events):
        if event > removed:
            answer = flows.call("GET", "/runs/looks/flow", at_event=event)
            assert answer.status == 200, answer
            frame = answer.body["code"][0]["frames"][0]
            seen[event] = frame["variables"]["i"]
    assert len(seen) > 10 and list(seen.values())[-1] == 60
    values = list(seen.values())
    assert values == list(range(values[0], values[0] + len(values))), seen
    answer = flows.call("GET", "/runs/looks/flow", at_event=10)
    assert answer.status == 400 and f"events before {removed + 1} were compacted" in str(answer.body), answer


@pytest.mark.asyncio
async def test_resets_after_compaction(client: Client, flows: Flows, durable_server: SegnoServer) -> None:
    flows.deploy(LOOPS)
    handle = await start(client, "loops", "resets", 60)
    events, removed = await compacted(handle)
    turns = [event for event in turns_of(events) if event > removed]
    error = await raises(RPCError, reset(client, handle, 10))
    assert error.status == RPCStatusCode.FAILED_PRECONDITION
    assert error.message == f"events before {removed + 1} were compacted"
    # The first turn after the checkpoint, one in the middle, the last one; each of the run before.
    for number, place in enumerate([0, len(turns) // 2, -1]):
        handle = await reset(client, handle, turns[place])
        events, removed = await compacted(handle)
        assert [e.event_id for e in events] == sorted({e.event_id for e in events})
        if number == 0:
            durable_server.kill()
            durable_server.start()
        turns = [event for event in turns_of(events) if event > removed]
    # Not the first time: the timer from the beginning is still pending.
    state = await handle.query("__segno_flow_state")
    assert [p["due"] for p in state["pending"] if p["kind"] == "timer"], state
    await handle.signal("go", "gone")
    assert await handle.result() == [60, "gone"]


@pytest.mark.asyncio
async def test_tasks_that_were_pending_at_the_checkpoint(client: Client, flows: Flows) -> None:
    """What a task was given is kept as long as a reset may need it."""
    flows.deploy(
        LOOPS.replace("loops", "waits_for_task").replace(
            'await Task.delay("1ms")', 'if (i % 20 == 5) task = Task.run("never", i)\n    await Task.delay("1ms")'
        ).replace("let i = 0", "let i = 0\n  let task = null")
    )
    handle = await start(client, "waits_for_task", "tasks", 60)

    async def waits() -> bool:
        return "go" in str((await handle.query("__segno_flow_state"))["pending"])

    await eventually(waits, 30)
    events = await events_of(handle)
    # The first task never ends, so that nothing after it can be removed.
    scheduled = [e.event_id for e in events if e.HasField("activity_task_scheduled_event_attributes")]
    assert len(scheduled) == 3
    turns = [event for event in turns_of(events) if event > scheduled[1]]
    handle = await reset(client, handle, turns[1])
    await eventually(waits, 30)
    pending = (await handle.describe()).raw_description.pending_activities
    assert len(pending) == 3


CALLS = """workflow calls(endpoint, n) {
  let i = 0, sum = 0
  while (i < n) {
    const calls = [i, 1].map(x => Nexus.call(endpoint, "Any", "double", x))
    sum += (await Task.all(calls)).reduce((a, b) => a + b, 0)
    i += 1
    for (const x of List.range(4)) await Task.delay("1ms")
  }
  const open = Nexus.call(endpoint, "Any", "wait")
  const won = await Task.race([open, wait_for_signal("go")])
  return [i, sum, won.result]
}
"""


@pytest.mark.asyncio
async def test_operations_after_compaction(client: Client, flows: Flows) -> None:
    """History does not name the promises of Nexus operations: they are counted from the checkpoint on."""
    flows.deploy("workflow double(x) { return x * 2 }")
    flows.deploy("workflow wait() { return await wait_for_signal('end') }")
    flows.deploy(CALLS)
    await create_endpoint(client, "scripts", NAMESPACE, QUEUE)
    handle = await start(client, "calls", "calls", "scripts", 20)
    events, removed = await compacted(handle)
    turns = [event for event in turns_of(events) if event > removed]
    seen = 0
    for event in turns[:-1]:
        answer = flows.call("GET", "/runs/calls/flow", at_event=event)
        [code] = answer.body["code"]
        done = code["frames"][0]["variables"]["i"]
        if "timer" not in str(code["waiting_for"]):
            assert code["waiting_for"] == [f"nexus-{2 * done + 1}", f"nexus-{2 * done + 2}"], answer
            seen += 1
    assert seen > 1
    for place in [0, len(turns) // 2, -1]:
        handle = await reset(client, handle, turns[place])
        events, removed = await compacted(handle)
        turns = [event for event in turns_of(events) if event > removed]
    await handle.signal("go", "gone")
    assert await handle.result() == [20, 420, "gone"]
