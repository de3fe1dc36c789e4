"""What others notice when thousands of workers come and vanish at once.

    python3 lost_workers.py --binary ../../target/debug/segno [--reporting 58920] [--polling 20000] [--working 6000]

Starts a server in memory with short leases. Each phase lets workers come, kills the process that has their connections, and
waits until the server has given them up, while two other processes measure: a bystander starts and describes workflows in a
namespace of its own, one at a time; a probe asks /healthz. Prints p50 and maximum of both for the phase without workers and
for each of the others.

- reporting: workers that only send RecordWorkerHeartbeat
- polling: workers that wait at a sticky queue of their own, as short-lived ones do
- working: workers of which each has an activity of a workflow, which must go to others
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import multiprocessing
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from temporalio.api.command.v1 import Command, ScheduleActivityTaskCommandAttributes
from temporalio.api.common.v1 import ActivityType, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import CommandType, TaskQueueKind, WorkerStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    PollActivityTaskQueueRequest,
    PollWorkflowTaskQueueRequest,
    RecordWorkerHeartbeatRequest,
    RegisterNamespaceRequest,
    RespondWorkflowTaskCompletedRequest,
    StartWorkflowExecutionRequest,
    WorkflowServiceStub,
)

NAMESPACE = "default"
GRACE = 5
LEASE = 4
CHANNELS = 16


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def bystand(address: str, times: multiprocessing.Queue, stop: multiprocessing.Event) -> None:
    stub = WorkflowServiceStub(grpc.insecure_channel(address))
    measured, number = [], 0
    while not stop.is_set():
        number += 1
        id = f"bystander-{time.time_ns()}-{number}"
        begun = time.monotonic()
        stub.StartWorkflowExecution(
            StartWorkflowExecutionRequest(
                namespace="bystander", workflow_id=id, workflow_type=WorkflowType(name="w"),
                task_queue=TaskQueue(name="nobody"), request_id=id,
            ),
            timeout=60,
        )
        execution = WorkflowExecution(workflow_id=id)
        stub.DescribeWorkflowExecution(
            DescribeWorkflowExecutionRequest(namespace="bystander", execution=execution), timeout=60
        )
        measured.append(time.monotonic() - begun)
        time.sleep(0.005)
    times.put(measured)


def probe(port: int, times: multiprocessing.Queue, stop: multiprocessing.Event) -> None:
    measured = []
    while not stop.is_set():
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        connection.close()
        measured.append(time.monotonic() - begun)
        time.sleep(0.01)
    times.put(measured)


class Measurement:
    """The bystander and the probe for as long as it is entered."""

    def __init__(self, name: str, address: str, http_port: int) -> None:
        self.name, self.stop = name, multiprocessing.Event()
        self.parts = []
        for target, where in ((bystand, address), (probe, http_port)):
            times = multiprocessing.Queue()
            process = multiprocessing.Process(target=target, args=(where, times, self.stop))
            self.parts.append((process, times))

    def __enter__(self) -> "Measurement":
        for process, _ in self.parts:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        shown = []
        for process, times in self.parts:
            measured = [1000 * one for one in times.get(timeout=120)]
            process.join()
            shown.append(f"p50 {statistics.median(measured):.1f} ms, max {max(measured):.0f} ms ({len(measured)})")
        print(f"{self.name}: start and describe {shown[0]}; /healthz {shown[1]}", flush=True)


def report(address: str, count: int) -> None:
    stub = WorkflowServiceStub(grpc.insecure_channel(address))
    for first in range(0, count, 100):
        beats = [
            WorkerHeartbeat(worker_instance_key=f"reporting-{number}", status=WorkerStatus.WORKER_STATUS_RUNNING)
            for number in range(first, min(first + 100, count))
        ]
        stub.RecordWorkerHeartbeat(
            RecordWorkerHeartbeatRequest(namespace=NAMESPACE, worker_heartbeat=beats), timeout=60
        )


async def poll_sticky(address: str, count: int, ready: multiprocessing.Event) -> None:
    channels = [grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(CHANNELS)]
    stubs = [WorkflowServiceStub(channel) for channel in channels]
    calls = []
    for number in range(count):
        queue = TaskQueue(name=f"sticky-{number}", kind=TaskQueueKind.TASK_QUEUE_KIND_STICKY, normal_name="nobody")
        request = PollWorkflowTaskQueueRequest(
            namespace=NAMESPACE, task_queue=queue, identity=f"polling-{number}", worker_instance_key=f"polling-{number}"
        )
        calls.append(asyncio.ensure_future(stubs[number % CHANNELS].PollWorkflowTaskQueue(request, timeout=300)))
        if number % 200 == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(5)
    ready.set()
    await asyncio.gather(*calls, return_exceptions=True)


async def work(address: str, count: int, ready: multiprocessing.Event) -> None:
    channels = [grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(CHANNELS)]
    stubs = [WorkflowServiceStub(channel) for channel in channels]
    queue = TaskQueue(name="working")
    activity = ScheduleActivityTaskCommandAttributes(
        activity_id="1", activity_type=ActivityType(name="a"), task_queue=queue,
        start_to_close_timeout=Duration(seconds=600),
    )
    schedule = Command(
        command_type=CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
        schedule_activity_task_command_attributes=activity,
    )

    async def one(number: int) -> None:
        stub, key = stubs[number % CHANNELS], f"working-{number}"
        await stub.StartWorkflowExecution(
            StartWorkflowExecutionRequest(
                namespace=NAMESPACE, workflow_id=key, workflow_type=WorkflowType(name="w"), task_queue=queue, request_id=key
            ),
            timeout=60,
        )
        poll = {"namespace": NAMESPACE, "task_queue": queue, "identity": key, "worker_instance_key": key}
        task = await stub.PollWorkflowTaskQueue(PollWorkflowTaskQueueRequest(**poll), timeout=60)
        await stub.RespondWorkflowTaskCompleted(
            RespondWorkflowTaskCompletedRequest(namespace=NAMESPACE, task_token=task.task_token, commands=[schedule]),
            timeout=60,
        )
        task = await stub.PollActivityTaskQueue(PollActivityTaskQueueRequest(**poll), timeout=60)
        assert task.task_token
        # One more poll is cut off when the process is killed: that is what tells that the worker is gone.
        poll["task_queue"] = TaskQueue(name="nothing")
        waiting.append(asyncio.ensure_future(stub.PollActivityTaskQueue(PollActivityTaskQueueRequest(**poll), timeout=600)))

    waiting: list = []
    for first in range(0, count, 200):
        await asyncio.gather(*(one(number) for number in range(first, min(first + 200, count))))
    await asyncio.sleep(2)
    ready.set()
    await asyncio.gather(*waiting, return_exceptions=True)


def run_async(what, address: str, count: int, ready: multiprocessing.Event) -> None:
    asyncio.run(what(address, count, ready))


def metric(port: int, name: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    return next((int(float(line.split()[-1])) for line in lines if line.startswith(name + " ")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--reporting", type=int, default=58_920)
    parser.add_argument("--polling", type=int, default=20_000)
    parser.add_argument("--working", type=int, default=6_000)
    asked = parser.parse_args()
    port, http_port = free_port(), free_port()
    address = f"127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as place:
        command = [asked.binary, "serve", "--data-dir", place, "--port", str(port), "--http-port", str(http_port)]
        command += ["--worker-grace", f"{GRACE}s", "--worker-lease", f"{LEASE}s"]
        with open(os.devnull, "wb") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            stub = WorkflowServiceStub(grpc.insecure_channel(address))
            retention = Duration(seconds=86_400)
            request = RegisterNamespaceRequest(namespace="bystander", workflow_execution_retention_period=retention)
            stub.RegisterNamespace(request, timeout=60, wait_for_ready=True)
            with Measurement("no workers", address, http_port):
                time.sleep(10)
            if asked.reporting:
                with Measurement(f"{asked.reporting} reporting workers", address, http_port):
                    report(address, asked.reporting)
                    while metric(http_port, "segno_live_workers") > 0:
                        time.sleep(0.5)
            for name, what, count in (("polling", poll_sticky, asked.polling), ("working", work, asked.working)):
                if not count:
                    continue
                ready = multiprocessing.Event()
                workers = multiprocessing.Process(target=run_async, args=(what, address, count, ready))
                with Measurement(f"{count} {name} workers come", address, http_port):
                    workers.start()
                    ready.wait()
                with Measurement(f"{count} {name} workers vanish", address, http_port):
                    os.kill(workers.pid, signal.SIGKILL)
                    workers.join()
                    time.sleep(GRACE + 1)
                    while metric(http_port, "segno_live_workers") > 0:
                        time.sleep(0.5)
                    time.sleep(3)
            moved = metric(http_port, "segno_activities_moved_total")
            print(f"activities that went to others: {moved}")
            if asked.working and moved < asked.working:
                sys.exit("not all of them went to others")
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
