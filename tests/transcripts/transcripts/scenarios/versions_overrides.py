"""Versioning overrides: where callers send a run, whatever its workers and the routing say."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, command, complete, seconds
from ..harness import PATIENT, Session
from ..messages import accept_all
from ..versions import (
    ACTIVITY,
    AUTO,
    PINNED,
    begin_take,
    begun,
    current,
    deployed,
    finish,
    nothing_for,
    of_versions,
    one_time,
    override,
    pinned_to,
    ramping,
    step,
    take,
    take_activity,
    version,
    wait,
    workers,
)
from .batches import batch, of, own_namespace
from .schedules import create as create_schedule
from .schedules import describe as describe_schedule
from .schedules import hourly, patch, until_taken

USE_EXISTING = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"}
TERMINATE_EXISTING = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING"}


@of_versions
def refused(s: Session) -> None:
    """Overrides that are malformed, or whose version does not have the queue."""
    workers(s, "b1")
    workers(s, "b2", queue="other")
    s.start()
    wanted: list[Fields] = [
        {},
        {"auto_upgrade": False},
        {"pinned": {}},
        {"pinned": {"behavior": 1}},
        {"pinned": {"version": version(s, "b1")}},
        {"pinned": {"behavior": 1, "version": {}}},
        pinned_to(s, "unknown"),
        pinned_to(s, "b1", "unknown"),
        pinned_to(s, "b2"),
        {"one_time": {}},
        {"one_time": {"target_deployment_version": {}}},
        one_time(s, "b2"),
        one_time(s, "unknown"),
        {"behavior": PINNED, "pinned_version": f"{s.name('d')}.b2"},
        {"behavior": PINNED, "pinned_version": "nodelimiter"},
        {"behavior": PINNED, "pinned_version": f".{s.name('d')}"},
        {"behavior": PINNED, "pinned_version": f"{s.name('d')}."},
    ]
    for one in wanted:
        override(s, one)
    s.history()


@of_versions
def version_with_colon(s: Session) -> None:
    """A version is written with a colon where the older form has a point."""
    workers(s, "b1")
    s.start()
    override(s, {"behavior": PINNED, "pinned_version": f"{s.name('d')}:b1"})
    s.start("wf-2", versioning_override={"behavior": PINNED, "pinned_version": f"{s.name('d')}:b1"})


@of_versions
def masks(s: Session) -> None:
    """Paths of overrides."""
    workers(s, "b1")
    s.start()
    given = pinned_to(s, "b1")
    old = {"behavior": PINNED, "pinned_version": f"{s.name('d')}.b1"}
    override(s, given, path="versioning_override.pinned")
    override(s, given, path="versioning_override.pinned.version")
    override(s, given, path="versioning_override.override")
    override(s, {"auto_upgrade": True}, path="versioning_override.auto_upgrade")
    override(s, one_time(s, "b1"), path="versioning_override.one_time")
    override(s, old, path="versioning_override.behavior")
    override(s, old, path="versioning_override.pinned_version")
    override(s, old, path="versioning_override.deployment")
    override(s, old, path="versioning_override.bogus")
    override(s, given, path="versioningOverride")
    override(s, given)
    override(s, None)
    override(s, None)
    s.history()


@of_versions
def with_a_version(s: Session) -> None:
    """An override by a version that has the queue: what it changes, again, and taken back."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "b2"))
    s.describe()
    override(s, pinned_to(s, "b2"))
    override(s, {"behavior": PINNED, "pinned_version": f"{s.name('d')}.b2"})
    override(s, {"auto_upgrade": True})
    s.describe()
    override(s, {"behavior": AUTO})
    override(s, None)
    s.describe()
    s.history()


@of_versions
def deprecated_forms(s: Session) -> None:
    """Overrides in older forms, at the start and later; history has the newer form."""
    deployed(s, "b1", "b2")
    old = {"behavior": PINNED, "pinned_version": f"{s.name('d')}.b2"}
    s.start("wf-1", versioning_override=old)
    s.history("wf-1")
    s.describe("wf-1")
    step(s, "b2", PINNED)
    s.describe("wf-1")
    override(s, {"behavior": AUTO}, "wf-1")
    s.describe("wf-1")
    older = {"behavior": PINNED, "deployment": {"series_name": s.name("d"), "build_id": "b2"}}
    s.start("wf-2", versioning_override=older)
    s.describe("wf-2")
    step(s, "b2", AUTO)
    s.describe("wf-2")


