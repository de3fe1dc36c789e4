"""Filters and pages of schedules, and what they look like among workflows."""

from __future__ import annotations

from ..build import fields, payload
from ..harness import Session
from . import scenario
from .schedules import create, hourly, listed, patch, paused, until, update
from .search_attributes import add


def ask(s: Session, query: str) -> None:
    """Lists and counts."""
    s.call("ListSchedules", query=query)
    s.call("CountSchedules", query=query)


@scenario
def by_custom_attributes(s: Session) -> None:
    """Attributes that users define, of each kind."""
    s.namespace = s.new_namespace()
    add(s, KeywordOne="KEYWORD", IntOne="INT", BoolOne="BOOL")
    add(s, DoubleOne="DOUBLE", TextOne="TEXT", ListOne="KEYWORD_LIST")
    some = {"KeywordOne": payload("one"), "IntOne": payload(7), "BoolOne": payload(True), "DoubleOne": payload(2.5)}
    some |= {"TextOne": payload("some words"), "ListOne": payload(["a", "b"])}
    create(s, search_attributes={"indexed_fields": some})
    create(s, short="other", search_attributes={"indexed_fields": {"IntOne": payload(8)}})
    listed(s, "", 2)
    for query in (
        "IntOne > 7",
        "IntOne BETWEEN 7 AND 8 AND KeywordOne IS NOT NULL",
        "KeywordOne IN ('one', 'two')",
        "KeywordOne STARTS_WITH 'o'",
        "KeywordOne IS NULL",
        "BoolOne = true OR IntOne = 8",
        "DoubleOne <= 2.5",
        "TextOne = 'words'",
        "ListOne = 'a'",
        "IntOne != 7",
        "NOT KeywordOne = 'one'",
    ):
        s.call("CountSchedules", query=query)


@scenario
def by_pause(s: Session) -> None:
    """Paused ones, before and after a patch."""
    s.namespace = s.new_namespace()
    create(s)
    create(s, paused(s), short="asleep")
    listed(s, "TemporalSchedulePaused = true", 1)
    ask(s, "TemporalSchedulePaused = true")
    patch(s, pause="stop")
    until(s, lambda said: said.schedule.state.paused)
    listed(s, "TemporalSchedulePaused = true", 2)
    patch(s, "asleep", unpause="go")
    until(s, lambda said: not said.schedule.state.paused, "asleep")
    listed(s, "TemporalSchedulePaused = true", 1)
    ask(s, "TemporalSchedulePaused = true")
    s.call("CountSchedules", query="TemporalSchedulePaused = false")
    s.call("CountSchedules", query="TemporalSchedulePaused != true")


@scenario
def by_next_action_time(s: Session) -> None:
    """Filters know the time of the next action; schedules that are workflows have no value for it."""
    s.namespace = s.new_namespace()
    create(s)
    create(s, paused(s), short="asleep")
    listed(s, "", 2)
    listed(s, "TemporalSchedulePaused = true", 1)
    for query in (
        "ScheduleNextActionTime > '2020-01-01T00:00:00Z'",
        "ScheduleNextActionTime < '2020-01-01T00:00:00Z'",
        "ScheduleNextActionTime BETWEEN '2020-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'",
        "ScheduleNextActionTime IS NOT NULL",
        "ScheduleNextActionTime IS NULL AND TemporalSchedulePaused = true",
        "ScheduleNextActionTime = 5",
    ):
        ask(s, query)
    s.call("CountSchedules", query="ScheduleNextActionTime IS NULL")


@scenario
def names_refused(s: Session) -> None:
    """Names that no filter of schedules knows, or that it may not use."""
    for name in (
        "RunId",
        "CloseTime",
        "ExecutionTime",
        "TaskQueue",
        "HistoryLength",
        "TemporalScheduledById",
        "TemporalScheduledStartTime",
        "BuildIds",
        "TemporalChangeVersion",
        "BatcherUser",
        "ParentWorkflowId",
        "RootWorkflowId",
    ):
        s.call("CountSchedules", query=f"{name} IS NOT NULL")


@scenario
def pages(s: Session) -> None:
    """Sizes of pages."""
    s.namespace = s.new_namespace()
    for short in ("a", "b", "c"):
        create(s, short=short)
    listed(s, "", 3)
    seen = 0
    token = b""
    while True:
        page = s.silent("ListSchedules", maximum_page_size=2, next_page_token=token)
        seen += len(page.schedules)
        token = page.next_page_token
        if not token:
            break
    if seen != 3:
        raise AssertionError("not every schedule was listed")
    s.call("ListSchedules", maximum_page_size=-1)
    s.call("CountSchedules")


@scenario
def among_workflows(s: Session) -> None:
    """What lists of workflows say of schedules and of what they start."""
    s.namespace = s.new_namespace()
    create(s, paused(s), memo=fields(note="kept"))
    listed(s, "TemporalSchedulePaused = true", 1)
    s.call("CountWorkflowExecutions", query="TemporalNamespaceDivision = 'TemporalScheduler'")
    s.call("CountWorkflowExecutions", query="WorkflowType = 'temporal-sys-scheduler-workflow'")
    s.call("CountWorkflowExecutions")
    s.call("CountWorkflowExecutions", query="TemporalNamespaceDivision IS NOT NULL")
    division = "TemporalNamespaceDivision = 'TemporalScheduler' AND TemporalSchedulePaused = "
    s.call("CountWorkflowExecutions", query=f"{division}true")
    s.call("CountWorkflowExecutions", query=f"{division}false")
    s.call("DescribeWorkflowExecution", execution={"workflow_id": s.name("sched")})


@scenario
def updated(s: Session) -> None:
    """Lists tell what an update said."""
    s.namespace = s.new_namespace()
    create(s, memo=fields(note="kept"))
    changed = hourly(s, spec={"cron_string": ["0 0 1 1 *"]}, state={"notes": "changed", "paused": True})
    update(s, changed)
    until(s, lambda said: said.schedule.state.notes == "changed")
    listed(s, "TemporalSchedulePaused = true", 1)
    s.call("ListSchedules")
