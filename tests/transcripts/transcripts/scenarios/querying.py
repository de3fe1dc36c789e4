"""Queries."""

from __future__ import annotations

import time
from concurrent.futures import Future

from .. import messages
from ..build import big, complete, fail, failure, payloads, seconds
from ..harness import Session
from . import scenario

# How long a query begun in the background takes at most to reach the server.
QUERY_ARRIVES = 0.7


def answer(s: Session, task: object, begun: Future, **more: object) -> None:
    """Answers a direct query task and records both ends."""
    fields = {
        "task_token": task.task_token,  # type: ignore[attr-defined]
        "completed_type": "QUERY_RESULT_TYPE_ANSWERED",
        "query_result": payloads("the answer"),
    }
    s.call("RespondQueryTaskCompleted", **{**fields, **more})
    s.join(begun)


@scenario
def direct(s: Session) -> None:
    """A query on an idle workflow makes a query task with the whole history."""
    s.begun()
    begun = s.begin_query(query={"query_type": "state", "query_args": payloads("arg")})
    answer(s, s.poll(), begun)
    s.history()


@scenario
def failed(s: Session) -> None:
    """A failed query answers QueryFailed with message and failure."""
    s.begun()
    begun = s.begin_query()
    answer(
        s,
        s.poll(),
        begun,
        completed_type="QUERY_RESULT_TYPE_FAILED",
        query_result=None,
        error_message="unknown query",
        failure=failure("unknown query", "Unknown"),
    )


@scenario
def on_workflow_task(s: Session) -> None:
    """A query while a task is scheduled rides on it, in `queries`."""
    s.begun()
    s.signal()
    begun = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    task = s.poll()
    results = {k: {"result_type": "QUERY_RESULT_TYPE_ANSWERED", "answer": payloads(1)} for k in task.queries}
    s.complete(task, query_results=results)
    s.join(begun)
    s.history()


@scenario
def on_workflow_task_failed(s: Session) -> None:
    """A query on a task, answered as failed."""
    s.begun()
    s.signal()
    begun = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    task = s.poll()
    results = {
        key: {"result_type": "QUERY_RESULT_TYPE_FAILED", "error_message": "no", "failure": failure("no")}
        for key in task.queries
    }
    s.complete(task, query_results=results)
    s.join(begun)


@scenario
def on_task_then_closed(s: Session) -> None:
    """A query answered by the very task that completes the workflow."""
    s.begun()
    s.signal()
    begun = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    task = s.poll()
    results = {key: {"result_type": "QUERY_RESULT_TYPE_ANSWERED", "answer": payloads(1)} for key in task.queries}
    s.complete(task, complete(), query_results=results)
    s.join(begun)


@scenario
def before_first_task(s: Session) -> None:
    """A query before the first task waits for it, then is asked."""
    s.start()
    begun = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    s.run_task()
    answer(s, s.poll(), begun)


@scenario
def before_first_task_nobody(s: Session) -> None:
    """A query on a workflow whose first task no worker takes."""
    s.start()
    s.query(deadline=2)


@scenario
def closed(s: Session) -> None:
    """A closed workflow can be queried."""
    s.begun(complete("x"))
    begun = s.begin_query()
    answer(s, s.poll(), begun)


@scenario
def rejected(s: Session) -> None:
    """Reject conditions: not open; not completed cleanly."""
    s.begun(complete())
    s.query(query_reject_condition="QUERY_REJECT_CONDITION_NOT_OPEN")
    s.start("wf-2", queue="q2")
    s.run_task(fail(), queue="q2")
    s.query("wf-2", query_reject_condition="QUERY_REJECT_CONDITION_NOT_COMPLETED_CLEANLY")
    s.query("wf-2", query_reject_condition="QUERY_REJECT_CONDITION_NOT_OPEN")


@scenario
def not_rejected(s: Session) -> None:
    """Reject conditions that do not apply."""
    s.begun()
    begun = s.begin_query(query_reject_condition="QUERY_REJECT_CONDITION_NOT_OPEN")
    answer(s, s.poll(), begun)


@scenario
def terminated_without_task(s: Session) -> None:
    """A workflow that closed without ever completing a task."""
    s.start()
    s.terminate()
    s.query(deadline=3)


