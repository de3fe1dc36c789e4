"""gRPC on HTTP/2, frame by frame: compression, long polls, streams, and every way to be told no."""

from __future__ import annotations

import base64
import time
import uuid
from typing import Iterator

import pytest
from temporalio.api.common.v1.grpc_status_pb2 import GrpcStatus
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetWorkflowExecutionHistoryResponse,
    ListWorkflowExecutionsRequest,
    PollWorkflowTaskQueueResponse,
    StartWorkflowExecutionResponse,
)

from helpers import NAMESPACE
from wire import (
    DATA, END_HEADERS, END_STREAM, HEADERS, INFO, INITIAL_WINDOW, NO_ERROR, UNBUILT, Answer, Header, Wire,
    enveloped, history_request, info, literals, not_built, number, poll_request, request_headers, start_request,
)

GZIP = ("grpc-encoding", "gzip")
ACCEPT_GZIP = ("grpc-accept-encoding", "identity,deflate,gzip")
PATIENT = ("grpc-timeout", "20S")
HEALTH = "/grpc.health.v1.Health"
SERVING = b"\x08\x01"  # a HealthCheckResponse
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
LIST_SERVICES = b"\x3a\x01*"  # a ServerReflectionRequest
SYMBOL = b"\x22\x15grpc.health.v1.Health"


@pytest.fixture
def wire(address: str) -> Iterator[Wire]:
    with Wire(address) as wire:
        yield wire


@pytest.fixture
def name() -> str:
    return f"wire-{uuid.uuid4().hex}"


def answer_to(wire: Wire, call: str, body: bytes, *more: Header, **instead: str) -> Answer:
    """The answer to a body of any bytes; the connection goes on."""
    stream = wire.open(call, *more, **instead)
    wire.send(DATA, END_STREAM, stream, body)
    answer = wire.answer(stream)
    info(wire.call("GetSystemInfo", INFO))
    return answer


# --- compression ---


def test_gzip_request(wire: Wire, name: str):
    stream = wire.open("StartWorkflowExecution", GZIP)
    wire.upload(stream, enveloped(start_request(name, 100_000), compress=True))
    answer = wire.answer(stream)
    assert answer.message(StartWorkflowExecutionResponse).run_id
    assert answer.headers and "grpc-encoding" not in answer.headers, "it did not say that it knows gzip"


def test_gzip_both_ways(wire: Wire):
    answer = answer_to(wire, "GetSystemInfo", enveloped(INFO, compress=True), GZIP, ACCEPT_GZIP)
    info(answer)
    # It may be compressed, and is shorter than what is worth it.
    assert answer.headers and answer.headers["grpc-encoding"] == "gzip" and answer.data[0] == 0


def test_only_some_messages_are_compressed(wire: Wire):
    info(answer_to(wire, "GetSystemInfo", enveloped(INFO), GZIP))
    info(answer_to(wire, "GetSystemInfo", enveloped(INFO), ("grpc-encoding", "identity")))


def test_plain_request_gets_a_plain_answer(wire: Wire):
    answer = answer_to(wire, "GetSystemInfo", enveloped(INFO), ACCEPT_GZIP)
    info(answer)
    assert answer.data[0] == 0


def test_inflates_to_too_much(wire: Wire):
    answer = answer_to(wire, "GetSystemInfo", enveloped(bytes(10_000_000), compress=True), GZIP)
    assert answer.status == 8
    assert answer.text == "grpc: received message after decompression larger than max 4194304"


# --- refusals ---


def only_headers(answer: Answer) -> None:
    """An answer without a message is one HEADERS frame, which ends the stream."""
    assert answer.trailers is None and answer.data == b"", answer
    assert answer.headers and answer.headers[":status"] == "200"
    assert answer.headers["content-type"] == "application/grpc"


@pytest.mark.parametrize(
    "call", ["NoSuchCall", "/no.such.Service/Call", "/", "/grpc.health.v1.Health/NoSuchCall", "/a/b/c"]
)
def test_unknown_method(wire: Wire, call: str):
    answer = answer_to(wire, call, enveloped(b""))
    only_headers(answer)
    assert answer.status == 12


def test_call_that_is_not_built(wire: Wire):
    answer = answer_to(wire, UNBUILT[0], enveloped(b""))
    only_headers(answer)
    assert (answer.status, answer.text) == (12, not_built(UNBUILT[0]))


