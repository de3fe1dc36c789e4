"""A run that cannot be read can be terminated and deleted, on each store, and its workflow id used again."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Iterator

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, PollWorkflowTaskQueueRequest
from temporalio.api.common.v1 import WorkflowExecution

from helpers import NAMESPACE, SegnoServer, event_names, eventually, raises, segno_binary
from nodes import Postgres


class Sqlite:
    """A data directory."""

    def __init__(self, directory: Path) -> None:
        self.flags = ["--data-dir", str(directory)]
        self.file = directory / "segno.db"

    def execute(self, sql: str) -> None:
        with sqlite3.connect(self.file) as file:
            assert file.execute(sql).rowcount == 1, sql

    def damage_state(self) -> None:
        self.execute("UPDATE runs SET state = CAST(substr(state, 1, length(state) - 1) || x'ff' AS BLOB)")

    def lose_pointer(self) -> None:
        self.execute("DELETE FROM current")


class OnPostgres:
    """A database."""

    def __init__(self, postgres: Postgres) -> None:
        self.flags = ["--store", postgres.url]
        self.postgres = postgres

    def damage_state(self) -> None:
        damage = "UPDATE segno.runs SET state = set_byte(state, length(state) - 1, 255) RETURNING 1"
        assert self.postgres.query(damage) == "1"

    def lose_pointer(self) -> None:
        assert self.postgres.query("DELETE FROM segno.current RETURNING 1") == "1"


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sqlite | OnPostgres]:
    if request.config.getoption("--segno-address"):
        pytest.skip("damages what is stored: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    if request.param == "sqlite":
        yield Sqlite(tmp_path / "data")
        return
    postgres = Postgres()
    try:
        yield OnPostgres(postgres)
    finally:
        postgres.remove()


@pytest.fixture
def server(store: Sqlite | OnPostgres, tmp_path: Path) -> Iterator[SegnoServer]:
    server = SegnoServer(log=tmp_path / "server.log")
    server.storage = store.flags
    try:
        server.start()
        yield server
    finally:
        server.kill()


async def connect(server: SegnoServer) -> Client:
    return await Client.connect(server.address, namespace=NAMESPACE)


async def start(client: Client) -> WorkflowHandle[object, object]:
    return await client.start_workflow("Nobody", id="w", task_queue="nobody-polls")


async def statuses(client: Client) -> dict[str, WorkflowExecutionStatus | None]:
    """Status by run id, as lists show it."""
    return {found.run_id: found.status async for found in client.list_workflows("WorkflowId = 'w'")}


async def counts(client: Client) -> dict[str, int]:
    grouped = await client.count_workflows("GROUP BY ExecutionStatus")
    return {str(group.group_values[0]): group.count for group in grouped.groups}


async def test_a_run_whose_state_is_damaged_can_be_terminated(server: SegnoServer, store: Sqlite | OnPostgres) -> None:
    handle = await start(await connect(server))
    damaged = handle.result_run_id
    assert damaged
    assert server.terminate() == 0
    store.damage_state()
    server.start()
    client = await connect(server)
    handle = client.get_workflow_handle("w")
    assert (await raises(RPCError, handle.describe())).status == RPCStatusCode.DATA_LOSS
    assert (await raises(RPCError, start(client))).status == RPCStatusCode.DATA_LOSS
    assert await statuses(client) == {damaged: WorkflowExecutionStatus.RUNNING}
    await handle.terminate("it is damaged")
    assert await statuses(client) == {damaged: WorkflowExecutionStatus.TERMINATED}
    assert await counts(client) == {"Terminated": 1}
    assert (await raises(RPCError, handle.terminate())).status == RPCStatusCode.NOT_FOUND
    again = await start(client)
    # All of it is durable.
    server.kill()
    server.start()
    client = await connect(server)
    assert again.result_run_id
    expected = {damaged: WorkflowExecutionStatus.TERMINATED, again.result_run_id: WorkflowExecutionStatus.RUNNING}
    assert await statuses(client) == expected
    assert (await client.get_workflow_handle("w").describe()).run_id == again.result_run_id
    of_damaged = client.get_workflow_handle("w", run_id=damaged)
    assert (await raises(RPCError, of_damaged.describe())).status == RPCStatusCode.DATA_LOSS
    closed = await raises(RPCError, of_damaged.terminate())
    assert (closed.status, closed.message) == (RPCStatusCode.NOT_FOUND, "workflow execution already completed")
    execution = WorkflowExecution(workflow_id="w", run_id=damaged)
    request = DeleteWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=execution)
    await client.workflow_service.delete_workflow_execution(request)
    assert await statuses(client) == {again.result_run_id: WorkflowExecutionStatus.RUNNING}
    assert await counts(client) == {"Running": 1}


async def test_a_run_whose_pointer_is_lost_is_terminated_as_others_are(
    server: SegnoServer, store: Sqlite | OnPostgres
) -> None:
    handle = await start(await connect(server))
    run = handle.result_run_id
    assert server.terminate() == 0
    store.lose_pointer()
    server.start()
    client = await connect(server)
    handle = client.get_workflow_handle("w")
    assert (await raises(RPCError, handle.describe())).status == RPCStatusCode.NOT_FOUND
    await handle.terminate("its pointer is lost")
    found = await handle.describe()
    assert (found.run_id, found.status) == (run, WorkflowExecutionStatus.TERMINATED)
    assert (await event_names(handle))[-1] == "WorkflowExecutionTerminated"
    await start(client)


async def test_the_damage_is_counted_until_the_run_is_deleted(server: SegnoServer, store: Sqlite | OnPostgres) -> None:
    """The task of the damaged run is what the server comes across by itself."""
    await start(await connect(server))
    assert server.terminate() == 0
    store.damage_state()
    server.start()
    assert await eventually(lambda: counted(server, 1))
    client = await connect(server)
    await client.get_workflow_handle("w").terminate()
    assert await counted(server, 1)
    execution = WorkflowExecution(workflow_id="w", run_id=next(iter(await statuses(client))))
    request = DeleteWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=execution)
    await client.workflow_service.delete_workflow_execution(request)
    assert await counted(server, 0)


async def counted(server: SegnoServer, count: int) -> bool:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        lines = reply.read().decode().splitlines()
    return f"segno_damaged_runs {count}" in lines


async def test_lost_rows_are_found_and_no_worker_gets_a_short_history(tmp_path: Path) -> None:
    if not segno_binary().exists():
        pytest.skip("needs the binary: set SEGNO_BIN")
    directory = tmp_path / "data"
    server = SegnoServer(log=tmp_path / "server.log")
    server.storage = ["--data-dir", str(directory)]

    def doctor() -> str:
        words = [str(segno_binary()), "doctor", "--data-dir", str(directory), "--output", "json"]
        seen = subprocess.run(words, capture_output=True, text=True, timeout=60)
        return next(found["text"] for found in json.loads(seen.stdout) if found["check"] == "database")

    try:
        server.start()
        client = await connect(server)
        for workflow_id in ("long", "lost", "short"):
            await client.start_workflow("Nobody", id=workflow_id, task_queue="q")
        # Long enough for rows of their own.
        for _ in range(6):
            await client.get_workflow_handle("long").signal("s", "x" * 1500)
        assert "its parts agree" in doctor(), "beside the server"
        # Lists all runs.
        assert await counts(client) == {"Running": 3}
        assert server.terminate() == 0
        assert "its parts agree" in doctor()
        with sqlite3.connect(directory / "segno.db") as file:
            file.execute("UPDATE runs SET recent_history = x'' WHERE length(recent_history) > 0 AND run_key = 1")
            file.execute("DELETE FROM history WHERE id = (SELECT max(id) FROM history WHERE id >> 20 = 1)")
            file.execute("DELETE FROM current WHERE workflow_id = 'lost'")
            file.execute("UPDATE status_counts SET runs = runs + 1")
        found = doctor()
        for text in ("run 1 has had", '"lost" in namespace', "the count of runs"):
            assert text in found, found
        server.start()
        client = await connect(server)
        error = await raises(RPCError, client.get_workflow_handle("long").describe())
        assert error.status == RPCStatusCode.DATA_LOSS and "is missing" in error.message, error
        queue = TaskQueue(name="q")
        taken = []
        for _ in range(3):
            poll = PollWorkflowTaskQueueRequest(namespace=NAMESPACE, task_queue=queue, identity="w")
            try:
                task = await client.workflow_service.poll_workflow_task_queue(poll, timeout=timedelta(seconds=2))
                taken.append(task.workflow_execution.workflow_id)
            except RPCError:
                break
        assert "short" in taken and "long" not in taken, taken
    finally:
        server.kill()
