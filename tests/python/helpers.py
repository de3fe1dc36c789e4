"""Helpers shared by the end-to-end tests: server process, test environment, history readers."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import socket
import subprocess
import time
import urllib.request
import uuid
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, AsyncIterator, Awaitable, Callable, Sequence

import grpc
from google.protobuf.json_format import MessageToDict
from temporalio.api.command.v1 import Command, CompleteWorkflowExecutionCommandAttributes
from temporalio.api.common.v1 import WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import CommandType, EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    GetClusterInfoRequest,
    GetSystemInfoRequest,
    PollWorkflowTaskQueueRequest,
    PollWorkflowTaskQueueResponse,
    RespondWorkflowTaskCompletedRequest,
    RespondWorkflowTaskCompletedResponse,
    StartWorkflowExecutionRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

NAMESPACE = "default"

# A body that hangs must fail before pytest-timeout cuts it off, so that its workers get stopped.
BODY_TIMEOUT = 45.0


_given_ports: set[int] = set()


def free_port() -> int:
    """A free TCP port, another one with each call.

    It lies below the ephemeral ports, so that no outgoing connection takes it during a restart. Processes that run tests
    side by side have ports of their own.
    """
    process = int(re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or 0) % 4
    while True:
        port = 20000 + 2500 * process + random.randrange(2500)
        if port in _given_ports and len(_given_ports) < 2000:
            continue
        _given_ports.add(port)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def segno_binary() -> Path:
    """The server binary: $SEGNO_BIN, else the release build of this checkout."""
    default = Path(__file__).resolve().parent / "../../target/debug/segno"
    return Path(os.environ.get("SEGNO_BIN", default)).resolve()


def answers(address: str) -> bool:
    """True if GetSystemInfo succeeds at this address."""
    with grpc.insecure_channel(address) as channel:
        try:
            WorkflowServiceStub(channel).GetSystemInfo(GetSystemInfoRequest(), timeout=1)
            return True
        except grpc.RpcError:
            return False


def is_segno(address: str) -> bool:
    """False if it is another server, as Temporal's own."""
    with grpc.insecure_channel(address) as channel:
        info = WorkflowServiceStub(channel).GetClusterInfo(GetClusterInfoRequest(), timeout=5)
        return info.cluster_id == "segno"


def scratch_storage() -> list[str]:
    """Where a server stores what is not needed after the test: memory, or with SEGNO_TEST_STORE=postgres a database."""
    if os.environ.get("SEGNO_TEST_STORE") != "postgres":
        return ["--in-memory"]
    from nodes import scratch_database

    return ["--store", scratch_database()]


# Features that are off by default.
SWITCHED_ON = ["--workflow-pause", "--workflow-rules", "--completion-pages"]
SWITCHED_ON += ["--nexus-standalone", "--activity-callbacks", "--update-callbacks", "--system-operations"]


class SegnoServer:
    """One `segno serve` process; start() may be called again after kill() or terminate()."""

    def __init__(
        self, *, log: Path, data_dir: Path | None = None, flags: Sequence[str] = ()
    ) -> None:
        self.port = free_port()
        self.http_port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = log
        self.storage = ["--data-dir", str(data_dir)] if data_dir else scratch_storage()
        self.flags = list(flags)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 20.0) -> None:
        command = [str(segno_binary()), "serve", *self.storage]
        command += ["--port", str(self.port), "--http-port", str(self.http_port), *self.flags]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + timeout
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"{command} did not get ready:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.05)

    def is_ready(self) -> bool:
        """True if calls are answered."""
        return answers(self.address)

    def healthz(self) -> int:
        """HTTP status of /healthz."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/healthz", timeout=5) as reply:
            return reply.status

    def kill(self) -> None:
        """SIGKILL: the server gets no chance to write anything more."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def terminate(self, timeout: float = 20.0) -> int:
        """SIGTERM; returns the exit status."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)


@dataclass
class Env:
    """What a test works with: a client, and an id and task queue of its own."""

    address: str
    client: Client
    name: str
    task_queue: str = field(init=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = f"{self.name}-{uuid.uuid4().hex[:12]}"
        self.task_queue = f"tq-{self.id}"

    @asynccontextmanager
    async def worker(
        self, *definitions: Any, client: Client | None = None, **options: Any
    ) -> AsyncIterator[Worker]:
        """Run a worker for these workflow classes and activity functions.

        The body of the `async with` must finish within BODY_TIMEOUT.
        """
        workflows = [d for d in definitions if isinstance(d, type)]
        activities = [d for d in definitions if not isinstance(d, type)]
        options.setdefault("task_queue", self.task_queue)
        options.setdefault("workflow_runner", UnsandboxedWorkflowRunner())
        options.setdefault("max_heartbeat_throttle_interval", timedelta(milliseconds=200))
        worker = Worker(
            client or self.client, workflows=workflows, activities=activities, **options
        )
        async with worker:
            async with asyncio.timeout(BODY_TIMEOUT):
                yield worker

    async def start(self, workflow: Any, *args: Any, **options: Any) -> WorkflowHandle[Any, Any]:
        """Start a workflow under this test's id and task queue (both can be overridden)."""
        options.setdefault("id", self.id)
        options.setdefault("task_queue", self.task_queue)
        run = getattr(workflow, "run", workflow)
        return await self.client.start_workflow(run, args=args, **options)

    async def execute(self, workflow: Any, *args: Any, **options: Any) -> Any:
        """Start a workflow and wait for its result."""
        return await (await self.start(workflow, *args, **options)).result()

    def handle(self, workflow_id: str | None = None, **options: Any) -> WorkflowHandle[Any, Any]:
        """A handle of this test's workflow, or of another one."""
        return self.client.get_workflow_handle(workflow_id or self.id, **options)

    @asynccontextmanager
    async def raw(self, **options: Any) -> AsyncIterator[WorkflowServiceStub]:
        """The workflow service as grpcio speaks it, without the SDK in between."""
        async with grpc.aio.insecure_channel(self.address, **options) as channel:
            yield WorkflowServiceStub(channel)

    def raw_start_request(
        self, workflow_type: str = "Raw", **fields: Any
    ) -> StartWorkflowExecutionRequest:
        """A StartWorkflowExecutionRequest for this test's id and task queue."""
        return StartWorkflowExecutionRequest(
            namespace=NAMESPACE,
            workflow_id=self.id,
            workflow_type=WorkflowType(name=workflow_type),
            task_queue=TaskQueue(name=self.task_queue),
            request_id=str(uuid.uuid4()),
            identity="raw-test",
            **fields,
        )

    async def raw_poll_workflow_task(
        self, stub: WorkflowServiceStub
    ) -> PollWorkflowTaskQueueResponse:
        """Poll one workflow task of this test's task queue."""
        return await stub.PollWorkflowTaskQueue(
            PollWorkflowTaskQueueRequest(
                namespace=NAMESPACE,
                task_queue=TaskQueue(name=self.task_queue),
                identity="raw-test",
            ),
            timeout=20,
        )

    async def raw_complete_workflow_task(
        self, stub: WorkflowServiceStub, task_token: bytes, *commands: Command, **fields: Any
    ) -> RespondWorkflowTaskCompletedResponse:
        """Complete a workflow task with these commands."""
        return await stub.RespondWorkflowTaskCompleted(
            RespondWorkflowTaskCompletedRequest(
                namespace=NAMESPACE,
                task_token=task_token,
                identity="raw-test",
                commands=commands,
                **fields,
            ),
            timeout=10,
        )

    def execution(self, run_id: str = "") -> WorkflowExecution:
        """This test's workflow as a protobuf message."""
        return WorkflowExecution(workflow_id=self.id, run_id=run_id)


