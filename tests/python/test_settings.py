"""Settings of a namespace: entries of its data whose names begin with `segno.`."""

from __future__ import annotations

import asyncio
import urllib.request
from datetime import timedelta
from typing import Awaitable

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import WorkerStatus
from temporalio.api.namespace.v1 import UpdateNamespaceInfo
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.api.workflowservice.v1 import (
    PollActivityTaskQueueRequest,
    RecordWorkerHeartbeatRequest,
    RegisterNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import SegnoServer, event_counts, raises
from scripts import Flows, event_types, eventually
from updating import ADMITTED, Basket, update_request

IN_FLIGHT = "segno.update.in-flight-max"
TOTAL = "segno.update.total-max"
SPECULATIVE_WAIT = "segno.update.speculative-wait-ms"
DISCARDED_EVENTS = "segno.update.discarded-events-max"
REGISTRATIONS = "segno.limit.worker-registrations-per-second"


async def namespace_with(client: Client, name: str, settings: dict[str, str]) -> None:
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name,
            workflow_execution_retention_period=Duration(seconds=86400),
            data=settings,
        )
    )


async def set_in(client: Client, name: str, settings: dict[str, str]) -> None:
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=name, update_info=UpdateNamespaceInfo(data=settings))
    )


@pytest.fixture
def own(durable_server: SegnoServer) -> SegnoServer:
    """Settings mean nothing to another server, so each test starts Segno itself."""
    durable_server.start()
    return durable_server


async def admitted(client: Client, namespace: str, workflow_id: str, id: str) -> None:
    request = update_request(workflow_id, "add", 1, id=id, stage=ADMITTED)
    request.namespace = namespace
    await client.workflow_service.update_workflow_execution(request, retry=False)


async def start(client: Client, namespace: str, workflow_id: str) -> None:
    there = await Client.connect(client.service_client.config.target_host, namespace=namespace)
    await there.start_workflow(
        Basket.run, id=workflow_id, task_queue="settings", run_timeout=timedelta(minutes=1)
    )


async def test_limits_of_updates_are_set_per_namespace(own: SegnoServer) -> None:
    client = await Client.connect(own.address)
    await namespace_with(client, "small", {IN_FLIGHT: "2", "team": "blue"})
    for namespace in ("small", "default"):
        await start(client, namespace, "w")
        for id in ("u1", "u2"):
            await admitted(client, namespace, "w", id)
    await admitted(client, "default", "w", "u3")
    refused = await raises(RPCError, admitted(client, "small", "w", "u3"))
    assert refused.status == RPCStatusCode.RESOURCE_EXHAUSTED
    assert refused.message.endswith("has been reached (2)")

    # In effect at once, also for runs that are there; kept over a restart.
    await set_in(client, "small", {IN_FLIGHT: "3"})
    await admitted(client, "small", "w", "u3")
    own.kill()
    own.start()
    client = await Client.connect(own.address)
    refused = await raises(RPCError, admitted(client, "small", "w", "u4"))
    assert refused.message.endswith("has been reached (3)")
    await set_in(client, "small", {IN_FLIGHT: ""})
    await admitted(client, "small", "w", "u4")
    await set_in(client, "small", {TOTAL: "4"})
    refused = await raises(RPCError, admitted(client, "small", "w", "u5"))
    assert refused.status == RPCStatusCode.FAILED_PRECONDITION


@workflow.defn
class Waits:
    """A workflow whose first task schedules a timer, so that the next one has an event that the worker has not seen."""

    @workflow.run
    async def run(self) -> None:
        await asyncio.sleep(3600)

    @workflow.update
    async def ask(self) -> None: ...

    @ask.validator
    def refuses(self) -> None:
        raise ValueError("no")


