"""Child workflows."""

from __future__ import annotations

import time

from ..build import Fields, command, complete, fail, fields, metadata, payloads, retry, seconds
from ..harness import Session
from . import scenario

STARTED = "child_workflow_execution_started"


def child(s: Session, wf: str = "child", user_metadata: Fields | None = None, **more: object) -> Fields:
    """A StartChildWorkflowExecution command; the child's queue is `c`."""
    given = {"workflow_id": s.name(wf), "workflow_type": {"name": "ct"}, "task_queue": {"name": s.name("c")}}
    return command("START_CHILD_WORKFLOW_EXECUTION", user_metadata, **{**given, **more})


def with_child(s: Session, **more: object) -> None:
    """Starts `wf` with a child and completes the parent's task about its start."""
    s.begun(child(s, **more))
    s.wait_event(STARTED)
    s.run_task()


@scenario
def completed(s: Session) -> None:
    """Start, child's event 1, completion, parent's events."""
    s.begun(child(s, input=payloads("in"), header=fields(h=1), memo=fields(m=1), user_metadata=metadata("kid")))
    s.wait_event(STARTED)
    s.history()
    s.describe()
    s.run_task()
    s.history("child")
    s.describe("child")
    s.run_task(complete("out"), queue="c")
    s.wait_event("child_workflow_execution_completed")
    s.history()
    s.describe()


@scenario
def failed(s: Session) -> None:
    """A failing child: failure passed on."""
    with_child(s)
    s.run_task(fail("child broke", non_retryable=True), queue="c")
    s.wait_event("child_workflow_execution_failed")
    s.history()


@scenario
def terminated(s: Session) -> None:
    """A terminated child."""
    with_child(s)
    s.terminate("child")
    s.wait_event("child_workflow_execution_terminated")
    s.history()


@scenario
def timed_out(s: Session) -> None:
    """A child that times out."""
    with_child(s, workflow_run_timeout=seconds(2))
    s.wait_event("child_workflow_execution_timed_out")
    s.history()


@scenario
def cancel_external(s: Session) -> None:
    """The parent cancels its child by RequestCancelExternal with child_workflow_only."""
    with_child(s)
    s.signal()
    s.run_task(
        command(
            "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION",
            workflow_id=s.name("child"),
            child_workflow_only=True,
            reason="enough",
        )
    )
    s.wait_event("external_workflow_execution_cancel_requested")
    s.history("child")
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION", details=payloads("bye")), queue="c")
    s.wait_event("child_workflow_execution_canceled")
    s.history()


@scenario
def signal_child(s: Session) -> None:
    """The parent signals its child with child_workflow_only."""
    with_child(s)
    s.signal()
    s.run_task(
        command(
            "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION",
            execution={"workflow_id": s.name("child")},
            signal_name="hi",
            input=payloads(1),
            child_workflow_only=True,
        )
    )
    s.wait_event("external_workflow_execution_signaled")
    s.history()
    s.history("child")


@scenario
def already_running(s: Session) -> None:
    """The child's id is in use."""
    s.start("child", queue="c")
    s.begun(child(s))
    s.wait_event("start_child_workflow_execution_failed")
    s.history()
    s.describe()


