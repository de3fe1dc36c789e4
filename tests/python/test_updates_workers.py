"""Updates and workers that come, go, die and freeze."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateStage

from helpers import Env, event_counts, eventually, raises
from updating import ADMITTED, Basket, poll, worker_process

ACCEPTED = WorkflowUpdateStage.ACCEPTED


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_worker_gone_between_acceptance_and_completion(env: Env, how: str):
    if how == "killed":
        async with worker_process(env) as worker:
            handle = await env.start(Basket)
            update = await handle.start_update(Basket.add_when_opened, 5, wait_for_stage=ACCEPTED)
            worker.kill()
    else:
        async with env.worker(Basket):
            handle = await env.start(Basket)
            update = await handle.start_update(Basket.add_when_opened, 5, wait_for_stage=ACCEPTED)
    waiting = asyncio.create_task(update.result())
    await handle.signal(Basket.open)
    async with env.worker(Basket):
        assert await asyncio.wait_for(waiting, 20) == 1
        await handle.signal(Basket.finish)
        assert await handle.result() == [5]
    counts = await event_counts(handle)
    assert counts["WorkflowExecutionUpdateAccepted"] == 1
    assert counts["WorkflowExecutionUpdateCompleted"] == 1


async def test_worker_killed_between_updates(env: Env):
    """The sticky worker is gone without a goodbye: the update finds the next one."""
    async with worker_process(env) as worker:
        handle = await env.start(Basket)
        for n in range(3):
            assert await handle.execute_update(Basket.add, n) == n + 1
        worker.kill()
    async with env.worker(Basket):
        assert await asyncio.wait_for(handle.execute_update(Basket.add, 3), 20) == 4
        await raises(WorkflowUpdateFailedError, handle.execute_update(Basket.add, -1))
        assert await handle.execute_update(Basket.add, 4) == 5
        await handle.signal(Basket.finish)
        assert await handle.result() == [0, 1, 2, 3, 4]


async def test_rejection_by_a_worker_that_takes_over(env: Env):
    """Nothing is left of the task that the dead worker should have had, but a time-out."""
    async with worker_process(env) as worker:
        handle = await env.start(Basket)
        assert await handle.execute_update(Basket.add, 0) == 1
        worker.kill()
    async with env.worker(Basket):
        refused = await asyncio.wait_for(
            raises(WorkflowUpdateFailedError, handle.execute_update(Basket.add, -1)), 20
        )
        assert "negative" in str(refused.cause)
        assert (await event_counts(handle))["WorkflowExecutionUpdateAccepted"] == 1
        assert await handle.execute_update(Basket.add, 1) == 2


async def test_frozen_worker(env: Env):
    """A worker that does not answer: after the task's time-out another one gets the updates."""
    async with worker_process(env) as worker:
        handle = await env.start(Basket, task_timeout=timedelta(seconds=2))
        assert await handle.execute_update(Basket.add, 0) == 1
        worker.freeze()
        calls = [
            asyncio.create_task(handle.execute_update(Basket.add, n, id=f"u{n}")) for n in [1, 2]
        ]
        await eventually(lambda: poll(env.client, env.id, "u2", ADMITTED))
        async with env.worker(Basket):
            assert sorted(await asyncio.wait_for(asyncio.gather(*calls), 30)) == [2, 3]
            await handle.signal(Basket.finish)
            assert sorted(await asyncio.wait_for(handle.result(), 30)) == [0, 1, 2]
    counts = await event_counts(handle)
    assert counts["WorkflowExecutionUpdateAccepted"] == 3
    assert counts["WorkflowTaskTimedOut"] >= 1


async def test_no_worker_then_one(env: Env):
    handle = await env.start(Basket)
    calls = []
    for n in range(5):
        calls.append(asyncio.create_task(handle.execute_update(Basket.add, n, id=f"u{n}")))
        await eventually(lambda: poll(env.client, env.id, f"u{n}", ADMITTED))
    refused = asyncio.create_task(
        raises(WorkflowUpdateFailedError, handle.execute_update(Basket.add, -1))
    )
    async with env.worker(Basket):
        assert await asyncio.gather(*calls) == [1, 2, 3, 4, 5]
        await refused
        await handle.signal(Basket.finish)
        assert await handle.result() == [0, 1, 2, 3, 4]


async def test_worker_without_a_cache(env: Env):
    async with env.worker(Basket, max_cached_workflows=0):
        handle = await env.start(Basket)
        for n in range(5):
            await handle.signal(Basket.put, n * 10)
            await raises(WorkflowUpdateFailedError, handle.execute_update(Basket.add, -1))
            assert await handle.execute_update(Basket.add, n * 10 + 1) == n * 2 + 2
        await handle.signal(Basket.finish)
        assert await handle.result() == [0, 1, 10, 11, 20, 21, 30, 31, 40, 41]
    assert (await event_counts(handle))["WorkflowTaskFailed"] == 0


async def test_cache_lost_while_updates_come(env: Env):
    """Three workflows take turns in a cache of one, some with an update under way."""
    async with env.worker(Basket, max_cached_workflows=1):
        handles = [await env.start(Basket, id=f"{env.id}-{n}") for n in range(3)]
        under_way = [
            await h.start_update(Basket.add_when_opened, 99, wait_for_stage=ACCEPTED) for h in handles
        ]

        async def drive(handle) -> None:
            for n in range(5):
                assert await handle.execute_update(Basket.add, n) == n + 1
                await raises(WorkflowUpdateFailedError, handle.execute_update(Basket.add, -1))

        await asyncio.gather(*(drive(h) for h in handles))
        for handle, update in zip(handles, under_way):
            await handle.signal(Basket.open)
            assert await update.result() == 6
            await handle.signal(Basket.finish)
            assert await handle.result() == [0, 1, 2, 3, 4, 99]
            assert (await event_counts(handle))["WorkflowTaskFailed"] == 0
