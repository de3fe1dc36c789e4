"""Workers that tell about themselves."""

from __future__ import annotations

from typing import Any

from ..build import Fields
from ..harness import POLL_SHORT, Session
from . import scenario


def heartbeat(key: str, **more: Any) -> Fields:
    """What a worker tells."""
    plain = {
        "worker_instance_key": key,
        "worker_identity": f"identity of {key}",
        "task_queue": "tq",
        "sdk_name": "temporal-python",
        "sdk_version": "1.2.3",
        "status": "WORKER_STATUS_RUNNING",
        "start_time": {"seconds": 1700000000},
        "heartbeat_time": {"seconds": 1700000100},
        "host_info": {"host_name": "host", "process_id": "7", "worker_grouping_key": "group"},
        "deployment_version": {"deployment_name": "dep", "build_id": "b1"},
        "workflow_task_slots_info": {"current_available_slots": 100, "slot_supplier_kind": "Fixed"},
    }
    return {k: v for k, v in {**plain, **more}.items() if v is not None}


def beat(s: Session, *heartbeats: Fields) -> None:
    """Sends heartbeats."""
    s.call("RecordWorkerHeartbeat", identity="worker", worker_heartbeat=list(heartbeats))


@scenario
def heard(s: Session) -> None:
    """A worker is there with its first heartbeat; the newest counts."""
    s.namespace = s.new_namespace()
    beat(s, heartbeat("a"))
    s.call("DescribeWorker", worker_instance_key="a")
    beat(s, heartbeat("a", task_queue="other", total_sticky_cache_hit=5))
    s.call("DescribeWorker", worker_instance_key="a")
    s.call("ListWorkers")
    s.call("CountWorkers")


@scenario
def none_heard(s: Session) -> None:
    """A namespace without workers."""
    s.namespace = s.new_namespace()
    s.call("ListWorkers")
    s.call("CountWorkers")
    beat(s)
    s.call("CountWorkers")
    beat(s, heartbeat("a"))
    s.call("DescribeWorker", worker_instance_key="b")


@scenario
def pages(s: Session) -> None:
    """Workers in the order of their keys, some at a time."""
    s.namespace = s.new_namespace()
    beat(s, *(heartbeat(key) for key in "cabde"))
    page = s.call("ListWorkers", page_size=2)
    page = s.call("ListWorkers", page_size=2, next_page_token=page.next_page_token)
    s.call("ListWorkers", page_size=2, next_page_token=page.next_page_token)
    s.call("ListWorkers", page_size=2, next_page_token=b"junk")


@scenario
def queries(s: Session) -> None:
    """Which workers fit which query."""
    s.namespace = s.new_namespace()
    bare = heartbeat("bare", host_info=None, deployment_version=None, start_time=None, status="WORKER_STATUS_UNSPECIFIED")
    beat(s, heartbeat("a"), heartbeat("b", task_queue="other", status="WORKER_STATUS_SHUTTING_DOWN"), bare)
    for query in (
        "TaskQueue = 'tq'",
        "TaskQueue = 'other' OR WorkerInstanceKey = 'a'",
        "TaskQueue = 'tq' AND WorkerInstanceKey = 'a'",
        "TaskQueue = 'tq' AND (WorkerInstanceKey = 'a' OR WorkerInstanceKey = 'b')",
        "TaskQueue != 'tq'",
        "TaskQueue <> 'tq'",
        "WorkerIdentity starts_with 'identity'",
        "WorkerIdentity not starts_with 'identity of a'",
        "HostName is null",
        "HostName is not null",
        "DeploymentName = 'dep' and BuildId = 'b1'",
        "SdkName = 'temporal-python' and SdkVersion = '1.2.3'",
        "WorkerStatus = 'Running'",
        "Status = 'ShuttingDown'",
        "STATUS = 'Unspecified'",
        "`TaskQueue` = \"tq\"",
        "StartTime > '2023-11-14T22:13:19Z'",
        "StartTime <= '2023-11-14T22:13:20Z'",
        "StartTime = '2023-11-14T23:13:20+01:00'",
        "StartTime between '2023-01-01T00:00:00Z' and '2024-01-01T00:00:00Z'",
        "StartTime not between '2023-01-01T00:00:00Z' and '2024-01-01T00:00:00Z'",
        "StartTime is null",
        "HeartbeatTime < '2030-01-01T00:00:00Z';",
    ):
        s.call("CountWorkers", query=query)
    s.call("ListWorkers", query="TaskQueue = 'other'")


@scenario
def unanswered_queries(s: Session) -> None:
    """What is not answered fits no worker."""
    s.namespace = s.new_namespace()
    beat(s, heartbeat("a"))
    for query in (
        "NoSuchField = 'x'",
        "taskqueue = 'tq'",
        "TaskQueue > 'a'",
        "TaskQueue = 5",
        "TaskQueue = ''",
        "TaskQueue = tq",
        "TaskQueue in ('tq', 'other')",
        "TaskQueue like 't%'",
        "not TaskQueue = 'tq'",
        "TaskQueue",
        "'tq' = TaskQueue",
        "StartTime = 'yesterday'",
        "StartTime starts_with '2023'",
    ):
        s.call("CountWorkers", query=query)


