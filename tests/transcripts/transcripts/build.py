"""Small builders for protobuf values, given as plain dicts that message constructors accept."""

from __future__ import annotations

import json
from typing import Any

Fields = dict[str, Any]


def payload(value: Any) -> Fields:
    """One JSON payload."""
    return {"metadata": {"encoding": b"json/plain"}, "data": json.dumps(value).encode()}


def payloads(*values: Any) -> Fields:
    """A Payloads message."""
    return {"payloads": [payload(v) for v in values]}


def big(megabytes: float) -> Fields:
    """A Payloads message of about the given size."""
    return {"payloads": [{"metadata": {"encoding": b"binary/plain"}, "data": b"x" * int(megabytes * 1024 * 1024)}]}


def fields(**values: Any) -> Fields:
    """A Memo or Header: named payloads."""
    return {"fields": {k: payload(v) for k, v in values.items()}}


def seconds(n: float) -> Fields:
    """A Duration."""
    nanos = round(n * 1_000_000_000)
    whole = abs(nanos) // 1_000_000_000 * (1 if nanos >= 0 else -1)
    return {"seconds": whole, "nanos": nanos - whole * 1_000_000_000}


def retry(initial: float = 1, **more: Any) -> Fields:
    """A RetryPolicy with the given initial interval."""
    return {"initial_interval": seconds(initial), **more}


def failure(message: str = "boom", kind: str = "AppError", non_retryable: bool = False, **more: Any) -> Fields:
    """An application Failure."""
    info = {"type": kind, "non_retryable": non_retryable, **more}
    return {"message": message, "source": "test", "application_failure_info": info}


def metadata(summary: str, details: str = "") -> Fields:
    """UserMetadata."""
    out = {"summary": payload(summary)}
    if details:
        out["details"] = payload(details)
    return out


def command(kind: str, user_metadata: Fields | None = None, **attributes: Any) -> Fields:
    """A Command of the given kind (`START_TIMER`, …) with its attributes."""
    out: Fields = {"command_type": f"COMMAND_TYPE_{kind}", f"{kind.lower()}_command_attributes": attributes}
    if user_metadata:
        out["user_metadata"] = user_metadata
    return out


def complete(*results: Any) -> Fields:
    """CompleteWorkflowExecution."""
    return command("COMPLETE_WORKFLOW_EXECUTION", **({"result": payloads(*results)} if results else {}))


def fail(message: str = "boom", **more: Any) -> Fields:
    """FailWorkflowExecution."""
    return command("FAIL_WORKFLOW_EXECUTION", failure=failure(message, **more))


def timer(timer_id: str, length: float) -> Fields:
    """StartTimer."""
    return command("START_TIMER", timer_id=timer_id, start_to_fire_timeout=seconds(length))


def marker(name: str, **details: Any) -> Fields:
    """RecordMarker."""
    return command("RECORD_MARKER", marker_name=name, details={k: payloads(v) for k, v in details.items()})
