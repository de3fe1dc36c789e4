"""Keys and scripts are changed while nodes hear nothing of each other: when the command returns, no node has what was before."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Iterator

import grpc
import pytest
from temporalio.api.common.v1 import WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import HistoryEventFilterType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    StartWorkflowExecutionRequest,
    WorkflowServiceStub,
)

from helpers import NAMESPACE, free_port, segno_binary
from nodes import Node, Postgres

pytestmark = pytest.mark.timeout(180)

LEASE = 3
STARTS = 16


class Link:
    """The way to a node, which may fall silent: connections stay open, and no byte passes."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.passes = threading.Event()
        self.passes.set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.passes.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for side in (source, sink):
                try:
                    side.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass


class Nodes:
    """Three nodes that ask who calls, with a link before each."""

    def __init__(self, directory: Path) -> None:
        self.postgres = Postgres()
        self.nodes, self.links = [], []
        key_file = directory / "admin.key"
        for number in range(1, 4):
            node = Node(self.postgres, f"n{number}", directory, lease=LEASE)
            listen = free_port()
            node.flags[node.flags.index("--node-listen") + 1] = f"127.0.0.1:{listen}"
            link = Link(listen)
            node.flags += ["--node-address", f"127.0.0.1:{link.port}", "--admin-key-file", str(key_file)]
            node.is_ready = lambda node=node: "ready" in node.log.read_text()  # type: ignore[method-assign]
            node.start()
            self.nodes.append(node)
            self.links.append(link)
        self.admin = key_file.read_text().strip()
        deadline = time.monotonic() + 30
        while any(self.view(node)["shards_served_here"] < 200 for node in self.nodes):
            assert time.monotonic() < deadline, "the nodes do not share the work"
            time.sleep(0.1)

    def view(self, node: Node) -> dict[str, Any]:
        """What a node says of the cluster."""
        url = f"http://127.0.0.1:{node.http_port}/cluster"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.admin}"})
        with urllib.request.urlopen(request, timeout=5) as reply:
            return json.load(reply)

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()
        for link in self.links:
            link.passes.set()
            link.listener.close()
        self.postgres.remove()

    def command(self, node: Node, *words: str, key: str | None = None) -> subprocess.Popen[str]:
        command = [segno_binary(), *words, "--address", node.address, "--command-timeout", "10s"]
        environment = {**os.environ, "SEGNO_API_KEY": key or self.admin}
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def done(self, node: Node, *words: str) -> str:
        command = self.command(node, *words)
        out, errors = command.communicate(timeout=30)
        assert command.returncode == 0, errors
        return out.strip()

    def first(self, *words_of: list[str]) -> int:
        """Gives each node a command; the number of the one that returned first, with success: only one of them leads."""
        commands = [self.command(node, *words) for node, words in zip(self.nodes, words_of)]
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for number, command in enumerate(commands):
                if command.poll() == 0:
                    return number
            time.sleep(0.005)
        raise AssertionError([command.communicate()[1] for command in commands])


@pytest.fixture
def nodes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    made = Nodes(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def test_changes_are_everywhere_although_links_are_silent(nodes: Nodes, tmp_path: Path):
    """Fails on a server that tells changes over links only: nodes without them go on with the key and the script."""
    first = nodes.nodes[0]
    names = ["one", "two", "three"]
    secrets = [nodes.done(first, "key", "create", name, "--grant", "default:read") for name in names]
    sources = []
    for number in range(4):
        source = tmp_path / f"changing{number}.flow"
        source.write_text(f'workflow changing() {{\n  return "version {number}"\n}}\n')
        sources.append(str(source))
    nodes.done(first, "flow", "deploy", sources[3])
    for node in nodes.nodes:
        for name, secret in zip(names, secrets):
            shown = nodes.command(node, "key", "whoami", key=secret)
            assert name in shown.communicate()[0]

    for link in nodes.links:
        link.passes.clear()
    revoked = nodes.first(*(["key", "revoke", name] for name in names))
    refused = [nodes.command(node, "key", "whoami", key=secrets[revoked]) for node in nodes.nodes]
    for node, command in zip(nodes.nodes, refused):
        out, errors = command.communicate()
        assert command.returncode == 77, f"{node.name} knows a key that was revoked: {out}{errors}"

    deployed = nodes.first(*(["flow", "deploy", source] for source in sources[:3]))
    metadata = (("authorization", f"Bearer {nodes.admin}"),)
    stubs = [WorkflowServiceStub(grpc.insecure_channel(node.address)) for node in nodes.nodes]
    calls = []
    for stub in stubs:
        for _ in range(STARTS):
            request = StartWorkflowExecutionRequest(
                namespace=NAMESPACE,
                workflow_id=f"changing-{uuid.uuid4()}",
                workflow_type=WorkflowType(name="changing"),
                task_queue=TaskQueue(name="changing"),
                request_id=str(uuid.uuid4()),
            )
            # What belongs to another node is not answered in that silence.
            call = stub.StartWorkflowExecution.future(request, timeout=3, metadata=metadata)
            calls.append((stub, request.workflow_id, call))
    started = [(stub, id, call.result().run_id) for stub, id, call in calls if call.exception() is None]
    assert len({stub for stub, _, _ in started}) == 3
    for stub, id, run_id in started:
        request = GetWorkflowExecutionHistoryRequest(
            namespace=NAMESPACE,
            execution=WorkflowExecution(workflow_id=id, run_id=run_id),
            wait_new_event=True,
            history_event_filter_type=HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
        )
        # The node that started it owns it.
        reply = stub.GetWorkflowExecutionHistory(request, timeout=20, metadata=metadata)
        done = reply.history.events[-1].workflow_execution_completed_event_attributes
        assert done.result.payloads[0].data == f'"version {deployed}"'.encode()


def test_a_node_that_cannot_compare_admits_no_callers(nodes: Nodes):
    """Its beats succeed, but documents cannot be read: keys that it has in memory may have been revoked."""
    first, second = nodes.nodes[:2]
    secret = nodes.done(first, "key", "create", "reader", "--grant", "default:read")
    nodes.postgres.query("ALTER TABLE segno.documents RENAME TO documents_away")
    nodes.postgres.query("UPDATE segno.revision SET revision = revision + 1")
    deadline = time.monotonic() + 4 * LEASE
    while True:
        try:
            second.healthz()
        except OSError as error:
            text = error.read().decode()  # type: ignore[attr-defined]
            if "admits no callers" in text:
                break
        assert time.monotonic() < deadline, "the node is healthy"
        time.sleep(0.1)
    refused = nodes.command(second, "key", "whoami", key=secret)
    assert "admits no callers" in refused.communicate()[1] and refused.returncode == 69
    # The key of the operator is not among those that are compared.
    nodes.done(second, "key", "whoami")
    nodes.postgres.query("ALTER TABLE segno.documents_away RENAME TO documents")
    deadline = time.monotonic() + 4 * LEASE
    while True:
        again = nodes.command(second, "key", "whoami", key=secret)
        if "reader" in again.communicate()[0]:
            break
        assert time.monotonic() < deadline, "the node does not recover"
    assert second.healthz() == 200
