"""Moving runs of scripts between versions: in place, from an event, and what is refused."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.worker import Worker

from helpers import NAMESPACE, SegnoServer, segno_binary
from scripts import Flows, eventually, start
from test_scripts import client, flows, server, worker  # noqa: F401  (fixtures)


async def completed_turns(handle: WorkflowHandle) -> list[int]:
    events = (await handle.fetch_history()).events
    return [e.event_id for e in events if e.HasField("workflow_task_completed_event_attributes")]


async def markers(handle: WorkflowHandle) -> list[tuple[int, str, str]]:
    """Ids of the markers of moves, with the versions before and after."""
    found = []
    for event in (await handle.fetch_history()).events:
        marker = event.marker_recorded_event_attributes
        if event.HasField("marker_recorded_event_attributes") and marker.marker_name == "segno.migrated":
            of = {name: json.loads(value.payloads[0].data) for name, value in marker.details.items()}
            found.append((event.event_id, of["from"], of["to"]))
    return found


async def reset(client: Client, workflow_id: str, event: int) -> WorkflowHandle:
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=NAMESPACE,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            workflow_task_finish_event_id=event,
            reason="again",
            request_id=f"{workflow_id}-{event}",
        )
    )
    return client.get_workflow_handle(workflow_id, run_id=answer.run_id)


def frame(seen: Any) -> dict[str, Any]:
    return next(code for code in seen["code"] if code["id"] == "main")["frames"][0]


@pytest.mark.asyncio
async def test_in_place(client: Client, flows: Flows) -> None:
    one = """workflow moves(n) {
  let x = n, gone = Task.delay("1h")
  await wait_for_signal("go")
  return ["one", x]
}
"""
    two = """workflow moves(n) {
  let fresh, x = n
  query x() { return x }
  await wait_for_signal("go")
  return ["two", x + 1, fresh, Workflow.info().version]
}
"""
    a = flows.deploy(one)["version"]
    handle = await start(client, "moves", "moves-1", 3)
    b = flows.deploy(two)["version"]
    checked = flows.call("POST", "/runs/moves-1:migrate", check_only=True)
    assert checked.body == {"run_id": handle.result_run_id, "from_version": a, "to_version": b}
    assert await markers(handle) == []
    moved = flows.call("POST", "/runs/moves-1:migrate", json.dumps({"version": b[:12]}).encode())
    assert moved.body == checked.body
    assert [(f, t) for _, f, t in await markers(handle)] == [(a, b)]
    assert flows.call("GET", "/flows/moves").body["open_runs"] == {b: 1}
    described = await handle.describe()
    assert described.search_attributes["SegnoFlowVersion"] == [b]
    assert await handle.query("x") == 3
    seen = flows.call("GET", "/runs/moves-1/flow").body
    assert (seen["version"], frame(seen)["line"]) == (b, 4)
    assert [item["item_id"] for item in seen["pending"]] == ["signal-1"]
    # Nothing is written if the run has that version already.
    assert flows.call("POST", "/runs/moves-1:migrate").body["from_version"] == b
    assert len(await markers(handle)) == 1
    await handle.signal("go")
    assert await handle.result() == ["two", 4, None, b]
    events = (await handle.fetch_history()).events
    assert [e.timer_canceled_event_attributes.timer_id for e in events if e.HasField("timer_canceled_event_attributes")] == [
        "timer-1"
    ]
    last = [e for e in events if e.HasField("workflow_task_completed_event_attributes")][-1]
    assert last.workflow_task_completed_event_attributes.worker_version.build_id == b[:12]


@pytest.mark.asyncio
async def test_the_past_of_a_moved_run(client: Client, flows: Flows, worker: Worker) -> None:  # noqa: F811
    one = """workflow past() {
  const a = await Task.run("inc", 1)
  await wait_for_signal("go")
  const c = await Task.run("inc", a)
  return ["one", a, c]
}
"""
    a = flows.deploy(one)["version"]
    handle = await start(client, "past", "past-1")

    async def waits() -> bool:
        return len(await completed_turns(handle)) == 2

    await eventually(waits)
    b = flows.deploy(one.replace('"one"', '"two"').replace("workflow", "// new\nworkflow"))["version"]
    assert flows.call("POST", "/runs/past-1:migrate").status == 200
    await handle.signal("go")
    assert await handle.result() == ["two", 2, 3]
    marker = (await markers(handle))[0][0]
    turns = await completed_turns(handle)
    before = flows.call("GET", "/runs/past-1/flow", at_event=marker - 1).body
    assert (before["version"], frame(before)["line"]) == (a, 3)
    after = flows.call("GET", "/runs/past-1/flow", at_event=marker).body
    assert (after["version"], frame(after)["line"]) == (b, 4)
    last = [turn for turn in turns if turn > marker]
    assert flows.call("GET", "/runs/past-1/flow", at_event=last[-1]).body["code"] == []
    # What is reset has the version that it had at that point.
    later = await reset(client, "past-1", last[1])
    assert await later.result() == ["two", 2, 3]
    earlier = await reset(client, "past-1", turns[1])
    assert await earlier.result() == ["one", 2, 3]
    assert await markers(earlier) == []


@pytest.mark.asyncio
async def test_what_cannot_move_is_refused(client: Client, flows: Flows) -> None:
    one = """async function pay(x) {
  await Task.run("never", x)
}
workflow stays(n) {
  pay(n)
  await wait_for_signal("go")
}
"""
    flows.deploy(one)
    handle = await start(client, "stays", "stays-1", 3)
    two = one.replace('"never"', '"other"').replace('"go"', '"gone"')
    b = flows.deploy(two)["version"][:12]
    for check in (True, False):
        refused = flows.call("POST", "/runs/stays-1:migrate", check_only=check)
        assert refused.status == 400
        assert refused.body["message"] == (
            f"stays (line 6): the waiting statement is not in version {b}\n"
            f"pay (line 2): the waiting statement is not in version {b}"
        )
    assert await markers(handle) == []
    assert flows.call("POST", "/runs/nothing:migrate").status == 404
    assert flows.call("POST", "/runs/stays-1:migrate", version="0123").status == 404
    assert flows.call("POST", "/runs/stays-1:migrate", from_event=99).body["message"] == "the run has no event 99"
    await client.start_workflow("code", id="stays-code", task_queue="somewhere")
    assert flows.call("POST", "/runs/stays-code:migrate").status == 404
    await handle.terminate()
    refused = flows.call("POST", "/runs/stays-1:migrate")
    assert (refused.status, refused.body["message"]) == (400, "the run is closed; it can be moved from an event")
    # The first event is always possible.
    again = flows.call("POST", "/runs/stays-1:migrate", from_event=1).body
    assert again["run_id"] != handle.result_run_id
    newest = client.get_workflow_handle("stays-1")
    await newest.signal("gone")
    assert await newest.result() is None


@pytest.mark.asyncio
async def test_runs_without_a_turn(client: Client, flows: Flows) -> None:
    flows.deploy('workflow early(n) { return ["one", n] }')
    soon = await start(client, "early", "early-1", 1, start_delay=timedelta(seconds=1))
    again = await start(client, "early", "early-2", 2, start_delay=timedelta(hours=1))
    over = await start(client, "early", "early-3", 3, start_delay=timedelta(hours=1))
    await over.signal("s")
    flows.deploy('workflow early(n) { return ["two", n] }')
    assert flows.call("POST", "/runs/early-1:migrate").status == 200
    moved = flows.call("POST", "/runs/early-2:migrate", from_event=1)
    assert moved.body["run_id"] == again.result_run_id, "it has not begun yet"
    await over.terminate()
    assert flows.call("POST", "/runs/early-3:migrate", from_event=1).status == 200
    assert await client.get_workflow_handle("early-3").result() == ["two", 3]
    assert await soon.result() == ["two", 1]


@pytest.mark.asyncio
async def test_a_failed_run_is_repaired(client: Client, flows: Flows, worker: Worker) -> None:  # noqa: F811
    one = """workflow repairs(inputs) {
  const n = await Task.run("echo", inputs.n)
  const s = await wait_for_signal("s")
  return [n, s, inputs.missing]
}
"""
    a = flows.deploy(one)["version"]
    handle = await start(client, "repairs", "repairs-1", {"n": 5})
    await handle.signal("s", "kept")
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    b = flows.deploy(one.replace("inputs.missing", "inputs.missing ?? 7"))["version"]
    events = (await handle.fetch_history()).events
    moved = flows.call("POST", "/runs/repairs-1:migrate", from_event=events[-1].event_id)
    assert (moved.status, moved.body["from_version"], moved.body["to_version"]) == (200, a, b), moved
    again = client.get_workflow_handle("repairs-1", run_id=moved.body["run_id"])
    assert await again.result() == [5, "kept", 7]
    assert [(f, t) for _, f, t in await markers(again)] == [(a, b)]
    # The new run shares the past of the old one, and can be looked at over the move.
    marker = (await markers(again))[0][0]
    assert flows.call("GET", "/runs/repairs-1/flow", at_event=marker - 3).body["version"] == a
    assert flows.call("GET", "/runs/repairs-1/flow", at_event=marker).body["version"] == b
    described = await again.describe()
    assert described.status == WorkflowExecutionStatus.COMPLETED


@pytest.mark.asyncio
async def test_signals_and_tasks_under_way(client: Client, flows: Flows) -> None:
    one = """workflow keeps() {
  let seen = []
  const t = await Task.run("later", 1, { queue: "keeps" })
  return [t, seen]
}
"""
    flows.deploy(one)
    handle = await start(client, "keeps", "keeps-1")
    await handle.signal("s", 1)
    await handle.signal("s", 2)
    flows.deploy(one.replace("let seen = []", "let seen = []\n  signal s(x) { seen.push(x) }"))
    assert flows.call("POST", "/runs/keeps-1:migrate").status == 200
    await handle.signal("s", 3)
    from temporalio import activity

    @activity.defn(name="later")
    async def later(value: int) -> int:
        return value * 10

    async with Worker(client, task_queue="keeps", activities=[later]):
        assert await handle.result() == [10, [1, 2, 3]]


@pytest.mark.asyncio
async def test_the_command(client: Client, flows: Flows, server: SegnoServer) -> None:  # noqa: F811
    flows.deploy('workflow typed() { await wait_for_signal("go"); return 1 }')
    handle = await start(client, "typed", "typed-1")
    b = flows.deploy('workflow typed() { await wait_for_signal("go"); return 2 }')["version"]

    def migrate(*options: str) -> subprocess.CompletedProcess[str]:
        command = [segno_binary(), "flow", "migrate", "--address", server.address, "-w", "typed-1", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    checked = migrate("--check")
    assert (checked.returncode, "can move" in checked.stdout) == (0, True), checked
    moved = migrate("--to", b[:12], "-o", "json")
    assert json.loads(moved.stdout)["to_version"] == b
    await handle.signal("go")
    assert await handle.result() == 2
    refused = migrate()
    assert refused.returncode != 0
    assert "the run is closed" in refused.stderr


@pytest.mark.asyncio
async def test_a_move_survives_a_kill(durable_server: SegnoServer) -> None:
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    flows = Flows(f"127.0.0.1:{durable_server.http_port}")
    flows.deploy('workflow kept(n) { await wait_for_signal("go"); return ["one", n] }')
    handles = [await start(client, "kept", f"kept-{n}", n) for n in range(5)]
    flows.deploy('workflow kept(n) { await wait_for_signal("go"); return ["two", n] }')
    for n in range(0, 5, 2):
        assert flows.call("POST", f"/runs/kept-{n}:migrate").status == 200
    durable_server.kill()
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    for n, _ in enumerate(handles):
        handle = client.get_workflow_handle(f"kept-{n}")
        await handle.signal("go")
        assert await handle.result() == [["two", "one"][n % 2], n]
