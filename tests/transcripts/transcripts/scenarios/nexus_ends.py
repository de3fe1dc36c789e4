"""How the workflow that carries out an operation may end, and what its caller learns."""

from __future__ import annotations

from typing import Any

from ..build import command, complete, fail, failure, payload, payloads, retry, seconds
from ..harness import Session
from ..nexus import begin, called, endpoint, start_handler, wait_callbacks
from . import scenario


def handled(s: Session, **more: Any) -> str:
    """An operation that the workflow `h` carries out; returns its run id."""
    endpoint(s)
    task = called(s)
    run = start_handler(s, task, **more)
    begin(s, task)
    return run


def reported(s: Session, run: str = "") -> None:
    """What the caller has learned, and what became of the callback."""
    wait_callbacks(s, run=run)
    s.poll()
    s.describe("h", run)


def again(s: Session) -> Any:
    """The command that continues the handler's workflow as new."""
    queue = {"name": s.name("hq")}
    return command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"}, task_queue=queue)


@scenario
def failed(s: Session) -> None:
    """It fails."""
    handled(s)
    s.run_task(fail("sorry", details=payloads("d")), queue="hq")
    reported(s)


@scenario
def failed_with_cause(s: Session) -> None:
    """It fails with a failure that has a cause and a stack trace."""
    handled(s)
    why = {**failure("sorry", non_retryable=True), "stack_trace": "here", "cause": failure("deep", "Deep")}
    s.run_task(command("FAIL_WORKFLOW_EXECUTION", failure=why), queue="hq")
    reported(s)


@scenario
def failed_encoded(s: Session) -> None:
    """It fails with a failure whose message is encoded."""
    handled(s)
    why = {"message": "Encoded failure", "encoded_attributes": payload("secret"), "application_failure_info": {}}
    s.run_task(command("FAIL_WORKFLOW_EXECUTION", failure=why), queue="hq")
    reported(s)


@scenario
def failed_without_failure(s: Session) -> None:
    """It fails without saying why."""
    handled(s)
    s.run_task(command("FAIL_WORKFLOW_EXECUTION", failure={}), queue="hq")
    reported(s)


@scenario
def canceled(s: Session) -> None:
    """It is canceled, with details."""
    handled(s)
    s.cancel("h")
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION", details=payloads("d")), queue="hq")
    reported(s)


@scenario
def canceled_plainly(s: Session) -> None:
    """It is canceled, without details."""
    handled(s)
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION"), queue="hq")
    reported(s)


@scenario
def terminated(s: Session) -> None:
    """It is terminated."""
    handled(s)
    s.terminate("h", details=payloads("d"))
    reported(s)


@scenario
def replaced(s: Session) -> None:
    """It is terminated by the start of another run."""
    run = handled(s)
    s.start("h", "hq", workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING")
    reported(s, run)


@scenario
def timed_out(s: Session) -> None:
    """It times out."""
    handled(s, workflow_run_timeout=seconds(2))
    reported(s)


@scenario
def completed_with_odd_payload(s: Session) -> None:
    """Its result has further metadata."""
    handled(s)
    odd = {"metadata": {"encoding": b"own/kind", "k": b"v"}, "data": b"\x00\x01"}
    s.run_task(command("COMPLETE_WORKFLOW_EXECUTION", result={"payloads": [odd]}), queue="hq")
    reported(s)


@scenario
def continued(s: Session) -> None:
    """It continues as new; the next run reports."""
    first = handled(s)
    s.run_task(again(s), queue="hq")
    s.describe("h", first)
    s.run_task(complete("out"), queue="hq")
    reported(s)
    s.describe("h", first)
    s.history("h")


@scenario
def continued_before_start(s: Session) -> None:
    """It has continued as new and ended before the handler answers: the start links to the last run."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    s.run_task(again(s), queue="hq")
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.history()
    begin(s, task)


@scenario
def retried(s: Session) -> None:
    """It fails and is retried; the next attempt reports."""
    first = handled(s, retry_policy=retry(1))
    s.run_task(fail(), queue="hq")
    s.describe("h", first)
    s.run_task(complete("out"), queue="hq")
    reported(s)
    s.describe("h", first)


@scenario
def retries_exhausted(s: Session) -> None:
    """Its last attempt fails."""
    handled(s, retry_policy=retry(1, maximum_attempts=2))
    s.run_task(fail("first"), queue="hq")
    s.run_task(fail("second"), queue="hq")
    reported(s)


@scenario
def repeated(s: Session) -> None:
    """It has a cron schedule: its first run reports."""
    first = handled(s, cron_schedule="@every 1s")
    s.run_task(complete("out"), queue="hq")
    reported(s, first)
    s.terminate("h")
    s.describe("h")


@scenario
def failed_with_cron(s: Session) -> None:
    """It has a cron schedule, and its first run fails."""
    first = handled(s, cron_schedule="@every 1s")
    s.run_task(fail("sorry"), queue="hq")
    reported(s, first)
    s.terminate("h")
    s.describe("h")


@scenario
def reset(s: Session) -> None:
    """It is reset; the new run reports."""
    first = handled(s)
    s.run_task(queue="hq")
    s.reset(4, wf="h")
    s.describe("h", first)
    s.run_task(complete("out"), queue="hq")
    reported(s)
    s.describe("h", first)


@scenario
def reset_after_end(s: Session) -> None:
    """It is reset after it has reported; the new run has nothing to report to."""
    first = handled(s)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.reset(4, wf="h")
    s.run_task(complete("again"), queue="hq")
    wait_callbacks(s)
    s.describe("h", first)
    s.describe("h")
    s.poll()


@scenario
def too_large(s: Session) -> None:
    """Its result is large, but not too large for a workflow."""
    handled(s)
    big = {"metadata": {"encoding": b"binary/plain"}, "data": b"x" * (2 * 1024 * 1024 - 1000)}
    s.run_task(command("COMPLETE_WORKFLOW_EXECUTION", result={"payloads": [big]}), queue="hq")
    reported(s)