@scenario
def bad_queries(s: Session) -> None:
    """What cannot be parsed."""
    for query in (
        "TaskQueue = ",
        "TaskQueue = 'tq' extra",
        "TaskQueue = 'tq",
        "  ",
        "a b c",
        "TaskQueue == 'x'",
        "TaskQueue = 'tq' limit 1",
        "(TaskQueue = 'tq'",
        "TaskQueue = 'tq')",
        "TaskQueue = 'tq' and",
        "and TaskQueue = 'tq'",
        "StartTime between '2023-01-01T00:00:00Z'",
    ):
        s.call("CountWorkers", query=query)
    s.call("ListWorkers", query="TaskQueue = ")


@scenario
def shut_down(s: Session) -> None:
    """A worker that has shut down is gone."""
    s.namespace = s.new_namespace()
    beat(s, heartbeat("a"), heartbeat("b"), heartbeat("c"))
    leaving = heartbeat("a", status="WORKER_STATUS_SHUTTING_DOWN")
    fields = {"sticky_task_queue": s.name("sticky"), "identity": "worker", "worker_instance_key": "a"}
    s.call("ShutdownWorker", **fields, worker_heartbeat=leaving)
    s.call("DescribeWorker", worker_instance_key="a")
    s.call("ShutdownWorker", **fields, worker_heartbeat={**leaving, "status": "WORKER_STATUS_SHUTDOWN"})
    s.call("DescribeWorker", worker_instance_key="a")
    beat(s, heartbeat("b", status="WORKER_STATUS_SHUTDOWN"), heartbeat("never", status="WORKER_STATUS_SHUTDOWN"))
    s.call("CountWorkers")


@scenario
def per_namespace(s: Session) -> None:
    """Workers of one namespace are unknown in another."""
    one, two = s.new_namespace("one"), s.new_namespace("two")
    s.namespace = one
    beat(s, heartbeat("a"))
    s.namespace = two
    s.call("CountWorkers")
    beat(s, heartbeat("b"))
    s.call("DescribeWorker", worker_instance_key="a")
    for namespace in ("", "nowhere", "x" * 1001):
        s.namespace = namespace
        beat(s, heartbeat("a"))
        s.call("ListWorkers")
        s.call("CountWorkers")
        s.call("DescribeWorker", worker_instance_key="a")
        s.call("ShutdownWorker", sticky_task_queue="sticky")


@scenario
def told_with_poll(s: Session) -> None:
    """A poll of a Nexus queue brings what workers tell; who polls does not matter."""
    s.namespace = s.new_namespace()
    queue = {"name": s.name("control")}
    s.call("PollNexusTaskQueue", POLL_SHORT, task_queue=queue, identity="worker", worker_heartbeat=[heartbeat("a")])
    s.call("CountWorkers")
    s.call("PollNexusTaskQueue", POLL_SHORT, task_queue=queue, worker_heartbeat=[heartbeat("b")])
    s.call("ListWorkers")
    s.call("RecordWorkerHeartbeat", worker_heartbeat=[heartbeat("c")])
    s.call("ListWorkers")
    s.call("DescribeWorker", worker_instance_key="b")


@scenario
def polls_tell_nothing(s: Session) -> None:
    """A worker that polls under its key and never reports is not listed."""
    s.namespace = s.new_namespace()
    beat(s, heartbeat("a"))
    for rpc in ("PollWorkflowTaskQueue", "PollActivityTaskQueue"):
        s.call(rpc, POLL_SHORT, task_queue=s.queue(), identity="worker", worker_instance_key="b")
    s.call("CountWorkers")
    s.call("ListWorkers")
    s.call("DescribeWorker", worker_instance_key="b")


def polled(s: Session, rpc: str, key: str) -> Any:
    """A task that goes to the worker with this key."""
    return s.call(rpc, 8, task_queue=s.queue(), identity="worker", worker_instance_key=key)


def goodbye(s: Session, key: str, status: str = "") -> None:
    """ShutdownWorker, with a heartbeat of that status if one is given."""
    told = {"worker_heartbeat": heartbeat(key, status=f"WORKER_STATUS_{status}")} if status else {}
    fields = {"sticky_task_queue": s.name("sticky"), "identity": "worker", "worker_instance_key": key}
    s.call("ShutdownWorker", task_queue=s.name("q"), **fields, **told)


@scenario
def goodbye_then_answers(s: Session) -> None:
    """A worker that begins to shut down answers what it has: workflow task, query, activity."""
    s.start()
    task = polled(s, "PollWorkflowTaskQueue", s.name("one"))
    goodbye(s, s.name("one"))
    s.complete(task, s.activity(heartbeat_timeout={"seconds": 5}))
    activity = polled(s, "PollActivityTaskQueue", s.name("two"))
    asked = s.begin_query()
    query = polled(s, "PollWorkflowTaskQueue", s.name("two"))
    goodbye(s, s.name("two"))
    s.call("RespondQueryTaskCompleted", task_token=query.task_token, completed_type="QUERY_RESULT_TYPE_ANSWERED")
    s.join(asked)
    s.heartbeat(activity, 1)
    s.complete_activity(activity, "done")
    s.history()


@scenario
def goodbyes_then_answers(s: Session) -> None:
    """The same after a goodbye with a heartbeat that says so, and another one without."""
    s.start()
    task = polled(s, "PollWorkflowTaskQueue", s.name("one"))
    goodbye(s, s.name("one"), "SHUTTING_DOWN")
    goodbye(s, s.name("one"))
    s.complete(task, s.activity())
    activity = polled(s, "PollActivityTaskQueue", s.name("two"))
    goodbye(s, s.name("two"), "SHUTTING_DOWN")
    goodbye(s, s.name("two"))
    s.complete_activity(activity, "done")
    s.history()
