"""Answers to polls that never reach a stock worker: found by the slots in its heartbeats, and nothing else is.

Heartbeats come every second here, and an attempt is looked for after four.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, AsyncIterator, Iterator

import grpc
import pytest
import pytest_asyncio
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueResponse
from temporalio.client import Client, WorkflowHandle

from flows import CallActivity
from helpers import NAMESPACE, Env, SegnoServer
from test_liveness import Scene

# Workers take seconds to begin on a busy machine.
pytestmark = pytest.mark.timeout(180)
VERIFICATION = 4.0
METHOD = "/temporal.api.workflowservice.v1.WorkflowService/PollActivityTaskQueue"


class LosingProxy(grpc.GenericRpcHandler):
    """Passes calls on. Of the polls for activities it loses as many answers with a task as it is told to."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.aio.insecure_channel(target)
        self.to_lose = 0
        self.lost = 0

    async def start(self) -> str:
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((self,))
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        return f"127.0.0.1:{port}"

    async def stop(self) -> None:
        await self.server.stop(None)
        await self.channel.close()

    def service(self, details: Any) -> Any:
        method, own = details.method, ("grpc-", "user-agent", "te", "content-type", ":")
        call = self.channel.unary_unary(method)

        async def pass_on(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            metadata = [(key, value) for key, value in context.invocation_metadata() or () if not key.startswith(own)]
            try:
                answer = await call(request, metadata=metadata, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                context.set_trailing_metadata(
                    [(key, value) for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
                )
                await context.abort(error.code(), error.details() or "")
            if method == METHOD and self.to_lose > 0 and PollActivityTaskQueueResponse.FromString(answer).task_token:
                self.to_lose -= 1
                self.lost += 1
                # The poll goes on for the worker, until its own time is up.
                await asyncio.sleep(300)
            return answer

        return grpc.unary_unary_rpc_method_handler(pass_on)


@pytest.fixture(scope="module")
def looking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SegnoServer]:
    """A server that soon looks for attempts that never arrived."""
    log = tmp_path_factory.mktemp("segno") / "server.log"
    server = SegnoServer(log=log, flags=["--worker-verification", f"{VERIFICATION}s"])
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest_asyncio.fixture
async def scene(looking: SegnoServer, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    client = await Client.connect(looking.address, namespace=NAMESPACE)
    scene = Scene(Env(address=looking.address, client=client, name=request.node.name), tmp_path)
    scene.http_port = looking.http_port
    try:
        yield scene
    finally:
        for process in scene.processes:
            process.end()


@pytest_asyncio.fixture
async def proxy(looking: SegnoServer) -> AsyncIterator[LosingProxy]:
    proxy = LosingProxy(looking.address)
    proxy.address = await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


async def begin(scene: Scene, name: str, seconds: float, mode: str) -> WorkflowHandle[Any, Any]:
    """One of several workflows of a test."""
    options = {"task_queue": scene.queue, "start_to_close_timeout": 600.0}
    env = scene.env
    id = f"{env.id}-{name}"
    return await env.client.start_workflow(
        CallActivity.run, args=["job", [seconds, mode], options], id=id, task_queue=env.task_queue
    )


async def rested(process: Any) -> None:
    """The worker has said that it uses no slot."""
    await process.wrote("ready", timeout=40)
    await asyncio.sleep(2.5)


async def test_lost_answer(scene: Scene, proxy: LosingProxy):
    """The worker is at rest. It gets the activity again, and its only attempt is not used up."""
    found, moved = scene.metric("orphans_found"), scene.metric("activities_moved")
    async with scene.env.worker(CallActivity):
        worker = scene.worker("worker", "--reports", "1", address=proxy.address)
        await rested(worker)
        proxy.to_lose = 1
        begun = time.monotonic()
        handle = await scene.begin(0, retry={"maximum_attempts": 1})
        assert await asyncio.wait_for(handle.result(), 40) == "worker: attempt 1"
        assert time.monotonic() - begun >= VERIFICATION
    assert proxy.lost == 1
    assert (scene.metric("orphans_found"), scene.metric("activities_moved")) == (found + 1, moved)


async def test_lost_answer_beside_other_work(scene: Scene, proxy: LosingProxy):
    """Other activities come and go meanwhile; when they have come to an end, the count is right again."""
    found = scene.metric("orphans_found")
    async with scene.env.worker(CallActivity):
        worker = scene.worker("worker", "--reports", "1", address=proxy.address)
        await rested(worker)
        proxy.to_lose = 1
        lost = await scene.begin(0)
        while proxy.lost == 0:
            await asyncio.sleep(0.05)
        for other in [await begin(scene, f"other-{number}", 0.5, "") for number in range(5)]:
            await asyncio.wait_for(other.result(), 20)
        assert await asyncio.wait_for(lost.result(), 40) == "worker: attempt 1"
    assert scene.metric("orphans_found") == found + 1


async def test_nothing_that_arrived_is_moved(scene: Scene):
    """A long activity, one that is completed elsewhere, and one that keeps others from being begun."""
    found, moved = scene.metric("orphans_found"), scene.metric("activities_moved")
    async with scene.env.worker(CallActivity):
        cases = {"long": [(12, "")], "elsewhere": [(0, "elsewhere")], "block": [(12, "block"), (0, ""), (0, ""), (0, "")]}
        workers, handles, own = {}, {}, scene.queue
        for name in cases:
            scene.queue = f"{own}-{name}"
            workers[name] = scene.worker(name, "--reports", "1")
        for worker in workers.values():
            await rested(worker)
        for name, jobs in cases.items():
            scene.queue = f"{own}-{name}"
            first, *others = [(f"{name}-{place}", *job) for place, job in enumerate(jobs)]
            handles[name] = [await begin(scene, *first)]
            await workers[name].wrote("start 1")
            handles[name] += [await begin(scene, *other) for other in others]
        await asyncio.sleep(3 * VERIFICATION)
        assert [await asyncio.wait_for(handle.result(), 30) for handle in handles["long"]] == ["long: attempt 1"]
        assert [await asyncio.wait_for(handle.result(), 30) for handle in handles["block"]] == 4 * ["block: attempt 1"]
        await handles["elsewhere"][0].terminate()
        for name, jobs in cases.items():
            started = [line for line in workers[name].lines() if line.startswith("start")]
            assert started == len(jobs) * ["start 1"], name
    assert (scene.metric("orphans_found"), scene.metric("activities_moved")) == (found, moved)
