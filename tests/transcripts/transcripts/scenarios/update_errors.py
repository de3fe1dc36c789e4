"""Worker messages and commands that the server refuses, with the texts it does so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import message_pb2 as common
from temporalio.api.update.v1 import message_pb2 as update

from ..build import Fields, command, complete, seconds
from ..harness import Session
from ..messages import accept, accept_all, answer, packed, placed, reject, request, respond
from . import scenario

PLACE = "COMMAND_TYPE_PROTOCOL_MESSAGE"


def refused(s: Session, *answers: Callable[[Any], Fields], commands: list[Fields] | None = None) -> None:
    """Answers an update's speculative task wrongly; the worker, the caller and the history tell."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    messages = [made(task.messages[0]) for made in answers]
    s.complete(task, *(placed(*messages) if commands is None else commands), messages=messages)
    s.join(begun)
    s.history()


def changed(made: Callable[..., Fields], **changes: Any) -> Callable[[Any], Fields]:
    """An answer with changed fields of its body."""
    return lambda message: made(message, **changes)


def with_body(body: Message) -> Callable[[Any], Fields]:
    """A message to the update with a body of one's own."""
    return lambda message: packed(f"{message.id}/odd", message.protocol_instance_id, body)


@scenario
def unknown_update(s: Session) -> None:
    """Update id not found and accepted request not set."""
    refused(s, lambda m: {**accept(m, accepted_request=None), "protocol_instance_id": "bogus"})


@scenario
def unknown_update_rejected(s: Session) -> None:
    """A rejection of an unknown update without its request."""
    refused(s, lambda m: {**reject(m, rejected_request=None), "protocol_instance_id": "bogus"})


@scenario
def unknown_update_completed(s: Session) -> None:
    """A response cannot bring back an unknown update."""
    refused(s, lambda m: {**respond(m), "protocol_instance_id": "bogus"})


@scenario
def no_update_id(s: Session) -> None:
    """A message that names no update."""
    refused(s, lambda m: {**accept(m, accepted_request=None), "protocol_instance_id": ""})


