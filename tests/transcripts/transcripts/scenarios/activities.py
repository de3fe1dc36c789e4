"""Activities: outcomes, retries, time-outs, heartbeats."""

from __future__ import annotations

from ..build import complete, failure, fields, payload, payloads, retry, seconds
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
    """No worker picks it up: not retried."""
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


@scenario
def eager_time_outs_tie(s: Session) -> None:
    """Schedule-to-close and start-to-close of an eager activity, which starts when it is scheduled, run out together."""
    s.begun(s.activity(request_eager_execution=True, schedule_to_close_timeout=seconds(1), start_to_close_timeout=None))
    s.wait_event("activity_task_timed_out")
    s.history()


@scenario
def eager_heartbeat_ties(s: Session) -> None:
    """Schedule-to-close and heartbeat time-out of an eager activity run out together."""
    options = {"schedule_to_close_timeout": seconds(1), "heartbeat_timeout": seconds(1)}
    s.begun(s.activity(request_eager_execution=True, **options))
    s.wait_event("activity_task_timed_out")
    s.history()


@scenario
def eager_start_and_heartbeat_tie(s: Session) -> None:
    """Start-to-close and heartbeat time-out run out together."""
    options = {"start_to_close_timeout": seconds(1), "heartbeat_timeout": seconds(1)}
    s.begun(s.activity(request_eager_execution=True, retry_policy=retry(1, maximum_attempts=1), **options))
    s.wait_event("activity_task_timed_out")
    s.history()


@scenario
def unstarted_time_outs_tie(s: Session) -> None:
    """Schedule-to-start and schedule-to-close run out together."""
    options = {"schedule_to_close_timeout": seconds(1), "schedule_to_start_timeout": seconds(1)}
    s.begun(s.activity(**options))
    s.wait_event("activity_task_timed_out")
    s.history()


@scenario
def large_failure_retried(s: Session) -> None:
    """A failure of more than 4 KB is kept in short while the activity is tried again."""
    s.begun(s.activity(retry_policy=retry(1, maximum_attempts=2)))
    large = failure("m" * 5000, details=payloads("d" * 5000), category="APPLICATION_ERROR_CATEGORY_BENIGN")
    s.fail_activity(s.poll_activity(), {**large, "stack_trace": "t" * 5000, "cause": failure("c" * 5000)})
    s.describe()
    s.complete_activity(s.poll_activity(), "late")
    s.history()


@scenario
def large_failure_shapes(s: Session) -> None:
    """What becomes of failures of more than 4 KB: where the bytes are, and whether they may be retried."""
    shapes = [
        failure("m" * 5000),
        {**failure("short"), "stack_trace": "t" * 5000},
        failure("short", details=payloads("d" * 5000)),
        {**failure("short"), "cause": failure("c" * 5000)},
        {"message": "m" * 5000, "source": "s" * 500, "timeout_failure_info": {"timeout_type": "TIMEOUT_TYPE_HEARTBEAT"}},
        {**failure("short"), "encoded_attributes": payload("e" * 5000)},
        failure("m" * 4000),
        failure("m" * 4096),
    ]
    s.begun(*(s.activity(f"a{n}", retry_policy=retry(60)) for n in range(len(shapes))))
    tasks = [s.silent("PollActivityTaskQueue", task_queue=s.queue(), identity="worker") for _ in shapes]
    for task, shape in zip(sorted(tasks, key=lambda task: task.activity_id), shapes, strict=True):
        s.fail_activity(task, shape)
    s.describe()


@scenario
def large_failure_is_last(s: Session) -> None:
    """A failure of more than 4 KB that ends the activity is kept whole; so is that of an attempt that timed out later."""
    s.begun(s.activity(retry_policy=retry(1, maximum_attempts=1)))
    s.fail_activity(s.poll_activity(), failure("m" * 5000))
    s.history()


@scenario
def identity_of_heartbeat(s: Session) -> None:
    """Who polled without an identity is shown by the identity of its heartbeats, until the attempt is over."""
    s.begun(s.activity(retry_policy=retry(60), heartbeat_timeout=seconds(30)))
    task = s.call("PollActivityTaskQueue", task_queue=s.queue())
    s.describe()
    s.heartbeat(task, 1)
    s.describe()
    s.call("RecordActivityTaskHeartbeat", task_token=task.task_token)
    s.describe()
    s.fail_activity(task, failure("once more"))
    s.describe()


@scenario
def identity_of_other_heartbeat(s: Session) -> None:
    """Who polled with an identity is shown by it, regardless of who sends heartbeats or reports the failure."""
    s.begun(s.activity(retry_policy=retry(60), heartbeat_timeout=seconds(30)))
    task = s.poll_activity()
    s.call("RecordActivityTaskHeartbeat", task_token=task.task_token, identity="somebody else")
    s.describe()
    s.fail_activity(task, failure("once more"), identity="a third", last_heartbeat_details=payloads(2))
    s.describe()


@scenario
def identity_of_failure(s: Session) -> None:
    """Details that come with a failure count as a heartbeat of the worker that reports it."""
    s.begun(s.activity(retry_policy=retry(60)))
    task = s.call("PollActivityTaskQueue", task_queue=s.queue())
    s.fail_activity(task, failure("once more"), last_heartbeat_details=payloads(2))
    s.describe()
