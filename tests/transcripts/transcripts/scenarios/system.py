"""What the server says of itself and of its task queues."""

from __future__ import annotations

import time

from ..build import complete
from ..harness import Session
from . import scenario

WORKFLOW, ACTIVITY = "TASK_QUEUE_TYPE_WORKFLOW", "TASK_QUEUE_TYPE_ACTIVITY"
ENHANCED = "DESCRIBE_TASK_QUEUE_MODE_ENHANCED"


@scenario
def clusters(s: Session) -> None:
    """The cluster and its siblings."""
    s.call("ListClusters", namespace=None)
    s.call("GetClusterInfo", namespace=None)
    s.call("GetSystemInfo", namespace=None)


@scenario
def partitions(s: Session) -> None:
    """A queue's partitions."""
    s.call("ListTaskQueuePartitions", task_queue=s.queue())
    s.call("ListTaskQueuePartitions")
    s.call("ListTaskQueuePartitions", task_queue={"name": ""})
    s.call("ListTaskQueuePartitions", task_queue={"name": "x" * 1001})
    s.call("ListTaskQueuePartitions", namespace="nowhere", task_queue=s.queue())
    s.call("ListTaskQueuePartitions", namespace="", task_queue=s.queue())


def settled(s: Session, count: int) -> None:
    """Waits, unrecorded, until the queue says how much waits."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        queue = s.silent("DescribeTaskQueue", task_queue=s.queue(), report_stats=True)
        if queue.stats.approximate_backlog_count == count:
            return
        time.sleep(0.1)


@scenario
def backlog(s: Session) -> None:
    """What waits on a queue, and that it is gone once it was taken."""
    for number in range(3):
        s.start(f"wf-{number}")
    settled(s, 3)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=WORKFLOW, report_stats=True)
    for _ in range(3):
        s.run_task(complete())
    settled(s, 0)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=WORKFLOW, report_stats=True)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=WORKFLOW)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=ACTIVITY)


@scenario
def backlog_by_priority(s: Session) -> None:
    """What waits, by priority."""
    for key in (1, 1, 5):
        s.start(f"wf-{s.request_count}", priority={"priority_key": key})
    settled(s, 3)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=WORKFLOW, report_stats=True)


@scenario
def unused_queue(s: Session) -> None:
    """A queue that was never used."""
    for kind in (WORKFLOW, ACTIVITY, "TASK_QUEUE_TYPE_NEXUS", 9):
        s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=kind)


@scenario
def pollers(s: Session) -> None:
    """Who polls, in the older and in the newer form."""
    s.poll(deadline=3, may_be_empty=True)
    s.poll_activity(deadline=3, may_be_empty=True)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=WORKFLOW)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=ACTIVITY)
    s.call("DescribeTaskQueue", task_queue=s.queue(), api_mode=ENHANCED, report_pollers=True)


@scenario
def enhanced(s: Session) -> None:
    """Versions of a queue; the real server remembers its first answer for a while, so each has its own queue."""
    for number, asked in enumerate(
        (
            {},
            {"report_task_reachability": True},
            {"task_queue_types": [WORKFLOW]},
            {"versions": {"unversioned": True}},
            {"versions": {"build_ids": ["none"]}},
            {"versions": {"all_active": True}},
        )
    ):
        s.call("DescribeTaskQueue", task_queue=s.queue(f"q-{number}"), api_mode=ENHANCED, **asked)
    sticky = {"name": s.name("sticky"), "kind": "TASK_QUEUE_KIND_STICKY", "normal_name": s.name("q")}
    s.call("DescribeTaskQueue", task_queue=sticky, api_mode=ENHANCED)


@scenario
def enhanced_stats(s: Session) -> None:
    """Statistics by version."""
    s.start("wf-1")
    s.start("wf-2")
    settled(s, 2)
    s.call("DescribeTaskQueue", task_queue=s.queue(), api_mode=ENHANCED, report_stats=True)


@scenario
def describe_invalid(s: Session) -> None:
    """Queues that are none."""
    s.call("DescribeTaskQueue")
    s.call("DescribeTaskQueue", task_queue={"name": ""})
    s.call("DescribeTaskQueue", task_queue={"name": "x" * 1001})
    s.call("DescribeTaskQueue", namespace="nowhere", task_queue=s.queue())
