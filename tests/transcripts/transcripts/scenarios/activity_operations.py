"""Pausing, resuming and resetting activities of a workflow, and changing their options."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, command, complete, failure, payloads, retry, seconds
from ..harness import Session
from . import scenario

NOBODY = "11111111-2222-4333-8444-555555555555"


def operate(s: Session, rpc: str, wf: str = "wf", **more: Any) -> Any:
    """One of the four calls; for the activity `a` unless another is named."""
    if not {"id", "type", "unpause_all", "match_all"} & more.keys():
        more["id"] = "a"
    return s.call(rpc, execution=s.execution(wf), identity="operator", **more)


def pause(s: Session, **more: Any) -> None:
    """PauseActivity with a reason."""
    operate(s, "PauseActivity", reason="look at it", **more)


def unpause(s: Session, **more: Any) -> None:
    """UnpauseActivity."""
    operate(s, "UnpauseActivity", **more)


def reset(s: Session, **more: Any) -> None:
    """ResetActivity."""
    operate(s, "ResetActivity", **more)


def update(s: Session, *paths: str, **more: Any) -> None:
    """UpdateActivityOptions with a mask of these paths."""
    mask = {"update_mask": {"paths": list(paths)}} if paths else {}
    operate(s, "UpdateActivityOptions", **{**mask, **more})


def nothing_comes(s: Session, queue: str = "q") -> None:
    """No worker is handed an activity for a while."""
    s.poll_activity(queue, deadline=3, may_be_empty=True)


# -- pausing ------------------------------------------------------------------------------


@scenario
def pause_scheduled(s: Session) -> None:
    """Paused before a worker took it: no worker gets it until it is resumed."""
    s.begun(s.activity())
    pause(s)
    s.describe()
    nothing_comes(s)
    unpause(s)
    s.describe()
    task = s.poll_activity()
    s.describe()
    s.complete_activity(task, "out")
    s.history()
    s.describe()


@scenario
def pause_started(s: Session) -> None:
    """Paused while a worker has it: the worker hears of it by heartbeat, and that it is over."""
    s.begun(s.activity(heartbeat_timeout=seconds(8)))
    task = s.poll_activity()
    pause(s)
    s.describe()
    s.heartbeat(task, 1)
    s.by_id("RecordActivityTaskHeartbeatById", details=payloads(2))
    s.describe()
    unpause(s)
    s.heartbeat(task, 3)
    s.describe()
    s.complete_activity(task)
    s.history()


@scenario
def pause_then_completed(s: Session) -> None:
    """The attempt that runs may succeed; what the run's search attributes say afterwards."""
    s.begun(s.activity())
    task = s.poll_activity()
    pause(s)
    s.complete_activity(task, "out")
    s.describe()
    s.run_task(complete())
    s.history()
    s.describe()


@scenario
def pause_then_failed(s: Session) -> None:
    """The attempt that runs fails: the next one waits for the activity to be resumed."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    task = s.poll_activity()
    pause(s)
    s.fail_activity(task, failure("first"), last_heartbeat_details=payloads("progress"))
    s.describe()
    nothing_comes(s)
    unpause(s)
    s.describe()
    task = s.poll_activity()
    s.describe()
    s.complete_activity(task)
    s.history()


@scenario
def pause_then_last_attempt_failed(s: Session) -> None:
    """A failure of the last attempt while paused does not end the activity."""
    s.begun(s.activity(retry_policy={"maximum_attempts": 1}))
    task = s.poll_activity()
    pause(s)
    s.fail_activity(task, failure("first"))
    s.describe()
    unpause(s)
    task = s.poll_activity()
    s.fail_activity(task, failure("second"))
    s.history()


@scenario
def pause_then_failed_for_good(s: Session) -> None:
    """A failure that is not to be retried ends a paused activity."""
    s.begun(s.activity())
    task = s.poll_activity()
    pause(s)
    s.fail_activity(task, failure("fatal", non_retryable=True))
    s.history()
    s.describe()


@scenario
def pause_backing_off(s: Session) -> None:
    """Paused between attempts: the back-off is forgotten, resuming starts the next attempt at once."""
    s.begun(s.activity(retry_policy=retry(30)))
    s.fail_activity(s.poll_activity(), failure("first"))
    pause(s)
    s.describe()
    unpause(s)
    s.describe()
    task = s.poll_activity()
    s.complete_activity(task)
    s.history()


@scenario
def pause_outlasts_back_off(s: Session) -> None:
    """The end of the back-off passes while paused: nothing is handed out."""
    s.begun(s.activity(retry_policy=retry(0.5)))
    s.fail_activity(s.poll_activity(), failure("first"))
    pause(s)
    nothing_comes(s)
    s.describe()
    unpause(s)
    s.poll_activity()


@scenario
def pause_by_type(s: Session) -> None:
    """All activities of a type are paused; all activities are resumed; the run's search attribute."""
    other = {"name": "other"}
    s.begun(s.activity("a"), s.activity("b"), s.activity("c", activity_type=other))
    pause(s, type="act")
    s.describe()
    s.poll_activity()
    nothing_comes(s)
    unpause(s, id="b")
    s.describe()
    unpause(s, unpause_all=True)
    s.describe()


