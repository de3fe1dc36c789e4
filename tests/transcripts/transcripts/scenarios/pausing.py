"""PauseWorkflowExecution and UnpauseWorkflowExecution, where the server allows them."""

from __future__ import annotations

import time
from typing import Any

from ..build import command, complete, failure, retry, seconds, timer
from ..harness import Session
from . import scenario
from .children import STARTED, child
from .update_with_start import begin_both
from .visibility import counted, listed, settled

SWITCHED_ON = True
PAUSED = "workflow_execution_paused"


def pause(s: Session, wf: str = "wf", **more: Any) -> None:
    """PauseWorkflowExecution with a reason."""
    fields = {"workflow_id": s.name(wf), "identity": "operator", "reason": "look at it", "request_id": s.request_id()}
    s.call("PauseWorkflowExecution", **{**fields, **more})


def unpause(s: Session, wf: str = "wf", **more: Any) -> None:
    """UnpauseWorkflowExecution with a reason."""
    fields = {"workflow_id": s.name(wf), "identity": "operator", "reason": "looked", "request_id": s.request_id()}
    s.call("UnpauseWorkflowExecution", **{**fields, **more})


def no_task(s: Session) -> None:
    """No worker is handed a workflow task for a while."""
    s.poll(deadline=3, may_be_empty=True)


def no_activity(s: Session) -> None:
    """No worker is handed an activity for a while."""
    s.poll_activity(deadline=3, may_be_empty=True)


def goes_on(s: Session) -> None:
    """Unpaused, the run gets a workflow task and ends."""
    unpause(s)
    s.history()
    s.run_task(complete("out"))
    s.history()
    s.describe()


# -- the calls themselves -----------------------------------------------------------------


@scenario
def idle(s: Session) -> None:
    """A run that waits is paused and unpaused: events, description, the next workflow task."""
    s.begun(timer("t", 600))
    pause(s)
    s.history()
    s.describe()
    goes_on(s)


@scenario
def repeated(s: Session) -> None:
    """A second pause is refused, unless it repeats the request of the first one; a second unpause is refused."""
    s.begun()
    pause(s, request_id="first")
    pause(s, request_id="first")
    pause(s, request_id="second")
    unpause(s, request_id="third")
    unpause(s, request_id="third")
    s.history()
    pause(s, request_id="first")
    s.history()


@scenario
def without_request_id(s: Session) -> None:
    """Without a request id each pause is another one."""
    s.begun()
    pause(s, request_id="", reason="", identity="")
    s.history()
    s.describe()
    pause(s, request_id="")
    unpause(s, request_id="", reason="", identity="")
    s.history()


@scenario
def refused(s: Session) -> None:
    """Requests that are wrong, and runs that are closed or unknown."""
    run = s.start()
    for call in (pause, unpause):
        call(s, workflow_id="")
        call(s, wf="nobody")
        call(s, run_id="x")
        call(s, run_id="11111111-2222-4333-8444-555555555555")
        call(s, identity="i" * 2000)
        call(s, reason="r" * 2000)
        call(s, request_id="r" * 2000)
        call(s, workflow_id="w" * 2000)
        call(s, namespace="no-such-namespace")
        call(s, namespace="")
    unpause(s, run_id=run)
    s.terminate()
    pause(s)
    unpause(s, run_id=run)


# -- workflow tasks -----------------------------------------------------------------------


@scenario
def task_waiting(s: Session) -> None:
    """A workflow task that no worker has taken is not handed out while paused."""
    s.start()
    pause(s)
    s.history()
    s.describe()
    no_task(s)
    s.history()


@scenario
def task_started(s: Session) -> None:
    """A worker has a workflow task: it may complete it; the pause shows in history after that."""
    s.start()
    task = s.poll()
    pause(s)
    s.history()
    s.describe()
    s.complete(task, timer("t", 600))
    s.history()
    s.describe()
    goes_on(s)


@scenario
def task_started_closes(s: Session) -> None:
    """The workflow task that a worker has wants to close the run."""
    s.start()
    task = s.poll()
    pause(s)
    s.complete(task, complete("early"))
    s.history()
    s.describe()
    no_task(s)


@scenario
def task_started_wants_another(s: Session) -> None:
    """The worker wants another workflow task at once."""
    s.start()
    task = s.poll()
    pause(s)
    s.complete(task, force_create_new_workflow_task=True)
    s.history()
    s.complete(task)
    s.history()


