"""DescribeWorkflowExecution."""

from __future__ import annotations

from ..build import complete, failure, fields, metadata, retry, seconds, timer
from ..harness import Session
from . import scenario


@scenario
def unknown(s: Session) -> None:
    """Unknown workflow and run, invalid requests."""
    s.describe()
    s.describe(run="11111111-2222-4333-8444-555555555555")
    s.describe(run="bad")
    s.call("DescribeWorkflowExecution")
    s.call("DescribeWorkflowExecution", execution={"workflow_id": ""})
    s.start()
    s.describe(run="11111111-2222-4333-8444-555555555555")


@scenario
def pending_task(s: Session) -> None:
    """A scheduled, a started and a second-attempt workflow task."""
    s.start()
    s.describe()
    task = s.poll()
    s.describe()
    s.fail_task(task)
    s.describe()
    s.poll()
    s.describe()


@scenario
def pending_activity(s: Session) -> None:
    """An activity scheduled, started, heartbeating, backing off."""
    s.begun(s.activity(retry_policy=retry(30, maximum_attempts=7), schedule_to_close_timeout=seconds(90)))
    s.describe()
    task = s.poll_activity()
    s.describe()
    s.heartbeat(task, "half")
    s.describe()
    s.fail_activity(task, failure("oops"))
    s.describe()


@scenario
def closed_statuses(s: Session) -> None:
    """Closed by completion and by termination; pending things are gone."""
    s.begun(s.activity(), timer("t", 60), complete())
    s.describe()
    s.start("wf-2", queue="q2")
    s.terminate("wf-2")
    s.describe("wf-2")


@scenario
def memo_and_metadata(s: Session) -> None:
    """Memo, user metadata and timeouts in the description."""
    s.start(
        memo=fields(m="x"),
        user_metadata=metadata("sum", "det"),
        workflow_execution_timeout=seconds(50),
        workflow_run_timeout=seconds(40),
        workflow_task_timeout=seconds(7),
        priority={"priority_key": 4},
    )
    s.describe()


@scenario
def after_signal_with_request_id(s: Session) -> None:
    """Request ids of starts are listed, those of signals perhaps."""
    s.begun()
    s.signal(request_id=s.request_id())
    s.describe()


@scenario
def buffered_request_id(s: Session) -> None:
    """A cancel-requested mark and a signal while the workflow task is started."""
    s.start()
    s.poll()
    s.signal(request_id=s.request_id())
    s.cancel()
    s.describe()
