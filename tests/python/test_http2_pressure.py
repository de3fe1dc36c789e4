"""As much as a busy client may ask for, frame by frame: all of it is answered, and soon.

What only an attacker does is in test_http2_floods.py.
"""

from __future__ import annotations

import struct
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from wire import (
    ACK, DATA, END_HEADERS, END_STREAM, FRAME, HEADERS, INFO, INITIAL_WINDOW, PING, SETTINGS, WINDOW, Wire,
    enveloped, frame, history_request, info, literals, poll_request, request_headers, start_request,
)


@pytest.fixture
def name() -> str:
    return f"wire-{uuid.uuid4().hex}"


def asked(wire: Wire, call: str, body: bytes, count: int) -> list[int]:
    """Send the same request that often, in one write."""
    block, streams = literals(request_headers(call, ("grpc-timeout", "60S"))), [wire.number() for _ in range(count)]
    wire.raw(
        b"".join(
            frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body) for stream in streams
        )
    )
    return streams


def caught_up(wire: Wire, mark: bytes, timeout: float) -> float:
    """How long until the server has read everything up to here."""
    began = time.monotonic()
    wire.send(PING, payload=mark)
    wire.until(lambda: (PING, ACK, 0, mark) in wire.control[-1:], timeout)
    return time.monotonic() - began


def test_waves_of_answers(address: str, name: str):
    """More at once than goes into a socket, while the client goes on sending: sending goes on."""
    with Wire(address) as wire:
        assert wire.call("StartWorkflowExecution", start_request(name, 12_000)).status == 0
    with Wire(address, {INITIAL_WINDOW: 2**31 - 1}, timeout=5) as wire:
        wire.grant(2**31 - 1 - WINDOW)
        for wave in range(40):
            began = time.monotonic()
            left = set(asked(wire, "GetWorkflowExecutionHistory", enveloped(history_request(name)), 120))
            while left:
                stream = wire.read().stream
                if stream and wire.answers[stream].over:
                    left.discard(stream)
                    assert len(wire.answers[stream].messages[0]) > 12_000
                    if len(left) % 10 == 0:
                        wire.send(PING, payload=b"and more")
            assert time.monotonic() - began < 4, f"wave {wave}"
            wire.answers.clear()


def test_60_000_pings(address: str):
    """Each is answered, in order, if the client reads."""
    payloads = [struct.pack(">Q", number) for number in range(60_000)]
    pings = b"".join(frame(PING, payload=payload) for payload in payloads)
    with Wire(address) as wire, ThreadPoolExecutor(1) as pool:
        wire.settle(0.1)
        sending = pool.submit(wire.socket.sendall, pings)
        wire.until(lambda: wire.control[-1].payload == payloads[-1])
        sending.result()
        assert [got.payload for got in wire.control if got.kind == PING] == payloads
        info(wire.call("GetSystemInfo", INFO))


def test_windows_change_while_4_000_polls_are_open(address: str, name: str):
    """A frame may say the window 2,730 times. Only the last one counts, and only it may cost something."""
    changes = [struct.pack(">HI", INITIAL_WINDOW, 70_000 + turn % 2) for turn in range(FRAME // 6)]
    with Wire(address, timeout=30) as wire:
        polls = asked(wire, "PollWorkflowTaskQueue", enveloped(poll_request(name)), 4000)
        caught_up(wire, b"all open", 20)
        before = wire.count_acks()
        wire.raw(frame(SETTINGS, payload=b"".join(changes)) * 100)
        assert caught_up(wire, b"all read", 30) < 1.5
        assert wire.count_acks() == before + 100
        assert not any(wire.answers[stream].over for stream in polls)
        info(wire.call("GetSystemInfo", INFO))