@scenario
def unknown(s: Session) -> None:
    """Queries of unknown workflows, and invalid ones."""
    s.query()
    s.query(query=None)
    s.query(query={"query_type": ""})
    s.query(execution=None)
    s.query(execution={"workflow_id": ""})
    s.query(run="bad run")


@scenario
def no_worker(s: Session) -> None:
    """No worker polls: the query ends with its deadline."""
    s.begun()
    s.query(deadline=2)


@scenario
def answer_unknown(s: Session) -> None:
    """Answers to no query."""
    s.call("RespondQueryTaskCompleted", task_token=b"")
    s.call("RespondQueryTaskCompleted", task_token=b"nonsense")


@scenario
def answer_twice(s: Session) -> None:
    """A second answer to a query."""
    s.begun()
    begun = s.begin_query()
    task = s.poll()
    answer(s, task, begun)
    s.call("RespondQueryTaskCompleted", task_token=task.task_token, completed_type="QUERY_RESULT_TYPE_ANSWERED")


@scenario
def stack_trace(s: Session) -> None:
    """Built-in query names are passed on like others."""
    s.begun()
    begun = s.begin_query(query={"query_type": "__stack_trace"})
    answer(s, s.poll(), begun)


@scenario
def on_failing_workflow_task(s: Session) -> None:
    """A query on a workflow whose tasks keep failing is refused."""
    s.begun()
    s.signal()
    for _ in range(3):
        s.fail_task(s.poll())
    s.query(deadline=3)


@scenario
def on_workflow_task_too_large(s: Session) -> None:
    """A query on a task, answered with more than 2 MiB: the query fails, the task is completed."""
    s.begun()
    s.signal()
    begun = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    task = s.poll()
    results = {key: {"result_type": "QUERY_RESULT_TYPE_ANSWERED", "answer": big(2.1)} for key in task.queries}
    s.complete(task, query_results=results)
    s.join(begun)
    s.history()


@scenario
def on_task_with_another_task(s: Session) -> None:
    """A query that a task did not answer waits for the task that follows at once."""
    s.begun()
    s.signal()
    begun = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    task = s.poll()
    s.signal("again")
    s.complete(task)
    task = s.poll()
    results = {key: {"result_type": "QUERY_RESULT_TYPE_ANSWERED", "answer": payloads(1)} for key in task.queries}
    s.complete(task, query_results=results)
    s.join(begun)


@scenario
def start_delayed(s: Session) -> None:
    """A run whose first task is put off cannot be queried."""
    s.start(workflow_start_delay=seconds(60))
    s.query()


@scenario
def start_delayed_signalled(s: Session) -> None:
    """A signal does not end the delay."""
    s.start(workflow_start_delay=seconds(60))
    s.signal()
    s.query()
    s.history()


@scenario
def start_delayed_updated(s: Session) -> None:
    """An update is handed out before the delay is over; then the run can be queried."""
    s.start(workflow_start_delay=seconds(60))
    update = s.admit(stage="COMPLETED")
    task = s.poll()
    messages.accept_all(s, task)
    s.join(update)
    s.history()
    begun = s.begin_query()
    answer(s, s.poll(), begun)


@scenario
def start_delayed_update_rejected(s: Session) -> None:
    """An update that left no trace: the run is as delayed as before."""
    s.start(workflow_start_delay=seconds(60))
    update = s.admit(stage="COMPLETED")
    task = s.poll()
    messages.answer(s, task, messages.reject(task.messages[0]))
    s.join(update)
    s.history()
    begun = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    s.join(begun)


@scenario
def start_delayed_update_waiting(s: Session) -> None:
    """A query while the update's task waits for a worker, and while a worker has it."""
    s.start(workflow_start_delay=seconds(60))
    update = s.admit(stage="COMPLETED")
    waiting = s.begin_query()
    time.sleep(QUERY_ARRIVES)
    task = s.poll()
    messages.accept_all(s, task)
    s.join(update)
    time.sleep(QUERY_ARRIVES)
    if not waiting.done():
        answer(s, s.poll(), waiting)
    else:
        s.join(waiting)
