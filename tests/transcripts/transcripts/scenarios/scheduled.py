"""What schedules start: triggers, backfills, overlap policies, what is handed on."""

from __future__ import annotations

import time
from typing import Any

from ..build import command, complete, failure, fields, payload, payloads, seconds
from ..harness import Session, Stopped
from . import scenario
from .schedules import NEW_YEAR, PATIENCE, action, create, describe, hourly, patch, paused, until, until_taken
from .search_attributes import add

POLICY = "SCHEDULE_OVERLAP_POLICY_"


def trigger(s: Session, policy: str = "", at: int = 0) -> None:
    """Triggers the schedule, as if it were some seconds after New Year."""
    what: Any = {"scheduled_time": {"seconds": NEW_YEAR + at}}
    if policy:
        what["overlap_policy"] = f"{POLICY}{policy}"
    patch(s, trigger_immediately=what)


def wf(at: int) -> str:
    """The last part of a workflow id, which tells the time."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NEW_YEAR + at))


def started(s: Session, at: int) -> dict[str, str]:
    """The workflow of a time after New Year."""
    return {"workflow_id": f"{s.name('wf')}-{wf(at)}"}


def until_there(s: Session, at: int) -> None:
    """Waits, unrecorded, until the workflow of a time exists."""
    import grpc

    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            s.silent("DescribeWorkflowExecution", execution=started(s, at))
            return
        except grpc.RpcError:
            time.sleep(0.1)
    raise Stopped("the workflow was not started")


def until_over(s: Session) -> None:
    """Waits, unrecorded, until the schedule knows that nothing runs and how its last action ended."""
    until(
        s,
        lambda said: not said.info.running_workflows
        and said.info.recent_actions[-1].start_workflow_status != 1,
    )


@scenario
def triggered(s: Session) -> None:
    """A trigger starts a workflow with all that the action says."""
    s.namespace = s.new_namespace()
    add(s, CustomKeywordField="KEYWORD")
    start = action(
        s,
        input=payloads("in"),
        workflow_run_timeout=seconds(60),
        memo=fields(m=1),
        retry_policy={"maximum_attempts": 2},
        header=fields(h="x"),
        priority={"priority_key": 2},
        user_metadata={"summary": payload("short")},
        search_attributes={"indexed_fields": {"CustomKeywordField": payload("one")}},
    )
    create(s, paused(s, action=start))
    describe(s)
    trigger(s)
    until_taken(s, 1)
    describe(s)
    s.call("GetWorkflowExecutionHistory", execution=started(s, 0))
    s.call("DescribeWorkflowExecution", execution=started(s, 0))


@scenario
def triggered_at_once(s: Session) -> None:
    """A schedule that is created with a patch."""
    create(s, paused(s), initial_patch={"trigger_immediately": {}, "pause": "and stop"})
    until_taken(s, 1)
    describe(s)


@scenario
def skipped(s: Session) -> None:
    """The default policy: what overlaps is skipped."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    trigger(s, at=60)
    until(s, lambda said: said.info.overlap_skipped == 1)
    describe(s)
    s.run_task(complete("done"))
    until_over(s)
    describe(s)


@scenario
def buffered(s: Session) -> None:
    """What overlaps waits, one or all; results are handed on."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    trigger(s, "BUFFER_ONE", at=60)
    until(s, lambda said: said.info.buffer_size == 1)
    trigger(s, "BUFFER_ONE", at=120)
    until(s, lambda said: said.info.overlap_skipped == 1)
    describe(s)
    trigger(s, "BUFFER_ALL", at=180)
    until(s, lambda said: said.info.buffer_size == 2)
    s.run_task(complete("first"))
    until_taken(s, 2)
    s.call("GetWorkflowExecutionHistory", execution=started(s, 60))
    s.run_task(command("FAIL_WORKFLOW_EXECUTION", failure=failure("no")))
    until_taken(s, 3)
    s.call("GetWorkflowExecutionHistory", execution=started(s, 180))
    describe(s)


@scenario
def allowed(s: Session) -> None:
    """Workflows that may overlap are not waited for, and get nothing handed on."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    s.run_task(complete("first"))
    until_over(s)
    trigger(s, "ALLOW_ALL", at=60)
    until_taken(s, 2)
    trigger(s, "ALLOW_ALL", at=120)
    until_taken(s, 3)
    describe(s)
    s.call("GetWorkflowExecutionHistory", execution=started(s, 120))


