"""Workers that stop and start while workflows run."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    PollNexusTaskQueueRequest,
    PollWorkflowTaskQueueRequest,
    ShutdownWorkerRequest,
)
from temporalio.client import Client
from temporalio.common import RetryPolicy

from flows import CallActivity, Echo, Waiter, echo, fail_until
from helpers import NAMESPACE, Env, eventually


async def test_idle_worker_stops_promptly(env: Env):
    async with env.worker(Echo, echo):
        await asyncio.sleep(0.3)
        begin = time.monotonic()
    assert time.monotonic() - begin < 5


async def test_used_worker_stops_promptly(env: Env):
    async with env.worker(CallActivity, echo):
        await env.execute(CallActivity, "echo", [1], {})
        begin = time.monotonic()
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("cached", [0, 1000])
async def test_next_worker_continues(env: Env, cached: int):
    handle = await env.start(Waiter)
    for n in range(3):
        async with env.worker(Waiter, max_cached_workflows=cached):
            await handle.signal(Waiter.add, n)
            assert await handle.query(Waiter.current) == list(range(n + 1))
    async with env.worker(Waiter, max_cached_workflows=cached):
        await handle.signal(Waiter.finish)
        assert await handle.result() == [0, 1, 2]


async def test_signals_while_no_worker_runs(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        assert await handle.query(Waiter.current) == []
    for n in range(5):
        await handle.signal(Waiter.add, n)
    await handle.signal(Waiter.finish)
    async with env.worker(Waiter):
        assert await asyncio.wait_for(handle.result(), 15) == [0, 1, 2, 3, 4]


async def test_work_is_not_lost_on_a_stopping_worker(env: Env):
    """No task goes to the pollers a stopped worker has left behind."""
    for n in range(5):
        async with env.worker(CallActivity, echo):
            await asyncio.sleep(0.05)
        handle = await env.start(CallActivity, "echo", [n], {}, id=f"{env.id}-{n}")
        async with env.worker(CallActivity, echo):
            assert await asyncio.wait_for(handle.result(), 8) == n


async def test_activity_of_a_stopped_worker_is_retried_elsewhere(env: Env):
    started = asyncio.Event()

    @activity.defn(name="job")
    async def never_ends() -> str:
        started.set()
        await asyncio.sleep(30)
        return "first worker"

    @activity.defn(name="job")
    async def ends() -> str:
        return f"attempt {activity.info().attempt}"

    retry = {"initial_interval": 0.1, "backoff_coefficient": 1.0}
    async with env.worker(CallActivity, never_ends):
        handle = await env.start(CallActivity, "job", [], {"retry": retry})
        await started.wait()
    # Shutdown cancels the activity, which fails this attempt.
    async with env.worker(CallActivity, ends):
        assert await handle.result() == "attempt 2"


async def test_graceful_shutdown_lets_an_activity_finish(env: Env):
    started = asyncio.Event()

    @activity.defn
    async def short_job() -> str:
        started.set()
        await asyncio.sleep(0.7)
        return "finished"

    async with env.worker(
        CallActivity, short_job, graceful_shutdown_timeout=timedelta(seconds=5)
    ):
        handle = await env.start(CallActivity, "short_job", [], {})
        await started.wait()
    async with env.worker(CallActivity):
        assert await handle.result() == "finished"


async def test_two_workers_share_a_task_queue(env: Env):
    other = await Client.connect(env.address, namespace=NAMESPACE, identity="other-worker")
    async with env.worker(CallActivity, echo), env.worker(CallActivity, echo, client=other):
        results = await asyncio.gather(
            *(env.execute(CallActivity, "echo", [n], {}, id=f"{env.id}-{n}") for n in range(20))
        )
    assert results == list(range(20))


async def test_workflow_and_activity_workers_apart(env: Env):
    async with env.worker(CallActivity), env.worker(fail_until):
        retry = {"initial_interval": 0.05, "backoff_coefficient": 1.0}
        assert await env.execute(CallActivity, "fail_until", [2], {"retry": retry}) == 2


@workflow.defn
class Steps:
    @workflow.run
    async def run(self, steps: int) -> int:
        for step in range(steps):
            await workflow.execute_activity(
                echo,
                step,
                start_to_close_timeout=timedelta(seconds=2),
                retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=100)),
            )
        return steps


async def test_workflows_outlive_many_worker_restarts(env: Env):
    """Tasks that a stopping worker drops come again after their (short) timeouts."""
    second = timedelta(seconds=1)
    handles = [
        await env.start(Steps, 15, id=f"{env.id}-{n}", task_timeout=second) for n in range(3)
    ]
    for _ in range(4):
        async with env.worker(Steps, echo, graceful_shutdown_timeout=second):
            await asyncio.sleep(0.1)
    async with env.worker(Steps, echo):
        assert await asyncio.gather(*(handle.result() for handle in handles)) == [15, 15, 15]


async def test_pollers_are_listed(env: Env):
    async with env.worker(Echo, identity="polling-worker"):

        async def seen() -> bool:
            response = await env.client.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=NAMESPACE,
                    task_queue=TaskQueue(name=env.task_queue),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                )
            )
            return "polling-worker" in [poller.identity for poller in response.pollers]

        await eventually(seen)


async def test_what_takes_commands_ends_without_its_worker(env: Env):
    """SDKs name a worker when they stop to take commands, also when only its client is replaced: that worker goes on."""
    service = env.client.workflow_service
    worker = {"namespace": NAMESPACE, "identity": "worker", "worker_instance_key": f"{env.id}-key"}
    commands = TaskQueue(name=f"temporal-sys/worker-commands/{NAMESPACE}/{env.id}")
    poll = PollWorkflowTaskQueueRequest(task_queue=TaskQueue(name=env.task_queue), **worker)
    limit = timedelta(seconds=50)
    tasks = asyncio.create_task(service.poll_workflow_task_queue(poll, timeout=limit))
    nexus = PollNexusTaskQueueRequest(task_queue=commands, **worker)
    told = asyncio.create_task(service.poll_nexus_task_queue(nexus, timeout=limit))
    look = DescribeTaskQueueRequest(
        namespace=NAMESPACE, task_queue=poll.task_queue, task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
    )

    async def pollers() -> int:
        return len((await service.describe_task_queue(look)).pollers)

    await eventually(pollers)
    kinds = [TaskQueueType.TASK_QUEUE_TYPE_NEXUS]
    goodbye = ShutdownWorkerRequest(task_queue=commands.name, task_queue_types=kinds, **worker)
    await service.shutdown_worker(goodbye)
    assert not (await told).task_token
    assert not (await service.poll_nexus_task_queue(nexus, timeout=limit)).task_token, "a poll that comes late"
    await env.start(Waiter)
    assert (await tasks).task_token
    await env.start(Waiter, id=f"{env.id}-2")
    assert (await service.poll_workflow_task_queue(poll, timeout=limit)).task_token
