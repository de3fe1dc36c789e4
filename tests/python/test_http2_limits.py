"""What one client may take from the server: memory, streams, connections, file descriptors, time.

A refusal is made in words of the protocol, and others are served meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
import time
import urllib.request
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Iterator

import pytest
from temporalio import workflow
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryResponse
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bounded import MIB, bounded, fresh  # noqa: F401
from helpers import SegnoServer
from wire import (
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FRAME, HEADERS, INFO, INITIAL_WINDOW, MAX_STREAMS, PING, PREFACE,
    SETTINGS, WINDOW, WINDOW_UPDATE, Closed, Wire, enveloped, frame, history_request, info, integer, literals, number,
    poll_request, request_headers, settings, start_request,
)

REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
LIST_SERVICES = b"\x3a\x01*"  # a ServerReflectionRequest

RESOURCE_EXHAUSTED = 8


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    """A server of this module's own."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a process of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path_factory.mktemp("limits") / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def name() -> str:
    return f"wire-{uuid.uuid4().hex}"


def refused(wire: Wire, streams: list[int]) -> list[int]:
    """Those that were answered with RESOURCE_EXHAUSTED, and nothing else."""
    over = [stream for stream in streams if wire.answers[stream].ended]
    found = [stream for stream in over if wire.answers[stream].status == RESOURCE_EXHAUSTED]
    assert all("under way" in wire.answers[stream].text and not wire.answers[stream].data for stream in found)
    return found


# --- time: begun first, looked at last ---


