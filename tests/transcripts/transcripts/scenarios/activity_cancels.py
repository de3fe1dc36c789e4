"""Cancelling activities."""

from __future__ import annotations

from ..build import command, failure, payloads, retry, seconds
from ..harness import Session
from . import scenario


@scenario
def cancel_started(s: Session) -> None:
    """A cancel request reaches the worker by heartbeat; the worker cancels."""
    s.begun(s.activity(heartbeat_timeout=seconds(5)))
    task = s.poll_activity()
    s.heartbeat(task, 1)
    s.signal()
    s.run_task(command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.heartbeat(task, 2)
    s.describe()
    s.call(
        "RespondActivityTaskCanceled", task_token=task.task_token, identity="worker", details=payloads("stopped")
    )
    s.history()
    s.poll()


@scenario
def cancel_unstarted(s: Session) -> None:
    """A cancel request before any worker started it cancels at once."""
    s.begun(s.activity())
    s.signal()
    s.run_task(command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.history()
    s.poll()


@scenario
def cancel_in_same_task(s: Session) -> None:
    """Scheduled and cancelled in one completion."""
    s.begun(s.activity(), command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.history()


@scenario
def cancel_backing_off(s: Session) -> None:
    """A cancel request between attempts."""
    s.begun(s.activity(retry_policy=retry(60)))
    s.fail_activity(s.poll_activity(), failure("first"))
    s.signal()
    s.run_task(command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.history()


@scenario
def cancel_asked_then_completed(s: Session) -> None:
    """The worker may complete in spite of a cancel request."""
    s.begun(s.activity())
    task = s.poll_activity()
    s.signal()
    s.run_task(command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.complete_activity(task, "anyway")
    s.history()


@scenario
def cancel_asked_then_failed(s: Session) -> None:
    """A failure after a cancel request is not retried."""
    s.begun(s.activity(retry_policy=retry(1)))
    task = s.poll_activity()
    s.signal()
    s.run_task(command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.fail_activity(task, failure("too late"))
    s.describe()
    s.history()


@scenario
def canceled_unasked(s: Session) -> None:
    """Reporting cancellation nobody asked for."""
    s.begun(s.activity())
    task = s.poll_activity()
    s.call("RespondActivityTaskCanceled", task_token=task.task_token, identity="worker")
    s.history()