@scenario
def pause_resume_by_type(s: Session) -> None:
    """All activities of a type are resumed."""
    s.begun(s.activity("a"), s.activity("c", activity_type={"name": "other"}))
    pause(s, id="a")
    pause(s, id="c")
    unpause(s, type="other")
    s.describe()
    s.poll_activity()


@scenario
def pause_twice(s: Session) -> None:
    """Paused again: the same request is answered as before, another one is refused."""
    s.begun(s.activity())
    pause(s, request_id="r1")
    s.describe()
    operate(s, "PauseActivity", request_id="r1", reason="other words")
    pause(s, request_id="r2")
    pause(s)
    s.describe()
    unpause(s)
    unpause(s)
    pause(s)
    pause(s)
    s.describe()


@scenario
def pause_errors(s: Session) -> None:
    """PauseActivity: what is refused."""
    s.call("PauseActivity", id="a")
    s.call("PauseActivity", execution=s.execution())
    s.call("PauseActivity", execution={"run_id": NOBODY}, id="a")
    s.call("PauseActivity", execution=s.execution(run="bad"), id="a")
    s.call("PauseActivity", execution=s.execution(run=NOBODY), id="a")
    s.call("PauseActivity", namespace="", execution=s.execution(), id="a")
    s.call("PauseActivity", namespace="no-such-namespace", execution=s.execution(), id="a")
    pause(s)
    s.begun(s.activity())
    pause(s, id="")
    pause(s, id="b")
    pause(s, type="")
    pause(s, type="other")
    s.call("PauseActivity", execution=s.execution(run="bad"), id="a")
    s.call("PauseActivity", execution=s.execution(run=NOBODY), id="a")
    pause(s, id="a", request_id="x" * 1100)
    s.terminate()
    pause(s, id="a")
    pause(s, id="b")
    pause(s, type="act")
    pause(s, type="other")


# -- time-outs while paused ---------------------------------------------------------------


@scenario
def time_outs_not_started(s: Session) -> None:
    """Schedule-to-start does not run out while paused, and begins anew."""
    s.begun(s.activity(schedule_to_start_timeout=seconds(1)))
    pause(s)
    time.sleep(2)
    s.describe()
    unpause(s)
    time.sleep(0.5)
    s.poll_activity()
    s.history()


@scenario
def time_outs_not_started_after(s: Session) -> None:
    """Schedule-to-start runs out after the activity was resumed."""
    s.begun(s.activity(schedule_to_start_timeout=seconds(1)))
    pause(s)
    unpause(s)
    s.poll()
    s.history()


@scenario
def time_outs_schedule_to_close(s: Session) -> None:
    """Schedule-to-close passes while paused: it counts once the activity is resumed."""
    s.begun(s.activity(schedule_to_close_timeout=seconds(1)))
    pause(s)
    time.sleep(2)
    s.describe()
    unpause(s)
    s.poll()
    s.history()


@scenario
def time_outs_start_to_close(s: Session) -> None:
    """Start-to-close passes while a worker has a paused activity."""
    s.begun(s.activity(start_to_close_timeout=seconds(1), retry_policy=retry(0.1)))
    task = s.poll_activity()
    pause(s)
    time.sleep(2)
    s.describe()
    s.heartbeat(task, 1)
    unpause(s)
    s.poll_activity()
    s.describe()


