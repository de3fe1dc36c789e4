"""HTTP/2 as gRPC uses it, frame by frame: requests in every shape, the connection, the windows.

What gRPC adds is in test_http2_calls.py, what a client must not do in test_http2_violations.py, what a busy client does
in test_http2_pressure.py, and what comes in floods, with the end of the server, in test_http2_floods.py.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Callable, Iterator

import hpack
import pytest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetWorkflowExecutionHistoryResponse,
    StartWorkflowExecutionResponse,
)

from wire import (
    ACK, CONTINUATION, DATA, ENABLE_PUSH, END_HEADERS, END_STREAM, FRAME, HAS_PRIORITY, HEADERS,
    HEADER_TABLE_SIZE, INFO, INITIAL_WINDOW, MAX_FRAME, MAX_HEADER_LIST, MAX_STREAMS, PADDED, PING,
    PREFACE, PRIORITY, SETTINGS, UNBUILT, WINDOW, WINDOW_UPDATE, Answer, Wire, enveloped, frame,
    history_request, info, integer, literals, not_built, number, request_headers, start_request,
)

LARGE = 300 * 1024
MAX = 4_194_304


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    with Wire(address) as wire:
        yield wire


@pytest.fixture
def name() -> str:
    return f"wire-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def large(address: str) -> str:
    """A workflow whose history is a large answer."""
    name = f"wire-{uuid.uuid4().hex}"
    with Wire(address) as wire:
        stream = wire.open("StartWorkflowExecution")
        wire.upload(stream, enveloped(start_request(name, LARGE)))
        assert wire.answer(stream).message(StartWorkflowExecutionResponse).run_id
    return name


def whole(answer: Answer) -> None:
    """This is the whole history with the large input, unharmed."""
    history = answer.message(GetWorkflowExecutionHistoryResponse).history
    attributes = history.events[0].workflow_execution_started_event_attributes
    assert attributes.input.payloads[0].data == random.Random(LARGE).randbytes(LARGE)


# --- the shapes of a request ---


def test_unary_call(wire: Wire):
    info(wire.call("GetSystemInfo", INFO))


def test_calls_one_after_the_other(wire: Wire):
    for _ in range(50):
        info(wire.call("GetSystemInfo", INFO))


def test_everything_at_once(address: str):
    """Preface, settings and 100 calls in one write."""
    with Wire(address, preface=False) as wire:
        block = literals(request_headers("GetSystemInfo"))
        streams = [wire.number() for _ in range(100)]
        calls = [
            frame(HEADERS, END_HEADERS, s, block) + frame(DATA, END_STREAM, s, enveloped(INFO))
            for s in streams
        ]
        wire.socket.sendall(PREFACE + frame(SETTINGS) + b"".join(calls))
        for stream in streams:
            info(wire.answer(stream))


def test_byte_by_byte(address: str):
    with Wire(address, preface=False) as wire:
        stream = wire.number()
        block = literals(request_headers("GetSystemInfo"))
        request = frame(HEADERS, END_HEADERS, stream, block)
        for byte in PREFACE + frame(SETTINGS) + request + frame(DATA, END_STREAM, stream, enveloped(INFO)):
            wire.socket.sendall(bytes([byte]))
            time.sleep(0.0005)
        info(wire.answer(stream))


def pieces(wire: Wire, stream: int, body: bytes) -> None:
    for at in range(len(body)):
        wire.send(DATA, END_STREAM if at == len(body) - 1 else 0, stream, body[at : at + 1])


def padded(wire: Wire, stream: int, body: bytes) -> None:
    wire.send(DATA, PADDED, stream, b"\x07" + body[:3] + bytes(7))
    wire.send(DATA, PADDED | END_STREAM, stream, b"\xff" + body[3:] + bytes(255))


def empty_last(wire: Wire, stream: int, body: bytes) -> None:
    wire.send(DATA, 0, stream)
    wire.send(DATA, 0, stream, body)
    wire.send(DATA, END_STREAM, stream)


def padding_last(wire: Wire, stream: int, body: bytes) -> None:
    wire.send(DATA, 0, stream, body)
    wire.send(DATA, PADDED | END_STREAM, stream, b"\x05" + bytes(5))


def trailers(wire: Wire, stream: int, body: bytes) -> None:
    wire.send(DATA, 0, stream, body)
    wire.send(HEADERS, END_HEADERS | END_STREAM, stream, literals([("x-checksum", "7")]))


@pytest.mark.parametrize("send", [pieces, padded, empty_last, padding_last, trailers])
def test_shapes_of_the_body(wire: Wire, send: Callable[[Wire, int, bytes], None]):
    stream = wire.open("DescribeNamespace")
    send(wire, stream, enveloped(DescribeNamespaceRequest(namespace="no such place")))
    assert wire.answer(stream).text == "Namespace no such place is not found."
    info(wire.call("GetSystemInfo", INFO))


PRIORITY_FIELDS = b"\x80\0\0\0\x10"


@pytest.mark.parametrize(
    "flags, before, after",
    [(PADDED, b"\x09", bytes(9)), (HAS_PRIORITY, PRIORITY_FIELDS, b"")]
    + [(PADDED | HAS_PRIORITY, b"\xff" + PRIORITY_FIELDS, bytes(255))],
    ids=["padded", "priority", "both"],
)
def test_shapes_of_the_headers(wire: Wire, flags: int, before: bytes, after: bytes):
    stream = wire.number()
    block = literals(request_headers("GetSystemInfo"))
    wire.send(HEADERS, END_HEADERS | flags, stream, before + block + after)
    wire.send(DATA, END_STREAM, stream, enveloped(INFO))
    info(wire.answer(stream))


@pytest.mark.parametrize("cuts", [(0,), (1,), (9, 9, 30, 31), (3, 60, 100, 140)], ids=str)
def test_continuation(wire: Wire, cuts: tuple[int, ...]):
    """Cut anywhere, also within an integer or a text; an empty piece is one too."""
    stream, block = wire.number(), literals(request_headers("GetSystemInfo"))
    parts = [block[a:b] for a, b in zip((0, *cuts), (*cuts, len(block)))]
    wire.send(HEADERS, 0, stream, parts[0])
    for part in parts[1:-1]:
        wire.send(CONTINUATION, 0, stream, part)
    wire.send(CONTINUATION, END_HEADERS, stream, parts[-1])
    wire.send(DATA, END_STREAM, stream, enveloped(INFO))
    info(wire.answer(stream))


@pytest.mark.parametrize("huffman", [False, True], ids=["plain", "huffman"])
def test_compressed_headers(wire: Wire, huffman: bool):
    """The client's table: entries come, are used and leave, and its size changes."""
    encoder, calls = hpack.Encoder(), UNBUILT
    wire.encode = lambda headers: encoder.encode(headers, huffman=huffman)
    dice = random.Random(1)
    for turn in range(120):
        if turn % 20 == 10:
            encoder.header_table_size = dice.choice([0, 100, 1000, 4096])
        call = calls[turn % 2]
        extra = [(f"x-{dice.randrange(40)}", "".join(dice.choices("ab~!%Z09 ", k=dice.randrange(1, 300))))]
        answer = wire.call(call, b"", *extra, ("x-same", "each time"))
        assert (answer.status, answer.text) == (12, not_built(call))
    info(wire.call("GetSystemInfo", INFO))


