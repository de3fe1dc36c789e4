"""Routing: which version of the workers gets a task."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc

from ..build import complete, seconds
from ..harness import Session, Stopped
from ..versions import (
    ACTIVITY,
    AUTO,
    CALL_ARRIVES,
    PINNED,
    WORKFLOW,
    begin_take,
    begun,
    current,
    deployed,
    finish,
    nothing_for,
    of_versions,
    options,
    ramping,
    step,
    take,
    take_activity,
    version,
    workers,
)

SCHEDULED = "workflow_task_scheduled"


def sticky(s: Session) -> Any:
    """Sticky attributes of a completion."""
    return {"worker_task_queue": s.sticky(), "schedule_to_start_timeout": seconds(20)}


def sticky_worker(s: Session, build: str) -> None:
    """A worker of a version has polled its sticky queue."""
    s.begin(
        WORKFLOW, 2.2, task_queue=s.sticky(), identity="worker", deployment_options=options(s, build)
    ).result(timeout=30)


@of_versions
def first_task_pinned(s: Session) -> None:
    """The first task moves the workflow to the current version, where it is pinned."""
    deployed(s, "b1")
    s.start()
    task = take(s, "b1")
    s.describe()
    finish(s, task, "b1", PINNED)
    s.describe()
    s.history()


@of_versions
def first_task_auto_upgrade(s: Session) -> None:
    """The same with a worker whose workflows upgrade."""
    deployed(s, "b1")
    begun(s, "b1", AUTO)
    s.describe()
    s.history()


@of_versions
def current_unset(s: Session) -> None:
    """Without a current version workers without versions get tasks, and with one they get nothing."""
    deployed(s, "b1")
    s.start()
    nothing_for(s, None)
    step(s, "b1", AUTO, complete())
    current(s, "")
    s.start("wf-2")
    step(s, None, None, complete())
    s.history("wf-2")
    s.describe("wf-2")


@of_versions
def waiting_task_follows(s: Session) -> None:
    """A task that waits goes to the version that becomes current, and to no other."""
    deployed(s, "b1", "b2")
    s.start()
    current(s, "b2")
    nothing_for(s, "b1")
    step(s, "b2", PINNED, complete())
    s.history()


@of_versions
def waiting_task_from_unversioned(s: Session) -> None:
    """A task waits for workers without versions when the first version becomes current."""
    workers(s, "b1")
    s.start()
    current(s, "b1")
    step(s, "b1", AUTO, complete())
    s.history()


@of_versions
def pinned_stays(s: Session) -> None:
    """A pinned workflow stays with its version, and learns that routing has changed."""
    deployed(s, "b1", "b2", activities=True)
    begun(s, "b1", PINNED, s.activity())
    current(s, "b2")
    nothing_for(s, "b2", ACTIVITY)
    activity = take_activity(s, "b1")
    s.describe()
    s.complete_activity(activity, "done", deployment_options=options(s, "b1"))
    nothing_for(s, "b2")
    task = take(s, "b1")
    s.describe()
    finish(s, task, "b1", PINNED)
    s.signal()
    step(s, "b1", PINNED, complete())
    s.history()
    s.describe()


@of_versions
def pinned_and_activity_of_another_queue(s: Session) -> None:
    """An activity of a pinned workflow on another queue that its version has."""
    deployed(s, "b1", "b2")
    workers(s, "b1", "b2", queue="other", activities=True)
    begun(s, "b1", PINNED, s.activity(task_queue={"name": s.name("other")}))
    current(s, "b2")
    activity = take_activity(s, "b1", queue="other")
    s.complete_activity(activity)
    step(s, "b1", PINNED, complete())
    s.history()


@of_versions
def independent_activity_unversioned(s: Session) -> None:
    """An activity whose queue no version has goes to workers without versions, and moves nothing."""
    deployed(s, "b1")
    begun(s, "b1", PINNED, s.activity(task_queue={"name": s.name("acts")}))
    activity = take_activity(s, None, queue="acts")
    s.describe()
    s.complete_activity(activity)
    task = take(s, "b1")
    s.describe()
    finish(s, task, "b1", PINNED, complete())
    s.history()


@of_versions
def independent_activity_versioned(s: Session) -> None:
    """An activity whose queue belongs to another deployment goes by that deployment's routing."""
    deployed(s, "b1")
    workers(s, "e1", "e2", name="e", queue="acts", activities=True)
    current(s, "e2", "e")
    for wf, behavior in (("wf-1", PINNED), ("wf-2", AUTO)):
        s.start(wf)
        step(s, "b1", behavior, s.activity(task_queue={"name": s.name("acts")}))
        activity = take_activity(s, "e2", name="e", queue="acts")
        s.describe(wf)
        s.complete_activity(activity)
        step(s, "b1", behavior, complete())
        s.describe(wf)


