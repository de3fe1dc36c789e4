"""Turns protobuf messages and gRPC errors into stable, comparable JSON.

Random or measured values become placeholders, numbered by first appearance within one
scenario; noise that neither an SDK nor a person relies on is dropped.
"""

from __future__ import annotations

import math
import re
from typing import Any

import grpc
from google.protobuf import symbol_database
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from temporalio.api.common.v1 import grpc_status_pb2
from temporalio.api.errordetails.v1 import message_pb2 as errordetails  # noqa: F401 - registers the details' types

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# A deleted namespace is renamed after the first digits of its id.
DELETED = re.compile(r"-deleted-[0-9a-f]{5}\b")
# Who carries out the steps of a batch job: a process.
PROCESS = re.compile(r"^\d+@[^@]+@$")
TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000 UTC)?")

# Fields that only this server's operator cares about.
DROPPED = {
    # Which store a server has is its own affair.
    "persistence_store",
    "visibility_store",
    "backlog_count_hint",
    "poller_scaling_decision",
    "poller_group_id",
    "poller_group_infos",
    "poller_groups_info",
    "state_transition_count",
    "execution_duration",
    "clock",
    "supported_clients",
    "server_version",
    "cluster_id",
    "cluster_name",
    "history_shard_count",
    "effective_rate_limit",
    "replication_config",
    "owner_host_name",
    "address",
    "http_address",
    # How far the real server's queues have heard of a change.
    "routing_config_update_state",
}
# Announcements of optional features, which a server makes or not as it has them.
OPTIONAL = {
    "supports_schedules",
    "sync_update",
    "async_update",
    "reported_problems_search_attribute",
    "build_id_based_versioning",
    "server_scaled_deployments",
    "count_group_by_execution_status",
    "worker_heartbeats",
    "worker_commands",
    "worker_poll_complete_on_shutdown",
    "poller_autoscaling",
    "standalone_activities",
    "standalone_activity_start_delay",
    "standalone_activity_batch_operations",
    "standalone_activity_operator_commands",
    "workflow_task_completion_size_limit_error",
}
DROPPED_IN_EVENTS = {"task_id", "version"}
# Fields of which only the presence is compared.
COUNTED = {
    "history_size_bytes",
    "size_bytes",
    "state_size_bytes",
    "approximate_backlog_age",
    "tasks_add_rate",
    "tasks_dispatch_rate",
}
# Headers of a Nexus task that come from the HTTP request which the real server sends to itself.
DROPPED_HEADERS = {"content-length"}
# How long the handler of a Nexus task has: what is left of it when the task is taken.
TIME_LEFT = "request-timeout"
# How long the operation may take, rounded up to whole seconds: part of its schedule-to-close time-out may have passed.
TIME_OF_OPERATION = "operation-timeout"
MILLISECONDS = re.compile(r"(\d+)ms")
# In this header of a callback, JSON that names an operation of the server, in a form that each server has for itself.
CALLBACK_TOKEN = "temporal-callback-token"
TOKENS = {"long_poll_token": "<token>", "task_token": "<token>", "next_page_token": "<page-token>"}
# The describing of a version lacks them in the real server, although the summaries of its deployment have them.
DROPPED_IN_VERSIONS = {"first_activation_time", "last_current_time", "last_deactivation_time"}
# Conflict tokens of deployments.
CONFLICT_TOKEN_BYTES = 15
REPEATED = re.compile(r"(.)\1{99,}")
LONGEST_TEXT = 400
LONGEST_LIST = 1000
# What the real server sends for "no such time" in some fields.
YEAR_ONE = -62135596800
# Later workflow task attempts get a jittered extension of their timeout.
EXACT_ATTEMPTS = 3
LONGEST_EXACT_CRON = 1
LONGEST_EXACT_OFFSET = 30


