"""What happens to the data on disk: damage, a full disk, removed files, long lists.

These tests run servers of their own with a data directory, so they need the binary (SEGNO_BIN)
and are skipped when the tests are pointed at a running server (SEGNO_ADDRESS).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution, WorkflowType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    CountWorkflowExecutionsRequest,
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
    SignalWorkflowExecutionRequest,
    StartWorkflowExecutionRequest,
    WorkflowServiceStub,
)

from helpers import NAMESPACE, SegnoServer, segno_binary

# A frame of the write-ahead log: its header and a page.
FRAME_BYTES = 24 + 2048


def start_request(workflow_id: str, payload: bytes = b"") -> StartWorkflowExecutionRequest:
    return StartWorkflowExecutionRequest(
        namespace=NAMESPACE,
        workflow_id=workflow_id,
        workflow_type=WorkflowType(name="Raw"),
        task_queue=TaskQueue(name="storage"),
        request_id=str(uuid.uuid4()),
        input=Payloads(payloads=[Payload(data=payload)]),
    )


def data_dir(server: SegnoServer) -> Path:
    return Path(server.storage[1])


def exit_status(server: SegnoServer, *flags: str) -> tuple[int, str]:
    """How a server ends that does not start."""
    command = [str(segno_binary()), "serve", *server.storage, "--port", str(server.port)]
    command += ["--http-port", str(server.http_port), *flags]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return ended.returncode, ended.stdout + ended.stderr


def test_a_damaged_log_is_refused(durable_server: SegnoServer):
    """A byte of the write-ahead log flips after a kill: nothing acknowledged is dropped silently."""
    server = durable_server
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        for number in range(20):
            stub.StartWorkflowExecution(start_request(f"w-{number}"), timeout=10)
    server.kill()
    log = data_dir(server) / "segno.db-wal"
    content = bytearray(log.read_bytes())
    frames = (len(content) - 32) // FRAME_BYTES
    content[32 + frames // 2 * FRAME_BYTES + 500] ^= 1
    log.write_bytes(content)
    status, output = exit_status(server)
    assert status == 65 and "write-ahead log" in output, output
    assert log.read_bytes() == content, "nothing was changed"
    server.flags = ["--discard-damaged-log"]
    server.start()
    assert "acknowledged are lost" in server.log.read_text()
    with grpc.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        stub.StartWorkflowExecution(start_request("after"), timeout=10)


def test_a_lost_history_row_is_data_loss(durable_server: SegnoServer):
    """A history with a gap is not served."""
    server = durable_server
    server.start()
    execution = WorkflowExecution(workflow_id="w")
    with grpc.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        stub.StartWorkflowExecution(start_request("w"), timeout=10)
        for _ in range(4):
            signal = SignalWorkflowExecutionRequest(
                namespace=NAMESPACE,
                workflow_execution=execution,
                signal_name="s",
                input=Payloads(payloads=[Payload(data=b"x" * 3000)]),
            )
            stub.SignalWorkflowExecution(signal, timeout=10)
    assert server.terminate() == 0
    with sqlite3.connect(data_dir(server) / "segno.db") as file:
        rows = [row for (row,) in file.execute("SELECT id FROM history ORDER BY id")]
        assert len(rows) >= 3
        file.execute("DELETE FROM history WHERE id = ?", [rows[1]])
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        request = GetWorkflowExecutionHistoryRequest(namespace=NAMESPACE, execution=execution)
        with pytest.raises(grpc.RpcError) as refused:
            stub.GetWorkflowExecutionHistory(request, timeout=10)
    assert refused.value.code() == grpc.StatusCode.DATA_LOSS
    assert "has a gap" in server.log.read_text()


def test_a_removed_data_directory_ends_the_server(durable_server: SegnoServer):
    server = durable_server
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        stub.StartWorkflowExecution(start_request("before"), timeout=10)
        shutil.rmtree(data_dir(server))
        with pytest.raises(grpc.RpcError):
            stub.StartWorkflowExecution(start_request("after"), timeout=10)
    assert server.process
    assert server.process.wait(10) == 74
    assert "was removed or replaced" in server.log.read_text()


def test_too_few_open_files(durable_server: SegnoServer):
    server = durable_server
    serve = [str(segno_binary()), "serve", *server.storage, "--port", str(server.port)]
    limited = ["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", *serve]
    ended = subprocess.run(limited, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 71
    assert "open" in ended.stderr and "ulimit -n" in ended.stderr, ended.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB, if this user may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs to mount a file system")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_is_logged_and_ends_with_its_own_status(
    durable_server: SegnoServer, small_disk: Path
):
    server = durable_server
    server.storage = ["--data-dir", str(small_disk / "data")]
    server.start()
    with grpc.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        with pytest.raises(grpc.RpcError) as refused:
            for number in range(200):
                request = start_request(f"w-{number}", b"x" * 100_000)
                stub.StartWorkflowExecution(request, timeout=10)
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "commits fail" in server.log.read_text()
    assert server.terminate() == 74


def test_a_full_disk_shows_in_health_until_there_is_room(durable_server: SegnoServer, small_disk: Path):
    server = durable_server
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    server.storage = ["--data-dir", str(small_disk / "data")]
    server.start()

    def healthz() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/healthz", timeout=5) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def serving(channel: grpc.Channel) -> int:
        # A HealthCheckResponse has one field, an enum: 1 is SERVING, 2 is NOT_SERVING.
        check = channel.unary_unary("/grpc.health.v1.Health/Check", lambda _: b"", lambda reply: reply[1])
        return check(None, timeout=5)

    with grpc.insecure_channel(server.address) as channel:
        assert (healthz(), serving(channel)) == ((200, "ok\n"), 1)
        stub = WorkflowServiceStub(channel)
        with pytest.raises(grpc.RpcError):
            for number in range(200):
                stub.StartWorkflowExecution(start_request(f"w-{number}", b"x" * 100_000), timeout=10)
        status, why = healthz()
        assert status == 503 and "the disk is full" in why, why
        assert serving(channel) == 2
        ballast.unlink()
        until = time.monotonic() + 15
        while healthz()[0] != 200:
            assert time.monotonic() < until, healthz()
            time.sleep(0.1)
        assert serving(channel) == 1


# The longest filter there may be, which fits nothing: it costs much for every workflow.
HEAVY = " OR ".join(f"WorkflowType LIKE '%a%b%c%{number}'" for number in range(800))


async def test_lists_whose_callers_left_cost_nobody_else(durable_server: SegnoServer):
    """A hundred counts are given up at once; what others ask for is answered as before."""
    server = durable_server
    server.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        starts = (start_request(f"w-{number}") for number in range(400))
        await asyncio.gather(*(stub.StartWorkflowExecution(start, timeout=30) for start in starts))
        count = CountWorkflowExecutionsRequest(namespace=NAMESPACE, query=HEAVY)
        calls = [stub.CountWorkflowExecutions(count, timeout=60) for _ in range(100)]
        answers = [asyncio.ensure_future(call.code()) for call in calls]
        # So many are not let in: the first answers are refusals. By then the others are under way.
        done, _ = await asyncio.wait(answers, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in {answer.result() for answer in done}
        for call in calls:
            call.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
        begun = time.monotonic()
        await stub.StartWorkflowExecution(start_request("after"), timeout=10)
        plain = CountWorkflowExecutionsRequest(namespace=NAMESPACE)
        counted = await stub.CountWorkflowExecutions(plain, timeout=10)
        assert counted.count == 401
        assert time.monotonic() - begun < 5


async def test_filters_with_too_many_terms_are_invalid(durable_server: SegnoServer):
    server = durable_server
    server.start()
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = WorkflowServiceStub(channel)
        for terms, accepted in [(800, True), (1000, False)]:
            query = " AND ".join(["WorkflowId = 'x'"] * terms)
            request = ListWorkflowExecutionsRequest(namespace=NAMESPACE, query=query)
            if accepted:
                assert not (await stub.ListWorkflowExecutions(request, timeout=30)).executions
                continue
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.ListWorkflowExecutions(request, timeout=30)
            assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
