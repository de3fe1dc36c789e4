"""Batch operations by list and by query, with what operations may say beyond the least."""

from __future__ import annotations

from ..build import Fields, complete, failure, payloads, retry
from ..harness import Session
from . import scenario
from .batches import CANCEL, batch, of, own_namespace, query


@scenario
def cancel_by_query(s: Session) -> None:
    """Only what runs is cancelled."""
    own_namespace(s)
    for wf in ["wf-1", "wf-2"]:
        s.start(wf)
    s.terminate("wf-2")
    batch(s, visibility_query=query(s), **CANCEL)
    s.history("wf-1")
    s.history("wf-2")


@scenario
def delete_by_list(s: Session) -> None:
    """Open, closed, unknown."""
    own_namespace(s)
    s.start("wf-1")
    s.start("wf-2")
    s.terminate("wf-2")
    batch(s, executions=of(s, "wf-1", "wf-2", "nobody"), deletion_operation={"identity": "operator"})


@scenario
def signal_by_list(s: Session) -> None:
    """Open, closed, unknown."""
    own_namespace(s)
    s.start("wf-1")
    s.start("wf-2")
    s.terminate("wf-2")
    batch(s, executions=of(s, "wf-1", "wf-2", "nobody"), signal_operation={"signal": "sig"})
    s.history("wf-1")


@scenario
def reset_by_query(s: Session) -> None:
    """Closed ones are reset as well."""
    own_namespace(s)
    s.begun()
    s.signal()
    s.run_task(complete("done"))
    reset = {"identity": "operator", "options": {"first_workflow_task": {}}}
    batch(s, visibility_query=query(s), reset_operation=reset)
    s.history()


@scenario
def reset_and_change_options(s: Session) -> None:
    """Operations after a reset."""
    own_namespace(s)
    s.begun()
    options = {"workflow_execution_options": {"priority": {"priority_key": 4}}, "update_mask": {"paths": ["priority"]}}
    reset: Fields = {
        "identity": "operator",
        "options": {"first_workflow_task": {}},
        "post_reset_operations": [{"update_workflow_options": options}],
    }
    batch(s, executions=of(s, "wf"), reset_operation=reset)
    s.history()


@scenario
def reset_and_signal(s: Session) -> None:
    """A signal after a reset."""
    own_namespace(s)
    s.begun()
    reset: Fields = {
        "options": {"first_workflow_task": {}},
        "post_reset_operations": [{"signal_workflow": {"signal_name": "after"}}],
    }
    batch(s, executions=of(s, "wf"), reset_operation=reset)
    s.history()


@scenario
def options_by_query(s: Session) -> None:
    """Of open ones."""
    own_namespace(s)
    s.start()
    operation = {
        "workflow_execution_options": {"priority": {"priority_key": 5, "fairness_key": "k", "fairness_weight": 2.0}},
        "update_mask": {"paths": ["priority.fairness_key", "priority.fairness_weight"]},
    }
    batch(s, visibility_query=query(s), update_workflow_options_operation=operation)
    s.history()


@scenario
def unpause_with_resets(s: Session) -> None:
    """Attempts and heartbeats begin again."""
    own_namespace(s)
    s.begun(s.activity(retry_policy=retry(60)))
    task = s.poll_activity()
    s.heartbeat(task, "far")
    s.fail_activity(task, failure())
    s.call("PauseActivity", execution=s.execution(), identity="operator", id="a", reason="look")
    operation = {"identity": "operator", "match_all": True, "reset_attempts": True, "reset_heartbeat": True}
    batch(s, executions=of(s, "wf"), unpause_activities_operation=operation)
    s.describe()


@scenario
def unpause_nothing(s: Session) -> None:
    """What is not paused stays as it is."""
    own_namespace(s)
    s.begun(s.activity())
    batch(s, executions=of(s, "wf"), unpause_activities_operation={"identity": "operator", "match_all": True})
    batch(s, "job-2", executions=of(s, "wf"), unpause_activities_operation={"type": "other"})
    s.describe()


@scenario
def reset_activities_of_all(s: Session) -> None:
    """All of them, with heartbeats, kept paused."""
    own_namespace(s)
    s.begun(s.activity(retry_policy=retry(60)))
    task = s.poll_activity()
    s.heartbeat(task, "far")
    s.fail_activity(task, failure())
    s.call("PauseActivity", execution=s.execution(), identity="operator", id="a", reason="look")
    operation = {"match_all": True, "reset_heartbeat": True, "keep_paused": True, "reset_attempts": True}
    batch(s, executions=of(s, "wf"), reset_activities_operation=operation)
    s.describe()


@scenario
def update_activities_by_type(s: Session) -> None:
    """Only those of the type."""
    own_namespace(s)
    s.begun(s.activity())
    change = {
        "type": "act",
        "activity_options": {"task_queue": {"name": s.name("q2")}, "start_to_close_timeout": {"seconds": 77}},
        "update_mask": {"paths": ["task_queue.name", "start_to_close_timeout"]},
    }
    batch(s, executions=of(s, "wf"), update_activity_options_operation=change)
    s.describe()
    batch(s, "job-2", executions=of(s, "wf"), update_activity_options_operation={**change, "type": "other"})


@scenario
def many(s: Session) -> None:
    """Too many in one list."""
    own_namespace(s)
    some = [{"workflow_id": f"nobody-{number}"} for number in range(1001)]
    s.call("StartBatchOperation", job_id="j", reason="r", executions=some, **CANCEL)


@scenario
def rates(s: Session) -> None:
    """Odd limits."""
    own_namespace(s)
    batch(s, executions=of(s, "nobody"), max_operations_per_second=-1, **CANCEL)
    batch(s, "job-2", executions=of(s, "nobody"), max_operations_per_second=0.5, **CANCEL)


@scenario
def lists_refused(s: Session) -> None:
    """Pages that are none."""
    own_namespace(s)
    s.call("ListBatchOperations", page_size=-1)
    s.call("ListBatchOperations", page_size=5000)
    s.call("StopBatchOperation", job_id="x", reason="r" * 1001)


@scenario
def payloads_kept(s: Session) -> None:
    """What an operation carries is told."""
    own_namespace(s)
    s.start()
    batch(s, executions=of(s, "wf"), termination_operation={"details": payloads("d")})
    s.history()
