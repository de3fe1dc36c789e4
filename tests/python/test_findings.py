"""What once irritated a new user: wrong hints, successes that were none, lists that are too wide, figures that stay."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from flows import Echo, Waiter, echo
from helpers import SegnoServer, eventually, free_port, segno_binary

USAGE = 64
NOT_THERE = 66
UNAVAILABLE = 69
COLUMNS = 80


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    if request.config.getoption("--segno-address"):
        pytest.skip("about Segno's own server: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path_factory.mktemp("findings") / "server.log", flags=["--log-format", "json", "--worker-grace", "2s"])
    server.start()
    yield server
    server.kill()


def segno(server: SegnoServer | None, *words: str, timeout: float = 20) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    if server:
        environment["SEGNO_ADDRESS"] = server.address
    return subprocess.run(
        [str(segno_binary()), *words], env=environment, capture_output=True, text=True, timeout=timeout
    )


def refused(code: int, hint: str, server: SegnoServer | None, *words: str) -> None:
    """The command ends with this code and says this."""
    ended = segno(server, *words)
    assert ended.returncode == code, (words, ended.returncode, ended.stderr)
    assert hint in ended.stderr, ended.stderr


# --- hints ---


def test_a_log_level_that_is_none_is_refused() -> None:
    hint = '"verbose" is not a level. There are off, error, warn, info, debug, trace'
    refused(USAGE, hint, None, "serve", "--in-memory", "--port", str(free_port()), "--log-level", "verbose")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["serve", "--in-memory", "--ip", "0.0.0.0"], "encryption and authentication are off"),
        (["serve", "--in-memory", "--auth"], "say where to keep it with --admin-key-file"),
        (["serve", "--in-memory", "--audit-log", "log"], "--audit-log needs --auth"),
        (["serve", "--in-memory", "--otlp-endpoint", "here"], "--otlp-endpoint is a URL"),
        (["server", "start-dev", "--ip", "no.such.host.invalid"], "is not an address of this machine"),
        (["workflow", "list", "--tls-cert-path", "a.pem"], "needs both --tls-cert-path and --tls-key-path"),
        (["tls", "init", "--client", "ca"], "cannot be the name of a client"),
        (["99999"], "ports go up to 65535"),
    ],
)
def test_flags_that_make_no_sense_are_usage_errors(words: list[str], hint: str) -> None:
    refused(USAGE, hint, None, *words)


def test_a_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(USAGE, "is a file, not a directory", None, "serve", "--data-dir", str(tmp_path / "file"))


def test_an_address_of_another_machine() -> None:
    words = ["serve", "--in-memory", "--insecure", "--ip", "192.0.2.1", "--port", str(free_port())]
    refused(UNAVAILABLE, "This machine does not have that address", None, *words)


def test_grpc_to_the_http_port(server: SegnoServer) -> None:
    address = f"127.0.0.1:{server.http_port}"
    refused(UNAVAILABLE, "Is this the HTTP port of the server?", None, "workflow", "list", "--address", address)


def test_a_retention_that_is_too_short(server: SegnoServer) -> None:
    words = ["namespace", "create", "short", "--retention", "1m"]
    refused(USAGE, "A retention is at least 1h", server, *words)


def test_what_is_too_large_is_told_with_its_limit(server: SegnoServer, tmp_path: Path) -> None:
    start = ["workflow", "start", "--type", "Echo", "-t", "nobody", "--input-file", str(tmp_path / "input.json")]
    for length, hint in [(5_000_000, "A request may have 4 MiB"), (2_500_000, "may have 2 MiB")]:
        (tmp_path / "input.json").write_text(json.dumps("x" * length))
        refused(USAGE, hint, server, *start)


def test_an_unknown_search_attribute_comes_with_the_remedy(server: SegnoServer) -> None:
    remedy = "`segno search-attribute create --name NAME --type TYPE` adds one"
    refused(USAGE, remedy, server, "workflow", "list", "--query", "Nope = 1")
    start = ["workflow", "start", "--type", "Echo", "-t", "nobody", "--search-attribute", "Nope=1"]
    refused(USAGE, remedy, server, *start)


# --- successes that are none ---


def test_an_unknown_attribute_cannot_be_removed(server: SegnoServer) -> None:
    words = ["search-attribute", "remove", "--name", "Nope", "--yes"]
    refused(NOT_THERE, 'there is no custom search attribute "Nope"', server, *words)


def test_a_closed_workflow_cannot_be_cancelled(server: SegnoServer) -> None:
    name = f"closed-{uuid.uuid4().hex}"
    assert segno(server, "workflow", "start", "--type", "Echo", "-t", "nobody", "-w", name).returncode == 0
    assert segno(server, "workflow", "terminate", "-w", name).returncode == 0
    refused(NOT_THERE, "is closed already (Terminated)", server, "workflow", "cancel", "-w", name)


# --- the order of lists ---


def test_open_workflows_come_first_then_those_that_closed_last(server: SegnoServer) -> None:
    kind = f"Order{uuid.uuid4().hex}"
    for name in ("first", "second", "third"):
        started = segno(server, "workflow", "start", "--type", kind, "-t", "nobody", "-w", f"{kind}-{name}")
        assert started.returncode == 0
    for name in ("third", "first"):
        assert segno(server, "workflow", "terminate", "-w", f"{kind}-{name}").returncode == 0
    listed = segno(server, "workflow", "list", "--query", f"WorkflowType = '{kind}'", "--output", "json")
    names = [run["execution"]["workflowId"].rsplit("-", 1)[1] for run in json.loads(listed.stdout)]
    assert names == ["second", "first", "third"]


# --- logs and figures ---


def test_every_line_of_a_json_log_is_json(server: SegnoServer) -> None:
    lines = server.log.read_text().splitlines()
    assert len(lines) >= 2
    assert any("Segno is ready" in json.loads(line)["message"] for line in lines)


def queued(server: SegnoServer) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        found = re.search(r"^segno_queued_tasks (\d+)$", reply.read().decode(), re.MULTILINE)
    assert found
    return int(found[1])


async def test_tasks_of_a_dead_worker_do_not_stay_in_the_figure(tmp_path: Path) -> None:
    server = SegnoServer(log=tmp_path / "server.log")
    server.start()
    try:
        client = await Client.connect(server.address)
        queue = f"died-{uuid.uuid4().hex}"
        handle = await client.start_workflow(Echo.run, "x", id=queue, task_queue=queue)
        assert queued(server) == 1
        request = PollWorkflowTaskQueueRequest(namespace="default", task_queue=TaskQueue(name=queue), identity="dies")
        with grpc.insecure_channel(server.address) as channel:
            task = await asyncio.to_thread(WorkflowServiceStub(channel).PollWorkflowTaskQueue, request, timeout=10)
            assert task.task_token
            assert queued(server) == 0
        # Its connection is closed; another worker takes the task when it is given out again.
        async with Worker(client, task_queue=queue, workflows=[Echo], workflow_runner=UnsandboxedWorkflowRunner()):
            assert await asyncio.wait_for(handle.result(), 40) == "x"
        assert queued(server) == 0
    finally:
        server.kill()


async def test_workers_that_said_goodbye_are_gone_and_not_lost(server: SegnoServer) -> None:
    client = await Client.connect(server.address)
    queue = f"bye-{uuid.uuid4().hex}"
    identity = f"worker-{queue}"
    runner = UnsandboxedWorkflowRunner()
    worker = Worker(client, task_queue=queue, workflows=[Echo], activities=[echo], identity=identity, workflow_runner=runner)
    describe = ["task-queue", "describe", "-t", queue]
    async with worker:
        assert await client.execute_workflow(Echo.run, "x", id=queue, task_queue=queue) == "x"
        shown = await asyncio.to_thread(segno, server, *describe)
        assert identity in shown.stdout, shown.stdout

    async def is_missing(*words: str) -> bool:
        shown = await asyncio.to_thread(segno, server, *words)
        assert shown.returncode == 0, shown.stderr
        return identity not in shown.stdout

    await eventually(lambda: is_missing(*describe), timeout=5)
    # The lease goes on for the time in which a worker may connect again.
    await eventually(lambda: is_missing("worker", "list", "--alive"), timeout=30)
    assert identity in segno(server, "worker", "list").stdout, "the list of all has it still"
    lost = [line for line in server.log.read_text().splitlines() if "lost" in line and identity in line]
    assert lost == []


# --- a terminal of 80 columns ---


def on_terminal(server: SegnoServer, *words: str) -> list[str]:
    """The lines that a command prints on a terminal of 80 columns, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [str(segno_binary()), *words],
        env={**environment, "SEGNO_ADDRESS": server.address, "NO_COLOR": "1", "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 20
    try:
        while time.monotonic() < deadline and (chunk := os.read(ours, 65536)):
            shown += chunk
    except OSError:
        # The other end of a terminal closes with an error.
        pass
    os.close(ours)
    assert process.wait(timeout=20) == 0, words
    return shown.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize(
    "words",
    [
        "workflow list",
        "schedule list",
        "activity list",
        "batch list",
        "worker list",
        "namespace list",
        "task-queue describe -t a-queue-with-a-rather-long-name-for-a-narrow-terminal",
    ],
)
async def test_lists_fit_a_terminal_of_80_columns(server: SegnoServer, words: str) -> None:
    long = "a-workflow-with-a-rather-long-name-for-a-narrow-terminal"
    queue = "a-queue-with-a-rather-long-name-for-a-narrow-terminal"
    started = segno(
        server, "workflow", "start", "--type", "AWorkflowTypeWithARatherLongName", "-t", queue, "-w", long,
        "--id-conflict-policy", "UseExisting",
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    segno(server, "schedule", "create", "-s", f"{long}-schedule", "--cron", "30 3 * * *", "--type", "Waiter", "-t", queue)
    activity = ["-a", f"{long}-activity", "--type", "an_activity_with_a_long_name", "-t", queue]
    segno(server, "activity", "start", *activity, "--start-to-close-timeout", "10s")
    segno(server, "workflow", "signal", "--query", "WorkflowType = 'Nothing'", "--name", "x", "--reason", long, "--yes")
    client = await Client.connect(server.address)
    worker = Worker(client, task_queue=queue, workflows=[Waiter], identity=long, workflow_runner=UnsandboxedWorkflowRunner())
    async with worker:
        await asyncio.sleep(0.5)
        lines = await asyncio.to_thread(on_terminal, server, *words.split())
    assert len(lines) >= 2, lines
    too_long = [line for line in lines if len(line) > COLUMNS]
    assert too_long == [], "\n".join(too_long)