def test_missing_namespace(wire: Wire):
    """Percent-encoded text, also outside ASCII; the details say it again."""
    place = "näh 100% \n\u4e2d"
    request = DescribeNamespaceRequest(namespace=place)
    answer = answer_to(wire, "DescribeNamespace", enveloped(request))
    only_headers(answer)
    raw = answer.end["grpc-message"].replace("%20", " ")  # a blank may go either way
    assert raw == "Namespace n%C3%A4h 100%25 %0A%E4%B8%AD is not found."
    assert (answer.status, answer.text) == (5, f"Namespace {place} is not found.")
    binary = answer.end["grpc-status-details-bin"]
    details = GrpcStatus.FromString(base64.b64decode(binary + "=" * (-len(binary) % 4)))
    assert (details.code, details.message) == (5, answer.text)
    failure = NamespaceNotFoundFailure()
    assert details.details[0].Unpack(failure) and failure.namespace == place


def test_long_text(wire: Wire):
    """More than a frame holds: it comes in CONTINUATION frames, or cut off."""
    stream, query = wire.open("ListWorkflowExecutions"), "X" * 60_000
    request = ListWorkflowExecutionsRequest(namespace=NAMESPACE, query=f"{query} = 'é'")
    wire.upload(stream, enveloped(request))
    answer = wire.answer(stream)
    assert answer.status == 3 and answer.text.startswith("invalid query: ")
    assert answer.text.count("X") > 1000
    info(wire.call("GetSystemInfo", INFO))


