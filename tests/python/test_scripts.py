"""Scripts: workflows that the server executes itself, driven by the stock SDK.

What the language does is tested in crates/flow; here is what concerns the server: ordinary calls on
runs of scripts, task workers, versions, restarts.
"""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Iterator

import pytest
import pytest_asyncio
from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import (
    ResetWorkflowExecutionRequest,
)
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    TerminatedError,
)
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from helpers import NAMESPACE, Env, SegnoServer, segno_binary
from scripts import QUEUE, Flows, eventually, event_types, start


@activity.defn(name="echo")
async def echo(value: Any = None) -> Any:
    return value


@activity.defn(name="sq")
async def sq(value: int) -> int:
    return value * value


@activity.defn(name="inc")
async def inc(value: int) -> int:
    return value + 1


@activity.defn(name="ship")
async def ship() -> None:
    raise ApplicationError("no stock", {"sku": 7}, type="OutOfStock", non_retryable=True)


@activity.defn(name="load")
async def load() -> bytes:
    return b"\x00\x01binary"


@activity.defn(name="is_blob")
async def is_blob(blob: bytes) -> bool:
    return blob == b"\x00\x01binary"


@workflow.defn(name="CodeChild")
class CodeChild:
    @workflow.run
    async def run(self, x: int) -> int:
        if x < 0:
            raise ApplicationError("neg", type="Neg")
        return x * 2


