"""What schedules start when they are told several things at once, when actions fail, when times come by themselves."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, complete, fail, payloads, seconds
from ..harness import Session, Stopped
from . import scenario
from .scheduled import POLICY, started, trigger, until_over, until_there
from .schedules import NEW_YEAR, action, create, describe, hourly, patch, paused, until, until_taken, update


def backfill(start: int, end: int, policy: str = "") -> Fields:
    """The hours of a span after New Year."""
    what: Any = {"start_time": {"seconds": NEW_YEAR + start}, "end_time": {"seconds": NEW_YEAR + end}}
    if policy:
        what["overlap_policy"] = f"{POLICY}{policy}"
    return what


@scenario
def backfilled_twice(s: Session) -> None:
    """Two spans in one patch."""
    create(s, paused(s))
    patch(s, backfill_request=[backfill(0, 3600, "ALLOW_ALL"), backfill(36000, 36000, "ALLOW_ALL")])
    until_taken(s, 3)
    describe(s)


@scenario
def backfilled_backwards(s: Session) -> None:
    """A span that ends before it begins, and one without times."""
    create(s, paused(s))
    patch(s, backfill_request=[backfill(3600, 0, "ALLOW_ALL")])
    patch(s, backfill_request=[{}])
    patch(s, backfill_request=[backfill(60, 120, "ALLOW_ALL")])
    time.sleep(1)
    describe(s)


@scenario
def backfilled_at_creation(s: Session) -> None:
    """A backfill with the creation."""
    create(s, paused(s), initial_patch={"backfill_request": [backfill(0, 3600, "ALLOW_ALL")]})
    until_taken(s, 2)
    describe(s)


@scenario
def backfill_skips(s: Session) -> None:
    """With the default policy only the first of a backfill starts."""
    create(s, paused(s))
    patch(s, backfill_request=[backfill(0, 7200)])
    until(s, lambda said: said.info.action_count + said.info.overlap_skipped == 3)
    describe(s)


@scenario
def several_at_once(s: Session) -> None:
    """A pause and an unpause in one patch; a trigger with a pause."""
    create(s)
    patch(s, pause="stop", unpause="go")
    time.sleep(0.5)
    describe(s)
    patch(s, pause="stop", trigger_immediately={"scheduled_time": {"seconds": NEW_YEAR}})
    until_taken(s, 1)
    describe(s)


@scenario
def limited_and_triggered(s: Session) -> None:
    """A trigger does not use up a limited number of actions, unless it does."""
    create(s, paused(s, state={"paused": True, "limited_actions": True, "remaining_actions": 1}))
    trigger(s, "ALLOW_ALL", at=0)
    until_taken(s, 1)
    describe(s)
    trigger(s, "ALLOW_ALL", at=60)
    until_taken(s, 2)
    describe(s)


@scenario
def used_up(s: Session) -> None:
    """Each second, twice."""
    state = {"limited_actions": True, "remaining_actions": 2}
    policies = {"overlap_policy": f"{POLICY}ALLOW_ALL"}
    create(s, hourly(s, spec={"interval": [{"interval": seconds(1)}]}, state=state, policies=policies))
    until_taken(s, 2)
    time.sleep(1.5)
    said = s.silent("DescribeSchedule", schedule_id=s.name("sched"))
    facts = (said.info.action_count, said.schedule.state.remaining_actions, said.schedule.state.limited_actions)
    if facts != (2, 0, True) or said.info.missed_catchup_window or said.info.buffer_size:
        raise Stopped(f"it acted otherwise: {facts}")
    between = [action.schedule_time.seconds for action in said.info.recent_actions]
    if between[1] - between[0] != 1:
        raise Stopped("it skipped a second")


@scenario
def failure_handed_on(s: Session) -> None:
    """What follows a failure is told of it, and of the last result before it."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    s.run_task(complete("first"))
    until_over(s)
    trigger(s, at=60)
    until_taken(s, 2)
    s.run_task(fail("broken"))
    until_over(s)
    trigger(s, at=120)
    until_taken(s, 3)
    s.call("GetWorkflowExecutionHistory", execution=started(s, 120))
    describe(s)


@scenario
def others_end(s: Session) -> None:
    """Workflows that are terminated or cancelled do not pause a schedule that pauses on failure."""
    create(s, paused(s, state={}, policies={"pause_on_failure": True}))
    trigger(s, at=0)
    until_taken(s, 1)
    s.call("TerminateWorkflowExecution", workflow_execution=started(s, 0), reason="enough")
    until_over(s)
    describe(s)


@scenario
def timed_out(s: Session) -> None:
    """A time-out is a failure."""
    start = action(s, workflow_run_timeout=seconds(1))
    create(s, paused(s, action=start, state={}, policies={"pause_on_failure": True}))
    trigger(s, at=0)
    until_taken(s, 1)
    until(s, lambda said: said.schedule.state.paused)
    describe(s)


@scenario
def policy_unknown(s: Session) -> None:
    """Numbers that name no policy."""
    create(s, paused(s, policies={"overlap_policy": 77}))
    describe(s)
    patch(s, trigger_immediately={"overlap_policy": 78})
    time.sleep(1)
    s.call("CountWorkflowExecutions", query=f"TemporalScheduledById = '{s.name('sched')}'")


@scenario
def update_while_it_runs(s: Session) -> None:
    """What runs is told after an update as before."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    until_there(s, 0)
    start = action(s, workflow_id=s.name("new"), input=payloads("x"))
    update(s, paused(s, action=start, state={"paused": True, "notes": "n"}))
    until(s, lambda said: said.schedule.state.notes == "n")
    describe(s)
    s.run_task(complete("done"))
    until_over(s)
    describe(s)


@scenario
def spans(s: Session) -> None:
    """A schedule that begins in the future, one that has ended."""
    soon = 4_102_444_800
    create(s, hourly(s, spec={"interval": [{"interval": seconds(3600)}], "start_time": {"seconds": soon}}))
    said = s.silent("DescribeSchedule", schedule_id=s.name("sched"))
    times = [at.seconds - soon for at in said.info.future_action_times]
    if times != [3600 * hour for hour in range(10)]:
        raise Stopped(f"other times: {times}")
    over = {"interval": [{"interval": seconds(3600)}], "end_time": {"seconds": NEW_YEAR}}
    create(s, hourly(s, spec=over), short="old")
    describe(s, "old")
