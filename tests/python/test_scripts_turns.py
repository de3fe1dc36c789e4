"""What one turn of a script does besides its tasks, and what a reset repeats."""

from __future__ import annotations

import uuid
from typing import Any, AsyncIterator, Iterator

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker

from helpers import NAMESPACE, SegnoServer
from scripts import Flows, eventually, start


@activity.defn(name="boom")
async def boom(_: Any) -> None:
    raise ApplicationError("no", type="Boom", non_retryable=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    server = SegnoServer(log=tmp_path_factory.mktemp("turns") / "server.log")
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
    async with Worker(client, task_queue="default", activities=[boom]) as worker:
        yield worker


async def reset(client: Client, handle: WorkflowHandle, event: int) -> WorkflowHandle:
    request = ResetWorkflowExecutionRequest(
        namespace=NAMESPACE,
        workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=handle.run_id or ""),
        reason="test",
        workflow_task_finish_event_id=event,
        request_id=str(uuid.uuid4()),
    )
    response = await client.workflow_service.reset_workflow_execution(request)
    return client.get_workflow_handle(handle.id, run_id=response.run_id)


async def turns(handle: WorkflowHandle) -> list[int]:
    """The completed events of turns."""
    events = (await handle.fetch_history()).events
    return [e.event_id for e in events if e.HasField("workflow_task_completed_event_attributes")]


@pytest.mark.asyncio
async def test_a_memo_that_is_set_with_the_end_goes_along(client: Client, flows: Flows) -> None:
    flows.deploy("""workflow relay(k = 0) {
  if (k == 1) return Workflow.info().memo
  Workflow.setMemo({ a: 1, z: null })
  return Workflow.continueAsNew(1)
}
""")
    handle = await start(client, "relay", "relay", memo={"z": 1, "kept": 2})
    assert await handle.result() == {"a": 1, "kept": 2}


@pytest.mark.asyncio
@pytest.mark.parametrize("policy", ["abandon", "cancel"])
async def test_a_child_starts_although_its_parent_has_ended(
    client: Client, flows: Flows, policy: str
) -> None:
    flows.deploy("""workflow heir(x) {
  try {
    await wait_for_signal("go")
  } catch (e) {
    return [x, e.type]
  }
  return [x, "went"]
}
""")
    flows.deploy("""workflow leaver(policy, id) {
  Workflow.start("heir", "x", { id, parent_close: policy })
  return 1
}
""")
    child = f"heir-{policy}"
    assert await (await start(client, "leaver", f"leaver-{policy}", policy, child)).result() == 1
    handle: Any = client.get_workflow_handle(child)

    async def started() -> bool:
        try:
            await handle.describe()
            return True
        except RPCError:
            return False

    await eventually(started)
    if policy == "abandon":
        await handle.signal("go")
        assert await handle.result() == ["x", "went"]
    else:
        assert await handle.result() == ["x", "Canceled"]


@pytest.mark.asyncio
async def test_an_error_of_a_task_says_where_the_script_was(
    client: Client, flows: Flows, worker: Worker
) -> None:
    flows.deploy('workflow falls() {\n  await Task.run("boom", null, { retry: false })\n}\n')
    handle = await start(client, "falls", "falls")
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    last = (await handle.fetch_history()).events[-1]
    failure = last.workflow_execution_failed_event_attributes.failure
    assert failure.HasField("activity_failure_info") and failure.source == "segno-flow"
    assert failure.message == "Activity task failed"
    assert failure.stack_trace.startswith("at falls (script.flow:2:3)")
    assert failure.cause.source != "segno-flow" and "boom" in failure.cause.stack_trace


@pytest.mark.asyncio
async def test_signals_that_nobody_waits_for_are_counted(client: Client, flows: Flows) -> None:
    flows.deploy('workflow deaf() {\n  await wait_for_signal("x")\n}\n')
    handle = await start(client, "deaf", "deaf")
    for _ in range(2):
        await handle.signal("zz")
    assert (await handle.query("__segno_flow_state"))["signals"] == {"zz": 2}


@pytest.mark.asyncio
async def test_a_reset_repeats_signals_and_updates_in_their_order(client: Client, flows: Flows) -> None:
    flows.deploy("""workflow mixed() {
  let n = 0
  query n() { return n }
  signal inc(k) { n = n * 2 + k }
  update add(k) {
    n = n * 10 + k
    return n
  }
  await wait_for_signal("a")
  await wait_for_signal("go")
  return n
}
""")
    handle = await start(client, "mixed", "mixed")
    await handle.signal("a")
    await handle.execute_update("add", 3)
    await handle.signal("inc", 1)
    await handle.execute_update("add", 4)
    await handle.signal("inc", 2)
    assert await handle.query("n") == 150
    again = await reset(client, handle, (await turns(handle))[1])
    await again.query("__segno_flow_state")
    assert await again.query("n") == 150
    await again.signal("go")
    assert await again.result() == 150


@pytest.mark.asyncio
async def test_a_reset_run_has_its_own_id(client: Client, flows: Flows) -> None:
    flows.deploy("""workflow who() {
  query id() { return Workflow.info().run_id }
  await wait_for_signal("a")
  const child = await Workflow.start("deaf", null)
  await wait_for_signal("b")
  return [Workflow.info().run_id, child.workflow_id]
}
""")
    flows.deploy('workflow deaf() {\n  await wait_for_signal("x")\n}\n')
    begun = await start(client, "who", "who")
    await begun.signal("a")
    first: Any = client.get_workflow_handle("who", run_id=begun.first_execution_run_id)
    for at in [0, 1]:
        handle = await reset(client, first, (await turns(first))[at])
        assert await handle.query("id") == handle.run_id
        await handle.signal("b")
        run_id, child = await handle.result()
        assert (run_id, child) == (handle.run_id, f"{handle.run_id}/child-1")
        # The run that was reset again has a state of its own.
        later = await reset(client, handle, (await turns(handle))[-1])
        assert await later.query("id") == later.run_id not in (handle.run_id, first.run_id)
