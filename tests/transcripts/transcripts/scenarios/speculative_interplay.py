"""Speculative workflow tasks and everything else that may happen to a workflow meanwhile."""

from __future__ import annotations

import time
from typing import Any

from ..build import command, complete, fail, payloads, retry, seconds, timer
from ..harness import Session
from ..messages import DISCARDS, accept_all, answer, reject
from . import scenario
from .sticky import sticky_attributes

# How long a call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6
# Queries that may wait for one workflow task; the real server is set to as many as Segno allows.
MOST_QUERIES = 32
GO_ON = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"})


def answered(task: Any) -> dict[str, Any]:
    """Answers to the queries of a task."""
    return {k: {"result_type": "QUERY_RESULT_TYPE_ANSWERED", "answer": payloads(1)} for k in task.queries}


def rejecting(s: Session, task: Any, **more: Any) -> Any:
    """Rejects the task's only update."""
    return answer(s, task, reject(task.messages[0]), **more)


@scenario
def stale_answer(s: Session) -> None:
    """Stale speculative task, different start time: an answer to a discarded task is refused though all ids agree."""
    s.begun()
    first = s.admit("one")
    old = s.poll()
    rejecting(s, old)
    s.join(first)
    second = s.admit("two")
    task = s.poll()
    # Not the same answer again, which Segno recognises.
    answer(s, old, reject(old.messages[0], "late"))
    s.fail_task(old)
    accept_all(s, task)
    s.join(second)
    s.history()


@scenario
def stale_answer_with_two_updates(s: Session) -> None:
    """Stale speculative task, new task with two updates: the old answer is refused, the new one takes both in order."""
    s.begun()
    first = s.admit("one")
    old = s.poll()
    rejecting(s, old)
    s.join(first)
    begun = [s.admit("two"), s.admit("three")]
    task = s.poll()
    accept_all(s, old)
    accept_all(s, task)
    for each in begun:
        s.join(each)
    s.history()


@scenario
def activity_done_while_scheduled(s: Session) -> None:
    """An activity ends while a speculative task waits: the task becomes a normal one, events between."""
    s.begun(s.activity())
    begun = s.admit()
    activity = s.poll_activity()
    s.complete_activity(activity, "done")
    s.history()
    rejecting(s, s.poll(), capabilities=DISCARDS)
    s.join(begun)
    s.history()


@scenario
def activity_done_while_started(s: Session) -> None:
    """An activity ends while a speculative task runs: buffered, and a new task follows."""
    s.begun(s.activity())
    begun = s.admit()
    task = s.poll()
    s.complete_activity(s.poll_activity(), "done")
    s.history()
    rejecting(s, task, capabilities=DISCARDS)
    s.join(begun)
    s.history()
    s.poll()


@scenario
def activity_started_while_scheduled(s: Session) -> None:
    """An activity is picked up while a speculative task waits: no event, but stored, so the task becomes normal."""
    s.begun(s.activity())
    begun = s.admit()
    s.poll_activity()
    s.history()
    rejecting(s, s.poll(), capabilities=DISCARDS)
    s.join(begun)
    s.history()


