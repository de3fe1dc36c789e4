"""Chains of runs and children: what a new run inherits of its predecessor's or parent's version."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, command, complete, fail, retry, seconds
from ..harness import Session
from ..versions import (
    AUTO,
    PINNED,
    begun,
    current,
    deployed,
    finish,
    of_versions,
    one_time,
    override,
    pinned_to,
    ramping,
    step,
    take,
    workers,
)

# A run at least this old continues without back-off.
OLD_ENOUGH = 1.2
STARTED = "child_workflow_execution_started"


def renew(**more: Any) -> Fields:
    """A ContinueAsNewWorkflowExecution command."""
    return command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", **more)


def child(s: Session, wf: str = "child", queue: str = "q", **more: Any) -> Fields:
    """A command that starts a child."""
    given = {"workflow_id": s.name(wf), "workflow_type": {"name": "ct"}, "task_queue": {"name": s.name(queue)}}
    return command("START_CHILD_WORKFLOW_EXECUTION", **given, **more)


def known(s: Session, wf: str = "wf") -> None:
    """What history and description say of a run that has just begun."""
    s.history(wf)
    s.describe(wf)


@of_versions
def pinned_continues(s: Session) -> None:
    """A pinned run continues at its version."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew())
    known(s)
    step(s, "b1", PINNED)
    known(s)


@of_versions
def pinned_continues_to_upgrade(s: Session) -> None:
    """A pinned run wants its successor to upgrade."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew(initial_versioning_behavior=1))
    known(s)
    step(s, "b2", PINNED)
    known(s)


@of_versions
def pinned_continues_to_ramp(s: Session) -> None:
    """A pinned run wants its successor at the ramping version, whatever the percentage."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    ramping(s, "b2", 0.01)
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew(initial_versioning_behavior=2))
    known(s)
    task = take(s, "b2")
    s.describe()
    finish(s, task, "b2", PINNED)
    known(s)


@of_versions
def pinned_continues_to_ramp_without_one(s: Session) -> None:
    """Without a ramp that is the current version."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew(initial_versioning_behavior=2))
    step(s, "b2", AUTO)
    known(s)


@of_versions
def pinned_continues_elsewhere(s: Session) -> None:
    """A pinned run continues on a queue that its version has, and on one that it does not have."""
    deployed(s, "b1")
    workers(s, "b1", queue="has")
    begun(s, "b1", PINNED)
    time.sleep(OLD_ENOUGH)
    s.signal()
    step(s, "b1", PINNED, renew(task_queue={"name": s.name("has")}))
    known(s)
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew(task_queue={"name": s.name("lacks")}), queue="has")
    known(s)
    step(s, None, None, complete(), queue="lacks")
    known(s)


@of_versions
def declines(s: Session) -> None:
    """A pinned run that was notified of a new target declines it: its successor is notified of the next one only."""
    deployed(s, "b1", "b2", "b3")
    begun(s, "b1", PINNED)
    current(s, "b2")
    s.signal()
    task = take(s, "b1")
    s.describe()
    time.sleep(OLD_ENOUGH)
    finish(s, task, "b1", PINNED, renew())
    known(s)
    step(s, "b1", PINNED)
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew())
    known(s)
    current(s, "b3")
    step(s, "b1", PINNED)
    known(s)
    s.signal()
    step(s, "b1", PINNED)
    current(s, "b1")
    s.signal()
    step(s, "b1", PINNED)
    s.history()


@of_versions
def notified_of_a_ramp(s: Session) -> None:
    """A ramp is a target, too, and so are workers without versions."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    ramping(s, "b2", 100)
    s.signal()
    step(s, "b1", PINNED)
    ramping(s, "b2", 0)
    s.signal()
    step(s, "b1", PINNED)
    current(s, "")
    s.signal()
    step(s, "b1", PINNED)
    s.history()


@of_versions
def overridden_is_not_notified(s: Session) -> None:
    """A run with an override is not notified, and one that upgrades never is."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    override(s, pinned_to(s, "b1"))
    current(s, "b2")
    s.signal()
    step(s, "b1", PINNED)
    override(s, None)
    s.signal()
    step(s, "b1", PINNED)
    s.history()


@of_versions
def auto_upgrade_continues(s: Session) -> None:
    """A run that upgrades continues: its successor goes to the target."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", AUTO, renew())
    known(s)
    current(s, "b2")
    task = take(s, "b2")
    s.describe()
    finish(s, task, "b2", AUTO)
    known(s)


@of_versions
def auto_upgrade_continues_elsewhere(s: Session) -> None:
    """A run that upgrades continues on a queue that its version does not have."""
    deployed(s, "b1")
    begun(s, "b1", AUTO)
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", AUTO, renew(task_queue={"name": s.name("lacks")}, initial_versioning_behavior=1))
    known(s)
    step(s, None, None, complete(), queue="lacks")
    known(s)


