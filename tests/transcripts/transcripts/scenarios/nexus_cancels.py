"""Requests to cancel operations of Nexus."""

from __future__ import annotations

from typing import Any

from ..build import command, complete, failure, payloads, seconds
from ..harness import Session
from ..nexus import (
    accept_cancel,
    begin,
    begin_poll,
    called,
    cancel_operation,
    endpoint,
    fail,
    fail_operation,
    handler_failure,
    operation,
    poll,
    respond,
    start_handler,
    succeed,
    taken,
    wait_callbacks,
)
from . import scenario


def started(s: Session, **more: Any) -> Any:
    """An operation that goes on; returns the caller's next workflow task."""
    endpoint(s)
    begin(s, called(s, operation(s, **more)))
    return s.poll()


def cancel_sent(s: Session, **more: Any) -> Any:
    """The handler's task to cancel an operation that goes on."""
    task = started(s, **more)
    begun = begin_poll(s)
    s.complete(task, cancel_operation())
    return taken(s, begun)


def attempted(described: Any) -> bool:
    """Whether the handler has been asked to cancel at least once."""
    return described.pending_nexus_operations[0].cancellation_info.attempt > 0


@scenario
def accepted(s: Session) -> None:
    """The handler accepts; what its task has; the operation goes on."""
    task = cancel_sent(s, nexus_header={"own": "v"}, schedule_to_close_timeout=seconds(30))
    s.describe()
    accept_cancel(s, task)
    s.poll()
    s.describe()


@scenario
def ends_canceled(s: Session) -> None:
    """The handler's workflow is canceled and ends so."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    workflow_task = s.poll()
    begun = begin_poll(s)
    s.complete(workflow_task, cancel_operation())
    task = taken(s, begun)
    s.cancel("h")
    accept_cancel(s, task)
    s.run_task()
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION", details=payloads("d")), queue="hq")
    wait_callbacks(s)
    s.poll()


@scenario
def ends_otherwise(s: Session) -> None:
    """An operation may complete although its handler has accepted to cancel it."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    workflow_task = s.poll()
    begun = begin_poll(s)
    s.complete(workflow_task, cancel_operation())
    accept_cancel(s, taken(s, begun))
    s.run_task()
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.poll()


@scenario
def failed(s: Session) -> None:
    """The handler cannot, for good."""
    task = cancel_sent(s)
    fail(s, task, failure=handler_failure("NOT_FOUND", cause=failure("deep")))
    s.poll()
    s.describe()


@scenario
def failed_old(s: Session) -> None:
    """The same in the older form."""
    task = cancel_sent(s)
    fail(s, task, error={"error_type": "NOT_IMPLEMENTED", "failure": {"message": "no"}})
    s.poll()
    s.describe()


@scenario
def tried_again(s: Session) -> None:
    """The handler cannot for now, and is asked again."""
    task = cancel_sent(s)
    fail(s, task, failure=handler_failure("UNAVAILABLE"))
    s.wait_describe(attempted)
    s.describe()
    task = poll(s)
    s.describe()
    accept_cancel(s, task)
    s.poll()
    s.describe()


@scenario
def answered_as_start(s: Session) -> None:
    """The handler answers as if it had been asked to start the operation."""
    succeed(s, cancel_sent(s), "out")
    s.poll()
    s.describe()


@scenario
def answered_emptily(s: Session) -> None:
    """The handler answers nothing."""
    respond(s, cancel_sent(s), None)
    s.poll()
    s.describe()


@scenario
def answered_twice(s: Session) -> None:
    """A second answer."""
    task = cancel_sent(s)
    accept_cancel(s, task)
    accept_cancel(s, task)
    fail(s, task, failure=handler_failure())
    s.poll()


