"""Workflow retries, cron, run and execution timeouts."""

from __future__ import annotations

from ..build import complete, fail, payloads, retry, seconds
from ..harness import Session
from . import scenario


@scenario
def retried(s: Session) -> None:
    """A failed run with a retry policy: its close event, the new run's event 1, its delayed task."""
    first = s.begun(fail("first"), retry_policy=retry(3), input=payloads("in"))
    s.history(run=first)
    s.history()
    s.describe(run=first)
    s.describe()
    s.run_task(complete())
    s.history()


@scenario
def retry_exhausted(s: Session) -> None:
    """After the last attempt the failure is final."""
    first = s.begun(fail("first"), retry_policy=retry(0.1, maximum_attempts=2))
    s.run_task(fail("second"))
    s.history(run=first)
    s.history()


@scenario
def not_retryable(s: Session) -> None:
    """A non-retryable failure, and a non-retryable type."""
    s.begun(fail("fatal", non_retryable=True), retry_policy=retry(1))
    s.history()
    s.start("wf-2", queue="q2", retry_policy=retry(1, non_retryable_error_types=["Fatal"]))
    s.run_task(fail("fatal", kind="Fatal"), queue="q2")
    s.history("wf-2")


@scenario
def retry_past_expiration(s: Session) -> None:
    """No retry past the execution timeout."""
    s.begun(fail("first"), retry_policy=retry(30), workflow_execution_timeout=seconds(10))
    s.history()


@scenario
def run_timeout(s: Session) -> None:
    """A run that times out: event, status."""
    s.start(workflow_run_timeout=seconds(1))
    s.wait_event("workflow_execution_timed_out")
    s.history()
    s.describe()


@scenario
def run_timeout_waiting(s: Session) -> None:
    """A run that times out with pending activity and no task."""
    s.begun(s.activity(), workflow_run_timeout=seconds(3))
    s.wait_event("workflow_execution_timed_out")
    s.history()


@scenario
def run_timeout_retried(s: Session) -> None:
    """A timed-out run with retry policy continues in a new run."""
    first = s.start(workflow_run_timeout=seconds(2), retry_policy=retry(3, maximum_attempts=2))
    s.wait_new_run(first)
    s.history(run=first)
    s.history()
    s.run_task(complete())


@scenario
def execution_timeout(s: Session) -> None:
    """Execution timeout ends the workflow, retry policy or not."""
    s.start(workflow_execution_timeout=seconds(2), retry_policy=retry(1))
    s.wait_event("workflow_execution_timed_out")
    s.history()
    s.describe()


@scenario
def retry_with_next_delay(s: Session) -> None:
    """A workflow failure's next_retry_delay."""
    first = s.begun(fail("first", next_retry_delay=seconds(5)), retry_policy=retry(30))
    s.history(run=first)
    s.history()


@scenario
def cron_first(s: Session) -> None:
    """A cron workflow's first run waits for its time."""
    s.start(cron_schedule="0 0 1 1 *")
    s.history()
    s.describe()
    s.terminate()
    s.history()


@scenario
def cron_next(s: Session) -> None:
    """Completion of a cron run starts the next one with the last result."""
    first = s.start(cron_schedule="@every 1s", input=payloads("in"))
    s.run_task(complete("r1"))
    second = s.wait_new_run(first)
    s.history(run=first)
    s.history(run=second)
    s.run_task(fail("oops"))
    third = s.wait_new_run(second)
    s.history(run=third)
    s.terminate()


@scenario
def cron_signal_during_wait(s: Session) -> None:
    """Signalling a cron workflow that waits for its time makes no task."""
    s.start(cron_schedule="0 0 1 1 *")
    s.signal()
    s.history()
    s.terminate()