COMPLETE_WORKFLOW = Command(
    command_type=CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
    complete_workflow_execution_command_attributes=CompleteWorkflowExecutionCommandAttributes(),
)


async def eventually(
    check: Callable[[], Awaitable[Any]], timeout: float = 10.0, interval: float = 0.05
) -> Any:
    """Call `check` until it returns something true, and return that.

    Assertion and RPC errors count as "not yet".
    """
    deadline = time.monotonic() + timeout
    while True:
        error: Exception | None = None
        try:
            result = await check()
            if result:
                return result
        except (AssertionError, RPCError) as err:
            error = err
        if time.monotonic() > deadline:
            raise AssertionError(f"condition not met within {timeout} s") from error
        await asyncio.sleep(interval)


def event_name(event: HistoryEvent) -> str:
    """'ActivityTaskScheduled' for EVENT_TYPE_ACTIVITY_TASK_SCHEDULED."""
    name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
    return "".join(word.capitalize() for word in name.split("_"))


async def events(handle: WorkflowHandle[Any, Any]) -> Sequence[HistoryEvent]:
    """The full history of the handle's run."""
    return (await handle.fetch_history()).events


async def event_names(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """The event types of the handle's run, in order."""
    return [event_name(event) for event in await events(handle)]


async def event_counts(handle: WorkflowHandle[Any, Any]) -> Counter[str]:
    """How often each event type occurs in the handle's run."""
    return Counter(await event_names(handle))


async def find_events(handle: WorkflowHandle[Any, Any], name: str) -> list[Any]:
    """The attributes of all events of that type, in order."""
    return [
        getattr(event, event.WhichOneof("attributes"))
        for event in await events(handle)
        if event_name(event) == name
    ]


async def find_event(handle: WorkflowHandle[Any, Any], name: str) -> Any:
    """The attributes of the only event of that type."""
    found = await find_events(handle, name)
    assert len(found) == 1, f"{len(found)} {name} events in {await event_names(handle)}"
    return found[0]


async def pending_activities(handle: WorkflowHandle[Any, Any]) -> Sequence[Any]:
    """The pending activities the server describes."""
    return (await handle.describe()).raw_description.pending_activities


async def pending_activity(handle: WorkflowHandle[Any, Any]) -> Any:
    """The first pending activity, or None; for use with eventually()."""
    return next(iter(await pending_activities(handle)), None)


async def raises(expected: type[BaseException], awaitable: Awaitable[Any]) -> Any:
    """Await something that must fail with this exception, and return the exception."""
    try:
        result = await awaitable
    except expected as err:
        return err
    raise AssertionError(f"expected {expected.__name__}, got result {result!r}")


def chain(error: BaseException | None) -> list[BaseException]:
    """An error and its causes, outermost first."""
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__
    return found


def to_dict(message: Any) -> dict[str, Any]:
    """A protobuf message as a dict with proto field names."""
    return MessageToDict(message, preserving_proto_field_name=True)


async def scheduled_times(client: Client, schedule: str) -> list[datetime]:
    """The times for which workflows of a schedule were started whose action has the id `SCHEDULE-wf`."""
    found = client.list_workflows(f"TemporalScheduledById = '{schedule}'")
    stamps = [workflow.id.removeprefix(f"{schedule}-wf-") async for workflow in found]
    return sorted(datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ") for stamp in stamps)
