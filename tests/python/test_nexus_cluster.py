"""Nexus operations between two nodes: the worker of the caller at one, that of the handler at the other, and one is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Iterator

import pytest
from temporalio.client import Client, WorkflowHandle

from flows import Waiter
from helpers import NAMESPACE, Env, event_counts, eventually, find_events, segno_binary
from nexus import Caller, Nexus, create_endpoint, happened, operation_events, prepare
from nodes import Cluster, insist
from scripts import QUEUE, Flows, start

pytestmark = pytest.mark.timeout(120)

# So many that each node has callers and handlers.
MANY = 12


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two nodes of the test's own."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    cluster = Cluster(tmp_path, size=2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


async def at(nexus: Nexus, *, caller: str = "", handler: str = "") -> Nexus:
    """The same caller and handler, connected to other addresses."""
    moved = Nexus(nexus.caller, nexus.handler, nexus.endpoint, nexus.handlers)
    if caller:
        moved.caller = await reconnected(nexus.caller, caller)
    if handler:
        moved.handler = await reconnected(nexus.handler, handler)
    return moved


async def reconnected(env: Env, address: str) -> Env:
    other = Env(address, await Client.connect(address, namespace=env.client.namespace), env.name)
    other.id, other.task_queue = env.id, env.task_queue
    return other


async def between_nodes(cluster: Cluster, name: str) -> Nexus:
    """The caller at the first node, the handler at the second one."""
    one, two = cluster.nodes
    nexus = await prepare(Env(one.address, await Client.connect(one.address, namespace=NAMESPACE), name))
    return await at(nexus, handler=two.address)


async def start_many(nexus: Nexus, workflow: str) -> list[WorkflowHandle[Any, Any]]:
    """Callers whose operations are started."""
    handles = []
    for number in range(MANY):
        flow = nexus.flow(workflow, id=f"{nexus.handler.id}-{number}")
        handles.append(await nexus.start("flow", flow, id=f"{nexus.caller.id}-{number}"))
    for handle in handles:
        await happened(handle, "NexusOperationStarted")
    return handles


async def check(nexus: Nexus, numbers: range) -> None:
    """The operations of these callers complete, once."""
    for number in numbers:
        handle = nexus.caller.handle(f"{nexus.caller.id}-{number}")
        assert await insist(handle.result) == [number]
        assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def finish(nexus: Nexus, number: int) -> None:
    behind = nexus.handler.handle(f"{nexus.handler.id}-{number}")
    await insist(lambda: behind.signal(Waiter.add, number))
    await insist(lambda: behind.signal(Waiter.finish))


async def test_operations_between_nodes(cluster: Cluster):
    """An endpoint that one node creates is known to the other one when the call returns."""
    nexus = await between_nodes(cluster, "between")
    async with nexus.workers():
        await start_many(nexus, "Waiter")
        for number in range(MANY):
            await finish(nexus, number)
        await check(nexus, range(MANY))
        queue = nexus.handler.task_queue
        for number, node in enumerate(cluster.nodes * 5):
            creator = await Client.connect(node.address, namespace=NAMESPACE)
            name = f"{nexus.endpoint.spec.name}-{number}"
            await create_endpoint(creator, name, nexus.handler.client.namespace, queue)
            call = nexus.call("echo", number)
            call.endpoint = name
            handle = await nexus.caller.start(Caller, call, id=f"{nexus.caller.id}-at-once-{number}")
            assert await handle.result() == number
            assert (await event_counts(handle))["WorkflowTaskFailed"] == 0


@pytest.mark.parametrize("killed", ["caller", "handler"])
async def test_a_node_is_killed_between_start_and_completion(cluster: Cluster, killed: str):
    """Half of the workflows behind the operations end just before the kill, the others after it."""
    nexus = await between_nodes(cluster, f"killed-{killed}")
    one, two = cluster.nodes
    dead, alive = (one, two) if killed == "caller" else (two, one)
    half = MANY // 2
    async with nexus.workers():
        await start_many(nexus, "Waiter")
        await asyncio.gather(*[finish(nexus, number) for number in range(half)])
        await asyncio.to_thread(dead.kill)
        survivor = await at(nexus, **{killed: alive.address})
        worker = survivor.callers() if killed == "caller" else survivor.serving()
        async with worker:
            for number in range(half, MANY):
                await finish(survivor, number)
            await check(survivor, range(MANY))
            await asyncio.to_thread(dead.start)
            await asyncio.to_thread(cluster.wait_balanced)
            handle = await insist(lambda: survivor.start("echo", "two nodes again", id=f"{survivor.caller.id}-again"))
            assert await insist(handle.result) == "two nodes again"


async def test_scripts_at_two_nodes(cluster: Cluster):
    """The handlers are scripts: they are started and cancelled at the nodes of their workflows, and one node is killed."""
    one, two = cluster.nodes
    nexus = await prepare(Env(one.address, await Client.connect(one.address, namespace=NAMESPACE), "scripts"))
    name = f"s-{nexus.endpoint.spec.name}"
    handlers = nexus.handler.client.namespace
    await create_endpoint(nexus.caller.client, name, handlers, QUEUE)
    Flows(f"127.0.0.1:{two.http_port}", handlers).deploy("workflow wait() { return await wait_for_signal(\"go\") }")
    source = """workflow calls(endpoint) {
  const first = Nexus.call(endpoint, "Any", "wait", null, { on_cancel: "wait" })
  await wait_for_signal("cancel")
  Task.cancel(first)
  const ended = await Task.settle([first])
  return [ended[0].error.type, await Nexus.call(endpoint, "Any", "wait")]
}
"""
    Flows(f"127.0.0.1:{one.http_port}").deploy(source)
    callers = [await start(nexus.caller.client, "calls", f"{nexus.caller.id}-{number}", name) for number in range(MANY)]
    for caller in callers:
        await happened(caller, "NexusOperationStarted")
        await caller.signal("cancel")
    for caller in callers:
        await happened(caller, "NexusOperationCanceled")
        await eventually(lambda: started_twice(caller))
    await asyncio.to_thread(one.kill)
    survivor = await at(nexus, caller=two.address, handler=two.address)
    for caller in callers:
        handle = survivor.caller.handle(caller.id)
        scheduled = await insist(lambda: find_events(handle, "NexusOperationScheduled"))
        behind = survivor.handler.handle(f"flow-nexus/{scheduled[1].request_id}")
        await insist(lambda: behind.signal("go", caller.id))
        assert await insist(handle.result) == ["Canceled", caller.id]


async def started_twice(caller: WorkflowHandle[Any, Any]) -> bool:
    return (await event_counts(caller))["NexusOperationStarted"] == 2