class Normaliser:
    """Holds the placeholders of one scenario."""

    def __init__(self, nonce: str, namespace_id: str) -> None:
        self.nonce = nonce
        self.known: dict[str, str] = {namespace_id: "<namespace-id>"} if namespace_id else {}
        # Other names that differ from run to run, with what stands for them.
        self.names: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.conflict_tokens: list[bytes] = []

    def text(self, value: str, field: str = "") -> str:
        """Replaces what differs from run to run inside a string."""
        value = REPEATED.sub(lambda m: f"<{len(m.group())} × {m.group(1)}>", value)
        value = value.replace("-" + self.nonce, "")
        for name, plain in self.names.items():
            value = value.replace(name, plain)
        value = DELETED.sub("-deleted-<id>", value)
        value = PROCESS.sub("<process>", value)
        value = UUID.sub(lambda m: self._placeholder(m.group(), field), value)
        value = TIME_TEXT.sub("<time>", value)
        if len(value) > LONGEST_TEXT:
            value = f"{value[:60]}…<{len(value)} characters>"
        return value

    def _placeholder(self, uuid: str, field: str) -> str:
        if uuid not in self.known:
            kind = "run" if "run_id" in field else "id"
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.known[uuid] = f"<{kind}-{self.counts[kind]}>"
        return self.known[uuid]

    def _conflict_token(self, token: bytes) -> str:
        if token not in self.conflict_tokens:
            self.conflict_tokens.append(token)
        return f"<conflict-token-{self.conflict_tokens.index(token) + 1}>"

    def message(self, message: Message, base: float | None = None) -> Any:
        """A message as JSON; `base` is the moment that expiration times are told relative to."""
        name = message.DESCRIPTOR.full_name
        if name == "google.protobuf.Timestamp":
            return self._time(message, base)
        if name == "google.protobuf.Duration":
            return duration(message)
        if name == "google.protobuf.Any":
            return self._any(message)
        is_event = name == "temporal.api.history.v1.HistoryEvent"
        if is_event:
            base = message.event_time.ToNanoseconds() / 1e9
        elif name == "temporal.api.workflowservice.v1.DescribeWorkflowExecutionResponse":
            base = message.workflow_execution_info.start_time.ToNanoseconds() / 1e9
        elif name in ("temporal.api.activity.v1.ActivityExecutionInfo", "temporal.api.nexus.v1.NexusOperationExecutionInfo"):
            base = message.schedule_time.ToNanoseconds() / 1e9
        elif name == "temporal.api.workflow.v1.PendingActivityInfo":
            base = message.scheduled_time.ToNanoseconds() / 1e9
        out: dict[str, Any] = {}
        if name == "temporal.api.common.v1.Payload" and (inside := packed_message(message)) is not None:
            return {"metadata": self.metadata(message), "data": self.message(inside)}
        for field, value in message.ListFields():
            if field.name in DROPPED | OPTIONAL or (is_event and field.name in DROPPED_IN_EVENTS):
                continue
            if name.endswith(".WorkerDeploymentVersionInfo") and field.name in DROPPED_IN_VERSIONS:
                continue
            # The real server leaves an empty drainage with a version that becomes current.
            if field.name == "drainage_info" and not value.status:
                continue
            if field.name in COUNTED:
                out[field.name] = "<n>"
            elif field.name == "current_retry_interval":
                out[field.name] = f"about {value.ToNanoseconds() / 1e9:.1f}s"
            elif name.endswith("WorkflowTaskScheduledEventAttributes") and field.name == "start_to_close_timeout":
                out[field.name] = duration(value) if message.attempt <= EXACT_ATTEMPTS else "<extended>"
            elif field.name in ("first_workflow_task_backoff", "backoff_start_interval"):
                told = backoff(value, bool(getattr(message, "cron_schedule", "")))
                if told:
                    out[field.name] = told
            elif "ListScheduleMatchingTimes" in name and field.name in ("start_time", "end_time"):
                # They follow from the schedule alone.
                out[field.name] = [v.ToJsonString() for v in value] if field.is_repeated else value.ToJsonString()
            elif field.name in TOKENS:
                out[field.name] = TOKENS[field.name]
            elif field.name == "conflict_token" and len(value) == CONFLICT_TOKEN_BYTES:
                out[field.name] = self._conflict_token(value)
            else:
                out[field.name] = self._field(field, value, base)
        return out

    def metadata(self, message: Message) -> dict[str, str]:
        """The metadata of a payload that is text."""
        return {key: self.text(value.decode()) for key, value in sorted(message.metadata.items())}

    def _field(self, field: FieldDescriptor, value: Any, base: float | None) -> Any:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            value_field = field.message_type.fields_by_name["value"]
            keys = sorted(value, key=lambda k: self.text(str(k)))
            keys = [k for k in keys if k not in DROPPED_HEADERS]
            return {self.text(str(k)): header(k, self._one(value_field, value[k], base)) for k in keys}
        if field.name == "pending_activities":
            value = sorted(value, key=lambda pending: pending.activity_id)
        if field.name == "pending_nexus_operations":
            value = sorted(value, key=lambda pending: pending.scheduled_event_id)
        if field.name == "endpoints":
            # In the order of their ids, which are random.
            value = sorted(value, key=lambda endpoint: endpoint.spec.name)
        if field.name == "callbacks":
            # The real server tells those of activities and updates in any order.
            value = sorted(value, key=registration)
        if field.name == "pollers":
            value = sorted(value, key=lambda poller: (poller.identity, poller.deployment_options.build_id))
        if field.is_repeated:
            return shortened([self._one(field, v, base) for v in value])
        return self._one(field, value, base)

    def _one(self, field: FieldDescriptor, value: Any, base: float | None) -> Any:
        if field.message_type is not None:
            if field.message_type.full_name == "google.protobuf.Timestamp" and "expiration" not in field.name:
                base = None
            return self.message(value, base)
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            return known.name if known else value
        if isinstance(value, bytes):
            try:
                return self.text(value.decode(), field.name)
            except UnicodeDecodeError:
                return f"<{len(value)} bytes>"
        if isinstance(value, str):
            return self.text(value, field.name)
        return value

    def _time(self, message: Message, base: float | None) -> str:
        moment = message.ToNanoseconds() / 1e9
        if message.seconds == YEAR_ONE:
            return "<year 1>"
        return "<time>" if base is None else f"<start + {offset(moment - base)}>"

    def error(self, error: grpc.RpcError) -> dict[str, Any]:
        """A gRPC error with its decoded details. Of a deadline, client and server race to tell: code only."""
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            return {"code": error.code().name}
        out: dict[str, Any] = {"code": error.code().name, "message": self.text(error.details() or "")}
        details = []
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                status = grpc_status_pb2.GrpcStatus.FromString(value)
                details = [self._any(d) for d in status.details]
        out["details"] = details
        return out

    def _any(self, packed: Any) -> dict[str, Any]:
        """A packed message, such as an error detail or an update protocol message."""
        try:
            kind = symbol_database.Default().GetSymbol(packed.TypeName())
            fields = self.message(kind.FromString(packed.value))
        except (KeyError, DecodeError):
            fields = f"<{len(packed.value)} bytes>"
        return {"type": packed.TypeName().rsplit(".", 1)[-1], "fields": fields}


