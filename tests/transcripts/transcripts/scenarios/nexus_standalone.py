"""Nexus operations without a workflow: started, taken by handlers, waited for, described, cancelled, terminated."""

from __future__ import annotations

import time
from typing import Any

from ..build import complete, failure, metadata, payload, seconds
from ..harness import Session, Stopped
from ..nexus import (
    accept_cancel,
    begin,
    begin_poll,
    callback_of,
    endpoint,
    fail,
    fail_operation,
    handler_failure,
    link_to,
    poll,
    succeed,
    taken,
    wait_callbacks,
)
from . import scenario

SWITCHED_ON = True
PATIENCE = 15
STAGE = "NEXUS_OPERATION_WAIT_STAGE_"


def start(s: Session, short: str = "o", **more: Any) -> str:
    """Starts an operation and returns its run id ("" after an error)."""
    plain = {
        "operation_id": s.name(short),
        "endpoint": s.name("ep"),
        "service": "svc",
        "operation": "op",
        "identity": "caller",
        "request_id": s.request_id(),
    }
    given = {k: v for k, v in {**plain, **more}.items() if v is not None}
    response = s.call("StartNexusOperationExecution", **given)
    return response.run_id if response else ""


def started(s: Session, short: str = "o", **more: Any) -> Any:
    """Creates an endpoint and starts an operation; returns the handler's task."""
    endpoint(s)
    begun = begin_poll(s)
    start(s, short, **more)
    return taken(s, begun)


def about(s: Session, rpc: str, short: str = "o", **more: Any) -> Any:
    """A call about an operation."""
    return s.call(f"{rpc}NexusOperationExecution", **{"operation_id": s.name(short), **more})


def describe(s: Session, short: str = "o", **more: Any) -> Any:
    """Describes an operation with everything there is."""
    return about(s, "Describe", short, **{"include_input": True, "include_outcome": True, **more})


def outcome(s: Session, short: str = "o", stage: str = "", **more: Any) -> Any:
    """Waits for the end of an operation, or for its start."""
    wanted = {"wait_stage": f"{STAGE}{stage}"} if stage else {}
    return about(s, "Poll", short, **{"deadline": PATIENCE, **wanted, **more})


def cancel(s: Session, short: str = "o", **more: Any) -> None:
    """Requests cancellation."""
    given = {"identity": "canceller", "reason": "no need", "request_id": s.request_id(), **more}
    about(s, "RequestCancel", short, **given)


def terminate(s: Session, short: str = "o", **more: Any) -> None:
    """Terminates an operation."""
    given = {"identity": "terminator", "reason": "enough", "request_id": s.request_id(), **more}
    about(s, "Terminate", short, **given)


def wait_described(s: Session, test: Any, short: str = "o") -> Any:
    """Waits, unrecorded, until the description of an operation satisfies the test."""
    end = time.monotonic() + PATIENCE
    while True:
        described = s.silent("DescribeNexusOperationExecution", operation_id=s.name(short))
        if test(described.info):
            return described
        if time.monotonic() > end:
            raise Stopped("the awaited description did not come")
        time.sleep(0.05)


def start_handler(s: Session, task: Any, wf: str = "h", **more: Any) -> str:
    """Starts the workflow that carries out an operation, with the callback of the task; returns its run id."""
    callbacks = [callback_of(task)]
    return s.start(wf, "hq", completion_callbacks=callbacks, request_id=task.request.start_operation.request_id, **more)


@scenario
def completed(s: Session) -> None:
    """Started, described, taken, completed at once, waited for, described."""
    task = started(
        s,
        input=payload("in"),
        nexus_header={"Own": "v"},
        user_metadata=metadata("summary", "details"),
        schedule_to_close_timeout=seconds(60),
        schedule_to_start_timeout=seconds(50),
        start_to_close_timeout=seconds(40),
    )
    describe(s)
    succeed(s, task, "out")
    outcome(s)
    outcome(s, stage="STARTED")
    describe(s)
    about(s, "Describe")
    succeed(s, task, "again")


@scenario
def minimal(s: Session) -> None:
    """Only what must be given; no result."""
    endpoint(s)
    begun = begin_poll(s)
    run = start(s, identity=None, request_id=None)
    task = taken(s, begun)
    succeed(s, task)
    outcome(s, run_id=run)
    describe(s, run_id=run)


@scenario
def by_workflow(s: Session) -> None:
    """A workflow carries it out; waiting for the start and for the end."""
    task = started(s)
    run = start_handler(s, task)
    begin(s, task, links=[link_to(s, "h", run)])
    outcome(s, stage="STARTED")
    describe(s)
    s.describe("h")
    s.run_task(complete("out"), queue="hq")
    outcome(s)
    wait_callbacks(s)
    s.describe("h")
    describe(s)


@scenario
def completed_before_the_answer(s: Session) -> None:
    """The callback comes before the handler's answer, which is accepted and changes nothing."""
    task = started(s)
    start_handler(s, task)
    s.run_task(complete("out"), queue="hq")
    outcome(s)
    describe(s)
    begin(s, task)
    begin(s, task)


@scenario
def workflow_fails(s: Session) -> None:
    """The workflow that carries it out fails."""
    task = started(s)
    start_handler(s, task)
    begin(s, task)
    s.run_task({"command_type": "COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION",
                "fail_workflow_execution_command_attributes": {"failure": failure()}}, queue="hq")
    outcome(s)
    describe(s)