@scenario
def cancels_other(s: Session) -> None:
    """What runs is asked to cancel; the next one waits for that."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    s.run_task()
    trigger(s, "CANCEL_OTHER", at=60)
    until(s, lambda said: said.info.buffer_size == 1)
    describe(s)
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION"))
    s.call("GetWorkflowExecutionHistory", execution=started(s, 0))
    until_taken(s, 2)
    describe(s)


@scenario
def terminates_other(s: Session) -> None:
    """What runs is terminated."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    trigger(s, "TERMINATE_OTHER", at=60)
    until_taken(s, 2)
    s.call("GetWorkflowExecutionHistory", execution=started(s, 0))
    describe(s)


@scenario
def backfilled(s: Session) -> None:
    """A backfill, both ends included."""
    create(s, paused(s))
    span = {"start_time": {"seconds": NEW_YEAR}, "end_time": {"seconds": NEW_YEAR + 3600 * 12}}
    patch(s, backfill_request=[{**span, "overlap_policy": f"{POLICY}ALLOW_ALL"}])
    until_taken(s, 13)
    describe(s)
    s.call("GetWorkflowExecutionHistory", execution=started(s, 3600 * 12))


@scenario
def paused_on_failure(s: Session) -> None:
    """A failure pauses a schedule that says so."""
    create(s, hourly(s, policies={"pause_on_failure": True}))
    trigger(s, at=0)
    until_taken(s, 1)
    s.run_task(command("FAIL_WORKFLOW_EXECUTION", failure=failure("no")))
    until(s, lambda said: said.schedule.state.paused)
    until_over(s)
    describe(s)


@scenario
def limited(s: Session) -> None:
    """A schedule with a number of actions left; a trigger does not count."""
    state = {"limited_actions": True, "remaining_actions": 2}
    spec = {"interval": [{"interval": seconds(1)}]}
    policies = {"overlap_policy": f"{POLICY}ALLOW_ALL"}
    create(s, hourly(s, spec=spec, state=state, policies=policies))
    until_taken(s, 2)
    trigger(s, at=0)
    until_taken(s, 3)
    describe(s)


@scenario
def id_taken(s: Session) -> None:
    """A trigger for a time whose workflow has been: another run. One whose workflow runs: nothing."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    trigger(s, "ALLOW_ALL", at=0)
    trigger(s, "ALLOW_ALL", at=60)
    until_taken(s, 2)
    describe(s)
    s.run_task(complete("done"))
    until_over_or_second(s)
    trigger(s, "ALLOW_ALL", at=0)
    until_taken(s, 3)
    describe(s)


def until_over_or_second(s: Session) -> None:
    """Waits until the first workflow has ended; its action is not the last one."""
    until(s, lambda said: not said.info.running_workflows and said.info.recent_actions[0].start_workflow_status != 1)


@scenario
def follows_a_chain(s: Session) -> None:
    """A workflow that continues as new still runs; its end is that of the chain."""
    create(s, paused(s))
    trigger(s, at=0)
    until_taken(s, 1)
    again = {"workflow_type": {"name": "wt"}, "task_queue": {"name": s.name("q")}}
    s.run_task(command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", **again))
    describe(s)
    s.run_task(complete("end"))
    until_over(s)
    describe(s)


@scenario
def deleted_while_running(s: Session) -> None:
    """Deleting a schedule leaves its workflows alone."""
    create(s, paused(s))
    trigger(s, at=0)
    until_there(s, 0)
    s.call("DeleteSchedule", schedule_id=s.name("sched"))
    s.run_task(complete("end"))
    s.call("DescribeWorkflowExecution", execution=started(s, 0))
