"""The disk of the database is full: a clear refusal, nothing acknowledged is lost, and it goes on when there is room again.

Needs root, who can mount a small file system for the database.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

import pytest
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from helpers import NAMESPACE, segno_binary
from nodes import Node, Postgres, connect, insist

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system"),
]


class Ballast:
    """Fills a file system up to some room."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def fill(self, leave: int) -> None:
        free = shutil.disk_usage(self.place).free
        with (self.place / "ballast").open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, free - leave))

    def remove(self) -> None:
        (self.place / "ballast").unlink(missing_ok=True)


@pytest.fixture
def small(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Node, Ballast, Postgres]]:
    """A node whose database has a disk of 400 MB of its own."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a node of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    place = Path(tempfile.mkdtemp(prefix="segno-small-"))
    place.chmod(0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", place], check=True)
    try:
        postgres = Postgres(place)
        node = Node(postgres, "n1", tmp_path, lease=6)
        try:
            node.start()
            yield node, Ballast(place), postgres
        finally:
            node.kill()
            postgres.remove()
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
        place.rmdir()


async def signal(client: Client, workflow_id: str, name: str, size: int) -> None:
    payload = Payload(metadata={"encoding": b"binary/plain"}, data=os.urandom(size))
    await client.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace=NAMESPACE,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            signal_name=name,
            input=Payloads(payloads=[payload]),
        ),
        retry=False,
    )


async def test_a_full_disk_of_the_database_where_root_may_mount_one(small: tuple[Node, Ballast, Postgres]) -> None:
    node, ballast, postgres = small
    client = await connect(node)
    for number in range(4):
        await client.start_workflow("Order", id=f"w-{number}", task_queue="q")
    ballast.fill(leave=4 << 20)
    acknowledged: list[tuple[str, str]] = []
    refusals: list[RPCError] = []
    for number in range(600):
        workflow_id, name = f"w-{number % 4}", f"s-{number}"
        try:
            await signal(client, workflow_id, name, 60_000)
            acknowledged.append((workflow_id, name))
        except RPCError as error:
            refusals.append(error)
            if len(refusals) >= 3:
                break
    assert len(refusals) >= 3, "the disk did not become full: this proves nothing"
    # A full log ends PostgreSQL itself; a full table is an error of one statement.
    assert {error.status for error in refusals} <= {
        RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED,
    }, refusals
    assert node.process and node.process.poll() is None, "the node ended"

    # Room again: no restart of the node is needed.
    ballast.remove()
    if postgres.server and postgres.server.poll() is not None:
        postgres.start()
    await insist(lambda: signal(client, "w-0", "after", 100))
    acknowledged.append(("w-0", "after"))
    for number in range(4):
        history = await client.get_workflow_handle(f"w-{number}").fetch_history()
        names = [
            event.workflow_execution_signaled_event_attributes.signal_name
            for event in history.events
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
        ]
        assert len(names) == len(set(names)), "something was stored twice"
        assert set(names) >= {name for workflow_id, name in acknowledged if workflow_id == f"w-{number}"}
        assert [event.event_id for event in history.events] == list(range(1, len(history.events) + 1))
