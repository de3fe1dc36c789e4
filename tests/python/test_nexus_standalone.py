"""Nexus operations without a workflow, through the SDK, and operations behind which there is an activity or an update; on servers
that are killed."""

from __future__ import annotations

import asyncio
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from temporalio import workflow
from temporalio.api.common.v1 import ActivityType, Callback, Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import CallbackState
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.update.v1 import Input, Meta, Request, WaitPolicy
from temporalio.api.workflowservice import v1 as requests
from temporalio.api.workflowservice.v1 import (
    DescribeActivityExecutionRequest,
    PollActivityTaskQueueRequest,
    RespondActivityTaskCompletedRequest,
    StartActivityExecutionRequest,
    UpdateWorkflowExecutionRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.client import (
    Client,
    NexusOperationFailureError,
    NexusOperationHandle,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import NexusOperationIDReusePolicy
from temporalio.exceptions import CancelledError, NexusOperationAlreadyStartedError, TerminatedError, TimeoutError

from flows import Waiter
from helpers import NAMESPACE, SWITCHED_ON, Env, SegnoServer, eventually, segno_binary
from nexus import Nexus, Sample, happened, operation_events, prepare
from nodes import Cluster
from test_durable_restart import BOTH_WAYS, connect, restart
from test_nexus_cluster import reconnected
from test_nexus_tokens import Handler, async_success, raw_handler, refused

CALLS = ("Start", "Describe", "Poll", "RequestCancel", "Terminate", "Delete")


@pytest.fixture
def switched_on(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SegnoServer]:
    """A server with a data directory that allows all of it, not started yet."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "data", flags=SWITCHED_ON)
    try:
        yield server
    finally:
        server.kill()


async def served(server: SegnoServer, name: str) -> Nexus:
    """Starts the server, with a caller, a handler and an endpoint."""
    server.start()
    return await prepare(await connect(server, name))


async def start(nexus: Nexus, operation: Any, input: Any, id: str = "o", **options: Any) -> NexusOperationHandle[Any]:
    """Starts an operation of the handlers."""
    client = nexus.caller.client.create_nexus_client(Sample, nexus.endpoint.spec.name)
    return await client.start_operation(operation, input, id=id, **options)


async def start_flow(nexus: Nexus, id: str = "o", **options: Any) -> NexusOperationHandle[Any]:
    """Starts an operation behind which there is a workflow; returns when that has started."""
    handle = await start(nexus, Sample.flow, nexus.flow("Waiter"), id, **options)

    async def token() -> str | None:
        return (await handle.describe()).operation_token

    await eventually(token)
    return handle


async def test_all_calls_are_refused_by_default(env: Env) -> None:
    async with env.raw() as stub:
        for name in [*(f"{call}NexusOperationExecution" for call in CALLS), "ListNexusOperationExecutions"]:
            error = await refused(call(stub, name))
            assert (error.code(), error.details()) == (
                grpc.StatusCode.UNIMPLEMENTED,
                "Standalone Nexus operation is disabled",
            )


def call(stub: WorkflowServiceStub, name: str, **fields: Any) -> Any:
    """Any call of the workflow service."""
    return getattr(stub, name)(getattr(requests, f"{name}Request")(namespace=NAMESPACE, **fields), timeout=20)


async def test_executes(switched_on: SegnoServer) -> None:
    """Results and failures reach the client; lists have operations, and lists of workflows do not."""
    nexus = await served(switched_on, "executes")
    client = nexus.caller.client
    async with nexus.serving():
        assert await (await start(nexus, Sample.echo, {"n": 1})).result() == {"n": 1}
        handle = await start_flow(nexus, "flow")
        behind = nexus.handler.handle()
        await behind.signal(Waiter.add, 7)
        await behind.signal(Waiter.finish)
        assert await handle.result() == [7]
        with pytest.raises(NexusOperationFailureError):
            await (await start(nexus, Sample.unsuccessful, "failed", "bad")).result()
        with pytest.raises(NexusOperationAlreadyStartedError):
            policy = NexusOperationIDReusePolicy.REJECT_DUPLICATE
            await start(nexus, Sample.echo, 1, id_reuse_policy=policy)
    mine = f"Endpoint = '{nexus.endpoint.spec.name}'"
    found = [each.operation_id async for each in client.list_nexus_operations(f"{mine} AND ExecutionStatus = 'Failed'")]
    assert found == ["bad"]
    assert (await client.count_nexus_operations(mine)).count == 3
    assert [each async for each in client.list_workflows("")] == []


async def test_cancels_and_terminates(switched_on: SegnoServer) -> None:
    nexus = await served(switched_on, "ends")
    async with nexus.serving():
        handle = await start_flow(nexus)
        await handle.cancel(reason="enough")
        with pytest.raises(NexusOperationFailureError) as failed:
            await handle.result()
        assert isinstance(failed.value.cause, CancelledError)
    waiting = await start(nexus, Sample.echo, 1, "waits")
    await waiting.terminate(reason="enough")
    with pytest.raises(NexusOperationFailureError) as failed:
        await waiting.result()
    assert isinstance(failed.value.cause, TerminatedError)
    late = await start(nexus, Sample.echo, 1, "late", schedule_to_start_timeout=timedelta(seconds=1))
    with pytest.raises(NexusOperationFailureError) as failed:
        await late.result()
    assert isinstance(failed.value.cause, TimeoutError)


@BOTH_WAYS
async def test_operations_outlive_the_server(switched_on: SegnoServer, how: str) -> None:
    """One waits for a worker, one for the workflow behind it, one is over; each ends once."""
    nexus = await served(switched_on, "outlives")
    async with nexus.serving():
        over = await start(nexus, Sample.echo, "kept", "over")
        assert await over.result() == "kept"
        handle = await start_flow(nexus, "flow")
    waiting = await start(nexus, Sample.echo, "later", "waits")
    before = await handle.describe()

    await restart(switched_on, how)

    await eventually(over.result, 20)
    assert await over.result() == "kept"
    assert (await handle.describe()).raw_description == before.raw_description
    async with nexus.serving():
        assert await waiting.result() == "later"
        await nexus.handler.handle().signal(Waiter.finish)
        assert await handle.result() == []
    assert len(nexus.handlers.starts) == 3


async def test_people_see_what_it_waits_for(switched_on: SegnoServer) -> None:
    """The command that explains workflows, and the pages, know the run behind an operation."""
    nexus = await served(switched_on, "seen")
    await start(nexus, Sample.echo, 1)
    workflow_id = "temporal-sys-nexus-operation:o"
    command = [str(segno_binary()), "workflow", "why", "--address", switched_on.address, "--workflow-id", workflow_id]
    said = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=20)
    assert f'of endpoint "{nexus.endpoint.spec.name}" has waited' in said.stdout, said

    def page(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{switched_on.http_port}{path}", timeout=10) as response:
            return response.read().decode()

    for path in (f"/ui/{NAMESPACE}/workflows/{workflow_id}", f"/ui/{NAMESPACE}/workflows"):
        text = await asyncio.to_thread(page, path)
        assert "<html" in text.lower() and ("Sample.echo" in text or path.endswith("workflows")), path


# -- activities and updates behind operations ---------------------------------------------


def callback_of(task: Any) -> Callback:
    """The callback that came with a task, as SDKs attach it."""
    asked = task.request.start_operation
    header = {**asked.callback_header, "nexus-operation-token": "token"}
    return Callback(nexus=Callback.Nexus(url=asked.callback, header=header))


def payloads(data: bytes) -> Payloads:
    return Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=data)])


async def start_activity(handler: Handler, task: Any) -> None:
    """Starts the activity that carries out an operation."""
    request = StartActivityExecutionRequest(
        namespace=handler.namespace,
        activity_id="a",
        activity_type=ActivityType(name="act"),
        task_queue=TaskQueue(name="acts"),
        request_id=task.request.start_operation.request_id,
        completion_callbacks=[callback_of(task)],
    )
    request.start_to_close_timeout.FromSeconds(60)
    await handler.stub.StartActivityExecution(request, timeout=10)


@BOTH_WAYS
async def test_an_activity_completes_an_operation(switched_on: SegnoServer, how: str) -> None:
    """The server goes down while the activity waits for a worker."""
    nexus = await served(switched_on, "activity")
    async with raw_handler(nexus) as handler:
        handle = await nexus.start("echo")
        task = await handler.poll()
        await start_activity(handler, task)
        await handler.complete(task.task_token, async_success("token"))
        await happened(handle, "NexusOperationStarted")

        await restart(switched_on, how)

        await eventually(handle.describe, 20)
        polled = PollActivityTaskQueueRequest(namespace=handler.namespace, task_queue=TaskQueue(name="acts"))
        attempt = await handler.stub.PollActivityTaskQueue(polled, timeout=20)
        done = RespondActivityTaskCompletedRequest(
            namespace=handler.namespace, task_token=attempt.task_token, result=payloads(b'"by an activity"')
        )
        await handler.stub.RespondActivityTaskCompleted(done, timeout=10)
        assert await handle.result() == "by an activity"

        async def delivered() -> bool:
            request = DescribeActivityExecutionRequest(namespace=handler.namespace, activity_id="a")
            described = await handler.stub.DescribeActivityExecution(request, timeout=10)
            return [each.info.state for each in described.callbacks] == [CallbackState.CALLBACK_STATE_SUCCEEDED]

        await eventually(delivered)
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_callbacks_of_activities_are_refused_by_default(env: Env) -> None:
    nexus = await prepare(env)
    async with raw_handler(nexus) as handler:
        await nexus.start("echo")
        error = await refused(start_activity(handler, await handler.poll()))
    assert error.details() == "completion callbacks are not enabled for this namespace"


@workflow.defn
class Updated:
    """Its update ends with the signal `finish`."""

    def __init__(self) -> None:
        self.finished = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.update
    async def finish_later(self) -> str:
        await workflow.wait_condition(lambda: self.finished)
        return "by an update"

    @workflow.signal
    def finish(self) -> None:
        self.finished = True


async def send_update(handler: Handler, task: Any, workflow_id: str) -> None:
    """Sends the update that carries out an operation, and waits until it is accepted."""
    request = UpdateWorkflowExecutionRequest(
        namespace=handler.namespace,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id),
        wait_policy=WaitPolicy(lifecycle_stage=2),
        request=Request(
            meta=Meta(update_id="u"),
            input=Input(name="finish_later"),
            request_id=task.request.start_operation.request_id,
            completion_callbacks=[callback_of(task)],
        ),
    )
    await handler.stub.UpdateWorkflowExecution(request, timeout=20)


async def by_update(nexus: Nexus, handler: Handler) -> tuple[WorkflowHandle[Any, Any], WorkflowHandle[Any, Any]]:
    """An operation that an accepted update carries out: its caller, and the workflow of the update."""
    updated = await nexus.handler.start(Updated)
    caller = await nexus.start("echo")
    task = await handler.poll()
    await send_update(handler, task, updated.id)
    await handler.complete(task.task_token, async_success("token"))
    await happened(caller, "NexusOperationStarted")
    return caller, updated


@BOTH_WAYS
async def test_an_update_completes_an_operation(switched_on: SegnoServer, how: str) -> None:
    """The server goes down after the update was accepted."""
    nexus = await served(switched_on, "update")
    async with raw_handler(nexus) as handler, nexus.handler.worker(Updated):
        caller, updated = await by_update(nexus, handler)

        await restart(switched_on, how)

        await eventually(updated.describe, 20)
        await updated.signal(Updated.finish)
        assert await caller.result() == "by an update"
    assert await operation_events(caller) == ["Scheduled", "Started", "Completed"]


async def test_an_update_of_a_workflow_that_closes_fails_its_operation(switched_on: SegnoServer) -> None:
    nexus = await served(switched_on, "closes")
    async with raw_handler(nexus) as handler, nexus.handler.worker(Updated):
        caller, updated = await by_update(nexus, handler)
        await updated.terminate()
        with pytest.raises(WorkflowFailureError):
            await caller.result()
    assert await operation_events(caller) == ["Scheduled", "Started", "Failed"]


async def test_callbacks_of_updates_have_no_effect_by_default(env: Env) -> None:
    nexus = await prepare(env)
    async with raw_handler(nexus) as handler, nexus.handler.worker(Updated):
        caller, updated = await by_update(nexus, handler)
        await updated.signal(Updated.finish)
        assert not (await updated.describe()).raw_description.callbacks
        await asyncio.sleep(1)
        assert await operation_events(caller) == ["Scheduled", "Started"]
    await caller.terminate()


# -- two nodes ----------------------------------------------------------------------------


async def test_an_operation_between_two_nodes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The client is connected to one node, the handler to the other."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    cluster = Cluster(tmp_path, size=2)
    try:
        for node in cluster.nodes:
            node.flags += ["--nexus-standalone"]
        cluster.start()
        one, two = cluster.nodes
        nexus = await prepare(Env(one.address, await Client.connect(one.address, namespace=NAMESPACE), "nodes"))
        nexus.handler = await reconnected(nexus.handler, two.address)
        async with nexus.serving():
            # So many that each node has some.
            handles = [await start(nexus, Sample.echo, number, f"o-{number}") for number in range(8)]
            assert [await handle.result() for handle in handles] == list(range(8))
            other = await Client.connect(two.address, namespace=NAMESPACE)
            for number in range(8):
                assert await other.get_nexus_operation_handle(f"o-{number}").result() == number
    finally:
        cluster.stop()
