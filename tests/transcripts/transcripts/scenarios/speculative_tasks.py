"""Speculative workflow tasks: discard, conversion, failure, time-out, loss."""

from __future__ import annotations

import time

from ..build import complete, marker, payloads, seconds
from ..harness import Session
from ..messages import DISCARDS, accept, accept_all, answer, reject, respond
from . import scenario
from .sticky import sticky_attributes

# How long a call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6
QUICK = {"workflow_task_timeout": seconds(1)}


@scenario
def inline_rejected(s: Session) -> None:
    """Running task, new empty speculative task rejected: it comes inline with partial history and is discarded."""
    s.start()
    task = s.poll()
    begun = s.admit()
    more = s.complete(task, sticky_attributes=sticky_attributes(s), return_new_workflow_task=True)
    answer(s, more.workflow_task, reject(more.workflow_task.messages[0]))
    s.join(begun)
    s.history()
    s.signal()
    s.history()


@scenario
def inline_not_sticky(s: Session) -> None:
    """An inline speculative task of a worker without a sticky queue."""
    s.start()
    task = s.poll()
    begun = s.admit()
    more = s.complete(task, return_new_workflow_task=True)
    accept_all(s, more.workflow_task)
    s.join(begun)
    s.history()


@scenario
def inline_with_events_rejected(s: Session) -> None:
    """Running task, new not-empty speculative task rejected without the capability: it stays."""
    s.start()
    task = s.poll()
    begun = s.admit()
    sticky = sticky_attributes(s)
    more = s.complete(task, s.activity(), sticky_attributes=sticky, return_new_workflow_task=True)
    answer(s, more.workflow_task, reject(more.workflow_task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def during_running_task(s: Session) -> None:
    """An update during a task whose completion wants no inline task: the follow-up is a normal task."""
    s.start()
    task = s.poll()
    begun = s.admit()
    s.complete(task)
    s.history()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def rejected_with_events(s: Session) -> None:
    """Not-empty speculative task rejected without the capability: the task is written."""
    s.begun(s.activity())
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def discarded_with_events(s: Session) -> None:
    """Discard a speculative task with events: the capability allows it."""
    s.begun(s.activity())
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]), capabilities=DISCARDS)
    s.join(begun)
    s.history()


@scenario
def ten_events_discarded(s: Session) -> None:
    """With the capability up to ten events after the last completion may be shipped again."""
    s.begun(*[marker(f"m{n}") for n in range(10)])
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]), capabilities=DISCARDS)
    s.join(begun)
    s.history()


@scenario
def eleven_events_kept(s: Session) -> None:
    """Do not discard with more than ten events."""
    s.begun(*[marker(f"m{n}") for n in range(11)])
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]), capabilities=DISCARDS)
    s.join(begun)
    s.history()


@scenario
def rejected_with_a_command(s: Session) -> None:
    """A rejection next to a command: the task is written."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]), then=(marker("m"),))
    s.join(begun)
    s.history()


@scenario
def ignored_by_worker(s: Session) -> None:
    """Worker skipped processing: rejected by the server; another update comes inline on the same event ids."""
    s.begun()
    first = s.admit("one")
    task = s.poll()
    second = s.admit("two")
    more = s.complete(task, return_new_workflow_task=True)
    s.join(first)
    accept_all(s, more.workflow_task)
    s.join(second)
    s.history()


@scenario
def ignored_on_first_task(s: Session) -> None:
    """A normal task whose worker ignores the update: rejected by the server, the task stays."""
    s.start()
    begun = s.admit(stage="ACCEPTED")
    s.complete(s.poll(), marker("m"))
    s.join(begun)
    s.history()


@scenario
def one_of_two_ignored(s: Session) -> None:
    """A worker that accepts one update and ignores the other."""
    s.begun()
    begun = [s.admit("one"), s.admit("two")]
    task = s.poll()
    answer(s, task, accept(task.messages[1]), respond(task.messages[1]))
    for each in begun:
        s.join(each)
    s.history()


@scenario
def heartbeat(s: Session) -> None:
    """Heartbeat: the task is written, the next one is normal, brings no message again, and may reject."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    more = s.complete(task, force_create_new_workflow_task=True, return_new_workflow_task=True)
    s.history()
    answer(s, more.workflow_task, reject(message))
    s.join(begun)
    s.history()


@scenario
def heartbeat_with_new_update(s: Session) -> None:
    """A heartbeat's next task brings only updates that were not sent before."""
    s.begun()
    first = s.admit("one")
    task = s.poll()
    second = s.admit("two")
    more = s.complete(task, force_create_new_workflow_task=True, return_new_workflow_task=True)
    one, two = task.messages[0], more.workflow_task.messages[0]
    answer(s, more.workflow_task, accept(one), accept(two), respond(two), respond(one))
    s.join(first)
    s.join(second)
    s.history()


