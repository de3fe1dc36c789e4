"""Polling and namespace basics."""

from __future__ import annotations

import time

from ..harness import POLL_SHORT, Session
from . import scenario


@scenario
def poll_deadlines(s: Session) -> None:
    """Polls with no, a too short and a short deadline."""
    for rpc in ("PollWorkflowTaskQueue", "PollActivityTaskQueue"):
        s.call(rpc, None, task_queue=s.queue(), identity="worker")
        s.call(rpc, 0.9, task_queue=s.queue(), identity="worker")
        s.call(rpc, 3, task_queue=s.queue(), identity="worker")


@scenario
def poll_invalid(s: Session) -> None:
    """Polls without queue, with a bad one, of an unknown namespace."""
    for rpc in ("PollWorkflowTaskQueue", "PollActivityTaskQueue"):
        s.call(rpc)
        s.call(rpc, task_queue={"name": ""})
        s.call(rpc, task_queue={"name": "x" * 1001})
        s.call(rpc, task_queue=s.queue(), identity="x" * 1001)
        s.call(rpc, namespace="nowhere", task_queue=s.queue())
        s.call(rpc, namespace="", task_queue=s.queue())


@scenario
def poll_without_identity(s: Session) -> None:
    """A poll without identity is served."""
    s.start()
    s.call("PollWorkflowTaskQueue", task_queue=s.queue())
    s.history()


@scenario
def sticky_without_normal(s: Session) -> None:
    """A sticky poll without normal name."""
    queue = {"name": s.name("sticky"), "kind": "TASK_QUEUE_KIND_STICKY"}
    s.call("PollWorkflowTaskQueue", 3, task_queue=queue, identity="worker")


@scenario
def shutdown_worker(s: Session) -> None:
    """ShutdownWorker answers for a sticky queue."""
    s.call(
        "ShutdownWorker",
        sticky_task_queue=s.name("sticky"),
        identity="worker",
        reason="going",
        worker_instance_key=s.name("key"),
        task_queue=s.name("q"),
    )
    s.call("ShutdownWorker", sticky_task_queue="", identity="worker")


@scenario
def shutdown_during_poll(s: Session) -> None:
    """ShutdownWorker during an open poll of that worker: the poll ends empty, at once or with its deadline."""
    key = s.name("key")
    begun = s.begin("PollWorkflowTaskQueue", 3, task_queue=s.queue(), identity="worker", worker_instance_key=key)
    time.sleep(0.5)
    s.call(
        "ShutdownWorker",
        sticky_task_queue=s.name("sticky"),
        identity="worker",
        worker_instance_key=key,
        task_queue=s.name("q"),
        task_queue_types=["TASK_QUEUE_TYPE_WORKFLOW", "TASK_QUEUE_TYPE_ACTIVITY"],
    )
    s.join(begun)


@scenario
def system_info(s: Session) -> None:
    """What the server says it can do."""
    s.call("GetSystemInfo", namespace=None)


@scenario
def namespaces(s: Session) -> None:
    """DescribeNamespace of the default, an unknown and no namespace."""
    s.call("DescribeNamespace")
    s.call("DescribeNamespace", namespace="nowhere")
    s.call("DescribeNamespace", namespace="")
    s.call("DescribeNamespace", namespace=None, id="11111111-2222-4333-8444-555555555555")


@scenario
def describe_queue(s: Session) -> None:
    """DescribeTaskQueue names the poller."""
    s.start()
    s.run_task()
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type="TASK_QUEUE_TYPE_WORKFLOW")
    s.call("DescribeTaskQueue", task_queue=None)


@scenario
def same_queue_many(s: Session) -> None:
    """Two workflows on one queue are handed out one task each."""
    s.start("wf-1")
    s.run_task()
    s.start("wf-2")
    s.run_task()
    s.history("wf-2")


@scenario
def pollers_after_shutdown(s: Session) -> None:
    """A poller that said goodbye is not listed."""
    key = s.name("key")
    kinds = ["TASK_QUEUE_TYPE_WORKFLOW", "TASK_QUEUE_TYPE_ACTIVITY"]
    polls = [
        s.begin(rpc, 8, task_queue=s.queue(), identity="worker", worker_instance_key=key)
        for rpc in ("PollWorkflowTaskQueue", "PollActivityTaskQueue")
    ]
    time.sleep(1)
    for kind in kinds:
        s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=kind)
    s.call(
        "ShutdownWorker",
        sticky_task_queue=s.name("sticky"),
        identity="worker",
        worker_instance_key=key,
        task_queue=s.name("q"),
        task_queue_types=kinds,
    )
    for poll in polls:
        s.join(poll)
    for kind in kinds:
        s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=kind)


VERSIONS = [
    {"worker_version_capabilities": {"build_id": "b1"}},
    {"worker_version_capabilities": {"build_id": "b3", "deployment_series_name": "series"}},
    {
        "worker_version_capabilities": {"build_id": "b4"},
        "deployment_options": {
            "deployment_name": "deployment",
            "build_id": "b5",
            "worker_versioning_mode": "WORKER_VERSIONING_MODE_UNVERSIONED",
        },
    },
]


@scenario
def versions_of_pollers(s: Session) -> None:
    """Pollers are listed with what they say of their version, the newest of each."""
    for kind, rpc in ((1, "PollWorkflowTaskQueue"), (2, "PollActivityTaskQueue")):
        for number, version in enumerate(VERSIONS):
            queue = {"name": s.name(f"q-{number}")}
            for given in ({}, version):
                begun = s.begin(rpc, POLL_SHORT, task_queue=queue, identity="worker", **given)
                begun.result(timeout=10)
            s.call("DescribeTaskQueue", task_queue=queue, task_queue_type=kind)
