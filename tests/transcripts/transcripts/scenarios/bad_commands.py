"""Commands that the server refuses: the answer, and the workflow task failure in the history."""

from __future__ import annotations

from collections.abc import Callable

from ..build import Fields, command, complete, fail, failure, fields, payload, retry, seconds, timer
from ..harness import Session
from . import scenario
from .children import child

# Pending activities, children, signals and cancel requests of a run, each.
MOST_PENDING = 2000


def refused(s: Session, *commands: Fields, number: int = 1) -> None:
    """Completes a first task with the commands, in a workflow of its own, and reads the history."""
    wf = f"wf-{number}"
    s.start(wf, queue=wf)
    s.run_task(*commands, queue=wf)
    s.history(wf)


def each_refused(s: Session, *cases: Fields) -> None:
    """Every command alone, each in its own workflow."""
    for number, case in enumerate(cases, 1):
        refused(s, case, number=number)


@scenario
def schedule_activity_missing(s: Session) -> None:
    """Activities without id, type, queue or time-outs."""
    each_refused(
        s,
        s.activity(""),
        s.activity(activity_type=None),
        s.activity(activity_type={"name": ""}),
        s.activity(start_to_close_timeout=None),
        s.activity(task_queue=None),
    )


@scenario
def schedule_activity_out_of_range(s: Session) -> None:
    """Activities with too long names, negative time-outs, a bad retry policy."""
    each_refused(
        s,
        s.activity("x" * 1001),
        s.activity(activity_type={"name": "x" * 1001}),
        s.activity(start_to_close_timeout=seconds(-1)),
        s.activity(heartbeat_timeout=seconds(-1)),
        s.activity(schedule_to_close_timeout=seconds(-1)),
        s.activity(schedule_to_start_timeout=seconds(-1)),
        s.activity(retry_policy=retry(1, backoff_coefficient=0.1)),
        s.activity(priority={"priority_key": -1}),
    )


@scenario
def schedule_activity_duplicate(s: Session) -> None:
    """Two activities of one id, in one completion and in two."""
    refused(s, s.activity("same"), s.activity("same"))
    s.begun(s.activity("same"))
    s.signal()
    s.run_task(s.activity("same"))
    s.history()


@scenario
def timer_duplicate(s: Session) -> None:
    """Two timers of one id, in one completion and in two."""
    refused(s, timer("same", 60), timer("same", 60))
    s.begun(timer("same", 60))
    s.signal()
    s.run_task(timer("same", 60))
    s.history()


@scenario
def timer_bad(s: Session) -> None:
    """Timers without id, with a too long id, with a negative length."""
    each_refused(
        s,
        timer("", 1),
        timer("x" * 1001, 1),
        timer("t", -1),
    )


@scenario
def cancel_timer_bad(s: Session) -> None:
    """Cancelling a timer without id, or one that does not exist."""
    each_refused(s, command("CANCEL_TIMER", timer_id=""), command("CANCEL_TIMER", timer_id="nope"))


@scenario
def cancel_activity_bad(s: Session) -> None:
    """Cancelling an activity without event id, or one that does not exist."""
    each_refused(
        s,
        command("REQUEST_CANCEL_ACTIVITY_TASK"),
        command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=77),
    )


@scenario
def cancel_closed_activity(s: Session) -> None:
    """Cancelling an activity that has completed."""
    s.begun(s.activity())
    s.complete_activity(s.poll_activity())
    s.run_task(command("REQUEST_CANCEL_ACTIVITY_TASK", scheduled_event_id=5))
    s.history()


@scenario
def after_close(s: Session) -> None:
    """Commands after the closing one, and two closing ones."""
    refused(s, complete(), timer("t", 1), number=1)
    refused(s, complete(1), complete(2), number=2)
    refused(s, fail(), complete(), number=3)


@scenario
def unknown_command(s: Session) -> None:
    """A command of no known type, and one without type."""
    refused(s, {"command_type": 999}, number=1)
    refused(s, {}, number=2)


@scenario
def missing_attributes(s: Session) -> None:
    """Commands without their attributes (for a child the real server panics, so it is left out)."""
    kinds = (
        "SCHEDULE_ACTIVITY_TASK",
        "REQUEST_CANCEL_ACTIVITY_TASK",
        "START_TIMER",
        "CANCEL_TIMER",
        "COMPLETE_WORKFLOW_EXECUTION",
        "FAIL_WORKFLOW_EXECUTION",
        "CANCEL_WORKFLOW_EXECUTION",
        "RECORD_MARKER",
        "CONTINUE_AS_NEW_WORKFLOW_EXECUTION",
        "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION",
        "REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION",
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
        "MODIFY_WORKFLOW_PROPERTIES",
        "PROTOCOL_MESSAGE",
    )
    each_refused(s, *({"command_type": f"COMMAND_TYPE_{kind}"} for kind in kinds))


@scenario
def fail_without_failure(s: Session) -> None:
    """FailWorkflowExecution without failure, RecordMarker without name."""
    each_refused(
        s,
        command("FAIL_WORKFLOW_EXECUTION", failure=None),
        command("RECORD_MARKER", marker_name=""),
        command("RECORD_MARKER", marker_name="x" * 1001),
    )