@of_versions
def implied_pin(s: Session) -> None:
    """An override that pins without a version means the one to which the run is pinned."""
    deployed(s, "b1", "b2")
    s.start()
    here: Fields = {"pinned": {"behavior": 1}}
    override(s, here)
    step(s, "b1", AUTO)
    override(s, here)
    s.signal()
    step(s, "b1", PINNED)
    override(s, here)
    s.describe()
    current(s, "b2")
    s.signal()
    step(s, "b1", AUTO)
    s.describe()
    override(s, None)
    s.signal()
    step(s, "b2", AUTO)
    override(s, one_time(s, "b1"))
    override(s, here)
    s.describe()
    s.history()


@of_versions
def moves_and_moves_back(s: Session) -> None:
    """A pin sends an upgrading workflow to a version, and its end sends it back."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "b2"))
    s.signal()
    nothing_for(s, "b1")
    task = take(s, "b2")
    s.describe()
    finish(s, task, "b2", AUTO)
    s.describe()
    override(s, None)
    s.describe()
    s.signal()
    task = take(s, "b1")
    s.describe()
    finish(s, task, "b1", AUTO)
    s.describe()
    s.history()


@of_versions
def pinned_elsewhere(s: Session) -> None:
    """A pinned workflow with a pin to another version: that version completes, then the pin ends."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    override(s, pinned_to(s, "b2"))
    s.signal()
    step(s, "b2", PINNED)
    s.describe()
    override(s, None)
    s.describe()
    s.signal()
    step(s, "b2", PINNED, complete())
    s.history()


@of_versions
def pinned_and_set_free(s: Session) -> None:
    """An override that upgrades frees a pinned workflow as long as it lasts."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    override(s, {"auto_upgrade": True})
    s.describe()
    s.signal()
    task = take(s, "b2")
    s.describe()
    finish(s, task, "b2", PINNED)
    s.describe()
    override(s, None)
    s.describe()
    current(s, "b1")
    s.signal()
    step(s, "b2", PINNED)
    s.describe()
    s.history()


@of_versions
def waiting_task_offered_anew(s: Session) -> None:
    """A task that waits for one version goes to the other when the override comes, and back."""
    deployed(s, "b1", "b2")
    s.start()
    override(s, pinned_to(s, "b2"))
    nothing_for(s, "b1")
    override(s, None)
    nothing_for(s, "b2")
    step(s, "b1", PINNED)
    s.signal()
    override(s, pinned_to(s, "b2"))
    step(s, "b2", PINNED, complete())
    s.history()


@of_versions
def waiting_activity_offered_anew(s: Session) -> None:
    """An activity that waits goes with the override."""
    deployed(s, "b1", "b2", activities=True)
    begun(s, "b1", PINNED, s.activity())
    override(s, pinned_to(s, "b2"))
    nothing_for(s, "b1", ACTIVITY)
    s.complete_activity(take_activity(s, "b2"))
    step(s, "b2", PINNED, complete())
    s.history()


@of_versions
def while_a_task_runs(s: Session) -> None:
    """An override that comes while a worker has the task."""
    deployed(s, "b1", "b2")
    s.start()
    task = take(s, "b1")
    override(s, pinned_to(s, "b2"))
    s.describe()
    finish(s, task, "b1", AUTO)
    s.describe()
    step(s, "b2", AUTO)
    s.describe()
    s.history()


@of_versions
def while_moving(s: Session) -> None:
    """An override ends the way to another version."""
    deployed(s, "b1", "b2", "b3")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.signal()
    task = take(s, "b2")
    override(s, pinned_to(s, "b3"))
    s.describe()
    finish(s, task, "b2", AUTO)
    s.describe()
    step(s, "b3", AUTO)
    s.describe()


@of_versions
def after_a_failure(s: Session) -> None:
    """A workflow whose task fails at the new version is pinned to the old one."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.signal()
    s.fail_task(take(s, "b2"))
    override(s, pinned_to(s, "b1"))
    s.describe()
    s.join(begin_take(s, "b1", deadline=6))
    s.describe()