@pytest.mark.parametrize("size", [0, 64, 65_536])
def test_client_limits_the_header_table(address: str, size: int):
    """hpack's decoder refuses a server that does not say that it uses less."""
    with Wire(address, {HEADER_TABLE_SIZE: size}) as wire:
        for _ in range(3):
            info(wire.call("GetSystemInfo", INFO))
        wire.change({HEADER_TABLE_SIZE: 32})
        wire.decoder.max_allowed_table_size = 32
        info(wire.call("GetSystemInfo", INFO))


# --- the connection ---


def test_ping(wire: Wire):
    wire.send(PING, 0, 0, b"\0\1segno\xff")
    wire.until(lambda: (PING, ACK, 0, b"\0\1segno\xff") in wire.control)


def test_settings_are_acknowledged_one_by_one(wire: Wire):
    for values in ({}, {MAX_STREAMS: 7, ENABLE_PUSH: 0}, {MAX_HEADER_LIST: 1 << 20}):
        wire.change(values)
    wire.settle()
    assert wire.count_acks() == 4
    first = wire.control[0]
    assert (first.kind, first.flags) == (SETTINGS, 0)


def test_what_is_unknown_is_ignored(address: str):
    with Wire(address, {0x99: 5, 0xFFFF: 0xFFFFFFFF}) as wire:
        stream = wire.open("GetSystemInfo")
        wire.send(0x42, 0xFF, 0, b"what?")
        wire.send(0xFE, 0xFF, stream, b"what?")
        wire.send(0x42, 0xFF, 77)
        wire.send(PRIORITY, 0, stream, PRIORITY_FIELDS)
        wire.send(PRIORITY, 0, 9999, PRIORITY_FIELDS)
        wire.send(WINDOW_UPDATE, 0, stream, number(1 << 31 | 10))  # the first bit is reserved
        wire.send(DATA, END_STREAM | 0xF6, stream, enveloped(INFO))  # flags DATA does not have
        info(wire.answer(stream))
        wire.send(PRIORITY, 0, stream, PRIORITY_FIELDS)  # it is closed by now
        wire.send(WINDOW_UPDATE, 0, stream, number(10))
        wire.reset(stream)
        info(wire.call("GetSystemInfo", INFO))


