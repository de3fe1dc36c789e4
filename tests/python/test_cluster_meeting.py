"""Tasks and workers that meet at one node, and the order that the home of a queue keeps all the same."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
import uuid
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator

import pytest
from temporalio import activity, workflow
from temporalio.api.taskqueue.v1 import RateLimit, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, UpdateTaskQueueConfigRequest
from temporalio.client import Client
from temporalio.common import Priority
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import NAMESPACE, segno_binary
from nodes import Cluster, Node, connect

pytestmark = pytest.mark.timeout(180)

ACTIVITY = 2


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    cluster = Cluster(tmp_path_factory.mktemp("meeting"), lease=30)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@workflow.defn
class Many:
    """Runs one activity for each priority, all at once."""

    @workflow.run
    async def run(self, priorities: list[int]) -> int:
        await asyncio.gather(
            *[
                workflow.execute_activity(
                    "work",
                    priority,
                    start_to_close_timeout=timedelta(seconds=30),
                    priority=Priority(priority_key=priority),
                )
                for priority in priorities
            ]
        )
        return len(priorities)


class Log:
    """Writes down when and with which priority the activity ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[int, float]] = []

    @activity.defn(name="work")
    async def work(self, priority: int) -> None:
        self.ran.append((priority, time.monotonic()))

    def seconds(self) -> float:
        times = [at for _, at in self.ran]
        return max(times) - min(times)


def workers(clients: list[Client], queue: str, log: Log | None, **options: Any) -> list[Worker]:
    """One at each node. Activities that come with the answer to a workflow task would not pass through a queue."""
    return [
        Worker(
            client,
            task_queue=queue,
            workflows=[Many] if options.get("workflows", True) else [],
            activities=[log.work] if log else [],
            identity=f"worker-{place}",
            workflow_runner=UnsandboxedWorkflowRunner(),
            disable_eager_activity_execution=True,
            **{key: value for key, value in options.items() if key != "workflows"},
        )
        for place, client in enumerate(clients)
    ]


def name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4()}"


def metric(node: Node, metric: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics", timeout=5) as reply:
        (count,) = re.findall(rf"^{metric} (\d+)$", reply.read().decode(), re.MULTILINE)
    return int(count)


def met(cluster: Cluster) -> int:
    return sum(metric(node, "segno_tasks_met_total") for node in cluster.nodes)


async def enter(stack: AsyncExitStack, workers: list[Worker]) -> None:
    for worker in workers:
        await stack.enter_async_context(worker)


async def test_tasks_meet_workers_of_their_node(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue, log, before = name("queue"), Log(), met(shared)
    async with AsyncExitStack() as stack:
        await enter(stack, workers(clients, queue, log))
        await asyncio.sleep(0.2)
        for number in range(20):
            run = clients[number % 3].execute_workflow(Many.run, [3], id=name("many"), task_queue=queue)
            assert await run == 1
        # The home of the queue is one of three nodes, and what is owned there does not count.
        assert met(shared) - before > 20, "of sixty tasks forty belong to nodes that are not the home"
        assert len(log.ran) == 20
        await asyncio.sleep(1.5)
        for client in clients:
            request = DescribeTaskQueueRequest(
                namespace=NAMESPACE, task_queue=TaskQueue(name=queue), task_queue_type=ACTIVITY, report_stats=True
            )
            seen = await client.workflow_service.describe_task_queue(request)
            assert sorted(poller.identity for poller in seen.pollers) == ["worker-0", "worker-1", "worker-2"]
            assert seen.stats.tasks_dispatch_rate > 0 and seen.stats.approximate_backlog_count == 0


async def test_a_worker_that_leaves_takes_nothing_with_it(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue, log = name("queue"), Log()
    first, second, third = workers(clients, queue, log)
    async with third:
        async with first, second:
            runs = [
                await clients[number % 3].start_workflow(Many.run, [3] * 5, id=name("many"), task_queue=queue)
                for number in range(12)
            ]
            await asyncio.sleep(0.1)
        # Two of three left in the middle.
        assert await asyncio.wait_for(asyncio.gather(*[run.result() for run in runs]), 60) == [5] * 12
    assert len(log.ran) == 60, "each ran once"


async def test_a_rate_limit_holds_wherever_the_home_is(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]

    async def limited(place: int) -> float:
        queue, log = name("queue"), Log()
        async with AsyncExitStack() as stack:
            await enter(stack, workers(clients, queue, log))
            # The queue is in use before it is limited.
            await clients[place].execute_workflow(Many.run, [3] * 3, id=name("many"), task_queue=queue)
            log.ran.clear()
            update = UpdateTaskQueueConfigRequest.RateLimitUpdate(
                rate_limit=RateLimit(requests_per_second=10), reason="test"
            )
            request = UpdateTaskQueueConfigRequest(
                namespace=NAMESPACE, task_queue=queue, task_queue_type=ACTIVITY, update_queue_rate_limit=update
            )
            await clients[place].workflow_service.update_task_queue_config(request)
            runs = [
                clients[number % 3].execute_workflow(Many.run, [3] * 5, id=name("many"), task_queue=queue)
                for number in range(3)
            ]
            await asyncio.gather(*runs)
        assert len(log.ran) == 15
        return log.seconds()

    # Their homes are at several nodes.
    for seconds in await asyncio.gather(*[limited(number % 3) for number in range(6)]):
        assert seconds > 1.2, "fifteen at ten per second"


async def test_a_rate_that_one_worker_asks_for_holds_at_every_node(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    for place in range(3):
        queue, log = name("queue"), Log()
        async with AsyncExitStack() as stack:
            others = clients[:place] + clients[place + 1 :]
            await enter(stack, workers([clients[place]], queue, log, max_task_queue_activities_per_second=10))
            await enter(stack, workers(others, queue, log))
            await asyncio.sleep(0.3)
            runs = [
                clients[number % 3].execute_workflow(Many.run, [3] * 5, id=name("many"), task_queue=queue)
                for number in range(3)
            ]
            await asyncio.gather(*runs)
        assert len(log.ran) == 15 and log.seconds() > 1.2


async def test_what_waits_goes_by_priority_whatever_node_it_comes_from(shared: Cluster) -> None:
    clients = [await connect(node) for node in shared.nodes]
    queue, log = name("queue"), Log()
    async with AsyncExitStack() as stack:
        await enter(stack, workers(clients, queue, None))
        handles = [
            await clients[number % 3].start_workflow(Many.run, priorities, id=name("many"), task_queue=queue)
            for number, priorities in enumerate([[5] * 4, [5] * 4, [1] * 4, [5] * 4, [1] * 4])
        ]
        await asyncio.sleep(1)
        # A client has one worker of a queue.
        more = [await connect(node) for node in shared.nodes]
        await enter(stack, workers(more, queue, log, workflows=False, max_concurrent_activities=1))
        await asyncio.gather(*[handle.result() for handle in handles])
    order = [priority for priority, _ in log.ran]
    # Three workers take at the same time.
    assert order.index(5) >= 6 and 1 not in order[11:], order