async def test_events_of_discarded_tasks_are_set_per_namespace(own: SegnoServer) -> None:
    """A rejected update leaves no trace, unless its task had more events than may be discarded."""
    client = await Client.connect(own.address)
    completed: dict[str, int] = {}
    for namespace, settings in (("some", {}), ("none", {DISCARDED_EVENTS: "0"})):
        await namespace_with(client, namespace, settings)
        there = await Client.connect(own.address, namespace=namespace)
        async with Worker(there, task_queue="w", workflows=[Waits], workflow_runner=UnsandboxedWorkflowRunner()):
            handle = await there.start_workflow(Waits.run, id="w", task_queue="w")

            async def waits() -> bool:
                return (await event_counts(handle))["TimerStarted"] == 1

            await eventually(waits)
            await raises(WorkflowUpdateFailedError, handle.execute_update(Waits.ask))
        completed[namespace] = (await event_counts(handle))["WorkflowTaskCompleted"]
    assert completed == {"some": 1, "none": 2}


async def test_the_wait_of_speculative_tasks_is_set_per_namespace(own: SegnoServer) -> None:
    """A speculative task that no worker takes times out, and a normal one follows it."""
    client = await Client.connect(own.address)
    timed_out: dict[str, int] = {}
    for namespace, wait in (("long", "600000"), ("short", "100")):
        await namespace_with(client, namespace, {SPECULATIVE_WAIT: wait})
        there = await Client.connect(own.address, namespace=namespace)
        # Without a cache the worker has no sticky queue, which has a time-out of its own.
        runner = UnsandboxedWorkflowRunner()
        async with Worker(there, task_queue="w", workflows=[Waits], workflow_runner=runner, max_cached_workflows=0):
            handle = await there.start_workflow(Waits.run, id="w", task_queue="w")

            async def waits() -> bool:
                return (await event_counts(handle))["TimerStarted"] == 1

            await eventually(waits)
        asked = asyncio.create_task(handle.execute_update(Waits.ask))
        # Shorter than the default, so that only the setting can be what makes the difference.
        await asyncio.sleep(2)
        timed_out[namespace] = (await event_counts(handle))["WorkflowTaskTimedOut"]
        asked.cancel()
    assert timed_out == {"long": 0, "short": 1}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("segno.update.in-flight", "1", "is not a setting. Settings are segno.update."),
        (IN_FLIGHT, "many", "must be a whole number"),
        (TOTAL, "-1", "must be a whole number"),
        (SPECULATIVE_WAIT, "0", "must be a whole number from 1 to 600000"),
        (DISCARDED_EVENTS, "10001", "must be a whole number from 0 to 10000"),
    ],
)
async def test_mistakes_are_refused(own: SegnoServer, name: str, value: str, says: str) -> None:
    client = await Client.connect(own.address)
    for call in (
        namespace_with(client, "wrong", {name: value}),
        set_in(client, "default", {name: value}),
    ):
        refused = await raises(RPCError, call)
        assert refused.status == RPCStatusCode.INVALID_ARGUMENT
        assert refused.message.startswith(name) and says in refused.message


SPINS = """workflow spins(n) {
  await Task.delay(0)
  let i = 0
  while (i < n) { i += 1 }
  return i
}
"""
GROWS = 'workflow grows(n) { let a = []; while (a.length < n) { a.push(`element ${a.length}`) } await wait_for_signal("go"); return 1 }'
LOOPS = """workflow loops(n) {
  let i = 0
  while (i < n) { await Task.delay("1ms"); i += 1 }
  await wait_for_signal("go")
  return i
}
"""


async def test_limits_of_scripts_are_set_per_namespace(own: SegnoServer) -> None:
    client = await Client.connect(own.address)
    settings = {
        "segno.flow.steps-max": "20000",
        "segno.flow.state-bytes-max": "5000",
        "segno.flow.history-events-kept": "50",
    }
    await namespace_with(client, "small", settings)
    there = await Client.connect(own.address, namespace="small")
    flows = Flows(f"127.0.0.1:{own.http_port}", "small")
    for source in (SPINS, GROWS, LOOPS):
        flows.deploy(source)

    async def failure_of(name: str, argument: int) -> str:
        workflow_id = f"{name}-{argument}"
        handle = await there.start_workflow(name, argument, id=workflow_id, task_queue="segno-flow")
        error = await raises(WorkflowFailureError, handle.result())
        return error.cause.message

    assert await there.execute_workflow("spins", 100, id="s", task_queue="segno-flow") == 100
    assert await failure_of("spins", 100_000) == "step limit of 20000 reached"
    assert await failure_of("grows", 1000) == "state limit of 5000 bytes reached"
    handle = await there.start_workflow("loops", 60, id="l", task_queue="segno-flow")

    async def compacted() -> bool:
        return "MARKER_RECORDED" in await event_types(handle)

    await eventually(compacted, 60)
    assert len(await event_types(handle)) < 200
    # In effect for the next turn.
    await set_in(client, "small", {"segno.flow.steps-max": ""})
    assert await there.execute_workflow("spins", 100_000, id="s2", task_queue="segno-flow") == 100_000
    await handle.signal("go")
    assert await handle.result() == 60
    error = await raises(RPCError, set_in(client, "small", {"segno.flow.steps-max": "0"}))
    assert error.status == RPCStatusCode.INVALID_ARGUMENT


