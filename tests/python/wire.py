"""HTTP/2 by hand, for the tests of the transport: frames in, frames out, nothing done unasked.

A `Wire` is one connection. It acknowledges SETTINGS and answers PINGs unless told to be `mute`, keeps count of the
windows in both directions, and fails the test if the server breaks a rule of HTTP/2 that a client can see: more DATA
than the windows allow, a frame above the maximum size, a frame where none may be, a header block that does not decode.
"""

from __future__ import annotations

import gzip
import random
import socket
import struct
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, NamedTuple, TypeVar
from urllib.parse import unquote

import hpack
from temporalio.api.common.v1 import WorkflowType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    GetSystemInfoRequest,
    GetSystemInfoResponse,
    GetWorkflowExecutionHistoryRequest,
    PollWorkflowTaskQueueRequest,
    StartWorkflowExecutionRequest,
)

from helpers import NAMESPACE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
WORKFLOW_SERVICE = "/temporal.api.workflowservice.v1.WorkflowService"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME, MAX_HEADER_LIST = range(1, 7)

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT = range(5)
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = range(5, 10)
ENHANCE_YOUR_CALM = 11

WINDOW = 65_535
FRAME = 16_384

INFO = GetSystemInfoRequest()

Header = tuple[str, str]
M = TypeVar("M")


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes


class Closed(Exception):
    """The server closed the connection."""


@dataclass
class Answer:
    """What came on one stream."""

    headers: dict[str, str] | None = None
    data: bytes = b""
    trailers: dict[str, str] | None = None
    reset: int | None = None
    ended: bool = False
    frames: list[int] = field(default_factory=list)

    @property
    def over(self) -> bool:
        return self.ended or self.reset is not None

    @property
    def end(self) -> dict[str, str]:
        """The headers that say how the call ended: the trailers, or the only ones of an answer without a message."""
        assert self.ended, f"the answer has no end: {self}"
        return self.trailers if self.trailers is not None else self.headers or {}

    @property
    def status(self) -> int:
        return int(self.end["grpc-status"])

    @property
    def text(self) -> str:
        return unquote(self.end.get("grpc-message", ""), errors="strict")

    @property
    def messages(self) -> list[bytes]:
        """The messages that are whole, decompressed."""
        found, rest = [], self.data
        while len(rest) >= 5:
            compressed, length = struct.unpack(">BI", rest[:5])
            if len(rest) < 5 + length:
                break
            body, rest = rest[5 : 5 + length], rest[5 + length :]
            found.append(gzip.decompress(body) if compressed else body)
        return found

    def message(self, kind: Callable[[], M]) -> M:
        """The only message, of an answer that says OK."""
        assert self.status == 0, f"{self.status}: {self.text}"
        (body,) = self.messages
        message = kind()
        message.ParseFromString(body)  # type: ignore[attr-defined]
        return message


def integer(value: int, bits: int, flags: int = 0) -> bytes:
    """An HPACK integer with a prefix of that many bits."""
    most = (1 << bits) - 1
    if value < most:
        return bytes([flags | value])
    out, value = bytearray([flags | most]), value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def literals(headers: Iterable[tuple[str | bytes, str | bytes]]) -> bytes:
    """A header block of literals that are not indexed, without Huffman."""
    block = bytearray()
    for header in headers:
        block += b"\0"
        for part in header:
            part = part.encode() if isinstance(part, str) else part
            block += integer(len(part), 7) + part
    return bytes(block)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame; nothing about it is checked."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """The payload of a SETTINGS frame."""
    return b"".join(struct.pack(">HI", key, value) for key, value in values.items())


def number(value: int) -> bytes:
    """A 32-bit number: an error code, or a window's increment."""
    return struct.pack(">I", value)


def enveloped(message: Any, compress: bool = False) -> bytes:
    """A message (or its bytes) with gRPC's five bytes before it."""
    body = message if isinstance(message, bytes) else message.SerializeToString()
    body = gzip.compress(body) if compress else body
    return struct.pack(">BI", compress, len(body)) + body


OPERATOR_SERVICE = "/temporal.api.operatorservice.v1.OperatorService"
# Calls that Segno does not have: they are refused before a message comes.
UNBUILT = [f"{OPERATOR_SERVICE}/{call}" for call in ("AddOrUpdateRemoteCluster", "RemoveRemoteCluster")]


def not_built(call: str) -> str:
    """The text with which a call of `UNBUILT` is refused."""
    return f"{call.rsplit('/', 1)[-1]} is not built yet in Segno"


def path(call: str) -> str:
    """`GetSystemInfo` is of the workflow service; a path with a slash is itself."""
    return call if call.startswith("/") else f"{WORKFLOW_SERVICE}/{call}"


def request_headers(call: str, *more: Header, **instead: str) -> list[Header]:
    """The headers of a gRPC request; `method="GET"` and the like replace one."""
    return [
        (":method", instead.get("method", "POST")),
        (":scheme", "http"),
        (":path", path(call)),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", instead.get("content_type", "application/grpc")),
        *more,
    ]


