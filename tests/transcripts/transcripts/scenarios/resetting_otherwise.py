"""Resets with operations that follow them, and with children."""

from __future__ import annotations

from ..build import Fields, complete
from ..harness import Session
from . import scenario


def options(**more: object) -> Fields:
    """Changes options after a reset."""
    changed = {"workflow_execution_options": more, "update_mask": {"paths": list(more)}}
    return {"update_workflow_options": changed}


@scenario
def two_operations(s: Session) -> None:
    """One after the other."""
    s.begun()
    s.reset(4, post_reset_operations=[options(priority={"priority_key": 2}), options(priority={"priority_key": 3})])
    s.history()
    s.describe()


@scenario
def operations_refused(s: Session) -> None:
    """What is no operation."""
    s.begun()
    s.reset(4, post_reset_operations=[{}])
    s.reset(4, post_reset_operations=[{"update_workflow_options": {"update_mask": {"paths": ["nothing"]}}}])
    s.reset(4, post_reset_operations=[options(priority={"priority_key": -1})])
    s.reset(4, post_reset_operations=[{"signal_workflow": {}}])


@scenario
def override_after_reset(s: Session) -> None:
    """A versioning override."""
    s.begun()
    s.reset(4, post_reset_operations=[options(versioning_override={"auto_upgrade": True})])
    s.history()


@scenario
def with_identity(s: Session) -> None:
    """Who asked is told."""
    s.begun()
    s.signal()
    s.reset(4, identity="operator", reason="why")
    s.run_task(complete("done"))
    s.history()
