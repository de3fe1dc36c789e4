"""What a client of HTTP/2 must not do, frame by frame.

A violation ends the connection, with GOAWAY and a code or without a word; a mistake within one request may end that
request alone. Other requests are not affected.
"""

from __future__ import annotations

import uuid
from typing import Iterator

import hpack
import pytest

from wire import (
    ACK, COMPRESSION_ERROR, CONTINUATION, DATA, ENABLE_PUSH, END_HEADERS, END_STREAM,
    FLOW_CONTROL_ERROR, FRAME, FRAME_SIZE_ERROR, GOAWAY, HAS_PRIORITY, HEADERS, INFO,
    INITIAL_WINDOW, MAX_FRAME, PADDED, PING, PREFACE, PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE,
    RST_STREAM, SETTINGS, STREAM_CLOSED, UNBUILT, WINDOW, WINDOW_UPDATE, Closed, Header, Wire, enveloped,
    frame, info, literals, not_built, number, poll_request, request_headers, settings,
)

MIB = 1 << 20
BLOCK = literals(request_headers("GetSystemInfo"))
OPEN = frame(HEADERS, END_HEADERS, 1, BLOCK)
CALL = OPEN + frame(DATA, END_STREAM, 1, enveloped(INFO))


def to_settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, payload=settings(values))


@pytest.fixture
def name() -> str:
    return f"wire-{uuid.uuid4().hex}"


@pytest.fixture
def wire(address: str, name: str) -> Iterator[Wire]:
    """A connection to spoil; another one, with a poll under way, is well before and after."""
    with Wire(address) as wire, Wire(address) as other:
        waiting = other.ask("PollWorkflowTaskQueue", poll_request(name), ("grpc-timeout", "60S"))
        info(other.call("GetSystemInfo", INFO))
        yield wire
        info(other.call("GetSystemInfo", INFO))
        assert not other.answers[waiting].over and not other.goaways


