"""Tenants beside each other: limits of starts hold for clients, children and schedules, and the benchmark of hostile scripts works."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Iterator

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest, StartWorkflowExecutionRequest
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.client import (
    Client, Schedule, ScheduleActionStartWorkflow, ScheduleOverlapPolicy, SchedulePolicy, ScheduleSpec, ScheduleState,
)

from helpers import SegnoServer, eventually, segno_binary
from scripts import Flows, start

BENCH = Path(__file__).parents[2] / "bench/python/hostile_scripts.py"

PARENT = """workflow parent(n) {
  for (const i of List.range(n)) {
    Workflow.start("child", i)
  }
  await wait_for_signal("end")
}
"""
CHILD = """workflow child(n) {
  await wait_for_signal("end")
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    server = SegnoServer(log=tmp_path_factory.mktemp("tenants") / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


def namespace(server: SegnoServer, **limits: int) -> str:
    name = f"n{uuid.uuid4().hex[:8]}"
    data = {f"segno.limit.{limit.replace('_', '-')}": str(value) for limit, value in limits.items()}
    with grpc.insecure_channel(server.address) as channel:
        WorkflowServiceStub(channel).RegisterNamespace(
            RegisterNamespaceRequest(
                namespace=name, workflow_execution_retention_period=Duration(seconds=86400), data=data
            ),
            timeout=10,
        )
    return name


async def count_open(client: Client) -> int:
    return (await client.count_workflows("ExecutionStatus = 'Running'")).count


async def test_children_of_scripts_count_as_open_workflows(server: SegnoServer) -> None:
    name = namespace(server, open_workflows=20)
    client = await Client.connect(server.address, namespace=name)
    flows = Flows(f"127.0.0.1:{server.http_port}", name)
    flows.deploy(PARENT)
    flows.deploy(CHILD)
    await start(client, "parent", "parent", 200)

    async def full() -> bool:
        return await count_open(client) == 20

    await eventually(full)
    await asyncio.sleep(1.5)
    assert await count_open(client) == 20
    assert "have to wait" in server.log.read_text()


async def test_scheduled_workflows_wait_until_there_is_room(server: SegnoServer) -> None:
    name = namespace(server, open_workflows=2)
    client = await Client.connect(server.address, namespace=name)
    first = await client.start_workflow("T", id="first", task_queue="q")
    action = ScheduleActionStartWorkflow("T", id="scheduled", task_queue="q")
    policy = SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL)
    schedule = await client.create_schedule(
        "s", Schedule(action=action, spec=ScheduleSpec(), policy=policy, state=ScheduleState())
    )
    for _ in range(3):
        # The id of a scheduled workflow has the second of its time.
        await schedule.trigger()
        await asyncio.sleep(1.1)

    async def full() -> bool:
        return await count_open(client) == 2

    await eventually(full)
    await asyncio.sleep(1.5)
    assert await count_open(client) == 2
    await first.terminate()

    async def another() -> bool:
        return (await client.count_workflows("WorkflowType = 'T'")).count == 3

    await eventually(another)
    assert await count_open(client) == 2


def test_a_client_that_starts_too_many_in_a_second_is_told_what_to_do(server: SegnoServer) -> None:
    name = namespace(server, starts_per_second=5)
    with grpc.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            for number in range(100):
                request = StartWorkflowExecutionRequest(namespace=name, workflow_id=f"w{number}", request_id=str(number))
                request.workflow_type.name = "T"
                request.task_queue.name = "q"
                stub.StartWorkflowExecution(request, timeout=10)
        assert number >= 10, "two seconds' worth"
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "may start 5 workflows a second" in refused.value.details()
        detail = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
        assert b"ResourceExhaustedFailure" in detail and b"google.rpc.RetryInfo" in detail


def test_the_benchmark_of_hostile_scripts_works() -> None:
    command = [sys.executable, str(BENCH), "--segno", str(segno_binary()), "--seconds", "0.5", "--in-memory"]
    done = subprocess.run([*command, "--only", "queries4,fork"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4, done.stdout
