"""Nexus over HTTP among nodes: the caller waits at one node, the worker is at another one, and a third serves the queue or the workflow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Iterator

import pytest

from helpers import Env, segno_binary
from nexus import happened, operation_events, prepare
from nexus_http import Handler, sync
from nodes import Cluster, Node, connect, insist
from test_nexus_completions import SUCCEEDED, Pending, async_start
from test_nexus_tokens import raw_handler

pytestmark = pytest.mark.timeout(120)

# So many that each node is the home of queues and serves workflows.
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


def http_of(node: Node) -> str:
    return f"127.0.0.1:{node.http_port}"


async def test_caller_and_worker_at_different_nodes(cluster: Cluster) -> None:
    one, two = cluster.nodes
    env = Env(two.address, await connect(two), "direct")
    async with env.raw() as stub:
        for number in range(MANY):
            handler = Handler(stub, http_of(one), f"{env.task_queue}-{number}")
            reply = await handler.call(sync(), {"Request-Timeout": "20s", "Nexus-Request-Id": str(number)})
            assert (reply.status, reply.body) == (200, b'"res"'), number
            assert handler.request.header["nexus-request-id"] == str(number)


async def test_calls_that_wait_reach_a_worker_that_comes_later(cluster: Cluster) -> None:
    """The caller's node is killed while others wait: workers get none of its calls."""
    one, two = cluster.nodes
    env = Env(two.address, await connect(two), "later")
    async with env.raw() as stub:
        handler = Handler(stub, http_of(two), env.task_queue)
        waiting = asyncio.create_task(handler.send(headers={"Request-Timeout": "30s", "Nexus-Request-Id": "stays"}))
        lost = Handler(stub, http_of(one), env.task_queue)
        broken = asyncio.create_task(lost.send(headers={"Request-Timeout": "30s", "Nexus-Request-Id": "lost"}))
        await asyncio.sleep(1)
        await asyncio.to_thread(one.kill)
        with pytest.raises((OSError, EOFError)):
            await broken
        task = await handler.poll(timeout=40)
        assert task.request.header["nexus-request-id"] == "stays"
        await handler.complete(task.task_token, sync())
        assert (await waiting).status == 200


async def test_completions_arrive_at_any_node(cluster: Cluster) -> None:
    one, two = cluster.nodes
    nexus = await prepare(Env(one.address, await connect(one), "completions"))
    async with raw_handler(nexus) as handler:
        for number in range(MANY):
            handle = await nexus.start("echo", id=f"{nexus.caller.id}-{number}")
            pending = Pending(http_of((one, two)[number % 2]), handle, await handler.poll())
            await handler.complete(pending.task.task_token, async_start("t"))
            await happened(handle, "NexusOperationStarted")
            assert (await pending.complete(SUCCEEDED, b'"done"')).status == 200
            assert await insist(handle.result) == "done"
            assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
            pending.http = http_of((two, one)[number % 2])
            assert (await pending.complete(SUCCEEDED, b'"again"')).status == 404