@scenario
def reuse_rejected(s: Session) -> None:
    """The child's id belongs to a closed run and the reuse policy rejects."""
    s.start("child", queue="c")
    s.run_task(complete(), queue="c")
    s.begun(child(s, workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE"))
    s.wait_event("start_child_workflow_execution_failed")
    s.history()


@scenario
def duplicate_in_one_task(s: Session) -> None:
    """Two children of one id in one completion: the second start fails."""
    s.begun(child(s), child(s))
    s.wait_event("start_child_workflow_execution_failed")
    s.wait_event(STARTED)
    events = s.silent("GetWorkflowExecutionHistory", execution=s.execution()).history.events
    kinds = sorted(e.event_type for e in events)
    s.steps.append({"call": "(event types, sorted)", "response": kinds})


@scenario
def everything(s: Session) -> None:
    """All fields of the initiated event, and the child's event 1."""
    s.start(workflow_execution_timeout=seconds(100))
    s.run_task(
        child(
            s,
            control="ctl",
            workflow_execution_timeout=seconds(90),
            workflow_run_timeout=seconds(80),
            workflow_task_timeout=seconds(7),
            retry_policy=retry(2, maximum_attempts=3),
            parent_close_policy="PARENT_CLOSE_POLICY_ABANDON",
            workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY",
            priority={"priority_key": 2},
        )
    )
    s.wait_event(STARTED)
    s.history()
    s.history("child")
    s.describe("child")


@scenario
def default_queue(s: Session) -> None:
    """A child without task queue runs on its parent's; without timeouts on defaults."""
    s.begun(child(s, task_queue=None))
    s.wait_event(STARTED)
    s.history("child")
    s.history()


@scenario
def policy_terminate(s: Session) -> None:
    """Parent close policy terminate."""
    with_child(s, parent_close_policy="PARENT_CLOSE_POLICY_TERMINATE")
    s.signal()
    s.run_task(complete())
    s.wait_event("workflow_execution_terminated", "child")
    s.history("child")
    s.history()


@scenario
def policy_abandon(s: Session) -> None:
    """Parent close policy abandon."""
    with_child(s, parent_close_policy="PARENT_CLOSE_POLICY_ABANDON")
    s.terminate()
    s.run_task(complete(), queue="c")
    s.history("child")
    s.describe("child")


@scenario
def policy_request_cancel(s: Session) -> None:
    """Parent close policy request-cancel."""
    with_child(s, parent_close_policy="PARENT_CLOSE_POLICY_REQUEST_CANCEL")
    s.terminate()
    s.wait_event("workflow_execution_cancel_requested", "child")
    s.history("child")


@scenario
def policy_default(s: Session) -> None:
    """No parent close policy given."""
    with_child(s)
    s.signal()
    s.run_task(fail())
    s.wait_event("workflow_execution_terminated", "child")
    s.history("child")


@scenario
def grandchild(s: Session) -> None:
    """A grandchild knows its parent and the root."""
    s.begun(child(s))
    s.wait_event(STARTED)
    s.run_task(child(s, "grandchild", task_queue={"name": s.name("g")}), queue="c")
    s.wait_event(STARTED, "child")
    s.history("grandchild")
    s.describe("grandchild")


@scenario
def continued(s: Session) -> None:
    """A child that continues as new reports only its last run's result."""
    with_child(s)
    s.run_task(command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION"), queue="c")
    s.run_task(complete("last"), queue="c")
    s.wait_event("child_workflow_execution_completed")
    s.history()
    s.history("child")


@scenario
def retried(s: Session) -> None:
    """A child with a retry policy: the parent sees only the last failure."""
    with_child(s, retry_policy=retry(1, maximum_attempts=2))
    s.run_task(fail("first"), queue="c")
    s.run_task(fail("second"), queue="c")
    s.wait_event("child_workflow_execution_failed")
    s.history()


@scenario
def close_right_after_start(s: Session) -> None:
    """A parent that initiates a child and completes in one go: the child never starts, abandoned or not."""
    s.begun(child(s, parent_close_policy="PARENT_CLOSE_POLICY_ABANDON"), complete())
    time.sleep(1)
    s.history()
    s.describe()
    s.describe("child")


@scenario
def priorities(s: Session) -> None:
    """A child has its parent's priority, as far as the command says nothing else."""
    given = {"priority_key": 2, "fairness_key": "tenant", "fairness_weight": 1.5}
    s.begun(
        child(s, "child-1"),
        child(s, "child-2", priority={"priority_key": 4}),
        child(s, "child-3", priority={"fairness_key": "other"}),
        child(s, "child-4", priority={"priority_key": 1, "fairness_key": "own", "fairness_weight": 3}),
        priority=given,
    )
    s.wait_event(STARTED, count=4)
    for number in range(1, 5):
        s.history(f"child-{number}")
        s.describe(f"child-{number}")


@scenario
def priorities_without_parents(s: Session) -> None:
    """A parent without priority: the child has what the command says."""
    s.begun(child(s, "child-1"), child(s, "child-2", priority={"priority_key": 4}))
    s.wait_event(STARTED, count=2)
    s.history("child-1")
    s.history("child-2")