@workflow.defn(name="CodeParent")
class CodeParent:
    @workflow.run
    async def run(self, name: str) -> Any:
        return await workflow.execute_child_workflow(name, 21, task_queue=QUEUE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    if not segno_binary().exists():
        pytest.exit(f"no server: build {segno_binary()}", returncode=3)
    server = SegnoServer(log=tmp_path_factory.mktemp("scripts") / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def flows(server: SegnoServer) -> Flows:
    return Flows(f"127.0.0.1:{server.http_port}")


@pytest_asyncio.fixture
async def client(server: SegnoServer) -> Client:
    return await Client.connect(server.address, namespace=NAMESPACE)


@pytest_asyncio.fixture
async def worker(client: Client) -> AsyncIterator[Worker]:
    """A stock worker on the queue that scripts use unless told otherwise."""
    activities = [echo, sq, inc, ship, load, is_blob]
    async with Worker(
        client, task_queue="default", activities=activities, workflows=[CodeChild, CodeParent]
    ) as worker:
        yield worker


@pytest.mark.asyncio
async def test_the_first_example_has_eleven_events(client: Client, flows: Flows, worker: Worker) -> None:
    flows.deploy(
        "workflow example(inputs) {\n  result = await Task.run('echo', inputs)\n  return result\n}\n"
    )
    handle = await start(client, "example", "example-1", {"ok": True})
    assert await handle.result() == {"ok": True}
    task = ["WORKFLOW_TASK_SCHEDULED", "WORKFLOW_TASK_STARTED", "WORKFLOW_TASK_COMPLETED"]
    ended = ["ACTIVITY_TASK_SCHEDULED", "ACTIVITY_TASK_STARTED", "ACTIVITY_TASK_COMPLETED"]
    assert await event_types(handle) == [
        "WORKFLOW_EXECUTION_STARTED", *task, *ended, *task, "WORKFLOW_EXECUTION_COMPLETED",
    ]
    description = await handle.describe()
    assert description.workflow_type == "example"
    assert description.typed_search_attributes is not None
    names = {pair.key.name for pair in description.typed_search_attributes}
    assert "SegnoFlowVersion" in names


@pytest.mark.asyncio
async def test_a_hundred_tasks_take_two_turns(client: Client, flows: Flows, worker: Worker) -> None:
    flows.deploy(
        "workflow hundred() { return (await Task.all(List.range(100).map(i => Task.run('sq', i))))"
        ".reduce((a, b) => a + b, 0) }"
    )
    handle = await start(client, "hundred", "hundred-1")
    assert await handle.result() == 328350
    assert (await event_types(handle)).count("WORKFLOW_TASK_COMPLETED") == 2


@pytest.mark.asyncio
async def test_queries_and_updates(client: Client, flows: Flows) -> None:
    flows.deploy(
        """workflow stock() {
  let left = 10
  query left() { return left }
  update take(n) {
    validate { if (n > left) throw Error(`only ${left}`, { type: "TooMuch" }) }
    left -= n; return left
  }
  await wait_until(() => left == 0); return "empty"
}
"""
    )
    handle = await start(client, "stock", "stock-1")
    assert await handle.query("left") == 10
    assert len(await event_types(handle)) == 4
    assert await handle.execute_update("take", 4) == 6
    before = len(await event_types(handle))
    with pytest.raises(WorkflowUpdateFailedError) as rejected:
        await handle.execute_update("take", 99)
    assert isinstance(rejected.value.cause, ApplicationError)
    assert (rejected.value.cause.type, rejected.value.cause.message) == ("TooMuch", "only 6")
    assert len(await event_types(handle)) == before
    with pytest.raises(WorkflowUpdateFailedError) as unknown:
        await handle.execute_update("gone", 1)
    assert isinstance(unknown.value.cause, ApplicationError)
    assert unknown.value.cause.type == "UnknownUpdate"
    with pytest.raises(WorkflowQueryFailedError, match='unknown query "x"; known: left'):
        await handle.query("x")
    assert await handle.execute_update("take", 6) == 0
    assert await handle.result() == "empty"
    assert await handle.query("left") == 0


@pytest.mark.asyncio
async def test_signals_come_in_order_and_before_the_wait(client: Client, flows: Flows) -> None:
    flows.deploy(
        "workflow sig() { return [await wait_for_signal('t'), await wait_for_signal('s'), await wait_for_signal('s')] }"
    )
    handle = await start(client, "sig", "sig-1", start_signal="s", start_signal_args=[1])
    await handle.signal("s", 2)
    await handle.signal("unused", 0)
    turns = (await event_types(handle)).count("WORKFLOW_TASK_COMPLETED")
    assert turns == 1, "signals that no code waits for are only recorded"
    await handle.signal("t", 9)
    assert await handle.result() == [9, 1, 2]


@pytest.mark.asyncio
async def test_errors_of_workers_and_scripts(client: Client, flows: Flows, worker: Worker) -> None:
    flows.deploy(
        """workflow ships(caught) {
  if (!caught) return await Task.run("ship")
  try { await Task.run("ship") }
  catch (e) { return [e.type, e.message, e.details, e.retryable, e.source.kind, e.source.name] }
}
"""
    )
    caught = await start(client, "ships", "ships-1", True)
    assert await caught.result() == ["OutOfStock", "no stock", {"sku": 7}, False, "task", "ship"]
    uncaught = await start(client, "ships", "ships-2", False)
    with pytest.raises(WorkflowFailureError) as failed:
        await uncaught.result()
    assert isinstance(failed.value.cause, ActivityError)
    assert failed.value.cause.activity_type == "ship"
    cause = failed.value.cause.cause
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.message, list(cause.details)) == ("OutOfStock", "no stock", [{"sku": 7}])
    flows.deploy("workflow bad(inputs) { return inputs.nothing }")
    bad = await start(client, "bad", "bad-1", {})
    with pytest.raises(WorkflowFailureError) as failed:
        await bad.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "FieldError"
    assert failed.value.cause.message == 'no field "nothing" (write ?.nothing if it may be missing)'


@pytest.mark.asyncio
async def test_opaque_payloads_pass_through(client: Client, flows: Flows, worker: Worker) -> None:
    flows.deploy(
        "workflow blobs() { const blob = await Task.run('load'); return [typeof blob, await Task.run('is_blob', blob)] }"
    )
    handle = await start(client, "blobs", "blobs-1")
    assert await handle.result() == ["payload", True]


@pytest.mark.asyncio
async def test_cancellation_runs_the_catch(client: Client, flows: Flows, worker: Worker) -> None:
    flows.deploy(
        """workflow patient(save) {
  try { await Task.delay("30d") }
  catch (e) {
    await Task.run("echo", { why: e.message })
    if (save) return "saved"
    throw e
  }
}
"""
    )
    canceled = await start(client, "patient", "patient-1", False)
    await canceled.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await canceled.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert "TIMER_CANCELED" in await event_types(canceled)
    saved = await start(client, "patient", "patient-2", True)
    await saved.cancel()
    assert await saved.result() == "saved"


@pytest.mark.asyncio
async def test_terminated_and_timed_out(client: Client, flows: Flows) -> None:
    flows.deploy("workflow waits() { await Task.delay('1h') }")
    handle = await start(client, "waits", "waits-1")
    await handle.terminate("enough")
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    assert isinstance(failed.value.cause, TerminatedError)
    import datetime

    short = await start(
        client, "waits", "waits-2", run_timeout=datetime.timedelta(seconds=1)
    )
    with pytest.raises(WorkflowFailureError):
        await short.result()
    assert (await short.describe()).status == WorkflowExecutionStatus.TIMED_OUT


@pytest.mark.asyncio
async def test_children_of_code_and_script(client: Client, flows: Flows, worker: Worker) -> None:
    flows.deploy(
        'workflow child(x) { if (x < 0) throw Error("neg", { type: "Neg" }); return x * 2 }'
    )
    flows.deploy(
        """workflow parent() {
  const ten = await Workflow.run("child", 5)
  const code = await Workflow.run("CodeChild", 6, { queue: "default" })
  const started = await Workflow.start("child", 7, { id: "kid-7" })
  try { await Workflow.run("child", -1) }
  catch (e) { return [ten, code, started.workflow_id, e.type, e.message, e.source.kind] }
}
"""
    )
    handle = await start(client, "parent", "parent-1")
    assert await handle.result() == [10, 12, "kid-7", "Neg", "neg", "workflow"]
    code = await client.start_workflow(
        "CodeParent", "child", id="code-parent-1", task_queue="default"
    )
    assert await code.result() == 42
    flows.deploy(
        "workflow orphan() { try { await Workflow.run('no such script') } catch (e) { return [e.type, e.message] } }"
    )
    handle = await start(client, "orphan", "orphan-1")
    text = f'there is no script "no such script" in namespace "{NAMESPACE}"'
    assert await handle.result() == ["NotFound", text]


@pytest.mark.asyncio
async def test_messages_between_workflows(client: Client, flows: Flows) -> None:
    flows.deploy("workflow listens() { return await wait_for_signal('hello') }")
    flows.deploy(
        """workflow tells(id) {
  await Workflow.signal(id, "hello", { from: Workflow.info().workflow_id })
  try { await Workflow.signal("nobody at all", "hello") } catch (e) { return e.type }
}
"""
    )
    listens = await start(client, "listens", "listens-1")
    tells = await start(client, "tells", "tells-1", "listens-1")
    assert await listens.result() == {"from": "tells-1"}
    assert await tells.result() == "NotFound"


@pytest.mark.asyncio
async def test_continue_as_new_takes_signals_along(client: Client, flows: Flows) -> None:
    flows.deploy(
        """workflow goes_on(seen = []) {
  const all = [await wait_for_signal("s"), ...seen]
  if (all.length == 3) return all
  return Workflow.continueAsNew(all)
}
"""
    )
    handle = await start(client, "goes_on", "goes-on-1")
    first = handle.first_execution_run_id
    for value in (1, 2, 3):
        await client.get_workflow_handle("goes-on-1").signal("s", value)
    assert await handle.result() == [3, 2, 1]
    assert (await client.get_workflow_handle("goes-on-1").describe()).run_id != first


@pytest.mark.asyncio
async def test_a_task_outlives_its_run(client: Client, flows: Flows) -> None:
    flows.deploy(
        'workflow tells_later(inputs) { Task.run("echo", inputs, { queue: "later" }); return { success: true } }'
    )
    handle = await start(client, "tells_later", "tells-later-1", 5)
    assert await handle.result() == {"success": True}
    description = await handle.describe()
    assert description.status == WorkflowExecutionStatus.COMPLETED
    assert len(description.raw_description.pending_activities) == 1
    before = await event_types(handle)
    calls: list[Any] = []

    @activity.defn(name="echo")
    async def notes(value: Any) -> None:
        calls.append(value)

    async with Worker(client, task_queue="later", activities=[notes]):

        async def over() -> bool:
            return not (await handle.describe()).raw_description.pending_activities

        await eventually(over)
    assert calls == [5]
    assert await event_types(handle) == before


@pytest.mark.asyncio
async def test_tasks_outlive_runs_that_continue_as_new(client: Client, flows: Flows) -> None:
    flows.deploy(
        """workflow goes_on_and_tells(n = 0) {
  Task.run("echo", n, { queue: "much_later" })
  if (n < 2) return Workflow.continueAsNew(n + 1)
  return n
}
"""
    )
    handle = await start(client, "goes_on_and_tells", "goes-on-and-tells-1")
    assert handle.first_execution_run_id == handle.result_run_id
    assert await handle.result() == 2
    first = client.get_workflow_handle("goes-on-and-tells-1", run_id=handle.first_execution_run_id)
    description = await first.describe()
    assert description.status == WorkflowExecutionStatus.CONTINUED_AS_NEW
    assert len(description.raw_description.pending_activities) == 1
    calls: list[int] = []

    @activity.defn(name="echo")
    async def notes(value: int) -> None:
        calls.append(value)
        if calls.count(value) == 1:
            raise ValueError("the first attempt fails")

    async with Worker(client, task_queue="much_later", activities=[notes]):

        async def over() -> bool:
            return sorted(calls) == [0, 0, 1, 1, 2, 2]

        await eventually(over)
    assert not (await first.describe()).raw_description.pending_activities


@pytest.mark.asyncio
async def test_versions(client: Client, flows: Flows) -> None:
    one = 'workflow v() { await wait_for_signal("go"); return "one" }'
    two = one.replace("one", "two")
    a = flows.deploy(one)
    assert (a["created"], a["current"]) == (True, a["version"])
    r1 = await start(client, "v", "v-1")
    b = flows.deploy(two)
    r2 = await start(client, "v", "v-2")
    again = flows.deploy(one)
    assert (again["created"], again["version"]) == (False, a["version"])
    r3 = await start(client, "v", "v-3")
    broken = flows.call("POST", "/flows", b'workflow v() { return reslt }')
    assert broken.status == 400
    assert [d["code"] for d in broken.body["diagnostics"]] == ["F0201"]
    described = flows.call("GET", "/flows/v").body
    assert (len(described["versions"]), len(described["activations"])) == (2, 3)
    assert described["current"] == a["version"]
    assert described["open_runs"] == {a["version"]: 2, b["version"]: 1}
    refused = flows.call("DELETE", "/flows/v", version=b["version"])
    assert refused.status == 400, refused
    for handle in (r1, r2, r3):
        await handle.signal("go")
    assert [await r.result() for r in (r1, r2, r3)] == ["one", "two", "one"]
    assert flows.call("DELETE", "/flows/v", version=b["version"][:12]).status == 200
    assert flows.call("GET", "/flows/v/source").body == one
    assert flows.call("GET", "/flows/nothing").status == 404


@pytest.mark.asyncio
async def test_rollback_and_activate(client: Client, flows: Flows) -> None:
    a = flows.deploy("workflow rolled() { return 1 }")["version"]
    b = flows.deploy("workflow rolled() { return 2 }")["version"]
    assert flows.call("POST", "/flows/rolled:rollback").body["version"] == a
    assert await (await start(client, "rolled", "rolled-1")).result() == 1
    assert flows.call("POST", "/flows/rolled:activate", version=b[:12]).body["version"] == b
    assert await (await start(client, "rolled", "rolled-2")).result() == 2
    assert len(flows.call("GET", "/flows/rolled").body["activations"]) == 4


@pytest.mark.asyncio
async def test_what_is_refused(client: Client, flows: Flows) -> None:
    with pytest.raises(RPCError) as missing:
        await start(client, "nowhere", "nowhere-1")
    assert missing.value.status == RPCStatusCode.NOT_FOUND
    assert missing.value.message == f'there is no script "nowhere" in namespace "{NAMESPACE}"'
    await client.start_workflow("taken", id="taken-1", task_queue="somewhere")
    refused = flows.call("POST", "/flows", b"workflow taken() { return 1 }")
    assert refused.status == 400
    assert refused.body["message"] == '1 open runs of "taken" are not scripts'
    flows.deploy("workflow taken() { return 1 }", take_over=True)


@pytest.mark.asyncio
async def test_a_long_turn_disturbs_nobody(client: Client, flows: Flows) -> None:
    flows.deploy(
        "workflow long(n) { let sum = 0; for (let i = 0; i < n; i++) { sum += i }; return sum }"
    )
    flows.deploy("workflow endless() { while (true) {} }")
    handle = await start(client, "long", "long-1", 100_000)
    assert await handle.result() == 4999950000
    endless = await start(client, "endless", "endless-1")
    quick = await start(client, "long", "long-2", 10)
    assert await quick.result() == 45
    with pytest.raises(WorkflowFailureError) as failed:
        await endless.result()
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "LimitError"
    assert failed.value.cause.message == "step limit of 5000000 reached"


@pytest.mark.asyncio
async def test_reset_repeats_from_a_turn(client: Client, flows: Flows, worker: Worker) -> None:
    flows.deploy(
        """workflow resets() {
  const a = await Task.run("inc", 1)
  const b = await wait_for_signal("s")
  return [a, b]
}
"""
    )
    handle = await start(client, "resets", "resets-1")
    await handle.signal("s", "first")
    assert await handle.result() == [2, "first"]
    events = (await handle.fetch_history()).events
    completed = [e.event_id for e in events if e.HasField("workflow_task_completed_event_attributes")]
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=NAMESPACE,
            workflow_execution=WorkflowExecution(workflow_id="resets-1"),
            workflow_task_finish_event_id=completed[1],
            reason="again",
            request_id="again-1",
        )
    )
    again = client.get_workflow_handle("resets-1", run_id=answer.run_id)
    assert await again.result() == [2, "first"], "the signal came after the point and is applied again"


