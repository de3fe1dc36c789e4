"""Limits of liveness: attempts that run out, activities longer than a lease, a server that stands still."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.workflowservice.v1 import RespondActivityTaskFailedRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ActivityError, ApplicationError

from flows import CallActivity
from helpers import NAMESPACE, Env, SegnoServer, eventually
from test_liveness import Scene as ProcessScene
from test_worker_protocol import Scene, quick, scene, scene_at

__all__ = ["quick", "scene"]

QUICK_RETRY = {"initial_interval": 0.1, "maximum_interval": 0.1}


async def failure_of(handle: WorkflowHandle[Any, Any]) -> ApplicationError:
    """What the only activity of a workflow failed with."""
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), 20)
    assert isinstance(failed.value.cause, ActivityError)
    cause = failed.value.cause.cause
    assert isinstance(cause, ApplicationError)
    return cause


async def lose(scene: Scene, attempt: int) -> bytes:
    """A worker takes the activity and is never heard of again. Returns its task token."""
    worker = scene.name(f"lost-{attempt}")
    token = (await scene.client.heartbeat(worker, lease=60)).token
    held = await scene.take(worker, attempt)
    await scene.client.heartbeat(worker, token, lease=1)
    return held


async def fail(scene: Scene, attempt: int, type: str) -> None:
    worker = scene.name("failing")
    await scene.client.heartbeat(worker, lease=60)
    failure = Failure(message="on purpose", application_failure_info=ApplicationFailureInfo(type=type))
    request = RespondActivityTaskFailedRequest(
        namespace=NAMESPACE, task_token=await scene.take(worker, attempt), failure=failure
    )
    await scene.client.workflows.RespondActivityTaskFailed(request, timeout=10)


async def test_losses_and_failures_share_the_attempts(scene: Scene):
    lost = scene.metric("activities_lost")
    async with scene.env.worker(CallActivity):
        handle = await scene.begin(retry={**QUICK_RETRY, "maximum_attempts": 3})
        await fail(scene, 1, "Mine")
        await lose(scene, 2)
        await lose(scene, 3)
        failure = await failure_of(handle)
    assert failure.type == "WorkerLost" and "lost-3" in failure.message
    assert scene.metric("activities_lost") == lost + 1


async def test_the_last_failure_is_the_workers_own(scene: Scene):
    """Losses used up all attempts but one; what that one says is what the workflow hears."""
    async with scene.env.worker(CallActivity):
        handle = await scene.begin(retry={**QUICK_RETRY, "maximum_attempts": 3})
        await lose(scene, 1)
        late = await lose(scene, 2)
        await fail(scene, 3, "Mine")
        assert (await failure_of(handle)).type == "Mine"
    await scene.refused(scene.client.complete(late), grpc.StatusCode.NOT_FOUND)


async def test_an_activity_that_must_not_move(scene: Scene):
    async with scene.env.worker(CallActivity):
        handle = await scene.begin(retry={**QUICK_RETRY, "non_retryable_error_types": ["WorkerLost"]})
        held = await lose(scene, 1)
        assert (await failure_of(handle)).type == "WorkerLost"
    await scene.refused(scene.client.complete(held), grpc.StatusCode.NOT_FOUND)


@pytest.mark.timeout(120)
async def test_activity_longer_than_the_lease(tmp_path: Path, durable_server: SegnoServer):
    """A worker without a free slot is busy for longer than it may be silent; its poll for commands speaks for it."""
    server = durable_server
    server.flags = ["--worker-grace", "2s", "--worker-lease", "5s"]
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    scene = ProcessScene(Env(address=server.address, client=client, name="long"), tmp_path)
    scene.http_port = server.http_port
    try:
        first = scene.worker("first", "--slots", "1")
        await first.wrote("ready", timeout=40)
        async with scene.env.worker(CallActivity):
            handle = await scene.begin(22, "always")
            await first.wrote("start 1")
            scene.worker("other")
            assert await asyncio.wait_for(handle.result(), 40) == "first: attempt 1"
            assert (scene.metric("workers_lost"), scene.metric("activities_moved")) == (0, 0)
    finally:
        for process in scene.processes:
            process.end()


@pytest.mark.timeout(120)
async def test_server_that_stands_still(tmp_path: Path, durable_server: SegnoServer):
    """It wakes up long after all leases and grace periods, and loses no worker; from then on they count again."""
    server = durable_server
    server.flags = ["--worker-grace", "1s"]
    server.start()
    async with scene_at(server, "still") as scene:
        worker, silent, client, lease = scene.name(), scene.name("silent"), scene.client, 5.0
        processes = ProcessScene(scene.env, tmp_path)
        # On a queue of its own, or it would take what is meant for the others.
        processes.queue = f"{scene.queue}-stock"

        async def moved() -> bool:
            return scene.metric("activities_moved") == 1

        try:
            first = processes.worker("first")
            await first.wrote("ready", timeout=40)
            async with scene.env.worker(CallActivity):
                stock = await processes.begin(20, "always")
                await first.wrote("start 1")
                for n in range(2):
                    await scene.begin(id=f"{scene.env.id}-{n}")
                token = (await client.heartbeat(worker, lease=60)).token
                held = await scene.take(worker)
                last = (await client.heartbeat(silent, lease=60)).token
                await scene.take(silent)
                token = (await client.heartbeat(worker, token, lease=lease, bound=[held])).token
                await client.heartbeat(silent, last, lease=lease)
                assert server.process
                server.process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(lease + 3)
                server.process.send_signal(signal.SIGCONT)
                await client.heartbeat(worker, token, lease=60)
                assert (scene.metric("workers_lost"), scene.metric("activities_moved")) == (0, 0)
                await eventually(moved, timeout=lease + 5)
                await client.complete(held)
                assert await asyncio.wait_for(stock.result(), 30) == "first: attempt 1"
                assert scene.metric("activities_moved") == 1
        finally:
            for process in processes.processes:
                process.end()
