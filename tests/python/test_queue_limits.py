"""Rate limits of task queues, and fairness keys."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.api.taskqueue.v1 import RateLimit
from temporalio.api.workflowservice.v1 import UpdateTaskQueueConfigRequest
from temporalio.client import Client
from temporalio.common import Priority

from helpers import NAMESPACE, Env, SegnoServer

ACTIVITY = 2
# Activities that come with the answer to a workflow task do not pass through the queue.
QUEUED = {"disable_eager_activity_execution": True}


@workflow.defn
class Many:
    """Runs one activity for each key, all at once."""

    @workflow.run
    async def run(self, keys: list[str]) -> None:
        await asyncio.gather(
            *[
                workflow.execute_activity(
                    "work",
                    key,
                    start_to_close_timeout=timedelta(seconds=20),
                    priority=Priority(fairness_key=key or None),
                )
                for key in keys
            ]
        )


async def configure(env: Env, rate: float | None = None, **more: Any) -> None:
    if rate is not None:
        limit = RateLimit(requests_per_second=rate)
        update = UpdateTaskQueueConfigRequest.RateLimitUpdate(rate_limit=limit, reason="test")
        more["update_queue_rate_limit"] = update
    request = UpdateTaskQueueConfigRequest(
        namespace=NAMESPACE, task_queue=env.task_queue, task_queue_type=ACTIVITY, **more
    )
    await env.client.workflow_service.update_task_queue_config(request)


class Log:
    """Writes down when and for which key the activity ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, float]] = []

    @activity.defn(name="work")
    async def work(self, key: str) -> None:
        self.ran.append((key, time.monotonic()))


async def test_a_rate_limit_holds(env: Env):
    log = Log()
    await configure(env, 10)
    async with env.worker(Many, log.work, **QUEUED):
        await env.execute(Many, [""] * 15)
    times = [at for _, at in log.ran]
    assert len(times) == 15
    assert 1.2 < times[-1] - times[0] < 4, "fifteen at ten per second"


async def test_a_rate_that_workers_ask_for_holds(env: Env):
    log = Log()
    async with env.worker(Many, log.work, **QUEUED, max_task_queue_activities_per_second=10):
        await env.execute(Many, [""] * 15)
    times = [at for _, at in log.ran]
    assert 1.2 < times[-1] - times[0] < 4


async def test_a_limit_that_is_lifted_lets_tasks_go(env: Env):
    log = Log()
    await configure(env, 0)
    async with env.worker(Many, log.work, **QUEUED):
        handle = await env.start(Many, [""] * 5)
        await asyncio.sleep(1)
        assert log.ran == []
        await configure(env, 1000)
        await asyncio.wait_for(handle.result(), 5)


async def test_fairness_keys_take_turns(env: Env):
    log = Log()
    await configure(env, 50, set_fairness_weight_overrides={"c": 3.0})
    async with env.worker(Many, **QUEUED):
        handle = await env.start(Many, ["a"] * 20 + ["b"] * 3 + ["c"] * 6)
        await asyncio.sleep(1)
        async with env.worker(log.work, max_concurrent_activities=1):
            await handle.result()
    order = "".join(key for key, _ in log.ran)
    assert order.index("b") < 3 and order.index("c") < 3, order
    assert "c" not in order[12:] and "b" not in order[16:], order


async def test_a_limit_survives_a_restart(durable_server: SegnoServer):
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    env = Env(address=durable_server.address, client=client, name="limits")
    await configure(env, 10)
    durable_server.kill()
    durable_server.start()
    env.client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    log = Log()
    async with env.worker(Many, log.work, **QUEUED):
        await env.execute(Many, [""] * 10)
    assert log.ran[-1][1] - log.ran[0][1] > 0.8