@pytest.mark.asyncio
async def test_looking_into_a_run(client: Client, flows: Flows) -> None:
    flows.deploy(
        """workflow looks(inputs) {
  let n = inputs.n
  log("begins", { n })
  await wait_for_signal("go")
  n = n + 1
  await Task.delay("1h")
}
"""
    )
    handle = await start(client, "looks", "looks-1", {"n": 3})
    seen = flows.call("GET", "/runs/looks-1/flow").body
    assert seen["name"] == "looks"
    main = next(code for code in seen["code"] if code["id"] == "main")
    assert main["waiting_for"] == ["signal-1"]
    assert (main["frames"][0]["line"], main["frames"][0]["variables"]["n"]) == (4, 3)
    assert [line["message"] for line in seen["log"]] == ["begins"]
    await handle.signal("go")
    seen = flows.call("GET", "/runs/looks-1/flow").body
    assert seen["code"][0]["frames"][0]["variables"]["n"] == 4
    assert [p["item_id"] for p in seen["pending"]] == ["timer-1"]
    before = flows.call("GET", "/runs/looks-1/flow", at_event=4).body
    assert before["code"][0]["frames"][0]["variables"]["n"] == 3
    stack = await handle.query("__stack_trace")
    assert "at looks (script.flow:6:3)" in stack, stack
    await handle.terminate()


