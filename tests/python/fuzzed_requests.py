"""Requests for fuzzing: recorded ones with a few fields changed, or fields filled at random.

Recorded requests come from the transcripts; their placeholders are replaced by values that the server answered with in this
run, so that many requests reach what a valid request reaches.
"""

from __future__ import annotations

import json
import random
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any, Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

RECORDED = Path(__file__).resolve().parent.parent / "transcripts/recorded"
TEXTS = ["", "default", "w1", "q", "*", "a/b", "\x00", "ü" * 10, "x" * 1001, "ExecutionStatus = 'Running'", "not a query ((("]
NUMBERS = [0, 1, -1, 2, 7, 1000, 2**31 - 1, -(2**31)]
# Values of one field that are kept from answers.
KEPT_VALUES = 16
# Values of a field in an answer that are looked at.
READ_VALUES = 8
# Fields whose values another field may have, too.
SAME_VALUES = {
    "base_run_id": "run_id",
    "first_execution_run_id": "run_id",
    "resource_id": "workflow_id",
    "long_poll_token": "next_page_token",
}
NAMESPACE_ENDS = ("DeleteNamespace", "DeprecateNamespace", "UpdateNamespace")
# How often a method is called, where 1 is usual: what begins a life often, what ends one seldom.
WEIGHTS = {"Start": 4, "SignalWithStart": 4, "Create": 4, "Register": 2, "Delete": 0.1, "Terminate": 0.1, "Reset": 0.3}
# Whose task a token belongs to: the method that answers the task, and the method that handed the task out.
POLLED_BY = {
    "RespondWorkflowTaskCompleted": "PollWorkflowTaskQueue",
    "RespondWorkflowTaskFailed": "PollWorkflowTaskQueue",
    "RespondQueryTaskCompleted": "PollWorkflowTaskQueue query",
    "RespondActivityTaskCompleted": "PollActivityTaskQueue",
    "RespondActivityTaskFailed": "PollActivityTaskQueue",
    "RespondActivityTaskCanceled": "PollActivityTaskQueue",
    "RecordActivityTaskHeartbeat": "PollActivityTaskQueue",
}


def weight(method: str) -> float:
    return next((weight for prefix, weight in WEIGHTS.items() if method.startswith(prefix)), 1)


class Answers:
    """Values that the server answered with, by the name of their field."""

    def __init__(self) -> None:
        self.values: defaultdict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=KEPT_VALUES))

    def read(self, method: str, answer: Message) -> None:
        """Keeps the strings and tokens of an answer."""
        for name, value in fields_of(answer):
            if name == "task_token":
                name = f"{method} query" if getattr(answer, "query", None) and answer.query.query_type else method
            if value and value not in self.values[name]:
                self.values[name].append(value)

    def draw(self, draw: random.Random, method: str, field: FieldDescriptor) -> Any:
        """A value for this field of a request to this method; None if there is none yet."""
        name = POLLED_BY.get(method, method) if field.name == "task_token" else SAME_VALUES.get(field.name, field.name)
        known = [v for v in self.values[name] if isinstance(v, bytes) == (field.type == FieldDescriptor.TYPE_BYTES)]
        return draw.choice(known) if known else None


