"""UpdateTaskQueueConfig: rate limits and weights of fairness keys, and what DescribeTaskQueue tells of them."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields
from ..harness import POLL_SHORT, Session
from . import scenario

CALL = "UpdateTaskQueueConfig"
WORKFLOW = "TASK_QUEUE_TYPE_WORKFLOW"
ACTIVITY = "TASK_QUEUE_TYPE_ACTIVITY"


def update(s: Session, kind: str = ACTIVITY, **more: Any) -> Any:
    """Changes the configuration of the queue `q`."""
    fields: Fields = {"task_queue": s.name("q"), "task_queue_type": kind, "identity": "operator"}
    return s.call(CALL, **{**fields, **more})


def limit(rate: float, reason: str = "why") -> Fields:
    """A rate limit."""
    return {"rate_limit": {"requests_per_second": rate}, "reason": reason}


def told(s: Session, kind: str = ACTIVITY, **more: Any) -> None:
    """Describes the queue with its configuration."""
    s.call("DescribeTaskQueue", task_queue={"name": s.name("q")}, task_queue_type=kind, report_config=True, **more)


@scenario
def rate_limits(s: Session) -> None:
    """Limits of a queue and of its keys, set and taken back."""
    update(s)
    told(s)
    update(s, update_queue_rate_limit=limit(5))
    told(s)
    update(s, update_fairness_key_rate_limit_default=limit(2.5, "for each"))
    told(s)
    update(s, update_queue_rate_limit={"reason": "off"})
    update(s, update_queue_rate_limit=limit(0, "stop"))
    told(s)
    told(s, WORKFLOW)
    s.call("DescribeTaskQueue", task_queue={"name": s.name("q")}, task_queue_type=ACTIVITY)


@scenario
def weights(s: Session) -> None:
    """Weights of keys, set and unset."""
    update(s, set_fairness_weight_overrides={"a": 2.0, "b": 3.0})
    update(s, set_fairness_weight_overrides={"a": 4.0}, unset_fairness_weight_overrides=["b", "nobody"])
    told(s)
    update(s, WORKFLOW, set_fairness_weight_overrides={"c": 1.5})
    told(s, WORKFLOW)


@scenario
def refused(s: Session) -> None:
    """What cannot be configured."""
    s.call(CALL, namespace="no-such-namespace")
    s.call(CALL, namespace="")
    update(s, WORKFLOW, update_queue_rate_limit=limit(5))
    update(s, WORKFLOW, update_fairness_key_rate_limit_default=limit(5))
    update(s, WORKFLOW, update_queue_rate_limit={"reason": "none"})
    update(s, update_queue_rate_limit=limit(-1))
    update(s, update_fairness_key_rate_limit_default=limit(-1))
    update(s, update_queue_rate_limit=limit(1, "r" * 1001))
    update(s, identity="i" * 1001)
    update(s, set_fairness_weight_overrides={"a": -1.0})
    update(s, set_fairness_weight_overrides={"a": 1.0}, unset_fairness_weight_overrides=["a"])
    update(s, set_fairness_weight_overrides={"x" * 65: 1.0})
    update(s, set_fairness_weight_overrides={"": 1.0})
    update(s, unset_fairness_weight_overrides=["x" * 65])
    update(s, set_fairness_weight_overrides={f"k{number}": 1.0 for number in range(1001)})
    update(s, task_queue="/_sys/x/1")


@scenario
def a_limit_of_nothing(s: Session) -> None:
    """A queue that may hand out nothing keeps its tasks until it may."""
    update(s, update_queue_rate_limit=limit(0))
    time.sleep(1)
    s.begun(s.activity())
    s.poll_activity(deadline=POLL_SHORT, may_be_empty=True)
    update(s, update_queue_rate_limit=limit(100))
    s.complete_activity(s.poll_activity(), "done")
