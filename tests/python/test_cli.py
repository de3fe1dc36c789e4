"""The everyday commands: `segno workflow`, `namespace`, `search-attribute`, `task-queue`.

The commands run against the server under test, which may also be Temporal's own (SEGNO_ADDRESS): they are
clients like any other.
"""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import uuid
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from flows import CallActivity, Echo, Fails, Waiter, echo, fail_until
from helpers import Env, eventually, free_port, segno_binary

NOT_THERE = 66
UNAVAILABLE = 69
USAGE = 64


class Cli:
    """Runs the binary against one server."""

    def __init__(self, address: str) -> None:
        self.environment = {**os.environ, "SEGNO_ADDRESS": address, "USER": "tester"}
        self.environment.pop("NO_COLOR", None)
        self.environment.pop("SEGNO_NAMESPACE", None)

    async def run(
        self, *words: str, stdin: str = "", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        # In a thread: the worker that answers lives in this event loop.
        return await asyncio.to_thread(
            subprocess.run,
            [str(segno_binary()), *words],
            env={**self.environment, **(environment or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=40,
        )

    async def text(self, *words: str, **options: Any) -> str:
        """Standard output of a command that must work."""
        done = await self.run(*words, **options)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    async def json(self, *words: str, **options: Any) -> Any:
        """The JSON a command prints."""
        return json.loads(await self.text(*words, "--output", "json", **options))

    async def fails(self, code: int, *words: str, **options: Any) -> str:
        """Standard error of a command that must end with this code."""
        done = await self.run(*words, **options)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr

    async def on_terminal(self, *words: str, environment: dict[str, str] | None = None) -> str:
        """What a command prints on a terminal. No worker can answer meanwhile."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [str(segno_binary()), *words],
            env={**self.environment, **(environment or {})},
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:
            # The other end of a terminal closes with an error.
            pass
        os.close(ours)
        assert process.wait(timeout=20) == 0
        return shown.decode()


@pytest.fixture
def cli(address: str) -> Cli:
    if not segno_binary().exists():
        pytest.skip("needs the binary: set SEGNO_BIN")
    return Cli(address)


async def start(cli: Cli, env: Env, kind: str, *words: str) -> Any:
    """Starts a workflow under the test's id; returns the JSON of the command."""
    return await cli.json(
        "workflow", "start", "--type", kind, "--task-queue", env.task_queue, "--workflow-id", env.id, *words
    )


# --- starting and looking ---


async def test_start_describe_and_show(env: Env, cli: Cli) -> None:
    started = await start(cli, env, "Waiter", "--memo", 'note="hello"', "--run-timeout", "1h30m")
    assert started["workflowId"] == env.id
    assert started["type"] == "Waiter" and started["taskQueue"] == env.task_queue
    assert started["started"] is True

    described = await cli.json("workflow", "describe", "-w", env.id)
    info = described["workflowExecutionInfo"]
    assert info["execution"] == {"workflowId": env.id, "runId": started["runId"]}
    assert info["status"] == "WORKFLOW_EXECUTION_STATUS_RUNNING"
    assert info["memo"] == {"fields": {"note": "hello"}}
    assert described["executionConfig"]["workflowRunTimeout"] == "5400s"
    assert described["pendingWorkflowTask"]["state"] == "PENDING_WORKFLOW_TASK_STATE_SCHEDULED"

    text = await cli.text("workflow", "describe", "-w", env.id, "-r", started["runId"])
    assert re.search(rf"^  WorkflowId +{re.escape(env.id)}$", text, re.M), text
    assert re.search(r"^  Status +Running$", text, re.M), text
    assert re.search(r"^  RunTimeout +1h30m$", text, re.M), text
    assert re.search(r'^  Memo +note="hello"$', text, re.M), text
    started_at = r"^  StartTime +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \((now|\d+ seconds? ago)\)$"
    assert re.search(started_at, text, re.M), text

    lines = (await cli.text("workflow", "show", "-w", env.id)).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2"]
    assert [line.split()[2] for line in lines] == ["WorkflowExecutionStarted", "WorkflowTaskScheduled"]
    assert f"workflowType=Waiter taskQueue={env.task_queue}" in lines[0]
    assert 'memo={"note":"hello"}' in lines[0]


async def test_start_text_and_input(env: Env, cli: Cli, tmp_path: Any) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"from": "a file"}\n')
    words = ["--type", "Echo", "--task-queue", env.task_queue]
    text = await cli.text("workflow", "start", *words, "-w", env.id, "--input-file", str(file))
    assert text.startswith("Started\n") and env.id in text
    from_stdin = ["-w", f"{env.id}-2", "--input-file", "-"]
    await cli.text("workflow", "start", *words, *from_stdin, stdin='"from stdin"')
    # Digits and the order of keys are kept.
    exact = '{"z":12345678901234567890,"a":1.10}'
    await cli.text("workflow", "start", *words, "-w", f"{env.id}-3", "-i", exact)
    async with env.worker(Echo):
        assert json.loads(await cli.text("workflow", "result", "-w", env.id)) == {"from": "a file"}
        assert await cli.text("workflow", "result", "-w", f"{env.id}-2") == '"from stdin"\n'
        result = await cli.json("workflow", "result", "-w", f"{env.id}-3")
        assert result["status"] == "COMPLETED"
        assert result["result"]["z"] == 12345678901234567890
    shown = await cli.text("workflow", "show", "-w", f"{env.id}-3")
    assert f"input=[{exact}]" in shown


async def test_random_workflow_ids(env: Env, cli: Cli) -> None:
    words = ["workflow", "start", "--type", "Echo", "-t", env.task_queue]
    ids = {(await cli.json(*words))["workflowId"] for _ in range(2)}
    assert len(ids) == 2 and all(uuid.UUID(one).version == 4 for one in ids)


async def test_an_id_in_use(env: Env, cli: Cli) -> None:
    first = await start(cli, env, "Waiter")
    words = ["workflow", "start", "--type", "Waiter", "-t", env.task_queue, "-w", env.id]
    error = await cli.fails(1, *words)
    assert "cannot start the workflow: Workflow execution is already running" in error
    assert "--id-conflict-policy UseExisting" in error
    existing = await cli.json(*words, "--id-conflict-policy", "UseExisting")
    assert existing["runId"] == first["runId"] and existing["started"] is False
    replaced = await cli.json(*words, "--id-conflict-policy", "TerminateExisting")
    assert replaced["runId"] != first["runId"] and replaced["started"] is True


async def test_history_as_json_can_be_replayed(env: Env, cli: Cli) -> None:
    async with env.worker(CallActivity, echo):
        await env.execute(CallActivity, "echo", ["hi"], {})
    text = await cli.text("workflow", "show", "-w", env.id, "-o", "json")
    assert len(json.loads(text)["events"]) == 11
    history = WorkflowHistory.from_json(env.id, text)
    assert history.events == (await env.handle().fetch_history()).events
    replayer = Replayer(workflows=[CallActivity], workflow_runner=UnsandboxedWorkflowRunner())
    await replayer.replay_workflow(history)


# --- signals, queries, ends ---


async def test_signal_query_and_result(env: Env, cli: Cli) -> None:
    await start(cli, env, "Waiter")
    async with env.worker(Waiter):
        sent = await cli.json("workflow", "signal", "-w", env.id, "--name", "add", "-i", '{"n": 1}')
        assert sent == {"workflowId": env.id, "namespace": "default", "action": "signaled"}
        text = await cli.text("workflow", "signal", "-w", env.id, "--name", "add", "-i", "2")
        assert text == f"Signal add was sent to workflow {env.id}\n"
        ask = ["workflow", "query", "-w", env.id, "--type"]
        assert json.loads(await cli.text(*ask, "current")) == [{"n": 1}, 2]
        assert await cli.json(*ask, "current") == {"queryResult": [[{"n": 1}, 2]]}
        assert "query failed on purpose" in await cli.fails(USAGE, *ask, "broken")
        await cli.text("workflow", "signal", "-w", env.id, "--name", "finish")
        assert json.loads(await cli.text("workflow", "result", "-w", env.id)) == [{"n": 1}, 2]
        rejected = await cli.fails(1, *ask, "current", "--reject-condition", "not_open")
        assert f"workflow {env.id} is Completed" in rejected


async def test_execute_prints_the_result_alone(env: Env, cli: Cli) -> None:
    async with env.worker(Echo):
        words = ["workflow", "execute", "--type", "Echo", "-t", env.task_queue, "-w", env.id, "-i", '"out"']
        done = await cli.run(*words)
        assert (done.returncode, done.stdout) == (0, '"out"\n')
        assert f"started workflow {env.id}, run " in done.stderr
        result = await cli.json(*words)
        assert result["status"] == "COMPLETED" and result["result"] == "out"
        assert result["closeEvent"]["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED"


async def test_a_failure_is_told_with_its_causes(env: Env, cli: Cli) -> None:
    async with env.worker(CallActivity, fail_until):
        retry = {"retry": {"maximum_attempts": 1}}
        handle = await env.start(CallActivity, "fail_until", [2], retry)
        error = await cli.fails(1, "workflow", "result", "-w", env.id)
        assert error.startswith(f"segno: workflow {env.id} failed: "), error
        assert "caused by: attempt 1 fails (NotYet" in error, error
        run_id = handle.first_execution_run_id or ""
        done = await cli.run("workflow", "result", "-w", env.id, "-r", run_id, "-o", "json")
        outcome = json.loads(done.stdout)
        assert done.returncode == 1 and outcome["status"] == "FAILED"
        assert outcome["failure"]["cause"]["applicationFailureInfo"]["type"] == "NotYet"
    assert "failure=" in await cli.text("workflow", "show", "-w", env.id)


async def test_details_of_a_failure(env: Env, cli: Cli) -> None:
    async with env.worker(Fails):
        await env.start(Fails, "no \x1b[31mmoney")
        error = await cli.fails(1, "workflow", "result", "-w", env.id)
    # No message moves the cursor.
    assert "failed: no \\u{1b}[31mmoney (OnPurpose, details: \"detail\", 7)" in error, error


async def test_cancel_and_terminate(env: Env, cli: Cli) -> None:
    await start(cli, env, "Waiter")
    async with env.worker(Waiter):
        done = await cli.json("workflow", "cancel", "-w", env.id, "--reason", "enough")
        assert done["action"] == "cancelRequested"
        assert f"workflow {env.id} was canceled" in await cli.fails(1, "workflow", "result", "-w", env.id)
    assert "cause=enough" in await cli.text("workflow", "show", "-w", env.id)

    await start(cli, env, "Waiter")
    text = await cli.text("workflow", "terminate", "-w", env.id, "--reason", "stuck")
    assert text == f"Workflow {env.id} was terminated\n"
    error = await cli.fails(1, "workflow", "result", "-w", env.id)
    assert re.search(r"was terminated by segno:tester@\S+: stuck", error), error
    assert "already completed" in await cli.fails(NOT_THERE, "workflow", "terminate", "-w", env.id)


async def test_delete_asks(env: Env, cli: Cli) -> None:
    await start(cli, env, "Waiter")
    await cli.text("workflow", "terminate", "-w", env.id)
    assert "--yes" in await cli.fails(USAGE, "workflow", "delete", "-w", env.id)
    assert (await cli.json("workflow", "delete", "-w", env.id, "--yes"))["action"] == "deleted"

    async def gone() -> bool:
        return (await cli.run("workflow", "describe", "-w", env.id)).returncode == NOT_THERE

    # Temporal deletes in the background, and takes its time.
    await eventually(gone, timeout=40)


async def test_follow(env: Env, cli: Cli) -> None:
    await start(cli, env, "Waiter")
    words = ["workflow", "show", "-w", env.id, "--follow"]
    watchers = [
        subprocess.Popen(
            [str(segno_binary()), *words, *form], env=cli.environment, stdout=subprocess.PIPE, text=True
        )
        for form in ([], ["-o", "json"])
    ]
    try:
        assert watchers[0].stdout is not None
        assert "WorkflowExecutionStarted" in watchers[0].stdout.readline()
        async with env.worker(Waiter):
            await env.handle().signal("finish")
            await env.handle().result()
            (text, _), (lines, _) = [
                await asyncio.to_thread(watcher.communicate, timeout=20) for watcher in watchers
            ]
    finally:
        for watcher in watchers:
            watcher.kill()
    assert text.splitlines()[-1].split()[2] == "WorkflowExecutionCompleted"
    events = [json.loads(line) for line in lines.splitlines()]
    assert [int(event["eventId"]) for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["eventType"] == "EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED"


async def test_pending_work_is_described(env: Env, cli: Cli) -> None:
    arguments = ['"fail_until"', "[100]", '{"retry": {"initial_interval": 600}}']
    await start(cli, env, "CallActivity", *(word for one in arguments for word in ("-i", one)))
    async with env.worker(CallActivity, fail_until):

        async def failed_once() -> str:
            text = await cli.text("workflow", "describe", "-w", env.id)
            assert "attempt 1 fails" in text
            return text

        text = await eventually(failed_once)
    assert "Pending activities: 1\n" in text
    assert re.search(r"^  1 +fail_until +Scheduled +2 ", text, re.M), text
    assert re.search(r"in \d+ minutes", text), text


# --- lists ---


async def test_list_and_count(env: Env, cli: Cli) -> None:
    for number in range(5):
        words = ["workflow", "start", "--type", "Waiter", "-t", env.task_queue, "-w", f"{env.id}-{number}"]
        await cli.text(*words, "--memo", f"n={number}")
    await cli.text("workflow", "terminate", "-w", f"{env.id}-0")
    query = f"TaskQueue = '{env.task_queue}'"

    async def all_listed() -> Any:
        found = await cli.json("workflow", "list", "-q", query, "--page-size", "2")
        assert len(found) == 5
        assert sum(one["status"] == "WORKFLOW_EXECUTION_STATUS_TERMINATED" for one in found) == 1
        return found

    found = await eventually(all_listed)
    ids = {one["execution"]["workflowId"] for one in found}
    assert ids == {f"{env.id}-{number}" for number in range(5)}
    assert {one["memo"]["fields"]["n"] for one in found} == set(range(5))
    assert len(await cli.json("workflow", "list", "-q", query, "--limit", "3", "--page-size", "2")) == 3
    assert await cli.json("workflow", "list", "-q", f"TaskQueue = 'no-{env.task_queue}'") == []

    lines = (await cli.text("workflow", "list", "-q", query, "--page-size", "2")).splitlines()
    assert lines[0].split() == ["Status", "WorkflowId", "Type", "Started", "StartTime", "RunId"]
    assert len(lines) == 6
    assert len({line.index("Waiter") for line in lines[1:]}) == 1, "columns are aligned"
    assert sorted(line.split()[0] for line in lines[1:]) == ["Running"] * 4 + ["Terminated"]
    assert all(re.search(r"(now|\d+ (second|minute)s? ago) +\d{4}-\d\d-\d\dT\S+Z ", line) for line in lines[1:])

    assert await cli.text("workflow", "count", "-q", query) == "Total: 5\n"
    counted = await cli.json("workflow", "count", "-q", f"{query} GROUP BY ExecutionStatus")
    assert counted["count"] == "5"
    groups = {group["groupValues"][0]: group["count"] for group in counted["groups"]}
    assert groups == {"Running": "4", "Terminated": "1"}
    assert "Terminated  1" in await cli.text("workflow", "count", "-q", f"{query} GROUP BY ExecutionStatus")


async def test_a_filter_that_makes_no_sense(cli: Cli) -> None:
    error = await cli.fails(USAGE, "workflow", "list", "-q", "this is no filter")
    assert error.startswith("segno: cannot list workflows: the server does not accept this: "), error


async def test_a_reader_that_leaves(env: Env, cli: Cli) -> None:
    await start(cli, env, "Waiter")
    process = subprocess.Popen(
        [str(segno_binary()), "workflow", "show", "-w", env.id, "-o", "json"],
        env=cli.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (0, b"")


# --- colours ---


async def test_colours_only_on_a_terminal(env: Env, cli: Cli) -> None:
    await start(cli, env, "Waiter")
    words = ["workflow", "describe", "-w", env.id]
    assert "\x1b" not in await cli.text(*words)
    assert "\x1b[34mRunning\x1b[0m" in await cli.text(*words, "--color", "always")
    assert "\x1b[34mRunning\x1b[0m" in await cli.on_terminal(*words)
    assert "\x1b" not in await cli.on_terminal(*words, environment={"NO_COLOR": "1"})
    assert "\x1b" not in await cli.on_terminal(*words, "--color", "never")
    assert "\x1b" not in await cli.on_terminal(*words, "-o", "json")


# --- namespaces, search attributes, task queues ---


async def test_namespaces(cli: Cli) -> None:
    assert re.search(r"^default +Registered ", await cli.text("namespace", "list"), re.M)
    assert "default" in [one["namespaceInfo"]["name"] for one in await cli.json("namespace", "list")]
    assert (await cli.json("namespace", "describe"))["namespaceInfo"]["name"] == "default"
    error = await cli.fails(NOT_THERE, "namespace", "describe", "no-such-namespace")
    assert "Namespace no-such-namespace is not found" in error and "segno namespace create" in error
    # In every command, not only in this one.
    error = await cli.fails(NOT_THERE, "workflow", "describe", "-w", "x", "-n", "no-such-namespace")
    assert "segno namespace list" in error


async def test_creating_and_changing_namespaces(cli: Cli) -> None:
    name = f"cli-{uuid.uuid4().hex[:10]}"
    options = ["--retention", "3d", "--description", "a test", "--data", "k=v"]
    created = await cli.json("namespace", "create", name, *options)
    assert created == {"namespace": name, "action": "created"}
    assert "already exists" in await cli.fails(1, "namespace", "create", "-n", name)

    async def visible() -> Any:
        return await cli.json("namespace", "describe", name)

    described = await eventually(visible)
    assert described["namespaceInfo"]["description"] == "a test"
    assert described["namespaceInfo"]["data"] == {"k": "v"}
    assert described["config"]["workflowExecutionRetentionTtl"] == "259200s"
    assert re.search(rf"^{name} +Registered +3d +a test$", await cli.text("namespace", "list"), re.M)
    assert await cli.fails(2, "namespace", "update", name), "something has to change"
    await cli.text("namespace", "update", name, "--retention", "96h")
    config = (await cli.json("namespace", "describe", name))["config"]
    assert config["workflowExecutionRetentionTtl"] == "345600s"


async def test_deleting_namespaces(cli: Cli) -> None:
    name = f"cli-{uuid.uuid4().hex[:10]}"
    await cli.text("namespace", "create", name)
    assert "--yes" in await cli.fails(USAGE, "namespace", "delete", name)
    assert (await cli.json("namespace", "delete", name, "--yes"))["action"] == "deleted"

    async def gone() -> bool:
        return (await cli.run("namespace", "describe", name)).returncode == NOT_THERE

    await eventually(gone, timeout=30)


async def test_search_attributes(env: Env, cli: Cli) -> None:
    name = f"Cli{uuid.uuid4().hex[:10]}"
    created = await cli.json("search-attribute", "create", "--name", name, "--type", "Keyword")
    assert created == {"namespace": "default", "names": [name], "action": "created"}

    async def listed() -> Any:
        found = await cli.json("search-attribute", "list")
        assert found["customAttributes"][name] == "INDEXED_VALUE_TYPE_KEYWORD"
        return found

    found = await eventually(listed)
    assert found["systemAttributes"]["WorkflowId"] == "INDEXED_VALUE_TYPE_KEYWORD"
    text = await cli.text("search-attribute", "list")
    assert re.search(rf"^{name} +Keyword +custom$", text, re.M)
    assert re.search(r"^StartTime +Datetime +predefined$", text, re.M)

    error = await cli.fails(1, "search-attribute", "create", "--name", name, "--type", "Int")
    assert "with another type" in error

    async def started() -> Any:
        done = await cli.run(
            *["workflow", "start", "--type", "Waiter", "-t", env.task_queue, "-w", env.id],
            *["--id-conflict-policy", "UseExisting", "--search-attribute", f'{name}="blue"'],
        )
        return done.returncode == 0

    await eventually(started)
    described = await cli.text("workflow", "describe", "-w", env.id)
    assert re.search(rf'^  SearchAttributes +.*{name}="blue"', described, re.M), described
    assert "--yes" in await cli.fails(USAGE, "search-attribute", "remove", "--name", name)
    await cli.text("search-attribute", "remove", "--name", name, "--yes")
    assert "Kewyord" in await cli.fails(2, "search-attribute", "create", "--name", "X", "--type", "Kewyord")


async def test_task_queue(env: Env, cli: Cli) -> None:
    async with env.worker(Echo, echo, identity="the-worker"):

        async def polled() -> Any:
            both = await cli.json("task-queue", "describe", "-t", env.task_queue)
            assert [one["taskQueueType"] for one in both] == ["workflow", "activity"]
            pollers = [one.get("pollers", []) for one in both]
            return all("the-worker" in [poller["identity"] for poller in some] for some in pollers)

        await eventually(polled)
        text = await cli.text("task-queue", "describe", "-t", env.task_queue, "--task-queue-type", "workflow")
    assert text.startswith("Workflow tasks\n") and "Activity" not in text
    assert re.search(r"^  the-worker +(now|\d+ seconds? ago) ", text, re.M), text


# --- mistakes ---


async def test_mistakes_are_told_in_plain_words(cli: Cli) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    error = await cli.fails(UNAVAILABLE, "workflow", "list", "--address", nowhere)
    assert f"cannot connect to {nowhere}" in error and "segno serve" in error
    environment = {"SEGNO_ADDRESS": "", "TEMPORAL_ADDRESS": nowhere}
    error = await cli.fails(UNAVAILABLE, "workflow", "list", environment=environment)
    assert f"cannot connect to {nowhere}" in error
    error = await cli.fails(NOT_THERE, "workflow", "signal", "-w", "no-such-workflow", "--name", "s")
    assert error.startswith("segno: cannot signal the workflow: workflow not found for ID: no-such"), error
    error = await cli.fails(2, "workflow", "start", "--type", "T", "-t", "q", "-i", "hello")
    assert "not JSON" in error and "quotes" in error
    assert "--workflow-id" in await cli.fails(2, "workflow", "describe")
    error = await cli.fails(2, "workflow", "start", "--type", "T", "-t", "q", "--run-timeout", "10")
    assert "a duration such as 10s" in error


async def test_patience(env: Env, cli: Cli) -> None:
    await start(cli, env, "Waiter")
    error = await cli.fails(75, "workflow", "result", "-w", env.id, "--command-timeout", "500ms")
    assert "--command-timeout" in error


async def test_help_shows_examples(cli: Cli) -> None:
    for command in ("workflow list", "namespace create", "server start-dev", "task-queue describe"):
        text = await cli.text(*command.split(), "--help")
        assert "Example" in text and f"segno {command}" in text
