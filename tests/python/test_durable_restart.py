"""Restarts: the server is killed or stopped and comes back with the same data.

These tests run servers of their own with a data directory, so they need the binary (SEGNO_BIN)
and are skipped when the tests are pointed at a running server (SEGNO_ADDRESS).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowExecutionStatus

from flows import SHORT, Echo, Waiter
from helpers import NAMESPACE, Env, SegnoServer, event_counts, event_names, eventually


@workflow.defn
class AllKindsOfWaiting:
    """Waits for a timer, an activity, a child and the signal `finish` at the same time."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.finished = False

    @workflow.run
    async def run(self) -> dict[str, Any]:
        child = await workflow.start_child_workflow(
            Waiter.run, id=f"{workflow.info().workflow_id}-child"
        )
        _, job, child_values = await asyncio.gather(
            asyncio.sleep(2),
            workflow.execute_activity("job", start_to_close_timeout=SHORT),
            child,
        )
        await workflow.wait_condition(lambda: self.finished)
        return {"job": job, "child": child_values, "signals": self.values}

    @workflow.signal
    def add(self, value: int) -> None:
        self.values.append(value)

    @workflow.signal
    def finish(self) -> None:
        self.finished = True


async def connect(server: SegnoServer, name: str) -> Env:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    return Env(address=server.address, client=client, name=name)


def stop(server: SegnoServer, how: str) -> None:
    """Stop the server in the given way; a graceful stop must report success."""
    if how == "SIGKILL":
        server.kill()
    else:
        assert server.terminate() == 0


async def restart(server: SegnoServer, how: str) -> None:
    """Stop and start the server without blocking the workers in this process."""
    await asyncio.to_thread(stop, server, how)
    await asyncio.to_thread(server.start)


BOTH_WAYS = pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])


@BOTH_WAYS
async def test_everything_pending_survives(durable_server: SegnoServer, how: str):
    """The same worker and client reconnect by themselves; nothing acknowledged is lost."""
    server = durable_server
    server.start()
    env = await connect(server, "pending")
    started, release = asyncio.Event(), asyncio.Event()

    @activity.defn
    async def job() -> str:
        started.set()
        await release.wait()
        return "done"

    async with env.worker(AllKindsOfWaiting, Waiter, job):
        handle = await env.start(AllKindsOfWaiting)
        child = env.handle(f"{env.id}-child")
        await started.wait()
        await eventually(child.describe)
        for n in range(50):
            await handle.signal(AllKindsOfWaiting.add, n)
        await child.signal(Waiter.add, "before")

        await restart(server, how)

        release.set()
        await eventually(handle.describe)
        for n in range(50, 60):
            await handle.signal(AllKindsOfWaiting.add, n)
        await child.signal(Waiter.add, "after")
        await child.signal(Waiter.finish)
        await handle.signal(AllKindsOfWaiting.finish)
        result = await handle.result()
    assert result == {
        "job": "done",
        "child": ["before", "after"],
        "signals": list(range(60)),
    }
    counts = await event_counts(handle)
    assert counts["TimerFired"] == 1
    assert counts["WorkflowExecutionSignaled"] == 61
    assert counts["WorkflowTaskFailed"] == 0


@BOTH_WAYS
async def test_histories_are_the_same_after_a_restart(durable_server: SegnoServer, how: str):
    server = durable_server
    server.start()
    env = await connect(server, "histories")
    async with env.worker(Echo, Waiter):
        await env.execute(Echo, "closed", id=f"{env.id}-closed")
        running = await env.start(Waiter, memo={"k": 1})
        await running.signal(Waiter.add, 1)
        await running.query(Waiter.current)
    ids = [env.id, f"{env.id}-closed"]
    before = [await env.handle(i).fetch_history() for i in ids]

    await restart(server, how)

    env_again = await connect(server, "again")
    after = [await env_again.handle(i).fetch_history() for i in ids]
    assert [h.to_json() for h in before] == [h.to_json() for h in after]
    described = await env_again.handle(ids[0]).describe()
    assert described.status == WorkflowExecutionStatus.RUNNING
    assert await described.memo() == {"k": 1}
    assert (await env_again.handle(ids[1]).describe()).status == WorkflowExecutionStatus.COMPLETED
    async with env.worker(Waiter):
        await env_again.handle(ids[0]).signal("finish")
        assert await env_again.handle(ids[0]).result() == [1]


@BOTH_WAYS
async def test_workflow_started_without_worker_runs_after_a_restart(
    durable_server: SegnoServer, how: str
):
    server = durable_server
    server.start()
    env = await connect(server, "unstarted")
    await env.start(Echo, "still here")

    await restart(server, how)

    env.client = await Client.connect(server.address, namespace=NAMESPACE)
    async with env.worker(Echo):
        assert await env.handle().result() == "still here"


async def test_timer_that_expired_while_the_server_was_down(durable_server: SegnoServer):
    server = durable_server
    server.start()
    env = await connect(server, "expired")
    async with env.worker(OneSecond):
        handle = await env.start(OneSecond)
        await eventually(lambda: has_event(handle, "TimerStarted"))
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(1.5)
        await asyncio.to_thread(server.start)
        await eventually(handle.describe)
        assert await handle.result() == "slept"


@workflow.defn
class OneSecond:
    @workflow.run
    async def run(self) -> str:
        await asyncio.sleep(1)
        return "slept"


async def has_event(handle: Any, name: str) -> bool:
    return name in await event_names(handle)


async def test_every_acknowledged_start_survives_a_kill(durable_server: SegnoServer):
    """Kill the server in the middle of a stream of starts."""
    server = durable_server
    server.start()
    env = await connect(server, "stream")
    acknowledged: list[str] = []

    async def start_many() -> None:
        for n in range(10_000):
            try:
                handle = await env.start(Waiter, id=f"{env.id}-{n}")
            except Exception:  # the server is gone
                return
            acknowledged.append(handle.id)

    starting = asyncio.create_task(start_many())
    await asyncio.sleep(0.5)
    await asyncio.to_thread(server.kill)
    starting.cancel()
    assert acknowledged
    await asyncio.to_thread(server.start)
    env_again = await connect(server, "again")
    for workflow_id in acknowledged:
        described = await env_again.handle(workflow_id).describe()
        assert described.status == WorkflowExecutionStatus.RUNNING


async def test_idle_server_stops_cleanly(durable_server: SegnoServer):
    server = durable_server
    server.start()
    assert server.healthz() == 200
    assert server.terminate(timeout=10) == 0


async def test_server_stops_cleanly_under_long_polls(durable_server: SegnoServer):
    """Open long polls of a worker and a waiting client do not hold up the shutdown."""
    server = durable_server
    server.start()
    env = await connect(server, "polls")
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        await handle.query(Waiter.current)
        waiting = asyncio.create_task(handle.result())
        await asyncio.sleep(0.3)
        assert await asyncio.to_thread(server.terminate, 15) == 0
        await asyncio.to_thread(server.start)
        await eventually(handle.describe)
        await handle.signal(Waiter.finish)
        assert await waiting == []