@of_versions
def auto_upgrade_moves(s: Session) -> None:
    """A workflow that upgrades moves with its next workflow task."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.describe()
    s.signal()
    task = take(s, "b2")
    s.describe()
    finish(s, task, "b2", AUTO)
    s.describe()
    s.history()


@of_versions
def auto_upgrade_moves_and_is_pinned(s: Session) -> None:
    """The version to which it moves pins it."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.signal()
    step(s, "b2", PINNED)
    s.describe()
    current(s, "b1")
    s.signal()
    step(s, "b2", AUTO)
    s.describe()
    s.signal()
    step(s, "b1", AUTO)
    s.describe()
    s.history()


@of_versions
def auto_upgrade_to_unversioned(s: Session) -> None:
    """A workflow moves to workers without versions, and back."""
    deployed(s, "b1")
    begun(s, "b1", AUTO)
    current(s, "")
    s.signal()
    task = take(s, None)
    s.describe()
    finish(s, task, None, None)
    s.describe()
    current(s, "b1")
    s.signal()
    step(s, "b1", AUTO)
    s.describe()
    s.history()


@of_versions
def unversioned_becomes_versioned(s: Session) -> None:
    """A workflow that began without versions moves to the first one."""
    begun(s, None, None)
    s.describe()
    deployed(s, "b1")
    s.signal()
    task = take(s, "b1")
    s.describe()
    finish(s, task, "b1", PINNED)
    s.describe()
    s.history()


@of_versions
def activity_moves_the_workflow(s: Session) -> None:
    """A worker of the new version polls an activity: first the workflow moves, then the activity starts."""
    deployed(s, "b1", "b2", activities=True)
    begun(s, "b1", AUTO, s.activity())
    current(s, "b2")
    polling = begin_take(s, "b2", ACTIVITY, deadline=20)
    s.wait_event(SCHEDULED, count=2)
    s.describe()
    finish(s, take(s, "b2"), "b2", AUTO)
    activity = s.join(polling)
    s.describe()
    s.complete_activity(activity)
    step(s, "b2", AUTO, complete())
    s.history()


@of_versions
def activity_of_old_version_runs_on(s: Session) -> None:
    """An activity that a worker of the old version has started is completed by it."""
    deployed(s, "b1", "b2", activities=True)
    begun(s, "b1", AUTO, s.activity())
    activity = take_activity(s, "b1")
    current(s, "b2")
    s.describe()
    s.complete_activity(activity)
    step(s, "b2", AUTO, complete())
    s.history()


@of_versions
def sticky_left(s: Session) -> None:
    """A workflow that upgrades leaves its sticky queue: the new version gets the whole history."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO, sticky_attributes=sticky(s))
    sticky_worker(s, "b1")
    current(s, "b2")
    s.signal()
    task = take(s, "b2")
    s.observe("first event", task.history.events[0].event_id)
    finish(s, task, "b2", AUTO)
    s.history()


@of_versions
def sticky_kept(s: Session) -> None:
    """A workflow whose version is the target stays sticky."""
    deployed(s, "b1")
    begun(s, "b1", AUTO, sticky_attributes=sticky(s))
    sticky_worker(s, "b1")
    s.signal()
    task = take(s, "b1", queue=s.sticky())
    s.observe("first event", task.history.events[0].event_id)
    finish(s, task, "b1", AUTO, complete())
    s.history()


@of_versions
def sticky_kept_pinned(s: Session) -> None:
    """A pinned workflow stays sticky whatever is current."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED, sticky_attributes=sticky(s))
    sticky_worker(s, "b1")
    current(s, "b2")
    s.signal()
    task = take(s, "b1", queue=s.sticky())
    s.observe("first event", task.history.events[0].event_id)
    finish(s, task, "b1", PINNED, complete())
    s.history()