@pytest.fixture(scope="module", autouse=True)
def silent(server: SegnoServer) -> Iterator[dict[str, tuple[socket.socket, float]]]:
    """Connections whose client does not do its part."""
    grpc_port, http_port = server.port, server.http_port
    beginnings = {
        "no preface": (grpc_port, b""),
        "half a preface": (grpc_port, PREFACE[:10]),
        "no SETTINGS": (grpc_port, PREFACE),
        "half a request": (http_port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow:"),
        "no request": (http_port, b""),
    }
    with ExitStack() as stack:
        open_ones = {}
        for what, (port, beginning) in beginnings.items():
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            connection.sendall(beginning)
            open_ones[what] = (connection, time.monotonic())
        yield open_ones


# --- memory ---


def test_responses_that_may_not_be_sent(fresh: SegnoServer, name: str):  # noqa: F811
    """300 of 1.5 MB each without a window: some wait, the others are refused, none is lost."""
    with Wire(fresh.address) as wire:
        stream = wire.open("StartWorkflowExecution")
        wire.upload(stream, enveloped(start_request(name, 1_500_000)))
        assert wire.answer(stream).status == 0
    with bounded(fresh, 150), Wire(fresh.address, {INITIAL_WINDOW: 0}, timeout=30) as wire:
        streams = [wire.ask("GetWorkflowExecutionHistory", history_request(name)) for _ in range(300)]
        waiting = lambda: [s for s in streams if wire.answers[s].headers and not wire.answers[s].over]  # noqa: E731
        wire.until(lambda: len(waiting()) + len(refused(wire, streams)) == 300)
        assert 30 < len(waiting()) < 60
        # Those that wait come whole once they may.
        last = waiting()[-1]
        wire.grant(MIB << 3)
        wire.grant(MIB << 1, last)
        history = wire.answer(last).message(GetWorkflowExecutionHistoryResponse).history
        assert len(history.events[0].workflow_execution_started_event_attributes.input.payloads[0].data) == 1_500_000


def test_requests_that_do_not_end(fresh: SegnoServer, name: str):  # noqa: F811
    """150 of 3 MB each without their last byte."""
    body = enveloped(start_request(name, 3_000_000))[:-1]
    with bounded(fresh, 150), Wire(fresh.address, timeout=30) as wire:
        streams = [wire.open("StartWorkflowExecution") for _ in range(150)]
        for stream in streams:
            wire.upload(stream, body, end=False)
        wire.settle()
        gone = refused(wire, streams)
        assert 120 < len(gone) < 150, len(gone)
        # They are answered before they end, and the server does not want the rest.
        assert all(wire.answers[stream].reset == 0 for stream in gone)
        wire.reset(next(stream for stream in streams if stream not in gone))
        info(wire.call("GetSystemInfo", INFO))


def test_header_lists_made_of_references(fresh: SegnoServer):  # noqa: F811
    """3,000 open calls of the general path with 60 KB of headers each, of which 15 bytes are on the wire."""
    with bounded(fresh, 150), Wire(fresh.address, timeout=30) as wire:
        entry = b"\x40" + integer(3, 7) + b"x-y" + integer(3900, 7) + b"a" * 3900
        block = literals(request_headers(REFLECTION))
        wire.send(HEADERS, END_HEADERS, wire.number(), block + entry)
        streams = [wire.number() for _ in range(3000)]
        wire.raw(b"".join(frame(HEADERS, END_HEADERS, s, block + b"\xbe" * 15) for s in streams))
        wire.until(lambda: wire.answers[streams[-1]].over)
        gone = refused(wire, streams)
        assert 1500 < len(gone) < 2500, len(gone)
        kept = next(stream for stream in streams if stream not in gone)
        wire.send(DATA, END_STREAM, kept, enveloped(LIST_SERVICES))
        assert wire.answer(kept).status == 0


def test_headers_of_direct_calls_are_not_kept(fresh: SegnoServer):  # noqa: F811
    """The same with calls that are answered directly: of their headers only those are kept that are needed, so all stay open."""
    with bounded(fresh, 150), Wire(fresh.address, timeout=30) as wire:
        entry = b"\x40" + integer(3, 7) + b"x-y" + integer(3900, 7) + b"a" * 3900
        block = literals(request_headers("GetSystemInfo"))
        wire.send(HEADERS, END_HEADERS, wire.number(), block + entry)
        streams = [wire.number() for _ in range(3000)]
        wire.raw(b"".join(frame(HEADERS, END_HEADERS, s, block + b"\xbe" * 15) for s in streams))
        wire.send(DATA, END_STREAM, streams[-1], enveloped(INFO))
        info(wire.answer(streams[-1]))
        assert not refused(wire, streams)


def test_compressed_messages_count_as_what_they_become(fresh: SegnoServer, name: str):  # noqa: F811
    """100 polls whose 5 KB are 4 MB when decompressed."""
    request = poll_request(name)
    request.worker_instance_key = "0" * 4_000_000
    body = enveloped(request, compress=True)
    assert len(body) < 10_000
    # Decoding a message of 4 MB takes its time in a binary that is not optimised.
    with bounded(fresh, 250, 10), Wire(fresh.address, timeout=30) as wire:
        headers = (("grpc-encoding", "gzip"), ("grpc-timeout", "60S"))
        streams = [wire.open("PollWorkflowTaskQueue", *headers) for _ in range(100)]
        for stream in streams:
            wire.send(DATA, END_STREAM, stream, body)
        wire.until(lambda: sum(wire.answers[stream].over for stream in streams) > 80)
        wire.settle()
        assert 80 < len(refused(wire, streams)) < 95


def test_header_list_that_is_too_large(server: SegnoServer):
    """The stream is answered and the connection goes on, with its dynamic table intact."""
    with Wire(server.address) as wire:
        large = literals([(f"x-{i}", "a" * 1000) for i in range(80)])
        block = literals(request_headers("GetSystemInfo")) + large + b"\x40\x03x-z\x01z"
        stream = wire.number()
        parts = [block[at : at + FRAME] for at in range(0, len(block), FRAME)]
        wire.send(HEADERS, 0, stream, parts[0])
        for part in parts[1:]:
            wire.send(CONTINUATION, END_HEADERS if part is parts[-1] else 0, stream, part)
        answer = wire.answer(stream)
        assert answer.status == RESOURCE_EXHAUSTED and "metadata" in answer.text
        again = wire.number()
        wire.send(HEADERS, END_HEADERS, again, literals(request_headers("GetSystemInfo")) + b"\xbe")
        wire.send(DATA, END_STREAM, again, enveloped(INFO))
        info(wire.answer(again))


# --- work ---


def test_streams_that_the_server_has_to_reset(fresh: SegnoServer, name: str):  # noqa: F811
    """Each is a whole call, and a WINDOW_UPDATE of zero makes the server reset it (CVE-2025-8671)."""
    block, body = literals(request_headers("PollWorkflowTaskQueue")), enveloped(poll_request(name))
    streams = range(1, 100_001, 2)
    burst = b"".join(
        frame(HEADERS, END_HEADERS, s, block) + frame(DATA, END_STREAM, s, body) + frame(WINDOW_UPDATE, 0, s, number(0))
        for s in streams
    )
    with bounded(fresh), Wire(fresh.address, timeout=20) as wire:
        wire.rooms = dict.fromkeys(streams, WINDOW)
        threading.Thread(target=wire.raw, args=(burst,), daemon=True).start()
        assert wire.end(20) in (ENHANCE_YOUR_CALM, None)


def test_20_000_settings_with_4_000_blocked_streams(fresh: SegnoServer):  # noqa: F811
    """The initial window opens and closes all the time; others do not notice."""
    change = frame(SETTINGS, payload=settings({INITIAL_WINDOW: 1})) + frame(SETTINGS, payload=settings({INITIAL_WINDOW: 0}))
    with Wire(fresh.address, {INITIAL_WINDOW: 0}, timeout=30) as wire:
        block, body = literals(request_headers("GetSystemInfo")), enveloped(INFO)
        streams = [wire.number() for _ in range(4000)]
        wire.raw(b"".join(frame(HEADERS, END_HEADERS, s, block) + frame(DATA, END_STREAM, s, body) for s in streams))
        wire.until(lambda: all(wire.answers[stream].headers for stream in streams))
        # The test does not follow what the windows allow.
        wire.rooms, wire.room = dict.fromkeys(streams, MIB), MIB
        with bounded(fresh, 60):
            acks, began = wire.count_acks(), time.monotonic()
            mark = frame(PING, payload=b"all read")
            sender = threading.Thread(target=wire.raw, args=(change * 10_000 + mark,), daemon=True)
            sender.start()
            wire.until(lambda: wire.control[-1:] and wire.control[-1].payload == b"all read", 30)
            print(f"{time.monotonic() - began:.2f} s")
            sender.join()
            assert wire.count_acks() == acks + 20_000


def test_4_000_polls_that_go_at_once(fresh: SegnoServer, name: str):  # noqa: F811
    """A connection with as many polls as it may have is closed, three times over."""
    block, body = literals(request_headers("PollWorkflowTaskQueue", ("grpc-timeout", "60S"))), enveloped(poll_request(name))
    with bounded(fresh, 150):
        for _ in range(3):
            with Wire(fresh.address, timeout=20) as wire:
                streams = [wire.number() for _ in range(4000)]
                wire.raw(b"".join(frame(HEADERS, END_HEADERS, s, block) + frame(DATA, END_STREAM, s, body) for s in streams))
                wire.send(PING, 0, 0, b"all read")
                wire.until(lambda: wire.control and wire.control[-1].payload == b"all read", 20)


# --- streams ---


def test_streams_beyond_the_limit_are_refused(server: SegnoServer, name: str):
    with Wire(server.address, timeout=30) as wire:
        block, body = literals(request_headers("PollWorkflowTaskQueue", ("grpc-timeout", "60S"))), enveloped(poll_request(name))
        wire.settle(0.1)
        assert wire.theirs[MAX_STREAMS] == 4096
        streams = [wire.number() for _ in range(4106)]
        wire.raw(b"".join(frame(HEADERS, END_HEADERS, s, block) + frame(DATA, END_STREAM, s, body) for s in streams))
        wire.until(lambda: wire.answers[streams[-1]].over)
        assert [s for s in streams if wire.answers[s].reset == 7] == streams[4096:]
        wire.reset(streams[0])
        info(wire.call("GetSystemInfo", INFO))


@workflow.defn(name="Limited", sandboxed=False)
class Limited:
    @workflow.run
    async def run(self, value: int) -> int:
        await asyncio.sleep(0.01)
        return value


async def test_a_client_waits_for_a_free_stream(tmp_path: Path, server: SegnoServer):
    """A stock SDK that is allowed 12 streams runs 60 workflows at once."""
    few = SegnoServer(log=tmp_path / "few.log", flags=["--max-streams", "12"])
    few.start()
    try:
        client, working = await Client.connect(few.address), await Client.connect(few.address)
        worker = Worker(
            working,
            task_queue="limited",
            workflows=[Limited],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_concurrent_workflow_task_polls=8,
        )
        async with worker:
            runs = [client.execute_workflow(Limited.run, i, id=f"limited-{i}", task_queue="limited") for i in range(60)]
            assert await asyncio.wait_for(asyncio.gather(*runs), 40) == list(range(60))
    finally:
        few.kill()


# --- connections ---


def test_connections_beyond_the_limit(tmp_path: Path, server: SegnoServer):
    few = SegnoServer(log=tmp_path / "few.log", flags=["--max-connections", "4"])
    few.start()
    try:
        with ExitStack() as stack:
            time.sleep(0.2)
            # None of these says anything: they make room, the oldest first.
            mute = [stack.enter_context(Wire(few.address, preface=False)) for _ in range(10)]
            for wire in mute[:6]:
                with pytest.raises(Closed):
                    wire.until(lambda: False, 5)
            served = [stack.enter_context(Wire(few.address)) for _ in range(4)]
            for wire in served:
                info(wire.call("GetSystemInfo", INFO))
            # Now everybody has said hello, and a new one is not let in.
            with Wire(few.address) as late, pytest.raises(Closed):
                late.call("GetSystemInfo", INFO)
            for wire in served:
                info(wire.call("GetSystemInfo", INFO))
            served[0].socket.close()
            time.sleep(0.2)
            with Wire(few.address) as wire:
                info(wire.call("GetSystemInfo", INFO))
    finally:
        few.kill()


@pytest.mark.parametrize("port", ["http_port", "port"], ids=["HTTP", "gRPC"])
def test_half_sent_requests_do_not_take_all_descriptors(tmp_path: Path, server: SegnoServer, port: str):
    """With 300 file descriptors, 600 clients on either port do not keep others out of both."""
    small, before = SegnoServer(log=tmp_path / "small.log"), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, before[1]))
    try:
        small.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    try:
        with ExitStack() as stack:
            for _ in range(600):
                client = socket.create_connection(("127.0.0.1", getattr(small, port)), 5)
                stack.callback(client.close)
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" if port == "http_port" else PREFACE[:10])
            began = time.monotonic()
            assert small.healthz() == 200
            with Wire(small.address) as wire:
                info(wire.call("GetSystemInfo", INFO))
            assert time.monotonic() - began < 3
            assert len(os.listdir(f"/proc/{small.process.pid}/fd")) < 300
    finally:
        small.kill()


def test_metrics_over_a_connection_that_stays(server: SegnoServer):
    """Keep-alive works: two requests, one connection."""
    import http.client

    client = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=5)
    for path in ("/healthz", "/metrics"):
        client.request("GET", path)
        reply = client.getresponse()
        assert reply.status == 200 and reply.read()
    client.close()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/healthz", timeout=5) as reply:
        assert reply.status == 200


@pytest.mark.parametrize("what", ["no preface", "half a preface", "no SETTINGS", "half a request", "no request"])
def test_connections_that_do_not_begin_are_closed(silent: dict[str, tuple[socket.socket, float]], what: str):
    connection, began = silent[what]
    connection.settimeout(20)
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    # The clock of a late observer says nothing.
    assert time.monotonic() - began > 8
