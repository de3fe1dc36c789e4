"""Pausing, resuming and resetting standalone activities, changing their options, and batch jobs on them."""

from __future__ import annotations

import time
from typing import Any

from ..build import failure, retry, seconds
from ..harness import Session, Stopped
from . import scenario
from .standalone import PATIENCE, about, cancel, describe, outcome, start, terminate, wait_listed


def pause(s: Session, short: str = "a", **more: Any) -> None:
    """PauseActivityExecution."""
    given = {"identity": "operator", "reason": "look at it", "request_id": s.request_id(), **more}
    about(s, "PauseActivityExecution", short, **given)


def unpause(s: Session, short: str = "a", **more: Any) -> None:
    """UnpauseActivityExecution."""
    about(s, "UnpauseActivityExecution", short, **{"identity": "operator", "request_id": s.request_id(), **more})


def reset(s: Session, short: str = "a", **more: Any) -> None:
    """ResetActivityExecution."""
    about(s, "ResetActivityExecution", short, **{"identity": "operator", "request_id": s.request_id(), **more})


def update(s: Session, *paths: str, short: str = "a", **more: Any) -> None:
    """UpdateActivityExecutionOptions with a mask of these paths."""
    mask = {"update_mask": {"paths": list(paths)}} if paths else {}
    given = {"identity": "operator", "request_id": s.request_id(), **mask, **more}
    about(s, "UpdateActivityExecutionOptions", short, **given)


def nothing_comes(s: Session) -> None:
    """No worker is handed an activity for a while."""
    s.poll_activity(deadline=3, may_be_empty=True)


@scenario
def pause_waiting(s: Session) -> None:
    """Paused before a worker took it: no worker gets it until it is resumed."""
    start(s)
    unpause(s)
    pause(s, request_id="p1")
    describe(s)
    pause(s, request_id="p1")
    pause(s, request_id="p2")
    nothing_comes(s)
    unpause(s, request_id="u1")
    pause(s, request_id="p1")
    unpause(s, request_id="u1")
    describe(s)
    task = s.poll_activity()
    s.complete_activity(task, "out")
    outcome(s)
    pause(s)
    unpause(s)
    reset(s)
    update(s, "heartbeat_timeout", activity_options={"heartbeat_timeout": seconds(5)})


@scenario
def pause_running(s: Session) -> None:
    """Paused while a worker has it: the worker hears of it, and the next attempt waits."""
    start(s, retry_policy=retry(1, backoff_coefficient=1))
    task = s.poll_activity()
    pause(s)
    describe(s)
    s.heartbeat(task, 1)
    pause(s)
    unpause(s)
    s.heartbeat(task, 2)
    pause(s)
    s.fail_activity(task, failure("first"))
    describe(s)
    nothing_comes(s)
    unpause(s)
    task = s.poll_activity()
    describe(s)
    s.complete_activity(task)
    describe(s)


@scenario
def pause_and_complete(s: Session) -> None:
    """What a worker reports counts all the same."""
    start(s)
    task = s.poll_activity()
    pause(s)
    s.complete_activity(task, "out")
    outcome(s)


@scenario
def pause_and_end(s: Session) -> None:
    """Paused activities can be cancelled and terminated."""
    start(s, "a")
    pause(s, "a")
    cancel(s, "a")
    outcome(s, "a")
    start(s, "b")
    pause(s, "b")
    terminate(s, "b")
    outcome(s, "b")
    start(s, "c")
    task = s.poll_activity()
    pause(s, "c")
    cancel(s, "c")
    describe(s, "c")
    s.heartbeat(task)
    pause(s, "c")
    unpause(s, "c")
    reset(s, "c")
    update(s, "heartbeat_timeout", short="c", activity_options={"heartbeat_timeout": seconds(5)})


@scenario
def time_runs_out_while_paused(s: Session) -> None:
    """The time for all attempts goes on, that for waiting does not."""
    start(s, schedule_to_close_timeout=seconds(3), schedule_to_start_timeout=seconds(1))
    pause(s)
    outcome(s)
    describe(s)


@scenario
def reset_waiting(s: Session) -> None:
    """Reset between two attempts: the first one again, at once."""
    start(s, retry_policy=retry(30))
    task = s.poll_activity()
    s.heartbeat(task, "said")
    s.fail_activity(task, failure("first"))
    describe(s)
    reset(s, request_id="r1")
    reset(s, request_id="r1")
    describe(s)
    task = s.poll_activity()
    s.fail_activity(task, failure("second"))
    reset(s, reset_heartbeat=True)
    task = s.poll_activity()
    s.complete_activity(task)
    describe(s)


