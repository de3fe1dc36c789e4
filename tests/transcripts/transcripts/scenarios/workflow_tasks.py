"""Workflow tasks: completion, failure, time-out, repeated and late answers."""

from __future__ import annotations

import time

from ..build import command, complete, fail, fields, marker, metadata, payload, payloads, seconds, timer
from ..harness import Session
from . import scenario


@scenario
def complete_with_result(s: Session) -> None:
    """CompleteWorkflowExecution."""
    s.begun(complete("a", 2))
    s.history()
    s.describe()


@scenario
def fail_workflow(s: Session) -> None:
    """FailWorkflowExecution with a nested failure."""
    broken = {
        "message": "outer",
        "stack_trace": "at line 1",
        "application_failure_info": {"type": "Outer", "non_retryable": True, "details": payloads("d")},
        "cause": {"message": "inner", "application_failure_info": {"type": "Inner"}},
    }
    s.begun(command("FAIL_WORKFLOW_EXECUTION", failure=broken))
    s.history()
    s.describe()


@scenario
def cancel_workflow(s: Session) -> None:
    """CancelWorkflowExecution after a request."""
    s.begun()
    s.cancel(reason="please")
    s.run_task(command("CANCEL_WORKFLOW_EXECUTION", details=payloads("bye")))
    s.history()
    s.describe()


@scenario
def cancel_workflow_unasked(s: Session) -> None:
    """CancelWorkflowExecution without a request."""
    s.begun(command("CANCEL_WORKFLOW_EXECUTION"))
    s.history()


@scenario
def no_commands(s: Session) -> None:
    """A completion without commands leaves the workflow waiting."""
    s.begun()
    s.history()
    s.describe()


@scenario
def markers_and_properties(s: Session) -> None:
    """Marker, memo change, search attribute upsert, timer and activity in one completion, with metadata."""
    s.start(memo=fields(kept=1, gone=2))
    with_failure = command("RECORD_MARKER", marker_name="m2", failure={"message": "f"}, header=fields(h=1))
    none = {"metadata": {"encoding": b"binary/null"}}
    s.run_task(
        marker("m1", a="x", b=1),
        with_failure,
        command("MODIFY_WORKFLOW_PROPERTIES", upserted_memo={"fields": {"new": payload("n"), "gone": none}}),
        command(
            "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
            search_attributes={"indexed_fields": {"TemporalChangeVersion": payload(["v1"])}},
        ),
        {**timer("t", 60), "user_metadata": metadata("a timer")},
        s.activity(user_metadata=metadata("an activity")),
    )
    s.history()
    s.describe()


@scenario
def failed_once(s: Session) -> None:
    """A reported failure writes an event; attempt 2 is transient and shown to worker and reader."""
    s.start()
    s.fail_task(s.poll())
    s.history()
    s.describe()
    task = s.poll()
    s.history()
    s.describe()
    s.complete(task, complete())
    s.history()


@scenario
def failed_repeatedly(s: Session) -> None:
    """Later failures write no further events until one attempt succeeds."""
    s.start()
    for _ in range(4):
        s.fail_task(s.poll())
    s.history()
    s.describe()
    s.run_task()
    s.history()


@scenario
def failed_with_each_cause(s: Session) -> None:
    """A worker may report several causes."""
    for number, cause in enumerate(("NON_DETERMINISTIC_ERROR", "UNHANDLED_COMMAND", "RESET_STICKY_TASK_QUEUE")):
        s.start(f"wf-{number}")
        s.fail_task(s.poll(), cause)
        s.poll()
        s.history(f"wf-{number}")


@scenario
def failed_then_signal(s: Session) -> None:
    """A signal while the transient task waits turns it into a normal one."""
    s.start()
    s.fail_task(s.poll())
    s.fail_task(s.poll())
    s.signal()
    s.history()
    s.describe()
    s.run_task()
    s.history()


@scenario
def failed_message_too_large(s: Session) -> None:
    """The cause GRPC_MESSAGE_TOO_LARGE terminates the workflow."""
    s.start()
    s.fail_task(s.poll(), "GRPC_MESSAGE_TOO_LARGE")
    s.history()
    s.describe()


@scenario
def failed_payloads_too_large(s: Session) -> None:
    """The cause PAYLOADS_TOO_LARGE only fails the task."""
    s.start()
    s.fail_task(s.poll(), "PAYLOADS_TOO_LARGE")
    s.poll()
    s.history()


@scenario
def timed_out(s: Session) -> None:
    """A task not answered in time: event, then a transient attempt 2."""
    s.start(workflow_task_timeout=seconds(1))
    s.poll()
    task = s.poll()
    s.history()
    s.complete(task, complete())
    s.history()