# The first code is what RFC 9113 asks for, where it asks for one.
VIOLATIONS = {
    "DATA on stream 0": (frame(DATA, 0, 0, b"a"), PROTOCOL_ERROR),
    "DATA on an idle stream": (frame(DATA, 0, 1, b"a"), PROTOCOL_ERROR),
    "DATA with too much padding": (OPEN + frame(DATA, PADDED, 1, b"\x05abc"), PROTOCOL_ERROR),
    "DATA without its padding's length": (OPEN + frame(DATA, PADDED, 1), FRAME_SIZE_ERROR),
    "HEADERS on stream 0": (frame(HEADERS, END_HEADERS, 0, BLOCK), PROTOCOL_ERROR),
    "HEADERS on an even stream": (frame(HEADERS, END_HEADERS, 2, BLOCK), PROTOCOL_ERROR),
    "HEADERS on an earlier stream": (
        frame(HEADERS, END_HEADERS, 5, BLOCK) + frame(HEADERS, END_HEADERS, 3, BLOCK),
        STREAM_CLOSED,
    ),
    "HEADERS with too much padding": (frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + BLOCK), PROTOCOL_ERROR),
    "HEADERS shorter than their priority": (frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"\0"), FRAME_SIZE_ERROR),
    "a frame that is too large": (OPEN + frame(DATA, 0, 1, bytes(FRAME + 1)), FRAME_SIZE_ERROR),
    "a frame that says it is 16 MiB": (OPEN + frame(DATA, 0, 1, bytes(16 * MIB - 1))[:50], FRAME_SIZE_ERROR),
    "an unknown frame that is too large": (frame(0x42, 0, 0, bytes(FRAME + 1)), FRAME_SIZE_ERROR),
    "CONTINUATION without HEADERS": (frame(CONTINUATION, END_HEADERS, 1, BLOCK), PROTOCOL_ERROR),
    "CONTINUATION after all HEADERS": (OPEN + frame(CONTINUATION, END_HEADERS, 1, BLOCK), PROTOCOL_ERROR),
    "CONTINUATION of another stream": (
        frame(HEADERS, 0, 1, BLOCK[:5]) + frame(CONTINUATION, END_HEADERS, 3, BLOCK[5:]),
        PROTOCOL_ERROR,
    ),
    "PING inside HEADERS": (frame(HEADERS, 0, 1, BLOCK[:5]) + frame(PING, 0, 0, bytes(8)), PROTOCOL_ERROR),
    "HEADERS inside HEADERS": (frame(HEADERS, 0, 1, BLOCK[:5]) + OPEN, PROTOCOL_ERROR),
    "an unknown frame inside HEADERS": (frame(HEADERS, 0, 1, BLOCK[:5]) + frame(0x42), PROTOCOL_ERROR),
    "SETTINGS of a bad length": (frame(SETTINGS, payload=bytes(5)), FRAME_SIZE_ERROR),
    "SETTINGS on a stream": (OPEN + frame(SETTINGS, 0, 1), PROTOCOL_ERROR),
    "SETTINGS' ACK with values": (frame(SETTINGS, ACK, 0, bytes(6)), FRAME_SIZE_ERROR),
    "a window of 2^31": (to_settings({INITIAL_WINDOW: 1 << 31}), FLOW_CONTROL_ERROR),
    "frames that may hardly hold anything": (to_settings({MAX_FRAME: FRAME - 1}), PROTOCOL_ERROR),
    "frames of 16 MiB": (to_settings({MAX_FRAME: 1 << 24}), PROTOCOL_ERROR),
    "ENABLE_PUSH of 2": (to_settings({ENABLE_PUSH: 2}), PROTOCOL_ERROR),
    "WINDOW_UPDATE of 0": (frame(WINDOW_UPDATE, payload=number(0)), PROTOCOL_ERROR),
    "WINDOW_UPDATE of a bad length": (frame(WINDOW_UPDATE, payload=bytes(5)), FRAME_SIZE_ERROR),
    "WINDOW_UPDATE on an idle stream": (frame(WINDOW_UPDATE, 0, 1, number(1)), PROTOCOL_ERROR),
    "a connection's window above 2^31-1": (frame(WINDOW_UPDATE, payload=number(2**31 - 1)), FLOW_CONTROL_ERROR),
    "a window above 2^31-1 by SETTINGS": (
        OPEN + frame(WINDOW_UPDATE, 0, 1, number(2**31 - 1 - WINDOW)) + to_settings({INITIAL_WINDOW: WINDOW + 1}),
        FLOW_CONTROL_ERROR,
    ),
    "PING of a bad length": (frame(PING, payload=bytes(7)), FRAME_SIZE_ERROR),
    "PING on a stream": (OPEN + frame(PING, 0, 1, bytes(8)), PROTOCOL_ERROR),
    "RST_STREAM on an idle stream": (frame(RST_STREAM, 0, 1, number(8)), PROTOCOL_ERROR),
    "RST_STREAM on stream 0": (frame(RST_STREAM, 0, 0, number(8)), PROTOCOL_ERROR),
    "RST_STREAM of a bad length": (OPEN + frame(RST_STREAM, 0, 1, bytes(5)), FRAME_SIZE_ERROR),
    "PRIORITY on stream 0": (frame(PRIORITY, payload=bytes(5)), PROTOCOL_ERROR),
    "PUSH_PROMISE": (OPEN + frame(PUSH_PROMISE, END_HEADERS, 1, number(2) + BLOCK), PROTOCOL_ERROR),
    "GOAWAY on a stream": (OPEN + frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL_ERROR),
}
BROKEN_BLOCKS = {
    "index 0": b"\x80",
    "an index nothing has": BLOCK + b"\xff\x80\x01",
    "half a header": BLOCK[:-1],
    "an endless integer": b"\xff" + b"\xff" * 10 + b"\0",
    "an integer cut off": BLOCK + b"\xff\x80",
    "a text longer than the block": BLOCK + b"\0\x7f\xff\xff\xff\x7f",
    "Huffman's end mark": BLOCK + b"\0\x84\xff\xff\xff\xff\x01a",
    "Huffman padded with zeroes": BLOCK + b"\0\x01a\x81\x18",
    "a table too large": b"\x3f\xe2\x1f" + BLOCK,
    "a table size at the end": BLOCK + b"\x20",
}
VIOLATIONS |= {
    f"HPACK: {what}": (frame(HEADERS, END_HEADERS, 1, block), COMPRESSION_ERROR)
    for what, block in BROKEN_BLOCKS.items()
}


