"""Scripts that do a great deal in one turn."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from helpers import NAMESPACE, SegnoServer
from scripts import Flows, event_types, start

CHILDREN = """workflow leaf(n) {
  return n
}
"""
MANY_CHILDREN = """workflow many(n) {
  let all = []
  for (const i of List.range(n)) {
    all.push(Workflow.run("leaf", i))
  }
  const results = await Task.all(all)
  let sum = 0
  for (const result of results) {
    sum += result
  }
  return sum
}
"""
MANY_BYTES = """workflow heavy(count, kib) {
  const text = "x".repeat(kib * 1024)
  let all = []
  for (const i of List.range(count)) {
    all.push(Task.run("length", text))
  }
  const results = await Task.all(all)
  return results.length
}
"""


@activity.defn(name="length")
async def length(text: str) -> int:
    return len(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    server = SegnoServer(log=tmp_path_factory.mktemp("limits") / "server.log")
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


async def failure_of(handle: Any) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, ApplicationError)
    return caught.value.cause


@pytest.mark.asyncio
async def test_as_many_children_as_may_be_pending(client: Client, flows: Flows) -> None:
    flows.deploy(CHILDREN)
    flows.deploy(MANY_CHILDREN)
    handle = await start(client, "many", "children-2000", 2000)
    assert await handle.result() == sum(range(2000))
    events = await event_types(handle)
    assert events.count("CHILD_WORKFLOW_EXECUTION_COMPLETED") == 2000
    assert "WORKFLOW_TASK_FAILED" not in events
    error = await failure_of(await start(client, "many", "children-2001", 2001))
    assert (error.type, error.message) == ("LimitError", "limit of 2000 pending children reached")


@pytest.mark.asyncio
async def test_bytes_in_one_turn(client: Client, flows: Flows) -> None:
    flows.deploy(MANY_BYTES)
    async with Worker(client, task_queue="default", activities=[length]):
        assert await (await start(client, "heavy", "3-mib", 3, 1024)).result() == 3
        handle = await start(client, "heavy", "5-mib", 5, 1024)
        error = await failure_of(handle)
    assert (error.type, error.non_retryable) == ("LimitError", True)
    assert error.message == "limit of 4194304 bytes of history in one turn reached"
    assert "ACTIVITY_TASK_SCHEDULED" not in await event_types(handle)