@of_versions
def auto_upgrade_continues_to_upgrade(s: Session) -> None:
    """The same, where it says how its successor begins; that is not handed on."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    time.sleep(OLD_ENOUGH)
    s.signal()
    step(s, "b1", AUTO, renew(initial_versioning_behavior=1))
    known(s)
    time.sleep(OLD_ENOUGH)
    step(s, "b1", AUTO, renew())
    known(s)


@of_versions
def unversioned_continues(s: Session) -> None:
    """A run of workers without versions continues, also with a wish."""
    begun(s, None, None)
    time.sleep(OLD_ENOUGH)
    s.signal()
    step(s, None, None, renew(initial_versioning_behavior=1))
    known(s)
    step(s, None, None, complete())


@of_versions
def overridden_continues(s: Session) -> None:
    """A pin by override is handed on; other overrides are not."""
    deployed(s, "b1", "b2")
    workers(s, "b1", queue="has")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "b2"))
    time.sleep(OLD_ENOUGH)
    s.signal()
    step(s, "b2", AUTO, renew())
    known(s)
    override(s, {"auto_upgrade": True})
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew())
    known(s)
    step(s, "b1", PINNED)
    override(s, pinned_to(s, "b1"))
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew(task_queue={"name": s.name("lacks")}))
    known(s)


@of_versions
def one_time_continues(s: Session) -> None:
    """A one-time override that is pending is not handed on."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    time.sleep(OLD_ENOUGH)
    s.signal()
    task = take(s, "b1")
    override(s, one_time(s, "b2"))
    finish(s, task, "b1", PINNED)
    task = take(s, "b2")
    finish(s, task, "b2", PINNED, renew())
    known(s)


@of_versions
def continues_while_moving(s: Session) -> None:
    """A run continues with the completion that ends its move."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b2", PINNED, renew())
    known(s)
    step(s, "b2", PINNED)
    s.describe()


@of_versions
def first_task_continues(s: Session) -> None:
    """A run continues with its first completion."""
    deployed(s, "b1")
    s.start()
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew())
    known(s)


@of_versions
def retried_pinned(s: Session) -> None:
    """A pinned run that is retried begins anew, unless it had inherited its version."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED, retry_policy=retry(1))
    current(s, "b2")
    s.signal()
    step(s, "b1", PINNED, fail())
    known(s)
    step(s, "b2", PINNED)
    s.describe()
    current(s, "b1")
    s.signal()
    time.sleep(OLD_ENOUGH)
    step(s, "b2", PINNED, renew(retry_policy=retry(1)))
    known(s)
    step(s, "b2", PINNED, fail())
    known(s)
    step(s, "b2", PINNED)
    s.describe()


@of_versions
def retried_auto_upgrade(s: Session) -> None:
    """A run that upgrades is retried."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO, fail(), retry_policy=retry(1))
    known(s)
    current(s, "b2")
    step(s, "b2", AUTO)
    known(s)


@of_versions
def retried_with_override(s: Session) -> None:
    """A pin by override is handed on to retries, other overrides are not."""
    deployed(s, "b1", "b2")
    s.start(retry_policy=retry(1), versioning_override=pinned_to(s, "b2"))
    step(s, "b2", AUTO, fail())
    known(s)
    override(s, {"auto_upgrade": True})
    step(s, "b1", PINNED, fail())
    known(s)


@of_versions
def cron(s: Session) -> None:
    """The next run of a cron schedule inherits nothing but a pin by override."""
    deployed(s, "b1", "b2")
    first = begun(s, "b1", PINNED, cron_schedule="@every 3s")
    current(s, "b2")
    s.signal()
    step(s, "b1", PINNED, complete())
    second = s.wait_new_run(first)
    inherits(s)
    step(s, "b2", AUTO)
    override(s, pinned_to(s, "b1"))
    s.signal()
    step(s, "b1", PINNED, complete())
    s.wait_new_run(second)
    inherits(s)


def inherits(s: Session) -> None:
    """Notes what the newest run inherits; when it begins follows from the clock."""
    events = s.silent("GetWorkflowExecutionHistory", execution=s.execution()).history.events
    first = events[0].workflow_execution_started_event_attributes
    named = ("inherited_pinned_version", "inherited_auto_upgrade_info", "versioning_override")
    found = {name: s.normaliser.message(getattr(first, name)) for name in named if first.HasField(name)}
    s.observe("inherited", found)


@of_versions
def children_of_pinned(s: Session) -> None:
    """Children of a pinned run: same queue, a queue that its version has, one that it does not have."""
    deployed(s, "b1", "b2")
    workers(s, "b1", queue="has")
    begun(s, "b1", PINNED)
    current(s, "b2")
    s.signal()
    step(s, "b1", PINNED, child(s, "c-1"), child(s, "c-2", "has"), child(s, "c-3", "lacks"))
    s.wait_event(STARTED, count=3)
    for wf in ("c-1", "c-2", "c-3"):
        known(s, wf)
    step(s, None, None, queue="lacks")
    s.describe("c-3")


@of_versions
def children_of_auto_upgrade(s: Session) -> None:
    """Children of a run that upgrades."""
    deployed(s, "b1", "b2")
    workers(s, "b1", queue="has")
    begun(s, "b1", AUTO, child(s, "c-1"), child(s, "c-2", "has"), child(s, "c-3", "lacks"))
    s.wait_event(STARTED, count=3)
    for wf in ("c-1", "c-2", "c-3"):
        known(s, wf)


@of_versions
def children_of_overridden(s: Session) -> None:
    """Children inherit pins by override, also for one time, where the version has the queue."""
    deployed(s, "b1", "b2")
    s.start("p-1", versioning_override=pinned_to(s, "b2"))
    step(s, "b2", AUTO, child(s, "c-1"), child(s, "c-2", "lacks"))
    s.wait_event(STARTED, "p-1", count=2)
    s.start("p-2", versioning_override={"auto_upgrade": True})
    for wf in ("c-1", "c-2"):
        known(s, wf)


@of_versions
def children_of_one_time(s: Session) -> None:
    """A one-time override that is pending."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    s.signal()
    task = take(s, "b1")
    override(s, one_time(s, "b2"))
    finish(s, task, "b1", PINNED, child(s, "c-1"), child(s, "c-2", "lacks"))
    s.wait_event(STARTED, count=2)
    for wf in ("c-1", "c-2"):
        known(s, wf)


