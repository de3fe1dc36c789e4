"""Sticky task queues."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, complete, payloads, seconds
from ..harness import Session
from . import scenario

# How long a poll begun in the background takes at most to reach the server.
POLL_ARRIVES = 0.5
# A sticky worker that has not polled for ten seconds gets no more tasks.
WORKER_COUNTS_AS_GONE = 11.5


def sticky_attributes(s: Session, timeout: float = 5) -> Fields:
    """Sticky attributes naming our sticky queue."""
    return {"worker_task_queue": s.sticky(), "schedule_to_start_timeout": seconds(timeout)}


@scenario
def partial_history(s: Session) -> None:
    """The sticky poller receives only the new events."""
    s.start()
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s))
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)
    begun = s.begin("PollWorkflowTaskQueue", 5, task_queue=s.sticky(), identity="worker")
    time.sleep(POLL_ARRIVES)
    s.signal()
    task = s.join(begun)
    s.history()
    s.complete(task, complete())
    s.history()


@scenario
def schedule_to_start_timeout(s: Session) -> None:
    """No worker polls the sticky queue: the task times out there and moves to the normal queue."""
    s.start()
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s, 1))
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)
    s.signal()
    s.history()
    s.describe()
    task = s.poll()
    s.complete(task)
    s.history()


@scenario
def no_sticky_poller(s: Session) -> None:
    """A sticky queue that never had a poller: the task goes to the normal queue at once."""
    s.start()
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s, 5))
    s.signal()
    s.poll()
    s.history()


@scenario
def reset(s: Session) -> None:
    """ResetStickyTaskQueue sends the next task to the normal queue."""
    s.start()
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s, 60))
    s.call("ResetStickyTaskQueue", execution=s.execution())
    s.signal()
    s.history()
    s.poll()


@scenario
def reset_unknown(s: Session) -> None:
    """ResetStickyTaskQueue on unknown and closed workflows."""
    s.call("ResetStickyTaskQueue", execution=s.execution())
    s.begun(complete())
    s.call("ResetStickyTaskQueue", execution=s.execution())


@scenario
def failure_restarts_attempts(s: Session) -> None:
    """A failed sticky task clears stickiness without counting an attempt."""
    s.start()
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s))
    begun = s.begin("PollWorkflowTaskQueue", 5, task_queue=s.sticky(), identity="worker")
    time.sleep(POLL_ARRIVES)
    s.signal()
    s.fail_task(s.join(begun))
    s.history()
    s.fail_task(s.poll())
    s.poll()
    s.history()


@scenario
def return_new_sticky(s: Session) -> None:
    """An inline new task after a sticky completion carries only new events."""
    s.start()
    task = s.poll()
    s.signal()
    s.complete(task, sticky_attributes=sticky_attributes(s), return_new_workflow_task=True)
    s.history()


@scenario
def cleared(s: Session) -> None:
    """A completion without sticky attributes ends stickiness."""
    s.start()
    task = s.poll()
    s.signal()
    answer = s.complete(task, sticky_attributes=sticky_attributes(s), return_new_workflow_task=True)
    s.complete(answer.workflow_task)
    s.signal("again")
    s.poll()
    s.history()


@scenario
def zero_timeout(s: Session) -> None:
    """Sticky attributes without a timeout, or with a negative one."""
    s.start()
    s.complete(s.poll(), sticky_attributes={"worker_task_queue": s.sticky()})
    s.signal()
    s.history()
    s.start("wf-2", queue="q2")
    s.complete(s.poll("q2"), sticky_attributes=sticky_attributes(s, -1))
    s.history("wf-2")


@scenario
def worker_silent(s: Session) -> None:
    """Sticky auto reset: the worker has not polled for over ten seconds, the next task goes to the normal queue."""
    s.start()
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s, 60))
    time.sleep(WORKER_COUNTS_AS_GONE)
    s.signal()
    s.poll()
    s.history()


@scenario
def reset_then_time_out(s: Session) -> None:
    """Sticky queue reset, then time-out: a task that waits there times out, the next is on the normal queue."""
    s.start()
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s, 2))
    s.signal()
    s.call("ResetStickyTaskQueue", execution=s.execution())
    s.history()
    s.wait_event("workflow_task_timed_out")
    s.history()
    s.fail_task(s.poll())
    s.run_task(complete())
    s.history()


def begun_sticky(s: Session) -> None:
    """Starts `wf`, completes its first task as sticky, and polls the sticky queue once."""
    s.start()
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s))
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)


def answer_query(s: Session, task: Any) -> None:
    """Answers a direct query task."""
    fields = {"completed_type": "QUERY_RESULT_TYPE_ANSWERED", "query_result": payloads("the answer")}
    s.call("RespondQueryTaskCompleted", task_token=task.task_token, **fields)


@scenario
def query(s: Session) -> None:
    """A query task on the sticky queue has no events."""
    begun_sticky(s)
    query = s.begin_query()
    answer_query(s, s.poll(s.sticky()))
    s.join(query)


@scenario
def query_after_task(s: Session) -> None:
    """A query that a workflow task did not answer becomes a query task without events."""
    begun_sticky(s)
    s.signal()
    query = s.begin_query()
    time.sleep(POLL_ARRIVES)
    s.complete(s.poll(s.sticky()), sticky_attributes=sticky_attributes(s))
    answer_query(s, s.poll(s.sticky()))
    s.join(query)


@scenario
def query_on_normal_queue(s: Session) -> None:
    """After ResetStickyTaskQueue a query task has the whole history again."""
    begun_sticky(s)
    s.call("ResetStickyTaskQueue", execution=s.execution())
    query = s.begin_query()
    answer_query(s, s.poll())
    s.join(query)