@of_versions
def sticky_left(s: Session) -> None:
    """An override clears the sticky queue."""
    deployed(s, "b1", "b2")
    sticky = {"worker_task_queue": s.sticky(), "schedule_to_start_timeout": seconds(20)}
    begun(s, "b1", PINNED, sticky_attributes=sticky)
    override(s, pinned_to(s, "b2"))
    s.signal()
    task = take(s, "b2")
    s.observe("first event", task.history.events[0].event_id)
    finish(s, task, "b2", PINNED)
    s.history()


@of_versions
def one_time_ends(s: Session) -> None:
    """A one-time override routes one workflow task; its end makes no event."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    override(s, one_time(s, "b2"))
    s.describe()
    s.signal()
    nothing_for(s, "b1")
    task = take(s, "b2")
    s.describe()
    finish(s, task, "b2", PINNED)
    s.describe()
    s.signal()
    step(s, "b2", PINNED)
    s.history()


@of_versions
def one_time_of_auto_upgrade(s: Session) -> None:
    """A workflow that upgrades is sent somewhere once, then goes by routing again."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    override(s, one_time(s, "b2"))
    s.signal()
    step(s, "b2", AUTO)
    s.describe()
    s.signal()
    step(s, "b1", AUTO)
    s.describe()
    s.history()


@of_versions
def one_time_while_a_task_runs(s: Session) -> None:
    """A task that was started elsewhere does not end a one-time override."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    s.signal()
    task = take(s, "b1")
    override(s, one_time(s, "b2"))
    finish(s, task, "b1", PINNED)
    s.describe()
    step(s, "b2", PINNED)
    s.describe()
    s.history()


@of_versions
def one_time_failed(s: Session) -> None:
    """A task that fails at the target does not end it."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    override(s, one_time(s, "b2"))
    s.signal()
    s.fail_task(take(s, "b2"))
    s.describe()
    step(s, "b2", PINNED, complete())
    s.describe()