@pytest.mark.asyncio
async def test_memo_attributes_and_retries(client: Client, flows: Flows) -> None:
    flows.deploy(
        """workflow facts() {
  Workflow.setMemo({ note: "n" })
  const info = Workflow.info()
  if (info.attempt < 3) throw Error("again")
  return [info.workflow_id, info.attempt, info.name]
}
"""
    )
    handle = await start(
        client,
        "facts",
        "facts-1",
        retry_policy=RetryPolicy(backoff_coefficient=1.0, maximum_attempts=3),
    )
    assert await handle.result() == ["facts-1", 3, "facts"]
    assert await (await client.get_workflow_handle("facts-1").describe()).memo() == {"note": "n"}


@pytest.mark.asyncio
async def test_cron_and_the_schedule_of_a_file(client: Client, flows: Flows) -> None:
    flows.deploy('schedule("0 9 * * 1-5", { zone: "Europe/Berlin" })\nworkflow nightly() { return 1 }')
    handle = client.get_workflow_handle("flow-schedule/nightly")
    description = await handle.describe()
    assert description.status == WorkflowExecutionStatus.RUNNING
    first = description.run_id
    events = (await handle.fetch_history()).events
    started = events[0].workflow_execution_started_event_attributes
    assert started.cron_schedule == "CRON_TZ=Europe/Berlin 0 9 * * 1-5"
    flows.deploy('schedule("0 8 * * *")\nworkflow nightly() { return 2 }')
    assert (await client.get_workflow_handle("flow-schedule/nightly").describe()).run_id != first
    flows.deploy("workflow nightly() { return 3 }")
    description = await client.get_workflow_handle("flow-schedule/nightly").describe()
    assert description.status == WorkflowExecutionStatus.TERMINATED


@pytest.mark.asyncio
async def test_a_hundred_scripts_survive_kills(durable_server: SegnoServer) -> None:
    durable_server.start()
    flows = Flows(f"127.0.0.1:{durable_server.http_port}")
    flows.deploy(
        """workflow lasting(n) {
  let sum = 0
  signal add(x) { sum += x }
  await wait_until(() => sum >= n)
  await Task.delay("1s")
  return sum
}
"""
    )
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    for n in range(100):
        await start(client, "lasting", f"lasting-{n}", 2)
    for n in range(100):
        await client.get_workflow_handle(f"lasting-{n}").signal("add", 1)
    durable_server.kill()
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    for n in range(100):
        await client.get_workflow_handle(f"lasting-{n}").signal("add", 1)
    durable_server.kill()
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    results = [
        await asyncio.wait_for(client.get_workflow_handle(f"lasting-{n}").result(), 30)
        for n in range(100)
    ]
    assert results == [2] * 100