@scenario
def child_bad(s: Session) -> None:
    """Children without id or type, with too long ids, bad time-outs, retry or cron."""

    def child(**more: object) -> Fields:
        given = {"workflow_id": s.name("child"), "workflow_type": {"name": "ct"}, "task_queue": {"name": s.name("c")}}
        return command("START_CHILD_WORKFLOW_EXECUTION", **{**given, **more})

    each_refused(
        s,
        child(workflow_id=""),
        child(workflow_type=None),
        child(workflow_id="x" * 1001),
        child(workflow_type={"name": "x" * 1001}),
        child(workflow_execution_timeout=seconds(-1)),
        child(workflow_run_timeout=seconds(-1)),
        child(workflow_task_timeout=seconds(-1)),
        child(retry_policy=retry(-1)),
        child(cron_schedule="nonsense"),
        child(search_attributes={"indexed_fields": {"NoSuchAttribute": payload(1)}}),
    )


@scenario
def child_unknown_namespace(s: Session) -> None:
    """A child in an unknown namespace fails the whole call, no event is written."""
    refused(
        s,
        command(
            "START_CHILD_WORKFLOW_EXECUTION",
            namespace="nowhere",
            workflow_id=s.name("child"),
            workflow_type={"name": "ct"},
        ),
    )


@scenario
def signal_external_bad(s: Session) -> None:
    """External signals without target, name, or with a bad run id."""
    each_refused(
        s,
        command("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", signal_name="x"),
        command("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", execution={"workflow_id": ""}, signal_name="x"),
        command("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", execution={"workflow_id": "w"}, signal_name=""),
        command(
            "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", execution={"workflow_id": "w", "run_id": "bad"}, signal_name="x"
        ),
        command("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", execution={"workflow_id": "x" * 1001}, signal_name="x"),
    )


@scenario
def cancel_external_bad(s: Session) -> None:
    """External cancel requests without target or with a bad run id."""
    each_refused(
        s,
        command("REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION", workflow_id=""),
        command("REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION", workflow_id="w", run_id="bad"),
        command("REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION", workflow_id="x" * 1001),
    )


@scenario
def continue_as_new_bad(s: Session) -> None:
    """Continue-as-new with bad time-outs, names, retry policy, search attributes."""
    kind = "CONTINUE_AS_NEW_WORKFLOW_EXECUTION"
    each_refused(
        s,
        command(kind, workflow_run_timeout=seconds(-1)),
        command(kind, workflow_task_timeout=seconds(-1)),
        command(kind, backoff_start_interval=seconds(-1)),
        command(kind, workflow_type={"name": "x" * 1001}),
        command(kind, task_queue={"name": "x" * 1001}),
        command(kind, retry_policy=retry(-1)),
        command(kind, search_attributes={"indexed_fields": {"NoSuchAttribute": payload(1)}}),
    )


@scenario
def search_attributes_bad(s: Session) -> None:
    """Upserts of unknown, system, wrongly typed and no search attributes."""
    kind = "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES"
    each_refused(
        s,
        command(kind, search_attributes={"indexed_fields": {"NoSuchAttribute": payload("x")}}),
        command(kind, search_attributes={"indexed_fields": {"WorkflowId": payload("x")}}),
        command(kind, search_attributes={"indexed_fields": {"TemporalChangeVersion": payload(5)}}),
        command(kind, search_attributes={}),
    )


@scenario
def memo_bad(s: Session) -> None:
    """A memo change without fields."""
    each_refused(s, command("MODIFY_WORKFLOW_PROPERTIES", upserted_memo={}))


@scenario
def message_unknown(s: Session) -> None:
    """A protocol message command that names no message."""
    each_refused(
        s,
        command("PROTOCOL_MESSAGE", message_id=""),
        command("PROTOCOL_MESSAGE", message_id="nope"),
    )


@scenario
def second_attempt_refused(s: Session) -> None:
    """A bad command in a transient attempt answers the error; the task stays started."""
    s.start()
    s.run_task(timer("", 1))
    s.run_task(timer("", 1))
    s.history()
    s.describe()


@scenario
def good_before_bad(s: Session) -> None:
    """Nothing of a completion with one bad command is applied."""
    s.start(memo=fields(a=1))
    s.run_task(s.activity("kept?"), timer("t", 60), timer("", 1))
    s.history()
    s.describe()


@scenario
def bad_then_good(s: Session) -> None:
    """After a refused completion a good one goes through."""
    s.start()
    s.run_task(s.activity(start_to_close_timeout=None))
    s.run_task(command("FAIL_WORKFLOW_EXECUTION", failure=failure("end")))
    s.history()


def too_many(s: Session, made: Callable[[int], Fields], effect: str = "") -> None:
    """More pending ones than a run may have, in one completion: the task fails; one is fine, and has its effect."""
    s.start()
    s.complete(s.poll(), *[made(n) for n in range(MOST_PENDING + 1)])
    s.steps[-1]["request"] = f"{MOST_PENDING + 1} commands"
    s.history()
    s.run_task(made(0))
    if effect:
        s.wait_event(effect)
    s.history()


@scenario
def too_many_activities(s: Session) -> None:
    """Too many pending activities."""
    too_many(s, lambda n: s.activity(f"a{n}"))


@scenario
def too_many_children(s: Session) -> None:
    """Too many pending children."""
    too_many(s, lambda n: child(s, f"child-{n}"), "child_workflow_execution_started")


@scenario
def too_many_cancel_requests(s: Session) -> None:
    """Too many pending cancel requests."""
    there = {"workflow_id": "nobody"}
    effect = "request_cancel_external_workflow_execution_failed"
    too_many(s, lambda n: command("REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION", **there), effect)


@scenario
def too_many_external_signals(s: Session) -> None:
    """Too many pending signals to other workflows."""
    there = {"execution": {"workflow_id": "nobody"}, "signal_name": "sig"}
    effect = "signal_external_workflow_execution_failed"
    too_many(s, lambda n: command("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", **there), effect)