@scenario
def brought_back_by_acceptance(s: Session) -> None:
    """Update id not found and accepted request set: the update comes to life again, the sent one was not processed."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    asked = request(message)
    asked.meta.update_id = "lost"
    body = update.Acceptance(
        accepted_request_message_id="lost/request", accepted_request_sequencing_event_id=5, accepted_request=asked
    )
    answer(s, task, packed("lost/request/accept", "lost", body))
    s.join(begun)
    s.poll_update("lost")
    s.history()


@scenario
def brought_back_by_rejection(s: Session) -> None:
    """A rejection that carries the request of an unknown update is taken, and changes nothing."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    asked = request(task.messages[0])
    asked.meta.update_id = "lost"
    revived = {**reject(task.messages[0], rejected_request=asked), "protocol_instance_id": "lost"}
    answer(s, task, revived, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def brought_back_with_other_id(s: Session) -> None:
    """The request in an unknown update's acceptance names another id."""
    refused(s, lambda m: {**accept(m), "protocol_instance_id": "bogus"})


@scenario
def command_without_message(s: Session) -> None:
    """A command references a message that is not there."""
    refused(s, accept, commands=[command("PROTOCOL_MESSAGE", message_id="bogus")])


@scenario
def command_without_message_id(s: Session) -> None:
    """A command with an empty message id."""
    refused(s, accept, commands=[command("PROTOCOL_MESSAGE")])


@scenario
def command_without_attributes(s: Session) -> None:
    """A command without its attributes."""
    refused(s, accept, commands=[{"command_type": PLACE}])


@scenario
def command_twice(s: Session) -> None:
    """Two commands for one message: the second finds it taken."""
    again = command("PROTOCOL_MESSAGE", message_id="u/request/accept")
    refused(s, accept, commands=[again, again])


@scenario
def complete_without_accept(s: Session) -> None:
    """Complete without accept."""
    refused(s, respond)


@scenario
def accept_twice(s: Session) -> None:
    """Accept twice, as two messages."""
    refused(s, accept, lambda m: {**accept(m), "id": "second"})


@scenario
def invalid_command_order(s: Session) -> None:
    """Invalid command order: the completion is placed before the acceptance."""
    order = [command("PROTOCOL_MESSAGE", message_id=f"u/request/{kind}") for kind in ("complete", "accept")]
    refused(s, accept, respond, commands=order)


@scenario
def reject_after_accept(s: Session) -> None:
    """A rejection after the acceptance."""
    refused(s, accept, reject)


@scenario
def complete_after_reject(s: Session) -> None:
    """A completion after the rejection."""
    refused(s, reject, respond, commands=[])


@scenario
def complete_twice(s: Session) -> None:
    """A second completion in one task."""
    refused(s, accept, respond, lambda m: {**respond(m), "id": "second"})


@scenario
def acceptance_without_message_id(s: Session) -> None:
    """An acceptance must name the request's message."""
    refused(s, changed(accept, accepted_request_message_id=None))


@scenario
def acceptance_without_event_id(s: Session) -> None:
    """An acceptance must name the event it follows."""
    refused(s, changed(accept, accepted_request_sequencing_event_id=None))


@scenario
def acceptance_without_request(s: Session) -> None:
    """An acceptance needs no copy of the request; its event tells the request the server kept."""
    refused(s, changed(accept, accepted_request=None), respond)


@scenario
def acceptance_with_other_names(s: Session) -> None:
    """What an acceptance says about message, event and request is not compared with what was sent."""
    other = update.Request(meta={"update_id": "u"}, input={"name": "something else"})
    odd = {"accepted_request_message_id": "odd", "accepted_request_sequencing_event_id": 77, "accepted_request": other}
    refused(s, changed(accept, **odd), respond)


@scenario
def response_without_meta(s: Session) -> None:
    """A response must have its meta."""
    refused(s, accept, changed(respond, meta=None))


@scenario
def response_without_update_id(s: Session) -> None:
    """A response's meta must name the update."""
    refused(s, accept, changed(respond, meta={"identity": "worker"}))


@scenario
def response_with_other_update_id(s: Session) -> None:
    """A response's meta must name the same update as the message."""
    refused(s, accept, changed(respond, meta={"update_id": "other"}))


@scenario
def response_without_outcome(s: Session) -> None:
    """A response must have an outcome."""
    refused(s, accept, lambda m: packed(f"{m.id}/complete", "u", update.Response(meta={"update_id": "u"})))


@scenario
def response_with_empty_outcome(s: Session) -> None:
    """An outcome that is neither success nor failure."""
    refused(s, accept, changed(respond, outcome=update.Outcome()))


@scenario
def rejection_without_failure(s: Session) -> None:
    """A rejection that says nothing."""
    refused(s, lambda m: packed(f"{m.id}/reject", "u", update.Rejection()))


@scenario
def other_message_type(s: Session) -> None:
    """A body of the update protocol that no worker sends."""
    refused(s, with_body(update.Request(meta={"update_id": "u"}, input={"name": "up"})))


@scenario
def unsupported_message_type(s: Session) -> None:
    """A body of the update protocol's package that is no message of it."""
    refused(s, with_body(update.Meta(update_id="u")))


@scenario
def other_protocol(s: Session) -> None:
    """A body of a protocol that the server does not speak."""
    refused(s, with_body(common.WorkflowType(name="wt")))


@scenario
def undecodable_body(s: Session) -> None:
    """A body that is not what its type says."""
    url = "type.googleapis.com/temporal.api.update.v1.Acceptance"
    refused(s, lambda m: {**accept(m), "body": {"type_url": url, "value": b"\xff\xff"}})


@scenario
def no_body(s: Session) -> None:
    """A message without a body, or with one of no known form: the call fails, not the task."""
    bodies = [{}, {"body": {"type_url": "nonsense"}}, {"body": {"type_url": "type.googleapis.com/Odd"}}]
    for n, body in enumerate(bodies):
        wf = f"wf-{n}"
        s.start(wf, queue=wf)
        begun = s.admit(wf=wf, deadline=3)
        s.complete(s.poll(wf), messages=[{"id": "m", "protocol_instance_id": "u", **body}])
        s.join(begun)


@scenario
def unknown_after_the_first_attempt(s: Session) -> None:
    """A wrong answer on a later attempt writes nothing; the task stays and times out."""
    s.begun(workflow_task_timeout=seconds(1))
    s.signal()
    s.fail_task(s.poll())
    begun = s.admit()
    task = s.poll()
    answer(s, task, respond(task.messages[0]))
    s.join(begun)
    s.wait_describe(lambda d: d.pending_workflow_task.attempt == 3)
    s.history()
    s.complete(s.poll(), complete())
    s.history()


@scenario
def waiting_update_survives(s: Session) -> None:
    """A wrong answer fails the update that was sent; one that was not sent yet comes with the next task."""
    s.begun()
    first = s.admit("one")
    task = s.poll()
    second = s.admit("two")
    answer(s, task, respond(task.messages[0]))
    s.join(first)
    s.wait_update("two")
    accept_all(s, s.poll())
    s.join(second)
    s.history()


@scenario
def on_first_task(s: Session) -> None:
    """A wrong answer on the first task."""
    s.start()
    begun = s.admit()
    task = s.poll()
    answer(s, task, respond(task.messages[0]))
    s.join(begun)
    s.history()
    s.poll()


@scenario
def after_acceptance_was_stored(s: Session) -> None:
    """A later task may neither accept nor reject an accepted update; the update itself goes on."""
    s.begun()
    begun = s.admit(stage="ACCEPTED")
    task = s.poll()
    message = task.messages[0]
    answer(s, task, accept(message))
    s.join(begun)
    s.signal()
    answer(s, s.poll(), accept(message))
    s.history()
    s.poll_update()
    answer(s, s.poll(), respond(message))
    s.poll_update()


@scenario
def after_completion_was_stored(s: Session) -> None:
    """A later task may not complete a completed update again."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    accept_all(s, task)
    s.join(begun)
    s.signal()
    answer(s, s.poll(), respond(message))
    s.history()
    s.poll_update()
