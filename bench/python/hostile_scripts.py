"""What a tenant with hostile scripts does to another one: the bystander's p50 before and during each behaviour.

    python bench/python/hostile_scripts.py --segno target/debug/segno [--seconds 4] [--in-memory] [--only fork,states]

Each row has a server of its own. The bystander, in namespace `default`, makes one call after another: start, signal, describe. The
hostile tenant is in namespace `hostile`, its calls come from another process. Prints a table; the ratio is that of the same run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Callable

import grpc
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest, QueryWorkflowRequest, RegisterNamespaceRequest, SignalWorkflowExecutionRequest,
    StartWorkflowExecutionRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

HOSTILE = "hostile"
OPTIONS = [("grpc.max_receive_message_length", 64 << 20)]

QUERIED = """
workflow Queried() {
  query busy() {
    let sum = 0
    for (let i = 0; i < 7000; i++) { sum += i }
    return sum
  }
  await wait_for_signal("end")
}
"""
LARGE = """
workflow Large() {
  let text = "x".repeat(3900000)
  let turns = 0
  while (true) {
    turns += 1
    await Task.delay("1ms")
  }
}
"""
STRINGS = """
workflow Strings() {
  while (true) {
    let text = ""
    for (let i = 0; i < 3000; i++) { text = text + "0123456789012345678901234567890123456789" }
    await Task.delay("1ms")
  }
}
"""
TURNS = """
workflow Turns%(steps)d() {
  while (true) {
    let sum = 0
    for (let i = 0; i < %(loops)d; i++) { sum += i }
    await Task.delay("1ms")
  }
}
"""
FORK = """
workflow Fork() {
  for (let i = 0; i < 1000; i++) { Workflow.start("Fork") }
  await Task.delay("10m")
}
"""
LOG = """
workflow Log() {
  while (true) {
    for (let i = 0; i < 500; i++) { log("a line of the hostile tenant that is not very short, again and again") }
    await Task.delay("1ms")
  }
}
"""


def large_source(number: int) -> bytes:
    """A script of about 100 KiB that takes a while to compile."""
    functions = "".join(
        f"function f{i}(a, b) {{ let c = a + {i + number}; if (c > b) {{ c = c * 2 + b }} return [c, a, b, {{ x: c }}] }}\n"
        for i in range(1200)
    )
    return f"{functions}workflow Deployed() {{ return f1({number}, 2) }}\n".encode()


class Tenant:
    """Calls of one tenant."""

    def __init__(self, port: int, http_port: int, namespace: str) -> None:
        self.namespace = namespace
        self.stub = WorkflowServiceStub(grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS))
        self.base = f"http://127.0.0.1:{http_port}/api/v1/namespaces/{namespace}"

    def start(self, workflow_id: str, kind: str = "T", queue: str = "q") -> None:
        request = StartWorkflowExecutionRequest(
            namespace=self.namespace, workflow_id=workflow_id, request_id=workflow_id, identity="bench"
        )
        request.workflow_type.name = kind
        request.task_queue.name = queue
        self.stub.StartWorkflowExecution(request, timeout=30)

    def start_scripts(self, kind: str, count: int) -> None:
        for number in range(count):
            self.start(f"{kind}-{number}", kind, "segno-flow")

    def signal(self, workflow_id: str) -> None:
        request = SignalWorkflowExecutionRequest(namespace=self.namespace, signal_name="s", identity="bench")
        request.workflow_execution.workflow_id = workflow_id
        self.stub.SignalWorkflowExecution(request, timeout=30)

    def describe(self, workflow_id: str) -> None:
        request = DescribeWorkflowExecutionRequest(namespace=self.namespace)
        request.execution.workflow_id = workflow_id
        self.stub.DescribeWorkflowExecution(request, timeout=30)

    def query(self, workflow_id: str, name: str) -> None:
        request = QueryWorkflowRequest(namespace=self.namespace)
        request.execution.workflow_id = workflow_id
        request.query.query_type = name
        self.stub.QueryWorkflow(request, timeout=60)

    def post(self, path: str, source: bytes) -> int:
        request = urllib.request.Request(self.base + path, data=source, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def deploy(self, source: str) -> None:
        status = self.post("/flows", source.encode())
        assert status == 200, status


def loop(threads: int, work: Callable[[int], None]) -> None:
    """The same work again and again; errors are the server's defence."""

    def again(number: int) -> None:
        place = 0
        while True:
            try:
                work(number * 1_000_000 + place)
            except (grpc.RpcError, OSError):
                time.sleep(0.01)
            place += 1

    for number in range(threads):
        threading.Thread(target=again, args=(number,), daemon=True).start()


def nothing(_: Tenant) -> None:
    """No hostile tenant."""


def queries(count: int) -> Callable[[Tenant], None]:
    def behave(tenant: Tenant) -> None:
        tenant.deploy(QUERIED)
        tenant.start("queried", "Queried", "segno-flow")
        tenant.query("queried", "busy")
        loop(count, lambda _: tenant.query("queried", "busy"))

    return behave


