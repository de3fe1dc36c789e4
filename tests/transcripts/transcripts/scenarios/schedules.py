"""Schedules: create, describe, update, patch, list, count, delete, matching times, and their refusals."""

from __future__ import annotations

import time
from typing import Any, Callable

from ..build import Fields, big, fields, payload, payloads, seconds
from ..harness import Session, Stopped
from . import scenario
from .search_attributes import add

PATIENCE = 20
# 2024-01-01T00:00:00Z
NEW_YEAR = 1_704_067_200


def action(s: Session, **more: Any) -> Fields:
    """What a schedule starts."""
    start = {
        "workflow_id": s.name("wf"),
        "workflow_type": {"name": "wt"},
        "task_queue": {"name": s.name("q")},
        **more,
    }
    return {"start_workflow": {k: v for k, v in start.items() if v is not None}}


def hourly(s: Session, **more: Any) -> Fields:
    """A schedule that acts each hour."""
    return {"spec": {"interval": [{"interval": seconds(3600)}]}, "action": action(s), **more}


def create(s: Session, schedule: Fields | None = None, short: str = "sched", **more: Any) -> None:
    """Creates a schedule."""
    plain = {
        "schedule_id": s.name(short),
        "schedule": hourly(s) if schedule is None else schedule,
        "request_id": s.request_id(),
        "identity": "caller",
    }
    s.call("CreateSchedule", **{**plain, **more})


def paused(s: Session, **more: Any) -> Fields:
    """A schedule that does nothing by itself."""
    return hourly(s, **{"state": {"paused": True}, **more})


def describe(s: Session, short: str = "sched") -> Any:
    """Describes a schedule."""
    return s.call("DescribeSchedule", schedule_id=s.name(short))


def patch(s: Session, short: str = "sched", **what: Any) -> None:
    """Patches a schedule."""
    s.call("PatchSchedule", schedule_id=s.name(short), patch=what, identity="caller", request_id=s.request_id())


def update(s: Session, schedule: Fields, short: str = "sched", **more: Any) -> None:
    """Updates a schedule."""
    plain = {"schedule_id": s.name(short), "schedule": schedule, "identity": "caller", "request_id": s.request_id()}
    s.call("UpdateSchedule", **{**plain, **more})


def until(s: Session, what: Callable[[Any], bool], short: str = "sched") -> None:
    """Waits, unrecorded, until the description of a schedule says something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if what(s.silent("DescribeSchedule", schedule_id=s.name(short))):
            return
        time.sleep(0.1)
    raise Stopped("the schedule did not become what it should")


def until_taken(s: Session, actions: int, short: str = "sched") -> None:
    """Waits until that many actions were taken."""
    until(s, lambda said: said.info.action_count >= actions, short)


def listed(s: Session, query: str, count: int) -> None:
    """Waits, unrecorded, until a list has that many schedules; lists may be late."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if s.silent("CountSchedules", query=query).count == count:
            return
        time.sleep(0.1)
    raise Stopped("the list did not become what it should")


def times(s: Session, start: int, end: int, short: str = "sched") -> None:
    """The times of a span after New Year, in seconds."""
    s.call(
        "ListScheduleMatchingTimes",
        schedule_id=s.name(short),
        start_time={"seconds": NEW_YEAR + start},
        end_time={"seconds": NEW_YEAR + end},
    )


@scenario
def created(s: Session) -> None:
    """A schedule of intervals, and what describing it says."""
    create(s, memo=fields(note="kept"))
    describe(s)


