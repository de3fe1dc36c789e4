"""Update-with-start (ExecuteMultiOperation): which run gets the update, and who is told what."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

from ..build import command, complete
from ..harness import NAMESPACE, PATIENT, Session
from ..messages import accept, accept_all, answer, reject, respond
from . import scenario

# How long a call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6
USE_EXISTING = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"}
TERMINATE_EXISTING = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING"}
FAIL = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_FAIL"}
REJECT_DUPLICATE = {"workflow_id_reuse_policy": "WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE"}


def begin_both(s: Session, update_id: str = "u", deadline: float = PATIENT, stage: str = "", **start: Any) -> Future:
    """Begins an update-with-start of `wf`."""
    starting = {"namespace": NAMESPACE, **s.start_fields(**start)}
    updating = {"namespace": NAMESPACE, **s.update_fields(update_id, stage=stage)}
    operations = [{"start_workflow": starting}, {"update_workflow": updating}]
    return s.begin("ExecuteMultiOperation", deadline, operations=operations)


def admit_both(s: Session, update_id: str = "u", **more: Any) -> Future:
    """Begins an update-with-start and waits until the server knows the update."""
    begun = begin_both(s, update_id, **more)
    s.wait_update(update_id)
    return begun


def started(s: Session, policy: dict[str, Any]) -> None:
    """Update-with-start of a workflow that does not run: it starts, and its first task brings the update."""
    begun = begin_both(s, **policy)
    accept_all(s, s.poll())
    s.join(begun)
    s.poll_update()
    s.history()


@scenario
def not_running_use_existing(s: Session) -> None:
    """Workflow is not running, conflict policy use-existing, accept."""
    started(s, USE_EXISTING)


@scenario
def not_running_terminate_existing(s: Session) -> None:
    """Workflow is not running, conflict policy terminate-existing, accept."""
    started(s, TERMINATE_EXISTING)


@scenario
def not_running_fail(s: Session) -> None:
    """Workflow is not running, conflict policy fail, accept."""
    started(s, FAIL)


@scenario
def not_running_rejected(s: Session) -> None:
    """Workflow is not running, reject: the workflow stays, the update is forgotten."""
    begun = begin_both(s, **USE_EXISTING)
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()
    s.describe()


@scenario
def not_running_wait_accepted(s: Session) -> None:
    """The call waits for ACCEPTED only."""
    begun = begin_both(s, stage="ACCEPTED", **USE_EXISTING)
    task = s.poll()
    answer(s, task, accept(task.messages[0]))
    s.join(begun)


@scenario
def nobody_answers(s: Session) -> None:
    """No worker: the deadline ends the call, the workflow was started."""
    s.join(begin_both(s, deadline=1.5, **USE_EXISTING))
    s.poll_update()
    s.history()


@scenario
def running_accepted(s: Session) -> None:
    """Workflow is running, use-existing, accept: a speculative task; nothing was started."""
    s.begun()
    begun = begin_both(s, **USE_EXISTING)
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def running_rejected(s: Session) -> None:
    """Workflow is running, use-existing, reject: no trace."""
    s.begun()
    begun = begin_both(s, **USE_EXISTING)
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def running_terminated(s: Session) -> None:
    """Workflow is running, terminate-existing: terminated first, then started and updated."""
    run = s.begun()
    begun = begin_both(s, **TERMINATE_EXISTING)
    accept_all(s, s.poll())
    s.join(begun)
    s.history(run=run)
    s.history()


@scenario
def running_attached(s: Session) -> None:
    """Workflow is running, terminate-existing, update known: attached to it, nothing is terminated."""
    s.begun()
    begun = s.admit(stage="ACCEPTED")
    task = s.poll()
    message = task.messages[0]
    answer(s, task, accept(message))
    s.join(begun)
    s.join(begin_both(s, stage="ACCEPTED", **TERMINATE_EXISTING))
    waiting = begin_both(s, **FAIL)
    time.sleep(CALL_ARRIVES)
    s.signal()
    answer(s, s.poll(), respond(message))
    s.join(waiting)
    s.history()


@scenario
def running_conflict(s: Session) -> None:
    """Workflow is running, conflict policy fail: the start is refused, the update aborted; so too without a policy."""
    s.begun()
    s.join(begin_both(s, **FAIL))
    s.join(begin_both(s))
    s.history()


@scenario
def running_update_completed(s: Session) -> None:
    """Workflow is running, update completed before: its result, regardless of the policy."""
    s.begun()
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    for policy in (USE_EXISTING, TERMINATE_EXISTING, FAIL):
        s.join(begin_both(s, **policy))
    s.history()


@scenario
def start_deduped(s: Session) -> None:
    """Workflow is running, same start request id, other update: it goes to the same run, regardless of the policy."""
    same = s.request_id()
    for n, policy in enumerate((USE_EXISTING, TERMINATE_EXISTING, FAIL)):
        begun = begin_both(s, f"u{n}", request_id=same, **policy)
        accept_all(s, s.poll())
        s.join(begun)
    s.history()


@scenario
def deduped_while_waiting(s: Session) -> None:
    """The same call again while the first waits: one start, one update, two answers."""
    same = s.request_id()
    begun = [admit_both(s, request_id=same, **FAIL), begin_both(s, request_id=same, **FAIL)]
    time.sleep(CALL_ARRIVES)
    accept_all(s, s.poll())
    for each in begun:
        s.join(each)
    s.history()


@scenario
def closed_started_again(s: Session) -> None:
    """Workflow is closed, duplicates allowed: a new run."""
    run = s.begun(complete())
    begun = begin_both(s, **USE_EXISTING)
    accept_all(s, s.poll())
    s.join(begun)
    s.history(run=run)
    s.history()
    s.signal(run=run)


@scenario
def closed_duplicate_refused(s: Session) -> None:
    """Workflow is closed, duplicates refused: the start fails, the update is aborted."""
    s.begun(complete())
    s.join(begin_both(s, **USE_EXISTING, **REJECT_DUPLICATE))


@scenario
def closed_update_completed(s: Session) -> None:
    """Workflow is closed, update completed before: its result, and the closed run's status, under every policy."""
    s.begun()
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.terminate()
    for policy in (USE_EXISTING, TERMINATE_EXISTING, FAIL):
        s.join(begin_both(s, **policy))
    s.join(begin_both(s, **USE_EXISTING, **REJECT_DUPLICATE))