@scenario
def signal_while_scheduled(s: Session) -> None:
    """Scheduled speculative task converted to normal because of a signal: it stays despite the rejection."""
    s.begun()
    begun = s.admit()
    s.signal()
    s.history()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def signal_while_started(s: Session) -> None:
    """Started speculative task converted to normal because of a buffered signal: written at once, not discarded."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    s.signal()
    s.history()
    more = answer(
        s, task, reject(task.messages[0]), sticky_attributes=sticky_attributes(s), return_new_workflow_task=True
    )
    s.join(begun)
    s.complete(more.workflow_task, complete())
    s.history()


@scenario
def worker_failed(s: Session) -> None:
    """An explicit failure writes the task and keeps the update, which comes again with the transient task."""
    s.begun()
    begun = s.admit()
    s.fail_task(s.poll())
    s.history()
    s.fail_task(s.poll())
    s.history()
    accept_all(s, s.poll(), then=(complete(),))
    s.join(begun)
    s.history()


@scenario
def failed_by_bad_message(s: Session) -> None:
    """A malformed acceptance fails the task and the sent update; a new update rides on the transient task."""
    s.begun()
    begun = s.admit("one")
    task = s.poll()
    answer(s, task, accept(task.messages[0], accepted_request_sequencing_event_id=0))
    s.join(begun)
    s.history()
    s.describe()
    again = s.admit("two")
    accept_all(s, s.poll(), then=(complete(),))
    s.join(again)
    s.history()


@scenario
def attempts_used_up(s: Session) -> None:
    """From the third attempt on updates fail at once, also repeated ones; after a success they are welcome again."""
    s.begun()
    begun = s.admit("one", stage="ACCEPTED")
    task = s.poll()
    one = task.messages[0]
    answer(s, task, accept(one))
    s.join(begun)
    s.signal()
    s.fail_task(s.poll())
    s.fail_task(s.poll())
    s.update("two")
    s.update("one")
    s.poll_update("one")
    answer(s, s.poll(), respond(one))
    s.update("one")
    begun = s.admit("two")
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def start_to_close_timeout(s: Session) -> None:
    """Start-to-close time-out of a speculative task: a late answer is refused, the update is sent again."""
    s.begun(**QUICK)
    begun = s.admit()
    task = s.poll()
    s.wait_event("workflow_task_timed_out")
    accept_all(s, task)
    s.history()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def schedule_to_start_timeout(s: Session) -> None:
    """Schedule-to-start time-out on a normal queue, after five seconds: then a normal task brings the update."""
    s.begun()
    begun = s.admit()
    s.wait_event("workflow_task_timed_out")
    s.history()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def terminated_while_started(s: Session) -> None:
    """Started speculative task, terminate: scheduled, started, failed, terminated; update and worker are told."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    s.terminate()
    s.join(begun)
    accept_all(s, task)
    s.history()
    s.poll_update()
    s.describe()


@scenario
def terminated_while_scheduled(s: Session) -> None:
    """Scheduled speculative task, terminate: only the termination is written."""
    s.begun()
    begun = s.admit()
    s.terminate()
    s.join(begun)
    s.history()
    s.update()


@scenario
def described(s: Session) -> None:
    """A speculative task is a pending workflow task, scheduled and started; long polls of history do not see it."""
    s.begun()
    waiting = s.begin("GetWorkflowExecutionHistory", 3, execution=s.execution(), wait_new_event=True)
    s.join(waiting)
    begun = s.admit()
    s.describe()
    task = s.poll()
    s.describe()
    accept_all(s, task)
    s.join(begun)
    s.describe()


@scenario
def query_rides_along(s: Session) -> None:
    """A query while a speculative task waits rides on it; the update completes."""
    s.begun()
    begun = s.admit()
    query = s.begin_query()
    time.sleep(CALL_ARRIVES)
    task = s.poll()
    results = {k: {"result_type": "QUERY_RESULT_TYPE_ANSWERED", "answer": payloads(1)} for k in task.queries}
    accept_all(s, task, query_results=results)
    s.join(query)
    s.join(begun)
    s.history()


@scenario
def not_handed_out_after_close(s: Session) -> None:
    """Start of a task, workflow completed: a speculative task that waited when its workflow ended reaches no worker."""
    s.begun()
    begun = s.admit()
    s.terminate()
    s.join(begun)
    s.poll(deadline=2.5, may_be_empty=True)


@scenario
def handed_out_once(s: Session) -> None:
    """Start of a task, already started: a speculative task that a signal made normal is handed out once."""
    s.begun()
    begun = s.admit()
    s.signal()
    task = s.poll()
    s.poll(deadline=2.5, may_be_empty=True)
    accept_all(s, task)
    s.join(begun)