@scenario
def time_outs_heartbeat(s: Session) -> None:
    """The heartbeat time-out passes while a worker has a paused activity."""
    s.begun(s.activity(heartbeat_timeout=seconds(1), retry_policy=retry(0.1)))
    task = s.poll_activity()
    pause(s)
    time.sleep(2)
    s.describe()
    s.complete_activity(task)
    s.history()


# -- resuming -----------------------------------------------------------------------------


def failed_twice_while_paused(s: Session, **more: Any) -> None:
    """An activity that is paused with attempt 3 due and heartbeat details kept."""
    s.begun(s.activity(retry_policy=retry(0.1), **more))
    s.fail_activity(s.poll_activity(), failure("first"))
    task = s.poll_activity()
    s.heartbeat(task, "half")
    pause(s)
    s.fail_activity(task, failure("second"))


@scenario
def unpause_keeps_progress(s: Session) -> None:
    """Resuming keeps attempts and heartbeat details."""
    failed_twice_while_paused(s)
    unpause(s)
    s.poll_activity()
    s.describe()


@scenario
def unpause_resets_attempts(s: Session) -> None:
    """Resuming may begin with attempt 1."""
    failed_twice_while_paused(s)
    unpause(s, reset_attempts=True)
    s.poll_activity()
    s.describe()


@scenario
def unpause_resets_heartbeat(s: Session) -> None:
    """Resuming may forget the heartbeat details."""
    failed_twice_while_paused(s)
    unpause(s, reset_heartbeat=True)
    s.poll_activity()
    s.describe()


@scenario
def unpause_started_resets(s: Session) -> None:
    """Resuming with both resets while a worker has the second attempt."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    s.fail_activity(s.poll_activity(), failure("first"))
    task = s.poll_activity()
    s.heartbeat(task, "half")
    pause(s)
    unpause(s, reset_attempts=True, reset_heartbeat=True)
    s.describe()
    s.heartbeat(task, "more")
    s.complete_activity(task)


@scenario
def unpause_jitter(s: Session) -> None:
    """Resuming may wait a random while."""
    s.begun(s.activity())
    pause(s)
    unpause(s, jitter=seconds(1))
    s.poll_activity()
    s.describe()


@scenario
def unpause_errors(s: Session) -> None:
    """UnpauseActivity: what is refused."""
    s.call("UnpauseActivity", id="a")
    s.call("UnpauseActivity", execution=s.execution())
    s.call("UnpauseActivity", execution=s.execution(run="bad"), id="a")
    unpause(s)
    s.begun(s.activity())
    unpause(s)
    unpause(s, id="b")
    unpause(s, type="other")
    unpause(s, unpause_all=False)
    pause(s)
    s.terminate()
    unpause(s)
    unpause(s, id="b")
    unpause(s, type="other")
    s.describe()


# -- resetting ----------------------------------------------------------------------------


@scenario
def reset_backing_off(s: Session) -> None:
    """A back-off ends at once, with attempt 1."""
    s.begun(s.activity(retry_policy=retry(30)))
    task = s.poll_activity()
    s.heartbeat(task, "half")
    s.fail_activity(task, failure("first"))
    reset(s)
    s.describe()
    task = s.poll_activity()
    s.heartbeat(task)
    s.complete_activity(task)
    s.history()


@scenario
def reset_backing_off_heartbeat(s: Session) -> None:
    """Heartbeat details may be forgotten; the start may wait a random while."""
    s.begun(s.activity(retry_policy=retry(30)))
    task = s.poll_activity()
    s.heartbeat(task, "half")
    s.fail_activity(task, failure("first"))
    reset(s, reset_heartbeat=True, jitter=seconds(0.5))
    s.poll_activity()
    s.describe()


@scenario
def reset_first_attempt(s: Session) -> None:
    """A worker with the first attempt hears of it; a failure leads to attempt 2."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    task = s.poll_activity()
    s.heartbeat(task, "half")
    reset(s, reset_heartbeat=True)
    s.heartbeat(task, "more")
    s.describe()
    s.fail_activity(task, failure("first"))
    task = s.poll_activity()
    s.heartbeat(task)
    s.describe()
    s.complete_activity(task)
    s.history()


