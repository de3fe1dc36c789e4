"""Several nodes on one PostgreSQL: any node answers any call, and nodes come and go."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import EventType, IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, RegisterNamespaceRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import eventually, segno_binary
from nodes import Cluster, connect, insist
from updating import ADMITTED, poll, update_request, value

pytestmark = pytest.mark.timeout(180)

EVENT = EventType


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes that no test disturbs. With a long lease, so that a busy machine does not either."""
    yield from running(tmp_path_factory.mktemp("cluster"), request, lease=30)


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes of the test's own."""
    yield from running(tmp_path, request)


def running(directory: Path, request: pytest.FixtureRequest, lease: int = 6) -> Iterator[Cluster]:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    cluster = Cluster(directory, lease=lease)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@activity.defn
async def add(a: int, b: int) -> int:
    return a + b


@workflow.defn
class Adding:
    @workflow.run
    async def run(self, a: int, b: int) -> int:
        return await workflow.execute_activity(add, args=[a, b], start_to_close_timeout=timedelta(seconds=30))


@workflow.defn
class Parent:
    """Starts children, signals one that waits, and adds up what they say."""

    @workflow.run
    async def run(self, count: int) -> int:
        me = workflow.info().workflow_id
        children = [
            await workflow.start_child_workflow(Adding.run, args=[n, n], id=f"{me}-{n}") for n in range(count)
        ]
        waiting = await workflow.start_child_workflow(Waiting.run, 0, id=f"{me}-waiting")
        await workflow.get_external_workflow_handle(f"{me}-waiting").signal("go", 7)
        return sum([await child for child in children]) + await waiting


@workflow.defn
class Waiting:
    """Waits for a signal, after a while of its own."""

    def __init__(self) -> None:
        self.got: list[int] = []

    @workflow.run
    async def run(self, milliseconds: int) -> int:
        if milliseconds:
            await asyncio.sleep(milliseconds / 1000)
        await workflow.wait_condition(lambda: bool(self.got))
        return sum(self.got)

    @workflow.signal
    def go(self, number: int) -> None:
        self.got.append(number)

    @workflow.query
    def count(self) -> int:
        return len(self.got)

    @workflow.update
    async def twice(self, number: int) -> int:
        return 2 * number


def worker(client: Client, queue: str, **options: Any) -> Worker:
    return Worker(
        client,
        task_queue=queue,
        workflows=[Adding, Parent, Waiting],
        activities=[add],
        workflow_runner=UnsandboxedWorkflowRunner(),
        **options,
    )


def name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4()}"