def test_stream_numbers_may_be_left_out(wire: Wire):
    for wire.next in (7, 1001, 1003, 2**31 - 1):
        info(wire.call("GetSystemInfo", INFO))


# --- windows: what the server sends ---


@pytest.mark.parametrize("window", [0, 1, 100])
def test_small_window(address: str, large: str, window: int):
    with Wire(address, {INITIAL_WINDOW: window}) as wire:
        stream = wire.ask("GetWorkflowExecutionHistory", history_request(large))
        got = wire.answers[stream]
        wire.settle()
        assert got.headers and len(got.data) == window
        wire.grant(1000, stream)
        wire.settle()
        assert len(got.data) == window + 1000
        wire.grant(1 << 20, stream)
        wire.settle()
        assert len(got.data) == WINDOW, "now the connection's window is the limit"
        wire.grant(1, 0)
        wire.settle()
        assert len(got.data) == WINDOW + 1 and not got.over
        wire.grant(1 << 20)
        whole(wire.answer(stream))


def test_window_byte_by_byte(address: str):
    with Wire(address, {INITIAL_WINDOW: 0}) as wire:
        stream = wire.ask("GetSystemInfo", INFO)
        while not wire.answers[stream].over:
            wire.grant(1, stream)
            before = len(wire.answers[stream].frames)
            wire.until(lambda: wire.answers[stream].over or len(wire.answers[stream].frames) > before)
        info(wire.answers[stream])


def test_window_changes_under_way(address: str, large: str):
    with Wire(address, {INITIAL_WINDOW: 100}) as wire:
        stream = wire.ask("GetWorkflowExecutionHistory", history_request(large))
        got = wire.answers[stream]
        wire.settle()
        assert len(got.data) == 100
        wire.change({INITIAL_WINDOW: 250})
        wire.settle()
        assert len(got.data) == 250
        wire.change({INITIAL_WINDOW: 50})  # 200 below nothing
        wire.grant(200, stream)
        wire.settle()
        assert len(got.data) == 250
        wire.grant(10, stream)
        wire.settle()
        assert len(got.data) == 260
        other = wire.ask("GetWorkflowExecutionHistory", history_request(large))
        wire.settle()
        assert len(wire.answers[other].data) == 50
        wire.grant(1 << 22)
        wire.change({INITIAL_WINDOW: 1 << 20})
        whole(wire.answer(stream))
        whole(wire.answer(other))


@pytest.mark.parametrize("size", [FRAME, FRAME + 1, (1 << 24) - 1])
def test_frame_size(address: str, large: str, size: int):
    """wire.py refuses larger ones."""
    with Wire(address, {INITIAL_WINDOW: 1 << 20, MAX_FRAME: size}) as wire:
        wire.grant(1 << 20)
        answer = wire.call("GetWorkflowExecutionHistory", history_request(large))
        whole(answer)
        assert len(answer.frames) <= 60, "hardly anything in each"


def test_others_go_on_while_one_is_blocked(address: str, large: str):
    with Wire(address, {INITIAL_WINDOW: 0}) as wire:
        blocked = wire.ask("GetWorkflowExecutionHistory", history_request(large))
        wire.settle()
        stream = wire.ask("GetSystemInfo", INFO)
        wire.grant(1000, stream)
        info(wire.answer(stream))
        # Without a message nothing is needed.
        assert wire.call(UNBUILT[0], b"").status == 12
        # The connection's window is used up: the same.
        wire.grant(1 << 20, blocked)
        wire.settle()
        assert wire.room == 0
        assert wire.call(UNBUILT[0], b"").status == 12
        # The rest is not waited for: what the connection may send is for others.
        wire.reset(blocked)
        stream = wire.ask("GetSystemInfo", INFO)
        wire.grant(1000, stream)
        wire.settle()
        wire.grant(1000)
        info(wire.answer(stream))


def test_blocked_ones_share_the_connection(address: str, large: str):
    with Wire(address, {INITIAL_WINDOW: 1 << 20}) as wire:
        streams = [wire.ask("GetWorkflowExecutionHistory", history_request(large)) for _ in range(8)]
        while not all(wire.answers[stream].over for stream in streams):
            wire.settle(0.02)
            wire.grant(200_000)
        for stream in streams:
            whole(wire.answers[stream])


# --- windows: what the server takes ---