@scenario
def reset_later_attempt(s: Session) -> None:
    """A worker with a later attempt lost it."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    s.fail_activity(s.poll_activity(), failure("first"))
    task = s.poll_activity()
    reset(s)
    s.describe()
    s.heartbeat(task, "more")
    s.complete_activity(task)
    s.by_id("RecordActivityTaskHeartbeatById", details=payloads(2))
    s.by_id("RespondActivityTaskCompletedById")
    s.history()


@scenario
def reset_scheduled(s: Session) -> None:
    """An activity that no worker took yet: it is handed out once."""
    s.begun(s.activity())
    reset(s)
    s.describe()
    task = s.poll_activity()
    s.heartbeat(task)
    nothing_comes(s)


@scenario
def reset_paused(s: Session) -> None:
    """Resetting a paused activity resumes it."""
    failed_twice_while_paused(s)
    reset(s)
    s.describe()
    s.poll_activity()


@scenario
def reset_keep_paused(s: Session) -> None:
    """A paused activity may stay paused."""
    failed_twice_while_paused(s)
    reset(s, keep_paused=True, reset_heartbeat=True)
    s.describe()
    nothing_comes(s)
    unpause(s)
    s.describe()
    task = s.poll_activity()
    s.heartbeat(task)


@scenario
def reset_pause_requested(s: Session) -> None:
    """A worker has the paused activity: it is told of the reset, and of the pause if that stays."""
    s.begun(s.activity())
    task = s.poll_activity()
    pause(s)
    reset(s, keep_paused=True)
    s.heartbeat(task)
    s.describe()
    reset(s)
    s.heartbeat(task)
    s.describe()


@scenario
def reset_all(s: Session) -> None:
    """All activities; those of a type."""
    s.begun(
        s.activity("a", retry_policy=retry(30)),
        s.activity("b", activity_type={"name": "other"}, retry_policy=retry(30)),
    )
    s.fail_activity(s.poll_activity(), failure("first"))
    s.fail_activity(s.poll_activity(), failure("first"))
    reset(s, type="other")
    s.fail_activity(s.poll_activity(), failure("second"))
    reset(s, match_all=True)
    s.describe()


@scenario
def reset_errors(s: Session) -> None:
    """ResetActivity: what is refused."""
    s.call("ResetActivity", id="a")
    s.call("ResetActivity", execution=s.execution())
    reset(s)
    s.begun(s.activity())
    reset(s, id="b")
    reset(s, type="other")
    s.terminate()
    reset(s)
    reset(s, match_all=True)
    reset(s, restore_original_options=True)


# -- options ------------------------------------------------------------------------------

POLICY = {
    "initial_interval": seconds(2),
    "backoff_coefficient": 3.0,
    "maximum_interval": seconds(7),
    "maximum_attempts": 5,
}


def options(s: Session, **more: Any) -> Fields:
    """Options that differ from the usual ones in everything."""
    return {
        "task_queue": {"name": s.name("q2")},
        "schedule_to_close_timeout": seconds(40),
        "schedule_to_start_timeout": seconds(30),
        "start_to_close_timeout": seconds(20),
        "heartbeat_timeout": seconds(15),
        "retry_policy": POLICY,
        "priority": {"priority_key": 2, "fairness_key": "f", "fairness_weight": 1.5},
        **more,
    }


@scenario
def update_everything(s: Session) -> None:
    """Each option is changed before a worker takes the activity."""
    s.begun(s.activity(retry_policy=retry(1, non_retryable_error_types=["Fatal"]), priority={"priority_key": 4}))
    paths = ["task_queue.name", "schedule_to_close_timeout", "schedule_to_start_timeout", "start_to_close_timeout"]
    paths += ["heartbeat_timeout", "retry_policy", "priority"]
    update(s, *paths, activity_options=options(s))
    s.describe()
    nothing_comes(s)
    task = s.poll_activity("q2")
    s.fail_activity(task, failure("first"))
    s.describe()


@scenario
def update_parts(s: Session) -> None:
    """Parts of the retry policy and of the priority, by both spellings of a path; others are not looked at."""
    s.begun(s.activity(priority={"priority_key": 4, "fairness_key": "old"}))
    update(s, "retry_policy.initial_interval", activity_options=options(s))
    update(s, "retryPolicy.backoffCoefficient", "RetryPolicy.MaximumInterval", activity_options=options(s))
    update(s, "retry_policy.maximum_attempts", activity_options=options(s))
    update(s, "priority.priority_key", activity_options=options(s))
    update(s, "priority.fairness_key", "priority.fairnessWeight", activity_options=options(s))
    s.describe()
    update(s, "task_queue", "no_such_field", activity_options=options(s))
    update(s, "heartbeat_timeout", activity_options={})
    update(s, "schedule_to_start_timeout", activity_options=options(s))
    update(s, "priority", activity_options={})
    s.describe()


@scenario
def update_timeouts_adjusted(s: Session) -> None:
    """Changed time-outs are adjusted to each other, not to the run's."""
    s.begun(s.activity(), workflow_run_timeout=seconds(30))
    update(s, "schedule_to_close_timeout", activity_options={"schedule_to_close_timeout": seconds(5)})
    update(s, "heartbeat_timeout", activity_options={"heartbeat_timeout": seconds(50)})
    update(s, "schedule_to_close_timeout", activity_options={})
    update(s, "start_to_close_timeout", activity_options={"start_to_close_timeout": seconds(60)})
    update(s, "start_to_close_timeout", activity_options={})
    s.describe()