@of_versions
def children_of_auto_upgrade_override(s: Session) -> None:
    """An override that upgrades."""
    deployed(s, "b1")
    s.start(versioning_override={"auto_upgrade": True})
    step(s, "b1", PINNED, child(s, "c-1"))
    s.wait_event(STARTED)
    known(s, "c-1")


@of_versions
def children_of_unversioned(s: Session) -> None:
    """Children of a run without versions, where the child's queue has a current version."""
    workers(s, "b1", queue="has")
    current(s, "b1")
    begun(s, None, None, child(s, "c-1", "has"))
    s.wait_event(STARTED)
    step(s, "b1", PINNED, queue="has")
    known(s, "c-1")


@of_versions
def child_continues(s: Session) -> None:
    """A child that inherited its version continues."""
    deployed(s, "b1", "b2")
    workers(s, "b1", "b2", queue="has")
    begun(s, "b1", PINNED, child(s, "c-1", "has"))
    s.wait_event(STARTED)
    current(s, "b2")
    time.sleep(OLD_ENOUGH)
    step(s, "b1", PINNED, renew(), queue="has")
    known(s, "c-1")


@of_versions
def reset_to_first_task(s: Session) -> None:
    """A reset to the first workflow task begins anew, at the target."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    s.reset(3)
    known(s)
    step(s, "b2", PINNED)
    known(s)


@of_versions
def reset_to_second_task(s: Session) -> None:
    """A reset to a later workflow task keeps what the one before said."""
    deployed(s, "b1", "b2")
    for wf, behavior in (("wf-1", PINNED), ("wf-2", AUTO)):
        s.start(wf)
        step(s, "b1", behavior)
        s.signal(wf=wf)
        step(s, "b1", behavior)
    current(s, "b2")
    s.reset(8, wf="wf-1")
    known(s, "wf-1")
    step(s, "b1", PINNED)
    s.describe("wf-1")
    s.reset(8, wf="wf-2")
    known(s, "wf-2")
    step(s, "b2", AUTO)
    known(s, "wf-2")


@of_versions
def reset_with_override(s: Session) -> None:
    """Overrides that came after the point of the reset hold for the new run."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "b2"))
    s.reset(4)
    known(s)
    step(s, "b2", AUTO)
    override(s, None)
    s.reset(4)
    known(s)


@of_versions
def reset_excluding_options(s: Session) -> None:
    """A reset that does not reapply what came after."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "b2"))
    s.signal()
    s.reset(4, reset_reapply_type="RESET_REAPPLY_TYPE_NONE")
    known(s)


@of_versions
def reset_with_one_time(s: Session) -> None:
    """A one-time override is reapplied as long as it is pending."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    override(s, one_time(s, "b2"))
    s.reset(4)
    known(s)
    step(s, "b2", PINNED)
    s.describe()
    s.reset(4)
    known(s)


@of_versions
def reset_of_inherited(s: Session) -> None:
    """A run that inherited its version is reset to its first workflow task."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    time.sleep(OLD_ENOUGH)
    s.signal()
    step(s, "b1", PINNED, renew())
    step(s, "b1", PINNED)
    current(s, "b2")
    s.reset(3)
    known(s)
    step(s, "b1", PINNED)
    s.describe()


@of_versions
def timed_out_and_retried(s: Session) -> None:
    """A pinned run that times out is retried, at the target."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED, retry_policy=retry(1), workflow_run_timeout=seconds(2))
    current(s, "b2")
    step(s, "b2", PINNED)
    known(s)