@scenario
def late_answer(s: Session) -> None:
    """Answers after the time-out are refused, both kinds."""
    s.start(workflow_task_timeout=seconds(1))
    task = s.poll()
    s.wait_event("workflow_task_timed_out")
    s.complete(task, complete())
    s.fail_task(task)
    s.history()


@scenario
def repeated_answer(s: Session) -> None:
    """A second answer to a task is refused: workflow still running, and closed."""
    s.start()
    task = s.poll()
    s.complete(task)
    s.complete(task)
    s.fail_task(task)
    s.signal()
    task = s.poll()
    s.complete(task, complete())
    s.complete(task, complete())
    s.fail_task(task)


@scenario
def bad_token(s: Session) -> None:
    """Missing and malformed task tokens."""
    for token in (b"", b"nonsense"):
        s.call("RespondWorkflowTaskCompleted", task_token=token, identity="worker")
        s.call("RespondWorkflowTaskFailed", task_token=token, identity="worker")


def varint(number: int) -> bytes:
    """A LEB128 varint."""
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def foreign(**fields: str | int) -> bytes:
    """A token as the real server makes them: a protobuf message."""
    numbers = {"namespace_id": 1, "workflow_id": 2, "run_id": 3, "scheduled": 4, "attempt": 5, "activity_id": 6}
    out = b""
    for name, value in fields.items():
        if isinstance(value, int):
            out += varint(numbers[name] << 3) + varint(value)
        else:
            out += varint(numbers[name] << 3 | 2) + varint(len(value.encode())) + value.encode()
    return out


ANSWERS = (
    "RespondWorkflowTaskCompleted",
    "RespondWorkflowTaskFailed",
    "RespondActivityTaskCompleted",
    "RespondActivityTaskFailed",
    "RespondActivityTaskCanceled",
    "RecordActivityTaskHeartbeat",
)
RUN = "11111111-2222-4333-8444-555555555555"


@scenario
def foreign_token(s: Session) -> None:
    """Well-formed tokens of a workflow, and of an activity by id, that are not there."""
    ours = s.server.namespace_id
    given = foreign(namespace_id=ours, workflow_id=s.name("wf"), run_id=RUN, scheduled=5, attempt=1)
    by_id = foreign(namespace_id=ours, workflow_id=s.name("wf"), activity_id="a")
    for rpc in ANSWERS:
        s.call(rpc, task_token=given, identity="worker")
        s.call(rpc, task_token=by_id, identity="worker")


@scenario
def foreign_token_incomplete(s: Session) -> None:
    """Tokens that are well-formed messages, but name too little or a namespace that is not there."""
    ours = s.server.namespace_id
    for token in (
        foreign(namespace_id=RUN, workflow_id=s.name("wf"), run_id=RUN, scheduled=5, attempt=1),
        foreign(workflow_id=s.name("wf"), run_id=RUN, scheduled=5, attempt=1),
        foreign(namespace_id=ours, run_id=RUN, scheduled=5, attempt=1),
        foreign(namespace_id=ours, workflow_id=s.name("wf"), run_id="bad", scheduled=5, attempt=1),
        foreign(namespace_id=ours, workflow_id=s.name("wf"), run_id=RUN),
        b"\x78\x01",
        b"\x01",
        b"not a token",
        RUN.encode(),
    ):
        for rpc in ANSWERS:
            s.call(rpc, task_token=token, identity="worker")


@scenario
def foreign_token_live(s: Session) -> None:
    """The token of a workflow that runs, but with no such task."""
    run = s.begun(s.activity())
    ours = s.server.namespace_id
    given = foreign(namespace_id=ours, workflow_id=s.name("wf"), run_id=run, scheduled=2, attempt=1)
    for rpc in ANSWERS:
        s.call(rpc, task_token=given, identity="worker")
    s.history()


@scenario
def foreign_token_of_query(s: Session) -> None:
    """Tokens of queries that are not there."""
    ours = s.server.namespace_id
    done = {"completed_type": "QUERY_RESULT_TYPE_ANSWERED", "query_result": payloads(1)}
    for token in (
        foreign(namespace_id=ours, workflow_id=s.name("q"), run_id=RUN),
        foreign(namespace_id=ours, workflow_id=s.name("q")),
        foreign(namespace_id=ours, run_id=RUN),
        foreign(namespace_id=RUN, workflow_id=s.name("q"), run_id=RUN),
        b"",
        b"not a token",
    ):
        s.call("RespondQueryTaskCompleted", task_token=token, **done)


