"""Signals."""

from __future__ import annotations

import time

from ..build import complete, fail, fields, payloads, retry, seconds
from ..harness import Session
from . import scenario


@scenario
def running(s: Session) -> None:
    """A signal to a waiting workflow writes an event and schedules a task."""
    s.begun()
    s.signal(input=payloads("hello"), header=fields(h="v"))
    s.history()
    s.poll()


@scenario
def before_first_task(s: Session) -> None:
    """A signal before the first task joins the already scheduled task."""
    s.start()
    s.signal()
    s.history()
    s.run_task(complete())
    s.history()


@scenario
def several(s: Session) -> None:
    """Several signals share one scheduled task."""
    s.begun()
    s.signal("one")
    s.signal("two")
    s.signal("three")
    s.history()


@scenario
def closed(s: Session) -> None:
    """Signalling a closed workflow."""
    run = s.begun(complete())
    s.signal()
    s.signal(run=run)


@scenario
def unknown(s: Session) -> None:
    """Signalling a workflow or run that does not exist."""
    s.signal()
    s.start()
    s.signal(run="11111111-2222-4333-8444-555555555555")
    s.signal(run="not a run id")


@scenario
def invalid(s: Session) -> None:
    """Missing or too long parts of a signal."""
    s.start()
    s.signal("")
    s.signal("x" * 1001)
    s.signal(request_id="x" * 1001)
    s.signal(workflow_execution=None)
    s.signal(workflow_execution={"workflow_id": ""})


@scenario
def request_id_dedupe(s: Session) -> None:
    """A signal repeated with its request id counts once."""
    s.begun()
    same = s.request_id()
    s.signal(request_id=same)
    s.signal(request_id=same)
    s.signal(request_id=s.request_id())
    s.history()


@scenario
def with_start_new(s: Session) -> None:
    """Signal-with-start of a new workflow."""
    s.signal_with_start(signal_input=payloads("s"), input=payloads("i"), header=fields(h=1), memo=fields(m=1))
    s.history()
    s.poll()


@scenario
def with_start_running(s: Session) -> None:
    """Signal-with-start of a running workflow only signals."""
    s.begun()
    s.signal_with_start(signal_input=payloads("s"))
    s.history()