@scenario
def update_backing_off(s: Session) -> None:
    """The back-off is computed anew."""
    s.begun(s.activity(retry_policy=retry(30)))
    s.fail_activity(s.poll_activity(), failure("first"))
    s.describe()
    update(s, "retry_policy.initial_interval", activity_options={"retry_policy": retry(20)})
    s.describe()
    update(s, "retry_policy.initial_interval", activity_options={"retry_policy": retry(0.1)})
    task = s.poll_activity()
    s.complete_activity(task)
    s.history()


@scenario
def update_retry_deadline(s: Session) -> None:
    """Whether there is time for another attempt is still told by the first schedule-to-close."""
    s.begun(s.activity(schedule_to_close_timeout=seconds(10), retry_policy=retry(0.1)))
    update(s, "schedule_to_close_timeout", activity_options={"schedule_to_close_timeout": seconds(60)})
    task = s.poll_activity()
    update(s, "retry_policy.initial_interval", activity_options={"retry_policy": retry(12)})
    s.describe()
    s.fail_activity(task, failure("first"))
    s.history()


@scenario
def update_started(s: Session) -> None:
    """Changed while a worker has it: shorter time-outs count at once."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    s.poll_activity()
    update(s, "start_to_close_timeout", activity_options={"start_to_close_timeout": seconds(1)})
    s.describe()
    task = s.poll_activity()
    s.describe()
    s.complete_activity(task)
    s.history()


@scenario
def update_paused(s: Session) -> None:
    """A paused activity stays paused."""
    s.begun(s.activity(retry_policy=retry(0.1)))
    s.fail_activity(s.poll_activity(), failure("first"))
    pause(s)
    update(s, "task_queue.name", activity_options=options(s))
    nothing_comes(s, "q2")
    unpause(s)
    s.poll_activity("q2")
    s.describe()


@scenario
def update_restore(s: Session) -> None:
    """The options the activity was scheduled with come back; several activities."""
    s.begun(
        s.activity("a", retry_policy=retry(1, maximum_attempts=9, non_retryable_error_types=["Fatal"])),
        s.activity("b", activity_type={"name": "other"}, priority={"priority_key": 4}),
    )
    update(s, restore_original=True)
    update(s, "task_queue.name", "retry_policy", "priority", match_all=True, activity_options=options(s))
    s.describe()
    update(s, restore_original=True)
    update(s, type="other", restore_original=True, update_mask={})
    s.describe()
    s.poll_activity()
    s.poll_activity()


@scenario
def reset_restores(s: Session) -> None:
    """A reset may bring back the options as well, except for the priority."""
    s.begun(s.activity(retry_policy=retry(30), priority={"priority_key": 4}))
    update(s, "task_queue.name", "start_to_close_timeout", "retry_policy", "priority", activity_options=options(s))
    s.fail_activity(s.poll_activity("q2"), failure("first"))
    reset(s, restore_original_options=True)
    s.describe()
    s.poll_activity()


@scenario
def update_errors(s: Session) -> None:
    """UpdateActivityOptions: what is refused."""
    given = {"activity_options": options(s)}
    s.call("UpdateActivityOptions", id="a", **given)
    s.call("UpdateActivityOptions", execution=s.execution(), **given)
    update(s, "priority", **given)
    s.begun(s.activity())
    update(s)
    update(s, **given)
    update(s, "priority")
    update(s, "priority", restore_original=True, **given)
    update(s, "priority", id="b", **given)
    update(s, "priority", type="other", **given)
    update(s, restore_original=True, id="b")
    update(s, restore_original=True, type="other")
    update(s, "task_queue.name", activity_options={})
    update(s, "task_queue.name", activity_options={"task_queue": {}})
    update(s, "task_queue.name", activity_options={"task_queue": {"name": "x" * 1001}})
    update(s, "task_queue.name", activity_options={"task_queue": {"name": "/_sys/x/1"}})
    update(s, "retry_policy", activity_options={})
    update(s, "retry_policy.maximum_attempts", activity_options={})
    update(s, "retry_policy.maximum_attempts", activity_options={"retry_policy": {"maximum_attempts": -1}})
    update(s, "retry_policy.backoff_coefficient", activity_options={"retry_policy": {"backoff_coefficient": 0.5}})
    update(s, "retry_policy.initial_interval", activity_options={"retry_policy": {"initial_interval": seconds(-1)}})
    update(s, "retry_policy.maximum_interval", activity_options={"retry_policy": {"maximum_interval": seconds(0.5)}})
    update(s, "priority.priority_key", activity_options={})
    update(s, "priority.priority_key", activity_options={"priority": {"priority_key": -1}})
    update(s, "heartbeat_timeout", activity_options={"heartbeat_timeout": seconds(-1)})
    update(s, "start_to_close_timeout", activity_options={"start_to_close_timeout": seconds(-1)})
    s.describe()
    s.terminate()
    update(s, "priority", **given)
    update(s, restore_original=True)
    update(s, restore_original=True, id="b")
    update(s, restore_original=True, type="other")


@scenario
def update_bare_policy(s: Session) -> None:
    """A whole retry policy is taken as it is, without defaults: a failure is then not retried."""
    s.begun(s.activity(retry_policy=retry(1, non_retryable_error_types=["Fatal"])))
    update(
        s, "retry_policy", activity_options={"retry_policy": {"maximum_attempts": 3, "non_retryable_error_types": ["X"]}}
    )
    s.describe()
    s.fail_activity(s.poll_activity(), failure("first"))
    s.history()


@scenario
def update_priorities(s: Session) -> None:
    """What the worker is told of priorities: the workflow's, as far as the activity has none of its own."""
    s.begun(s.activity(), priority={"priority_key": 4, "fairness_key": "wf"})
    update(s, "priority.fairness_weight", activity_options={"priority": {"fairness_weight": 2}})
    s.poll_activity()
    s.describe()