@scenario
def heartbeat(s: Session) -> None:
    """force_create_new_workflow_task makes a new task at once; return_new hands it over inline."""
    s.start()
    task = s.poll()
    answer = s.complete(task, marker("m"), return_new_workflow_task=True, force_create_new_workflow_task=True)
    s.history()
    s.complete(answer.workflow_task, complete())
    s.history()


@scenario
def force_create(s: Session) -> None:
    """force_create_new_workflow_task alone puts the new task on the queue."""
    s.start()
    s.complete(s.poll(), force_create_new_workflow_task=True)
    s.history()
    s.run_task(complete())


@scenario
def return_new_with_signal(s: Session) -> None:
    """A buffered signal makes a new task that return_new_workflow_task hands over inline."""
    s.start()
    task = s.poll()
    s.signal()
    answer = s.complete(task, return_new_workflow_task=True)
    s.complete(answer.workflow_task, complete())
    s.history()


@scenario
def return_new_nothing(s: Session) -> None:
    """return_new_workflow_task without need for one answers nothing."""
    s.start()
    s.complete(s.poll(), return_new_workflow_task=True)
    s.history()


@scenario
def force_create_on_close(s: Session) -> None:
    """Forcing a new task while completing the workflow."""
    s.start()
    s.complete(s.poll(), complete(), force_create_new_workflow_task=True, return_new_workflow_task=True)
    s.history()


@scenario
def second_task(s: Session) -> None:
    """The second task shows previous_started_event_id."""
    s.begun()
    s.signal()
    s.run_task(fail("done for"))
    s.history()


@scenario
def sdk_metadata(s: Session) -> None:
    """SDK metadata, metering metadata and checksum are recorded in the completed event."""
    s.start()
    s.complete(
        s.poll(),
        sdk_metadata={"core_used_flags": [1, 2], "lang_used_flags": [3], "sdk_name": "n", "sdk_version": "1"},
        metering_metadata={"nonfirst_local_activity_execution_attempts": 3},
        binary_checksum="sum",
    )
    s.history()
    s.describe()


@scenario
def worker_gone_for_closed(s: Session) -> None:
    """A task of a terminated workflow is not handed out; its answer is refused."""
    s.start()
    task = s.poll()
    s.terminate()
    s.complete(task, complete())
    s.history()


@scenario
def repeated_time_outs(s: Session) -> None:
    """Attempts 2 and 3 time out without events."""
    s.start(workflow_task_timeout=seconds(1))
    s.poll()
    s.poll()
    s.poll()
    time.sleep(0.2)
    s.history()
    s.describe()


@scenario
def heartbeat_chain(s: Session) -> None:
    """Heartbeats with empty results, then local activities' results: each is written, the next task inline."""
    s.start()
    task = s.poll()
    more = {"return_new_workflow_task": True, "force_create_new_workflow_task": True}
    for commands in ((), (), (marker("local"),), (marker("local"), marker("local"))):
        task = s.complete(task, *commands, **more).workflow_task
    s.complete(task, marker("local"), complete())
    s.history()


@scenario
def reported_problems(s: Session) -> None:
    """Reported problems: after so many failed attempts a search attribute is set, a success takes it away."""
    s.start()
    for _ in range(6):
        s.fail_task(s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker"))
    s.wait_describe(lambda d: d.pending_workflow_task.attempt == 7)
    s.call("DescribeWorkflowExecution", execution=s.execution())
    s.complete(s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker"), timer("t", 60))
    s.describe()
    s.history()


@scenario
def build_ids(s: Session) -> None:
    """Every build that completed a task is listed, each once."""
    s.start()
    for build in ("one", "two", "", "one", 'th"ree'):
        s.run_task(worker_version_stamp={"build_id": build}, force_create_new_workflow_task=True)
        s.describe()
    s.run_task()
    s.describe()


@scenario
def build_ids_after_none(s: Session) -> None:
    """A worker that names no build, and then one that does."""
    s.start()
    s.run_task(force_create_new_workflow_task=True)
    s.describe()
    s.run_task(worker_version_stamp={"build_id": "one"})
    s.describe()


@scenario
def build_ids_and_checksums(s: Session) -> None:
    """Checksums of binaries, the older form."""
    s.start()
    for checksum in ("one", "two", "", "one"):
        s.run_task(binary_checksum=checksum, force_create_new_workflow_task=True)
    s.describe()


@scenario
def build_ids_continued(s: Session) -> None:
    """The next run begins without the builds of the one before."""
    first = s.start()
    again = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION")
    s.run_task(again, worker_version_stamp={"build_id": "one"})
    s.wait_new_run(first)
    s.describe()
    s.run_task(worker_version_stamp={"build_id": "two"})
    s.describe()
    s.describe(run=first)
