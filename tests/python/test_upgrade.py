"""Upgrade and downgrade: files of every earlier schema are opened, read and continued; newer ones are refused and kept."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import SegnoServer, segno_binary
from old_schemas import NEWEST, schema_of, take_back

QUEUE = "upgrade"
ROUNDS = 40


@activity.defn
async def echo(text: str) -> str:
    return text


@workflow.defn
class Waiting:
    """Has a history longer than a run's row keeps, then waits for a signal and runs one more activity."""

    def __init__(self) -> None:
        self.said: str | None = None

    @workflow.run
    async def run(self, rounds: int) -> list[str]:
        timeout = timedelta(seconds=20)
        results = [
            await workflow.execute_activity(echo, f"{number}", start_to_close_timeout=timeout)
            for number in range(rounds)
        ]
        await workflow.wait_condition(lambda: self.said is not None)
        results.append(await workflow.execute_activity(echo, self.said, start_to_close_timeout=timeout))
        return results

    @workflow.signal
    def say(self, text: str) -> None:
        self.said = text

    @workflow.query
    def heard(self) -> str | None:
        return self.said


@workflow.defn
class Sleeping:
    @workflow.run
    async def run(self, seconds: float) -> str:
        await workflow.sleep(seconds)
        return "woken"


def worker(client: Client) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Waiting, Sleeping],
        activities=[echo],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[tuple[Path, dict]]:
    """A data directory of today with workflows that wait, sleep, are closed or have no worker; and their histories."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs servers of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    place = tmp_path_factory.mktemp("filled")
    server = SegnoServer(log=place / "server.log", data_dir=place / "data")
    server.start()
    try:
        histories = asyncio.run(fill(server.address))
        assert server.terminate() == 0
        yield place / "data", histories
    finally:
        server.kill()


async def fill(address: str) -> dict[str, list[bytes]]:
    client = await Client.connect(address)
    async with worker(client):
        long = await client.start_workflow(Waiting.run, ROUNDS, id="long", task_queue=QUEUE)
        short = await client.start_workflow(Waiting.run, 0, id="short", task_queue=QUEUE)
        await client.start_workflow(Sleeping.run, 15.0, id="sleeping", task_queue=QUEUE)
        assert await client.execute_workflow(Sleeping.run, 0.01, id="closed", task_queue=QUEUE) == "woken"
        gone = await client.start_workflow(Waiting.run, 0, id="terminated", task_queue=QUEUE)
        await gone.terminate("enough")
        while len((await long.fetch_history()).events) < 4 + 6 * ROUNDS:
            await asyncio.sleep(0.1)
        assert await short.query(Waiting.heard) is None
    await client.start_workflow(Waiting.run, 1, id="not-begun", task_queue=QUEUE)
    # A list writes what waits to be listed.
    assert len([run async for run in client.list_workflows("")]) == 6
    return await histories(client)


async def histories(client: Client) -> dict[str, list[bytes]]:
    found = {}
    for name in ("long", "short", "sleeping", "closed", "terminated", "not-begun"):
        history = await client.get_workflow_handle(name).fetch_history()
        found[name] = [event.SerializeToString(deterministic=True) for event in history.events]
    return found


@pytest.fixture
async def moved(filled: tuple[Path, dict], schema: int, tmp_path: Path) -> AsyncIterator[SegnoServer]:
    """A server on a copy of the data, taken back to this schema."""
    shutil.copytree(filled[0], tmp_path / "data")
    database = tmp_path / "data/segno.db"
    if schema < NEWEST:
        take_back(database, schema)
    assert schema_of(database) == schema
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "data")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize("schema", range(1, NEWEST + 1))
async def test_a_file_of_an_earlier_schema_is_read_and_goes_on(
    moved: SegnoServer, filled: tuple[Path, dict], schema: int, tmp_path: Path
) -> None:
    client = await Client.connect(moved.address)
    # The timer of `sleeping` may have fired in the meantime.
    found = await histories(client)
    assert {name: found[name][: len(events)] for name, events in filled[1].items()} == filled[1]
    assert all(len(found[name]) == len(events) for name, events in filled[1].items() if name != "sleeping")
    listed = {run.id: run.status async for run in client.list_workflows("")}
    running = WorkflowExecutionStatus.RUNNING
    assert listed == {
        "long": running,
        "short": running,
        "sleeping": running,
        "not-begun": running,
        "closed": WorkflowExecutionStatus.COMPLETED,
        "terminated": WorkflowExecutionStatus.TERMINATED,
    }
    counted = await client.count_workflows("GROUP BY ExecutionStatus")
    assert counted.count == 6
    async with worker(client):
        results = {}
        for name in ("long", "short", "not-begun"):
            handle = client.get_workflow_handle_for(Waiting.run, name)
            await handle.signal(Waiting.say, "after the upgrade")
            results[name] = await handle.result()
        assert results["long"] == [str(number) for number in range(ROUNDS)] + ["after the upgrade"]
        assert results["short"] == ["after the upgrade"]
        assert results["not-begun"] == ["0", "after the upgrade"]
        assert await client.get_workflow_handle("sleeping").result() == "woken"
        assert await client.execute_workflow(Sleeping.run, 0.01, id="closed", task_queue=QUEUE) == "woken"
    assert (await client.count_workflows("ExecutionStatus = 'Completed'")).count == 6
    assert moved.terminate() == 0
    assert schema_of(tmp_path / "data/segno.db") == NEWEST
    doctor = subprocess.run(
        [str(segno_binary()), "doctor", "--data-dir", str(tmp_path / "data"), "--thorough"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert doctor.returncode in (0, 1), doctor.stdout + doctor.stderr


def test_a_file_of_a_newer_schema_is_refused_and_kept(filled: tuple[Path, dict], tmp_path: Path) -> None:
    shutil.copytree(filled[0], tmp_path / "data")
    database = tmp_path / "data/segno.db"
    file = sqlite3.connect(database)
    file.execute(f"PRAGMA user_version = {NEWEST + 1}")
    file.close()
    before = database.read_bytes()
    for command in (["serve", "--port", "0", "--http-port", "0"], ["compact"], ["backup", "--to", str(tmp_path / "b")]):
        ended = subprocess.run(
            [str(segno_binary()), command[0], "--data-dir", str(tmp_path / "data"), *command[1:]],
            capture_output=True,
            text=True,
            timeout=20,
        )
        text = ended.stdout + ended.stderr
        assert ended.returncode == 65, (command, ended.returncode, text)
        assert f"schema {NEWEST + 1}" in text and "backup" in text, text
    assert database.read_bytes() == before


def test_the_way_back_is_the_backup(filled: tuple[Path, dict], tmp_path: Path) -> None:
    """What docs/guides/production.md says: backup, upgrade, and restore under the old version."""

    def segno(*words: str) -> None:
        ended = subprocess.run([str(segno_binary()), *words], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    shutil.copytree(filled[0], tmp_path / "data")
    segno("backup", "--data-dir", str(tmp_path / "data"), "--to", str(tmp_path / "before.db"))
    # The newer version was here.
    file = sqlite3.connect(tmp_path / "data/segno.db")
    file.execute(f"PRAGMA user_version = {NEWEST + 1}")
    file.close()
    segno("restore", "--from", str(tmp_path / "before.db"), "--data-dir", str(tmp_path / "back"))
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "back")
    server.start()
    try:
        assert server.healthz() == 200
        assert server.terminate() == 0
    finally:
        server.kill()