# With what tonic, which the first transport was built on, said to each.
BROKEN = {
    "nothing": b"",  # Missing request message.
    "half a prefix": b"\0\0\0",  # Unexpected EOF decoding stream.
    "half a message": b"\0\0\0\0\5ab",  # the same
    "half a second message": enveloped(b"") + b"ab",  # the same
    "garbage": enveloped(b"\xff\xff\xff\xff"),  # failed to decode Protobuf message: invalid varint
    "text that is not UTF-8": enveloped(b"\x0a\x02\xc3\x28"),  # failed to decode Protobuf message: […]
    "an unknown flag": b"\2\0\0\0\0",  # protocol error: received message with invalid compression flag: 2 […]
    "no encoding": b"\1\0\0\0\0",  # protocol error: […] compressed-flag but no grpc-encoding was specified
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_message(wire: Wire, what: str):
    answer = answer_to(wire, "DescribeNamespace", BROKEN[what])
    only_headers(answer)
    assert answer.status == 13 and answer.text


def test_no_body_at_all(wire: Wire):
    assert wire.answer(wire.open("GetSystemInfo", end=True)).status == 13


def test_broken_gzip(wire: Wire):
    assert answer_to(wire, "GetSystemInfo", b"\1\0\0\0\4abcd", GZIP).status == 13


def test_unknown_compression(wire: Wire):
    answer = answer_to(wire, "GetSystemInfo", enveloped(INFO), ("grpc-encoding", "br"))
    only_headers(answer)
    assert answer.status == 12 and "gzip" in answer.end["grpc-accept-encoding"]


def test_refusal_before_the_request_is_whole(wire: Wire):
    """The answer ends; then RST_STREAM with NO_ERROR says that the rest is not read."""
    stream = wire.open(UNBUILT[0])
    assert wire.answer(stream).status == 12
    wire.until(lambda: wire.answers[stream].reset is not None)
    assert wire.answers[stream].reset == NO_ERROR
    wire.send(DATA, END_STREAM, stream, enveloped(b""))  # it crossed: nothing comes of it
    info(wire.call("GetSystemInfo", INFO))


@pytest.mark.parametrize(
    "instead",
    [{"content_type": "application/grpc+proto"}, {"content_type": "text/plain"}, {"method": "GET"}],
    ids=["proto", "text", "get"],
)
def test_method_and_content_type(wire: Wire, instead: dict[str, str]):
    """Only application/grpc+proto must work. The others got their answer on the first transport; a no is as good."""
    answer = answer_to(wire, "GetSystemInfo", enveloped(INFO), **instead)
    if instead.get("content_type") == "application/grpc+proto":
        info(answer)
    else:
        assert answer.reset or answer.headers and answer.headers[":status"] in ("200", "405", "415")


# As lenient as the first transport; grpc-go wants a content-type and an authority.
@pytest.mark.parametrize("without", ["te", "content-type", ":authority"])
def test_headers_nobody_needs(wire: Wire, without: str):
    stream, headers = wire.number(), request_headers("GetSystemInfo")
    block = literals(header for header in headers if header[0] != without)
    wire.send(HEADERS, END_HEADERS, stream, block)
    wire.send(DATA, END_STREAM, stream, enveloped(INFO))
    info(wire.answer(stream))


def test_metadata_of_all_kinds(wire: Wire):
    more = [("x-bin", "AAEC/w"), ("x-text", "é~"), ("x-text", "again"), ("x-empty", ""), ("x-long", "a" * 8000)]
    info(wire.call("GetSystemInfo", INFO, *more))


# --- long polls ---


def poll(wire: Wire, queue: str) -> int:
    return wire.ask("PollWorkflowTaskQueue", poll_request(queue), PATIENT)


def task(wire: Wire, stream: int) -> PollWorkflowTaskQueueResponse:
    return wire.answer(stream, 5).message(PollWorkflowTaskQueueResponse)


def start(wire: Wire, name: str) -> None:
    assert wire.call("StartWorkflowExecution", start_request(name)).status == 0


def test_poll_ends_empty_before_its_deadline(wire: Wire, name: str):
    began = time.monotonic()
    answer = wire.call("PollWorkflowTaskQueue", poll_request(name), ("grpc-timeout", "3000m"))
    assert not answer.message(PollWorkflowTaskQueueResponse).task_token
    assert 1 < time.monotonic() - began < 3


@pytest.mark.parametrize("timeout", ["99999999S", "99999999H"])
def test_longest_timeout(wire: Wire, name: str, timeout: str):
    assert wire.call("GetWorkflowExecutionHistory", history_request(name), ("grpc-timeout", timeout)).status == 5
    stream = wire.ask("PollWorkflowTaskQueue", poll_request(name), ("grpc-timeout", timeout))
    wire.settle()
    assert not wire.answers[stream].over
    start(wire, name)
    assert task(wire, stream).workflow_execution.workflow_id == name


@pytest.mark.parametrize("timeout", ["100000000S", "18446744073709551615S", "18446744073709551615H"])
def test_timeout_of_too_many_digits(wire: Wire, name: str, timeout: str):
    """gRPC allows eight. More count as none given."""
    answer = wire.call("GetWorkflowExecutionHistory", history_request(name), ("grpc-timeout", timeout))
    assert answer.reset is None and answer.status == 5
    answer = wire.call("PollWorkflowTaskQueue", poll_request(name), ("grpc-timeout", timeout))
    assert answer.reset is None
    assert (answer.status, answer.text) == (3, "Context timeout is not set.")


def test_300_polls_and_calls_meanwhile(wire: Wire, name: str):
    polls = [poll(wire, name) for _ in range(300)]
    for _ in range(20):
        info(wire.call("GetSystemInfo", INFO))
    assert not any(wire.answers[stream].over for stream in polls)
    left = polls.pop(137)
    for stream in polls:
        wire.reset(stream)
    info(wire.call("GetSystemInfo", INFO))
    start(wire, name)
    assert task(wire, left).workflow_execution.workflow_id == name
    assert not any(wire.answers[stream].frames for stream in polls), "they were given up"


def test_300_polls_get_300_tasks(wire: Wire, name: str):
    polls = [poll(wire, name) for _ in range(300)]
    wire.grant(1 << 22)
    for number in range(300):
        request = start_request(name)
        request.workflow_id = request.request_id = f"{name}-{number}"
        wire.ask("StartWorkflowExecution", request)
    got = {task(wire, stream).workflow_execution.workflow_id for stream in polls}
    assert got == {f"{name}-{number}" for number in range(300)}


def test_closed_connection_frees_its_polls(address: str, wire: Wire, name: str):
    with Wire(address) as gone:
        for _ in range(50):
            poll(gone, name)
        info(gone.call("GetSystemInfo", INFO))
    time.sleep(0.2)
    start(wire, name)
    assert task(wire, poll(wire, name)).workflow_execution.workflow_id == name


def test_task_whose_answer_nobody_reads_goes_to_another(address: str, wire: Wire, name: str):
    """The window lets nothing out; the stream is reset: the task is given back."""
    with Wire(address, {INITIAL_WINDOW: 0}) as stuck:
        stream = poll(stuck, name)
        info_stream = stuck.ask("GetSystemInfo", INFO)
        stuck.grant(1000, info_stream)
        info(stuck.answer(info_stream))
        start(wire, name)
        stuck.settle()
        assert not stuck.answers[stream].data
        stuck.reset(stream)
        assert task(wire, poll(wire, name)).workflow_execution.workflow_id == name


# --- streams of messages ---


def test_health(wire: Wire):
    answer = wire.call(f"{HEALTH}/Check", b"")
    assert (answer.status, answer.messages) == (0, [SERVING])
    assert wire.call(f"{HEALTH}/Check", b"\x0a\x04nope").status == 5


def test_health_watch(wire: Wire):
    """The server's side stays open until the client goes."""
    stream = wire.ask(f"{HEALTH}/Watch", b"")
    wire.until(lambda: wire.answers[stream].messages == [SERVING])
    wire.settle()
    assert not wire.answers[stream].over
    wire.reset(stream)
    info(wire.call("GetSystemInfo", INFO))


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection(wire: Wire, version: str):
    """Both sides are open: each question is answered before the next one is asked."""
    stream = wire.open(REFLECTION.replace("v1", version))
    answer = wire.answers[stream]
    for turn in range(1, 4):
        wire.send(DATA, 0, stream, enveloped(LIST_SERVICES))
        wire.until(lambda: len(answer.messages) == turn)
        assert b"temporal.api.workflowservice.v1.WorkflowService" in answer.messages[-1]
    assert not answer.over
    wire.send(DATA, END_STREAM, stream)
    assert wire.answer(stream).status == 0


def test_messages_across_frames_and_frames_across_messages(wire: Wire):
    stream, body = wire.open(REFLECTION), enveloped(LIST_SERVICES) * 5
    wire.send(DATA, 0, stream, body[:12])
    wire.until(lambda: len(wire.answers[stream].messages) == 1)
    wire.send(DATA, 0, stream, body[12:30])
    wire.until(lambda: len(wire.answers[stream].messages) == 3)
    wire.send(DATA, END_STREAM, stream, body[30:])
    assert wire.answer(stream).status == 0
    assert len(wire.answers[stream].messages) == 5


def test_gzip_both_ways_of_a_direct_call(wire: Wire, name: str):
    """A long answer is compressed, a short one is not worth it."""
    start = start_request(name)
    start.input.payloads.add(data=b"a" * 100_000)
    stream = wire.open("StartWorkflowExecution", GZIP, ACCEPT_GZIP)
    wire.upload(stream, enveloped(start, compress=True))
    answer = wire.answer(stream)
    assert answer.message(StartWorkflowExecutionResponse).run_id
    assert answer.headers and answer.headers["grpc-encoding"] == "gzip" and answer.data[0] == 0
    stream = wire.open("GetWorkflowExecutionHistory", GZIP, ACCEPT_GZIP)
    wire.upload(stream, enveloped(history_request(name), compress=True))
    answer = wire.answer(stream)
    assert answer.headers and answer.headers["grpc-encoding"] == "gzip" and answer.data[0] == 1
    assert len(answer.data) < 10_000
    started = answer.message(GetWorkflowExecutionHistoryResponse).history.events[0]
    payload = started.workflow_execution_started_event_attributes.input.payloads[0]
    assert payload.data == b"a" * 100_000


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_compressed_call_that_cannot_be_read(wire: Wire, encoding: str):
    answer = answer_to(wire, "StartWorkflowExecution", b"\1\0\0\0\4abcd", ("grpc-encoding", encoding))
    assert answer.status == (13 if encoding == "gzip" else 12)


def test_call_that_inflates(wire: Wire, name: str):
    start = start_request(name)
    start.input.payloads.add(data=bytes(6_000_000))
    answer = answer_to(wire, "StartWorkflowExecution", enveloped(start, compress=True), GZIP)
    text = answer.end["grpc-message"].replace("%20", " ")
    assert answer.status == 8 and "after decompression larger than max 4194304" in text