@scenario
def created_with_everything(s: Session) -> None:
    """Calendars, cron strings, exclusions, policies and state, in canonical form."""
    spec = {
        "calendar": [{"minute": "*/15", "hour": "1-5/2,8", "day_of_week": "5-7", "month": "feb-APRIL", "comment": "c"}],
        "structured_calendar": [{"second": [{"start": 5}], "minute": [{"start": 1, "end": 9, "step": 3}]}],
        "cron_string": ["CRON_TZ=Europe/Berlin 0 12 * * MON-FRI # lunch", "CRON_TZ=Europe/Berlin @hourly"],
        "interval": [{"interval": seconds(7200), "phase": seconds(60)}],
        "exclude_structured_calendar": [{"hour": [{"start": 3}]}],
        "exclude_calendar": [{"hour": "4"}],
        "start_time": {"seconds": NEW_YEAR},
        "end_time": {"seconds": NEW_YEAR + 86400},
        "jitter": seconds(30),
    }
    policies = {"overlap_policy": "SCHEDULE_OVERLAP_POLICY_BUFFER_ALL", "catchup_window": seconds(1)}
    policies |= {"pause_on_failure": True, "keep_original_workflow_id": True}
    state = {"notes": "n", "paused": True, "limited_actions": True, "remaining_actions": 7}
    start = action(
        s,
        input=payloads("in"),
        workflow_run_timeout=seconds(60),
        memo=fields(m=1),
        retry_policy={"maximum_attempts": 2},
        header=fields(h="x"),
        priority={"priority_key": 2},
        user_metadata={"summary": payload("short")},
    )
    create(s, {"spec": spec, "action": start, "policies": policies, "state": state})
    describe(s)


@scenario
def created_empty(s: Session) -> None:
    """A schedule of nothing."""
    create(s, {})
    describe(s)
    create(s, short="without", schedule=None)


@scenario
def created_twice(s: Session) -> None:
    """The same request and another one."""
    same = s.request_id()
    create(s, request_id=same)
    create(s, request_id=same)
    create(s)