@of_versions
def completion_rules(s: Session) -> None:
    """A behaviour needs the options of a version; options do not need a behaviour."""
    deployed(s, "b1")
    s.start()
    task = take(s, "b1")
    finish(s, task, None, PINNED)
    unversioned = {**version(s, "b1"), "worker_versioning_mode": "WORKER_VERSIONING_MODE_UNVERSIONED"}
    s.complete(task, deployment_options=unversioned, versioning_behavior=AUTO)
    s.describe()
    finish(s, task, "b1", None)
    s.describe()
    s.history()
    s.signal()
    step(s, "b1", AUTO)
    s.describe()
    s.signal()
    step(s, "b1", None)
    s.describe()


@of_versions
def completed_with_older_fields(s: Session) -> None:
    """A behaviour with the older field for the deployment alone, with both fields, and the older field without a behaviour."""
    deployed(s, "b1")
    older = {"series_name": s.name("d"), "build_id": "b1"}
    s.start()
    task = take(s, "b1")
    s.complete(task, deployment=older, versioning_behavior=PINNED)
    s.complete(task, deployment=older, versioning_behavior=AUTO)
    s.describe()
    s.complete(task, deployment={**older, "build_id": "b2"}, versioning_behavior=AUTO, deployment_options=options(s, "b1"))
    s.describe()
    s.signal()
    s.complete(take(s, "b1"), deployment=older)
    s.describe()
    s.history()
    s.signal()
    stamp = {"build_id": "b1", "use_versioning": True}
    s.complete(take(s, "b1"), worker_version_stamp=stamp, versioning_behavior=PINNED)


@of_versions
def completed_by_unversioned(s: Session) -> None:
    """A worker without versions names its deployment and build."""
    s.start()
    unversioned = {**version(s, "b1"), "worker_versioning_mode": "WORKER_VERSIONING_MODE_UNVERSIONED"}
    s.complete(take(s, None), deployment_options=unversioned)
    s.describe()
    s.history()


@of_versions
def completed_as_another(s: Session) -> None:
    """A task of one version is completed as another."""
    deployed(s, "b1", "b2")
    s.start()
    finish(s, take(s, "b1"), "b2", PINNED)
    s.describe()
    s.signal()
    task = take(s, "b1")
    s.describe()
    finish(s, task, "b1", PINNED)
    s.describe()
    s.history()


@of_versions
def failed_while_moving(s: Session) -> None:
    """A task that fails at the new version leaves the workflow on its way; a newer routing takes it elsewhere."""
    deployed(s, "b1", "b2", "b3")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.signal()
    s.fail_task(take(s, "b2"), deployment_options=options(s, "b2"))
    s.describe()
    current(s, "b3")
    task = take(s, "b3", deadline=15)
    s.describe()
    finish(s, task, "b3", AUTO)
    s.describe()
    s.history()


@of_versions
def two_deployments(s: Session) -> None:
    """A queue of two deployments goes by the one whose current version changed last."""
    workers(s, "b1")
    workers(s, "e1", name="e")
    current(s, "b1")
    current(s, "e1", "e")
    s.start("wf-1")
    step(s, "e1", AUTO, name="e")
    current(s, "b1", identity="other")
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=1)
    current(s, "")
    s.start("wf-2")
    step(s, "e1", AUTO, name="e")
    current(s, "b1")
    s.signal(wf="wf-1")
    step(s, "b1", AUTO)
    s.describe("wf-1")


@of_versions
def current_without_the_queue(s: Session) -> None:
    """A queue that the new current version does not have goes to workers without versions."""
    deployed(s, "b1")
    workers(s, "b2", queue="other")
    current(s, "b2", ignore_missing_task_queues=True)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=1)
    s.start()
    step(s, None, None, complete())
    s.history()


@of_versions
def ramp_whole(s: Session) -> None:
    """A ramp of 100 % and of 0 %, and to workers without versions."""
    deployed(s, "b1", "b2")
    ramping(s, "b2", 100)
    s.start("wf-1")
    step(s, "b2", AUTO)
    ramping(s, "b2", 0)
    s.signal(wf="wf-1")
    step(s, "b1", AUTO)
    s.describe("wf-1")
    ramping(s, "", 100)
    s.signal(wf="wf-1")
    step(s, None, None)
    s.describe("wf-1")
    ramping(s, "", 0)
    s.signal(wf="wf-1")
    step(s, "b1", AUTO, complete())
    s.describe("wf-1")


@of_versions
def ramp_alone(s: Session) -> None:
    """A ramp without a current version: the rest goes to workers without versions."""
    workers(s, "b2")
    ramping(s, "b2", 100)
    s.start("wf-1")
    step(s, "b2", PINNED)
    s.describe("wf-1")
    ramping(s, "b2", 0)
    s.start("wf-2")
    step(s, None, None, complete())
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=1)


