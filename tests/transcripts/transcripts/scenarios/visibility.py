"""Lists and counts. The real server lists what happened a little later, so every list is awaited first.

Not compared: filters that are refused (Segno says where and what was expected), equality of custom times and double
quotes inside single ones (the real server, on SQLite, finds nothing).
"""

from __future__ import annotations

import time
from typing import Any

from ..build import command, complete, fail, fields, payload, timer
from ..harness import Session
from . import scenario


def ours(s: Session, filter: str = "") -> str:
    """A filter for the runs of this scenario alone."""
    mine = f"TaskQueue = '{s.name('q')}'"
    return f"{mine} AND ({filter})" if filter else mine


def settled(s: Session, count: int, filter: str = "", patience: float = 15) -> None:
    """Waits until as many runs are listed."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if s.silent("CountWorkflowExecutions", query=ours(s, filter)).count == count:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{count} runs were not listed in time")


def listed(s: Session, filter: str = "", **more: Any) -> Any:
    """Lists runs of this scenario."""
    return s.call("ListWorkflowExecutions", query=ours(s, filter), **more)


def counted(s: Session, filter: str = "", group: str = "") -> Any:
    """Counts runs of this scenario."""
    return s.call("CountWorkflowExecutions", query=ours(s, filter) + (f" GROUP BY {group}" if group else ""))


def different(s: Session) -> None:
    """One run of each status that a caller can bring about in one turn."""
    s.start("wf-run")
    s.start("wf-done")
    s.start("wf-failed")
    s.start("wf-cancelled")
    s.start("wf-ended")
    answers = {
        "wf-done": complete("x"),
        "wf-failed": fail("oops"),
        "wf-cancelled": command("CANCEL_WORKFLOW_EXECUTION"),
    }
    for _ in range(5):
        task = s.poll()
        for name, answer in answers.items():
            if task.workflow_execution.workflow_id == s.name(name):
                s.complete(task, answer)
                # Distinct close times.
                time.sleep(0.02)
    s.terminate("wf-ended")
    settled(s, 4, "ExecutionStatus != 'Running'")


@scenario
def open_and_closed(s: Session) -> None:
    """Open runs come first, newest first; then closed ones, last closed first."""
    different(s)
    listed(s)
    s.start("wf-late")
    settled(s, 6)
    listed(s)


@scenario
def by_status(s: Session) -> None:
    """Status by name, by number, in lists, negated."""
    different(s)
    for filter in [
        "ExecutionStatus = 'Running'",
        "ExecutionStatus = \"Completed\"",
        "ExecutionStatus = 3",
        "ExecutionStatus != 'Running'",
        "ExecutionStatus IN ('Failed', 'Canceled')",
        "ExecutionStatus NOT IN ('Failed', 'Canceled')",
        "NOT ExecutionStatus = 'Terminated'",
        "`ExecutionStatus` = 'Terminated'",
        "ExecutionStatus > 'Running'",
    ]:
        counted(s, filter)


@scenario
def groups(s: Session) -> None:
    """Counts by status."""
    s.start("wf-1")
    s.start("wf-2")
    s.terminate("wf-2")
    settled(s, 1, "ExecutionStatus = 'Terminated'")
    s.start("wf-3")
    settled(s, 3)
    counted(s)
    counted(s, group="ExecutionStatus")
    counted(s, "ExecutionStatus = 'Running'", group="ExecutionStatus")
    counted(s, "WorkflowId = 'no such'", group="ExecutionStatus")


@scenario
def ids_and_types(s: Session) -> None:
    """Workflow ids, run ids, types: equal, unequal, prefixes, lists, ranges."""
    first = s.start("wf-a")
    s.start("wf-b", workflow_type={"name": "Other"})
    s.start("xx-c")
    settled(s, 3)
    a = s.name("wf-a")
    for filter in [
        f"WorkflowId = '{a}'",
        f"WorkflowId != '{a}'",
        f"WorkflowId IN ('{a}', 'no such')",
        f"WorkflowId NOT IN ('{a}')",
        "WorkflowId STARTS_WITH 'wf-'",
        "WorkflowId NOT STARTS_WITH 'wf-'",
        "WorkflowId starts_with 'xx'",
        f"RunId = '{first}'",
        f"RunId != '{first}'",
        "WorkflowType = 'Other'",
        "WorkflowType = 'other'",
        "WorkflowType <> 'Other'",
        "WorkflowType = 'Other' OR WorkflowId STARTS_WITH 'xx'",
        f"(WorkflowType = 'Other' OR WorkflowId STARTS_WITH 'xx') AND NOT WorkflowId = '{a}'",
        "WorkflowId BETWEEN 'w' AND 'x'",
        "WorkflowId > 'x'",
    ]:
        counted(s, filter)


@scenario
def times(s: Session) -> None:
    """Times as text and as numbers, durations, missing close times."""
    s.start("wf-1")
    s.start("wf-2")
    s.terminate("wf-2")
    settled(s, 1, "ExecutionStatus = 'Terminated'")
    for filter in [
        "StartTime > '2020-01-01T00:00:00Z'",
        "StartTime < '2020-01-01T00:00:00Z'",
        "StartTime > 0",
        "StartTime BETWEEN '2020-01-01T00:00:00Z' AND '2100-01-01T00:00:00+02:00'",
        "StartTime NOT BETWEEN '2020-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'",
        "CloseTime IS NULL",
        "CloseTime IS NOT NULL",
        "CloseTime > '2020-01-01T00:00:00Z'",
        "NOT CloseTime > '2020-01-01T00:00:00Z'",
        "CloseTime != '2020-01-01T00:00:00Z'",
        "ExecutionTime > '2020-01-01T00:00:00.123456789Z'",
        "ExecutionDuration < '1h'",
        "ExecutionDuration > '00:10:00'",
        "ExecutionDuration > 1000000",
        "HistoryLength = 3",
        "HistoryLength >= 2.0",
        "StateTransitionCount > 1",
    ]:
        counted(s, filter)


@scenario
def attributes(s: Session) -> None:
    """Predefined attributes of several types, set by the start and by the workflow."""
    s.start("wf-1", search_attributes={"indexed_fields": {"BatcherUser": payload("ann")}})
    s.start(
        "wf-2",
        search_attributes={
            "indexed_fields": {
                "BatcherUser": payload("bob"),
                "BuildIds": payload(["one", "two"]),
                "TemporalSchedulePaused": payload(True),
                "TemporalScheduledStartTime": payload("2024-05-06T07:08:09Z"),
            }
        },
    )
    s.start("wf-3")
    settled(s, 3)
    for filter in [
        "BatcherUser = 'ann'",
        "BatcherUser != 'ann'",
        "NOT BatcherUser = 'ann'",
        "BatcherUser IS NULL",
        "BatcherUser IS NOT NULL",
        "BatcherUser STARTS_WITH 'b'",
        "BatcherUser IN ('ann', 'bob')",
        "BuildIds = 'one'",
        "BuildIds != 'one'",
        "NOT BuildIds = 'one'",
        "BuildIds IN ('two', 'three')",
        "BuildIds NOT IN ('two', 'three')",
        "BuildIds IS NULL",
        "TemporalSchedulePaused = true",
        "TemporalSchedulePaused = false",
        "TemporalSchedulePaused != true",
    ]:
        counted(s, filter)
    listed(s, "BatcherUser = 'ann'")


@scenario
def upserted(s: Session) -> None:
    """What a workflow sets later is found; what it unsets is not."""
    upsert = {"indexed_fields": {"BatcherUser": payload("later"), "TemporalChangeVersion": payload(["b"])}}
    s.begun(command("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", search_attributes=upsert), timer("t", 60))
    settled(s, 1, "BatcherUser = 'later'")
    listed(s)
    s.signal()
    unset = {"metadata": {"encoding": b"binary/null"}}
    s.run_task(command("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES", search_attributes={"indexed_fields": {"BatcherUser": unset}}))
    settled(s, 1, "BatcherUser IS NULL")
    listed(s)


@scenario
def memo_shown(s: Session) -> None:
    """The memo is part of what is listed."""
    s.start(memo=fields(note="hello"))
    settled(s, 1)
    listed(s)


@scenario
def families(s: Session) -> None:
    """Children are found by parent and root."""
    s.begun(
        command(
            "START_CHILD_WORKFLOW_EXECUTION",
            namespace="default",
            workflow_id=s.name("wf-child"),
            workflow_type={"name": "Child"},
            task_queue=s.queue(),
        )
    )
    settled(s, 2)
    for filter in [
        f"ParentWorkflowId = '{s.name('wf')}'",
        "ParentWorkflowId IS NULL",
        "ParentWorkflowId IS NOT NULL",
        f"RootWorkflowId = '{s.name('wf')}'",
        f"ParentWorkflowId STARTS_WITH '{s.name('wf')}'",
    ]:
        counted(s, filter)
    listed(s, "ParentWorkflowId IS NOT NULL")


@scenario
def pages(s: Session) -> None:
    """Pages follow each other until none is left."""
    for n in range(5):
        s.start(f"wf-{n}")
    settled(s, 5)
    token = b""
    for _ in range(3):
        page = listed(s, page_size=2, next_page_token=token)
        token = page.next_page_token
    listed(s, page_size=5)
    listed(s, page_size=6)
    listed(s, page_size=-1)


@scenario
def older_calls(s: Session) -> None:
    """Open and closed lists with their filters, scans, archives."""
    s.start("wf-1")
    s.start("wf-2")
    s.terminate("wf-2")
    settled(s, 1, "ExecutionStatus = 'Terminated'")
    for wf in ["wf-1", "wf-2"]:
        execution = {"workflow_id": s.name(wf)}
        s.call("ListOpenWorkflowExecutions", execution_filter=execution)
        s.call("ListClosedWorkflowExecutions", execution_filter=execution)
    s.call("ListOpenWorkflowExecutions", type_filter={"name": s.name("no-such-type")})
    s.call("ListClosedWorkflowExecutions", type_filter={"name": s.name("no-such-type")})
    s.call("ListClosedWorkflowExecutions", status_filter={"status": "WORKFLOW_EXECUTION_STATUS_RUNNING"})
    s.call("ListClosedWorkflowExecutions", status_filter={})
    s.call("ScanWorkflowExecutions", query=ours(s))
    s.call("ScanWorkflowExecutions", query=ours(s), page_size=1)
    s.call("ListArchivedWorkflowExecutions")


@scenario
def other_namespaces(s: Session) -> None:
    """Namespaces that do not exist or are not named."""
    for call in ["ListWorkflowExecutions", "CountWorkflowExecutions", "ScanWorkflowExecutions"]:
        s.call(call, namespace="")
        s.call(call, namespace="no-such-namespace")


@scenario
def quoting(s: Session) -> None:
    """Quotes, escapes, spaces, case of words."""
    s.start("it's")
    s.start('say "x"')
    settled(s, 2)
    for filter in [
        f"WorkflowId = '{s.name(chr(39)).replace(chr(39), chr(39) * 2)}'",
        "WorkflowId STARTS_WITH 'it''s'",
        "WorkflowId STARTS_WITH 'it\\'s'",
        "WorkflowId STARTS_WITH \"it's\"",
        "  WorkflowId   starts_with\n'it'  ",
        "((WorkflowId STARTS_WITH 'it'))",
        "not WorkflowId STARTS_WITH 'it' or WorkflowId STARTS_WITH 'it' and WorkflowId = ''",
    ]:
        counted(s, filter)


@scenario
def groups_of_every_status(s: Session) -> None:
    """Groups of statuses come in the order of the statuses' numbers, however many runs they have."""
    different(s)
    counted(s, group="ExecutionStatus")
    s.start("wf-run-2")
    s.start("wf-ended-2")
    s.terminate("wf-ended-2")
    settled(s, 2, "ExecutionStatus = 'Terminated'")
    settled(s, 7)
    counted(s, group="ExecutionStatus")


@scenario
def groups_of_divisions(s: Session) -> None:
    """Counts by division: runs without one are a group too."""
    divided = {"indexed_fields": {"TemporalNamespaceDivision": payload("division")}}
    s.start("wf-1", workflow_type={"name": "one"})
    s.start("wf-2", workflow_type={"name": "two"})
    s.start("wf-3", workflow_type={"name": "two"}, search_attributes=divided)
    settled(s, 2)
    settled(s, 1, "TemporalNamespaceDivision = 'division'")
    counted(s, group="TemporalNamespaceDivision")
    counted(s, "TemporalNamespaceDivision = 'division'", group="TemporalNamespaceDivision")
    counted(s, "TemporalNamespaceDivision IS NOT NULL", group="TemporalNamespaceDivision")
    counted(s, "TemporalNamespaceDivision IS NULL", group="TemporalNamespaceDivision")
    counted(s, "TemporalNamespaceDivision IS NOT NULL", group="ExecutionStatus")
