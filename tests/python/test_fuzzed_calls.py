"""Mutated requests to every method: nothing panics, nothing answers INTERNAL, and the server goes on.

$SEGNO_FUZZED_CALLS says how many; $SEGNO_FUZZ_SEED repeats a run.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, Sequence

import grpc
import pytest
from google.protobuf.message import Message
from temporalio.api.operatorservice.v1 import request_response_pb2 as operator_messages
from temporalio.api.operatorservice.v1.service_pb2_grpc import OperatorServiceStub
from temporalio.api.workflowservice.v1 import request_response_pb2 as workflow_messages
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

from fuzzed_requests import Requests, Scenario, parsed, weight
from helpers import SWITCHED_ON, SegnoServer, answers, segno_binary

CALLS = int(os.environ.get("SEGNO_FUZZED_CALLS", "6000"))
AT_A_TIME = 32
pytestmark = pytest.mark.timeout(60 + CALLS // 100)

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


SERVICES = (
    ("workflowservice.v1.WorkflowService", WorkflowServiceStub, workflow_messages),
    ("operatorservice.v1.OperatorService", OperatorServiceStub, operator_messages),
)
# Clients that only poll: a poll with less than two seconds is refused, so the others never wait.
POLLING = 4
# Clients that play recorded scenarios, so that calls reach what only a sequence of calls leads to.
PLAYING = 16
POLLS = ("PollWorkflowTaskQueue", "PollActivityTaskQueue")
# The other clients need the namespace.
KEPT = ("DeleteNamespace", "DeprecateNamespace")
# Methods that must have answered OK at least once, by the number of calls.
OK_METHODS = {6_000: 60, 100_000: 84}


class Fuzzer:
    """Clients that call methods with changed requests, and what they saw."""

    def __init__(self, channel: Any, draw: random.Random) -> None:
        self.draw = draw
        self.methods: dict[str, tuple[Any, type[Message]]] = {}
        messages = {}
        for service, stub, module in SERVICES:
            for method in vars(stub(channel)):
                path = f"/temporal.api.{service}/{method}"
                call = channel.unary_unary(path, lambda raw: raw, lambda raw: raw)
                self.methods[method] = (call, getattr(module, f"{method}Response"))
                messages[method] = getattr(module, f"{method}Request")
        self.requests = Requests(messages, draw)
        self.left = CALLS
        self.seen: Counter[str] = Counter()
        self.ok: set[str] = set()
        self.faults: list[str] = []

    async def run(self) -> None:
        clients = [self.client(list(self.methods), 1.5) for _ in range(AT_A_TIME)]
        pollers = [self.client(POLLS, 2.2) for _ in range(POLLING)]
        await asyncio.gather(*clients, *pollers, *(self.player(number) for number in range(PLAYING)))

    async def player(self, number: int) -> None:
        """Plays scenario after scenario. One request in ten is changed, and the steps after it meet what that led to."""
        while self.left > 0:
            scenario = Scenario(self.draw.choice(self.requests.scenarios), f"-{number}-{self.left}")
            for step in scenario.steps:
                method = step["call"]
                if self.left <= 0 or method not in self.methods or method in KEPT:
                    break
                self.left -= 1
                raw = scenario.request(step, self.requests.messages[method]).SerializeToString()
                response = await self.send(method, mutated(raw, self.draw) if self.draw.random() < 0.5 else raw, 2.2)
                if response is not None:
                    scenario.learn(parsed(type(response)(), step.get("response") or {}), response)

    async def client(self, methods: Sequence[str], timeout: float) -> None:
        weights = [weight(method) for method in methods]
        while self.left > 0:
            self.left -= 1
            await self.call(self.draw.choices(methods, weights)[0], timeout)

    async def call(self, method: str, timeout: float) -> None:
        response = await self.send(method, mutated(self.requests.make(method).SerializeToString(), self.draw), timeout)
        # Half of the tasks are answered as a worker would, so that runs come to have activities, timers and children.
        if response and method == "PollWorkflowTaskQueue" and response.task_token and self.draw.random() < 0.5:
            answer = self.requests.answer("RespondWorkflowTaskCompleted", response.task_token)
            await self.send("RespondWorkflowTaskCompleted", answer.SerializeToString(), timeout)

    async def send(self, method: str, raw: bytes, timeout: float) -> Any:
        call, message = self.methods[method]
        try:
            response = message.FromString(await call(raw, timeout=timeout))
            self.requests.answers.read(method, response)
            self.seen["OK"] += 1
            self.ok.add(method)
            return response
        except grpc.aio.AioRpcError as error:
            self.seen[error.code().name] += 1
            if error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS):
                # Junk that is no message at all is the decoder's to refuse, and INTERNAL is gRPC's word for it.
                if "decode Protobuf" not in (error.details() or ""):
                    self.faults.append(f"{method}: {error.code().name} {error.details()} for {raw.hex()}")
        return None


async def test_mutated_requests(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists()
    server = SegnoServer(log=tmp_path / "server.log", flags=SWITCHED_ON)
    server.start()
    seed = int(os.environ.get("SEGNO_FUZZ_SEED", str(random.randrange(2**32))))
    print(f"SEGNO_FUZZ_SEED={seed}")
    try:
        async with grpc.aio.insecure_channel(server.address) as channel:
            fuzzer = Fuzzer(channel, random.Random(seed))
            await fuzzer.run()
        assert answers(server.address)
    finally:
        server.kill()
    print(f"OK in {len(fuzzer.ok)} of {len(fuzzer.methods)} methods; {dict(fuzzer.seen)}")
    log = server.log.read_text()
    assert "panicked" not in log, log[-4000:]
    assert not fuzzer.faults, "\n".join(fuzzer.faults[:10])
    wanted = max((ok for calls, ok in OK_METHODS.items() if CALLS >= calls), default=0)
    assert len(fuzzer.ok) >= wanted, sorted(set(fuzzer.methods) - fuzzer.ok)