@scenario
def reset_running(s: Session) -> None:
    """Reset while a worker has it: the worker hears of it, and the next attempt is the first."""
    start(s, retry_policy=retry(0.1))
    s.fail_activity(s.poll_activity(), failure("first"))
    task = s.poll_activity()
    reset(s)
    reset(s)
    describe(s)
    s.heartbeat(task, 1)
    pause(s)
    s.fail_activity(task, failure("second", non_retryable=True))
    describe(s)
    task = s.poll_activity()
    s.complete_activity(task, "out")
    outcome(s)


@scenario
def reset_paused(s: Session) -> None:
    """A reset ends a pause unless it is to be kept."""
    start(s, retry_policy=retry(0.1))
    s.fail_activity(s.poll_activity(), failure("first"))
    task = s.poll_activity()
    pause(s)
    reset(s, keep_paused=True)
    describe(s)
    s.heartbeat(task)
    s.fail_activity(task, failure("second"))
    describe(s)
    reset(s, keep_paused=True)
    describe(s)
    reset(s)
    task = s.poll_activity()
    describe(s)
    s.complete_activity(task)


@scenario
def change_options(s: Session) -> None:
    """Options change, and come back."""
    start(s, schedule_to_close_timeout=seconds(60), priority={"priority_key": 3})
    update(
        s,
        "heartbeat_timeout",
        "start_to_close_timeout",
        "retry_policy.maximum_attempts",
        "priority.priority_key",
        request_id="o1",
        activity_options={
            "heartbeat_timeout": seconds(5),
            "start_to_close_timeout": seconds(20),
            "retry_policy": {"maximum_attempts": 4},
            "priority": {"priority_key": 1},
        },
    )
    describe(s)
    update(s, "heartbeat_timeout", request_id="o1", activity_options={"heartbeat_timeout": seconds(7)})
    task = s.poll_activity()
    s.fail_activity(task, failure("first"))
    update(s, "task_queue.name", activity_options={"task_queue": {"name": s.name("q2")}})
    task = s.poll_activity("q2")
    update(s, restore_original=True)
    describe(s)
    s.complete_activity(task)
    update(s, restore_original=True)


@scenario
def bad_options(s: Session) -> None:
    """Changes that are refused."""
    start(s)
    update(s)
    update(s, "heartbeat_timeout")
    update(s, activity_options={"heartbeat_timeout": seconds(5)})
    update(s, "nonsense", activity_options={})
    update(s, "heartbeat_timeout", activity_options={"heartbeat_timeout": seconds(-5)})
    update(s, "heartbeat_timeout", restore_original=True)
    update(s, "start_delay", activity_options={"start_delay": seconds(5)})
    update(s, "task_queue.name", activity_options={})
    update(s, "retry_policy.backoff_coefficient", activity_options={"retry_policy": {"backoff_coefficient": 0.5}})


@scenario
def change_a_retry(s: Session) -> None:
    """Another retry policy moves the next attempt."""
    start(s, retry_policy=retry(60))
    s.fail_activity(s.poll_activity(), failure("first"))
    update(s, "retry_policy.initial_interval", activity_options={"retry_policy": {"initial_interval": seconds(1)}})
    task = s.poll_activity()
    s.complete_activity(task, 1)
    outcome(s)


@scenario
def change_a_delay(s: Session) -> None:
    """The first attempt is due earlier."""
    start(s, start_delay=seconds(60))
    describe(s)
    update(s, "start_delay", activity_options={"start_delay": seconds(1)})
    describe(s)
    task = s.poll_activity()
    s.complete_activity(task, 1)
    outcome(s)


def job(s: Session, short: str, operation: str, *ids: str, **more: Any) -> None:
    """A batch job on activities, and how it ended."""
    given: dict[str, Any] = {"job_id": s.name(short), "reason": "tidy", operation: {}, **more}
    if ids:
        kind = "EXECUTION_TYPE_ACTIVITY"
        given["target_executions"] = [{"type": kind, "business_id": s.name(each)} for each in ids]
    s.call("StartBatchOperation", **given)
    end = time.monotonic() + PATIENCE
    while True:
        described = s.silent("DescribeBatchOperation", job_id=s.name(short))
        if described.state != 1:
            break
        if time.monotonic() > end:
            raise Stopped("the job did not end")
        time.sleep(0.1)
    s.call("DescribeBatchOperation", job_id=s.name(short))


@scenario
def batches(s: Session) -> None:
    """Cancel, terminate and delete, by query and by list."""
    s.namespace = s.new_namespace()
    time.sleep(1)
    for short in "abcd":
        start(s, short)
    wait_listed(s, "", 4)
    job(s, "j1", "cancel_activities_operation", "a", "other")
    outcome(s, "a")
    job(s, "j2", "terminate_activities_operation", visibility_query=f"ActivityId = '{s.name('b')}'")
    outcome(s, "b")
    job(s, "j3", "delete_activities_operation", "c")
    wait_listed(s, "", 3)
    job(s, "j4", "terminate_activities_operation", visibility_query="ActivityType = 'act'")
    outcome(s, "d")
