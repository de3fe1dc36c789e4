"""Handlers of Nexus operations that belong to versions of a worker deployment: routing decides which version gets a request."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any, AsyncIterator

import pytest
import pytest_asyncio
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentVersionRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
)
from temporalio.common import WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker, WorkerDeploymentConfig

from helpers import Env, eventually
from nexus import CallsAll, Handlers, Nexus, prepare

NEXUS = TaskQueueType.TASK_QUEUE_TYPE_NEXUS
# Enough that each half of a ramp gets one, but for one time in 10^12.
CALLS = 40


@pytest_asyncio.fixture
async def nexus(env: Env) -> Nexus:
    return await prepare(env)


@asynccontextmanager
async def version(nexus: Nexus, build: str) -> AsyncIterator[Handlers]:
    """Runs a worker of a version that has the handlers and nothing else; the server knows it when this begins."""
    handlers, deployment = Handlers(), nexus.handler.id
    config = WorkerDeploymentConfig(version=WorkerDeploymentVersion(deployment, build), use_worker_versioning=True)
    worker = Worker(
        nexus.handler.client,
        task_queue=nexus.handler.task_queue,
        nexus_service_handlers=[handlers],
        deployment_config=config,
    )
    async with worker:

        async def known() -> bool:
            request = DescribeWorkerDeploymentVersionRequest(namespace=nexus.handler.client.namespace)
            request.deployment_version.deployment_name, request.deployment_version.build_id = deployment, build
            try:
                described = await nexus.handler.client.workflow_service.describe_worker_deployment_version(request)
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    return False
                raise
            return any(each.type == NEXUS for each in described.version_task_queues)

        await eventually(known, timeout=30)
        yield handlers


async def set_current(nexus: Nexus, build: str) -> None:
    request = SetWorkerDeploymentCurrentVersionRequest(deployment_name=nexus.handler.id, build_id=build)
    request.namespace = nexus.handler.client.namespace
    await nexus.handler.client.workflow_service.set_worker_deployment_current_version(request)


async def set_ramping(nexus: Nexus, build: str, percentage: float) -> None:
    request = SetWorkerDeploymentRampingVersionRequest(deployment_name=nexus.handler.id, build_id=build)
    request.namespace, request.percentage = nexus.handler.client.namespace, percentage
    await nexus.handler.client.workflow_service.set_worker_deployment_ramping_version(request)


async def shares(nexus: Nexus, number: int, *handlers: Handlers) -> list[int]:
    """How many requests of new operations each version gets."""
    before = [len(each.starts) for each in handlers]
    calls: list[Any] = [nexus.call("echo", n) for n in range(CALLS)]
    results = await nexus.caller.client.execute_workflow(
        CallsAll.run, calls, id=f"{nexus.caller.id}-{number}", task_queue=nexus.caller.task_queue
    )
    assert results == list(range(CALLS))
    return [len(each.starts) - old for each, old in zip(handlers, before)]


async def test_requests_follow_the_routing(nexus: Nexus, segno_only: None):
    async with nexus.callers(), version(nexus, "one") as one, version(nexus, "two") as two:
        await set_current(nexus, "one")
        assert await shares(nexus, 1, one, two) == [CALLS, 0]
        await set_ramping(nexus, "two", 50)
        first, second = await shares(nexus, 2, one, two)
        assert first + second == CALLS and first > 0 and second > 0, (first, second)
        await set_ramping(nexus, "two", 100)
        assert await shares(nexus, 3, one, two) == [0, CALLS]
        await set_current(nexus, "two")
        assert await shares(nexus, 4, one, two) == [0, CALLS]


@pytest.mark.parametrize("ramp", [0, 100])
async def test_one_request_follows_the_routing(nexus: Nexus, ramp: int):
    """The same, one operation at a time, as Temporal's server has no more under way."""
    async with nexus.callers(), version(nexus, "one") as one, version(nexus, "two") as two:
        await set_current(nexus, "one")
        if ramp:
            await set_ramping(nexus, "two", ramp)
        handle = await nexus.start("echo", "x")
        assert await handle.result() == "x"
        assert [len(one.starts), len(two.starts)] == ([0, 1] if ramp else [1, 0])