@scenario
def task_started_unpaused(s: Session) -> None:
    """Paused and unpaused while a worker has a workflow task."""
    s.start()
    task = s.poll()
    pause(s)
    unpause(s)
    s.history()
    s.describe()
    s.complete(task)
    s.history()
    s.run_task(complete())
    s.history()


def on_sticky_queue(s: Session) -> Any:
    """A run whose worker keeps it and polls for it; the poll."""
    s.start()
    s.run_task(sticky_attributes={"worker_task_queue": s.sticky(), "schedule_to_start_timeout": seconds(9)})
    begun = s.begin("PollWorkflowTaskQueue", 8, task_queue=s.sticky(), identity="worker")
    time.sleep(0.5)
    return begun


@scenario
def sticky(s: Session) -> None:
    """The workflow task after the pause goes to the sticky queue."""
    begun = on_sticky_queue(s)
    pause(s)
    unpause(s)
    s.complete(s.join(begun), complete())
    s.history()


@scenario
def sticky_task_waiting(s: Session) -> None:
    """A workflow task that waits in the sticky queue when the run is paused: the next one goes to the normal queue."""
    begun = on_sticky_queue(s)
    s.signal()
    s.complete(
        s.join(begun), sticky_attributes={"worker_task_queue": s.sticky(), "schedule_to_start_timeout": seconds(9)}
    )
    s.signal()
    pause(s)
    s.history()
    unpause(s)
    s.history()
    s.run_task(complete())


@scenario
def task_fails(s: Session) -> None:
    """A worker fails the workflow task it has: there is no other one before the end of the pause."""
    s.start()
    task = s.poll()
    pause(s)
    s.fail_task(task)
    s.history()
    s.describe()
    no_task(s)
    goes_on(s)


@scenario
def task_times_out(s: Session) -> None:
    """So with a workflow task whose worker is silent."""
    s.start(workflow_task_timeout=seconds(1))
    s.poll()
    pause(s)
    s.wait_event("workflow_task_timed_out")
    s.history()
    s.describe()
    goes_on(s)


@scenario
def retried_task_waiting(s: Session) -> None:
    """Paused while the second attempt of a workflow task waits."""
    s.start()
    s.fail_task(s.poll())
    pause(s)
    s.history()
    s.describe()
    goes_on(s)


@scenario
def retried_task_started(s: Session) -> None:
    """Paused while a worker has the second attempt of a workflow task."""
    s.start()
    s.fail_task(s.poll())
    task = s.poll()
    pause(s)
    s.complete(task)
    s.history()
    goes_on(s)


@scenario
def start_delayed(s: Session) -> None:
    """Paused before its first workflow task is due."""
    s.start(workflow_start_delay=seconds(1))
    pause(s)
    s.history()
    s.describe()
    time.sleep(2)
    s.history()


# -- what happens meanwhile ---------------------------------------------------------------


@scenario
def signalled(s: Session) -> None:
    """Signals are taken; they are handled after the pause."""
    s.begun()
    pause(s)
    s.signal()
    s.signal("other")
    s.history()
    s.describe()
    no_task(s)
    goes_on(s)


@scenario
def signalled_with_start(s: Session) -> None:
    """Signal-with-start finds the paused run."""
    s.begun()
    pause(s)
    s.signal_with_start()
    s.history()
    s.describe()
    no_task(s)
    goes_on(s)


@scenario
def timer_fires(s: Session) -> None:
    """A timer fires; the workflow hears of it after the pause."""
    s.begun(timer("t", 1))
    pause(s)
    s.wait_event("timer_fired")
    s.history()
    s.describe()
    no_task(s)
    goes_on(s)


@scenario
def cancel_requested(s: Session) -> None:
    """A request to cancel is written down and handled after the pause."""
    s.begun()
    pause(s)
    s.cancel()
    s.history()
    s.describe()
    no_task(s)
    unpause(s)
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION"))
    s.history()
    s.describe()


@scenario
def terminated(s: Session) -> None:
    """A paused run can be terminated."""
    s.begun()
    pause(s)
    s.terminate()
    s.history()
    s.describe()


