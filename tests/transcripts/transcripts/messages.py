"""What a worker answers to update requests: protocol messages and the commands that place them.

A request message comes with a workflow task; each function here makes the answer to one such message.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message
from temporalio.api.update.v1 import message_pb2 as update

from .build import Fields, command, failure, payloads
from .harness import Session

DISCARDS = {"discard_speculative_workflow_task_with_events": True}


def request(message: Any) -> update.Request:
    """The update request that a message carries."""
    out = update.Request()
    message.body.Unpack(out)
    return out


def packed(message_id: str, update_id: str, body: Message) -> Fields:
    """A protocol message with the given body."""
    any_body = {"type_url": f"type.googleapis.com/{body.DESCRIPTOR.full_name}", "value": body.SerializeToString()}
    return {"id": message_id, "protocol_instance_id": update_id, "body": any_body}


def accept(message: Any, **changes: Any) -> Fields:
    """Accepts an update; a change of None leaves that field out."""
    body = {
        "accepted_request_message_id": message.id,
        "accepted_request_sequencing_event_id": message.event_id,
        "accepted_request": request(message),
        **changes,
    }
    body = {k: v for k, v in body.items() if v is not None}
    return packed(f"{message.id}/accept", message.protocol_instance_id, update.Acceptance(**body))


def reject(message: Any, text: str = "no", **changes: Any) -> Fields:
    """Rejects an update; a change of None leaves that field out."""
    body = {
        "rejected_request_message_id": message.id,
        "rejected_request_sequencing_event_id": message.event_id,
        "rejected_request": request(message),
        "failure": failure(text, "Rejected"),
        **changes,
    }
    body = {k: v for k, v in body.items() if v is not None}
    return packed(f"{message.id}/reject", message.protocol_instance_id, update.Rejection(**body))


def respond(message: Any, outcome: Fields | None = None, **changes: Any) -> Fields:
    """Completes an accepted update, by default successfully."""
    asked = request(message)
    body = {
        "meta": asked.meta,
        "outcome": outcome or {"success": payloads(f"result of {asked.meta.update_id}")},
        **changes,
    }
    body = {k: v for k, v in body.items() if v is not None}
    return packed(f"{message.id}/complete", message.protocol_instance_id, update.Response(**body))


def placed(*messages: Fields) -> list[Fields]:
    """The commands that place messages among other commands; a rejection has none."""
    return [command("PROTOCOL_MESSAGE", message_id=m["id"]) for m in messages if not m["id"].endswith("/reject")]


def answer(s: Session, task: Any, *messages: Fields, then: tuple[Fields, ...] = (), **more: Any) -> Any:
    """Completes a workflow task with messages, their commands and further commands."""
    return s.complete(task, *placed(*messages), *then, messages=list(messages), **more)


def accept_all(s: Session, task: Any, *, then: tuple[Fields, ...] = (), **more: Any) -> Any:
    """Accepts and completes every update a task brings, in order."""
    answers = [made(m) for m in task.messages for made in (accept, respond)]
    return answer(s, task, *answers, then=then, **more)
