"""Cancelling activities."""

from __future__ import annotations

from ..build import Fields, command, complete, failure, marker, payloads, retry, seconds, timer
from ..harness import Session
from . import scenario


def cancel(scheduled: int) -> Fields:
    """RequestCancelActivityTask."""
    return command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=scheduled)


@scenario
def cancel_started(s: Session) -> None:
    """A cancel request reaches the worker by heartbeat; the worker cancels."""
    s.begun(s.activity(heartbeat_timeout=seconds(5)))
    task = s.poll_activity()
    s.heartbeat(task, 1)
    s.signal()
    s.run_task(cancel(5))
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
    s.run_task(cancel(5))
    s.history()
    s.poll()


@scenario
def cancel_in_same_task(s: Session) -> None:
    """Scheduled and cancelled in one completion."""
    s.begun(s.activity(), cancel(5))
    s.history()


@scenario
def cancel_backing_off(s: Session) -> None:
    """A cancel request between attempts."""
    s.begun(s.activity(retry_policy=retry(60)))
    s.fail_activity(s.poll_activity(), failure("first"))
    s.signal()
    s.run_task(cancel(5))
    s.history()


@scenario
def cancel_asked_then_completed(s: Session) -> None:
    """The worker may complete in spite of a cancel request."""
    s.begun(s.activity())
    task = s.poll_activity()
    s.signal()
    s.run_task(cancel(5))
    s.complete_activity(task, "anyway")
    s.history()


@scenario
def cancel_asked_then_failed(s: Session) -> None:
    """A failure after a cancel request is not retried."""
    s.begun(s.activity(retry_policy=retry(1)))
    task = s.poll_activity()
    s.signal()
    s.run_task(cancel(5))
    s.fail_activity(task, failure("too late"))
    s.describe()
    s.history()


@scenario
def canceled_unasked(s: Session) -> None:
    """Reporting cancellation that was not asked for."""
    s.begun(s.activity())
    task = s.poll_activity()
    s.call("RespondActivityTaskCanceled", task_token=task.task_token, identity="worker")
    s.history()


@scenario
def cancel_among_commands(s: Session) -> None:
    """The canceled event follows all events of the commands, whose ids a worker predicts."""
    s.begun(s.activity("a"), cancel(5), s.activity("b"))
    s.history()
    s.run_task(cancel(7))
    s.history()


@scenario
def cancel_several_among_commands(s: Session) -> None:
    """Several canceled events, in the order of the requests, after everything else."""
    s.begun(s.activity("a"), s.activity("b"), cancel(6), timer("t", 60), cancel(5), marker("m"), s.activity("c"))
    s.history()


@scenario
def cancel_twice_in_same_task(s: Session) -> None:
    """A second request for an activity that is canceled already, but whose end the workflow has not seen."""
    s.begun(s.activity("a"), cancel(5), cancel(5), s.activity("b"))
    s.history()


@scenario
def cancel_and_schedule_again(s: Session) -> None:
    """The activity id is free again at once."""
    s.begun(s.activity("a"), cancel(5), s.activity("a"))
    s.history()
    s.poll_activity()


@scenario
def cancel_and_close(s: Session) -> None:
    """An activity canceled before its start, and the workflow completed, in one answer."""
    s.begun(s.activity("a"), cancel(5), complete("done"))
    s.history()


@scenario
def cancel_and_continue_as_new(s: Session) -> None:
    """An activity canceled before its start, and a next run."""
    again = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"}, task_queue=s.queue())
    run = s.begun(s.activity("a"), cancel(5), s.activity("b"), again)
    s.history(run=run)


@scenario
def cancel_with_new_task(s: Session) -> None:
    """The next workflow task comes with the reply and shows the canceled event."""
    s.start()
    task = s.poll()
    s.complete(task, s.activity("a"), cancel(5), s.activity("b"), return_new_workflow_task=True)
    s.history()


@scenario
def cancel_eager(s: Session) -> None:
    """An activity that the worker wants to run itself and cancels in the same answer."""
    s.start()
    s.complete(s.poll(), s.activity("a", request_eager_execution=True), cancel(5), s.activity("b"))
    s.history()


@scenario
def cancel_with_buffered(s: Session) -> None:
    """A signal that came while the worker was busy precedes the canceled event."""
    s.start()
    task = s.poll()
    s.signal()
    s.complete(task, s.activity("a"), cancel(5), s.activity("b"))
    s.history()