def checks(tenant: Tenant) -> None:
    source = large_source(0)
    loop(4, lambda _: tenant.post("/flows:check", source) and None)


def deploys(tenant: Tenant) -> None:
    loop(4, lambda number: tenant.post("/flows", large_source(number)) and None)


def scripts(source: str, kind: str, count: int) -> Callable[[Tenant], None]:
    def behave(tenant: Tenant) -> None:
        tenant.deploy(source)
        tenant.start_scripts(kind, count)

    return behave


def turns(steps: int, loops: int, count: int) -> Callable[[Tenant], None]:
    return scripts(TURNS % {"steps": steps, "loops": loops}, f"Turns{steps}", count)


BEHAVIOURS: dict[str, tuple[str, Callable[[Tenant], None]]] = {
    "nothing": ("nothing", nothing),
    "queries4": ("4 queries at a time", queries(4)),
    "queries30": ("30 queries at a time", queries(30)),
    "checks": ("`flows:check` of 100 KiB, 4 at a time", checks),
    "deploys": ("deploys of 100 KiB, 4 at a time", deploys),
    "states": ("10 runs, states of 4 MB, timers of 1 ms", scripts(LARGE, "Large", 10)),
    "strings": ("10 runs that build strings, timers of 1 ms", scripts(STRINGS, "Strings", 10)),
    "turns300000": ("10 runs, turns of 300,000 steps", turns(300000, 60000, 10)),
    "turns15000": ("50 runs, turns of 15,000 steps", turns(15000, 3000, 50)),
    "fork": ("each run starts 1,000 others", scripts(FORK, "Fork", 1)),
    "log": ("10 runs that log 500 lines a turn", scripts(LOG, "Log", 10)),
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def bystand(tenant: Tenant, seconds: float) -> list[float]:
    """Milliseconds of each round."""
    rounds = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        workflow_id = f"w-{random.getrandbits(64):x}"
        begun = time.perf_counter()
        tenant.start(workflow_id)
        tenant.signal(workflow_id)
        tenant.describe(workflow_id)
        rounds.append((time.perf_counter() - begun) * 1000)
    return rounds


def behave(name: str, port: int, http_port: int) -> None:
    """The process of the hostile tenant."""
    BEHAVIOURS[name][1](Tenant(port, http_port, HOSTILE))
    time.sleep(3600)


def serve(segno: Path, storage: list[str], log: Path) -> tuple[subprocess.Popen[bytes], int, int]:
    port, http_port = free_port(), free_port()
    command = [str(segno), "serve", *storage, "--port", str(port), "--http-port", str(http_port)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output)
    stub = WorkflowServiceStub(grpc.insecure_channel(f"127.0.0.1:{port}"))
    request = RegisterNamespaceRequest(namespace=HOSTILE, workflow_execution_retention_period=Duration(seconds=86400))
    for _ in range(200):
        try:
            stub.RegisterNamespace(request, timeout=5)
            return server, port, http_port
        except grpc.RpcError:
            time.sleep(0.1)
    raise RuntimeError(log.read_text()[-2000:])


def measure(name: str, options: argparse.Namespace) -> tuple[float, float, float, float]:
    """p50 before and during, p99 during, and how many rounds were made during."""
    with tempfile.TemporaryDirectory() as directory:
        storage = ["--in-memory"] if options.in_memory else ["--data-dir", str(Path(directory) / "data")]
        server, port, http_port = serve(options.segno, storage, Path(directory) / "log")
        hostile = multiprocessing.Process(target=behave, args=(name, port, http_port), daemon=True)
        try:
            tenant = Tenant(port, http_port, "default")
            bystand(tenant, 1)
            before = bystand(tenant, options.seconds)
            hostile.start()
            # It is counted as long as the hostile tenant is at work: not while its processes start.
            bystand(tenant, 1.5)
            during = bystand(tenant, options.seconds)
            if server.poll() is not None:
                raise RuntimeError("the server has ended")
            p99 = statistics.quantiles(during, n=100)[98] if len(during) > 1 else max(during)
            return statistics.median(before), statistics.median(during), p99, len(during)
        finally:
            if hostile.pid:
                hostile.kill()
                hostile.join()
            server.kill()
            server.wait()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--segno", type=Path, default=Path(os.environ.get("SEGNO_BIN", "target/debug/segno")))
    arguments.add_argument("--seconds", type=float, default=4)
    arguments.add_argument("--in-memory", action="store_true")
    arguments.add_argument("--only", default=",".join(BEHAVIOURS), help="names, separated by commas")
    options = arguments.parse_args()
    print("| the hostile tenant | p50 before, ms | p50 during, ms | ratio | p99 during, ms |\n|---|---:|---:|---:|---:|")
    for name in options.only.split(","):
        before, during, p99, _ = measure(name, options)
        ratio = during / before
        print(f"| {BEHAVIOURS[name][0]} | {before:.1f} | {during:.1f} | {ratio:.1f} | {p99:.0f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
