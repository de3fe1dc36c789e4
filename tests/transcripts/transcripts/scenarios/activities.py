"""Activities: outcomes, retries, time-outs, heartbeats."""

from __future__ import annotations

from ..build import complete, failure, fields, payloads, retry, seconds
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
