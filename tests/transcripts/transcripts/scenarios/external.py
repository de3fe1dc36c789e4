"""Signals and cancel requests between workflows."""

from __future__ import annotations

from ..build import Fields, command, complete, fields, payloads
from ..harness import Session
from . import scenario


def signal_external(s: Session, wf: str = "target", run: str = "", **more: object) -> Fields:
    """A SignalExternalWorkflowExecution command."""
    given = {"execution": s.execution(wf, run), "signal_name": "hi", "input": payloads(1)}
    return command("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", **{**given, **more})


def cancel_external(s: Session, wf: str = "target", run: str = "", **more: object) -> Fields:
    """A RequestCancelExternalWorkflowExecution command."""
    given = {"workflow_id": s.name(wf), "run_id": run}
    return command("REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION", **{**given, **more})


@scenario
def signal(s: Session) -> None:
    """A signal to another workflow: initiated, signaled; the target's event."""
    s.start("target", queue="other")
    s.begun(signal_external(s, control="ctl", header=fields(h=1)))
    s.wait_event("external_workflow_execution_signaled")
    s.history()
    s.history("target")
    s.poll()


@scenario
def signal_unknown(s: Session) -> None:
    """A signal to a workflow that does not exist."""
    s.begun(signal_external(s))
    s.wait_event("signal_external_workflow_execution_failed")
    s.history()


@scenario
def signal_closed(s: Session) -> None:
    """A signal to a closed workflow."""
    s.start("target", queue="other")
    s.run_task(complete(), queue="other")
    s.begun(signal_external(s))
    s.wait_event("signal_external_workflow_execution_failed")
    s.history()


@scenario
def signal_self(s: Session) -> None:
    """A workflow signals itself."""
    s.begun(signal_external(s, "wf"))
    s.wait_event("workflow_task_scheduled", count=2)
    s.history()


@scenario
def signal_not_child(s: Session) -> None:
    """child_workflow_only to a workflow that is not a child."""
    s.start("target", queue="other")
    s.begun(signal_external(s, child_workflow_only=True))
    s.wait_event("signal_external_workflow_execution_failed")
    s.history()


@scenario
def cancel(s: Session) -> None:
    """A cancel request to another workflow."""
    s.start("target", queue="other")
    s.begun(cancel_external(s, control="ctl", reason="please"))
    s.wait_event("external_workflow_execution_cancel_requested")
    s.history()
    s.history("target")


@scenario
def cancel_unknown(s: Session) -> None:
    """A cancel request to a workflow that does not exist."""
    s.begun(cancel_external(s))
    s.wait_event("request_cancel_external_workflow_execution_failed")
    s.history()


@scenario
def cancel_closed(s: Session) -> None:
    """A cancel request to a closed workflow."""
    s.start("target", queue="other")
    s.run_task(complete(), queue="other")
    s.begun(cancel_external(s))
    s.wait_event("workflow_task_scheduled", count=2)
    s.history()


@scenario
def cancel_self(s: Session) -> None:
    """A workflow asks to cancel itself."""
    s.begun(cancel_external(s, "wf"))
    s.wait_event("workflow_task_scheduled", count=2)
    s.history()


@scenario
def cancel_not_child(s: Session) -> None:
    """child_workflow_only to a workflow that is not a child."""
    s.start("target", queue="other")
    s.begun(cancel_external(s, child_workflow_only=True))
    s.wait_event("request_cancel_external_workflow_execution_failed")
    s.history()
