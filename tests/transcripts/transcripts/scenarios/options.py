"""UpdateWorkflowExecutionOptions: priority and versioning override of a run that is under way."""

from __future__ import annotations

from typing import Any

from ..build import Fields, complete
from ..harness import Session
from . import scenario


def update(s: Session, *paths: str, wf: str = "wf", run: str = "", **options: Any) -> Any:
    """Changes options."""
    return s.call(
        "UpdateWorkflowExecutionOptions",
        workflow_execution=s.execution(wf, run),
        update_mask={"paths": list(paths)},
        workflow_execution_options=options,
        identity="operator",
    )


@scenario
def refused(s: Session) -> None:
    """What a change must have."""
    call = "UpdateWorkflowExecutionOptions"
    s.start()
    s.call(call)
    s.call(call, workflow_execution=s.execution())
    s.call(call, workflow_execution=s.execution(), update_mask={"paths": []})
    s.call(call, workflow_execution=s.execution(), workflow_execution_options={})
    s.call(call, workflow_execution=s.execution(), namespace="no-such-namespace")
    update(s, "bogus")
    update(s, "priority.fairnessWeight")
    update(s, "priority", priority={"priority_key": -1})
    update(s, "priority", priority={"fairness_key": "x" * 65})
    update(s, "priority", priority={"fairness_weight": -1})
    update(s, "time_skipping_config", time_skipping_config={})
    update(s, "priority", wf="nobody")
    update(s, "priority", run="x")
    s.terminate()
    update(s, "priority")


@scenario
def priority(s: Session) -> None:
    """Priorities as a whole and in parts; what changes nothing leaves no event."""
    s.start()
    update(s)
    update(s, "priority", priority={"priority_key": 9})
    update(s, "priority", priority={"priority_key": 2})
    update(s, "priority", priority={"priority_key": 2})
    update(s, "priority.fairness_key", priority={"priority_key": 4, "fairness_key": "key"})
    update(s, "priority.priority_key", "priority.fairness_weight", priority={"priority_key": 5, "fairness_weight": 2.5})
    s.describe()
    update(s, "priority")
    s.describe()
    update(s, "priority.priority_key")
    s.history()


@scenario
def priority_while_task_runs(s: Session) -> None:
    """An event for a run whose worker is at work waits, and makes a new workflow task."""
    s.start()
    task = s.poll()
    update(s, "priority", priority={"priority_key": 1})
    s.history()
    s.complete(task)
    s.history()
    s.run_task(complete())


@scenario
def override(s: Session) -> None:
    """Overrides that upgrade by themselves, set and taken back, in both spellings."""
    s.start()
    update(s, "versioning_override", versioning_override={"auto_upgrade": True})
    s.describe()
    update(s, "versioning_override", versioning_override={"auto_upgrade": True})
    update(s, "versioning_override", versioning_override={"behavior": "VERSIONING_BEHAVIOR_AUTO_UPGRADE"})
    update(s, "priority", priority={"priority_key": 3})
    update(s, "versioning_override")
    s.describe()
    update(s, "versioning_override")
    s.history()


@scenario
def override_refused(s: Session) -> None:
    """Overrides that cannot be."""
    s.start()
    version = {"deployment_name": "d", "build_id": "b"}
    pinned = "VERSIONING_BEHAVIOR_PINNED"
    upgrade = "VERSIONING_BEHAVIOR_AUTO_UPGRADE"
    wanted: list[Fields] = [
        {},
        {"auto_upgrade": False},
        {"pinned": {}},
        {"pinned": {"behavior": 1}},
        {"pinned": {"version": version}},
        {"pinned": {"behavior": 1, "version": version}},
        {"behavior": pinned},
        {"behavior": pinned, "pinned_version": "d.b"},
        {"behavior": pinned, "pinned_version": "db"},
        {"behavior": pinned, "deployment": {}},
        {"behavior": pinned, "deployment": {"series_name": "a.b"}},
        {"behavior": pinned, "deployment": {"series_name": "a"}},
        {"behavior": upgrade, "pinned_version": "d.b"},
        {"behavior": upgrade, "deployment": {"series_name": "d", "build_id": "b"}},
        {"behavior": 3},
    ]
    for one in wanted:
        update(s, "versioning_override", versioning_override=one)
    update(s, "versioning_override.behavior", versioning_override={"behavior": upgrade})
    update(s, "versioning_override.pinned", versioning_override={"auto_upgrade": True})
    s.history()


@scenario
def override_at_start(s: Session) -> None:
    """Overrides that come with a start."""
    s.start("wf-1", versioning_override={"behavior": "VERSIONING_BEHAVIOR_AUTO_UPGRADE"})
    s.history("wf-1")
    s.describe("wf-1")
    s.start("wf-2", versioning_override={})
    version = {"deployment_name": "d", "build_id": "b"}
    s.start("wf-3", versioning_override={"pinned": {"behavior": 1, "version": version}})
    s.signal_with_start(wf="wf-4", versioning_override={"auto_upgrade": False})
