"""Batch operations: jobs over many workflows, also over a restart, and by the command lines."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from temporalio.api.batch.v1 import (
    BatchOperationCancellation,
    BatchOperationReset,
    BatchOperationSignal,
    BatchOperationTermination,
)
from temporalio.api.common.v1 import ResetOptions
from temporalio.api.enums.v1 import BatchOperationState
from temporalio.api.workflowservice.v1 import (
    DescribeBatchOperationRequest,
    DescribeBatchOperationResponse,
    StartBatchOperationRequest,
    StopBatchOperationRequest,
)
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from flows import Echo, Waiter
from helpers import NAMESPACE, Env, SegnoServer, event_counts, eventually, find_events, segno_binary

RUNNING = BatchOperationState.BATCH_OPERATION_STATE_RUNNING
COMPLETED = BatchOperationState.BATCH_OPERATION_STATE_COMPLETED
FAILED = BatchOperationState.BATCH_OPERATION_STATE_FAILED


async def begin(env: Env, **more: Any) -> str:
    """Starts a job once no other one is open; returns its id."""
    job = str(uuid.uuid4())
    more.setdefault("visibility_query", f"TaskQueue = '{env.task_queue}'")
    request = StartBatchOperationRequest(namespace=NAMESPACE, job_id=job, reason="test", **more)
    for _ in range(200):
        try:
            await env.client.workflow_service.start_batch_operation(request)
            return job
        except RPCError as error:
            if error.status != RPCStatusCode.RESOURCE_EXHAUSTED:
                raise
            await asyncio.sleep(0.05)
    raise AssertionError("another job does not end")


async def describe(env: Env, job: str) -> DescribeBatchOperationResponse:
    request = DescribeBatchOperationRequest(namespace=NAMESPACE, job_id=job)
    return await env.client.workflow_service.describe_batch_operation(request)


async def ended(env: Env, job: str) -> DescribeBatchOperationResponse:
    for _ in range(600):
        described = await describe(env, job)
        if described.state != RUNNING:
            return described
        await asyncio.sleep(0.05)
    raise AssertionError("the job does not end")


async def start_many(env: Env, count: int) -> list[Any]:
    """Starts workflows that no worker takes."""
    starts = [env.start(Waiter, id=f"{env.id}-{number}") for number in range(count)]
    return await asyncio.gather(*starts)


async def test_a_batch_terminates_what_a_filter_finds(env: Env):
    handles = await start_many(env, 700)
    job = await begin(env, termination_operation=BatchOperationTermination(identity="me"))
    described = await ended(env, job)
    assert described.state == COMPLETED
    assert (described.total_operation_count, described.complete_operation_count) == (700, 700)
    assert (described.identity, described.reason) == ("me", "test")
    statuses = {(await handle.describe()).status for handle in handles[::50]}
    assert statuses == {WorkflowExecutionStatus.TERMINATED}


async def test_a_batch_resets_workflows(env: Env):
    async with env.worker(Echo):
        for number in range(3):
            await env.execute(Echo, "x", id=f"{env.id}-{number}")
        reset = BatchOperationReset(options=ResetOptions(first_workflow_task=Empty()))
        described = await ended(env, await begin(env, reset_operation=reset))
        assert described.complete_operation_count == 3
        for number in range(3):
            assert await env.handle(f"{env.id}-{number}").result() == "x"
            runs = [run async for run in env.client.list_workflows(f"WorkflowId = '{env.id}-{number}'")]
            assert len(runs) == 2


async def test_a_stopped_batch_does_nothing_more(env: Env):
    handles = await start_many(env, 100)
    job = await begin(env, cancellation_operation=BatchOperationCancellation(), max_operations_per_second=20)

    async def began() -> bool:
        return (await describe(env, job)).complete_operation_count > 0

    await eventually(began)
    request = StopBatchOperationRequest(namespace=NAMESPACE, job_id=job, reason="enough")
    await env.client.workflow_service.stop_batch_operation(request)
    stopped = await describe(env, job)
    assert stopped.state == FAILED
    await asyncio.sleep(0.5)
    counts = [(await event_counts(handle))["WorkflowExecutionCancelRequested"] for handle in handles]
    assert 0 < sum(counts) < 50, "a rate of 20 per second holds, and the rest was spared"


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
async def test_a_batch_goes_on_after_a_restart(durable_server: SegnoServer, how: str):
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    env = Env(address=durable_server.address, client=client, name="batch")
    handles = await start_many(env, 600)
    signal = BatchOperationSignal(signal="add", identity="me")
    job = await begin(env, signal_operation=signal, max_operations_per_second=300)
    await asyncio.sleep(1.2)
    if how == "SIGKILL":
        durable_server.kill()
    else:
        assert durable_server.terminate() == 0
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    env = Env(address=durable_server.address, client=client, name="batch")
    described = await ended(env, job)
    assert described.state == COMPLETED
    assert (described.complete_operation_count, described.failure_operation_count) == (600, 0)
    for handle in handles:
        signals = await find_events(client.get_workflow_handle(handle.id), "WorkflowExecutionSignaled")
        assert len(signals) == 1, "each has its signal once, also those of the page that was repeated"


async def test_command_lines(env: Env):
    await start_many(env, 5)
    query = f"TaskQueue = '{env.task_queue}' AND ExecutionStatus = 'Running'"

    async def run(program: str | Path, *arguments: str) -> Any:
        command = [str(program), *arguments, "--address", env.address, "--output", "json"]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    segno = segno_binary()
    started = await run(segno, "workflow", "cancel", "--query", query, "--yes", "--reason", "r")
    job = started["batchJobId"]
    described = await ended(env, job)
    assert (described.complete_operation_count, described.reason) == (5, "r")
    shown = await run(segno, "batch", "describe", "--job-id", job)
    assert shown["completeOperationCount"] == "5"
    assert job in [one["jobId"] for one in await run(segno, "batch", "list")]
    started = await run(segno, "workflow", "terminate", "--query", query, "--yes", "--rps", "100")
    assert (await ended(env, started["batchJobId"])).complete_operation_count == 5
    started = await run(segno, "workflow", "delete", "--query", f"TaskQueue = '{env.task_queue}'", "--yes")
    assert (await ended(env, started["batchJobId"])).complete_operation_count == 5
    assert [run async for run in env.client.list_workflows(f"TaskQueue = '{env.task_queue}'")] == []