@scenario
def with_start_closed(s: Session) -> None:
    """Signal-with-start of a closed workflow starts a run, or is refused by the reuse policy."""
    s.begun(complete())
    s.signal_with_start(workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE")
    s.signal_with_start(workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY")
    s.signal_with_start()
    s.history()


@scenario
def with_start_terminate(s: Session) -> None:
    """Signal-with-start with conflict policy TERMINATE_EXISTING."""
    first = s.start()
    s.signal_with_start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING")
    s.history(run=first)
    s.history()


@scenario
def with_start_dedupe(s: Session) -> None:
    """Signal-with-start repeated with its request id."""
    same = s.request_id()
    s.signal_with_start(request_id=same)
    s.signal_with_start(request_id=same)
    s.history()


@scenario
def with_start_invalid(s: Session) -> None:
    """Refused signal-with-starts."""
    s.signal_with_start("")
    s.signal_with_start(workflow_id="")
    s.signal_with_start(workflow_type=None)
    s.signal_with_start(task_queue=None)
    s.signal_with_start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_FAIL")
    s.signal_with_start(cron_schedule="* * * * *", workflow_start_delay=seconds(1))


@scenario
def with_start_delay(s: Session) -> None:
    """Signal-with-start honours the start delay."""
    s.signal_with_start(workflow_start_delay=seconds(60))
    s.history()
    s.describe()


@scenario
def with_start_delayed_run(s: Session) -> None:
    """Signal-with-start of a run that waits for its start delay schedules a task; a signal alone does not."""
    s.start(workflow_start_delay=seconds(60))
    s.signal("alone")
    s.history()
    s.signal_with_start("first")
    s.history()
    s.signal_with_start("second")
    s.run_task(complete())
    s.history()


@scenario
def with_start_delayed_twice(s: Session) -> None:
    """The run was begun by signal-with-start, with a delay; a second one ends the wait, a repeated one does too."""
    same = s.request_id()
    s.signal_with_start(request_id=same, workflow_start_delay=seconds(60))
    s.signal_with_start(request_id=same, workflow_start_delay=seconds(60))
    s.history()
    s.describe()
    s.signal_with_start(workflow_start_delay=seconds(60))
    s.history()


@scenario
def with_start_delay_ends_later(s: Session) -> None:
    """After the task that signal-with-start made, the end of the delay makes no other one."""
    s.start(workflow_start_delay=seconds(2))
    s.signal_with_start()
    s.run_task()
    time.sleep(2.5)
    s.history()
    s.describe()


@scenario
def with_start_cron_waits(s: Session) -> None:
    """Signal-with-start of a cron workflow that waits for its time."""
    s.start(cron_schedule="0 0 1 1 *")
    s.signal_with_start()
    s.history()
    s.terminate()


@scenario
def with_start_retry_waits(s: Session) -> None:
    """Signal-with-start of a run that waits for its retry."""
    first = s.begun(fail("first"), retry_policy=retry(30))
    s.wait_new_run(first)
    s.signal()
    s.history()
    s.signal_with_start()
    s.history()
    s.run_task(complete())


@scenario
def with_start_continued_waits(s: Session) -> None:
    """Signal-with-start of a run that waits for the back-off of a continue-as-new."""
    again = {"workflow_type": {"name": "wt"}, "backoff_start_interval": seconds(60)}
    kind = "COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION"
    attributes = "continue_as_new_workflow_execution_command_attributes"
    first = s.begun({"command_type": kind, attributes: again})
    s.wait_new_run(first)
    s.signal_with_start()
    s.history()


@scenario
def with_start_delayed_queried(s: Session) -> None:
    """A delayed run that signal-with-start woke can be queried after its first task."""
    s.start(workflow_start_delay=seconds(60))
    s.signal_with_start()
    s.run_task()
    begun = s.begin_query()
    task = s.poll()
    answered = {"completed_type": "QUERY_RESULT_TYPE_ANSWERED", "query_result": payloads(1)}
    s.call("RespondQueryTaskCompleted", task_token=task.task_token, **answered)
    s.join(begun)


CONFLICT = "WORKFLOW_ID_CONFLICT_POLICY_"
REUSE = "WORKFLOW_ID_REUSE_POLICY_"


@scenario
def with_start_terminate_dedupe(s: Session) -> None:
    """Repeated with its request id, TERMINATE_EXISTING ends the run that it started and starts another."""
    same = s.request_id()
    terminate = {"workflow_id_conflict_policy": CONFLICT + "TERMINATE_EXISTING", "request_id": same}
    first = s.signal_with_start(**terminate)
    s.signal_with_start(**terminate)
    s.history(run=first)
    s.history()


@scenario
def with_start_terminate_if_running_dedupe(s: Session) -> None:
    """The same by the older policy."""
    same = s.request_id()
    terminate = {"workflow_id_reuse_policy": REUSE + "TERMINATE_IF_RUNNING", "request_id": same}
    first = s.signal_with_start(**terminate)
    s.signal_with_start(**terminate)
    s.history(run=first)
    s.history()


@scenario
def with_start_dedupe_closed(s: Session) -> None:
    """Repeated with its request id after the run that it started closed."""
    same = s.request_id()
    first = s.signal_with_start(request_id=same)
    s.run_task(complete())
    for policy in ("ALLOW_DUPLICATE", "REJECT_DUPLICATE", "TERMINATE_IF_RUNNING"):
        s.signal_with_start(request_id=same, workflow_id_reuse_policy=REUSE + policy)
    s.describe()
    s.history(run=first)


@scenario
def with_start_dedupe_across(s: Session) -> None:
    """A start and a signal-with-start of the same request id."""
    same = s.request_id()
    s.start(request_id=same)
    s.signal_with_start(request_id=same)
    s.signal_with_start(request_id=same, workflow_id_conflict_policy=CONFLICT + "TERMINATE_EXISTING")
    s.start(request_id=same)
    s.start(request_id=same, workflow_id_conflict_policy=CONFLICT + "TERMINATE_EXISTING")
    s.history()
