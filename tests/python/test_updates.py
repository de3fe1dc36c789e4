"""Updates: validated, rejected without a trace, accepted, answered."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import (
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from helpers import Env
from updating import Basket


async def kinds(handle) -> list[int]:
    return [event.event_type for event in (await handle.fetch_history()).events]


async def test_accepted_and_answered(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        assert await handle.execute_update(Basket.add, 1) == 1
        assert await handle.execute_update(Basket.add, 2) == 2
        assert await handle.query(Basket.content) == [1, 2]
        await handle.signal(Basket.finish)
        assert await handle.result() == [1, 2]


async def test_a_rejected_update_leaves_no_trace(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        await handle.execute_update(Basket.add, 1)
        before = await kinds(handle)
        for _ in range(5):
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await handle.execute_update(Basket.add, -1)
            assert "negative" in str(refused.value.cause)
        assert await kinds(handle) == before
        assert await handle.execute_update(Basket.add, 2) == 2


async def test_many_at_once(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        results = await asyncio.gather(*[handle.execute_update(Basket.add, n) for n in range(40)])
        assert sorted(results) == list(range(1, 41))
        await handle.signal(Basket.finish)
        assert sorted(await handle.result()) == list(range(40))


async def test_waiting_for_acceptance_then_for_the_result(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        update = await handle.start_update(
            Basket.add_slowly, 7, wait_for_stage=WorkflowUpdateStage.ACCEPTED
        )
        assert await update.result() == 7
        again = handle.get_update_handle_for(Basket.add_slowly, update.id)
        assert await again.result() == 7


async def test_one_id_is_one_update(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        results = await asyncio.gather(
            *[handle.execute_update(Basket.add, 5, id="the-one") for _ in range(5)]
        )
        assert results == [1] * 5
        await handle.signal(Basket.finish)
        assert await handle.result() == [5]
        assert await handle.execute_update(Basket.add, 5, id="the-one") == 1, "also after the end"


async def test_an_accepted_update_whose_workflow_ends(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        update = await handle.start_update(
            Basket.never, wait_for_stage=WorkflowUpdateStage.ACCEPTED
        )
        await handle.terminate()
        with pytest.raises(WorkflowUpdateFailedError):
            await update.result()


async def test_a_closed_workflow_takes_none(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        await handle.terminate()
        with pytest.raises(RPCError) as refused:
            await handle.execute_update(Basket.add, 1)
        assert refused.value.status == RPCStatusCode.NOT_FOUND


async def test_update_with_start(env: Env):
    async with env.worker(Basket):
        for expected in [1, 2]:
            start = WithStartWorkflowOperation(
                Basket.run,
                id=env.id,
                task_queue=env.task_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
            result = await env.client.execute_update_with_start_workflow(
                Basket.add, expected, start_workflow_operation=start
            )
            assert result == expected
            handle = await start.workflow_handle()
        await handle.signal(Basket.finish)
        assert await handle.result() == [1, 2]
