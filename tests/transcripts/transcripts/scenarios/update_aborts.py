"""What becomes of updates when their workflow closes or continues."""

from __future__ import annotations

from concurrent.futures import Future

from ..build import Fields, command, complete, fail, marker, retry, seconds
from ..harness import Session
from ..messages import accept, answer, reject, respond
from . import scenario

GO_ON = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"})
CANCELLED = command("CANCEL_WORKFLOW_EXECUTION")


def admitted(s: Session, *closing: Fields, by_run: bool = False, **more: object) -> None:
    """Closes the workflow while an update waits that no worker has seen."""
    run = s.start(**more)
    task = s.poll()
    begun = s.admit(run=run if by_run else "")
    s.complete(task, *closing)
    s.join(begun)
    s.poll_update(run=run)
    s.history(run=run)


def sent(s: Session, *closing: Fields, **more: object) -> None:
    """Closes the workflow with the task that brought the update, without an answer to it."""
    run = s.start(**more)
    begun = s.admit()
    s.complete(s.poll(), *closing)
    s.join(begun)
    s.poll_update(run=run)
    s.history(run=run)


def accepted(s: Session, *closing: Fields, by_run: bool = False, **more: object) -> None:
    """Closes the workflow with the task that accepts the update."""
    run = s.start(**more)
    named = run if by_run else ""
    begun = [s.admit(run=named), s.admit("two", stage="ACCEPTED", run=named)]
    task = s.poll()
    answer(s, task, *[accept(m) for m in task.messages], then=closing)
    tell(s, begun, run)


def completed(s: Session, *closing: Fields, by_run: bool = False, **more: object) -> None:
    """Closes the workflow with the task that completes the update."""
    run = s.start(**more)
    begun = [s.admit(run=run if by_run else "")]
    task = s.poll()
    answer(s, task, accept(task.messages[0]), respond(task.messages[0]), then=closing)
    tell(s, begun, run)


def rejected(s: Session, *closing: Fields, by_run: bool = False, **more: object) -> None:
    """Closes the workflow with the task that rejects the update."""
    run = s.start(**more)
    begun = [s.admit(run=run if by_run else "")]
    task = s.poll()
    answer(s, task, reject(task.messages[0]), then=closing)
    # Asked again, Segno remembers the rejection and the real server does not.
    s.join(begun[0])
    s.history(run=run)


def tell(s: Session, begun: list[Future], run: str) -> None:
    """Records what the callers get, and what asking the closed run again gives."""
    for each in begun:
        s.join(each)
    s.update(run=run)
    s.poll_update(run=run)
    s.history(run=run)


@scenario
def admitted_completed(s: Session) -> None:
    """Complete workflow, abort updates: admitted, workflow completed (an admitted update does not block closing)."""
    admitted(s, complete())


@scenario
def admitted_failed(s: Session) -> None:
    """Complete workflow, abort updates: admitted, workflow failed."""
    admitted(s, fail())


@scenario
def admitted_cancelled(s: Session) -> None:
    """Complete workflow, abort updates: admitted, workflow cancelled."""
    admitted(s, CANCELLED)


@scenario
def admitted_continued(s: Session) -> None:
    """Complete workflow, abort updates: admitted, continued as new, called without run id."""
    admitted(s, GO_ON)


@scenario
def admitted_continued_by_run(s: Session) -> None:
    """Complete workflow, abort updates: admitted, continued as new, called with run id."""
    admitted(s, GO_ON, by_run=True)


@scenario
def admitted_retried(s: Session) -> None:
    """An admitted update when the workflow fails and is retried."""
    admitted(s, fail(), retry_policy=retry(1, maximum_attempts=2))


@scenario
def sent_completed(s: Session) -> None:
    """An update sent but not answered when the workflow completes."""
    sent(s, complete())


@scenario
def sent_continued(s: Session) -> None:
    """An update sent but not answered when the workflow continues as new."""
    sent(s, GO_ON)


@scenario
def accepted_completed(s: Session) -> None:
    """Complete workflow, abort updates: accepted, workflow completed; last task has the update; repeated the same."""
    accepted(s, complete())


@scenario
def accepted_failed(s: Session) -> None:
    """Complete workflow, abort updates: accepted, workflow failed."""
    accepted(s, fail())


