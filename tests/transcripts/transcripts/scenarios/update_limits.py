"""Limits on updates: how many, how large."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from temporalio.api.update.v1 import message_pb2 as update

from ..build import Fields, big, complete
from ..harness import NAMESPACE, Session
from ..messages import accept, accept_all, answer, packed, reject, respond
from . import scenario
from .sticky import sticky_attributes

# The real server is set to as many as Segno allows.
MOST_IN_FLIGHT = 100
MOST_IN_TOTAL = 2000
SUGGESTED_FROM = 1800


def large(megabytes: float, update_id: str = "u") -> Fields:
    """An update request with large arguments."""
    return {"request": {"meta": {"update_id": update_id}, "input": {"name": "up", "args": big(megabytes)}}}


def revived(update_id: str) -> list[Fields]:
    """Accepts and completes an update that the server has not seen before."""
    asked = update.Request(meta={"update_id": update_id}, input={"name": "up"})
    accepting = update.Acceptance(
        accepted_request_message_id=f"{update_id}/request",
        accepted_request_sequencing_event_id=2,
        accepted_request=asked,
    )
    responding = update.Response(meta=asked.meta, outcome={"success": {}})
    return [packed(f"{update_id}/a", update_id, accepting), packed(f"{update_id}/c", update_id, responding)]


def begun_with_updates(s: Session, count: int) -> Any:
    """Starts `wf` with so many completed updates, unrecorded, and returns its next task, which has few events."""
    s.start()
    task = s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker")
    messages = [m for n in range(count) for m in revived(f"u{n}")]
    s.silent("RespondWorkflowTaskCompleted", task_token=task.task_token, identity="worker", messages=messages)
    s.silent("SignalWorkflowExecution", workflow_execution=s.execution(), signal_name="sig")
    task = s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker")
    more = {"force_create_new_workflow_task": True, "return_new_workflow_task": True}
    return s.complete(task, sticky_attributes=sticky_attributes(s), **more).workflow_task


@scenario
def in_total(s: Session) -> None:
    """At most 2000 updates in a run: the next is refused, known ids still answer, none can be brought back."""
    task = begun_with_updates(s, MOST_IN_TOTAL)
    s.update("one-more")
    s.update("u7")
    answers = revived("lost")
    s.complete(task, messages=answers)


@scenario
def almost_in_total(s: Session) -> None:
    """The last of 2000 updates is welcome; a rejected one does not count."""
    task = begun_with_updates(s, MOST_IN_TOTAL - 1)
    begun = s.admit("rejected")
    more = s.complete(task, return_new_workflow_task=True).workflow_task
    answer(s, more, reject(more.messages[0]))
    s.join(begun)
    begun = s.admit("last")
    task = s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker")
    accept_all(s, task)
    s.join(begun)
    s.update("one-more")


@scenario
def suggests_continue_as_new(s: Session) -> None:
    """Continue-as-new suggestion: from nine tenths of the total on, tasks say so; one update before, not."""
    task = begun_with_updates(s, SUGGESTED_FROM - 1)
    begun = s.admit("one-more")
    more = s.complete(task, return_new_workflow_task=True).workflow_task
    accept_all(s, more)
    s.join(begun)
    begun = s.admit("another")
    task = s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker")
    s.call("DescribeWorkflowExecution", execution=s.execution())
    more = {"force_create_new_workflow_task": True, "return_new_workflow_task": True}
    accept_all(s, task, **more)
    s.join(begun)


@scenario
def arguments_too_large(s: Session) -> None:
    """Arguments over 2 MiB are delivered; the acceptance that repeats them terminates the workflow."""
    s.begun()
    begun = s.admit(**large(2.1))
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def arguments_large_but_not_repeated(s: Session) -> None:
    """Arguments over 2 MiB whose acceptance does not repeat them."""
    s.begun()
    begun = s.admit(**large(2.1))
    task = s.poll()
    answer(s, task, accept(task.messages[0], accepted_request=None), respond(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def result_too_large(s: Session) -> None:
    """A result over 2 MiB terminates the workflow."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    answer(s, task, accept(message), respond(message, {"success": big(2.1)}))
    s.join(begun)
    s.history()
    s.describe()


@scenario
def result_large(s: Session) -> None:
    """A result a little below 2 MiB."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    answer(s, task, accept(message), respond(message, {"success": big(1.9)}), then=(complete(),))
    s.join(begun)


@scenario
def payloads_in_flight(s: Session) -> None:
    """At most 20 MiB of arguments in flight."""
    s.begun()
    begun = [s.admit(f"u{n}", deadline=4, **large(3.5, f"u{n}")) for n in range(5)]
    s.update(**large(3.5))
    for each in begun:
        s.join(each)


def begin_both(s: Session, update_id: str) -> Future:
    """Begins an update-with-start of the running workflow."""
    policy = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"}
    starting = {"start_workflow": {"namespace": NAMESPACE, **s.start_fields(**policy)}}
    updating = {"update_workflow": {"namespace": NAMESPACE, **s.update_fields(update_id)}}
    return s.begin("ExecuteMultiOperation", 10, operations=[starting, updating])


@scenario
def in_total_with_start(s: Session) -> None:
    """Update-with-start beyond the total: the start is aborted, the update has the limit's text."""
    begun_with_updates(s, MOST_IN_TOTAL)
    s.join(begin_both(s, "one-more"))


@scenario
def in_flight(s: Session) -> None:
    """At most so many updates in flight: the next is refused."""
    s.begun()
    for n in range(MOST_IN_FLIGHT):
        s.admit(f"u{n}", deadline=30)
    s.update("one-more")


@scenario
def in_flight_with_start(s: Session) -> None:
    """Update-with-start beyond what may be in flight: cause and scope of the limit are kept."""
    s.begun()
    for n in range(MOST_IN_FLIGHT):
        s.admit(f"u{n}", deadline=30)
    s.join(begin_both(s, "one-more"))