@scenario
def timer_fired_while_scheduled(s: Session) -> None:
    """A timer fires while a speculative task waits."""
    s.begun(timer("t", 2))
    begun = s.admit()
    s.wait_event("timer_fired")
    s.history()
    rejecting(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def cancel_while_scheduled(s: Session) -> None:
    """A cancel request while a speculative task waits."""
    s.begun()
    begun = s.admit()
    s.cancel()
    s.history()
    rejecting(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def cancel_while_started(s: Session) -> None:
    """A cancel request while a speculative task runs."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    s.cancel()
    rejecting(s, task)
    s.join(begun)
    s.history()


@scenario
def closed_over_a_signal(s: Session) -> None:
    """A speculative task that closes the workflow over a buffered signal fails; the update is told so."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    s.signal()
    accept_all(s, task, then=(complete(),))
    s.join(begun)
    s.history()


@scenario
def completes_the_workflow(s: Session) -> None:
    """A speculative task whose answer is to close the workflow is written."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]), then=(complete(),))
    s.join(begun)
    s.history()


@scenario
def continues_as_new(s: Session) -> None:
    """A speculative task that accepts, completes and continues as new."""
    run = s.begun()
    begun = s.admit()
    accept_all(s, s.poll(), then=(GO_ON,))
    s.join(begun)
    s.history(run=run)


@scenario
def run_timeout_while_started(s: Session) -> None:
    """The run times out while a speculative task runs."""
    s.begun(workflow_run_timeout=seconds(3))
    begun = s.admit()
    task = s.poll()
    s.join(begun)
    accept_all(s, task)
    s.history()


@scenario
def run_timeout_while_scheduled(s: Session) -> None:
    """The run times out while a speculative task waits."""
    s.begun(workflow_run_timeout=seconds(3))
    s.join(s.admit())
    s.history()


@scenario
def query_on_discarded_task(s: Session) -> None:
    """A query rides on a speculative task that is then discarded: it is answered."""
    s.begun()
    begun = s.admit()
    query = s.begin_query()
    time.sleep(CALL_ARRIVES)
    task = s.poll()
    rejecting(s, task, query_results=answered(task))
    s.join(query)
    s.join(begun)
    s.history()


@scenario
def query_not_answered(s: Session) -> None:
    """A query that a discarded task did not answer comes again by itself."""
    s.begun()
    begun = s.admit()
    query = s.begin_query()
    time.sleep(CALL_ARRIVES)
    rejecting(s, s.poll())
    s.join(begun)
    task = s.poll()
    s.call(
        "RespondQueryTaskCompleted",
        task_token=task.task_token,
        completed_type="QUERY_RESULT_TYPE_ANSWERED",
        query_result=payloads(2),
    )
    s.join(query)


@scenario
def query_while_started(s: Session) -> None:
    """A query during a speculative task waits for its end."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    query = s.begin_query()
    time.sleep(CALL_ARRIVES)
    accept_all(s, task)
    s.join(begun)
    task = s.poll()
    s.call(
        "RespondQueryTaskCompleted",
        task_token=task.task_token,
        completed_type="QUERY_RESULT_TYPE_ANSWERED",
        query_result=payloads(2),
    )
    s.join(query)


@scenario
def sticky_reset(s: Session) -> None:
    """Stickiness is reset while no task waits: the speculative task comes with the whole history."""
    s.start()
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s))
    s.call("ResetStickyTaskQueue", execution=s.execution())
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def sticky_worker_failed(s: Session) -> None:
    """A sticky speculative task fails: the next attempt is the first, on the normal queue, with the update."""
    s.start()
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s))
    begun = s.admit()
    s.fail_task(s.poll(s.sticky()))
    s.history()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def force_create_only(s: Session) -> None:
    """A heartbeat that does not want its next task inline: the polled one brings the update again."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    s.complete(task, force_create_new_workflow_task=True)
    task = s.poll()
    answer(s, task, reject(message))
    s.join(begun)
    s.history()


@scenario
def heartbeat_then_failure(s: Session) -> None:
    """After a heartbeat the next task fails: the update, sent long ago, is sent again."""
    s.begun()
    begun = s.admit()
    more = s.complete(s.poll(), force_create_new_workflow_task=True, return_new_workflow_task=True)
    s.fail_task(more.workflow_task)
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def during_retry_backoff(s: Session) -> None:
    """An update of a run that waits to be retried: its task comes at once."""
    run = s.start(retry_policy=retry(60, maximum_attempts=2))
    s.run_task(fail())
    s.wait_new_run(run)
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def stale_answer_after_activity(s: Session) -> None:
    """Stale speculative task, different started id: an activity ended before the new one began; old answer refused."""
    s.begun(s.activity())
    first = s.admit("one")
    old = s.poll()
    rejecting(s, old, capabilities=DISCARDS)
    s.join(first)
    second = s.admit("two")
    s.complete_activity(s.poll_activity(), "done")
    task = s.poll()
    accept_all(s, old)
    accept_all(s, task)
    s.join(second)
    s.history()


@scenario
def query_buffer_full(s: Session) -> None:
    """Query buffer full does not break a pending update: one query too many is refused, the update is delivered."""
    s.begun()
    begun = s.admit()
    for _ in range(MOST_QUERIES):
        s.begin_query()
    time.sleep(2 * CALL_ARRIVES)
    s.query()
    accept_all(s, s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker"))
    s.join(begun)
    s.history()
