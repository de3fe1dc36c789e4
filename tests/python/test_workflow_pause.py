"""Pausing workflows, and activities by workflow rules, on a server that allows it: as Temporal's, durably, in scripts and by hand."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import ActivityType, WorkflowExecution
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.rules.v1 import WorkflowRuleAction, WorkflowRuleSpec
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    CreateWorkflowRuleRequest,
    DeleteWorkflowRuleRequest,
    DescribeWorkflowExecutionRequest,
    PauseWorkflowExecutionRequest,
    QueryWorkflowRequest,
    StartActivityExecutionRequest,
    UnpauseActivityRequest,
    UnpauseWorkflowExecutionRequest,
)
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
    WorkflowHandle,
)
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from flows import CallActivity, Waiter, echo
from helpers import NAMESPACE, SWITCHED_ON, Env, SegnoServer, eventually, segno_binary
from scripts import Flows, start

RUNNING = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING
PAUSED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_PAUSED


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SegnoServer]:
    """A server with a data directory that lets workflows be paused."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server with --workflow-pause: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "data", flags=["--workflow-pause", "--workflow-rules"])
    server.start()
    try:
        yield server
    finally:
        server.kill()


def segno(server: SegnoServer, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line, on this server."""
    command = [str(segno_binary()), *words, "--address", server.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


async def pause(client: Client, handle: WorkflowHandle, **fields: Any) -> None:
    request = PauseWorkflowExecutionRequest(
        namespace=NAMESPACE, workflow_id=handle.id, identity="ann", reason="look", request_id=str(uuid.uuid4()), **fields
    )
    await client.workflow_service.pause_workflow_execution(request)


async def unpause(client: Client, handle: WorkflowHandle) -> None:
    request = UnpauseWorkflowExecutionRequest(namespace=NAMESPACE, workflow_id=handle.id, identity="ann")
    await client.workflow_service.unpause_workflow_execution(request)


async def status(client: Client, handle: WorkflowHandle) -> int:
    """The status of a run. (The SDK's `describe` does not know the status of paused ones.)"""
    request = DescribeWorkflowExecutionRequest(namespace=NAMESPACE, execution=WorkflowExecution(workflow_id=handle.id))
    described = await client.workflow_service.describe_workflow_execution(request)
    return described.workflow_execution_info.status


@pytest.mark.timeout(300)
def test_every_transcript_with_features_switched_on(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path / "server.log", flags=SWITCHED_ON)
    server.start()
    try:
        place = Path(__file__).resolve().parent.parent / "transcripts"
        check = [sys.executable, "-m", "transcripts", "--switched-on", "check", "--address", server.address]
        done = subprocess.run(check, cwd=place, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        wrong = [line for line in lines if not line.endswith(": ok")]
        assert done.returncode == 0, "\n".join(wrong[-200:]) + done.stderr
        assert lines[-1].endswith(" passed, 0 failed") and int(lines[-1].split()[0]) >= 105, lines[-1]
    finally:
        server.kill()


async def test_a_pause_outlives_the_server(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handle = await client.start_workflow(Waiter.run, id="kept", task_queue="q")
    await pause(client, handle)
    await handle.signal("add", "after")
    await handle.signal("finish")
    server.kill()
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handle = client.get_workflow_handle("kept")
    assert await status(client, handle) == PAUSED
    async with Worker(client, task_queue="q", workflows=[Waiter], workflow_runner=UnsandboxedWorkflowRunner()):
        await asyncio.sleep(1)
        assert await status(client, handle) == PAUSED, "a worker was handed its task"
        query = QueryWorkflowRequest(
            namespace=NAMESPACE,
            execution=WorkflowExecution(workflow_id=handle.id),
            query=WorkflowQuery(query_type="current"),
        )
        asked = await client.workflow_service.query_workflow(query)
        assert asked.query_rejected.status == PAUSED
        await unpause(client, handle)
        assert await asyncio.wait_for(handle.result(), 20) == ["after"]


async def test_a_paused_script_takes_no_turn(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    flows = Flows(f"127.0.0.1:{server.http_port}")
    flows.deploy('workflow listener() { return await wait_for_signal("go") }')
    handle = await start(client, "listener", "script")
    await pause(client, handle)
    await handle.signal("go", 7)
    await asyncio.sleep(0.5)
    assert await status(client, handle) == PAUSED
    versions = flows.call("GET", "/flows/listener").body["versions"]
    assert [version["open_runs"] for version in versions] == [1], "a paused run is an open run of its version"
    await unpause(client, handle)
    assert await asyncio.wait_for(handle.result(), 20) == 7


async def test_a_script_that_would_end_is_paused_first(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    source = """workflow busy() {
      await wait_for_signal("go")
      let sum = 0
      for (const i of List.range(300000)) { sum = sum + i }
      return sum
    }"""
    Flows(f"127.0.0.1:{server.http_port}").deploy(source)
    for number in range(3):
        handle = await start(client, "busy", f"busy-{number}")
        signalled = asyncio.create_task(handle.signal("go"))
        await asyncio.sleep(0.01 * (1 + number))
        try:
            await pause(client, handle)
        except RPCError as error:
            # It was over already.
            assert "already completed" in str(error)
        else:
            await asyncio.sleep(0.5)
            assert await status(client, handle) == PAUSED
            await unpause(client, handle)
        await signalled
        assert await asyncio.wait_for(handle.result(), 30) == 300000 * 299999 // 2


async def query_that_the_pause_rejects(client: Client, handle: WorkflowHandle) -> None:
    query = QueryWorkflowRequest(
        namespace=NAMESPACE,
        execution=WorkflowExecution(workflow_id=handle.id),
        query=WorkflowQuery(query_type="current"),
    )
    asked = asyncio.create_task(client.workflow_service.query_workflow(query, timeout=timedelta(seconds=30)))
    await asyncio.sleep(1)
    assert not asked.done()
    await pause(client, handle)
    assert (await asyncio.wait_for(asked, 15)).query_rejected.status == PAUSED


async def test_a_query_that_waits_is_rejected_by_the_pause(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handle = await client.start_workflow(Waiter.run, id="asked", task_queue="nobody")
    await query_that_the_pause_rejects(client, handle)


async def test_a_query_in_a_queue_is_rejected_by_the_pause(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    async with Worker(client, task_queue="gone", workflows=[Waiter], workflow_runner=UnsandboxedWorkflowRunner()):
        handle = await client.start_workflow(Waiter.run, id="left", task_queue="gone")
        assert await handle.query("current") == []
    await query_that_the_pause_rejects(client, handle)


async def test_deploying_a_script_leaves_a_paused_schedule_alone(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    flows = Flows(f"127.0.0.1:{server.http_port}")
    flows.deploy('schedule("0 9 * * *")\nworkflow nightly() { return 1 }')
    handle = client.get_workflow_handle("flow-schedule/nightly")
    await pause(client, handle)
    flows.deploy('schedule("0 8 * * *")\nworkflow nightly() { return 2 }')
    assert await status(client, handle) == PAUSED
    await unpause(client, handle)
    assert await status(client, handle) == RUNNING


async def test_activities_and_schedules_are_not_paused_as_workflows(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    begin = StartActivityExecutionRequest(
        namespace=NAMESPACE,
        activity_id="alone",
        activity_type=ActivityType(name="echo"),
        task_queue=TaskQueue(name="q"),
        start_to_close_timeout=Duration(seconds=10),
        request_id=str(uuid.uuid4()),
    )
    await client.workflow_service.start_activity_execution(begin)
    with pytest.raises(RPCError) as refused:
        await pause(client, client.get_workflow_handle("temporal-sys-activity:alone"))
    assert refused.value.status == RPCStatusCode.NOT_FOUND
    made = Schedule(
        action=ScheduleActionStartWorkflow(Waiter.run, id="made", task_queue="q"),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(hours=1))]),
    )
    await client.create_schedule("hourly", made)
    with pytest.raises(RPCError) as refused:
        await pause(client, client.get_workflow_handle("temporal-sys-scheduler:hourly"))
    assert refused.value.status == RPCStatusCode.NOT_FOUND


async def test_the_command_line_pauses_and_says_why(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handle = await client.start_workflow(Waiter.run, id="by-hand", task_queue="q")
    done = segno(server, "workflow", "pause", "-w", "by-hand", "--reason", "bank is down")
    assert (done.returncode, done.stdout) == (0, "Workflow by-hand is paused\n"), done
    again = segno(server, "workflow", "pause", "-w", "by-hand")
    assert again.returncode != 0 and "workflow is already paused." in again.stderr, again
    why = segno(server, "workflow", "why", "-w", "by-hand").stdout
    assert "has been paused by" in why and "bank is down" in why and "`segno workflow unpause --workflow-id by-hand`" in why, why
    listed = segno(server, "workflow", "list", "-q", "ExecutionStatus = 'Paused'").stdout
    assert "by-hand" in listed and "Paused" in listed, listed
    # An open workflow can be cancelled while it is paused.
    assert segno(server, "workflow", "cancel", "-w", "by-hand").returncode == 0
    done = segno(server, "workflow", "unpause", "-w", "by-hand")
    assert (done.returncode, done.stdout) == (0, "Workflow by-hand goes on\n"), done
    assert await status(client, handle) == RUNNING


async def test_the_official_command_line_pauses(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handle = await client.start_workflow(Waiter.run, id="officially", task_queue="q")
    temporal = Path(sys.executable).with_name("temporal")
    for word, expected in (("pause", PAUSED), ("unpause", RUNNING)):
        command = [str(temporal), "workflow", word, "-w", "officially", "--address", server.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done
        assert await status(client, handle) == expected


async def test_a_rule_outlives_the_server(server: SegnoServer) -> None:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    spec = WorkflowRuleSpec(id="stop-payments", actions=[WorkflowRuleAction(activity_pause={})])
    spec.activity_start.predicate = "ActivityType = 'echo'"
    create = CreateWorkflowRuleRequest(namespace=NAMESPACE, spec=spec, identity="ann", description="bank is down")
    await client.workflow_service.create_workflow_rule(create)
    server.kill()
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    async with Worker(
        client,
        task_queue="q",
        workflows=[CallActivity],
        activities=[echo],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        handle = await client.start_workflow(CallActivity.run, args=["echo", ["hello"], {"start_to_close_timeout": 10}], id="stopped", task_queue="q")

        async def is_paused() -> bool:
            described = await handle.describe()
            return any(pending.paused for pending in described.raw_description.pending_activities)

        await eventually(is_paused)
        why = segno(server, "workflow", "why", "-w", "stopped").stdout
        assert "has been paused by the workflow rule stop-payments" in why, why
        delete = DeleteWorkflowRuleRequest(namespace=NAMESPACE, rule_id="stop-payments")
        await client.workflow_service.delete_workflow_rule(delete)
        unpause = UnpauseActivityRequest(
            namespace=NAMESPACE, execution=WorkflowExecution(workflow_id="stopped"), unpause_all=True
        )
        await client.workflow_service.unpause_activity(unpause)
        assert await asyncio.wait_for(handle.result(), 20) == "hello"


async def test_it_is_off_unless_the_server_is_told(env: Env) -> None:
    handle = await env.client.start_workflow(Waiter.run, id=env.id, task_queue=env.task_queue)
    with pytest.raises(RPCError) as refused:
        await pause(env.client, handle)
    assert refused.value.status == RPCStatusCode.UNIMPLEMENTED
    assert str(refused.value) == "workflow pause is not enabled for namespace: default"
