"""Commands that wait, and those that cannot succeed: a server that goes away, a queue without workers, words that are wrong."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from flows import Echo
from helpers import SegnoServer, free_port, segno_binary

NOT_COMPLETED = 1
UNREADABLE = 2
USAGE = 64
DATA = 65
NOT_THERE = 66
UNAVAILABLE = 69
LATER = 75


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    if request.config.getoption("--segno-address"):
        pytest.skip("about Segno's own server: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path_factory.mktemp("waiting") / "server.log")
    server.start()
    yield server
    server.kill()


def environment(server: SegnoServer | None) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", **({"SEGNO_ADDRESS": server.address} if server else {})}


def begin(server: SegnoServer | None, *words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([str(segno_binary()), *words], env=environment(server), stdout=pipe, stderr=pipe, text=True)


class Waiting:
    """A command that goes on while what it printed so far is read."""

    def __init__(self, folder: Path, server: SegnoServer, *words: str) -> None:
        name = uuid.uuid4().hex
        self.files = {"output": folder / f"{name}.output", "errors": folder / f"{name}.errors"}
        with self.files["output"].open("w") as output, self.files["errors"].open("w") as errors:
            command = [str(segno_binary()), *words]
            self.process = subprocess.Popen(command, env=environment(server), stdout=output, stderr=errors)

    @property
    def output(self) -> str:
        return self.files["output"].read_text()

    @property
    def errors(self) -> str:
        return self.files["errors"].read_text()

    def until(self, where: str, told: str) -> None:
        """Waits until it has printed this."""
        end = time.monotonic() + 60
        while told not in self.files[where].read_text():
            assert self.process.poll() is None and time.monotonic() < end, (told, self.output, self.errors)
            time.sleep(0.05)


def segno(server: SegnoServer | None, *words: str) -> tuple[int, str, str]:
    """The exit code, and what was printed to standard output and standard error."""
    process = begin(server, *words)
    output, errors = process.communicate(timeout=45)
    return process.returncode, output, errors


def refused(server: SegnoServer | None, code: int, told: str, *words: str) -> None:
    ended, _, errors = segno(server, *words)
    assert (ended, told in errors) == (code, True), (ended, errors)


def started(server: SegnoServer, name: str, queue: str = "nobody") -> None:
    code, _, errors = segno(server, "workflow", "start", "--type", "Echo", "-t", queue, "-w", name, "-i", '"a"')
    assert code == 0, errors


@pytest.mark.timeout(300)
def test_who_waits_goes_on_waiting_while_the_server_restarts(durable_server: SegnoServer, tmp_path: Path) -> None:
    durable_server.start()
    started(durable_server, "waited-for")
    result = Waiting(tmp_path, durable_server, "workflow", "result", "-w", "waited-for")
    follower = Waiting(tmp_path, durable_server, "workflow", "show", "-w", "waited-for", "--follow")
    watcher = Waiting(tmp_path, durable_server, "workflow", "why", "-w", "waited-for", "--watch", "--interval", "200ms")
    try:
        result.until("errors", "still waiting: The workflow task has waited since")
        follower.until("output", "WorkflowExecutionStarted")
        watcher.until("output", "waited-for")
        durable_server.kill()
        result.until("errors", "does not answer; waiting until it is back")
        watcher.until("errors", "broke. Is it still running?")
        durable_server.start()
        assert segno(durable_server, "workflow", "terminate", "-w", "waited-for", "--reason", "enough")[0] == 0
        assert result.process.wait(60) == NOT_COMPLETED, result.errors
        assert 'no worker polls task queue "nobody"' in result.errors and "was terminated by" in result.errors
        assert follower.process.wait(60) == 0, follower.errors
        assert "WorkflowExecutionTerminated" in follower.output, follower.output
        assert follower.output.count("WorkflowExecutionStarted") == 1, follower.output
        watcher.until("output", "because: enough.\n")
        assert "HTTP port" not in watcher.errors, watcher.errors
        assert watcher.process.poll() is None
    finally:
        for command in (result, follower, watcher):
            command.process.kill()
            command.process.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", [("workflow", "result", "-w"), ("activity", "result", "-a")])
def test_who_waits_for_a_run_goes_on_from_the_first_call(durable_server: SegnoServer, tmp_path: Path, words: tuple[str, ...]) -> None:
    durable_server.start()
    kind = words[0]
    start = ["-t", "nobody", "--type", "Echo", words[2], "one", "-i", '"a"', "-o", "json"]
    code, output, errors = segno(durable_server, kind, "start", *start, *(["--start-to-close-timeout", "1h"] if kind == "activity" else []))
    assert code == 0, errors
    waiting = Waiting(tmp_path, durable_server, *words, "one", "--run-id", json.loads(output)["runId"])
    try:
        # Nothing is printed before the server goes away: the command has this time for its first call.
        time.sleep(3)
        durable_server.kill()
        waiting.until("errors", "does not answer; waiting until it is back")
        durable_server.start()
        assert segno(durable_server, kind, "terminate", words[2], "one", "--reason", "enough")[0] == 0
        assert waiting.process.wait(60) == NOT_COMPLETED, waiting.errors
    finally:
        waiting.process.kill()
        waiting.process.wait()


def test_a_server_that_went_away_is_not_taken_for_an_http_port(server: SegnoServer) -> None:
    address = f"127.0.0.1:{server.http_port}"
    refused(None, UNAVAILABLE, "Is this the HTTP port of the server?", "workflow", "list", "--address", address)
    nobody = f"127.0.0.1:{free_port()}"
    code, _, errors = segno(None, "workflow", "list", "--address", nobody)
    assert code == UNAVAILABLE and "Start a server with `segno serve`" in errors and "HTTP port" not in errors


@pytest.mark.parametrize("words", [("query", "--type", "q"), ("stack",), ("update", "--name", "u")])
def test_a_question_that_nobody_can_answer_says_so_at_once(server: SegnoServer, words: tuple[str, ...]) -> None:
    name = f"asked-{uuid.uuid4().hex}"
    started(server, name)
    command, *more = words
    told = "no worker polls task queue nobody for workflow tasks: only a worker can answer"
    refused(server, LATER, told, "workflow", command, "-w", name, *more, "--command-timeout", "5s")


async def test_a_query_whose_asker_left_goes_to_no_worker(server: SegnoServer) -> None:
    client = await Client.connect(server.address)
    queue = f"left-{uuid.uuid4().hex}"
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue=queue, workflows=[Echo], workflow_runner=runner):
        handle = await client.start_workflow(Echo.run, "a", id=queue, task_queue=queue)
        await handle.result()
    with pytest.raises(RPCError):
        await handle.query("anything", rpc_timeout=timedelta(seconds=1))
    # The server counts the time of the call by its own clock, from when it came.
    await asyncio.sleep(1)
    poll = PollWorkflowTaskQueueRequest(namespace="default", task_queue=TaskQueue(name=queue), identity="late")
    try:
        answer = await client.workflow_service.poll_workflow_task_queue(poll, timeout=timedelta(seconds=4))
        assert not answer.task_token, answer
    except RPCError as error:
        # A poll that found nothing.
        assert error.status.name in ("DEADLINE_EXCEEDED", "CANCELLED"), error


def test_a_misspelt_signal_to_a_script_is_told(server: SegnoServer, tmp_path: Path) -> None:
    script = tmp_path / "misspelt.flow"
    script.write_text('workflow misspelt() {\n  return await wait_for_signal("approve")\n}\n')
    assert segno(server, "flow", "deploy", str(script))[0] == 0
    assert segno(server, "flow", "run", "misspelt", "-w", "misspelt-1", "--detach")[0] == 0
    assert segno(server, "workflow", "signal", "-w", "misspelt-1", "--name", "aprove")[0] == 0
    _, output, _ = segno(server, "workflow", "why", "-w", "misspelt-1")
    assert 'for signal "approve" since' in output and 'which it does not wait for: "aprove".' in output, output
    assert '`segno workflow signal --workflow-id misspelt-1 --name approve` sends it.' in output, output
    assert segno(server, "workflow", "signal", "-w", "misspelt-1", "--name", "approve", "-i", "1")[0] == 0
    assert segno(server, "workflow", "result", "-w", "misspelt-1")[:2] == (0, "1\n")


@pytest.mark.parametrize(
    ("code", "told", "words"),
    [
        (NOT_THERE, "`segno batch list`", ["batch", "describe", "--job-id", "no-such"]),
        (NOT_THERE, "`segno schedule list`", ["schedule", "describe", "-s", "no-such"]),
        (NOT_THERE, "`segno activity list`", ["activity", "describe", "-a", "no-such"]),
        (NOT_THERE, "`segno worker list`", ["worker", "describe", "no-such"]),
        (UNREADABLE, "unexpected argument 'order-7'", ["workflow", "why", "order-7", "order-8"]),
        (UNREADABLE, "<--pause|--unpause>", ["schedule", "toggle", "-s", "no-such"]),
        (UNREADABLE, "<--event-id <ID>|--to <PLACE>>", ["workflow", "reset", "-w", "no-such"]),
        (UNAVAILABLE, "it does not speak TLS", ["workflow", "list", "--tls"]),
        (USAGE, "it has no port", ["workflow", "list", "--address", "127.0.0.1"]),
        (USAGE, "--port and --http-port are both 7", ["serve", "--in-memory", "--port", "7", "--http-port", "7"]),
    ],
)
def test_what_is_wrong_comes_with_the_remedy(server: SegnoServer, code: int, told: str, words: list[str]) -> None:
    refused(server, code, told, *words)


def test_a_doctor_tells_a_file_from_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, output, _ = segno(None, "doctor", "--data-dir", str(tmp_path / "file"))
    assert code == DATA and "is a file, not a directory" in output


def test_a_schedule_without_times_is_no_silent_success(server: SegnoServer) -> None:
    create = ["schedule", "create", "--type", "Echo", "-t", "nobody", "-s"]
    code, _, errors = segno(server, *create, "never")
    assert code == 0 and "it acts only when it is triggered" in errors
    refused(server, NOT_COMPLETED, "`segno schedule update` changes one", *create, "never")
    code, _, errors = segno(server, *create, "daily", "--cron", "@daily")
    assert (code, errors) == (0, "")


def test_exports_are_private_and_not_of_nothing(tmp_path: Path) -> None:
    empty, file = tmp_path / "empty", tmp_path / "file.export"
    refused(None, NOT_THERE, "there is no database in", "export", "--data-dir", str(empty), "--to", str(file))
    assert not empty.exists()
    filled = SegnoServer(log=tmp_path / "log", data_dir=tmp_path / "data")
    filled.start()
    started(filled, "kept")
    filled.kill()
    code, _, errors = segno(None, "export", "--data-dir", str(tmp_path / "data"), "--to", str(file))
    assert code == 0 and "exported: 1 runs" in errors
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # What is no backup is refused before a directory is made.
    words = ["restore", "--from", str(file), "--data-dir", str(empty)]
    refused(None, DATA, "is not a backup", *words)
    assert not empty.exists()
    (tmp_path / "text").write_text("no export")
    words = ["import", "--from", str(tmp_path / "text"), "--data-dir", str(empty)]
    refused(None, NOT_COMPLETED, f"reading {tmp_path / 'text'}: this is not a whole export", *words)