# -- together with everything else --------------------------------------------------------


def cancel_activity(scheduled: int) -> Fields:
    """RequestCancelActivityTask."""
    return command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=scheduled)


@scenario
def cancel_paused(s: Session) -> None:
    """A workflow cancels a paused activity that no worker has."""
    s.begun(s.activity())
    pause(s)
    s.signal()
    s.run_task(cancel_activity(5))
    s.history()
    s.describe()


@scenario
def cancel_pause_requested(s: Session) -> None:
    """A workflow cancels a paused activity that a worker has."""
    s.begun(s.activity())
    task = s.poll_activity()
    pause(s)
    s.signal()
    s.run_task(cancel_activity(5))
    s.heartbeat(task)
    s.describe()
    s.call("RespondActivityTaskCanceled", task_token=task.task_token, identity="worker")
    s.history()


@scenario
def complete_paused_by_id(s: Session) -> None:
    """A paused activity that no worker has may be completed by id."""
    s.begun(s.activity())
    pause(s)
    s.by_id("RespondActivityTaskCompletedById", result=payloads("out"))
    s.history()


@scenario
def close_with_paused(s: Session) -> None:
    """A workflow closes while an activity is paused."""
    s.begun(s.activity())
    pause(s)
    s.signal()
    s.run_task(complete())
    s.history()
    s.describe()


# -- the newer calls ----------------------------------------------------------------------


def execution(s: Session, rpc: str, **more: Any) -> Any:
    """One of the newer calls, which name workflow and activity by fields of their own."""
    return s.call(rpc, **{"workflow_id": s.name("wf"), "activity_id": "a", "identity": "operator", **more})