@scenario
def run_times_out(s: Session) -> None:
    """The run's time goes on."""
    s.start(workflow_run_timeout=seconds(2))
    s.run_task()
    pause(s)
    s.wait_event("workflow_execution_timed_out")
    s.history()
    s.describe()


@scenario
def queried(s: Session) -> None:
    """Queries are rejected, regardless of the condition."""
    s.begun()
    pause(s)
    s.query()
    for condition in ("NONE", "NOT_OPEN", "NOT_COMPLETED_CLEANLY"):
        s.query(query_reject_condition=f"QUERY_REJECT_CONDITION_{condition}")


@scenario
def updated(s: Session) -> None:
    """Updates are refused, and so are updates with a start that finds the paused run."""
    s.begun()
    pause(s)
    s.update()
    s.update("w", stage="ACCEPTED")
    s.join(begin_both(s, "v", workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"))
    s.history()


@scenario
def update_waiting(s: Session) -> None:
    """An update that waits for its workflow task when the run is paused."""
    s.begun()
    begun = s.admit(deadline=6)
    pause(s)
    s.history()
    no_task(s)
    s.join(begun)
    s.history()


@scenario
def started_again(s: Session) -> None:
    """Starts with the same id: the paused run counts as running."""
    s.begun()
    pause(s)
    s.start()
    s.start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING")
    s.start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING")
    s.describe()


@scenario
def deleted(s: Session) -> None:
    """A paused run can be deleted."""
    s.begun()
    pause(s)
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution())


@scenario
def options_changed(s: Session) -> None:
    """Options can be changed; that makes no workflow task."""
    s.begun()
    pause(s)
    s.call(
        "UpdateWorkflowExecutionOptions",
        workflow_execution=s.execution(),
        workflow_execution_options={"priority": {"priority_key": 2}},
        update_mask={"paths": ["priority"]},
    )
    s.history()
    s.describe()


# -- activities ---------------------------------------------------------------------------


@scenario
def activity_waiting(s: Session) -> None:
    """An activity that no worker has taken is not handed out while paused."""
    s.begun(s.activity())
    pause(s)
    s.describe()
    no_activity(s)
    unpause(s)
    s.describe()
    s.complete_activity(s.poll_activity(), "out")
    s.history()


@scenario
def activity_started(s: Session) -> None:
    """A worker has an activity: it may heartbeat and complete it; the workflow hears of it after the pause."""
    s.begun(s.activity(heartbeat_timeout=seconds(8)))
    task = s.poll_activity()
    pause(s)
    s.heartbeat(task, 1)
    s.describe()
    s.complete_activity(task, "out")
    s.history()
    s.describe()
    no_task(s)
    goes_on(s)


@scenario
def activity_fails(s: Session) -> None:
    """A worker fails an activity for good: the failure is written down."""
    s.begun(s.activity())
    task = s.poll_activity()
    pause(s)
    s.fail_activity(task, failure("fatal", non_retryable=True))
    s.history()
    s.describe()
    goes_on(s)


@scenario
def activity_retried(s: Session) -> None:
    """A worker fails an attempt: what becomes of the next one while paused, and after it."""
    s.begun(s.activity(retry_policy=retry(0.5)))
    task = s.poll_activity()
    pause(s)
    s.fail_activity(task, failure("first"))
    no_activity(s)
    s.describe()
    unpause(s)
    s.describe()


@scenario
def activity_backing_off(s: Session) -> None:
    """Paused between two attempts."""
    s.begun(s.activity(retry_policy=retry(1)))
    s.fail_activity(s.poll_activity(), failure("first"))
    pause(s)
    s.describe()
    no_activity(s)
    s.describe()
    unpause(s)
    s.describe()
    s.complete_activity(s.poll_activity())
    s.history()


@scenario
def activity_backing_off_longer(s: Session) -> None:
    """Unpaused before the next attempt is due: it comes when it is due."""
    s.begun(s.activity(retry_policy=retry(4)))
    s.fail_activity(s.poll_activity(), failure("first"))
    pause(s)
    unpause(s)
    s.describe()
    s.complete_activity(s.poll_activity())
    s.history()


@scenario
def activity_times_out(s: Session) -> None:
    """Time-outs of activities go on."""
    s.begun(s.activity(start_to_close_timeout=seconds(1), retry_policy={"maximum_attempts": 1}))
    s.poll_activity()
    pause(s)
    s.wait_event("activity_task_timed_out")
    s.history()
    s.describe()


@scenario
def activity_waits_too_long(s: Session) -> None:
    """So does the time for an activity to be started."""
    s.begun(s.activity(schedule_to_start_timeout=seconds(1)))
    pause(s)
    s.wait_event("activity_task_timed_out")
    s.history()


@scenario
def activity_scheduled_while_paused(s: Session) -> None:
    """The workflow task that a worker has schedules activities: no worker is handed them while paused."""
    s.start()
    task = s.poll()
    pause(s)
    s.complete(task, s.activity(), s.activity("eager", request_eager_execution=True))
    s.history()
    s.describe()
    no_activity(s)
    unpause(s)
    s.complete_activity(s.poll_activity())
    s.complete_activity(s.poll_activity())


@scenario
def activity_paused_too(s: Session) -> None:
    """An activity that is paused itself stays so when the workflow is unpaused."""
    s.begun(s.activity())
    s.call("PauseActivity", execution=s.execution(), identity="operator", id="a", reason="this one")
    pause(s)
    s.describe()
    unpause(s)
    s.describe()
    no_activity(s)
    pause(s)
    s.call("UnpauseActivity", execution=s.execution(), identity="operator", id="a")
    s.describe()


@scenario
def activity_cancelled(s: Session) -> None:
    """Activities by type in the search attribute of what is paused."""
    s.begun(s.activity(), s.activity("b", activity_type={"name": "other"}))
    pause(s)
    s.call("PauseActivity", execution=s.execution(), identity="operator", id="b", reason="this one")
    s.describe()


# -- relations ----------------------------------------------------------------------------


@scenario
def child_completes(s: Session) -> None:
    """A child goes on while its parent is paused; the parent hears of it after the pause."""
    s.begun(child(s))
    s.wait_event(STARTED)
    s.run_task()
    pause(s)
    s.run_task(complete("out"), queue="c")
    s.wait_event("child_workflow_execution_completed")
    s.history()
    s.describe()
    goes_on(s)


@scenario
def reset(s: Session) -> None:
    """A reset of a paused run: the new run is not paused, the old one is over."""
    run = s.begun()
    pause(s)
    s.signal()
    s.reset(4, run)
    s.history(run=run)
    s.history()
    s.describe(run=run)
    s.describe()
    s.run_task(complete())


@scenario
def reset_after_pause(s: Session) -> None:
    """A reset to a point after the pause."""
    run = s.begun()
    pause(s)
    unpause(s)
    s.run_task()
    pause(s)
    s.reset(9, run)
    s.history()
    s.describe()


@scenario
def reset_into_pause(s: Session) -> None:
    """A reset to the workflow task after whose start the run was paused and unpaused."""
    s.start()
    task = s.poll()
    pause(s)
    s.complete(task)
    unpause(s)
    s.run_task()
    s.history()
    s.reset(8)
    s.history()
    s.describe()


# -- lists --------------------------------------------------------------------------------


@scenario
def found(s: Session) -> None:
    """Lists and counts by status, and by what is paused."""
    s.begun()
    s.start("other")
    pause(s)
    settled(s, 1, "ExecutionStatus = 'Paused'")
    listed(s, "ExecutionStatus = 'Paused'")
    listed(s, "TemporalPauseInfo = 'Workflow:" + s.name("wf") + "'")
    listed(s, "TemporalPauseInfo IS NOT NULL")
    counted(s, group="ExecutionStatus")
    counted(s, "ExecutionStatus = 'Running'")
    counted(s, "CloseTime IS NULL")
    unpause(s)
    settled(s, 0, "ExecutionStatus = 'Paused'")
    listed(s, "WorkflowId = '" + s.name("wf") + "'")
    counted(s, group="ExecutionStatus")


@scenario
def listed_as_open(s: Session) -> None:
    """The older lists of open and of closed runs."""
    s.begun()
    pause(s)
    settled(s, 1, "ExecutionStatus = 'Paused'")
    s.call("ListOpenWorkflowExecutions", execution_filter={"workflow_id": s.name("wf")}, start_time_filter={})
    s.call("ListClosedWorkflowExecutions", execution_filter={"workflow_id": s.name("wf")}, start_time_filter={})
