"""ResetWorkflowExecution: to which points, of which runs, and what becomes of pending work."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, command, complete, fail, payloads, seconds, timer
from ..harness import Session
from . import scenario
from .cancelling import gone
from .children import child, with_child

GO_ON = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"})


def two_tasks(s: Session, **more: object) -> str:
    """A workflow with two completed tasks: 1-4, then 5 signal, 6 to 8 the second task."""
    run = s.begun(**more)
    s.signal()
    s.run_task()
    return run


@scenario
def to_first_task(s: Session) -> None:
    """A running workflow reset to its first task: both histories and descriptions, and the next task."""
    run = s.begun()
    s.reset(4, run)
    s.history(run=run)
    s.history()
    s.describe(run=run)
    s.describe()
    s.run_task(complete())
    s.history()


@scenario
def to_second_task(s: Session) -> None:
    """A reset to a later task keeps what was before it."""
    run = two_tasks(s)
    s.reset(8)
    s.history(run=run)
    s.history()
    s.poll()


@scenario
def task_scheduled(s: Session) -> None:
    """Reset to a task's scheduling: the point right after the scheduled event."""
    s.begun()
    s.reset(3)
    s.history()
    s.poll()


@scenario
def task_scheduled_with_events_between(s: Session) -> None:
    """Reset between a task's scheduling and its start, after a signal that came there."""
    s.start()
    s.signal()
    s.run_task()
    s.reset(4)
    s.history()
    s.poll()


@scenario
def task_started(s: Session) -> None:
    """Reset to a task that is running: its worker is too late, the old run ends."""
    run = s.start()
    task = s.poll()
    s.reset(3)
    s.complete(task, complete())
    s.history(run=run)
    s.history()


@scenario
def task_failed(s: Session) -> None:
    """Reset to a failed task."""
    s.start()
    s.fail_task(s.poll())
    s.run_task(complete())
    s.reset(4)
    s.history()


@scenario
def no_task_there(s: Session) -> None:
    """Points without a task are refused; nothing changes."""
    two_tasks(s)
    s.reset(5)
    s.history()


@scenario
def out_of_range(s: Session) -> None:
    """Points before the second or after the last event."""
    s.begun()
    s.reset(-1)
    s.reset(0)
    s.reset(1)
    s.reset(5)
    s.reset(100)
    s.describe()


@scenario
def inside_a_batch(s: Session) -> None:
    """Points between events that were written together."""
    s.begun(timer("a", 60), timer("b", 60))
    s.reset(2)
    s.reset(6)


@scenario
def last_event(s: Session) -> None:
    """The last event of a running workflow is a point if it ended a task."""
    s.begun()
    s.reset(4)
    s.poll()


@scenario
def invalid(s: Session) -> None:
    """Missing or wrong parts of a reset."""
    s.reset(4)
    s.begun()
    s.reset(4, request_id="")
    s.reset(4, request_id="x" * 1001)
    s.reset(4, "bad run")
    s.reset(4, "11111111-2222-4333-8444-555555555555")
    s.reset(4, workflow_execution=None)
    s.reset(4, workflow_execution={"workflow_id": ""})
    s.reset(4, namespace="no-such-namespace")


@scenario
def no_reason(s: Session) -> None:
    """A reset without reason and identity."""
    run = s.begun()
    s.reset(4, reason="", identity="")
    s.history(run=run)
    s.history()


@scenario
def closed(s: Session) -> None:
    """A completed workflow is reset and runs again; the old run keeps its status."""
    run = s.begun(complete("first"))
    s.reset(4)
    s.history(run=run)
    s.history()
    s.describe(run=run)
    s.run_task(complete("second"))
    s.history()


@scenario
def failed(s: Session) -> None:
    """A failed workflow."""
    s.begun(fail())
    s.reset(4)
    s.history()


@scenario
def terminated(s: Session) -> None:
    """A terminated workflow."""
    s.begun()
    s.terminate()
    s.reset(4)
    s.history()


@scenario
def timed_out(s: Session) -> None:
    """Reset after time-out: the new run gets the whole run time-out again."""
    s.begun(workflow_run_timeout=seconds(3))
    s.wait_event("workflow_execution_timed_out")
    s.reset(4)
    s.history()
    s.describe()


@scenario
def twice(s: Session) -> None:
    """The new run is reset too; then the first run again, which ends the run that is current."""
    first = s.begun()
    second = s.reset(4)
    s.run_task()
    third = s.reset(7)
    s.history(run=second)
    s.history(run=third)
    s.reset(4, first)
    s.history(run=third)
    s.history()


@scenario
def request_id_repeated(s: Session) -> None:
    """The same request id again, on the first run."""
    run = s.begun()
    same = s.request_id()
    s.reset(4, run, request_id=same)
    s.reset(4, run, request_id=same)
    s.describe()


@scenario
def request_id_of_the_start(s: Session) -> None:
    """The request id that started the current run: taken for a repetition, that run is the answer."""
    s.start(request_id="the-start")
    s.run_task()
    s.reset(4, request_id="the-start")
    s.history()


@scenario
def after_continue_as_new(s: Session) -> None:
    """A run that was continued as new is reset: the current run ends, signals of both are taken along."""
    first = s.begun()
    s.signal("one")
    s.run_task(GO_ON)
    second = s.wait_new_run(first)
    s.wait_event("workflow_task_scheduled")
    s.signal("two")
    s.reset(4, first)
    s.history(run=first)
    s.history(run=second)
    s.history()


@scenario
def while_activity_runs(s: Session) -> None:
    """An activity scheduled after the point is forgotten: its worker is told so."""
    s.begun(s.activity(heartbeat_timeout=seconds(30)))
    activity = s.poll_activity()
    s.reset(4)
    s.heartbeat(activity)
    s.complete_activity(activity)
    s.history()
    s.describe()


