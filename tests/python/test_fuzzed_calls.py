"""Mutated requests to every method: nothing panics, nothing answers INTERNAL, and the server goes on.

$SEGNO_FUZZED_CALLS says how many; $SEGNO_FUZZ_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from temporalio.api.operatorservice.v1 import request_response_pb2 as operator_messages
from temporalio.api.operatorservice.v1.service_pb2_grpc import OperatorServiceStub
from temporalio.api.workflowservice.v1 import request_response_pb2 as workflow_messages
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

from helpers import SegnoServer, answers, segno_binary

CALLS = int(os.environ.get("SEGNO_FUZZED_CALLS", "6000"))
AT_A_TIME = 32
pytestmark = pytest.mark.timeout(60 + CALLS // 100)

TEXTS = ["", "default", "w1", "q", "*", "a/b", "\x00", "ü" * 10, "x" * 1001, "ExecutionStatus = 'Running'", "not a query ((("]
NUMBERS = [0, 1, -1, 2, 7, 1000, 2**31 - 1, -(2**31)]


def number_for(field: FieldDescriptor, draw: random.Random) -> int:
    wide = field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)
    value = draw.choice([*NUMBERS, *([2**62, -(2**62)] if wide else [])])
    unsigned = field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    return abs(value) if unsigned else value


def value_for(field: FieldDescriptor, draw: random.Random, depth: int) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return draw.randbytes(draw.choice([0, 1, 8, 40]))
        return "default" if field.name == "namespace" and draw.random() < 0.9 else draw.choice(TEXTS)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return draw.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return draw.choice([0.0, 1.0, -1.0, 1e30, float("inf"), float("nan")])
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return draw.choice([*(value.number for value in field.enum_type.values), 99])
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return filled(GetMessageClass(field.message_type)(), draw, depth + 1)
    return number_for(field, draw)


def filled(message: Message, draw: random.Random, depth: int = 0) -> Message:
    """Fills some of the fields with something."""
    for field in message.DESCRIPTOR.fields:
        is_likely = depth == 0 and field.name in ("namespace", "workflow_id", "task_queue", "execution", "schedule_id")
        if draw.random() > (0.95 if is_likely else 0.35 if depth < 4 else 0.0):
            continue
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
            target = getattr(message, field.name)
            name = value_for(key, draw, depth)
            if value.message_type is not None:
                target[name].CopyFrom(value_for(value, draw, depth))
            else:
                target[name] = value_for(value, draw, depth)
        elif field.is_repeated:
            getattr(message, field.name).extend(value_for(field, draw, depth) for _ in range(draw.choice([1, 1, 2, 5])))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            getattr(message, field.name).CopyFrom(value_for(field, draw, depth))
        else:
            setattr(message, field.name, value_for(field, draw, depth))
    return message


def mutated(raw: bytes, draw: random.Random) -> bytes:
    """Most stay as they are: what cannot be decoded does not get far."""
    if not raw or draw.random() < 0.8:
        return raw
    data = bytearray(raw)
    for _ in range(draw.choice([1, 1, 3])):
        position = draw.randrange(len(data))
        match draw.randrange(4):
            case 0:
                data[position] ^= 1 << draw.randrange(8)
            case 1:
                data[position:position] = draw.randbytes(draw.choice([1, 4]))
            case 2:
                del data[position : position + draw.choice([1, 4])]
                data = data or bytearray(b"\x0a")
            case _:
                data += data[position:]
    return bytes(data)


def methods(channel: Any) -> list[tuple[str, type[Message]]]:
    found = []
    for name, stub, messages in (
        ("workflowservice.v1.WorkflowService", WorkflowServiceStub(channel), workflow_messages),
        ("operatorservice.v1.OperatorService", OperatorServiceStub(channel), operator_messages),
    ):
        found += [(f"/temporal.api.{name}/{method}", getattr(messages, f"{method}Request")) for method in vars(stub)]
    return found


async def test_mutated_requests(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists()
    server = SegnoServer(log=tmp_path / "server.log")
    server.start()
    seed = int(os.environ.get("SEGNO_FUZZ_SEED", str(random.randrange(2**32))))
    print(f"SEGNO_FUZZ_SEED={seed}")
    draw = random.Random(seed)
    seen: Counter[str] = Counter()
    faults: list[str] = []
    left = CALLS
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            calls = [
                (path, message, channel.unary_unary(path, lambda raw: raw, lambda raw: raw))
                for path, message in methods(channel)
            ]

            async def client() -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    path, message, method = draw.choice(calls)
                    raw = mutated(filled(message(), draw).SerializeToString(), draw)
                    # Polls of two seconds and less are refused, so that nothing waits.
                    try:
                        await method(raw, timeout=1.5)
                        seen["OK"] += 1
                    except grpc.aio.AioRpcError as error:
                        seen[error.code().name] += 1
                        if error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS):
                            # Junk that is no message at all is the decoder's to refuse, and INTERNAL is gRPC's word for it.
                            if "decode Protobuf" not in (error.details() or ""):
                                faults.append(f"{path}: {error.code().name} {error.details()} for {raw.hex()}")

            await asyncio.gather(*(client() for _ in range(AT_A_TIME)))
        assert answers(server.address)
    finally:
        server.kill()
    log = server.log.read_text()
    assert "panicked" not in log, log[-4000:]
    assert not faults, "\n".join(faults[:10])
    assert seen["OK"] > CALLS // 50 and seen["INVALID_ARGUMENT"] > CALLS // 10, seen
