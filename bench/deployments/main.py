"""What changes of worker deployments cost, on Segno and on Temporal's development server by turns.

    python main.py --segno target/release/segno --temporal target/venv/bin/temporal [--queues 100] [--changes 20] [--rounds 3] [--waiting 10000]

Prints one line of JSON for each round and server: the times of SetWorkerDeploymentCurrentVersion at rest, in milliseconds, and how long it took until
a worker of the new version had the first task that was started after the answer. For Segno also the commits for each change, and the time of a
change while workflows wait. Needs the packages of tests/requirements.txt.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from temporalio.api.common.v1 import WorkflowType
from temporalio.api.deployment.v1 import WorkerDeploymentOptions
from temporalio.api.enums.v1 import WorkerVersioningMode
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentRequest,
    GetSystemInfoRequest,
    PollWorkflowTaskQueueRequest,
    SetWorkerDeploymentCurrentVersionRequest,
    StartWorkflowExecutionRequest,
    WorkflowServiceStub,
)

BUILDS = ("b1", "b2")
DEPLOYMENT = "bench"
READY_MAX = 30.0


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A server of a fresh directory, which ends with the block."""

    def __init__(self, name: str, binary: str) -> None:
        self.name = name
        self.directory = Path(tempfile.mkdtemp())
        self.port, self.http_port = free_port(), free_port()
        if name == "segno":
            command = [binary, "serve", "--data-dir", str(self.directory / "data"), "--http-port", str(self.http_port)]
        else:
            pragma = "--sqlite-pragma=synchronous=FULL"
            command = [binary, "server", "start-dev", "--headless", "--log-level", "error", pragma]
            command += ["--db-filename", str(self.directory / "data.sqlite")]
        with (self.directory / "log").open("wb") as log:
            self.process = subprocess.Popen([*command, "--port", str(self.port)], stdout=log, stderr=log)
        self.service = WorkflowServiceStub(grpc.insecure_channel(f"127.0.0.1:{self.port}"))
        begun = time.monotonic()
        while True:
            try:
                self.service.GetSystemInfo(GetSystemInfoRequest(), timeout=1)
                self.service.DescribeWorkerDeployment(self.described(), timeout=1)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND and "deployment" in error.details().lower():
                    return
                if time.monotonic() - begun > READY_MAX:
                    raise
                time.sleep(0.1)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def described() -> DescribeWorkerDeploymentRequest:
        """A question for the deployment."""
        return DescribeWorkerDeploymentRequest(namespace="default", deployment_name=DEPLOYMENT)

    def poll(self, build: str, queue: str, timeout: float) -> bytes:
        """Polls as a worker of a version; the token of its task, if it got one."""
        options = WorkerDeploymentOptions(
            deployment_name=DEPLOYMENT,
            build_id=build,
            worker_versioning_mode=WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED,
        )
        request = PollWorkflowTaskQueueRequest(
            namespace="default", task_queue=TaskQueue(name=queue), identity=build, deployment_options=options
        )
        try:
            return self.service.PollWorkflowTaskQueue(request, timeout=timeout).task_token
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            return b""

    def start(self, queue: str) -> None:
        """Starts a workflow."""
        request = StartWorkflowExecutionRequest(
            namespace="default",
            workflow_id=str(uuid.uuid4()),
            request_id=str(uuid.uuid4()),
            workflow_type=WorkflowType(name="Bench"),
            task_queue=TaskQueue(name=queue),
        )
        self.service.StartWorkflowExecution(request, timeout=30)

    def set_current(self, build: str) -> float:
        """Makes a version the current one; the milliseconds that it took."""
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace="default",
            deployment_name=DEPLOYMENT,
            build_id=build,
            identity="bench",
            ignore_missing_task_queues=True,
        )
        begun = time.perf_counter()
        while True:
            try:
                self.service.SetWorkerDeploymentCurrentVersion(request, timeout=60)
                return (time.perf_counter() - begun) * 1000
            except grpc.RpcError as error:
                # Temporal's server does not know a version yet, or limits the rate of changes.
                if error.code() not in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.RESOURCE_EXHAUSTED):
                    raise
                time.sleep(0.05)

    def commits(self) -> int:
        """Commits until now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics") as page:
            lines = page.read().decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("segno_commits_total "))


def measure(server: Server, queues: int, changes: int, waiting: int) -> dict[str, Any]:
    """One round."""
    names = [f"q{number}" for number in range(queues)]
    with ThreadPoolExecutor(16) as pool:
        polls = [pool.submit(server.poll, build, name, 2.0) for build in BUILDS for name in names]
        for poll in polls:
            poll.result()
    time.sleep(2)
    found: dict[str, Any] = {"server": server.name, "queues": queues}
    server.set_current(BUILDS[0])
    times, before = [], server.commits() if server.name == "segno" else 0
    for change in range(changes):
        times.append(server.set_current(BUILDS[(change + 1) % 2]))
    if server.name == "segno":
        found["commits_per_change"] = (server.commits() - before) / changes
    found["set_current_ms"] = {
        "p50": round(statistics.median(times), 2),
        "max": round(max(times), 2),
    }
    # How long after the answer a worker of the new version has the task of a new workflow.
    arrivals = []
    for change in range(5):
        build = BUILDS[(changes + change + 1) % 2]
        server.set_current(build)
        begun = time.perf_counter()
        server.start(names[-1])
        assert server.poll(build, names[-1], 30), "the current version gets the task"
        arrivals.append((time.perf_counter() - begun) * 1000)
    found["first_task_ms"] = round(statistics.median(arrivals), 2)
    if server.name == "segno" and waiting:
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(server.start, [names[0]] * waiting))
        found["waiting"] = waiting
        found["set_current_with_waiting_ms"] = [round(server.set_current(BUILDS[index % 2]), 2) for index in range(2)]
    return found


def main() -> None:
    """Both servers by turns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--segno", required=True)
    parser.add_argument("--temporal")
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waiting", type=int, default=10_000)
    options = parser.parse_args()
    for _ in range(options.rounds):
        for name, binary in (("segno", options.segno), ("temporal", options.temporal)):
            if binary:
                with Server(name, binary) as server:
                    print(json.dumps(measure(server, options.queues, options.changes, options.waiting)), flush=True)


if __name__ == "__main__":
    main()
