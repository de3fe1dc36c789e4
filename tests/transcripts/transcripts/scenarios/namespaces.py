"""Namespaces: registering, describing, changing, deleting; and that nothing crosses from one to another by accident."""

from __future__ import annotations

import time

from ..build import command, complete, failure
from ..harness import Session
from . import scenario

# The real server looks at changed namespaces once a second.
REFRESH = 2.5


def day(seconds: int = 86400) -> dict[str, int]:
    """A retention."""
    return {"seconds": seconds}


def id_of(s: Session, namespace: str) -> str:
    """A namespace's id, unrecorded."""
    return s.silent("DescribeNamespace", namespace=namespace).namespace_info.id


@scenario
def register(s: Session) -> None:
    """A namespace with all its texts, described by name and by id."""
    name = s.name("ns")
    s.call(
        "RegisterNamespace",
        namespace=name,
        description="of a test",
        owner_email="owner@example.com",
        workflow_execution_retention_period=day(7200),
        data={"team": "blue"},
    )
    s.call("DescribeNamespace", namespace=name)
    s.call("DescribeNamespace", namespace=None, id=id_of(s, name))


@scenario
def register_invalid(s: Session) -> None:
    """What is refused."""
    name = s.name("ns")
    s.call("RegisterNamespace", namespace="", workflow_execution_retention_period=day())
    s.call("RegisterNamespace", namespace="x" * 1001, workflow_execution_retention_period=day())
    s.call("RegisterNamespace", namespace=name)
    for seconds in (3599, 0, -1):
        s.call("RegisterNamespace", namespace=name, workflow_execution_retention_period=day(seconds))
    s.call("RegisterNamespace", namespace=name, workflow_execution_retention_period={"seconds": 7200, "nanos": -1})
    more = {"namespace": name, "workflow_execution_retention_period": day()}
    s.call("RegisterNamespace", **more, is_global_namespace=True)
    s.call("RegisterNamespace", **more, active_cluster_name="elsewhere")
    s.call("RegisterNamespace", **more, clusters=[{"cluster_name": "elsewhere"}])
    s.call("RegisterNamespace", **more, clusters=[{"cluster_name": "active"}, {"cluster_name": "active"}])
    s.call("DescribeNamespace", namespace=name)


@scenario
def register_twice(s: Session) -> None:
    """Names are unique; the server's own names are taken."""
    name = s.new_namespace()
    s.call("RegisterNamespace", namespace=name, workflow_execution_retention_period=day())
    s.call("RegisterNamespace", namespace=name)
    s.call("RegisterNamespace", namespace="default", workflow_execution_retention_period=day())
    s.call("RegisterNamespace", namespace="temporal-system", workflow_execution_retention_period=day())
    s.call(
        "RegisterNamespace", namespace=name, workflow_execution_retention_period=day(), active_cluster_name="elsewhere"
    )


@scenario
def register_long_retention(s: Session) -> None:
    """A retention beyond a hundred years is cut."""
    name = s.name("ns")
    s.call("RegisterNamespace", namespace=name, workflow_execution_retention_period=day(10**12))
    s.call("DescribeNamespace", namespace=name)


@scenario
def odd_names(s: Session) -> None:
    """Any text is a name."""
    for text in ("with space", "slash/ed", "dotted.name", "_", 'quo"ted', "Ümläut", "temporal-x", "x" * 300):
        s.new_namespace(text)
        s.call("DescribeNamespace", namespace=s.name(text))


@scenario
def describe_invalid(s: Session) -> None:
    """Both ways to name it, none, unknown ones."""
    name = s.new_namespace()
    s.call("DescribeNamespace", namespace=name, id=id_of(s, name))
    s.call("DescribeNamespace", namespace="")
    s.call("DescribeNamespace", namespace="nowhere")
    s.call("DescribeNamespace", namespace="x" * 1001)
    s.call("DescribeNamespace", namespace=None, id="11111111-2222-4333-8444-555555555555")


@scenario
def update_info(s: Session) -> None:
    """Texts are replaced unless empty; data is merged."""
    name = s.new_namespace(description="old", owner_email="old@example.com", data={"kept": "1", "changed": "1"})
    s.call("UpdateNamespace", namespace=name)
    s.call("UpdateNamespace", namespace=name, update_info={"description": "new"})
    s.call("UpdateNamespace", namespace=name, update_info={"owner_email": "new@example.com"})
    s.call("UpdateNamespace", namespace=name, update_info={"data": {"changed": "2", "added": ""}})
    s.call("DescribeNamespace", namespace=name)


