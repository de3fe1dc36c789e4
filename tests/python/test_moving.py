"""Moving from a file to PostgreSQL and back: open workflows, tokens and everything else go along."""

from __future__ import annotations

import asyncio
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Iterator

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import NAMESPACE, SegnoServer, segno_binary
from nodes import Node, Postgres

pytestmark = pytest.mark.timeout(150)


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    postgres = Postgres()
    try:
        yield postgres
    finally:
        postgres.remove()


tokens: list[bytes] = []


@activity.defn
async def answered_later() -> str:
    tokens.append(activity.info().task_token)
    activity.raise_complete_async()


@workflow.defn
class Asking:
    def __init__(self) -> None:
        self.said = ""

    @workflow.run
    async def run(self) -> str:
        answer = await workflow.execute_activity(answered_later, start_to_close_timeout=timedelta(minutes=5))
        await workflow.wait_condition(lambda: bool(self.said))
        return f"{answer} {self.said}"

    @workflow.signal
    def say(self, text: str) -> None:
        self.said = text


def segno(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(segno_binary()), *arguments], capture_output=True, text=True, timeout=60)


def done(*arguments: str) -> str:
    result = segno(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stderr


def worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue="moving",
        workflows=[Asking],
        activities=[answered_later],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


async def connect(server: SegnoServer) -> Client:
    return await Client.connect(server.address, namespace=NAMESPACE)


async def test_file_to_database_and_back(tmp_path: Path, postgres: Postgres, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs servers of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    tokens.clear()
    first, second = tmp_path / "first", tmp_path / "second"
    server = SegnoServer(log=tmp_path / "file.log", data_dir=first)
    node = Node(postgres, "moved", tmp_path)
    back = SegnoServer(log=tmp_path / "back.log", data_dir=second)
    try:
        server.start()
        client = await connect(server)
        async with worker(client):
            for number in range(2):
                await client.start_workflow(Asking.run, id=f"asking-{number}", task_queue="moving")
            closed = await client.start_workflow(Asking.run, id="closed", task_queue="moving")
            while len(tokens) < 3:
                await asyncio.sleep(0.05)
            await closed.terminate("not needed")
        before = [await client.get_workflow_handle(f"asking-{number}").fetch_history() for number in range(2)]
        # While the server runs the file has a snapshot, and nothing is left of the copy that was made for it.
        running = done("export", "--data-dir", str(first), "--to", str(tmp_path / "running.export"))
        assert "exported from a snapshot of the running server: 3 runs" in running
        assert not (tmp_path / "running.export.snapshot").exists()
        done("import", "--from", str(tmp_path / "running.export"), "--data-dir", str(tmp_path / "of-snapshot"))
        piped = subprocess.run([segno_binary(), "export", "--data-dir", str(first), "--to", "-"], capture_output=True)
        assert piped.returncode == 0 and len(piped.stdout) > 1000, piped.stderr
        assert server.terminate() == 0

        told = done("export", "--data-dir", str(first), "--to", str(tmp_path / "one.export"))
        assert "exported: 3 runs" in told
        done("import", "--from", str(tmp_path / "one.export"), "--store", postgres.url)
        full = segno("import", "--from", str(tmp_path / "one.export"), "--store", postgres.url)
        assert full.returncode != 0 and "not empty" in full.stderr
        node.start()
        client = await connect(node)
        for number in range(2):
            history = await client.get_workflow_handle(f"asking-{number}").fetch_history()
            assert list(history.events) == list(before[number].events)
        description = await client.get_workflow_handle("closed").describe()
        assert description.status == WorkflowExecutionStatus.TERMINATED
        assert [run.id async for run in client.list_workflows("ExecutionStatus = 'Terminated'")] == ["closed"]
        # The token of an attempt that was handed out before the move.
        owner = {}
        for token in tokens:
            try:
                await client.get_async_activity_handle(task_token=token).complete("early")
                owner[token] = True
                break
            except Exception:
                continue
        assert owner, "no token was valid after the move"
        async with worker(client):
            await client.get_workflow_handle("asking-0").signal(Asking.say, "moved")
            await client.start_workflow(Asking.run, id="new", task_queue="moving")
            while len(tokens) < 4:
                await asyncio.sleep(0.05)
        alive = segno("export", "--store", postgres.url, "--to", str(tmp_path / "no.export"))
        assert alive.returncode != 0 and "nodes are running" in alive.stderr
        assert node.terminate() == 0

        done("export", "--store", postgres.url, "--to", str(tmp_path / "two.export"))
        cut = tmp_path / "cut.export"
        cut.write_bytes((tmp_path / "two.export").read_bytes()[:-20])
        broken = segno("import", "--from", str(cut), "--data-dir", str(tmp_path / "broken"))
        assert broken.returncode != 0 and "not a whole export" in broken.stderr
        done("import", "--from", str(tmp_path / "two.export"), "--data-dir", str(second))
        back.start()
        client = await connect(back)
        async with worker(client):
            for token in tokens:
                try:
                    await client.get_async_activity_handle(task_token=token).complete("late")
                except Exception:
                    # Completed before, or of the workflow that was terminated.
                    continue
            results = []
            for id in ("asking-0", "asking-1", "new"):
                handle = client.get_workflow_handle(id)
                if id != "asking-0":
                    await handle.signal(Asking.say, "back")
                results.append(await asyncio.wait_for(handle.result(), 30))
        assert sorted(results) == ["early moved", "late back", "late back"] or sorted(results) == [
            "early back",
            "late back",
            "late moved",
        ]
    finally:
        for process in (server, node, back):
            process.kill()
