"""Activities without a workflow, through the SDK and the command line, and on servers that are killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import ActivityExecutionStatus, ActivityFailureError, Client
from temporalio.common import ActivityIDConflictPolicy, ActivityIDReusePolicy, RetryPolicy
from temporalio.exceptions import ActivityAlreadyStartedError, ApplicationError
from temporalio.worker import Worker

from helpers import NAMESPACE, Env, SegnoServer, eventually, segno_binary

SOON = {"start_to_close_timeout": timedelta(seconds=10)}
SECOND = timedelta(seconds=1)


@activity.defn
async def greet(name: str) -> str:
    """Knows that it belongs to no workflow."""
    info = activity.info()
    assert info.workflow_id is None, info
    return f"Hello {name} {info.attempt}"


@activity.defn
async def third_time(name: str) -> str:
    """Fails twice."""
    if activity.info().attempt < 3:
        raise ApplicationError(f"attempt {activity.info().attempt}")
    return name


@activity.defn
async def obedient() -> str:
    """Heartbeats until it is cancelled."""
    while True:
        activity.heartbeat("here")
        await asyncio.sleep(0.1)


ALL = [greet, third_time, obedient]


@asynccontextmanager
async def worker(client: Client, queue: str) -> AsyncIterator[None]:
    """A worker for activities alone."""
    async with Worker(client, task_queue=queue, activities=ALL, max_cached_workflows=0):
        yield


async def test_executes(env: Env) -> None:
    async with worker(env.client, env.task_queue):
        result = await env.client.execute_activity(greet, "you", id=env.id, task_queue=env.task_queue, **SOON)
        assert result == "Hello you 1"
        handle = env.client.get_activity_handle(env.id)
        described = await handle.describe()
        assert described.status == ActivityExecutionStatus.COMPLETED
        with pytest.raises(ActivityAlreadyStartedError):
            policy = ActivityIDReusePolicy.REJECT_DUPLICATE
            await env.client.start_activity(
                greet, "me", id=env.id, task_queue=env.task_queue, id_reuse_policy=policy, **SOON
            )


async def test_retries_and_fails(env: Env) -> None:
    async with worker(env.client, env.task_queue):
        policy = RetryPolicy(initial_interval=timedelta(milliseconds=50), maximum_attempts=3)
        options: dict[str, Any] = {"task_queue": env.task_queue, **SOON}
        done = await env.client.execute_activity(third_time, "x", id=env.id, retry_policy=policy, **options)
        assert done == "x"
        policy.maximum_attempts = 2
        with pytest.raises(ActivityFailureError) as failed:
            await env.client.execute_activity(third_time, "x", id=f"{env.id}-2", retry_policy=policy, **options)
        assert "attempt 2" in str(failed.value.cause)


async def test_cancels_and_terminates(env: Env) -> None:
    async with worker(env.client, env.task_queue):
        options: dict[str, Any] = {"task_queue": env.task_queue, "heartbeat_timeout": timedelta(seconds=5), **SOON}
        handle = await env.client.start_activity(obedient, id=env.id, **options)

        async def heard() -> bool:
            described = await handle.describe()
            return described.last_heartbeat_time is not None

        await eventually(heard)
        await handle.cancel(reason="enough")
        with pytest.raises(ActivityFailureError):
            await handle.result()
        assert (await handle.describe()).status == ActivityExecutionStatus.CANCELED
        handle = await env.client.start_activity(obedient, id=f"{env.id}-2", **options)
        await handle.terminate(reason="enough")
        assert (await handle.describe()).status == ActivityExecutionStatus.TERMINATED


async def test_lists_and_counts(env: Env) -> None:
    policy = ActivityIDConflictPolicy.USE_EXISTING
    for _ in range(2):
        handle = await env.client.start_activity(
            greet, "you", id=env.id, task_queue=env.task_queue, id_conflict_policy=policy, **SOON
        )
    query = f"ActivityId = '{env.id}' AND ActivityType = 'greet'"
    assert [found.activity_id async for found in env.client.list_activities(query)] == [env.id]
    assert (await env.client.count_activities(query)).count == 1
    assert [found async for found in env.client.list_workflows(f"TaskQueue = '{env.task_queue}'")] == []
    await handle.terminate()


async def test_kills_lose_nothing(durable_server: SegnoServer) -> None:
    """What was started is there after a kill, with its retries and time-outs; what ended keeps its outcome."""
    server = durable_server
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    options: dict[str, Any] = {"task_queue": "kept", **SOON}
    async with worker(client, "kept"):
        assert await client.execute_activity(greet, "one", id="done", **options) == "Hello one 1"
    waiting = [f"waits-{number}" for number in range(20)]
    for name in waiting:
        await client.start_activity(greet, name, id=name, **options)
    await client.start_activity(greet, "x", id="late", schedule_to_start_timeout=SECOND, **options)
    await client.start_activity(greet, "x", id="delayed", start_delay=timedelta(seconds=3), **options)
    server.kill()
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    assert await client.get_activity_handle("done", result_type=str).result() == "Hello one 1"
    with pytest.raises(ActivityFailureError):
        await client.get_activity_handle("late").result()
    async with worker(client, "kept"):
        for name in [*waiting, "delayed"]:
            assert (await client.get_activity_handle(name, result_type=str).result()).startswith("Hello ")
    assert (await client.count_activities("ExecutionStatus = 'Completed'")).count == len(waiting) + 2
    assert (await client.count_activities("ExecutionStatus = 'TimedOut'")).count == 1


async def test_a_kill_while_a_worker_has_it(durable_server: SegnoServer) -> None:
    """An attempt that was handed out before a kill can be reported after it; a repeated start is recognised."""
    server = durable_server
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    async with worker(client, "held"):
        handle = await client.start_activity(
            obedient, id="held", task_queue="held", heartbeat_timeout=timedelta(seconds=8), **SOON
        )

        async def taken() -> bool:
            return (await handle.describe()).last_heartbeat_time is not None

        await eventually(taken)
        server.kill()
        server.start()
        client = await Client.connect(server.address, namespace=NAMESPACE)
        handle = client.get_activity_handle("held")
        await handle.cancel()
        with pytest.raises(ActivityFailureError):
            await handle.result()
        described = await handle.describe()
        assert (described.status, described.attempt) == (ActivityExecutionStatus.CANCELED, 1)


async def test_command_line(env: Env, address: str) -> None:
    def segno(*arguments: str, code: int = 0) -> Any:
        command = [str(segno_binary()), "activity", *arguments, "--address", address, "--output", "json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    loop = asyncio.get_running_loop()

    async def run(*arguments: str, code: int = 0) -> Any:
        return await loop.run_in_executor(None, lambda: segno(*arguments, code=code))

    common = ["--type", "greet", "--task-queue", env.task_queue, "--start-to-close-timeout", "10s"]
    async with worker(env.client, env.task_queue):
        done = await run("execute", "--activity-id", env.id, *common, "--input", '"you"')
        assert done["result"] == "Hello you 1"
        assert (await run("result", "--activity-id", env.id))["result"] == "Hello you 1"
    other = f"{env.id}-2"
    started = await run("start", "--activity-id", other, *common)
    assert started["started"]
    described = await run("describe", "--activity-id", other)
    assert described["info"]["activityId"] == other
    listed = await run("list", "--query", f"ActivityId = '{other}'")
    assert [found["activityId"] for found in listed] == [other]
    assert (await run("count", "--query", f"ActivityId = '{other}'"))["count"] in (1, "1")
    await run("cancel", "--activity-id", other)
    await run("result", "--activity-id", other, code=1)
    await run("start", "--activity-id", other, *common)
    await run("terminate", "--activity-id", other)
    await run("delete", "--activity-id", other, "--yes")
    assert await run("list", "--query", f"ActivityId = '{other}' AND RunId != '{started['runId']}'") == []