@scenario
def workflow_is_terminated(s: Session) -> None:
    """The workflow that carries it out is terminated."""
    task = started(s)
    start_handler(s, task)
    begin(s, task)
    s.terminate("h")
    outcome(s)


@scenario
def operation_fails(s: Session) -> None:
    """The handler says that the operation failed, in the older form and in the newer one."""
    task = started(s)
    error = {"operation_state": "failed", "failure": {"message": "older"}}
    fail_operation(s, task, operation_error=error)
    outcome(s)
    describe(s)
    begun = begin_poll(s)
    start(s, "p")
    fail_operation(s, taken(s, begun), failure=failure("newer"))
    outcome(s, "p")
    describe(s, "p")


@scenario
def operation_is_canceled(s: Session) -> None:
    """The handler says that the operation was canceled, in the older form and in the newer one."""
    task = started(s)
    error = {"operation_state": "canceled", "failure": {"message": "older"}}
    fail_operation(s, task, operation_error=error)
    outcome(s)
    describe(s)
    begun = begin_poll(s)
    start(s, "p")
    fail_operation(s, taken(s, begun), failure={"message": "newer", "canceled_failure_info": {}})
    outcome(s, "p")
    describe(s, "p")


@scenario
def handler_fails_for_good(s: Session) -> None:
    """An error of the handler that is not retried."""
    task = started(s)
    fail(s, task, failure=handler_failure("BAD_REQUEST", "no such thing"))
    outcome(s)
    describe(s)


@scenario
def handler_is_tried_again(s: Session) -> None:
    """An error of the handler, the description meanwhile, the next attempt."""
    task = started(s)
    fail(s, task, failure=handler_failure())
    wait_described(s, lambda info: info.attempt == 1)
    describe(s)
    task = poll(s)
    describe(s)
    succeed(s, task, "out")
    describe(s)


@scenario
def timed_out_waiting(s: Session) -> None:
    """No worker answers in time: schedule-to-start."""
    started(s, schedule_to_start_timeout=seconds(2))
    outcome(s)
    describe(s)


@scenario
def timed_out_as_a_whole(s: Session) -> None:
    """It does not end in time: schedule-to-close."""
    task = started(s, schedule_to_close_timeout=seconds(3))
    begin(s, task)
    outcome(s)
    describe(s)


@scenario
def timed_out_running(s: Session) -> None:
    """It does not end in time: start-to-close."""
    task = started(s, start_to_close_timeout=seconds(1))
    begin(s, task)
    outcome(s)
    describe(s)


@scenario
def cancelled(s: Session) -> None:
    """The handler accepts the request to cancel; the operation goes on until it ends."""
    task = started(s, nexus_header={"own": "v"})
    start_handler(s, task)
    begin(s, task)
    outcome(s, stage="STARTED")
    begun = begin_poll(s)
    cancel(s, request_id="c1")
    cancel(s, request_id="c1")
    cancel(s, request_id="c2")
    accept_cancel(s, taken(s, begun))
    wait_described(s, lambda info: info.cancellation_info.attempt == 1)
    describe(s)
    s.cancel("h")
    s.run_task({"command_type": "COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION",
                "cancel_workflow_execution_command_attributes": {}}, queue="hq")
    outcome(s)
    describe(s)
    cancel(s, request_id="c1")
    cancel(s, request_id="c2")


@scenario
def cancelled_before_it_starts(s: Session) -> None:
    """The request waits until the handler has answered with a token."""
    task = started(s)
    cancel(s)
    describe(s)
    begun = begin_poll(s)
    begin(s, task)
    accept_cancel(s, taken(s, begun))
    wait_described(s, lambda info: info.cancellation_info.attempt == 1)
    describe(s)


@scenario
def cancel_is_refused(s: Session) -> None:
    """The handler refuses the request to cancel for good."""
    task = started(s)
    begin(s, task)
    outcome(s, stage="STARTED")
    begun = begin_poll(s)
    cancel(s, reason=None)
    fail(s, taken(s, begun), failure=handler_failure("NOT_FOUND", "who"))
    wait_described(s, lambda info: info.cancellation_info.attempt == 1)
    describe(s)


@scenario
def cancel_is_tried_again(s: Session) -> None:
    """The handler fails to cancel, and is asked again."""
    task = started(s)
    begin(s, task)
    outcome(s, stage="STARTED")
    begun = begin_poll(s)
    cancel(s)
    fail(s, taken(s, begun), failure=handler_failure())
    wait_described(s, lambda info: info.cancellation_info.attempt == 1)
    describe(s)
    accept_cancel(s, poll(s))


@scenario
def terminated(s: Session) -> None:
    """Ended at once; again with the same request, with another one, and after it completed."""
    task = started(s)
    terminate(s, request_id="t1")
    outcome(s)
    describe(s)
    terminate(s, request_id="t1")
    terminate(s, request_id="t2")
    cancel(s)
    succeed(s, task)
    begun = begin_poll(s)
    start(s, "p")
    succeed(s, taken(s, begun))
    outcome(s, "p")
    terminate(s, "p")
    cancel(s, "p")


@scenario
def terminated_while_it_runs(s: Session) -> None:
    """Ended while a workflow carries it out, whose callback comes too late."""
    task = started(s)
    start_handler(s, task)
    begin(s, task)
    outcome(s, stage="STARTED")
    terminate(s, reason=None)
    outcome(s)
    describe(s)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.describe("h")
