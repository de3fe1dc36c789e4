"""Answers to activities: by id, repeated, late, malformed."""

from __future__ import annotations

from ..build import command, failure, payloads, retry
from ..harness import Session
from . import scenario

ONCE = {"maximum_attempts": 1}


@scenario
def by_id_complete(s: Session) -> None:
    """Completion by id, of a started activity."""
    run = s.begun(s.activity())
    s.poll_activity()
    s.by_id("RespondActivityTaskCompletedById", run=run, result=payloads("out"))
    s.by_id("RespondActivityTaskCompletedById", run=run)
    s.history()


@scenario
def by_id_fail(s: Session) -> None:
    """Failure by id."""
    s.begun(s.activity(retry_policy=ONCE))
    s.poll_activity()
    s.by_id("RespondActivityTaskFailedById", failure=failure("x"))
    s.history()


@scenario
def by_id_unstarted(s: Session) -> None:
    """Completion by id, before any worker picked it up."""
    s.begun(s.activity())
    s.by_id("RespondActivityTaskCompletedById", result=payloads("out"))
    s.history()


@scenario
def by_id_heartbeat_and_cancel(s: Session) -> None:
    """Heartbeat and cancel by id."""
    s.begun(s.activity())
    s.poll_activity()
    s.by_id("RecordActivityTaskHeartbeatById", details=payloads(1))
    s.signal()
    s.run_task(command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.by_id("RecordActivityTaskHeartbeatById", details=payloads(2))
    s.by_id("RespondActivityTaskCanceledById", details=payloads("c"))
    s.history()


@scenario
def by_id_unknown(s: Session) -> None:
    """By-id calls on unknown activities and workflows, and without ids."""
    s.begun()
    for rpc in (
        "RespondActivityTaskCompletedById",
        "RespondActivityTaskFailedById",
        "RespondActivityTaskCanceledById",
        "RecordActivityTaskHeartbeatById",
    ):
        s.by_id(rpc, activity_id="nope")
        s.by_id(rpc, wf="nowhere")
        s.by_id(rpc, activity_id="")
        s.by_id(rpc, workflow_id="")


@scenario
def repeated_answers(s: Session) -> None:
    """Any second answer to an activity is refused."""
    s.begun(s.activity())
    task = s.poll_activity()
    s.complete_activity(task)
    s.complete_activity(task)
    s.fail_activity(task, failure())
    s.heartbeat(task)
    s.call("RespondActivityTaskCanceled", task_token=task.task_token, identity="worker")


@scenario
def answer_of_old_attempt(s: Session) -> None:
    """An answer with the token of an earlier attempt is refused."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    first = s.poll_activity()
    s.fail_activity(first, failure("x"))
    s.poll_activity()
    s.complete_activity(first)
    s.heartbeat(first)


@scenario
def answer_after_close(s: Session) -> None:
    """Answers after the workflow closed."""
    s.begun(s.activity())
    task = s.poll_activity()
    s.terminate()
    s.heartbeat(task)
    s.complete_activity(task)
    s.fail_activity(task, failure())
    s.by_id("RespondActivityTaskCompletedById")


@scenario
def bad_token(s: Session) -> None:
    """Missing and malformed activity task tokens."""
    for token in (b"", b"nonsense"):
        s.call("RespondActivityTaskCompleted", task_token=token)
        s.call("RespondActivityTaskFailed", task_token=token)
        s.call("RespondActivityTaskCanceled", task_token=token)
        s.call("RecordActivityTaskHeartbeat", task_token=token)


@scenario
def failure_kinds(s: Session) -> None:
    """A worker's failure report must be an application failure (or none)."""
    s.begun(s.activity(retry_policy=ONCE))
    task = s.poll_activity()
    s.fail_activity(task, {"message": "odd", "timeout_failure_info": {"timeout_type": "TIMEOUT_TYPE_HEARTBEAT"}})
    s.fail_activity(task, {"message": "server", "server_failure_info": {"non_retryable": True}})
    s.fail_activity(task, {"message": "bare"})
    s.history()
