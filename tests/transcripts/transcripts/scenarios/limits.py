"""Size limits."""

from __future__ import annotations

import grpc

from ..build import Fields, big, command, complete, fields, failure, marker, payloads, seconds
from ..harness import Session
from . import scenario


@scenario
def start_input(s: Session) -> None:
    """Start input, memo, last result over 2 MiB."""
    s.start(input=big(2.1))
    s.start(memo={"fields": {"m": big(2.1)["payloads"][0]}})
    s.start(header={"fields": {"h": big(2.1)["payloads"][0]}})


@scenario
def signal_input(s: Session) -> None:
    """Signal input over 2 MiB; signal-with-start likewise."""
    s.begun()
    s.signal(input=big(2.1))
    s.signal_with_start(signal_input=big(2.1))
    s.signal_with_start("sig", "wf-2", input=big(2.1))
    s.history()


@scenario
def query_args(s: Session) -> None:
    """Query arguments over 2 MiB."""
    s.begun()
    s.query(query={"query_type": "q", "query_args": big(2.1)})


@scenario
def query_answer(s: Session) -> None:
    """A query answer over 2 MiB becomes a failure."""
    s.begun()
    begun = s.begin_query()
    task = s.poll()
    s.call(
        "RespondQueryTaskCompleted",
        task_token=task.task_token,
        completed_type="QUERY_RESULT_TYPE_ANSWERED",
        query_result=big(2.1),
    )
    s.join(begun)


@scenario
def activity_result(s: Session) -> None:
    """An activity result over 2 MiB fails the activity."""
    s.begun(s.activity())
    s.complete_activity(s.poll_activity(), result=big(2.1))
    s.history()


@scenario
def activity_failure(s: Session) -> None:
    """An activity failure over 2 MiB is replaced."""
    s.begun(s.activity(retry_policy={"maximum_attempts": 1}))
    s.fail_activity(s.poll_activity(), failure("m" * 100, details=big(2.1)))
    s.history()


@scenario
def activity_heartbeat(s: Session) -> None:
    """Heartbeat details over 2 MiB fail the activity."""
    s.begun(s.activity())
    task = s.poll_activity()
    s.call("RecordActivityTaskHeartbeat", task_token=task.task_token, identity="worker", details=big(2.1))
    s.history()


@scenario
def in_activity_command(s: Session) -> None:
    """Activity input over 2 MiB terminates the workflow."""
    s.begun(s.activity(input=big(2.1)))
    s.history()
    s.describe()


@scenario
def in_complete_command(s: Session) -> None:
    """A result over 2 MiB terminates the workflow."""
    s.begun(command("COMPLETE_WORKFLOW_EXECUTION", result=big(2.1)))
    s.history()


@scenario
def in_other_commands(s: Session) -> None:
    """Marker, failure, continue-as-new input, memo, signal input over 2 MiB."""
    large = big(2.1)
    cases = (
        command("RECORD_MARKER", marker_name="m", details={"d": large}),
        command("FAIL_WORKFLOW_EXECUTION", failure=failure("f", details=large)),
        command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", input=large),
        command("MODIFY_WORKFLOW_PROPERTIES", upserted_memo={"fields": {"m": large["payloads"][0]}}),
        command(
            "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION", execution=s.execution("x"), signal_name="s", input=large
        ),
        command("CANCEL_WORKFLOW_EXECUTION", details=large),
    )
    for number, case in enumerate(cases, 1):
        wf = f"wf-{number}"
        s.start(wf, queue=wf)
        s.run_task(case, queue=wf)
        s.history(wf)


@scenario
def task_failure(s: Session) -> None:
    """A workflow task failure over 2 MiB is truncated."""
    s.start()
    s.fail_task(s.poll(), failure=failure("f", details=big(2.1)))
    s.history()


@scenario
def terminate_details(s: Session) -> None:
    """Termination details over 2 MiB."""
    s.start()
    s.terminate(details=big(2.1))
    s.history()


@scenario
def just_below(s: Session) -> None:
    """Payloads below the limit go through."""
    s.begun(marker("m", x="y"), complete(), input=big(1.5), memo=fields(a="b"))
    s.history(history_event_filter_type="HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT")
    s.start("wf-2", input=payloads("x" * 1000))


def closing(s: Session) -> None:
    """How the run ended; what it was is too much to be recorded."""
    s.wait_describe(lambda d: d.workflow_execution_info.close_time.seconds > 0)
    s.history(history_event_filter_type="HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT")


def filled(s: Session, times: int, *commands: Fields) -> None:
    """Completes so many tasks with these commands, unrecorded, until the run has ended."""
    more = {"identity": "worker", "commands": list(commands), "force_create_new_workflow_task": True}
    sticky = {"worker_task_queue": s.sticky(), "schedule_to_start_timeout": seconds(10)}
    s.start()
    task = s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker")
    for _ in range(times):
        try:
            given = {"sticky_attributes": sticky, "return_new_workflow_task": True, **more}
            task = s.silent("RespondWorkflowTaskCompleted", task_token=task.task_token, **given).workflow_task
        except grpc.RpcError as error:
            s.steps.append({"call": "RespondWorkflowTaskCompleted", "error": s.normaliser.error(error)})
            return
        if not task.task_token:
            return


@scenario
def history_events(s: Session) -> None:
    """Termination by the limit on the number of events."""
    filled(s, 12, *[marker(f"m{n}") for n in range(5000)])
    closing(s)


@scenario
def history_bytes(s: Session) -> None:
    """Termination by the limit on the size of the history."""
    two = command("RECORD_MARKER", marker_name="m", details={"d": big(1.7)})
    filled(s, 18, two, two)
    closing(s)


@scenario
def state_bytes(s: Session) -> None:
    """Termination by the limit on the size of a run's state: activities with large heartbeats."""
    s.begun(*[s.activity(f"a{n}") for n in range(5)])
    for _ in range(5):
        task = s.silent("PollActivityTaskQueue", task_queue=s.queue(), identity="worker")
        try:
            s.silent("RecordActivityTaskHeartbeat", task_token=task.task_token, identity="worker", details=big(1.9))
        except grpc.RpcError as error:
            s.steps.append({"call": "RecordActivityTaskHeartbeat", "error": s.normaliser.error(error)})
            break
    s.history()
