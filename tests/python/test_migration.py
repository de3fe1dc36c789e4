"""`segno migration status`: an old server and this one are compared until the old one is empty."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest

from helpers import SegnoServer, segno_binary


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[SegnoServer]]:
    made = [SegnoServer(log=tmp_path / f"{name}.log") for name in ("old", "new")]
    try:
        for server in made:
            server.start()
        yield made
    finally:
        for server in made:
            server.kill()


def segno(server: SegnoServer, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SEGNO_ADDRESS": server.address}
    return subprocess.run([str(segno_binary()), *words], env=environment, capture_output=True, text=True, timeout=60)


def compared(old: SegnoServer, new: SegnoServer) -> tuple[int, dict[str, Any]]:
    done = segno(new, "migration", "status", "--from", old.address, "-o", "json")
    return done.returncode, json.loads(done.stdout)


def start(server: SegnoServer, workflow_id: str) -> None:
    started = segno(server, "workflow", "start", "--type", "Order", "-t", "orders", "-w", workflow_id)
    assert started.returncode == 0, started.stderr


def test_the_old_server_is_drained(servers: list[SegnoServer]) -> None:
    old, new = servers
    start(old, "order-1")
    start(old, "order-2")
    start(new, "order-2")
    plan = ["--interval", "1h", "--type", "Report", "-t", "reports"]
    for server in servers:
        assert segno(server, "schedule", "create", "-s", "nightly", *plan).returncode == 0
    code, told = compared(old, new)
    assert code == 1 and not told["oldIsEmpty"]
    assert (told["old"]["openWorkflows"], told["new"]["openWorkflows"]) == (2, 1)
    assert (told["workflowsOnBoth"], told["schedulesOnBoth"]) == (["order-2"], ["nightly"])
    text = segno(new, "migration", "status", "--from", old.address)
    assert "Open on both servers, so that their work may be done twice: order-2" in text.stdout, text.stdout
    # What the old server has is not changed by the comparison; when it has ended there, the old one is empty.
    for workflow_id in ("order-1", "order-2"):
        assert segno(old, "workflow", "terminate", workflow_id).returncode == 0
    assert segno(old, "schedule", "toggle", "nightly", "--pause").returncode == 0
    waited = segno(new, "migration", "status", "--from", old.address, "--wait")
    assert waited.returncode == 0 and "its workers can be stopped" in waited.stdout, waited.stdout
    code, told = compared(old, new)
    assert code == 0 and told["oldIsEmpty"]