@of_versions
def one_time_taken_back(s: Session) -> None:
    """It is replaced and taken back like any other."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    override(s, one_time(s, "b2"))
    override(s, pinned_to(s, "b2"))
    override(s, one_time(s, "b2"))
    override(s, None)
    s.describe()
    s.signal()
    step(s, "b1", PINNED)
    s.history()


@of_versions
def at_start(s: Session) -> None:
    """Overrides that come with a start, whatever is current."""
    deployed(s, "b1", "b2")
    for wf, given in (("wf-1", pinned_to(s, "b2")), ("wf-2", one_time(s, "b2")), ("wf-3", {"auto_upgrade": True})):
        s.start(wf, versioning_override=given)
        s.describe(wf)
        build = "b1" if wf == "wf-3" else "b2"
        task = take(s, build)
        s.describe(wf)
        finish(s, task, build, AUTO)
        s.describe(wf)
        s.history(wf)
    s.start("wf-4", versioning_override=pinned_to(s, "unknown"))
    s.start("wf-5", versioning_override={})
    s.start("wf-6", versioning_override={"pinned": {"behavior": 1}})


@of_versions
def at_signal_with_start(s: Session) -> None:
    """Overrides that come with signal-with-start: for a new run, not for one that runs."""
    deployed(s, "b1", "b2")
    s.signal_with_start(versioning_override=pinned_to(s, "b2"))
    s.history()
    step(s, "b2", PINNED)
    s.signal_with_start(versioning_override=pinned_to(s, "b1"))
    s.describe()
    s.signal_with_start(wf="wf-2", versioning_override=pinned_to(s, "unknown"))


def update_with_start(s: Session, **start: Any) -> Any:
    """Begins an update-with-start."""
    starting = {"namespace": s.namespace, **s.start_fields(**USE_EXISTING, **start)}
    updating = {"namespace": s.namespace, **s.update_fields("u")}
    operations = [{"start_workflow": starting}, {"update_workflow": updating}]
    return s.begin("ExecuteMultiOperation", PATIENT, operations=operations)


@of_versions
def at_update_with_start(s: Session) -> None:
    """Overrides that come with update-with-start."""
    deployed(s, "b1", "b2")
    begun_call = update_with_start(s, versioning_override=pinned_to(s, "b2"))
    s.wait_update("u")
    accept_all(
        s,
        take(s, "b2"),
        deployment_options={**version(s, "b2"), "worker_versioning_mode": 2},
        versioning_behavior=PINNED,
    )
    s.join(begun_call)
    s.describe()
    s.history()
    s.join(update_with_start(s, wf="wf-2", versioning_override=pinned_to(s, "unknown")))


@of_versions
def at_conflicts(s: Session) -> None:
    """Overrides that come with the start of a workflow that runs: attached to, and replaced."""
    deployed(s, "b1", "b2")
    s.start(versioning_override=pinned_to(s, "b2"))
    s.start(versioning_override=pinned_to(s, "b1"), **USE_EXISTING)
    s.describe()
    s.start(versioning_override={"auto_upgrade": True}, **TERMINATE_EXISTING)
    s.describe()
    s.start(versioning_override=pinned_to(s, "b2"), **TERMINATE_EXISTING)
    step(s, "b2", AUTO)
    s.describe()
    s.start(**TERMINATE_EXISTING)
    s.describe()


@of_versions
def of_children(s: Session) -> None:
    """Overrides in the command that starts a child."""
    deployed(s, "b1", "b2")
    workers(s, "b1", "b2", queue="c")

    def child(wf: str, given: Fields, queue: str = "c") -> Fields:
        return command(
            "START_CHILD_WORKFLOW_EXECUTION",
            workflow_id=s.name(wf),
            workflow_type={"name": "ct"},
            task_queue={"name": s.name(queue)},
            versioning_override=given,
        )

    begun(s, "b1", PINNED, child("c-1", pinned_to(s, "b2")), child("c-2", {"auto_upgrade": True}))
    s.wait_event("child_workflow_execution_started", count=2)
    s.history("c-1")
    s.history("c-2")
    s.describe("c-1")
    step(s, "b1", PINNED, child("c-3", pinned_to(s, "unknown")))
    step(s, "b1", PINNED, child("c-4", pinned_to(s, "b2"), "other"))
    s.wait_event("start_child_workflow_execution_failed", count=2)
    s.history()
    task = take(s, "b1", deadline=12)
    finish(s, task, "b1", PINNED, child("c-5", {}))
    finish(s, take(s, "b1", deadline=12), "b1", PINNED, complete())
    s.history()


@of_versions
def of_schedules(s: Session) -> None:
    """Overrides in the action of a schedule."""
    deployed(s, "b1", "b2")
    start = {"workflow_id": s.name("wf"), "workflow_type": {"name": "wt"}, "task_queue": {"name": s.name("q")}}

    def schedule(given: Fields) -> Fields:
        plan = hourly(s, state={"paused": True})
        return {**plan, "action": {"start_workflow": {**start, "versioning_override": given}}}

    create_schedule(s, schedule(pinned_to(s, "b2")))
    patch(s, trigger_immediately={})
    until_taken(s, 1)
    taken = describe_schedule(s).info.recent_actions[0].start_workflow_result
    s.call("DescribeWorkflowExecution", execution={"workflow_id": taken.workflow_id})
    for index, given in enumerate(({}, pinned_to(s, "unknown"), {"auto_upgrade": True})):
        create_schedule(s, schedule(given), f"sched-{index}")


@of_versions
def of_batches(s: Session) -> None:
    """Overrides given to many workflows."""
    own_namespace(s)
    deployed(s, "b1", "b2")
    for wf in ("wf-1", "wf-2"):
        s.start(wf)
        step(s, "b1", AUTO)

    def change(given: Fields) -> None:
        operation = {
            "identity": "operator",
            "workflow_execution_options": {"versioning_override": given},
            "update_mask": {"paths": ["versioning_override"]},
        }
        batch(s, executions=of(s, "wf-1", "wf-2", "nobody"), update_workflow_options_operation=operation)

    change(pinned_to(s, "b2"))
    s.history("wf-1")
    s.describe("wf-2")
    change(pinned_to(s, "unknown"))
    change({})
    s.history("wf-1")


@of_versions
def of_resets(s: Session) -> None:
    """A reset whose operations pin the new run."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    s.signal()
    step(s, "b1", AUTO)

    def update(given: Fields | None) -> Fields:
        changed = {} if given is None else {"versioning_override": given}
        return {
            "update_workflow_options": {
                "workflow_execution_options": changed,
                "update_mask": {"paths": ["versioning_override"]},
            }
        }

    s.reset(4, post_reset_operations=[update(pinned_to(s, "unknown"))])
    s.reset(4, post_reset_operations=[update({})])
    s.reset(4, post_reset_operations=[update({"pinned": {"behavior": 1}})])
    s.reset(4, post_reset_operations=[update(pinned_to(s, "b2"))])
    s.history()
    s.describe()
    step(s, "b2", AUTO)
    s.describe()
    s.reset(4, post_reset_operations=[update(None)])
    s.history()
    s.describe()
    s.reset(4, post_reset_operations=[update(one_time(s, "b2"))])
    s.describe()
    step(s, "b2", PINNED)
    s.describe()