@scenario
def activity_before_the_point(s: Session) -> None:
    """An activity scheduled before the point and not begun: the new run schedules it anew."""
    s.begun(s.activity(start_to_close_timeout=seconds(30)))
    s.signal()
    s.run_task()
    s.reset(9)
    s.history()
    s.describe()
    activity = s.poll_activity()
    s.complete_activity(activity, "done")
    s.history()


@scenario
def started_activity_before_the_point(s: Session) -> None:
    """An activity scheduled before the point, running at the time: the new run schedules it anew, too."""
    s.begun(s.activity(start_to_close_timeout=seconds(30)))
    activity = s.poll_activity()
    s.signal()
    s.run_task()
    s.reset(9)
    s.complete_activity(activity, "late")
    s.history()
    s.describe()
    s.complete_activity(s.poll_activity(), "done")
    s.history()


@scenario
def timer_before_the_point(s: Session) -> None:
    """A timer started before the point fires in the new run."""
    s.begun(timer("t", 2))
    s.signal()
    s.run_task()
    s.reset(9)
    s.history()
    s.run_task()
    s.wait_event("timer_fired")
    s.history()


@scenario
def timer_after_the_point(s: Session) -> None:
    """A timer started after the point is forgotten."""
    s.begun(timer("t", 1))
    s.reset(4)
    time.sleep(2)
    s.history()


@scenario
def child_before_the_point(s: Session) -> None:
    """A child started before the point tells the new run how it ended."""
    with_child(s)
    s.reset(9)
    s.history()
    s.describe()
    s.run_task(complete("grown"), queue="c")
    s.wait_event("child_workflow_execution_completed")
    s.history()


@scenario
def child_after_the_point(s: Session) -> None:
    """A child started after the point goes on; the new run may start one of that id again."""
    with_child(s)
    s.reset(4)
    s.history()
    s.describe("child")
    s.run_task(child(s))
    s.wait_event("start_child_workflow_execution_initiated")
    time.sleep(1)
    s.history()


@scenario
def cancel_requested(s: Session) -> None:
    """A cancel request after the point is not taken along."""
    s.begun()
    s.cancel()
    s.reset(4)
    s.history()
    s.describe()


@scenario
def post_reset_signal(s: Session) -> None:
    """A signal to be given with the reset is not supported."""
    s.begun()
    s.signal("before")
    after = {"signal_workflow": {"signal_name": "after", "input": payloads(1)}}
    s.reset(4, post_reset_operations=[after])
    s.history()


@scenario
def current_run_deleted(s: Session) -> None:
    """By run id, the current execution missing: the current run was deleted, an older one is reset."""
    run = s.begun(complete())
    current = s.start()
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution(run=current))
    gone(s, current)
    s.describe()
    s.reset(4, run)
    s.history()
    s.run_task(complete())
    s.history()


@scenario
def current_deleted(s: Session) -> None:
    """An older run is reset after the current one was deleted: it knows the run that came of it."""
    old = s.begun(complete("one"))
    new = s.begun(complete("two"))
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution(run=new))
    gone(s, new)
    s.reset(4, run=old)
    s.describe(run=old)
    s.describe()


@scenario
def older_run(s: Session) -> None:
    """An older run is reset while the current one runs, which ends it; again after that."""
    old = s.begun(complete("one"))
    current = s.start()
    first = s.reset(4, run=old)
    s.describe(run=old)
    s.describe(run=current)
    s.reset(4, run=old)
    s.describe(run=old)
    s.describe(run=current)
    s.describe(run=first)
    s.describe()


@scenario
def older_run_current_closed(s: Session) -> None:
    """An older run is reset after the current one closed."""
    old = s.begun(complete("one"))
    current = s.begun(complete("two"))
    s.reset(4, run=old)
    s.describe(run=old)
    s.describe(run=current)
    s.history(run=current)
    s.describe()


@scenario
def current_deleted_without_run(s: Session) -> None:
    """Without a run id there is nothing to reset after the current run was deleted."""
    s.begun(complete("one"))
    new = s.begun(complete("two"))
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution(run=new))
    gone(s, new)
    s.reset(4)
    s.describe()


@scenario
def options_after_reset(s: Session) -> None:
    """A reset that changes the options of its new run; what the old run changed comes along."""

    def update(paths: list[str], **options: Any) -> Fields:
        return {"update_workflow_options": {"workflow_execution_options": options, "update_mask": {"paths": paths}}}

    s.begun()
    s.reset(4, post_reset_operations=[{"signal_workflow": {"signal_name": "x"}}])
    s.reset(4, post_reset_operations=[{}])
    s.reset(4, post_reset_operations=[update(["bogus"])])
    s.reset(4, post_reset_operations=[update(["priority"], time_skipping_config={})])
    pinned = {"pinned": {}}
    s.reset(4, post_reset_operations=[update(["versioning_override"], versioning_override=pinned)])
    s.reset(4, post_reset_operations=[update(["priority"], priority={"priority_key": 2})])
    s.history()
    upgrade = update(["versioning_override"], versioning_override={"auto_upgrade": True})
    s.reset(4, post_reset_operations=[upgrade, update(["priority"], priority={"priority_key": 5})])
    s.history()
    s.describe()


@scenario
def child_after_the_point(s: Session) -> None:
    """A child that began after the point goes on; the new run cannot start it again."""
    s.begun()
    s.signal()
    s.run_task(child(s))
    s.wait_event("child_workflow_execution_started")
    s.run_task()
    s.reset(4)
    s.describe("child")
    s.run_task(child(s))
    s.wait_event("start_child_workflow_execution_failed")
    s.history()
    s.describe()
    s.describe("child")
