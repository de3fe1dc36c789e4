"""Updates: validated, rejected without a trace, accepted, answered; durable before a worker exists."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType, UpdateWorkflowExecutionLifecycleStage
from temporalio.api.update.v1 import Input, Meta, Request, WaitPolicy
from temporalio.api.workflowservice.v1 import UpdateWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.converter import PayloadConverter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import NAMESPACE, Env, SegnoServer

ADMITTED = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED


@workflow.defn
class Basket:
    """A list that updates add to."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.done = False

    @workflow.run
    async def run(self) -> list[int]:
        await workflow.wait_condition(lambda: self.done)
        return self.items

    @workflow.update
    async def add(self, item: int) -> int:
        self.items.append(item)
        return len(self.items)

    @add.validator
    def may_add(self, item: int) -> None:
        if item < 0:
            raise ValueError("negative")

    @workflow.update
    async def add_slowly(self, item: int) -> int:
        await asyncio.sleep(0.2)
        self.items.append(item)
        return item

    @workflow.update
    async def never(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def finish(self) -> None:
        self.done = True

    @workflow.query
    def content(self) -> list[int]:
        return self.items


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


async def test_a_rejection_is_remembered(env: Env):
    async with env.worker(Basket):
        handle = await env.start(Basket)
        await handle.execute_update(Basket.add, 0)
        for _ in range(2):
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update(Basket.add, -1, id="bad")
        # With an item that would be fine: it is still the same update.
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(Basket.add, 1, id="bad")


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


async def admit(client: Client, workflow_id: str, item: int) -> str:
    """Stores an update without waiting for a worker."""
    update_id = str(uuid.uuid4())
    payloads = PayloadConverter.default.to_payloads([item])
    response = await client.workflow_service.update_workflow_execution(
        UpdateWorkflowExecutionRequest(
            namespace=NAMESPACE,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            wait_policy=WaitPolicy(lifecycle_stage=ADMITTED),
            request=Request(
                meta=Meta(update_id=update_id, identity="test"),
                input=Input(name="add", args=Payloads(payloads=payloads)),
            ),
        )
    )
    assert response.stage == ADMITTED
    return update_id


async def test_admission_survives_a_kill_and_needs_no_worker(durable_server: SegnoServer):
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    handle = await client.start_workflow(Basket.run, id="kept", task_queue="kept")
    updates = [await admit(client, "kept", item) for item in [3, 4]]
    durable_server.kill()
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    handle = client.get_workflow_handle("kept")
    admitted = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED
    assert (await kinds(handle)).count(admitted) == 2
    async with Worker(
        client, task_queue="kept", workflows=[Basket], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        for update_id, expected in zip(updates, [1, 2]):
            found = handle.get_update_handle(update_id, result_type=int)
            assert await asyncio.wait_for(found.result(), 20) == expected
        await handle.signal("finish")
        assert await handle.result() == [3, 4]