def status(s: Session, build: str) -> int:
    """The status of a version."""
    found = s.silent("DescribeWorkerDeploymentVersion", deployment_version=version(s, build))
    return int(found.worker_deployment_version_info.status)


DRAINING, DRAINED = 4, 5


@of_versions
def pin_to_drained(s: Session) -> None:
    """A drained version drains again when a workflow is pinned to it."""
    deployed(s, "b1", "b2")
    current(s, "b2")
    wait(lambda: status(s, "b1") == DRAINED)
    s.start(versioning_override=pinned_to(s, "b1"))
    wait(lambda: status(s, "b1") == DRAINING)
    s.call("DescribeWorkerDeploymentVersion", deployment_version=version(s, "b1"))
    step(s, "b1", PINNED)
    override(s, pinned_to(s, "b2"))
    wait(lambda: status(s, "b1") == DRAINED)


@of_versions
def pin_to_inactive(s: Session) -> None:
    """A version that never was current drains when a workflow is pinned to it by options."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "b2"))
    wait(lambda: status(s, "b2") == DRAINING)
    s.call("DescribeWorkerDeploymentVersion", deployment_version=version(s, "b2"))
    s.call("DescribeWorkerDeployment", deployment_name=s.name("d"))


@of_versions
def drained_by_completion(s: Session) -> None:
    """A version drains as long as a workflow is pinned to it."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    s.call("DescribeWorkerDeploymentVersion", deployment_version=version(s, "b1"))
    time.sleep(11)
    s.call("DescribeWorkerDeploymentVersion", deployment_version=version(s, "b1"))
    s.signal()
    step(s, "b1", PINNED, complete())
    wait(lambda: status(s, "b1") == DRAINED)
    s.call("DescribeWorkerDeploymentVersion", deployment_version=version(s, "b1"))
    ramping(s, "b1", 5)
    s.call("DescribeWorkerDeploymentVersion", deployment_version=version(s, "b1"))


@of_versions
def of_another_deployment(s: Session) -> None:
    """Overrides by versions of another deployment, which the workflow's queue is in as well."""
    deployed(s, "b1")
    workers(s, "e1", name="e")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "e1", "e"))
    s.describe()
    override(s, None)
    s.describe()
    override(s, one_time(s, "e1", "e"))
    s.signal()
    step(s, "e1", PINNED, name="e")
    s.describe()
    s.start("wf-2", versioning_override=pinned_to(s, "e1", "e"))
    override(s, None, "wf-2")
    s.describe("wf-2")
    s.start("wf-3", versioning_override=one_time(s, "e1", "e"))
    s.describe("wf-3")
