"""Too much of everything, silence, and the server's own end, frame by frame.

A flood costs the server neither its memory nor its other clients.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator

import hpack
import pytest
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    PollWorkflowTaskQueueResponse,
    StartWorkflowExecutionResponse,
)

from bounded import MIB, bounded, fresh, memory  # noqa: F401
from helpers import NAMESPACE, SegnoServer
from wire import (
    ACK, CANCEL, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM,
    HEADERS, INFO, INITIAL_WINDOW, MAX_STREAMS, NO_ERROR, PING, PRIORITY, PROTOCOL_ERROR,
    RST_STREAM, SETTINGS, WINDOW, WINDOW_UPDATE, Closed, Wire, enveloped, frame, history_request,
    info, integer, literals, number, poll_request, request_headers, settings, start_request,
)

BLOCK = literals(request_headers("GetSystemInfo"))
OPEN = frame(HEADERS, END_HEADERS, 1, BLOCK)


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    """A server of this module's own: it is flooded."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a process of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path_factory.mktemp("http2") / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def name() -> str:
    return f"wire-{uuid.uuid4().hex}"


def poll(wire: Wire, queue: str) -> int:
    return wire.ask("PollWorkflowTaskQueue", poll_request(queue), ("grpc-timeout", "60S"))


# --- silence: begun before everything else, looked at last ---


class Silent:
    """A client that says nothing by itself; notes when it is spoken to."""

    def __init__(self, wire: Wire, name: str | None) -> None:
        self.wire, self.began = wire, time.monotonic()
        self.pings: list[float] = []
        if name:
            poll(wire, name)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        self.wire.socket.settimeout(60)
        try:
            while True:
                if self.wire.read()[:2] == (PING, 0):
                    self.pings.append(time.monotonic() - self.began)
        except (Closed, OSError):
            pass


@pytest.fixture(scope="module", autouse=True)
def silent(server: SegnoServer) -> Iterator[list[Silent]]:
    with Wire(server.address) as idle, Wire(server.address) as polling:
        yield [Silent(idle, None), Silent(polling, "silent")]


# --- floods ---


def pour(wire: Wire, data: bytes, times: int = 1) -> None:
    """Send without ever reading, until all is sent, the server takes no more for a while, or it closes."""
    wire.socket.settimeout(1)
    try:
        for _ in range(times):
            wire.socket.sendall(data)
    except OSError:
        pass
    wire.socket.settimeout(wire.timeout)


def digested(wire: Wire) -> None:
    """Wait until the server has gone through all that was poured, or has closed."""
    wire.rooms |= dict.fromkeys(range(1, 40_001, 2), WINDOW)
    wire.send(PING, payload=b"are you?")
    try:
        wire.until(lambda: (PING, ACK, 0, b"are you?") in wire.control[-1:], 20)
    except Closed:
        pass


