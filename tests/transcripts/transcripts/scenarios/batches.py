"""Batch operations: what is refused, what each operation does, how jobs are described, listed and stopped."""

from __future__ import annotations

import time
from typing import Any

import grpc

from ..build import Fields, failure, fields, payloads, retry
from ..harness import Session, Stopped
from . import scenario

RUNNING = 1
# The real server looks at new namespaces once a second, and starts a worker of its own for each; lists lag behind, too.
REFRESH = 2.5


def own_namespace(s: Session) -> None:
    """Only one job of a namespace may be open: each scenario has a namespace of its own."""
    s.namespace = s.new_namespace()
    time.sleep(REFRESH)


def batch(s: Session, job: str = "job", wait: bool = True, **more: Any) -> Any:
    """Starts a job, waits for its end and describes it."""
    plain: Fields = {"job_id": s.name(job), "reason": "because"}
    answer = s.call("StartBatchOperation", **{**plain, **more})
    if answer is not None and wait:
        ended(s, job)
        s.call("DescribeBatchOperation", job_id=s.name(job))
    return answer


def ended(s: Session, job: str = "job", patience: float = 25) -> None:
    """Waits, unrecorded, until a job has ended."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            if s.silent("DescribeBatchOperation", job_id=s.name(job)).state != RUNNING:
                return
        except grpc.RpcError:
            pass
        time.sleep(0.1)
    raise Stopped(f"{job} does not end")


def of(s: Session, *wfs: str) -> list[Fields]:
    """Workflows, by id."""
    return [s.execution(wf) for wf in wfs]


def query(s: Session, prefix: str = "wf") -> str:
    """A filter that finds the workflows of this playing; waits until a list shows what was just done."""
    time.sleep(1)
    return f"WorkflowId STARTS_WITH '{prefix}' AND TaskQueue = '{s.name('q')}'"


TERMINATE: Fields = {"termination_operation": {"identity": "operator"}}
CANCEL: Fields = {"cancellation_operation": {"identity": "operator"}}


@scenario
def start_refused(s: Session) -> None:
    """What a job must have."""
    call = "StartBatchOperation"
    some: Fields = {"executions": [{"workflow_id": "a"}]}
    s.call(call)
    s.call(call, namespace="")
    s.call(call, namespace="no-such-namespace")
    s.call(call, job_id="j", reason="r", **TERMINATE)
    s.call(call, job_id="j", visibility_query="WorkflowId='a'", **TERMINATE)
    s.call(call, job_id="j", visibility_query="WorkflowId='a'", reason="r")
    s.call(call, visibility_query="WorkflowId='a'", reason="r", **TERMINATE)
    s.call(call, job_id="j", reason="r", visibility_query="WorkflowId='a'", **some, **TERMINATE)
    target = {"type": "EXECUTION_TYPE_WORKFLOW", "business_id": "a"}
    s.call(call, job_id="j", reason="r", target_executions=[target], **some, **TERMINATE)
    s.call(call, job_id="j", reason="r", target_executions=[target, {"business_id": "a"}], **TERMINATE)
    target = {"type": "EXECUTION_TYPE_ACTIVITY", "business_id": "a"}
    s.call(call, job_id="j", reason="r", target_executions=[target], **CANCEL)


@scenario
def operations_refused(s: Session) -> None:
    """What operations must have."""
    named: Fields = {"job_id": "j", "reason": "r", "executions": [{"workflow_id": "a"}]}
    for operation in [
        {"signal_operation": {}},
        {"reset_operation": {}},
        {"reset_operation": {"options": {}}},
        {"reset_operation": {"reset_type": 9}},
        {"update_workflow_options_operation": {}},
        {"update_workflow_options_operation": {"workflow_execution_options": {}}},
        {"unpause_activities_operation": {}},
        {"unpause_activities_operation": {"type": ""}},
        {"unpause_activities_operation": {"match_all": False}},
        {"reset_activities_operation": {}},
        {"reset_activities_operation": {"type": ""}},
        {"reset_activities_operation": {"match_all": False}},
        {"update_activity_options_operation": {}},
        {"update_activity_options_operation": {"activity_options": {}, "restore_original": True}},
        {"update_activity_options_operation": {"activity_options": {}, "type": ""}},
        {"update_activity_options_operation": {"activity_options": {}, "match_all": False}},
    ]:
        s.call("StartBatchOperation", **named, **operation)


@scenario
def queries_refused(s: Session) -> None:
    """What is no SQL is refused at once."""
    for text in ["()", "WorkflowId=", 'Workf( "x"', 'WorkflowId="a', 'WorkflowId = "a" AND', "AND", "= 'a'"]:
        s.call("StartBatchOperation", job_id="j", reason="r", visibility_query=text, **CANCEL)


@scenario
def queries_that_fail(s: Session) -> None:
    """What is SQL and no filter makes a job that fails."""
    own_namespace(s)
    for number, text in enumerate(["Bogus = 'x'", "foo", "StartTime > 'x'", "WorkflowId = 'a' ORDER BY StartTime"]):
        batch(s, f"job-{number}", visibility_query=text, **CANCEL)
        time.sleep(0.5)


@scenario
def jobs_not_found(s: Session) -> None:
    """Jobs that do not exist, or are not named."""
    s.call("DescribeBatchOperation")
    s.call("DescribeBatchOperation", job_id=s.name("nobody"))
    s.call("DescribeBatchOperation", job_id="x", namespace="no-such-namespace")
    s.call("StopBatchOperation")
    s.call("StopBatchOperation", job_id=s.name("nobody"))
    s.call("StopBatchOperation", job_id=s.name("nobody"), reason="enough")
    s.call("ListBatchOperations", namespace="no-such-namespace")


@scenario
def terminate(s: Session) -> None:
    """By list: one that runs, one that is closed, one that does not exist, two that are none."""
    own_namespace(s)
    for wf in ["wf-1", "wf-2"]:
        s.start(wf)
    s.terminate("wf-2")
    bad = [{"workflow_id": ""}, {"workflow_id": s.name("wf-1"), "run_id": "x"}]
    batch(s, executions=[*of(s, "wf-1", "wf-2", "nobody"), *bad], **TERMINATE)
    s.history("wf-1")
    s.call("ListBatchOperations")


@scenario
def terminate_by_query(s: Session) -> None:
    """By query: only what runs is found."""
    own_namespace(s)
    for wf in ["wf-1", "wf-2", "wf-3"]:
        s.start(wf)
    s.terminate("wf-3")
    batch(s, visibility_query=query(s), termination_operation={"identity": "operator", "details": payloads("d")})
    s.history("wf-1")
    s.history("wf-3")


@scenario
def target_executions(s: Session) -> None:
    """The newer way to list."""
    own_namespace(s)
    s.start()
    target = {"type": "EXECUTION_TYPE_WORKFLOW", "business_id": s.name("wf")}
    batch(s, target_executions=[target], **TERMINATE)
    s.history()


@scenario
def cancel(s: Session) -> None:
    """Cancellation of one that runs and one that is closed."""
    own_namespace(s)
    s.start("wf-1")
    s.start("wf-2")
    s.terminate("wf-2")
    batch(s, executions=of(s, "wf-1", "wf-2"), **CANCEL)
    s.history("wf-1")


@scenario
def signal(s: Session) -> None:
    """A signal with input and header."""
    own_namespace(s)
    s.start("wf-1")
    s.start("wf-2")
    operation = {"signal": "sig", "input": payloads(1), "header": fields(h="x"), "identity": "operator"}
    batch(s, visibility_query=query(s), signal_operation=operation)
    s.history("wf-1")


@scenario
def delete(s: Session) -> None:
    """Deletes what is found, closed ones as well."""
    own_namespace(s)
    s.start("wf-1")
    s.start("wf-2")
    s.terminate("wf-2")
    batch(s, visibility_query=query(s), deletion_operation={"identity": "operator"})


@scenario
def reset_to_first(s: Session) -> None:
    """Resets to the first workflow task, in both ways to say so."""
    own_namespace(s)
    s.begun()
    s.signal()
    s.run_task()
    batch(s, executions=of(s, "wf"), reset_operation={"identity": "operator", "reset_type": 1})
    s.history()
    target = {"first_workflow_task": {}}
    batch(s, "job-2", executions=of(s, "wf"), reset_operation={"identity": "operator", "options": target})
    s.history()


@scenario
def reset_to_last(s: Session) -> None:
    """Resets to the last workflow task, without signals."""
    own_namespace(s)
    s.begun()
    s.signal("one")
    s.run_task()
    s.signal("two")
    options = {"last_workflow_task": {}, "reset_reapply_exclude_types": ["RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL"]}
    batch(s, executions=of(s, "wf"), reset_operation={"identity": "operator", "options": options})
    s.history()


@scenario
def reset_refused(s: Session) -> None:
    """What cannot be reset counts as a failure."""
    own_namespace(s)
    s.begun()
    options = {"workflow_task_id": 99}
    batch(s, executions=of(s, "wf"), reset_operation={"identity": "operator", "options": options})
    batch(s, "job-2", executions=of(s, "wf"), reset_operation={"options": {"build_id": "no-such-build"}})


@scenario
def update_options(s: Session) -> None:
    """Changes the priority of workflows."""
    own_namespace(s)
    s.start()
    operation = {
        "identity": "operator",
        "workflow_execution_options": {"priority": {"priority_key": 2}},
        "update_mask": {"paths": ["priority"]},
    }
    batch(s, executions=of(s, "wf"), update_workflow_options_operation=operation)
    s.history()
    s.describe()


@scenario
def unpause_activities(s: Session) -> None:
    """Resumes paused activities, all of them and by type."""
    own_namespace(s)
    s.begun(s.activity())
    s.call("PauseActivity", execution=s.execution(), identity="operator", id="a", reason="look")
    batch(s, executions=of(s, "wf"), unpause_activities_operation={"identity": "operator", "match_all": True})
    s.describe()
    s.call("PauseActivity", execution=s.execution(), identity="operator", id="a", reason="look")
    time.sleep(1)
    by_type = {"identity": "operator", "type": "act"}
    batch(s, "job-2", visibility_query="WorkflowType = 'any'", unpause_activities_operation=by_type)
    batch(s, "job-3", visibility_query="WorkflowType = 'wt'", unpause_activities_operation=by_type)
    s.describe()


@scenario
def reset_activities(s: Session) -> None:
    """Begins the attempts of activities again."""
    own_namespace(s)
    s.begun(s.activity(retry_policy=retry(60)))
    s.fail_activity(s.poll_activity(), failure())
    batch(s, executions=of(s, "wf"), reset_activities_operation={"identity": "operator", "type": "act"})
    task = s.poll_activity()
    s.complete_activity(task, "done")


@scenario
def update_activities(s: Session) -> None:
    """Changes options of activities; an operation that names none of them fails."""
    own_namespace(s)
    s.begun(s.activity())
    operation = {
        "identity": "operator",
        "match_all": True,
        "activity_options": {"heartbeat_timeout": {"seconds": 7}},
        "update_mask": {"paths": ["heartbeat_timeout"]},
    }
    batch(s, executions=of(s, "wf"), update_activity_options_operation=operation)
    s.describe()


@scenario
def names_of_jobs(s: Session) -> None:
    """A job's id cannot be used again, and cannot be too long."""
    own_namespace(s)
    batch(s, executions=[{"workflow_id": "nobody"}], **CANCEL)
    time.sleep(0.5)
    batch(s, executions=[{"workflow_id": "nobody"}], wait=False, **CANCEL)
    s.call("StopBatchOperation", job_id=s.name("job"), reason="enough", identity="operator")
    s.call("StartBatchOperation", job_id="j" * 1001, reason="r", executions=[{"workflow_id": "a"}], **CANCEL)


@scenario
def stop(s: Session) -> None:
    """While a job runs no other one starts; once it is stopped it is a failed one."""
    own_namespace(s)
    many = [{"workflow_id": f"nobody-{number}"} for number in range(400)]
    batch(s, wait=False, executions=many, max_operations_per_second=20, **CANCEL)
    time.sleep(0.5)
    batch(s, "other", wait=False, executions=many[:1], **CANCEL)
    s.call("ListBatchOperations")
    s.call("StopBatchOperation", job_id=s.name("job"), reason="enough", identity="operator")
    s.call("StopBatchOperation", job_id=s.name("job"), reason="enough", identity="operator")
    s.call("ListBatchOperations")


@scenario
def pages(s: Session) -> None:
    """A list of jobs in pages, last closed first."""
    own_namespace(s)
    for number in range(3):
        batch(s, f"job-{number}", executions=[{"workflow_id": "nobody"}], **CANCEL)
        time.sleep(0.7)
    token = b""
    for _ in range(3):
        page = s.call("ListBatchOperations", page_size=2, next_page_token=token)
        token = page.next_page_token if page else b""
        if not token:
            break