async def test_any_node_answers_any_call(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue = name("queue")
    async with worker(clients[0], queue):
        ids = [name("waiting") for _ in range(12)]
        for number, id in enumerate(ids):
            await clients[number % 3].start_workflow(Waiting.run, 0, id=id, task_queue=queue)
        for number, id in enumerate(ids):
            a, b, c = (clients[(number + step) % 3].get_workflow_handle(id) for step in range(3))
            assert await a.execute_update(Waiting.twice, number) == 2 * number
            await b.signal(Waiting.go, number)
            assert await c.query(Waiting.count) == 1
            # What one node acknowledged the others show.
            assert await a.result() == number
            assert (await b.describe()).status == WorkflowExecutionStatus.COMPLETED
        found = {run.id async for run in clients[2].list_workflows(f"TaskQueue = '{queue}'")}
        assert found == set(ids)


async def test_workers_at_other_nodes_get_the_tasks(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    for place in range(3):
        queue = name("queue")
        async with worker(clients[place], queue):
            runs = [
                clients[number % 3].execute_workflow(Adding.run, args=[number, 1], id=name("adding"), task_queue=queue)
                for number in range(9)
            ]
            assert await asyncio.gather(*runs) == [number + 1 for number in range(9)]


async def test_children_and_signals_cross_nodes(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue = name("queue")
    async with worker(clients[0], queue), worker(clients[2], queue):
        result = await clients[1].execute_workflow(Parent.run, 12, id=name("parent"), task_queue=queue)
        assert result == 2 * sum(range(12)) + 7


async def test_pollers_are_seen_through_every_node(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue = name("queue")
    async with worker(clients[1], queue, identity="the-one"):
        await clients[0].execute_workflow(Adding.run, args=[1, 1], id=name("adding"), task_queue=queue)
        for client in clients:
            request = DescribeTaskQueueRequest(namespace="default", task_queue=TaskQueue(name=queue), task_queue_type=1)
            seen = await client.workflow_service.describe_task_queue(request)
            assert [poller.identity for poller in seen.pollers] == ["the-one"]


async def test_namespaces_and_attributes_are_in_effect_everywhere_at_once(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    for number, client in enumerate(clients):
        space, attribute = f"space-{number}", f"Attribute{number}"
        request = RegisterNamespaceRequest(namespace=space)
        request.workflow_execution_retention_period.FromSeconds(86400)
        await client.workflow_service.register_namespace(request)
        attributes = {attribute: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD}
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=space, search_attributes=attributes)
        )
        for other in shared.nodes:
            there = await Client.connect(other.address, namespace=space)
            listed = await there.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=space))
            assert attribute in listed.custom_attributes
            assert await there.count_workflows(f"{attribute} = 'x'")


async def test_one_start_of_many_with_the_same_id_wins(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    id = name("once")

    async def start(client: Client) -> str | None:
        try:
            handle = await client.start_workflow(
                Waiting.run, 0, id=id, task_queue="nobody", id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE
            )
            return handle.first_execution_run_id
        except Exception as error:
            assert "already" in str(error), error
            return None

    runs = await asyncio.gather(*[start(clients[number % 3]) for number in range(12)])
    assert len([run for run in runs if run]) == 1
    await clients[0].get_workflow_handle(id).terminate()


async def test_a_second_node_of_the_same_name_is_refused(shared: Cluster, tmp_path: Path) -> None:
    from nodes import Node

    double = Node(shared.postgres, "n1", tmp_path)
    with pytest.raises(RuntimeError, match="another node is called"):
        double.start()


async def test_a_killed_node_loses_nothing(cluster: Cluster) -> None:
    one, two, three = cluster.nodes
    clients = [await connect(one), await connect(three)]
    queue = name("queue")
    async with worker(clients[0], queue), worker(clients[1], queue):
        ids = [name("waiting") for _ in range(60)]
        for number, id in enumerate(ids):
            await clients[number % 2].start_workflow(Waiting.run, 3000, id=id, task_queue=queue)
        signalled = ids[:30]
        for id in signalled:
            await clients[0].get_workflow_handle(id).signal(Waiting.go, 1)
        two.kill()
        # Everybody is served again, also those whose node is gone; and what was acknowledged is there.
        for number, id in enumerate(ids[30:]):
            await insist(lambda: clients[number % 2].get_workflow_handle(id).signal(Waiting.go, 2))
        results = [await insist(lambda: clients[1].get_workflow_handle(id).result()) for id in ids]
        assert results[:30] == [1] * 30
        # A signal whose answer was lost may have been sent twice: each was acknowledged once.
        assert all(result in (2, 4) for result in results[30:]), results
        two.start()
        cluster.wait_balanced()
        assert await clients[0].execute_workflow(Adding.run, args=[1, 2], id=name("adding"), task_queue=queue) == 3


async def test_a_node_that_stood_still_cannot_write_and_joins_again(cluster: Cluster) -> None:
    one, two, three = cluster.nodes
    clients = [await connect(node) for node in cluster.nodes]
    queue = name("queue")
    ids = [name("waiting") for _ in range(30)]
    for number, id in enumerate(ids):
        await clients[number % 3].start_workflow(Waiting.run, 0, id=id, task_queue=queue)
    before = two.cluster()["map"]
    two.pause()
    try:
        # Its shards live elsewhere after a lease.
        for id in ids:
            await insist(lambda: clients[0].get_workflow_handle(id).signal(Waiting.go, 1))
    finally:
        two.resume()
    # What it still has in memory says that nothing was signalled: it must not answer from it.
    for id in ids:
        history = await insist(lambda: clients[1].get_workflow_handle(id).fetch_history())
        kinds = [event.event_type for event in history.events]
        assert EVENT.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED in kinds, "a stale read"
        await insist(lambda: clients[1].get_workflow_handle(id).signal(Waiting.go, 1))
    cluster.wait_balanced()
    assert two.cluster()["map"] > before
    async with worker(clients[1], queue):
        for id in ids:
            assert await insist(lambda: clients[2].get_workflow_handle(id).result()) >= 2


async def test_a_rolling_restart_fails_nothing(cluster: Cluster) -> None:
    clients = [await connect(node) for node in cluster.nodes]
    queue = name("queue")
    done: list[str] = []
    stop = asyncio.Event()

    async def load(place: int) -> None:
        while not stop.is_set():
            id = name("parent")
            # A client whose node is away goes to another one.
            for step in range(100):
                try:
                    await clients[(place + step) % 3].start_workflow(Adding.run, args=[1, 2], id=id, task_queue=queue)
                    break
                except RPCError as error:
                    if error.status == RPCStatusCode.ALREADY_EXISTS:
                        break
                    assert error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.CANCELLED), error
                    await asyncio.sleep(0.1)
            done.append(id)
            await asyncio.sleep(0.02)

    async with AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(worker(client, queue))
        loads = [asyncio.create_task(load(place)) for place in range(3)]
        for node in cluster.nodes:
            assert await asyncio.to_thread(node.terminate, 40) == 0
            await asyncio.to_thread(node.start)
            await asyncio.to_thread(cluster.wait_balanced)
        stop.set()
        await asyncio.gather(*loads)
        assert len(done) > 50
        again = 0
        for id in done:
            handle = clients[0].get_workflow_handle(id)
            assert await insist(lambda: handle.result()) == 3
            history = await insist(lambda: handle.fetch_history())
            kinds = [event.event_type for event in history.events]
            assert kinds.count(EVENT.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) == 1
            again += kinds.count(EVENT.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT)
        # A task whose worker was connected to a node that stops may be given to another worker.
        assert again <= len(done) // 10, f"{again} of {len(done)} workflow tasks timed out"


async def test_a_restart_of_the_database_is_survived(cluster: Cluster) -> None:
    clients = [await connect(node) for node in cluster.nodes]
    queue = name("queue")
    async with worker(clients[0], queue), worker(clients[1], queue):
        ids = [name("waiting") for _ in range(30)]
        for number, id in enumerate(ids):
            await clients[number % 3].start_workflow(Waiting.run, 500, id=id, task_queue=queue)
        cluster.postgres.stop()
        await asyncio.sleep(2)
        cluster.postgres.start()
        for number, id in enumerate(ids):
            await insist(lambda: clients[number % 3].get_workflow_handle(id).signal(Waiting.go, 5))
        for id in ids:
            assert await insist(lambda: clients[2].get_workflow_handle(id).result()) in (5, 10)
    # No node was taken for gone: no node's beats succeeded meanwhile.
    assert len(cluster.nodes[0].cluster()["nodes"]) == 3


async def test_the_work_of_a_dead_worker_moves_whatever_node_it_was_at(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue = name("queue")
    command = [sys.executable, str(Path(__file__).parent / "stuck_worker.py"), shared.nodes[1].address, queue]
    dying = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert dying.stdout
    async with Worker(
        clients[0], task_queue=queue, workflows=[Adding], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        handles = [
            await clients[number % 3].start_workflow(Adding.run, args=[number, 1], id=name("adding"), task_queue=queue)
            for number in range(6)
        ]
        # Several, so that some are owned elsewhere than where the worker is.
        for _ in handles:
            assert await asyncio.wait_for(dying.stdout.readline(), 30) == b"begun\n"
        began = time.monotonic()
        dying.kill()
        await dying.wait()
        async with Worker(clients[2], task_queue=queue, activities=[add]):
            results = await asyncio.wait_for(asyncio.gather(*[handle.result() for handle in handles]), 60)
        assert results == [number + 1 for number in range(6)]
        # Before the time-out of the activities: the connection tells, and the lease after it.
        assert time.monotonic() - began < 28


def segno(cluster: Cluster, *arguments: str, place: int = 0) -> str:
    """What a command prints; it must succeed."""
    command = [str(segno_binary()), *arguments, "--address", cluster.nodes[place].address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Two tasks, one after the other.
SCRIPT = """
workflow sumOfThree(n) {
  const first = await Task.run("addTo", { n }, { queue: "QUEUE" })
  return await Task.run("addTo", { n: first }, { queue: "QUEUE" })
}
"""


@activity.defn(name="addTo")
async def add_to(given: dict[str, int]) -> int:
    return given["n"] + 1


async def test_scripts_run_on_every_node(shared: Cluster, tmp_path: Path) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue = name("queue")
    script = tmp_path / "sum.flow"
    script.write_text(SCRIPT.replace("QUEUE", queue))
    segno(shared, "flow", "deploy", str(script), place=1)
    async with Worker(clients[2], task_queue=queue, activities=[add_to]):
        runs = [
            clients[number % 3].execute_workflow("sumOfThree", number, id=name("script"), task_queue="segno")
            for number in range(9)
        ]
        assert await asyncio.gather(*runs) == [number + 2 for number in range(9)]


@workflow.defn(name="ofBothKinds")
class OfBothKinds:
    @workflow.run
    async def run(self) -> str:
        return "workers"


async def test_workers_keep_their_types_at_every_node(shared: Cluster, tmp_path: Path) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue, kind = name("queue"), "ofBothKinds"
    script = tmp_path / "both.flow"
    script.write_text(f'workflow {kind}() {{ return "script" }}')
    segno(shared, "flow", "deploy", str(script), place=1)
    runner = UnsandboxedWorkflowRunner()
    async with Worker(clients[2], task_queue=queue, workflows=[OfBothKinds], workflow_runner=runner):
        for number in range(6):
            run = clients[number % 3].execute_workflow(kind, id=name("both"), task_queue=queue)
            assert await run == "workers", number
    # Workers have gone; what they executed is stored for all nodes.
    for client in clients * 2:
        handle = await client.start_workflow(kind, id=name("both"), task_queue=queue)
        assert "SegnoFlowVersion" not in (await handle.describe()).search_attributes
        assert await client.execute_workflow(kind, id=name("both"), task_queue=name("queue")) == "script"
        await handle.terminate()


async def test_status_drain_and_fence(cluster: Cluster) -> None:
    one, two, three = cluster.nodes
    clients = [await connect(node) for node in cluster.nodes]
    queue = name("queue")
    shown = segno(cluster, "cluster", "status", place=2)
    assert [line.split()[0] for line in shown.splitlines()[1:]] == ["n1", "n2", "n3"]
    assert "this node" in shown.splitlines()[3]
    id = name("waiting")
    async with worker(clients[1], queue):
        await clients[1].start_workflow(Waiting.run, 0, id=id, task_queue=queue)
        segno(cluster, "cluster", "drain", "n2")
        deadline = time.monotonic() + 30
        while two.cluster()["shards_served_here"] > 0:
            assert time.monotonic() < deadline, "it was not drained"
            await asyncio.sleep(0.1)
        # It goes on answering, through the others.
        await clients[1].get_workflow_handle(id).signal(Waiting.go, 3)
        assert await clients[1].get_workflow_handle(id).result() == 3
        status = json.loads(segno(cluster, "cluster", "status", "-o", "json"))
        assert [node["name"] for node in status["nodes"] if node.get("leaving")] == ["n2"]
        segno(cluster, "cluster", "fence", "n2")
        await asyncio.to_thread(cluster.wait_balanced)
        id = name("adding")
        assert await insist(
            lambda: clients[1].execute_workflow(Adding.run, args=[1, 2], id=id, task_queue=queue)
        ) == 3
    unknown = [str(segno_binary()), "cluster", "drain", "nobody", "--address", one.address]
    refused = subprocess.run(unknown, capture_output=True, text=True)
    assert refused.returncode != 0 and "there is no node" in refused.stderr


async def test_an_update_waits_while_its_node_dies(cluster: Cluster) -> None:
    """The registry of updates dies with its node. The node that has the client's connection admits them again."""
    one, two, three = cluster.nodes
    client, queue = await connect(one), name("queue")
    ids = [name("waiting") for _ in range(12)]
    for id in ids:
        await client.start_workflow(Waiting.run, 0, id=id, task_queue=queue)

    async def ask(number: int) -> Any:
        request = update_request(ids[number], "twice", number, id=f"u{number}")
        # Without the retries of the SDK.
        return await client.workflow_service.update_workflow_execution(
            request, retry=False, timeout=timedelta(seconds=60)
        )

    calls = [asyncio.create_task(ask(number)) for number in range(len(ids))]
    for number, id in enumerate(ids):
        await eventually(lambda: poll(client, id, f"u{number}", ADMITTED))
    two.kill()
    async with worker(await connect(three), queue):
        answers = await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert [value(answer.outcome) for answer in answers] == [2 * number for number in range(len(ids))]
