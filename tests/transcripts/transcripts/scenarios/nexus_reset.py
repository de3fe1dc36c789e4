"""Reset and other ends of workflows that have called operations of Nexus."""

from __future__ import annotations

from typing import Any

from ..build import command, complete, fail, retry, seconds
from ..harness import Session
from ..nexus import (
    accept_cancel,
    begin,
    begin_poll,
    called,
    cancel_operation,
    endpoint,
    fail_operation,
    handler_failure,
    operation,
    poll,
    start_handler,
    succeed,
    taken,
    wait_callbacks,
)
from ..nexus import fail as fail_handler
from . import scenario

WITHOUT = {"reset_reapply_exclude_types": ["RESET_REAPPLY_EXCLUDE_TYPE_NEXUS"]}


def pending(s: Session, **more: Any) -> tuple[str, Any]:
    """An operation whose handler has not answered after a second workflow task; the run's id, the handler's task."""
    endpoint(s)
    run = s.start()
    task = called(s, operation(s, **more), task=s.poll())
    s.signal()
    s.run_task()
    return run, task


def going_on(s: Session, **more: Any) -> tuple[str, Any]:
    """An operation that the workflow `h` carries out, and a second workflow task."""
    endpoint(s)
    run = s.start()
    task = called(s, operation(s, **more), task=s.poll())
    start_handler(s, task)
    begin(s, task)
    s.run_task()
    return run, task


@scenario
def result(s: Session) -> None:
    """A result is taken along."""
    run, task = pending(s)
    succeed(s, task, "out")
    s.run_task()
    s.reset(9, run)
    s.history()
    s.describe()


@scenario
def start(s: Session) -> None:
    """A start is taken along."""
    run, task = pending(s)
    begin(s, task)
    s.run_task()
    s.reset(9, run)
    s.history()
    s.describe()


@scenario
def failed_operation(s: Session) -> None:
    """A failure is taken along."""
    run, task = pending(s)
    fail_operation(s, task, failure={"message": "sorry"})
    s.run_task()
    s.reset(9, run)
    s.history()


@scenario
def cancellation(s: Session) -> None:
    """The end of an operation that was canceled is taken along."""
    run, task = pending(s)
    fail_operation(s, task, failure={"message": "stop", "canceled_failure_info": {}})
    s.run_task()
    s.reset(9, run)
    s.history()


@scenario
def time_out(s: Session) -> None:
    """A time-out is taken along."""
    run, task = pending(s, schedule_to_start_timeout=seconds(2))
    s.wait_event("nexus_operation_timed_out")
    s.run_task()
    s.reset(9, run)
    s.history()


@scenario
def completion(s: Session) -> None:
    """The result of an operation that went on is taken along."""
    run, _ = going_on(s)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.run_task()
    s.reset(9, run)
    s.history()
    s.describe()


@scenario
def completion_without_types(s: Session) -> None:
    """The deprecated kind of reset that takes nothing along."""
    run, _ = going_on(s)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.run_task()
    s.signal("late")
    s.reset(9, run, reset_reapply_type="RESET_REAPPLY_TYPE_NONE")
    s.history()


@scenario
def excluded(s: Session) -> None:
    """What is left out makes the operation pending again."""
    run, _ = going_on(s)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.run_task()
    s.reset(9, run, **WITHOUT)
    s.history()
    s.describe()


@scenario
def excluded_start(s: Session) -> None:
    """A start that is left out: the handler is asked again."""
    run, task = pending(s)
    begin(s, task)
    s.run_task()
    begun = begin_poll(s)
    s.reset(9, run, **WITHOUT)
    task = taken(s, begun)
    s.describe()
    begin(s, task, "second")
    s.history()


@scenario
def before_schedule(s: Session) -> None:
    """The operation is not known to the new run."""
    run, task = pending(s)
    succeed(s, task, "out")
    s.run_task()
    s.reset(4, run)
    s.history()
    s.describe()


@scenario
def completed_later(s: Session) -> None:
    """An operation that goes on reports to the new run."""
    run, _ = going_on(s)
    s.reset(9, run)
    s.describe()
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.history()
    s.describe("h")
    s.describe(run=run)


@scenario
def completed_later_before_schedule(s: Session) -> None:
    """The new run knows nothing of the operation that reports."""
    run, _ = going_on(s)
    s.reset(4, run)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.history()
    s.describe("h")


@scenario
def answered_later(s: Session) -> None:
    """The handler answers a task of the run that was reset; the new run asks again."""
    run, task = pending(s)
    begun = begin_poll(s)
    s.reset(9, run)
    again = taken(s, begun)
    succeed(s, task, "old")
    s.history()
    succeed(s, again, "new")
    s.history()


@scenario
def backing_off(s: Session) -> None:
    """The next attempt is made by the new run."""
    run, task = pending(s)
    fail_handler(s, task, failure=handler_failure())
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt)
    s.reset(9, run)
    task = poll(s)
    s.describe()
    succeed(s, task, "out")
    s.history()


@scenario
def cancel_requested(s: Session) -> None:
    """A request to cancel that the handler had accepted before the reset's point."""
    endpoint(s)
    run = s.start()
    begin(s, called(s, task=s.poll()))
    task = s.poll()
    begun = begin_poll(s)
    s.complete(task, cancel_operation())
    accept_cancel(s, taken(s, begun))
    s.run_task()
    s.reset(14, run)
    s.history()
    s.describe()


@scenario
def cancel_requested_later(s: Session) -> None:
    """A request to cancel after the reset's point is forgotten."""
    endpoint(s)
    run = s.start()
    begin(s, called(s, task=s.poll()))
    task = s.poll()
    begun = begin_poll(s)
    s.complete(task, cancel_operation())
    accept_cancel(s, taken(s, begun))
    s.run_task()
    s.reset(9, run)
    s.history()
    s.describe()


@scenario
def continued(s: Session) -> None:
    """The next run of a chain has no operations; the result of one finds nobody."""
    endpoint(s)
    run = s.start()
    task = called(s, task=s.poll())
    start_handler(s, task)
    begin(s, task)
    queue = {"name": s.name("q")}
    s.run_task(command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"}, task_queue=queue))
    s.describe(run=run)
    s.describe()
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.describe("h")
    s.history()


@scenario
def retried(s: Session) -> None:
    """The next attempt of a workflow has no operations."""
    endpoint(s)
    run = s.start(retry_policy=retry(1))
    task = called(s, task=s.poll())
    start_handler(s, task)
    begin(s, task)
    s.run_task(fail())
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.describe("h")
    s.describe()


@scenario
def terminated(s: Session) -> None:
    """A workflow is terminated with an operation; its handler is not canceled."""
    run, _ = going_on(s)
    s.terminate()
    s.describe()
    s.describe("h")