@scenario
def update_retention(s: Session) -> None:
    """A new retention, and ones that are refused."""
    name = s.new_namespace()
    s.call("UpdateNamespace", namespace=name, config={"workflow_execution_retention_ttl": day(3600)})
    s.call("UpdateNamespace", namespace=name, config={"workflow_execution_retention_ttl": day(10**12)})
    for seconds in (3599, 0, -1):
        s.call("UpdateNamespace", namespace=name, config={"workflow_execution_retention_ttl": day(seconds)})
    s.call("UpdateNamespace", namespace=name, config={})
    s.call("DescribeNamespace", namespace=name)


@scenario
def update_archival(s: Session) -> None:
    """Archival is not set up, so that asking for it changes nothing."""
    name = s.new_namespace(history_archival_state="ARCHIVAL_STATE_ENABLED", history_archival_uri="file:///nowhere")
    s.call("UpdateNamespace", namespace=name, config={"visibility_archival_state": "ARCHIVAL_STATE_ENABLED"})
    s.call("DescribeNamespace", namespace=name)


@scenario
def update_bad_binaries(s: Session) -> None:
    """Bad binaries are merged, at most ten, and taken out one by one."""
    name = s.new_namespace()
    bad = {"reason": "broken", "operator": "me"}
    # With another setting: alone they are forgotten by the real server.
    for checksum in ("one", "two"):
        s.call(
            "UpdateNamespace",
            namespace=name,
            update_info={"description": f"with {checksum}"},
            config={"bad_binaries": {"binaries": {checksum: bad}}},
        )
    many = {f"n{n}": bad for n in range(11)}
    s.call("UpdateNamespace", namespace=name, config={"bad_binaries": {"binaries": many}})
    s.call("UpdateNamespace", namespace=name, delete_bad_binary="none")
    s.call("UpdateNamespace", namespace=name, delete_bad_binary="one")
    s.call("DescribeNamespace", namespace=name)


@scenario
def update_invalid(s: Session) -> None:
    """What is refused besides."""
    name = s.new_namespace()
    s.call("UpdateNamespace", namespace="")
    s.call("UpdateNamespace", namespace="nowhere")
    s.call("UpdateNamespace", namespace="x" * 1001)
    s.call("UpdateNamespace", namespace=name, promote_namespace=True)
    s.call("UpdateNamespace", namespace=name, replication_config={"active_cluster_name": "elsewhere"})
    s.call("UpdateNamespace", namespace=name, replication_config={"clusters": [{"cluster_name": "elsewhere"}]})
    s.call("UpdateNamespace", namespace=name, replication_config={"state": "REPLICATION_STATE_HANDOVER"})
    s.call("UpdateNamespace", namespace=name, replication_config={"active_cluster_name": "active"})
    # Refused as a whole.
    s.call(
        "UpdateNamespace",
        namespace=name,
        update_info={"description": "new"},
        config={"workflow_execution_retention_ttl": day(1)},
    )
    s.call("DescribeNamespace", namespace=name)


@scenario
def update_state(s: Session) -> None:
    """From registered to deprecated to deleted, never back."""
    name = s.new_namespace()

    def to(state: str) -> None:
        s.call("UpdateNamespace", namespace=name, update_info={"state": f"NAMESPACE_STATE_{state}"})

    to("REGISTERED")
    s.call("UpdateNamespace", namespace=name, update_info={"state": 9})
    to("DEPRECATED")
    time.sleep(REFRESH)
    to("REGISTERED")
    to("DELETED")
    time.sleep(REFRESH)
    to("DEPRECATED")
    s.call("DescribeNamespace", namespace=name)
    s.call("DeprecateNamespace", namespace=name)
    s.namespace = name
    s.start()
    s.describe()
    s.poll(deadline=3, may_be_empty=True)
    s.call("ListSearchAttributes")


@scenario
def deprecate(s: Session) -> None:
    """No starts in a deprecated namespace; what runs goes on."""
    s.call("DeprecateNamespace", namespace="")
    s.call("DeprecateNamespace", namespace="nowhere")
    s.namespace = s.new_namespace()
    s.start()
    s.call("DeprecateNamespace")
    time.sleep(REFRESH)
    s.call("DeprecateNamespace")
    s.start("other")
    s.signal_with_start()
    s.signal()
    s.run_task(complete())
    s.describe()
    s.call("DescribeNamespace")