@scenario
def accepted_continued(s: Session) -> None:
    """Complete workflow, abort updates: accepted, continued as new."""
    accepted(s, GO_ON)


@scenario
def accepted_continued_by_run(s: Session) -> None:
    """Complete workflow, abort updates: accepted, continued as new, called with run id."""
    accepted(s, GO_ON, by_run=True)


@scenario
def accepted_retried(s: Session) -> None:
    """An accepted update when the workflow fails and is retried."""
    accepted(s, fail(), retry_policy=retry(1, maximum_attempts=2))


@scenario
def completed_completed(s: Session) -> None:
    """Complete workflow, abort updates: completed, workflow completed."""
    completed(s, complete())


@scenario
def completed_failed(s: Session) -> None:
    """Complete workflow, abort updates: completed, workflow failed."""
    completed(s, fail())


@scenario
def completed_continued(s: Session) -> None:
    """Complete workflow, abort updates: completed, continued as new: the outcome stays with its run."""
    completed(s, GO_ON)


@scenario
def completed_continued_by_run(s: Session) -> None:
    """Complete workflow, abort updates: completed, continued as new, called with run id."""
    completed(s, GO_ON, by_run=True)


@scenario
def rejected_completed(s: Session) -> None:
    """Complete workflow, abort updates: rejected, workflow completed."""
    rejected(s, complete())


@scenario
def rejected_continued(s: Session) -> None:
    """Complete workflow, abort updates: rejected, continued as new."""
    rejected(s, GO_ON)


@scenario
def rejected_continued_by_run(s: Session) -> None:
    """Complete workflow, abort updates: rejected, continued as new, called with run id."""
    rejected(s, GO_ON, by_run=True)


@scenario
def rejected_failed(s: Session) -> None:
    """Complete workflow, abort updates: rejected, workflow failed."""
    rejected(s, fail())


@scenario
def not_carried_over(s: Session) -> None:
    """Continue as new, updates are not carried over: accepted and admitted ones end, the second run has no messages."""
    run = s.start()
    first = s.admit("one", stage="ACCEPTED")
    task = s.poll()
    answer(s, task, accept(task.messages[0]))
    s.join(first)
    s.signal()
    task = s.poll()
    polled = s.begin_poll_update("one", stage="COMPLETED")
    second = s.admit("two")
    s.complete(task, GO_ON)
    s.join(polled)
    s.join(second)
    new_run = s.wait_new_run(run)
    s.poll()
    s.poll_update("one")
    s.poll_update("two")
    s.history(run=new_run)


def completed_then(s: Session, *closing: Fields, **more: object) -> str:
    """Closes the workflow with the task that completes an update, and another run follows."""
    run = s.start(**more)
    begun = s.admit()
    task = s.poll()
    answer(s, task, accept(task.messages[0]), respond(task.messages[0]), then=closing)
    s.join(begun)
    s.wait_new_run(run)
    return run


def answer_again(s: Session, then: tuple[Fields, ...] = ()) -> None:
    """Answers the updates of the next task otherwise than the first run did. In Segno it brings none."""
    task = s.poll()
    again = [said for message in task.messages for said in (accept(message), respond(message, {"success": {}}))]
    answer(s, task, *again, then=then)


@scenario
def same_id_on_new_run(s: Session) -> None:
    """The same id is fresh on the run that a workflow continues as; Segno answers as the first run did."""
    run = completed_then(s, GO_ON)
    begun = s.admit()
    answer_again(s)
    s.join(begun)
    s.update(run=run)
    s.update()


@scenario
def same_id_on_retried_run(s: Session) -> None:
    """The same id is fresh on the run that a failed workflow is retried as; Segno answers as the first run did."""
    completed_then(s, fail(), retry_policy=retry(1, maximum_attempts=2))
    begun = s.admit()
    answer_again(s)
    s.join(begun)


@scenario
def same_id_after_two_runs(s: Session) -> None:
    """The workflow continues as new twice and ends: asked again it is closed; Segno answers as the first run did."""
    run = completed_then(s, GO_ON)
    second = s.wait_new_run(run)
    s.complete(s.poll(), GO_ON)
    s.wait_new_run(second)
    s.complete(s.poll(), complete())
    s.update()
    s.poll_update()