def routed(s: Session, ids: list[str], percentage: float) -> None:
    """Starts workflows with these very ids and notes which version got each."""
    deployed(s, "b1", "b2")
    ramping(s, "b2", percentage)
    policy = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING"}
    for wf in ids:
        s.silent("StartWorkflowExecution", **{**s.start_fields(**policy), "workflow_id": wf})
    got: dict[str, str] = {}
    end = time.monotonic() + 30

    def work(build: str) -> None:
        said = {"identity": "worker", "deployment_options": options(s, build)}
        while len(got) < len(ids) and time.monotonic() < end:
            try:
                polling = s.begin(WORKFLOW, 3, task_queue=s.queue(), **said).result(timeout=30)
                task = polling[3]
                if task is None or not task.task_token:
                    continue
                got[task.workflow_execution.workflow_id] = build
                done = {"versioning_behavior": AUTO, "commands": [complete()], **said}
                s.silent("RespondWorkflowTaskCompleted", task_token=task.task_token, **done)
            except grpc.RpcError:
                time.sleep(0.1)

    threads = [threading.Thread(target=work, args=(build,)) for build in ("b1", "b2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(got) < len(ids):
        raise Stopped(f"{len(got)} of {len(ids)} workflows got a worker")
    s.observe(f"routed at {percentage} %", {wf: got[wf] for wf in ids})


@of_versions
def ramp_by_id(s: Session) -> None:
    """The workflow id decides who ramps."""
    routed(s, [f"ramp-{number}" for number in range(24)], 40)


@of_versions
def ramp_by_id_of_any_length(s: Session) -> None:
    """The hash has classes of lengths."""
    text = "versions-of-workers-by-workflow-ids-of-any-length-as-it-may-be-" * 2
    routed(s, [text[:length] for length in range(1, 60, 2)] + ["ü-ß-漢字", "x" * 200], 50)


@of_versions
def eager_first_task(s: Session) -> None:
    """An eager first task for a worker of the current version, and of another one."""
    deployed(s, "b1", "b2")
    for wf, build in (("wf-1", "b1"), ("wf-2", "b2"), ("wf-3", None)):
        of = {"request_eager_execution": True, "eager_worker_deployment_options": options(s, build)}
        of = {name: value for name, value in of.items() if value is not None}
        answer = s.call("StartWorkflowExecution", **s.start_fields(wf, **of))
        if answer.HasField("eager_workflow_task"):
            finish(s, answer.eager_workflow_task, build, AUTO if build else None)
            s.describe(wf)


@of_versions
def eager_activity(s: Session) -> None:
    """An eager activity stays with the worker."""
    deployed(s, "b1", activities=True)
    s.start()
    answer = finish(s, take(s, "b1"), "b1", PINNED, s.activity(request_eager_execution=True))
    if not answer.activity_tasks:
        raise Stopped("no eager activity")
    s.describe()
    s.complete_activity(answer.activity_tasks[0])
    step(s, "b1", PINNED, complete())
    s.history()


@of_versions
def activity_retried_after_change(s: Session) -> None:
    """The next attempt of an activity of a workflow that upgrades goes to the new version, with the workflow."""
    deployed(s, "b1", "b2", activities=True)
    begun(s, "b1", AUTO, s.activity(retry_policy={"initial_interval": seconds(1)}))
    activity = take_activity(s, "b1")
    current(s, "b2")
    s.fail_activity(activity, {"message": "boom", "application_failure_info": {"type": "Broken"}})
    polling = begin_take(s, "b2", ACTIVITY, deadline=20)
    s.wait_event(SCHEDULED, count=2)
    finish(s, take(s, "b2"), "b2", AUTO)
    s.describe()
    s.complete_activity(s.join(polling))
    step(s, "b2", AUTO, complete())
    s.history()


@of_versions
def local_next_task(s: Session) -> None:
    """A completion that asks for the next task gets it inline, unless the workflow is to move."""
    deployed(s, "b1", "b2")
    s.start()
    task = take(s, "b1")
    s.signal()
    answer = finish(s, task, "b1", AUTO, return_new_workflow_task=True)
    current(s, "b2")
    s.signal()
    time.sleep(CALL_ARRIVES)
    answer = finish(s, answer.workflow_task, "b1", AUTO, return_new_workflow_task=True)
    s.observe("inline", answer.HasField("workflow_task"))
    s.describe()