@scenario
def closed_update_accepted_only(s: Session) -> None:
    """Workflow is closed, update accepted but not completed: that is no result, a new run starts."""
    s.begun()
    begun = s.admit(stage="ACCEPTED")
    task = s.poll()
    answer(s, task, accept(task.messages[0]), then=(complete(),))
    s.join(begun)
    begun = begin_both(s, **USE_EXISTING)
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def aborted_then_started(s: Session) -> None:
    """Update aborted by closing workflow, which was not started by the call: tried once more, a new run starts."""
    run = s.start()
    task = s.poll()
    begun = admit_both(s, **USE_EXISTING)
    s.complete(task, complete())
    s.wait_new_run(run)
    accept_all(s, s.poll())
    s.join(begun)
    s.history(run=run)
    s.history()


@scenario
def aborted_after_start(s: Session) -> None:
    """Update aborted by closing workflow, which the call itself started: not tried again."""
    begun = admit_both(s, **USE_EXISTING)
    s.complete(s.poll(), complete())
    s.join(begun)
    s.history()


@scenario
def aborted_twice(s: Session) -> None:
    """Aborted by closing workflows twice: the second run was started by the call, so the abort itself is told."""
    run = s.start()
    task = s.poll()
    begun = admit_both(s, **USE_EXISTING)
    s.complete(task, complete())
    s.wait_new_run(run)
    s.complete(s.poll(), complete())
    s.join(begun)


@scenario
def continued_while_waiting(s: Session) -> None:
    """The workflow continues as new while the update waits: the caller may try again."""
    s.start()
    task = s.poll()
    begun = admit_both(s, **USE_EXISTING)
    s.complete(task, command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"}))
    s.join(begun)


@scenario
def same_id_on_new_run(s: Session) -> None:
    """The workflow has continued as new since the update was completed: it is fresh; Segno answers as the first run did."""
    begun = admit_both(s, **USE_EXISTING)
    task = s.poll()
    go_on = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"})
    answer(s, task, accept(task.messages[0]), respond(task.messages[0]), then=(go_on,))
    s.join(begun)
    s.wait_new_run(task.workflow_execution.run_id)
    begun = begin_both(s, **USE_EXISTING)
    task = s.poll()
    again = [said for message in task.messages for said in (accept(message), respond(message, {"success": {}}))]
    answer(s, task, *again)
    s.join(begun)


@scenario
def task_failed(s: Session) -> None:
    """The worker's wrong answer: the start stands, the update's error is told."""
    begun = begin_both(s, **USE_EXISTING)
    task = s.poll()
    answer(s, task, respond(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def attempts_used_up(s: Session) -> None:
    """A running workflow whose tasks keep failing takes no update."""
    s.begun()
    s.signal()
    s.fail_task(s.poll())
    s.fail_task(s.poll())
    s.join(begin_both(s, **USE_EXISTING))


def rejected(s: Session, policy: dict[str, Any]) -> None:
    """Update-with-start of a workflow that does not run; its first task rejects the update."""
    begun = begin_both(s, **policy)
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def not_running_rejected_terminate_existing(s: Session) -> None:
    """Workflow is not running, conflict policy terminate-existing, reject."""
    rejected(s, TERMINATE_EXISTING)


@scenario
def not_running_rejected_fail(s: Session) -> None:
    """Workflow is not running, conflict policy fail, reject."""
    rejected(s, FAIL)


def who_started(begun: Future) -> bool:
    """Whether this call is the one that started the workflow."""
    *_, response, error = begun.result(timeout=60)
    return error is None and response.responses[0].start_workflow.started


@scenario
def start_conflict(s: Session) -> None:
    """Workflow start conflict: of several calls at once one starts the workflow, all get the update's result."""
    # Without request ids the calls are alike, and it does not matter which is first.
    begun = [begin_both(s, request_id="", **USE_EXISTING) for _ in range(4)]
    time.sleep(2 * CALL_ARRIVES)
    accept_all(s, s.poll())
    for each in sorted(begun, key=who_started):
        s.join(each)
    s.history()


@scenario
def aborted_twice_by_others(s: Session) -> None:
    """Aborted by closing workflows twice, neither started by the call: tried once more, then a retryable error."""
    s.start()
    begun = admit_both(s, **USE_EXISTING)
    # Ends the run and starts another in one step, so that the second try finds one running.
    s.start(**TERMINATE_EXISTING)
    s.wait_update()
    run = s.start(**TERMINATE_EXISTING)
    s.join(begun)
    s.history(run=run)
