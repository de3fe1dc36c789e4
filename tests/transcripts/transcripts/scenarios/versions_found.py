"""What callers see of versions: search attributes, queries, updates, descriptions of queues."""

from __future__ import annotations

from typing import Any

from ..build import complete, payloads
from ..harness import Session
from ..messages import accept, answer, reject, respond
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
    options,
    override,
    pinned_to,
    ramping,
    step,
    take,
    wait,
    workers,
)


@of_versions
def search_attributes(s: Session) -> None:
    """Through unversioned, auto-upgrade, pinned, override, unset and unspecified."""
    begun(s, None, None)
    s.describe()
    deployed(s, "b1", "b2")
    s.signal()
    step(s, "b1", AUTO)
    s.describe()
    s.signal()
    step(s, "b1", PINNED)
    s.describe()
    override(s, pinned_to(s, "b2"))
    s.describe()
    s.signal()
    step(s, "b2", AUTO)
    s.describe()
    override(s, {"auto_upgrade": True})
    s.describe()
    override(s, None)
    s.describe()
    s.signal()
    step(s, "b1", None)
    s.describe()


@of_versions
def listed(s: Session) -> None:
    """Lists find workflows by version and behaviour."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    named = f"TemporalWorkerDeploymentVersion='{s.name('d')}:b1'"
    pinned = f"{named} AND TemporalWorkflowVersioningBehavior='Pinned' AND ExecutionStatus='Running'"

    def found(query: str, number: int) -> None:
        def test() -> bool:
            return len(s.silent("ListWorkflowExecutions", query=query).executions) == number

        wait(test, f"not listed: {query}")
        s.call("ListWorkflowExecutions", query=query)

    found(pinned, 1)
    found(f"TemporalWorkerDeployment='{s.name('d')}'", 1)
    found(f"BuildIds='pinned:{s.name('d')}:b1'", 1)
    found(f"TemporalUsedWorkerDeploymentVersions='{s.name('d')}:b1'", 1)
    override(s, pinned_to(s, "b2"))
    found(pinned, 0)
    found(f"TemporalWorkerDeploymentVersion='{s.name('d')}:b2'", 1)
    s.call("CountWorkflowExecutions", query=f"TemporalWorkerDeployment='{s.name('d')}'")


@of_versions
def bare_start_with_override(s: Session) -> None:
    """A start with an override has attributes before the first workflow task."""
    workers(s, "b1")
    for wf, given in (("wf-1", pinned_to(s, "b1")), ("wf-2", {"auto_upgrade": True}), ("wf-3", None)):
        more = {} if given is None else {"versioning_override": given}
        s.start(wf, **more)
        s.describe(wf)


def reply(s: Session, task: Any, text: str) -> None:
    """Answers a query."""
    s.call(
        "RespondQueryTaskCompleted",
        task_token=task.task_token,
        completed_type="QUERY_RESULT_TYPE_ANSWERED",
        query_result=payloads(text),
    )


@of_versions
def query_of_pinned(s: Session) -> None:
    """A query of a pinned workflow goes to its version."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    asked = s.begin_query(deadline=15)
    nothing_for(s, "b2")
    reply(s, take(s, "b1"), "b1")
    s.join(asked)
    s.describe()


@of_versions
def query_of_auto_upgrade(s: Session) -> None:
    """A query of a workflow that upgrades goes to the target, and moves nothing."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    asked = s.begin_query(deadline=15)
    reply(s, take(s, "b2"), "b2")
    s.join(asked)
    s.describe()
    s.history()


@of_versions
def query_of_closed(s: Session) -> None:
    """A query of a closed workflow: where a pinned one was, and to the target of one that upgraded."""
    deployed(s, "b1", "b2")
    for wf, behavior in (("wf-1", PINNED), ("wf-2", AUTO)):
        s.start(wf)
        step(s, "b1", behavior, complete())
    current(s, "b2")
    for wf, build in (("wf-1", "b1"), ("wf-2", "b2")):
        asked = s.begin_query(wf, deadline=15)
        reply(s, take(s, build), build)
        s.join(asked)


@of_versions
def query_with_override(s: Session) -> None:
    """A query of a workflow with an override goes where that says."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    override(s, pinned_to(s, "b2"))
    asked = s.begin_query(deadline=15)
    reply(s, take(s, "b2"), "b2")
    s.join(asked)


