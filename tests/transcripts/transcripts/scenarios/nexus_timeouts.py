"""Time-outs of operations of Nexus."""

from __future__ import annotations

import time

from ..build import complete, seconds
from ..harness import Session
from ..nexus import (
    begin,
    begin_poll,
    called,
    cancel_operation,
    endpoint,
    fail,
    handler_failure,
    operation,
    start_handler,
    succeed,
    taken,
)
from . import scenario


def timed_out(s: Session) -> None:
    """The operation has timed out."""
    s.wait_event("nexus_operation_timed_out")
    s.poll()
    s.describe()


@scenario
def schedule_to_close(s: Session) -> None:
    """The handler takes too long; its late answer."""
    endpoint(s)
    task = called(s, operation(s, schedule_to_close_timeout=seconds(2)))
    timed_out(s)
    succeed(s, task)


@scenario
def schedule_to_close_of_started(s: Session) -> None:
    """The operation goes on for too long."""
    endpoint(s)
    begin(s, called(s, operation(s, schedule_to_close_timeout=seconds(2))))
    s.run_task()
    timed_out(s)


@scenario
def schedule_to_close_while_backing_off(s: Session) -> None:
    """Attempts fail for too long."""
    endpoint(s)
    task = called(s, operation(s, schedule_to_close_timeout=seconds(2)))
    fail(s, task, failure=handler_failure())
    timed_out(s)


@scenario
def schedule_to_start(s: Session) -> None:
    """The handler takes too long to start; its late answer."""
    endpoint(s)
    task = called(s, operation(s, schedule_to_start_timeout=seconds(2)))
    timed_out(s)
    begin(s, task)


@scenario
def schedule_to_start_without_worker(s: Session) -> None:
    """No worker takes the task."""
    endpoint(s)
    s.begun(operation(s, schedule_to_start_timeout=seconds(2)))
    timed_out(s)


@scenario
def schedule_to_start_of_started(s: Session) -> None:
    """An operation that goes on has started in time."""
    endpoint(s)
    begin(s, called(s, operation(s, schedule_to_start_timeout=seconds(2), schedule_to_close_timeout=seconds(3))))
    s.run_task()
    timed_out(s)


@scenario
def start_to_close(s: Session) -> None:
    """The operation goes on for too long after its start."""
    endpoint(s)
    begin(s, called(s, operation(s, start_to_close_timeout=seconds(2))))
    s.run_task()
    timed_out(s)


@scenario
def start_to_close_with_cancel(s: Session) -> None:
    """The handler was asked to cancel, and has not answered."""
    endpoint(s)
    begin(s, called(s, operation(s, start_to_close_timeout=seconds(2))))
    task = s.poll()
    begun = begin_poll(s)
    s.complete(task, cancel_operation())
    taken(s, begun)
    timed_out(s)


@scenario
def of_running_task(s: Session) -> None:
    """The time-out comes while a workflow task is under way."""
    endpoint(s)
    begin(s, called(s, operation(s, start_to_close_timeout=seconds(2))))
    task = s.poll()
    s.wait_describe(lambda d: not d.pending_nexus_operations)
    s.history()
    s.complete(task)
    s.poll()


@scenario
def handler_goes_on(s: Session) -> None:
    """The handler's workflow does not learn that the operation has timed out."""
    endpoint(s)
    task = called(s, operation(s, schedule_to_close_timeout=seconds(2)))
    start_handler(s, task)
    begin(s, task)
    s.wait_event("nexus_operation_timed_out")
    s.describe("h")
    s.history("h")


@scenario
def cut_to_run(s: Session) -> None:
    """Time-outs are cut to that of the run, and to each other."""
    endpoint(s)
    s.start(workflow_run_timeout=seconds(30))
    s.run_task(
        operation(s),
        operation(s, schedule_to_close_timeout=seconds(50)),
        operation(s, schedule_to_start_timeout=seconds(50), start_to_close_timeout=seconds(50)),
        operation(s, schedule_to_close_timeout=seconds(20), schedule_to_start_timeout=seconds(25)),
        operation(s, schedule_to_close_timeout=seconds(20), start_to_close_timeout=seconds(25)),
        operation(s, schedule_to_start_timeout=seconds(10), start_to_close_timeout=seconds(15)),
    )
    s.history()
    s.describe()
    s.terminate()


@scenario
def cut_without_run(s: Session) -> None:
    """Time-outs are cut to each other."""
    endpoint(s)
    s.start()
    s.run_task(
        operation(s, schedule_to_close_timeout=seconds(20), schedule_to_start_timeout=seconds(25)),
        operation(s, schedule_to_close_timeout=seconds(20), start_to_close_timeout=seconds(25)),
        operation(s, schedule_to_start_timeout=seconds(25), start_to_close_timeout=seconds(20)),
        operation(s, schedule_to_close_timeout=seconds(0)),
    )
    s.history()
    s.terminate()


@scenario
def short(s: Session) -> None:
    """Less time than a request needs."""
    endpoint(s)
    begun = begin_poll(s)
    s.begun(operation(s, schedule_to_close_timeout=seconds(1)))
    task = begun.result(20)[3]
    if task is not None and task.task_token:
        succeed(s, task, "out")
    s.poll()


@scenario
def run_times_out(s: Session) -> None:
    """The workflow itself times out with the operation."""
    endpoint(s)
    s.start(workflow_run_timeout=seconds(3))
    begin(s, called(s, task=s.poll()))
    s.wait_event("workflow_execution_timed_out")
    s.history()


@scenario
def completed_in_time(s: Session) -> None:
    """An operation that is over does not time out."""
    endpoint(s)
    times = {"start_to_close_timeout": seconds(2), "schedule_to_close_timeout": seconds(3)}
    task = called(s, operation(s, **times))
    start_handler(s, task)
    begin(s, task)
    s.run_task(complete("out"), queue="hq")
    s.wait_event("nexus_operation_completed")
    time.sleep(3)
    s.history()
