"""Workflow rules, where the server allows them: activities that match one are paused instead of being started."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, complete
from ..harness import Session
from . import scenario

SWITCHED_ON = True
# The real server notices changes of a namespace a little later.
NOTICED = 4


def spec(rule: str = "rule", predicate: str = "ActivityType = 'act'", **more: Any) -> Fields:
    """A rule that pauses activities."""
    return {
        "id": rule,
        "activity_start": {"predicate": predicate},
        "actions": [{"activity_pause": {}}],
        **more,
    }


def create(s: Session, rule: str = "rule", predicate: str = "ActivityType = 'act'", **more: Any) -> None:
    """CreateWorkflowRule."""
    s.call("CreateWorkflowRule", spec=spec(rule, predicate, **more), identity="operator", description="why")


def own_namespace(s: Session) -> None:
    """Rules hold for a namespace: each scenario has one of its own."""
    s.namespace = s.new_namespace()
    time.sleep(NOTICED)


@scenario
def kept(s: Session) -> None:
    """Rules are created, told, listed and deleted."""
    own_namespace(s)
    s.call("ListWorkflowRules")
    create(s)
    s.call("DescribeWorkflowRule", rule_id="rule")
    s.call("ListWorkflowRules")
    create(s)
    create(s, "other", "ActivityId = 'a'", visibility_query="WorkflowType = 'wt'")
    s.call("DescribeWorkflowRule", rule_id="other")
    s.call("DeleteWorkflowRule", rule_id="rule")
    s.call("DeleteWorkflowRule", rule_id="rule")
    s.call("DescribeWorkflowRule", rule_id="rule")
    s.call("ListWorkflowRules")


@scenario
def refused(s: Session) -> None:
    """Requests that are wrong."""
    s.call("CreateWorkflowRule")
    s.call("CreateWorkflowRule", spec={})
    s.call("CreateWorkflowRule", spec=spec("r" * 2000))
    s.call("CreateWorkflowRule", namespace="no-such-namespace", spec=spec())
    s.call("CreateWorkflowRule", namespace="", spec=spec())
    for call in ("DescribeWorkflowRule", "DeleteWorkflowRule"):
        s.call(call)
        s.call(call, rule_id="nothing")
        s.call(call, namespace="no-such-namespace", rule_id="r")
    s.call("ListWorkflowRules", namespace="no-such-namespace")
    s.call("TriggerWorkflowRule", execution={"workflow_id": "w"}, id="rule")


@scenario
def not_checked(s: Session) -> None:
    """What a rule says is not looked at when it is made."""
    own_namespace(s)
    create(s, "nonsense", "Nothing ~ 7")
    s.call("CreateWorkflowRule", spec={"id": "empty"})
    s.call("DescribeWorkflowRule", rule_id="empty")


@scenario
def too_many(s: Session) -> None:
    """A namespace has ten rules at most; one that has expired makes room."""
    own_namespace(s)
    for number in range(10):
        create(s, f"r{number}")
    create(s, "eleventh")
    s.call("DeleteWorkflowRule", rule_id="r3")
    create(s, "expired", expiration_time={"seconds": 1_700_000_000})
    create(s, "eleventh")
    s.call("DescribeWorkflowRule", rule_id="expired")


@scenario
def activity_paused(s: Session) -> None:
    """An activity that matches is paused when a worker would get it; without the rule it can be unpaused."""
    own_namespace(s)
    create(s)
    time.sleep(NOTICED)
    s.begun(s.activity(), s.activity("b", activity_type={"name": "other"}))
    s.complete_activity(s.poll_activity())
    s.poll_activity(deadline=3, may_be_empty=True)
    s.describe()
    s.call("DeleteWorkflowRule", rule_id="rule")
    time.sleep(NOTICED)
    s.call("UnpauseActivity", execution=s.execution(), id="a", identity="operator")
    s.complete_activity(s.poll_activity())
    s.run_task(complete())
    s.describe()


@scenario
def not_meant(s: Session) -> None:
    """Rules that have expired, are about other workflows or cannot be understood pause nothing."""
    own_namespace(s)
    create(s, "expired", expiration_time={"seconds": 1_700_000_000})
    create(s, "elsewhere", visibility_query="WorkflowType = 'other'")
    create(s, "nonsense", "Nothing ~ 7")
    create(s, "later", "ActivityType = 'act' AND Attempts > 1")
    s.call("CreateWorkflowRule", spec={"id": "idle", "activity_start": {"predicate": "ActivityType = 'act'"}})
    time.sleep(NOTICED)
    s.begun(s.activity())
    s.complete_activity(s.poll_activity())
    s.describe()


@scenario
def predicates(s: Session) -> None:
    """What rules can say of activities and of their workflows."""
    own_namespace(s)
    create(s, "one", "ActivityId = 'a' OR ActivityType STARTS_WITH 'thi'", visibility_query="WorkflowId STARTS_WITH 'wf'")
    create(s, "two", "TaskQueue != 'x' AND ActivityId = 'b' AND Attempts = 1", visibility_query="ExecutionStatus = 'Running'")
    create(s, "three", "ActivityType = 'third' AND (Attempts >= 1 AND Attempts < 2)")
    time.sleep(NOTICED)
    s.begun(
        s.activity(),
        s.activity("b", activity_type={"name": "second"}),
        s.activity("c", activity_type={"name": "third"}),
        s.activity("d", activity_type={"name": "fourth"}),
    )
    s.complete_activity(s.poll_activity())
    s.poll_activity(deadline=3, may_be_empty=True)
    s.describe()