@of_versions
def query_with_task(s: Session) -> None:
    """A query beside a workflow task goes with that to the new version."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.signal()
    asked = s.begin_query(deadline=15)
    task = take(s, "b2")
    results = {key: {"result_type": 1, "answer": payloads("b2")} for key in task.queries}
    finish(s, task, "b2", AUTO, query_results=results)
    if not results:
        reply(s, take(s, "b2"), "b2")
    s.join(asked)
    s.describe()


@of_versions
def update_accepted_while_moving(s: Session) -> None:
    """An update that the new version accepts moves the workflow."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    asked = s.admit("u")
    task = take(s, "b2")
    s.describe()
    said = {"deployment_options": options(s, "b2"), "versioning_behavior": AUTO}
    message = task.messages[0]
    answer(s, task, accept(message), respond(message), **said)
    s.join(asked)
    s.describe()
    s.history()


@of_versions
def update_rejected_while_moving(s: Session) -> None:
    """An update that the new version rejects leaves no trace."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    asked = s.admit("u")
    task = take(s, "b2")
    said = {"deployment_options": options(s, "b2"), "versioning_behavior": AUTO}
    answer(s, task, reject(task.messages[0]), **said)
    s.join(asked)
    s.describe()
    s.history()
    s.signal()
    step(s, "b2", AUTO)
    s.describe()
    s.history()


@of_versions
def update_of_pinned(s: Session) -> None:
    """An update of a pinned workflow goes to its version."""
    deployed(s, "b1", "b2")
    begun(s, "b1", PINNED)
    current(s, "b2")
    asked = s.admit("u")
    task = take(s, "b1")
    said = {"deployment_options": options(s, "b1"), "versioning_behavior": PINNED}
    message = task.messages[0]
    answer(s, task, accept(message), respond(message), **said)
    s.join(asked)
    s.history()


def describe_queue(s: Session, builds: list[str] | None = None, kind: int = 1, **more: Any) -> None:
    """Describes a queue, in the enhanced mode where builds are named."""
    fields = {"task_queue": s.queue(), "task_queue_type": kind, **more}
    if builds is not None:
        fields |= {
            "task_queue_type": None,
            "api_mode": "DESCRIBE_TASK_QUEUE_MODE_ENHANCED",
            "task_queue_types": ["TASK_QUEUE_TYPE_WORKFLOW", "TASK_QUEUE_TYPE_ACTIVITY"],
            "report_pollers": True,
        }
        if builds:
            fields["versions"] = {"build_ids": builds}
    s.call("DescribeTaskQueue", **fields)


@of_versions
def task_queue(s: Session) -> None:
    """Versioning information of a queue before any version, with versions, a current and a ramping one."""
    describe_queue(s)
    workers(s, "b1", "b2")
    describe_queue(s)
    current(s, "b1")
    describe_queue(s)
    ramping(s, "b2", 30)
    describe_queue(s)
    describe_queue(s, kind=2)
    ramping(s, "", 20)
    describe_queue(s)
    ramping(s, "", 0)
    current(s, "")
    describe_queue(s)


@of_versions
def task_queue_enhanced(s: Session) -> None:
    """The enhanced mode, without selection and by versions in both spellings."""
    deployed(s, "b1", activities=True)
    describe_queue(s, [])
    describe_queue(s, [f"{s.name('d')}:b1"])
    describe_queue(s, [f"{s.name('d')}:unknown"])


@of_versions
def version_with_statistics(s: Session) -> None:
    """A version with statistics of its queues: a pinned task waits there."""
    deployed(s, "b1")
    s.start(versioning_override=pinned_to(s, "b1"))

    def told() -> Any:
        name = {"deployment_name": s.name("d"), "build_id": "b1"}
        fields = {"deployment_version": name, "report_task_queue_stats": True}
        return s.silent("DescribeWorkerDeploymentVersion", **fields)

    wait(lambda: any(queue.stats.approximate_backlog_count == 1 for queue in told().version_task_queues))
    name = {"deployment_name": s.name("d"), "build_id": "b1"}
    s.call("DescribeWorkerDeploymentVersion", deployment_version=name, report_task_queue_stats=True)


@of_versions
def pending_activity(s: Session) -> None:
    """A pending activity tells the version of the worker that has it."""
    deployed(s, "b1", activities=True)
    begun(s, "b1", PINNED, s.activity())
    s.describe()
    activity = s.join(begin_take(s, "b1", ACTIVITY))
    s.describe()
    failed = {"message": "boom", "application_failure_info": {"type": "Broken"}}
    s.fail_activity(activity, failed, deployment_options=options(s, "b1"))
    s.describe()


@of_versions
def reset_by_build_id(s: Session) -> None:
    """A reset point tells the build of the version, and a batch resets to it."""
    deployed(s, "b1", "b2")
    begun(s, "b1", AUTO)
    current(s, "b2")
    s.signal()
    step(s, "b2", AUTO)
    s.describe()