@scenario
def executions(s: Session) -> None:
    """The newer calls do the same."""
    run = s.begun(s.activity(retry_policy=retry(30)))
    execution(s, "PauseActivityExecution", reason="look at it", request_id="r1")
    execution(s, "PauseActivityExecution", reason="look at it", request_id="r1")
    execution(s, "PauseActivityExecution", run_id=run)
    s.describe()
    execution(s, "UnpauseActivityExecution", run_id=run, reason="seen")
    execution(s, "UnpauseActivityExecution")
    s.fail_activity(s.poll_activity(), failure("first"))
    execution(s, "ResetActivityExecution", jitter=seconds(0.1), reset_heartbeat=True)
    execution(
        s,
        "UpdateActivityExecutionOptions",
        activity_options=options(s),
        update_mask={"paths": ["start_to_close_timeout", "retry_policy"]},
    )
    s.poll_activity()
    s.describe()
    execution(s, "UpdateActivityExecutionOptions", restore_original=True)
    execution(s, "PauseActivityExecution")
    execution(s, "ResetActivityExecution", keep_paused=True, restore_original_options=True)
    s.describe()


@scenario
def executions_refused(s: Session) -> None:
    """The newer calls: what is refused."""
    s.begun(s.activity())
    for rpc in ["PauseActivityExecution", "UnpauseActivityExecution", "ResetActivityExecution"]:
        execution(s, rpc, activity_id="")
        execution(s, rpc, activity_id="b")
        execution(s, rpc, activity_id="x" * 1001)
        execution(s, rpc, identity="x" * 1001)
        execution(s, rpc, request_id="x" * 1001)
        execution(s, rpc, run_id="bad")
        execution(s, rpc, run_id=NOBODY)
        execution(s, rpc, workflow_id=s.name("other"))
    for rpc in ["UnpauseActivityExecution", "ResetActivityExecution"]:
        execution(s, rpc, jitter=seconds(-1))


@scenario
def executions_update_refused(s: Session) -> None:
    """UpdateActivityExecutionOptions: what is refused."""
    s.begun(s.activity())

    def change(*paths: str, **more: Any) -> None:
        execution(s, "UpdateActivityExecutionOptions", update_mask={"paths": list(paths)}, **more)

    given = {"activity_options": options(s)}
    change("priority", activity_id="", **given)
    change("priority", activity_id="b", **given)
    change("priority", activity_id="x" * 1001, **given)
    change("priority", identity="x" * 1001, **given)
    change("priority", request_id="x" * 1001, **given)
    change("priority", run_id="bad", **given)
    change("priority", restore_original=True, **given)
    change("priority")
    change(**given)
    execution(s, "UpdateActivityExecutionOptions", **given)
    change("no_such_field", **given)
    change("task_queue", **given)
    change("task_queue.name", activity_options={})
    change("task_queue.name", activity_options={"task_queue": {}})
    change("schedule_to_close_timeout", activity_options={"schedule_to_close_timeout": seconds(-1)})
    change("schedule_to_start_timeout", activity_options={"schedule_to_start_timeout": seconds(-1)})
    change("start_to_close_timeout", activity_options={"start_to_close_timeout": seconds(-1)})
    change("heartbeat_timeout", activity_options={"heartbeat_timeout": seconds(-1)})
    change("priority", activity_options={"priority": {"priority_key": -1}})
    change("priority.priority_key", activity_options={"priority": {"priority_key": -1}})
    change("priority.fairness_key", activity_options={"priority": {"fairness_key": "x" * 65}})
    change("priority.fairness_weight", activity_options={"priority": {"fairness_weight": -1}})
    change("priority.priority_key", activity_options={})
    change("retry_policy", activity_options={})
    change("retry_policy", activity_options={"retry_policy": {"backoff_coefficient": 0.5}})
    change("retry_policy.initial_interval", activity_options={"retry_policy": {"initial_interval": seconds(-1)}})
    change("retry_policy.backoff_coefficient", activity_options={"retry_policy": {"backoff_coefficient": 0.5}})
    change("retry_policy.maximum_interval", activity_options={"retry_policy": {"maximum_interval": seconds(-1)}})
    change("retry_policy.maximum_attempts", activity_options={"retry_policy": {"maximum_attempts": -1}})
    change("retry_policy.maximum_attempts", activity_options={})
    change("start_delay", activity_options={"start_delay": seconds(1)})
    s.describe()