@scenario
def ended_meanwhile(s: Session) -> None:
    """The operation ends while the handler is asked; the request to cancel is dropped."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    workflow_task = s.poll()
    begun = begin_poll(s)
    s.complete(workflow_task, cancel_operation())
    task = taken(s, begun)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    accept_cancel(s, task)
    s.poll()


@scenario
def ended_while_backing_off(s: Session) -> None:
    """The operation ends before the handler is asked again."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    workflow_task = s.poll()
    begun = begin_poll(s)
    s.complete(workflow_task, cancel_operation())
    fail(s, taken(s, begun), failure=handler_failure())
    s.wait_describe(attempted)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.poll()
    s.describe()


@scenario
def before_start(s: Session) -> None:
    """Requested by a later workflow task before the handler has answered; sent when the operation goes on."""
    endpoint(s)
    task = called(s)
    s.signal()
    s.run_task(cancel_operation())
    s.describe()
    begun = begin_poll(s)
    begin(s, task)
    task = taken(s, begun)
    s.describe()
    accept_cancel(s, task)
    s.poll()


@scenario
def before_start_in_same_task(s: Session) -> None:
    """Scheduled and canceled by one workflow task."""
    endpoint(s)
    task = called(s, operation(s), cancel_operation())
    s.describe()
    begun = begin_poll(s)
    begin(s, task)
    accept_cancel(s, taken(s, begun))
    s.poll()


@scenario
def before_result(s: Session) -> None:
    """Requested before the handler has answered: a result wins."""
    endpoint(s)
    task = called(s, operation(s), cancel_operation())
    succeed(s, task, "out")
    s.poll()
    s.describe()


@scenario
def before_failure(s: Session) -> None:
    """Requested before the handler has answered that the operation is canceled."""
    endpoint(s)
    task = called(s, operation(s), cancel_operation())
    fail_operation(s, task, failure={"message": "stop", "canceled_failure_info": {}})
    s.poll()


@scenario
def before_next_attempt(s: Session) -> None:
    """Requested while the start is to be tried again, which goes on."""
    endpoint(s)
    fail(s, called(s), failure=handler_failure())
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt)
    s.signal()
    s.run_task(cancel_operation())
    s.describe()
    task = poll(s)
    begun = begin_poll(s)
    begin(s, task)
    accept_cancel(s, taken(s, begun))
    s.poll()


@scenario
def requested_twice(s: Session) -> None:
    """A second request."""
    task = started(s)
    begun = begin_poll(s)
    s.complete(task, cancel_operation())
    accept_cancel(s, taken(s, begun))
    s.run_task(cancel_operation())
    s.history()


@scenario
def requested_twice_at_once(s: Session) -> None:
    """Two requests of one workflow task."""
    task = started(s)
    s.complete(task, cancel_operation(), cancel_operation())
    s.history()
    s.describe()


@scenario
def requested_again_after_failure(s: Session) -> None:
    """A second request after the first has failed."""
    fail(s, cancel_sent(s), failure=handler_failure("NOT_FOUND"))
    s.run_task(cancel_operation())
    s.history()


@scenario
def unknown(s: Session) -> None:
    """No such operation."""
    for number in (0, 5, 1, -1):
        s.start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING")
        s.run_task(cancel_operation(number))
    s.history()


@scenario
def after_end(s: Session) -> None:
    """The operation has ended, and the workflow knows it."""
    endpoint(s)
    succeed(s, called(s))
    s.run_task(cancel_operation())
    s.history()


@scenario
def just_ended(s: Session) -> None:
    """The operation has ended while the workflow task was under way: accepted, and without effect."""
    endpoint(s)
    handler = called(s)
    s.signal()
    task = s.poll()
    succeed(s, handler, "out")
    s.complete(task, cancel_operation())
    s.poll()
    s.describe()


@scenario
def just_ended_twice(s: Session) -> None:
    """Two requests to cancel an operation that has just ended."""
    endpoint(s)
    handler = called(s)
    s.signal()
    task = s.poll()
    succeed(s, handler, "out")
    s.complete(task, cancel_operation(), cancel_operation())
    s.history()


@scenario
def closes_with_request(s: Session) -> None:
    """A workflow that asks to cancel and closes."""
    task = started(s)
    s.complete(task, cancel_operation(), complete())
    s.history()
    s.describe()