def test_large_request(wire: Wire, name: str):
    """Input above 2 MB is refused, but it got there: 3 MiB, three times the window of a stream."""
    stream = wire.open("StartWorkflowExecution")
    wire.upload(stream, enveloped(start_request(name, 3 << 20)))
    answer = wire.answer(stream)
    assert (answer.status, answer.text) == (3, "Blob data size exceeds limit.")
    info(wire.call("GetSystemInfo", INFO))


def test_too_large_request(wire: Wire):
    """Refused, and what was sent meanwhile does not count against the connection for ever."""
    for body in (enveloped(bytes(MAX + 1)), enveloped(bytes(20_000_000)), b"\0\xff\xff\xff\xff" + bytes(20_000_000)):
        stream = wire.open("GetSystemInfo")
        wire.upload(stream, body)
        answer = wire.answer(stream)
        assert answer.status == 8
        assert answer.text == "grpc: received message larger than max (4194304 bytes)"
    info(wire.call("GetSystemInfo", INFO))


def test_largest_request(wire: Wire):
    """The limit itself is allowed: an unknown field is skipped."""
    skipped = b"\xfa\x3f" + integer(MAX - 6, 0)[1:]
    assert len(skipped) == 6
    stream = wire.open("GetSystemInfo")
    wire.upload(stream, enveloped(skipped + bytes(MAX - 6)))
    info(wire.answer(stream))


def test_padding_counts_and_is_given_back(wire: Wire):
    """More padding than the connection's window, around 40 KiB of message."""
    stream = wire.open("GetSystemInfo")
    body = enveloped(b"\xfa\x3f" + integer(40_000, 0)[1:] + bytes(40_000))
    for at, byte in enumerate(body):
        flags = PADDED | (END_STREAM if at == len(body) - 1 else 0)
        wire.send(DATA, flags, stream, bytes([255, byte]) + bytes(255))
    info(wire.answer(stream))


def test_data_of_a_stream_given_up_is_given_back(wire: Wire):
    """Cancelled uploads, together more than the connection's window."""
    for _ in range(12):
        stream = wire.open("GetSystemInfo")
        wire.upload(stream, enveloped(bytes(4_000_000))[:900_000], end=False)
        wire.reset(stream)
    stream = wire.open("GetSystemInfo")
    wire.upload(stream, enveloped(b"\xfa\x3f" + integer(4_000_000, 0)[1:] + bytes(4_000_000)))
    info(wire.answer(stream))


# --- all at once ---


@pytest.mark.parametrize("seed", range(4))
def test_storm(address: str, large: str, seed: int):
    """200 calls whose frames are mixed at random, in small windows; some are given up half way."""
    dice = random.Random(seed)
    encoder = hpack.Encoder()
    with Wire(address, {INITIAL_WINDOW: dice.choice([1, 77, 5000, 100_000])}) as wire:
        wire.encode = lambda headers: encoder.encode(headers, huffman=dice.random() < 0.5)
        kinds = dice.choices(["namespace", "info", "history"], [10, 10, 1], k=200)
        calls, unsent = {}, []
        while kinds or unsent:
            if kinds and (not unsent or dice.random() < 0.2):
                kind, place = kinds.pop(), "".join(dice.choices("aé\u4e2d %~", k=dice.randrange(1, 200)))
                call, request = {
                    "namespace": ("DescribeNamespace", DescribeNamespaceRequest(namespace=f"-{place}")),
                    "info": ("GetSystemInfo", INFO),
                    "history": ("GetWorkflowExecutionHistory", history_request(large)),
                }[kind]
                stream = wire.open(call, (f"x-{dice.randrange(9)}", place))
                calls[stream] = (kind, f"Namespace -{place} is not found.")
                unsent.append((stream, enveloped(request)))
                continue
            at = dice.randrange(len(unsent))
            stream, body = unsent[at]
            piece, rest, padding = body[: (size := dice.randrange(0, 90))], body[size:], dice.randrange(0, 256)
            if dice.random() < 0.02:
                wire.reset(stream)
                del calls[stream], unsent[at]
                continue
            flags = PADDED | (0 if rest else END_STREAM)
            wire.send(DATA, flags, stream, bytes([padding]) + piece + bytes(padding))
            unsent[at : at + 1] = [(stream, rest)] if rest else []
        for stream, (kind, text) in dice.sample(list(calls.items()), len(calls)):
            while not (answer := wire.answers[stream]).over:
                wire.settle(0.002)
                wire.grant(dice.randrange(1, 200_000))
                wire.grant(dice.randrange(1, 200_000), stream)
            if kind == "namespace":
                assert (answer.status, answer.text) == (5, text)
            else:
                {"info": info, "history": whole}[kind](answer)