async def test_sizes_of_states_are_measured(own: SegnoServer) -> None:
    client = await Client.connect(own.address)
    flows = Flows(f"127.0.0.1:{own.http_port}")
    flows.deploy(GROWS)
    for n in (1, 1000):
        await client.start_workflow("grows", n, id=f"g-{n}", task_queue="segno-flow")
    lines: dict[str, str] = {}

    async def both_took_their_turn() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{own.http_port}/metrics", timeout=5) as reply:
            lines.update(line.rsplit(" ", 1) for line in reply.read().decode().splitlines() if line[0] != "#")
        return lines["segno_flow_state_bytes_count"] == "2"

    await eventually(both_took_their_turn)
    assert lines['segno_flow_state_bytes_bucket{le="+Inf"}'] == "2"
    assert lines['segno_flow_state_bytes_bucket{le="4096"}'] == "1"
    assert int(lines["segno_flow_state_bytes_sum"]) > 10_000


async def test_registrations_of_workers_are_limited(own: SegnoServer) -> None:
    """Ten seconds' worth may come at once. A worker that is known is not affected, nor is another namespace."""
    client = await Client.connect(own.address)
    await namespace_with(client, "small", {REGISTRATIONS: "1"})

    async def report(namespace: str, worker: str) -> None:
        heartbeat = WorkerHeartbeat(worker_instance_key=worker, status=WorkerStatus.WORKER_STATUS_RUNNING)
        request = RecordWorkerHeartbeatRequest(namespace=namespace, worker_heartbeat=[heartbeat])
        await client.workflow_service.record_worker_heartbeat(request, retry=False)

    async def poll(namespace: str, worker: str) -> None:
        request = PollActivityTaskQueueRequest(
            namespace=namespace, task_queue=TaskQueue(name="q"), worker_instance_key=worker
        )
        await client.workflow_service.poll_activity_task_queue(request, retry=False, timeout=timedelta(seconds=2))

    for number in range(5):
        await report("small", f"reported-{number}")
    for number in range(5):
        await poll_briefly(poll("small", f"polled-{number}"))
    # Time passes meanwhile.
    refused = None
    for number in range(20):
        try:
            await report("small", f"more-{number}")
        except RPCError as error:
            refused = error
            break
    assert refused is not None and refused.status == RPCStatusCode.RESOURCE_EXHAUSTED
    assert refused.message.startswith("1 workers a second may register in the namespace; try again later")
    details = [detail.type_url for detail in refused.grpc_status.details]
    assert details == [
        "type.googleapis.com/temporal.api.errordetails.v1.ResourceExhaustedFailure",
        "type.googleapis.com/google.rpc.RetryInfo",
    ]
    assert (await raises(RPCError, poll("small", "unknown"))).status == RPCStatusCode.RESOURCE_EXHAUSTED
    await report("small", "reported-0")
    await report("default", "other")
    await set_in(client, "small", {REGISTRATIONS: "0"})
    for number in range(30):
        await report("small", f"unlimited-{number}")


async def poll_briefly(poll: Awaitable[None]) -> None:
    """The poll begins, which is what counts."""
    waiting = asyncio.ensure_future(poll)
    await asyncio.sleep(0.2)
    assert not waiting.done()
    waiting.cancel()
