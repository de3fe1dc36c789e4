"""Activities: outcomes, retries, time-outs, heartbeats, cancellation, answers by id."""

from __future__ import annotations

from ..build import command, complete, failure, fields, payloads, retry, seconds
from ..harness import Session
from . import scenario

ONCE = {"maximum_attempts": 1}


@scenario
def completed(s: Session) -> None:
    """Schedule, start, complete; what the worker sees; the history after."""
    s.begun(s.activity(input=payloads("in"), header=fields(h=1), heartbeat_timeout=seconds(5)))
    s.history()
    s.describe()
    task = s.poll_activity()
    s.history()
    s.describe()
    s.complete_activity(task, "out")
    s.history()
    s.run_task(complete())
    s.history()


@scenario
def defaults(s: Session) -> None:
    """Time-outs that were left out get defaults from each other and the run timeout."""
    s.start(workflow_run_timeout=seconds(30))
    s.run_task(
        s.activity("a1", start_to_close_timeout=seconds(50)),
        s.activity("a2", start_to_close_timeout=None, schedule_to_close_timeout=seconds(9)),
        s.activity("a3", start_to_close_timeout=seconds(5), schedule_to_close_timeout=seconds(3)),
        s.activity("a4", schedule_to_start_timeout=seconds(70), heartbeat_timeout=seconds(80)),
        s.activity("a5", retry_policy=retry(3)),
    )
    s.history()


@scenario
def failed_no_retry(s: Session) -> None:
    """Failure with a single attempt."""
    s.begun(s.activity(retry_policy=ONCE))
    s.fail_activity(s.poll_activity(), failure("no luck"))
    s.history()
    s.poll()


@scenario
def failed_non_retryable(s: Session) -> None:
    """A failure marked non-retryable is not retried."""
    s.begun(s.activity())
    s.fail_activity(s.poll_activity(), failure("fatal", non_retryable=True))
    s.history()


@scenario
def failed_non_retryable_type(s: Session) -> None:
    """A failure type listed in the policy is not retried."""
    s.begun(s.activity(retry_policy=retry(1, non_retryable_error_types=["Fatal"])))
    s.fail_activity(s.poll_activity(), failure("fatal", "Fatal"))
    s.history()


@scenario
def retried(s: Session) -> None:
    """A retried activity: no event before the end, description while backing off, attempt 2."""
    s.begun(s.activity(retry_policy=retry(1)))
    s.fail_activity(s.poll_activity(), failure("first"))
    s.history()
    s.describe()
    task = s.poll_activity()
    s.describe()
    s.complete_activity(task, "ok")
    s.history()
    s.poll()


@scenario
def next_retry_delay(s: Session) -> None:
    """The failure's next_retry_delay replaces the policy's interval."""
    s.begun(s.activity(retry_policy=retry(60)))
    s.fail_activity(s.poll_activity(), failure("soon", next_retry_delay=seconds(0.5)))
    s.describe()
    s.complete_activity(s.poll_activity())
    s.history()


@scenario
def max_attempts(s: Session) -> None:
    """The last attempt's failure ends the activity."""
    s.begun(s.activity(retry_policy=retry(0.1, maximum_attempts=2)))
    s.fail_activity(s.poll_activity(), failure("first"))
    s.fail_activity(s.poll_activity(), failure("second"))
    s.history()


@scenario
def retry_beyond_schedule_to_close(s: Session) -> None:
    """A retry that would come after the schedule-to-close timeout is not made."""
    s.begun(s.activity(schedule_to_close_timeout=seconds(5), retry_policy=retry(20)))
    s.fail_activity(s.poll_activity(), failure("first"))
    s.history()


@scenario
def failed_without_failure(s: Session) -> None:
    """A failure report without failure."""
    s.begun(s.activity(retry_policy=ONCE))
    s.call("RespondActivityTaskFailed", task_token=s.poll_activity().task_token, identity="worker")
    s.history()


@scenario
def failed_with_heartbeat(s: Session) -> None:
    """A failure report may carry last heartbeat details, seen by attempt 2."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    s.fail_activity(s.poll_activity(), failure("first"), last_heartbeat_details=payloads("progress"))
    s.poll_activity()
    s.describe()


@scenario
def schedule_to_start_timeout(s: Session) -> None:
    """Nobody picks it up: not retried."""
    s.begun(s.activity(schedule_to_start_timeout=seconds(1)))
    s.poll()
    s.history()


@scenario
def start_to_close_timeout(s: Session) -> None:
    """Start-to-close with a single attempt."""
    s.begun(s.activity(start_to_close_timeout=seconds(1), retry_policy=ONCE))
    s.poll_activity()
    s.poll()
    s.history()


@scenario
def start_to_close_retried(s: Session) -> None:
    """Start-to-close is retried; the description shows the last failure."""
    s.begun(s.activity(start_to_close_timeout=seconds(1), retry_policy=retry(0.1)))
    s.poll_activity()
    task = s.poll_activity()
    s.describe()
    s.complete_activity(task)
    s.history()


@scenario
def schedule_to_close_timeout(s: Session) -> None:
    """Schedule-to-close never started."""
    s.begun(s.activity(start_to_close_timeout=None, schedule_to_close_timeout=seconds(1)))
    s.poll()
    s.history()


@scenario
def schedule_to_close_while_retrying(s: Session) -> None:
    """Schedule-to-close while started after a failed attempt."""
    s.begun(s.activity(schedule_to_close_timeout=seconds(2), retry_policy=retry(0.2)))
    s.fail_activity(s.poll_activity(), failure("first"))
    s.poll_activity()
    s.poll()
    s.history()


@scenario
def heartbeat_timeout(s: Session) -> None:
    """Heartbeat timeout with a single attempt keeps the last details."""
    s.begun(s.activity(heartbeat_timeout=seconds(1), retry_policy=ONCE))
    task = s.poll_activity()
    s.heartbeat(task, "half")
    s.describe()
    s.poll()
    s.history()


@scenario
def heartbeat_details_kept(s: Session) -> None:
    """The next attempt receives the last heartbeat details."""
    s.begun(s.activity(heartbeat_timeout=seconds(1), retry_policy=retry(0.1)))
    s.heartbeat(s.poll_activity(), "half", 2)
    task = s.poll_activity()
    s.heartbeat(task)
    s.describe()


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


@scenario
def eager(s: Session) -> None:
    """request_eager_execution hands the activity task over in the completion's response."""
    s.start()
    answer = s.complete(s.poll(), s.activity(request_eager_execution=True))
    s.history()
    s.complete_activity(answer.activity_tasks[0], "quick")
    s.history()


@scenario
def eager_other_queue(s: Session) -> None:
    """An eager request for another task queue."""
    s.start()
    s.complete(s.poll(), s.activity(request_eager_execution=True, task_queue={"name": s.name("other")}))
    s.history()


@scenario
def other_queue(s: Session) -> None:
    """An activity on its own task queue, with priority."""
    s.begun(s.activity(task_queue={"name": s.name("other")}, priority={"priority_key": 1}))
    s.complete_activity(s.poll_activity("other"))
    s.history()


@scenario
def id_reused(s: Session) -> None:
    """An activity id is free again after its activity closed."""
    s.begun(s.activity())
    s.complete_activity(s.poll_activity(), 1)
    s.run_task(s.activity())
    s.complete_activity(s.poll_activity(), 2)
    s.history()


@scenario
def close_with_open_activity(s: Session) -> None:
    """A workflow may complete while an activity is open; the activity is forgotten."""
    s.begun(s.activity(), complete())
    s.history()
    s.describe()
    s.poll_activity(deadline=3, may_be_empty=True)
