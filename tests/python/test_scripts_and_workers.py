"""Scripts and workers that have a workflow of the same name: who executes a start."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity, workflow
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleSpec,
    WorkflowHandle,
)
from temporalio.common import RawValue
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import NAMESPACE, SegnoServer, segno_binary
from scripts import Flows, eventually, start


@activity.defn(name="echo")
async def echo(value: Any) -> Any:
    return value


@workflow.defn(dynamic=True)
class Code:
    """A workflow of any name, which says that it is code, or starts a child on its own queue."""

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> str:
        if not args:
            return "workers"
        return await workflow.execute_child_workflow(workflow.payload_converter().from_payload(args[0].payload))


def script(name: str, body: str = 'return "script"') -> str:
    return f"workflow {name}() {{ {body} }}"


def fresh(prefix: str = "greet") -> str:
    return f"{prefix}_{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    directory = tmp_path_factory.mktemp("scripts")
    server = SegnoServer(log=directory / "server.log", data_dir=directory / "data")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def flows(server: SegnoServer) -> Flows:
    return Flows(f"127.0.0.1:{server.http_port}")


@pytest_asyncio.fixture
async def client(server: SegnoServer) -> Client:
    return await Client.connect(server.address, namespace=NAMESPACE)


@asynccontextmanager
async def workers(client: Client, queue: str) -> AsyncIterator[None]:
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=queue, workflows=[Code], activities=[echo], workflow_runner=runner):
        yield


def segno(server: SegnoServer, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(segno_binary()), *words, "--address", server.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


async def polls(client: Client, queue: str) -> bool:
    """Whether a worker polls a queue for workflow tasks."""
    request = DescribeTaskQueueRequest(namespace=NAMESPACE, task_queue=TaskQueue(name=queue), task_queue_type=1)
    return bool((await client.workflow_service.describe_task_queue(request)).pollers)


async def is_script(handle: WorkflowHandle) -> bool:
    return "SegnoFlowVersion" in (await handle.describe()).search_attributes


@pytest.mark.asyncio
async def test_workers_keep_what_is_started_on_their_queue(client: Client, flows: Flows) -> None:
    name, queue = fresh(), fresh("queue")
    flows.deploy(script(name))
    async with workers(client, queue):
        # At once: the worker has not polled yet.
        first = await client.start_workflow(name, id=fresh("first"), task_queue=queue)
        assert await first.result() == "workers"
        again = await client.start_workflow(name, id=fresh("again"), task_queue=queue)
        assert await again.result() == "workers"
        elsewhere = await start(client, name, fresh("script"))
        assert await elsewhere.result() == "script"
    # The worker is gone: the type stays with it on its queue, and runs on others are the script's.
    late = await client.start_workflow(name, id=fresh("late"), task_queue=queue)
    assert not await is_script(late)
    other = await client.start_workflow(name, id=fresh("other"), task_queue=fresh("queue"))
    assert await other.result() == "script"
    async with workers(client, queue):
        assert await late.result() == "workers"


@pytest.mark.asyncio
async def test_a_restart_does_not_hand_the_type_over(tmp_path: Path) -> None:
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "data")
    server.start()
    try:
        client, name, queue = await Client.connect(server.address), fresh(), fresh("queue")
        Flows(f"127.0.0.1:{server.http_port}").deploy(script(name))
        async with workers(client, queue):
            first = await client.start_workflow(name, id=fresh("first"), task_queue=queue)
            assert await first.result() == "workers"
        server.kill()
        server.start()
        client = await Client.connect(server.address)
        handle = await client.start_workflow(name, id=fresh("after"), task_queue=queue)
        assert not await is_script(handle)
        handle = await client.start_workflow(name, id=fresh("other"), task_queue=fresh("queue"))
        assert await is_script(handle)
    finally:
        server.kill()


@pytest.mark.asyncio
async def test_a_queue_with_workers_for_activities_alone_is_no_obstacle(client: Client, flows: Flows) -> None:
    name, queue = fresh(), fresh("queue")
    flows.deploy(script(name, 'return await Task.run("echo", "from the queue of the start")'))
    async with Worker(client, task_queue=queue, activities=[echo]):
        handle = await client.start_workflow(name, id=fresh("w"), task_queue=queue)
        assert await handle.result() == "from the queue of the start"


@pytest.mark.asyncio
async def test_a_script_that_takes_over_executes_its_type_everywhere(
    client: Client, server: SegnoServer, flows: Flows, tmp_path: Path
) -> None:
    name, queue = fresh(), fresh("queue")
    async with workers(client, queue):
        assert await client.execute_workflow(name, id=fresh("code"), task_queue=queue) == "workers"
        # What workers executed within a day is not taken over silently.
        text = f'workers have run "{name}" on task queue "{queue}" in the last day'
        refused = flows.call("POST", "/flows", script(name).encode())
        assert (refused.status, refused.body["message"]) == (400, text)
        stored = flows.deploy(script(name), activate=False)
        refused = flows.call("POST", f"/flows/{name}:activate", version=stored["version"])
        assert (refused.status, refused.body["message"]) == (400, text)
        (tmp_path / "greet.flow").write_text(script(name))
        done = segno(server, "flow", "deploy", str(tmp_path))
        assert done.returncode != 0 and text in done.stderr and "--take-over" in done.stderr, done.stderr
        done = segno(server, "flow", "deploy", "--take-over", str(tmp_path))
        assert done.returncode == 0, done.stderr
        assert flows.call("GET", f"/flows/{name}").body["takes_over"] is True
        assert await client.execute_workflow(name, id=fresh("taken"), task_queue=queue) == "script"
        # It is so until the name is deleted.
        flows.deploy(script(name, 'return "newer"'))
        assert await client.execute_workflow(name, id=fresh("taken"), task_queue=queue) == "newer"


@pytest.mark.asyncio
async def test_what_waited_in_vain_for_a_worker_is_no_type_of_workers(client: Client, flows: Flows) -> None:
    name, queue = fresh(), fresh("queue")
    waits = await client.start_workflow(name, id=fresh("waits"), task_queue=queue)
    assert flows.call("POST", "/flows", script(name).encode()).status == 400
    await waits.terminate()
    flows.deploy(script(name))
    assert await client.execute_workflow(name, id=fresh("now"), task_queue=queue) == "script"


@pytest.mark.asyncio
async def test_the_start_may_ask_for_the_script(client: Client, server: SegnoServer, flows: Flows) -> None:
    name, queue = fresh(), fresh("queue")
    flows.deploy(script(name))
    async with workers(client, queue):
        assert await client.execute_workflow(name, id=fresh("code"), task_queue=queue) == "workers"
        done = segno(server, "flow", "run", name, "-t", queue)
        assert (done.returncode, done.stdout) == (0, '"script"\n'), done.stderr


@pytest.mark.asyncio
async def test_children_on_the_queue_of_their_parent_name_no_queue(client: Client, flows: Flows) -> None:
    child, parent, queue = fresh("child"), fresh("parent"), fresh("queue")
    flows.deploy(script(child))
    flows.deploy(script(parent, f'return await Workflow.run("{child}")'))
    of_code = fresh("code_parent")
    async with workers(client, queue):
        assert await client.execute_workflow(of_code, child, id=fresh("code"), task_queue=queue) == "script"
        handle = await start(client, parent, fresh("parent"))
        assert await handle.result() == "script"
    # Here workers have executed the child before.
    async with workers(client, queue):
        await eventually(lambda: polls(client, queue))
        assert await client.execute_workflow(child, id=fresh("named"), task_queue=queue) == "workers"

        async def by_workers() -> bool:
            return await client.execute_workflow(of_code, child, id=fresh("code"), task_queue=queue) == "workers"

        await eventually(by_workers)


@pytest.mark.asyncio
async def test_a_schedule_names_a_queue_too(client: Client, flows: Flows) -> None:
    name, queue = fresh(), fresh("queue")
    flows.deploy(script(name))
    async with workers(client, queue):
        assert await client.execute_workflow(name, id=fresh("code"), task_queue=queue) == "workers"
        workflow_id = fresh("scheduled")
        action = ScheduleActionStartWorkflow(name, id=workflow_id, task_queue=queue)
        every_day = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(days=1))])
        schedule = await client.create_schedule(
            fresh("schedule"), Schedule(action=action, spec=every_day), trigger_immediately=True
        )

        async def has_started() -> bool:
            return bool((await schedule.describe()).info.recent_actions)

        await eventually(has_started)
        taken = (await schedule.describe()).info.recent_actions[0].action
        assert await client.get_workflow_handle(taken.workflow_id).result() == "workers"
        await schedule.delete()


@pytest.mark.asyncio
async def test_it_is_said_who_executes_a_run(client: Client, server: SegnoServer, flows: Flows) -> None:
    name, queue = fresh(), fresh("queue")
    flows.deploy(script(name, 'await wait_for_signal("go")'))
    by_script = await client.start_workflow(name, id=fresh("w"), task_queue=fresh("queue"))
    told = segno(server, "workflow", "why", "-w", by_script.id).stdout
    assert told.startswith(f"Workflow {by_script.id} ({name}) is running, executed by script {name}.\n"), told
    done = segno(server, "workflow", "start", "--type", name, "-t", fresh("queue"), "-w", fresh("w"))
    assert f"segno: executed by script {name}\n" in done.stderr, done.stderr
    async with workers(client, queue):
        assert await client.execute_workflow(name, id=fresh("code"), task_queue=queue) == "workers"
    waits = await client.start_workflow(name, id=fresh("waits"), task_queue=queue)
    told = segno(server, "workflow", "why", "-w", waits.id).stdout
    assert told.startswith(f"Workflow {waits.id} ({name}) is running.\n"), told
    assert f'Workers of task queue "{queue}" execute it, and not the script {name}' in told, told
    done = segno(server, "workflow", "start", "--type", name, "-t", queue, "-w", fresh("w"))
    assert "executed by" not in done.stderr, done.stderr


@pytest.mark.asyncio
async def test_schedules_in_scripts_are_listed(client: Client, server: SegnoServer, flows: Flows) -> None:
    name = fresh("report")
    flows.deploy(f'schedule("0 6 * * *", {{ zone: "UTC" }})\n{script(name)}')
    listed = segno(server, "schedule", "list")
    line = next(line for line in listed.stdout.splitlines() if f"flow-schedule/{name}" in line)
    assert f"script {name}" in line and "06:00:00" in line, listed.stdout
    as_json = segno(server, "schedule", "list", "-o", "json").stdout
    assert f'"scheduleId": "flow-schedule/{name}"' in as_json, as_json
    assert "flow-schedule" not in segno(server, "schedule", "list", "-q", "TemporalSchedulePaused = true").stdout