def registration(described: Any) -> int:
    """When a callback was registered; of an activity that is told one level deeper."""
    told = described.info if hasattr(described, "info") else described
    return told.registration_time.ToNanoseconds()


def packed_message(payload: Any) -> Message | None:
    """The message that a payload is, if it is one whose type is known."""
    if payload.metadata.get("encoding") != b"binary/protobuf":
        return None
    try:
        kind = symbol_database.Default().GetSymbol(payload.metadata.get("messageType", b"").decode())
        return kind.FromString(payload.data)
    except (KeyError, DecodeError, UnicodeDecodeError):
        return None


def shortened(items: list[Any]) -> list[Any]:
    """A list; of very many equal items only one, and their number."""
    if len(items) > LONGEST_LIST and all(item == items[0] for item in items):
        return [items[0], f"<{len(items)} times>"]
    return items


def header(key: Any, value: Any) -> Any:
    """An entry of a map: those that are headers of Nexus may have values that were measured, or that are tokens."""
    if not isinstance(value, str):
        return value
    if str(key).lower() == TIME_LEFT:
        return "<time left>"
    if key == TIME_OF_OPERATION and (measured := MILLISECONDS.fullmatch(value)):
        return f"{math.ceil(int(measured[1]) / 1000)}000ms"
    if key == CALLBACK_TOKEN and value.startswith("{"):
        return "<callback-token>"
    return value


def duration(message: Message) -> str:
    """A duration in seconds; one finer than a millisecond was measured, not configured."""
    nanos = message.seconds * 1_000_000_000 + message.nanos
    if nanos % 1_000_000:
        return "<measured>"
    return f"{nanos / 1e9:g}s"


def offset(seconds: float) -> str:
    """A time span in whole seconds; longer ones are rounded, as part of them may have passed already."""
    return f"{seconds:.0f}s" if seconds < LONGEST_EXACT_OFFSET else f"about {round(seconds, -1):.0f}s"


def backoff(message: Message, cron: bool) -> str:
    """A first-task back-off: the rest of a run's first second (if any), and the time until a cron moment, vary."""
    total = message.seconds + message.nanos / 1e9
    if 0 < total < 1:
        return ""
    if cron and total > LONGEST_EXACT_CRON:
        return "<until the cron moment>"
    return f"{total:.0f}s"