class Wire:
    """One connection to the server."""

    def __init__(
        self,
        address: str,
        own: dict[int, int] | None = None,
        *,
        preface: bool = True,
        mute: bool = False,
        timeout: float = 10.0,
    ) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.mute = mute
        self.buffer = bytearray()
        self.next = 1
        self.answers: dict[int, Answer] = defaultdict(Answer)
        self.control: list[Frame] = []  # what came on stream 0
        self.goaways: list[tuple[int, int]] = []  # last stream, error code
        self.decoder = hpack.Decoder()
        self.encode: Callable[[list[Header]], bytes] = literals
        # What the server may still send, and what it may send at most in one frame.
        self.room = WINDOW
        self.rooms: dict[int, int] = {}
        self.own = {INITIAL_WINDOW: WINDOW, MAX_FRAME: FRAME} | (own or {})
        # What we may still send.
        self.credit = WINDOW
        self.credits: dict[int, int] = defaultdict(int)
        self.theirs: dict[int, int] = {INITIAL_WINDOW: WINDOW}
        if HEADER_TABLE_SIZE in self.own:
            self.decoder.max_allowed_table_size = self.own[HEADER_TABLE_SIZE]
        if preface:
            self.socket.sendall(PREFACE + frame(SETTINGS, payload=settings(own or {})))

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    # --- out ---

    def send(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> None:
        """Send a frame; DATA waits until the server's windows have room for it."""
        if kind == DATA and payload:
            while self.allowed(stream) < len(payload):
                self.read()
            self.credit -= len(payload)
            self.credits[stream] -= len(payload)
        self.raw(frame(kind, flags, stream, payload))

    def allowed(self, stream: int) -> int:
        """How much DATA may go out on a stream now."""
        return min(self.credit, self.theirs[INITIAL_WINDOW] + self.credits[stream])

    def raw(self, data: bytes) -> None:
        """Send these bytes. A server that has closed is noticed when reading, after its last words."""
        try:
            self.socket.sendall(data)
        except ConnectionError:
            pass

    def open(self, call: str, *more: Header, end: bool = False, **instead: str) -> int:
        """Open a stream with a gRPC request's headers."""
        stream = self.number()
        block = self.encode(request_headers(call, *more, **instead))
        self.send(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block)
        return stream

    def number(self) -> int:
        """The number of the next stream."""
        stream, self.next = self.next, self.next + 2
        self.rooms[stream] = self.own[INITIAL_WINDOW]
        return stream

    def ask(self, call: str, message: Any, *more: Header) -> int:
        """Open a stream and send a whole request that fits into one frame."""
        stream = self.open(call, *more)
        self.send(DATA, END_STREAM, stream, enveloped(message))
        return stream

    def upload(self, stream: int, body: bytes, end: bool = True) -> None:
        """Send as fast as the server's windows allow; stops early if the server has answered."""
        sent = 0
        while sent < len(body) and not self.answers[stream].over:
            size = min(self.allowed(stream), FRAME)
            if size <= 0:
                self.read()
                continue
            piece = body[sent : sent + size]
            sent += len(piece)
            self.send(DATA, END_STREAM if end and sent == len(body) else 0, stream, piece)

    def grant(self, amount: int, stream: int = 0) -> None:
        """WINDOW_UPDATE: let the server send that much more."""
        if stream:
            self.rooms[stream] += amount
        else:
            self.room += amount
        self.send(WINDOW_UPDATE, 0, stream, number(amount))

    def change(self, values: dict[int, int]) -> None:
        """New SETTINGS, which the server has acknowledged when this returns."""
        before = self.own[INITIAL_WINDOW]
        self.own |= values
        # What is on its way was sent under the old window: it counts as before until the ACK.
        acks = self.count_acks()
        self.send(SETTINGS, 0, 0, settings(values))
        growth = self.own[INITIAL_WINDOW] - before
        if growth > 0:
            self.rooms = {stream: room + growth for stream, room in self.rooms.items()}
        self.until(lambda: self.count_acks() > acks)
        if growth < 0:
            self.rooms = {stream: room + growth for stream, room in self.rooms.items()}

    def count_acks(self) -> int:
        return sum(f.kind == SETTINGS and f.flags & ACK == ACK for f in self.control)

    def reset(self, stream: int, code: int = CANCEL) -> None:
        self.send(RST_STREAM, 0, stream, number(code))

    # --- in ---

    def buffered(self, count: int) -> None:
        """Wait until that many bytes are here; they stay in the buffer."""
        while len(self.buffer) < count:
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionError:
                raise Closed from None
            if not piece:
                raise Closed
            self.buffer += piece

    def frame(self) -> Frame:
        self.buffered(9)
        length = int.from_bytes(self.buffer[:3], "big")
        assert length <= self.own[MAX_FRAME], f"a frame of {length} bytes"
        self.buffered(9 + length)
        got = Frame(*struct.unpack(">BBI", self.buffer[3:9]), bytes(self.buffer[9 : 9 + length]))
        del self.buffer[: 9 + length]
        return got

    def read(self) -> Frame:
        """The next frame, noted where it belongs. TimeoutError if none comes, Closed if none will."""
        got = self.frame()
        if got.stream:
            self.of_stream(got)
        else:
            self.of_connection(got)
        return got

    def of_connection(self, got: Frame) -> None:
        self.control.append(got)
        if got.kind == SETTINGS and not got.flags & ACK:
            self.theirs |= dict(struct.iter_unpack(">HI", got.payload))
            if not self.mute:
                self.send(SETTINGS, ACK)
        elif got.kind == PING and not got.flags & ACK and not self.mute:
            self.send(PING, ACK, 0, got.payload)
        elif got.kind == GOAWAY:
            self.goaways.append(struct.unpack(">II", got.payload[:8]))  # type: ignore[arg-type]
        elif got.kind == WINDOW_UPDATE:
            self.credit += struct.unpack(">I", got.payload)[0]
        assert got.kind not in (DATA, HEADERS, RST_STREAM, CONTINUATION), f"{got} without a stream"

    def of_stream(self, got: Frame) -> None:
        answer = self.answers[got.stream]
        assert got.stream in self.rooms, f"{got} on a stream never opened"
        assert not answer.ended or got.kind in (RST_STREAM, WINDOW_UPDATE), f"{got} after the end"
        if got.kind == DATA:
            assert not got.flags & PADDED and answer.headers is not None, f"{got}"
            self.room -= len(got.payload)
            self.rooms[got.stream] -= len(got.payload)
            if got.payload:
                assert self.room >= 0, f"{-self.room} bytes beyond the connection's window"
                assert self.rooms[got.stream] >= 0, f"{-self.rooms[got.stream]} beyond the window"
            answer.data += got.payload
            answer.frames.append(len(got.payload))
        elif got.kind == HEADERS:
            block, flags = got.payload, got.flags
            while not flags & END_HEADERS:
                more = self.frame()
                assert (more.kind, more.stream) == (CONTINUATION, got.stream), f"{more} inside {got}"
                flags, block = more.flags, block + more.payload
            decoded = {str(k): str(v) for k, v in self.decoder.decode(block)}
            if answer.headers is None:
                answer.headers = decoded
            else:
                assert got.flags & END_STREAM, f"trailers that do not end: {decoded}"
                answer.trailers = decoded
        elif got.kind == RST_STREAM:
            answer.reset = struct.unpack(">I", got.payload)[0]
        elif got.kind == WINDOW_UPDATE:
            self.credits[got.stream] += struct.unpack(">I", got.payload)[0]
        if got.kind in (DATA, HEADERS) and got.flags & END_STREAM:
            answer.ended = True

    def until(self, done: Callable[[], Any], timeout: float | None = None) -> None:
        """Read until this is true."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"frames came, but not what was awaited: {dict(self.answers)}")
            self.socket.settimeout(left)
            try:
                self.read()
            finally:
                self.socket.settimeout(self.timeout)

    def answer(self, stream: int, timeout: float | None = None) -> Answer:
        """The answer on a stream, when it is whole."""
        self.until(lambda: self.answers[stream].over, timeout)
        return self.answers[stream]

    def call(self, call: str, message: Any, *more: Header, timeout: float | None = None) -> Answer:
        """A small unary call, to its end."""
        return self.answer(self.ask(call, message, *more), timeout)

    def settle(self, quiet: float = 0.25) -> None:
        """Read until nothing comes for a while."""
        self.socket.settimeout(quiet)
        try:
            while True:
                self.read()
        except TimeoutError:
            pass
        finally:
            self.socket.settimeout(self.timeout)

    def end(self, timeout: float = 5.0) -> int | None:
        """Read until the server closes; the code of its last GOAWAY, None if it said nothing."""
        try:
            self.until(lambda: False, timeout)
        except Closed:
            return self.goaways[-1][1] if self.goaways else None
        raise AssertionError("unreachable")


# --- requests ---


def info(answer: Answer) -> None:
    """This is a whole answer to GetSystemInfo, in three parts."""
    assert answer.message(GetSystemInfoResponse).server_version
    assert answer.headers and answer.trailers, answer
    assert answer.headers[":status"] == "200"
    assert answer.headers["content-type"].startswith("application/grpc")
    assert "grpc-status" not in answer.headers and ":status" not in answer.trailers


def start_request(name: str, size: int = 0) -> StartWorkflowExecutionRequest:
    """Start a workflow on a task queue of the same name, with that many bytes of input."""
    request = StartWorkflowExecutionRequest(
        namespace=NAMESPACE,
        workflow_id=name,
        workflow_type=WorkflowType(name="Wire"),
        task_queue=TaskQueue(name=name),
        request_id=name,
    )
    if size:
        request.input.payloads.add(data=random.Random(size).randbytes(size))
    return request


def poll_request(queue: str) -> PollWorkflowTaskQueueRequest:
    return PollWorkflowTaskQueueRequest(
        namespace=NAMESPACE, task_queue=TaskQueue(name=queue), identity="wire"
    )


def history_request(name: str) -> GetWorkflowExecutionHistoryRequest:
    request = GetWorkflowExecutionHistoryRequest(namespace=NAMESPACE)
    request.execution.workflow_id = name
    return request