def fields_of(message: Message, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Strings and bytes of a message with the names of their fields."""
    for field, value in message.ListFields():
        if is_map(field) or depth > 6:
            continue
        for one in list(value)[-READ_VALUES:] if field.is_repeated else [value]:
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                yield from fields_of(one, depth + 1)
            elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
                yield field.name, one


def name_namespace(request: Message) -> None:
    """Recordings leave out the namespace `default`, also of requests inside a request."""
    if "namespace" in request.DESCRIPTOR.fields_by_name and request.DESCRIPTOR.name.endswith("Request"):
        request.namespace = request.namespace or "default"


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


class Requests:
    """Makes requests for methods by name."""

    def __init__(self, messages: dict[str, type[Message]], draw: random.Random) -> None:
        self.messages = messages
        self.draw = draw
        self.answers = Answers()
        self.recorded: defaultdict[str, list[Message]] = defaultdict(list)
        self.scenarios = [json.loads(path.read_text()) for path in sorted(RECORDED.glob("*.json"))]
        for step in (step for scenario in self.scenarios for step in scenario):
            if message := messages.get(step["call"]):
                self.recorded[step["call"]].append(parsed(message(), step.get("request") or {}))

    def make(self, method: str) -> Message:
        """A request: recorded with live values and some changes, or, one in five times, filled at random."""
        known = self.recorded[method]
        is_recorded = known and self.draw.random() < 0.8
        request = self.made_of_recorded(method) if is_recorded else self.filled(method, self.messages[method]())
        if method in NAMESPACE_ENDS and request.namespace == "default":
            # The other requests need it.
            request.namespace = self.draw.choice(TEXTS[2:])
        if method == "DeleteNamespace":
            request.namespace_id = ""
        return request

    def answer(self, method: str, token: bytes) -> Message:
        """A recorded answer to a task, as it is but for the token."""
        request = self.messages[method]()
        request.CopyFrom(self.draw.choice(self.recorded[method]))
        request.namespace, request.task_token = "default", token
        self.replace_placeholders(method, request)
        return request

    def made_of_recorded(self, method: str) -> Message:
        request = self.messages[method]()
        request.CopyFrom(self.draw.choice(self.recorded[method]))
        self.replace_placeholders(method, request)
        for _ in range(self.draw.choice([0, 0, 1, 1, 2, 5])):
            self.change(method, request)
        return request

    def replace_placeholders(self, method: str, message: Message) -> None:
        name_namespace(message)
        for field, value in message.ListFields():
            if is_map(field):
                continue
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                for one in value if field.is_repeated else [value]:
                    self.replace_placeholders(method, one)
            elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING and not field.is_repeated and value[:1] in ("<", b"<"):
                known = self.answers.draw(self.draw, method, field)
                if known is None:
                    message.ClearField(field.name)
                else:
                    setattr(message, field.name, known)

    def change(self, method: str, message: Message) -> None:
        """Changes one field, at any depth."""
        while True:
            field = self.draw.choice(message.DESCRIPTOR.fields or [None])
            if field is None:
                return
            set_fields = [f for f, _ in message.ListFields() if f.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE]
            inner = [f for f in set_fields if not f.is_repeated]
            if not inner or self.draw.random() < 0.5:
                break
            message = getattr(message, self.draw.choice(inner).name)
        message.ClearField(field.name)
        if self.draw.random() < 0.8:
            self.fill(method, message, field, 2)

    def filled(self, method: str, message: Message, depth: int = 0) -> Message:
        """Fills some of the fields with some value."""
        for field in message.DESCRIPTOR.fields:
            is_likely = depth == 0 and field.name in ("namespace", "workflow_id", "task_queue", "execution", "schedule_id")
            if self.draw.random() <= (0.95 if is_likely else 0.35 if depth < 4 else 0.0):
                self.fill(method, message, field, depth)
        return message

    def fill(self, method: str, message: Message, field: FieldDescriptor, depth: int) -> None:
        if is_map(field):
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            target = getattr(message, field.name)
            name = self.value(method, key, depth)
            if value.message_type is not None:
                target[name].CopyFrom(self.value(method, value, depth))
            else:
                target[name] = self.value(method, value, depth)
        elif field.is_repeated:
            count = self.draw.choice([1, 1, 2, 5])
            getattr(message, field.name).extend(self.value(method, field, depth) for _ in range(count))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            getattr(message, field.name).CopyFrom(self.value(method, field, depth))
        else:
            setattr(message, field.name, self.value(method, field, depth))

    def value(self, method: str, field: FieldDescriptor, depth: int) -> Any:
        draw, kind = self.draw, field.cpp_type
        if kind == FieldDescriptor.CPPTYPE_STRING:
            if field.name == "namespace" and draw.random() < 0.9:
                return "default"
            known = self.answers.draw(draw, method, field) if draw.random() < 0.5 else None
            if known is not None:
                return known
            return draw.randbytes(draw.choice([0, 1, 8, 40])) if field.type == FieldDescriptor.TYPE_BYTES else draw.choice(TEXTS)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return draw.random() < 0.5
        if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return draw.choice([0.0, 1.0, -1.0, 1e30, float("inf"), float("nan")])
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            return draw.choice([*(value.number for value in field.enum_type.values), 99])
        if kind == FieldDescriptor.CPPTYPE_MESSAGE:
            return self.filled(method, GetMessageClass(field.message_type)(), depth + 1)
        return number(field, draw)


class Scenario:
    """The steps of one recorded scenario, on workflows and queues of its own, with the values that the server answers in this run."""

    def __init__(self, steps: list[Any], suffix: str) -> None:
        self.steps = steps
        self.suffix = suffix
        self.live: dict[Any, Any] = {}

    def request(self, step: Any, message: type[Message]) -> Message:
        request = parsed(message(), step.get("request") or {})
        self.make_own(request)
        return request

    def make_own(self, message: Message) -> None:
        name_namespace(message)
        for field, value in message.ListFields():
            if is_map(field):
                continue
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                for one in value if field.is_repeated else [value]:
                    self.make_own(one)
            elif field.cpp_type != FieldDescriptor.CPPTYPE_STRING or field.is_repeated:
                continue
            elif value in self.live:
                setattr(message, field.name, self.live[value])
            elif field.name == "workflow_id" or field.name == "name" and message.DESCRIPTOR.name == "TaskQueue":
                setattr(message, field.name, value + self.suffix)

    def learn(self, recorded: Message, answer: Message) -> None:
        """Placeholders of the recorded answer stand for the values of this answer from now on."""
        for field, value in recorded.ListFields():
            live = getattr(answer, field.name)
            if is_map(field):
                continue
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                for one, other in zip(value, live) if field.is_repeated else [(value, live)]:
                    self.learn(one, other)
            elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING and not field.is_repeated and value[:1] in ("<", b"<"):
                self.live[value] = live


def number(field: FieldDescriptor, draw: random.Random) -> int:
    wide = field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)
    value = draw.choice([*NUMBERS, *([2**62, -(2**62)] if wide else [])])
    unsigned = field.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    return abs(value) if unsigned else value


def parsed(message: Message, recorded: Any) -> Message:
    """A recorded request as a message. What is not a field's value, for instance a placeholder for a number, is left out."""
    for name, value in recorded.items() if isinstance(recorded, dict) else ():
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            continue
        try:
            if is_map(field):
                values = field.message_type.fields_by_name["value"]
                for key, one in value.items():
                    if values.message_type is not None:
                        getattr(message, name)[key].CopyFrom(parsed_value(values, one))
                    else:
                        getattr(message, name)[key] = parsed_value(values, one)
            elif field.is_repeated:
                getattr(message, name).extend(parsed_value(field, one) for one in value)
            elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                getattr(message, name).CopyFrom(parsed_value(field, value))
            else:
                setattr(message, name, parsed_value(field, value))
        except (TypeError, ValueError, KeyError, AttributeError):
            message.ClearField(name)
    return message


def parsed_value(field: FieldDescriptor, value: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return field.enum_type.values_by_name[value].number if isinstance(value, str) else value
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        message = GetMessageClass(field.message_type)()
        match field.message_type.full_name:
            case "google.protobuf.Timestamp":
                message.FromNanoseconds(time.time_ns())
            case "google.protobuf.Duration":
                message.FromJsonString(value)
            case _:
                parsed(message, value)
        return message
    if field.type == FieldDescriptor.TYPE_BYTES:
        return value.encode() if isinstance(value, str) else json.dumps(value).encode()
    if field.cpp_type in (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL):
        return value
    return float(value) if "FLOAT" in str(field.type) or isinstance(value, float) else int(value)