@pytest.mark.parametrize("what", VIOLATIONS)
def test_violation_ends_the_connection(wire: Wire, what: str):
    """The first transport said PROTOCOL_ERROR to most of these, which is never quite wrong."""
    wire.settle(0.02)
    sent, code = VIOLATIONS[what]
    wire.rooms |= {stream: WINDOW for stream in (1, 3, 5)}
    wire.raw(sent)
    assert wire.end() in (code, PROTOCOL_ERROR, None)


@pytest.mark.parametrize(
    "hello",
    [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", PREFACE[:-6] + b"XX\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0" + bytes(60)],
    ids=["HTTP/1.1", "almost", "TLS"],
)
def test_wrong_preface(address: str, wire: Wire, hello: bytes):
    with Wire(address, preface=False) as stranger:
        stranger.raw(hello)
        assert stranger.end() in (PROTOCOL_ERROR, None)


def headers(*more: Header, without: str = "") -> bytes:
    kept = [header for header in request_headers("GetSystemInfo") if header[0] != without]
    return frame(HEADERS, END_HEADERS, 1, literals([*kept, *more])) + CALL[len(OPEN) :]


MISTAKES = {
    "no :method": headers(without=":method"),
    "no :path": headers(without=":path"),
    "a second :path": frame(HEADERS, END_HEADERS, 1, literals([(":path", "/")]) + BLOCK),
    "a pseudo-header after others": headers((":path", "/"), without=":path"),
    "an unknown pseudo-header": frame(HEADERS, END_HEADERS, 1, literals([(":what", "?")]) + BLOCK),
    "an answer's pseudo-header": frame(HEADERS, END_HEADERS, 1, literals([(":status", "200")]) + BLOCK),
    "a header of HTTP/1.1": headers(("connection", "close")),
    "an upper-case name": headers(("X-Upper", "a")),
    "a name with a blank": headers(("x y", "a")),
    "a line break in a value": headers(("x-y", "a\r\nb: c")),
    "more bytes than announced": headers(("content-length", "3")),
    "WINDOW_UPDATE of 0": OPEN + frame(WINDOW_UPDATE, 0, 1, number(0)),
    "a window above 2^31-1": OPEN + frame(WINDOW_UPDATE, 0, 1, number(2**31 - 1)),
    "a second HEADERS that does not end": OPEN + OPEN,
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistake_ends_the_stream_or_the_connection(wire: Wire, what: str):
    """The call is not answered with a message. If the connection lives, it works."""
    wire.next = 3
    wire.rooms[1] = WINDOW
    wire.raw(MISTAKES[what])
    try:
        answer = wire.answer(1)
        assert answer.reset in (PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED) or answer.status == 13
        info(wire.call("GetSystemInfo", INFO))
    except Closed:
        assert not wire.goaways or wire.goaways[-1][1] in (PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED)
    assert not wire.answers[1].data


def test_data_after_the_end(wire: Wire):
    """On a stream the server may have forgotten by then: it may close, refuse or ignore, but not do it again."""
    wire.next = 3
    wire.rooms[1] = WINDOW
    wire.raw(CALL + CALL[len(OPEN) :])
    try:
        info(wire.call("GetSystemInfo", INFO))
    except Closed:
        assert wire.goaways[-1][1] in (STREAM_CLOSED, PROTOCOL_ERROR)
    assert len(wire.answers[1].messages) <= 1


def test_headers_of_a_refused_stream_count_for_the_table(wire: Wire):
    """Stream 1 has no :method; what it put into the table is used on stream 3, and so are stream 3's trailers."""
    encoder = hpack.Encoder()
    stream = wire.number()
    wire.send(HEADERS, END_HEADERS | END_STREAM, stream, encoder.encode(request_headers(UNBUILT[0])[1:]))
    assert wire.answer(stream).reset == PROTOCOL_ERROR
    stream = wire.number()
    wire.send(HEADERS, END_HEADERS, stream, encoder.encode(request_headers(UNBUILT[0])))
    wire.send(HEADERS, END_HEADERS | END_STREAM, stream, encoder.encode([("x-first", "1"), ("x-second", "2")]))
    assert wire.answer(stream).text == not_built(UNBUILT[0])
    stream = wire.number()
    again = encoder.encode([*request_headers(UNBUILT[1]), ("x-first", "1")])
    wire.send(HEADERS, END_HEADERS | END_STREAM, stream, again)
    assert wire.answer(stream).text == not_built(UNBUILT[1])
