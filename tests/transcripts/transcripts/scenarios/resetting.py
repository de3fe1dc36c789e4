"""ResetWorkflowExecution."""

from __future__ import annotations

from typing import Any

from ..build import complete
from ..harness import Session
from . import scenario


def reset(s: Session, event_id: int, run: str = "", **more: Any) -> Any:
    """Resets `wf` to the given workflow task event."""
    fields = {
        "workflow_execution": s.execution(run=run),
        "reason": "again",
        "workflow_task_finish_event_id": event_id,
        "request_id": s.request_id(),
        "identity": "caller",
    }
    return s.call("ResetWorkflowExecution", **{**fields, **more})


@scenario
def to_first_task(s: Session) -> None:
    """A running workflow reset to its first task: both histories."""
    first = s.begun()
    s.signal("kept")
    reset(s, 4, first)
    s.history(run=first)
    s.history()
    s.describe(run=first)
    s.describe()
    s.run_task(complete())


@scenario
def closed(s: Session) -> None:
    """A closed workflow is reset and runs again."""
    first = s.begun(complete())
    reset(s, 4, first)
    s.history(run=first)
    s.history()


@scenario
def without_signals(s: Session) -> None:
    """Signals are not reapplied if excluded."""
    first = s.begun()
    s.signal("lost")
    reset(s, 4, first, reset_reapply_exclude_types=["RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL"])
    s.history()


@scenario
def repeated(s: Session) -> None:
    """A reset of the first run repeated with its request id makes yet another run."""
    first = s.begun()
    same = s.request_id()
    reset(s, 4, first, request_id=same)
    reset(s, 4, first, request_id=same)


@scenario
def invalid(s: Session) -> None:
    """Resets that are refused."""
    reset(s, 4)
    s.begun()
    reset(s, 0)
    reset(s, 100)
    reset(s, 4, request_id="")
    reset(s, 4, "bad")
    reset(s, 4, workflow_execution=None)