@scenario
def bad_requests(s: Session) -> None:
    """Refusals of a creation."""
    create(s, schedule_id="")
    create(s, schedule_id="x" * 1001)
    create(s, request_id="")
    create(s, request_id="x" * 1001)
    create(s, hourly(s, action=action(s, workflow_id="y" * 990)))
    create(s, hourly(s, action=action(s, workflow_type=None)))
    create(s, hourly(s, action=action(s, workflow_type={"name": "x" * 1001})))
    create(s, hourly(s, action=action(s, task_queue=None)))
    create(s, hourly(s, action=action(s, task_queue={"name": "/_sys/x"})))
    create(s, hourly(s, action=action(s, cron_schedule="* * * * *")))
    create(s, hourly(s, action=action(s, workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE")))
    create(s, hourly(s, action=action(s, workflow_run_timeout=seconds(-1))))
    create(s, hourly(s, action=action(s, search_attributes={"indexed_fields": {"nope": payload(1)}})))
    create(s, search_attributes={"indexed_fields": {"nope": payload(1)}})
    create(s, hourly(s, action=action(s, input=big(3))))
    create(s, memo={"fields": {"m": {"data": b"x" * (3 << 20)}}})


@scenario
def bad_specs(s: Session) -> None:
    """Refusals of a specification."""
    for cron in (
        "1 2 3",
        "1 2 3 4 5 6 7 8",
        "TZ=UTC",
        "@every",
        "@every x",
        "@every 5",
        "@every 1x",
        "@every 0.5s",
        "CRON_TZ=Nowhere/Here 1 2 3 4 5",
        "CRON_TZ=europe/berlin 1 2 3 4 5",
        "61 * * * *",
        "5-1 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "1/ * * * *",
        "1/0 * * * *",
        "1/x * * * *",
        "x * * * MONDAYS",
        "* 24 0 13 8 1999",
    ):
        create(s, hourly(s, spec={"cron_string": [cron]}))
    create(s, hourly(s, spec={"cron_string": ["TZ=UTC 1 * * * *", "1 * * * *"]}))
    create(s, hourly(s, spec={"cron_string": ["TZ=UTC 1 * * * *"], "timezone_name": "Asia/Tokyo"}))
    create(s, hourly(s, spec={"timezone_name": "../x"}))
    create(s, hourly(s, spec={"timezone_name": "X", "timezone_data": b"abc"}))
    create(s, hourly(s, spec={"interval": [{}]}))
    create(s, hourly(s, spec={"interval": [{"interval": seconds(5), "phase": seconds(-1)}]}))
    create(s, hourly(s, spec={"interval": [{"interval": seconds(5), "phase": seconds(5)}]}))
    create(s, hourly(s, spec={"interval": [{"interval": {"seconds": 5, "nanos": -1}}]}))
    bad = {"second": [{"start": 60}], "hour": [{"start": 5, "end": 3, "step": -1}], "comment": "x" * 201}
    create(s, hourly(s, spec={"structured_calendar": [bad]}))


@scenario
def unknown(s: Session) -> None:
    """Calls about a schedule that does not exist, and calls without an id."""
    for short in ("none", ""):
        id = s.name(short) if short else ""
        s.call("DescribeSchedule", schedule_id=id)
        s.call("PatchSchedule", schedule_id=id, patch={"pause": "x"})
        s.call("UpdateSchedule", schedule_id=id, schedule=hourly(s))
        s.call("DeleteSchedule", schedule_id=id)
        s.call("ListScheduleMatchingTimes", schedule_id=id)
    s.call("DescribeSchedule", schedule_id="x", namespace=s.name("none"))


@scenario
def deleted(s: Session) -> None:
    """A schedule that was deleted, and one with the same id after it."""
    create(s)
    s.call("DeleteSchedule", schedule_id=s.name("sched"), identity="caller")
    s.call("DeleteSchedule", schedule_id=s.name("sched"))
    s.call("DescribeSchedule", schedule_id=s.name("sched"))
    patch(s, pause="x")
    update(s, hourly(s))
    create(s)
    describe(s)


@scenario
def patches(s: Session) -> None:
    """Pause, unpause, and refusals of patches."""
    create(s)
    describe(s)
    patch(s, pause="stop")
    until(s, lambda said: said.schedule.state.paused)
    describe(s)
    patch(s, unpause="go")
    until(s, lambda said: not said.schedule.state.paused)
    describe(s)
    patch(s, pause="x" * 1001)
    s.call("PatchSchedule", schedule_id=s.name("sched"))
    s.call("PatchSchedule", schedule_id=s.name("sched"), patch={"pause": "x"}, request_id="x" * 1001)


@scenario
def updates(s: Session) -> None:
    """An update, one with the token, one with an old token, which is ignored, and refusals."""
    create(s)
    first = describe(s)
    update(s, hourly(s, state={"notes": "one"}), conflict_token=first.conflict_token)
    until(s, lambda said: said.schedule.state.notes == "one")
    describe(s)
    update(s, hourly(s, state={"notes": "two"}), conflict_token=first.conflict_token)
    update(s, hourly(s, state={"notes": "three"}))
    until(s, lambda said: said.schedule.state.notes == "three")
    describe(s)
    update(s, {})
    update(s, hourly(s, spec={"cron_string": ["bad"]}))
    update(s, hourly(s, action=action(s, workflow_type=None)))
    update(s, hourly(s), memo=fields(a=1))
    update(s, hourly(s), search_attributes={"indexed_fields": {"nope": payload(1)}})
    update(s, hourly(s), request_id="x" * 1001)


@scenario
def matching_times(s: Session) -> None:
    """Times of a span: without its start, with its end, at most a thousand."""
    create(s)
    times(s, 0, 7200)
    times(s, 7200, 0)
    times(s, -1, 0)
    s.call("ListScheduleMatchingTimes", schedule_id=s.name("sched"))
    s.call("ListScheduleMatchingTimes", schedule_id=s.name("sched"), start_time={"seconds": NEW_YEAR})
    create(s, hourly(s, spec={"interval": [{"interval": seconds(1)}]}), short="often")
    answer = s.silent(
        "ListScheduleMatchingTimes",
        schedule_id=s.name("often"),
        start_time={"seconds": NEW_YEAR},
        end_time={"seconds": NEW_YEAR + 2000},
    )
    if len(answer.start_time) != 1000:
        raise Stopped("not a thousand times")


@scenario
def times_of_calendars(s: Session) -> None:
    """Times around clock changes, and of calendars of all kinds."""
    day = 86400
    zones = {
        "new-york": ("America/New_York", "30 1,2 * * *"),
        "berlin": ("Europe/Berlin", "30 1,2,3 * * *"),
        "london": ("Europe/London", "*/20 0-2 * * *"),
        "lord-howe": ("Australia/Lord_Howe", "15,45 1,2 * * *"),
        "havana": ("America/Havana", "30 0,1 * * *"),
        "apia": ("Pacific/Apia", "0 12 * * MON-FRI"),
    }
    # Clocks change in March, April, October and November.
    weeks = (66 * day, 89 * day, 296 * day, 299 * day, 306 * day)
    for short, (zone, cron) in zones.items():
        create(s, hourly(s, spec={"cron_string": [f"CRON_TZ={zone} {cron}"]}), short=short)
        for week in weeks:
            times(s, week, week + 4 * day, short)
    specs = {
        "steps": {"cron_string": ["0 */6 1-7 */3 MON"]},
        "seconds": {"cron_string": ["*/20 59 23 31 12 * 2024"]},
        "sundays": {"cron_string": ["0 0 * * 7", "0 12 * * 5-7/2"]},
        "leap": {"cron_string": ["0 0 29 2 *"]},
        "phase": {"interval": [{"interval": seconds(86400), "phase": seconds(3723)}]},
        "window": {
            "interval": [{"interval": seconds(3600 * 12)}],
            "start_time": {"seconds": NEW_YEAR + day},
            "end_time": {"seconds": NEW_YEAR + 3 * day},
        },
        "excluded": {"interval": [{"interval": seconds(3600 * 8)}], "exclude_calendar": [{"hour": "8"}]},
        "empty-field": {"structured_calendar": [{"second": [{"start": 0}]}]},
        "never": {},
    }
    for short, spec in specs.items():
        create(s, hourly(s, spec=spec), short=short)
        times(s, 0, (1500 if short == "leap" else 14) * day, short)
    times(s, 365 * day, 366 * day, "seconds")


@scenario
def lists(s: Session) -> None:
    """Lists and counts, and what may not be asked for."""
    create(s, memo=fields(note="kept"))
    create(s, paused(s, spec={"cron_string": ["0 0 1 1 *"]}), short="asleep")
    mine = f"ScheduleId IN ('{s.name('sched')}', '{s.name('asleep')}')"
    listed(s, mine, 2)
    s.call("ListSchedules", query=f"ScheduleId = '{s.name('sched')}'")
    s.call("ListSchedules", query=f"ScheduleId STARTS_WITH '{s.name('asleep')}'")
    s.call("ListSchedules", query=mine, maximum_page_size=1)
    listed(s, f"{mine} AND TemporalSchedulePaused = true", 1)
    s.call("CountSchedules", query=f"{mine} AND TemporalSchedulePaused = true")
    s.call("CountSchedules", query=f"{mine} AND TemporalSchedulePaused = false")
    s.call("CountSchedules", query=f"ScheduleId = '{s.name('none')}'")
    s.call("ListSchedules", query=f"ScheduleId = '{s.name('none')}'")
    for query in (
        "WorkflowId = 'x'",
        "ExecutionStatus = 'Running'",
        "StartTime > '2020-01-01T00:00:00Z'",
        "WorkflowType = 'x'",
        "TemporalNamespaceDivision = 'x'",
    ):
        s.call("ListSchedules", query=query)
        s.call("CountSchedules", query=query)
    s.call("ListSchedules", namespace=s.name("none"))
    s.call("DeleteSchedule", schedule_id=s.name("sched"))
    listed(s, mine, 1)
    s.call("CountSchedules", query=mine)


@scenario
def search_attributes(s: Session) -> None:
    """Search attributes of a schedule: given, found, replaced, removed."""
    s.namespace = s.new_namespace()
    add(s, CustomKeywordField="KEYWORD", CustomIntField="INT")
    attributes = {"CustomKeywordField": payload("one"), "CustomIntField": payload(7)}
    create(s, search_attributes={"indexed_fields": attributes})
    describe(s)
    query = f"CustomKeywordField = 'one' AND ScheduleId = '{s.name('sched')}'"
    listed(s, query, 1)
    s.call("ListSchedules", query=query)
    update(s, hourly(s), search_attributes={"indexed_fields": {"CustomKeywordField": payload("two")}})
    until(s, lambda said: b"two" in said.search_attributes.SerializeToString())
    describe(s)
    update(s, hourly(s, state={"notes": "kept"}))
    until(s, lambda said: said.schedule.state.notes == "kept")
    describe(s)
    update(s, hourly(s), search_attributes={"indexed_fields": {}})
    until(s, lambda said: not said.search_attributes.indexed_fields)
    describe(s)
