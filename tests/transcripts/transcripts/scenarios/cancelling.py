"""Cancel, terminate, delete."""

from __future__ import annotations

import time

import grpc

from ..build import command, complete, payloads, seconds
from ..harness import Session
from . import scenario


@scenario
def cancel(s: Session) -> None:
    """A cancel request writes an event with its reason and makes a task."""
    s.begun()
    s.cancel(reason="please")
    s.history()
    s.describe()


@scenario
def cancel_twice(s: Session) -> None:
    """A second request, of the same and another request id."""
    s.begun()
    same = s.request_id()
    s.cancel(request_id=same)
    s.cancel(request_id=same)
    s.cancel()
    s.history()


@scenario
def cancel_closed(s: Session) -> None:
    """Cancelling a closed workflow."""
    run = s.begun(complete())
    s.cancel()
    s.cancel(run=run)
    s.history()


@scenario
def cancel_unknown(s: Session) -> None:
    """Cancelling what does not exist, and invalid requests."""
    s.cancel()
    s.cancel(run="bad")
    s.cancel(workflow_execution=None)
    s.cancel(workflow_execution={"workflow_id": ""})
    s.start()
    s.cancel(run="11111111-2222-4333-8444-555555555555")
    s.cancel(first_execution_run_id="11111111-2222-4333-8444-555555555555")
    s.cancel(first_execution_run_id="bad")


@scenario
def cancel_before_first_task(s: Session) -> None:
    """A cancel request before the first task started."""
    s.start()
    s.cancel()
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION"))
    s.history()


@scenario
def cancel_ignored(s: Session) -> None:
    """A workflow may complete in spite of a cancel request."""
    s.begun()
    s.cancel()
    s.run_task(complete("anyway"))
    s.history()
    s.describe()


@scenario
def terminate(s: Session) -> None:
    """Termination with reason, details and identity."""
    s.begun()
    s.terminate(reason="because", details=payloads("d", 1), identity="someone")
    s.history()
    s.describe()


@scenario
def terminate_bare(s: Session) -> None:
    """Termination without reason, identity; the first task was only scheduled."""
    s.start()
    s.terminate(reason="", identity="")
    s.history()


@scenario
def terminate_twice(s: Session) -> None:
    """A second termination."""
    run = s.start()
    s.terminate()
    s.terminate()
    s.terminate(run=run)


@scenario
def terminate_unknown(s: Session) -> None:
    """Terminating what does not exist, and invalid requests."""
    s.terminate()
    s.terminate(run="bad")
    s.terminate(workflow_execution=None)
    s.terminate(workflow_execution={"workflow_id": ""})
    s.start()
    s.terminate(run="11111111-2222-4333-8444-555555555555")
    s.terminate(first_execution_run_id="11111111-2222-4333-8444-555555555555")
    s.terminate(first_execution_run_id="bad")
    s.history()


@scenario
def terminate_first_run_id(s: Session) -> None:
    """Termination guarded by the right first run id."""
    run = s.start()
    s.terminate(first_execution_run_id=run)
    s.history()


@scenario
def terminate_started_task(s: Session) -> None:
    """Termination while a task is started fails that task."""
    s.start()
    task = s.poll()
    s.terminate()
    s.history()
    s.fail_task(task)


@scenario
def terminate_started_transient(s: Session) -> None:
    """Termination while a transient task is started leaves no trace of it."""
    s.start()
    s.fail_task(s.poll())
    s.poll()
    s.terminate()
    s.history()


@scenario
def terminate_with_pending(s: Session) -> None:
    """Termination with a pending activity and timer."""
    s.begun(s.activity(), command("START_TIMER", timer_id="t", start_to_fire_timeout=seconds(60)))
    s.poll_activity()
    s.terminate()
    s.history()
    s.describe()


@scenario
def delete_running(s: Session) -> None:
    """Deleting a running workflow: afterwards it is gone."""
    s.start()
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution())
    gone(s)
    s.describe()
    s.history()
    s.signal()


@scenario
def delete_unknown(s: Session) -> None:
    """Deleting what does not exist, and invalid requests."""
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution())
    s.call("DeleteWorkflowExecution")
    s.call("DeleteWorkflowExecution", workflow_execution={"workflow_id": ""})
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution(run="bad"))


def gone(s: Session, run: str = "") -> None:
    """Waits, unrecorded, until the workflow, or the run, cannot be described."""
    for _ in range(600):
        try:
            s.silent("DescribeWorkflowExecution", execution=s.execution(run=run))
        except grpc.RpcError:
            return
        time.sleep(0.1)


@scenario
def closed_with_wrong_first_run(s: Session) -> None:
    """That the current run is closed is told before its first run id is compared."""
    s.begun(complete())
    wrong = "11111111-2222-4333-8444-555555555555"
    s.terminate(first_execution_run_id=wrong)
    s.terminate(run=wrong, first_execution_run_id=wrong)
    s.cancel(first_execution_run_id=wrong)
    s.signal()
    s.terminate()
    s.cancel()