@pytest.mark.parametrize(
    "each", [frame(PING, payload=b"flooding"), frame(SETTINGS), frame(SETTINGS, payload=settings({MAX_STREAMS: 5}))],
    ids=["PING", "empty SETTINGS", "SETTINGS"],
)
def test_flood_that_wants_answers(fresh: SegnoServer, each: bytes):
    """90 MB of them, and the answers are not read: they must not pile up in the server."""
    with Wire(fresh.address) as wire, bounded(fresh, 40):
        pour(wire, each * (MIB // len(each)), 90)


FLOODS = {
    "PRIORITY": (b"", frame(PRIORITY, 0, 7, bytes(5))),
    "WINDOW_UPDATE": (b"", frame(WINDOW_UPDATE, payload=number(1))),
    "unknown frames": (b"", frame(0x42, 0, 0, b"what?")),
    "empty DATA": (OPEN, frame(DATA, 0, 1)),
    "RST_STREAM": (OPEN, frame(RST_STREAM, 0, 1, number(CANCEL))),
    "CONTINUATION": (frame(HEADERS, 0, 1, BLOCK), frame(CONTINUATION, 0, 1, b"\x90" * 1000)),
    "empty CONTINUATION": (frame(HEADERS, 0, 1, BLOCK), frame(CONTINUATION, 0, 1)),
}


@pytest.mark.parametrize("what", FLOODS)
def test_flood_of_100_000(fresh: SegnoServer, what: str):
    first, each = FLOODS[what]
    with Wire(fresh.address) as wire, bounded(fresh, 40):
        wire.raw(first)
        pour(wire, each * 1000, 100)
        digested(wire)


@pytest.mark.parametrize("reset", [True, False], ids=["reset at once", "left open"])
@pytest.mark.parametrize("call", ["GetSystemInfo", "PollWorkflowTaskQueue"])
def test_flood_of_streams(fresh: SegnoServer, name: str, call: str, reset: bool):
    """20,000 of them. A server may refuse what it finds too much; h2 took 5 KiB for one that is left open."""
    block, body = literals(request_headers(call)), enveloped(poll_request(name) if "Poll" in call else b"")
    streams = (
        frame(HEADERS, END_HEADERS, s, block)
        + frame(DATA, END_STREAM if "Poll" in call else 0, s, body)
        + (frame(RST_STREAM, 0, s, number(CANCEL)) if reset else b"")
        for s in range(1, 40_001, 2)
    )
    with bounded(fresh, 150), Wire(fresh.address) as wire:
        pour(wire, b"".join(streams))
        digested(wire)


@pytest.fixture
def narrow(tmp_path: Path, server: SegnoServer) -> Iterator[SegnoServer]:
    """Like `fresh`, with one core and so with one thread: nothing clears away while it reads."""
    narrow, cores = SegnoServer(log=tmp_path / "server.log"), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        narrow.start()
    finally:
        os.sched_setaffinity(0, cores)
    try:
        yield narrow
    finally:
        narrow.kill()


@pytest.mark.parametrize("call", ["StartWorkflowExecution", "PollWorkflowTaskQueue"])
def test_burst_of_calls_that_are_given_up(narrow: SegnoServer, name: str, call: str):
    """200,000 whole requests, each with its end behind it. The server may end the connection."""
    headers, encoder = request_headers(call, ("grpc-timeout", "60S")), hpack.Encoder()
    first, again = encoder.encode(headers), encoder.encode(headers)
    body = enveloped(poll_request(name) if "Poll" in call else b"")
    streams = range(1, 400_001, 2)
    burst = b"".join(
        frame(HEADERS, END_HEADERS, s, first if s == 1 else again)
        + frame(DATA, END_STREAM, s, body)
        + frame(RST_STREAM, 0, s, number(CANCEL))
        for s in streams
    )
    with bounded(narrow), Wire(narrow.address, timeout=20) as wire:
        wire.rooms = dict.fromkeys(streams, WINDOW)
        wire.raw(burst)
        digested(wire)
        assert not wire.goaways or wire.goaways[-1][1] == ENHANCE_YOUR_CALM


def test_stream_of_questions_whose_answers_may_not_be_sent(fresh: SegnoServer):
    """20,000 of them, with 60 KB to say to each. The server may stop reading them, or end the stream or all."""
    question = enveloped(b"\x22\x2ftemporal.api.workflowservice.v1.WorkflowService")
    with bounded(fresh), Wire(fresh.address, {INITIAL_WINDOW: 0}, timeout=2) as wire:
        stream = wire.open("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        try:
            for _ in range(200):
                for _ in range(100):
                    wire.send(DATA, 0, stream, question)
                wire.settle(0.01)
                if wire.answers[stream].over or memory(fresh) > 500 * MIB:
                    break
        except (Closed, TimeoutError):
            pass


def test_headers_of_megabytes(fresh: SegnoServer):
    more = literals([(f"x-{i}", "a" * 1000) for i in range(16)])
    blocks = b"".join(frame(CONTINUATION, 0, 1, more) for _ in range(400))
    with Wire(fresh.address) as wire, bounded(fresh):
        wire.rooms[1] = WINDOW
        pour(wire, frame(HEADERS, 0, 1, BLOCK) + blocks + frame(CONTINUATION, END_HEADERS, 1))
        assert wire.end() in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR, COMPRESSION_ERROR, None)


def test_headers_that_inflate(fresh: SegnoServer):
    """A kilobyte of block says the same 4,000 bytes a thousand times; on 200 streams."""
    with Wire(fresh.address) as wire, bounded(fresh):
        wire.open("GetSystemInfo")
        entry = b"\x40" + integer(3, 7) + b"x-y" + integer(3900, 7) + b"a" * 3900
        pour(wire, frame(HEADERS, END_HEADERS, 3, BLOCK + entry))
        for stream in range(5, 405, 2):
            wire.raw(frame(HEADERS, END_HEADERS | END_STREAM, stream, BLOCK + b"\xbe" * 12_000))
        digested(wire)


def test_answers_nobody_reads(fresh: SegnoServer, name: str):
    """The windows are wide open, the socket is not read."""
    with Wire(fresh.address) as wire:
        stream = wire.open("StartWorkflowExecution")
        wire.upload(stream, enveloped(start_request(name, 300_000)))
        assert wire.answer(stream).status == 0
    with bounded(fresh), Wire(fresh.address, {INITIAL_WINDOW: 2**31 - 1}) as wire:
        wire.grant(2**31 - 1 - WINDOW)
        for _ in range(100):
            wire.ask("GetWorkflowExecutionHistory", history_request(name))
        time.sleep(0.5)


# --- the end ---


def end_of(server: SegnoServer) -> float:
    """SIGTERM, and when that was."""
    assert server.process
    server.process.send_signal(signal.SIGTERM)
    return time.monotonic()


def last_goaway(wire: Wire) -> int:
    """The last stream the server will answer. A first GOAWAY may name the largest number there is."""
    wire.until(lambda: wire.goaways and wire.goaways[-1][0] < 2**31 - 1)
    assert wire.goaways[-1][1] == NO_ERROR
    return wire.goaways[-1][0]


def test_sigterm(durable_server: SegnoServer, name: str):
    """Polls end empty; what is asked after the last GOAWAY is not done."""
    durable_server.start()
    with Wire(durable_server.address) as polling, Wire(durable_server.address) as wire:
        polls = [poll(polling, name) for _ in range(50)]
        # Keeps this connection from being closed at once.
        watching = wire.ask("/grpc.health.v1.Health/Watch", b"")
        wire.until(lambda: wire.answers[watching].data)
        info(polling.call("GetSystemInfo", INFO))
        began = end_of(durable_server)
        for stream in polls:
            assert not polling.answer(stream).message(PollWorkflowTaskQueueResponse).task_token
        assert last_goaway(polling) == polls[-1] + 2
        # In two steps (RFC 9113, section 6.8), so that a call which is on its way is not refused.
        assert [last for last, _ in polling.goaways] == [2**31 - 1, polls[-1] + 2]
        assert polling.end() == NO_ERROR
        assert last_goaway(wire) == watching
        late = wire.ask("StartWorkflowExecution", start_request(name))
        wire.settle()
        assert wire.answers[late].headers is None
        wire.reset(watching)
        assert wire.end() == NO_ERROR
    assert durable_server.process and durable_server.process.wait(5) == 0
    assert time.monotonic() - began < 3
    durable_server.start()
    with Wire(durable_server.address) as wire:
        request = DescribeWorkflowExecutionRequest(namespace=NAMESPACE)
        request.execution.workflow_id = name
        assert wire.call("DescribeWorkflowExecution", request).status == 5


# Only the own transport must pass this: hyper and h2 lost the rest of the answer, which counted as sent once buffered.
def test_sigterm_in_the_middle_of_an_answer(durable_server: SegnoServer, name: str):
    durable_server.start()
    with Wire(durable_server.address, {INITIAL_WINDOW: 10}) as wire:
        stream = wire.open("StartWorkflowExecution")
        wire.upload(stream, enveloped(start_request(name, 300_000)))
        wire.grant(1000, stream)
        assert wire.answer(stream).status == 0
        half = wire.ask("GetWorkflowExecutionHistory", history_request(name))
        wire.settle()
        assert len(wire.answers[half].data) == 10
        end_of(durable_server)
        assert last_goaway(wire) == half
        wire.settle()
        wire.grant(MIB)
        wire.grant(MIB, half)
        assert len(wire.answer(half).messages[0]) > 300_000
        assert wire.end() == NO_ERROR
    assert durable_server.process and durable_server.process.wait(5) == 0


def given_back(server: SegnoServer) -> int:
    """How many tasks did not get to their worker."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        (count,) = re.findall(r"^segno_tasks_given_back_total (\d+)$", reply.read().decode(), re.MULTILINE)
    return int(count)


def test_sigterm_while_a_task_waits_for_the_window(durable_server: SegnoServer, name: str):
    """It is not taken away from the worker that gets it in the end."""
    durable_server.start()
    address, closed = durable_server.address, {INITIAL_WINDOW: 0}
    with Wire(address, closed) as polling, Wire(address, closed) as staying, Wire(address) as wire:
        stream = poll(polling, name)
        polling.settle()
        assert wire.call("StartWorkflowExecution", start_request(name)).status == 0
        # Keeps the server up, so that it can be asked.
        other = staying.ask("GetSystemInfo", INFO)
        polling.until(lambda: polling.answers[stream].headers)
        assert given_back(durable_server) == 0
        end_of(durable_server)
        assert last_goaway(polling) == stream
        polling.settle()
        polling.grant(60_000, stream)
        task = polling.answer(stream).message(PollWorkflowTaskQueueResponse)
        assert (task.workflow_execution.workflow_id, task.attempt) == (name, 1)
        assert polling.end() == NO_ERROR
        assert given_back(durable_server) == 0
        staying.grant(1000, other)
        info(staying.answer(other))
    assert durable_server.process and durable_server.process.wait(5) == 0


@pytest.mark.parametrize("sent", [0, 3, 500], ids=["nothing", "half a prefix", "half a message"])
def test_sigterm_while_a_request_arrives(durable_server: SegnoServer, name: str, sent: int):
    """What was begun before the last GOAWAY is done."""
    durable_server.start()
    with Wire(durable_server.address) as wire:
        stream, body = wire.open("StartWorkflowExecution"), enveloped(start_request(name, 1000))
        wire.upload(stream, body[:sent], end=False)
        wire.settle()
        end_of(durable_server)
        assert last_goaway(wire) == stream
        wire.settle(0.5)
        wire.upload(stream, body[sent:])
        assert wire.answer(stream).message(StartWorkflowExecutionResponse).run_id
        assert wire.end() == NO_ERROR
    assert durable_server.process and durable_server.process.wait(5) == 0


def test_sigterm_does_not_wait_for_ever(durable_server: SegnoServer):
    """For those who watch, who do not take their answer, who never finish their request, or are just there."""
    durable_server.start()
    with Wire(durable_server.address, {INITIAL_WINDOW: 0}) as wire, Wire(durable_server.address, mute=True) as idle:
        wire.ask("/grpc.health.v1.Health/Watch", b"")
        wire.ask("GetSystemInfo", INFO)
        wire.open("GetSystemInfo")
        wire.settle()
        idle.settle(0.05)
        assert durable_server.terminate(10) == 0


def test_silent_clients_are_asked(silent: list[Silent]):
    """After 15 s of silence comes a PING; here the client answers it."""
    for client in silent:
        while not client.pings and time.monotonic() < client.began + 25:
            time.sleep(0.1)
        assert client.pings and 14 < client.pings[0] < 20
        client.wire.send(PING, 0, 0, b"still ok")
        time.sleep(0.3)
        assert (PING, ACK, 0, b"still ok") in client.wire.control