@scenario
def unknown_everywhere(s: Session) -> None:
    """Calls that name no namespace, one that is not there, and one whose name is too long."""
    for namespace in ("", "nowhere", "x" * 1001):
        s.namespace = namespace
        s.start()
        s.signal()
        s.signal_with_start()
        s.cancel()
        s.terminate()
        s.describe()
        s.history()
        s.query()
        s.call("GetWorkflowExecutionHistoryReverse", execution=s.execution())
        s.call("DeleteWorkflowExecution", workflow_execution=s.execution())
        s.call("ResetStickyTaskQueue", execution=s.execution())
        s.poll(deadline=3, may_be_empty=True)
        s.poll_activity(deadline=3, may_be_empty=True)
        s.by_id("RespondActivityTaskCompletedById")
        s.by_id("RecordActivityTaskHeartbeatById")
        s.call("DescribeTaskQueue", task_queue=s.queue())


@scenario
def same_ids(s: Session) -> None:
    """One workflow id in two namespaces: two workflows."""
    one, two = s.new_namespace("one"), s.new_namespace("two")
    s.namespace = one
    run = s.start()
    s.namespace = two
    s.describe()
    s.describe(run=run)
    s.history(run=run)
    s.signal(run=run)
    s.terminate(run=run)
    s.start()
    s.terminate()
    s.describe()
    s.namespace = one
    s.signal()
    s.describe()


@scenario
def same_queue_names(s: Session) -> None:
    """A task waits on the queue of its own namespace."""
    one, two = s.new_namespace("one"), s.new_namespace("two")
    s.namespace = one
    s.start()
    s.namespace = two
    s.poll(deadline=3, may_be_empty=True)
    s.start()
    s.run_task(complete())
    s.namespace = one
    s.run_task(complete())


@scenario
def foreign_tokens(s: Session) -> None:
    """A token of one namespace is refused in another."""
    one, two = s.new_namespace("one"), s.new_namespace("two")
    s.namespace = one
    s.start()
    task = s.poll()
    s.namespace = two
    s.complete(task)
    s.fail_task(task)
    s.namespace = one
    s.complete(task, s.activity())
    activity = s.poll_activity()
    s.namespace = two
    s.heartbeat(activity)
    s.complete_activity(activity)
    s.fail_activity(activity, failure())
    s.call("RespondActivityTaskCanceled", task_token=activity.task_token)
    s.by_id("RespondActivityTaskCompletedById")
    # Without a name the token says which namespace is meant.
    s.heartbeat(activity, namespace="")
    s.complete_activity(activity, namespace="nowhere")
    s.namespace = one
    s.complete_activity(activity)


@scenario
def commands_across(s: Session) -> None:
    """Workflows may not start, signal or cancel workflows of another namespace."""
    one, two = s.new_namespace("one"), s.new_namespace("two")
    s.namespace = two
    s.start("target")
    s.namespace = one
    execution = {"workflow_id": s.name("target")}
    child = {"workflow_id": s.name("child"), "workflow_type": {"name": "wt"}, "task_queue": {"name": s.name("q")}}
    for wf, across in (
        ("signals", command("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", namespace=two, execution=execution, signal_name="s")),
        ("cancels", command("REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION", namespace=two, **execution)),
        ("starts", command("START_CHILD_WORKFLOW_EXECUTION", namespace=two, **child)),
    ):
        s.start(wf, queue=wf)
        s.run_task(across, queue=wf)
        s.history(wf)
    s.namespace = two
    s.history("target")
    s.describe("child")


@scenario
def commands_within(s: Session) -> None:
    """A child and a signal in a namespace of their own, named in full."""
    s.namespace = s.new_namespace()
    s.start()
    s.run_task(
        command(
            "START_CHILD_WORKFLOW_EXECUTION",
            namespace=s.namespace,
            workflow_id=s.name("child"),
            workflow_type={"name": "wt"},
            task_queue={"name": s.name("child-q")},
        )
    )
    s.wait_event("child_workflow_execution_started")
    s.run_task(complete("from the child"), queue="child-q")
    s.wait_event("child_workflow_execution_completed")
    s.run_task()
    s.history()
    s.history("child")