@scenario
def polled_on_new_run(s: Session) -> None:
    """Without a run id an outcome is not found once the workflow has continued as new; Segno finds it."""
    run = completed_then(s, GO_ON)
    s.poll_update()
    s.poll_update(stage="COMPLETED")
    s.poll_update(run=run)
    s.poll_update(run=s.wait_new_run(run))


@scenario
def terminated_after_admitted(s: Session) -> None:
    """Terminate after admitted, on a normal task: callers and polls are told that the workflow closes."""
    s.start()
    begun = s.admit()
    polled = s.begin_poll_update(stage="ACCEPTED")
    s.terminate()
    s.join(begun)
    s.join(polled)
    s.history()


@scenario
def terminated_after_accepted(s: Session) -> None:
    """Terminate after accepted: the outcome is the server's failure."""
    s.start()
    begun = s.admit()
    task = s.poll()
    answer(s, task, accept(task.messages[0]))
    s.terminate()
    s.join(begun)
    s.poll_update()
    s.update(stage="ACCEPTED")
    s.history()


@scenario
def timed_out_after_accepted(s: Session) -> None:
    """Run time-out after accepted: the outcome is the server's failure."""
    s.start(workflow_run_timeout=seconds(3))
    begun = s.admit()
    task = s.poll()
    answer(s, task, accept(task.messages[0]))
    s.join(begun)
    s.poll_update()
    s.history()


@scenario
def timed_out_after_admitted(s: Session) -> None:
    """Run time-out after admitted."""
    s.start(workflow_run_timeout=seconds(1))
    begun = s.admit()
    s.join(begun)
    s.history()


@scenario
def execution_timed_out_after_admitted(s: Session) -> None:
    """Execution time-out after admitted."""
    s.start(workflow_execution_timeout=seconds(1))
    begun = s.admit()
    s.join(begun)
    s.history()


@scenario
def timed_out_then_retried(s: Session) -> None:
    """Run time-out with retry after admitted: the caller is asked to try again."""
    run = s.start(workflow_run_timeout=seconds(1), retry_policy=retry(1, maximum_attempts=2))
    begun = s.admit()
    s.join(begun)
    s.history(run=run)


@scenario
def answered_after_closing(s: Session) -> None:
    """Messages without commands are read after the closing command: an acceptance is too late, a rejection is not."""
    s.start()
    begun = [s.admit("one"), s.admit("two")]
    task = s.poll()
    one, two = task.messages
    s.complete(task, complete(), messages=[accept(one), respond(one), reject(two)])
    for each in begun:
        s.join(each)
    s.history()


@scenario
def close_attempted(s: Session) -> None:
    """A workflow that tried to close in vain admits no update while its next task runs."""
    s.start()
    task = s.poll()
    s.signal()
    s.complete(task, complete())
    task = s.poll()
    s.update(deadline=3)
    s.complete(task, marker("m"))
    s.history()
    s.update(deadline=1.5)


@scenario
def closed_with_two_waiting(s: Session) -> None:
    """One task accepts one update and closes; another update was not sent yet."""
    s.start()
    first = s.admit("one")
    task = s.poll()
    second = s.admit("two")
    answer(s, task, accept(task.messages[0]), respond(task.messages[0]), then=(complete(),))
    s.join(first)
    s.join(second)
    s.history()


@scenario
def continued_then_asked_again(s: Session) -> None:
    """Continue as new after admitted: the caller, told to try again, does so and is answered by the new run."""
    run = s.start()
    task = s.poll()
    begun = s.admit()
    s.complete(task, GO_ON)
    s.join(begun)
    s.wait_new_run(run)
    begun = s.admit()
    task = s.poll()
    answer(s, task, accept(task.messages[0]), respond(task.messages[0]))
    s.join(begun)
    s.poll_update()
    s.history()


@scenario
def retried_then_asked_again(s: Session) -> None:
    """Run time-out with retry after admitted: the caller tries again and is answered by the retried run."""
    run = s.start(workflow_run_timeout=seconds(2), retry_policy=retry(1, maximum_attempts=2))
    s.run_task()
    s.join(s.admit())
    s.wait_new_run(run)
    begun = s.admit()
    task = s.poll()
    answer(s, task, accept(task.messages[0]), respond(task.messages[0]))
    s.join(begun)
