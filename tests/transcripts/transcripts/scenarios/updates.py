"""Workflow updates: delivery, answers, stages to wait for, repeated ids."""

from __future__ import annotations

import time

from ..build import complete, failure, marker, payloads, seconds, timer
from ..harness import Session
from ..messages import accept, accept_all, answer, placed, reject, respond
from . import scenario

# How long a call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6


@scenario
def accepted_and_completed(s: Session) -> None:
    """Empty speculative task, accept and complete: durable only after the answer; polls tell outcome and run."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    s.history()
    accept_all(s, task)
    s.join(begun)
    s.history()
    s.poll_update()
    s.poll_update(stage="COMPLETED")
    s.describe()


@scenario
def with_run_id(s: Session) -> None:
    """Empty speculative task, accept and complete, addressed by run id."""
    run = s.begun()
    begun = s.admit(run=run)
    accept_all(s, s.poll())
    s.join(begun)
    s.poll_update(run=run, stage="ACCEPTED")


@scenario
def after_a_command(s: Session) -> None:
    """Not-empty speculative task, accept and complete: the activity of the last task is shipped with it."""
    s.begun(s.activity(schedule_to_start_timeout=seconds(60)))
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def on_first_task(s: Session) -> None:
    """First normal scheduled task, accept and complete: the update rides on the workflow's first task."""
    s.start()
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def on_signalled_task(s: Session) -> None:
    """Normal scheduled task, accept and complete: the update rides on the task a signal made."""
    s.begun()
    s.signal()
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def without_commands(s: Session) -> None:
    """Validate worker messages, success without commands: answers need no PROTOCOL_MESSAGE commands."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    s.complete(task, marker("m"), messages=[accept(message), respond(message)])
    s.join(begun)
    s.history()


@scenario
def among_commands(s: Session) -> None:
    """Validate worker messages, success: commands decide the order of events."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    messages = [respond(task.messages[0]), accept(task.messages[0])]
    accepting, responding = placed(messages[1], messages[0])
    s.complete(task, marker("before"), accepting, timer("t", 60), responding, marker("after"), messages=messages)
    s.join(begun)
    s.history()


@scenario
def handler_failed(s: Session) -> None:
    """An accepted update whose handler fails: the outcome is that failure, stage COMPLETED."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    message = task.messages[0]
    answer(s, task, accept(message), respond(message, {"failure": failure("handler broke")}))
    s.join(begun)
    s.poll_update()
    s.history()


@scenario
def rejected(s: Session) -> None:
    """Empty speculative task, reject: no trace is left, the task is forgotten, its event ids are used again."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()
    s.describe()
    s.signal()
    s.history()
    s.poll()


@scenario
def rejected_on_first_task(s: Session) -> None:
    """First normal scheduled task, reject: the task's events stay."""
    s.start()
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()





@scenario
def wait_accepted(s: Session) -> None:
    """Waiting for ACCEPTED ends with the acceptance; the outcome comes by polling, which blocks."""
    s.begun()
    begun = s.admit(stage="ACCEPTED")
    task = s.poll()
    message = task.messages[0]
    answer(s, task, accept(message))
    s.join(begun)
    s.poll_update()
    s.poll_update(stage="ADMITTED")
    s.poll_update(stage="ACCEPTED")
    s.poll_update(stage="COMPLETED", deadline=1.5)
    polled = s.begin_poll_update(stage="COMPLETED")
    s.signal()
    answer(s, s.poll(), respond(message))
    s.join(polled)
    s.history()


@scenario
def wait_accepted_got_completed(s: Session) -> None:
    """Wait for accepted, got completed: one task accepts and completes."""
    s.begun()
    begun = s.admit(stage="ACCEPTED")
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def wait_accepted_got_rejected(s: Session) -> None:
    """A rejection ends a wait for ACCEPTED with stage COMPLETED."""
    s.begun()
    begun = s.admit(stage="ACCEPTED")
    polled = s.begin_poll_update(stage="ACCEPTED")
    time.sleep(CALL_ARRIVES)
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.join(polled)


@scenario
def wait_completed_explicitly(s: Session) -> None:
    """Waiting for COMPLETED does not end with the acceptance."""
    s.begun()
    begun = s.admit(stage="COMPLETED", deadline=6)
    task = s.poll()
    message = task.messages[0]
    more = answer(s, task, accept(message), force_create_new_workflow_task=True, return_new_workflow_task=True)
    s.poll_update(stage="ACCEPTED")
    answer(s, more.workflow_task, respond(message))
    s.join(begun)
    s.history()


@scenario
def nobody_answers(s: Session) -> None:
    """No worker: the deadline ends the wait; a poll without a stage tells ADMITTED; a later worker gets it."""
    s.begun()
    s.update(deadline=1.5)
    s.poll_update()
    s.poll_update(stage="ADMITTED")
    s.poll_update(stage="ACCEPTED", deadline=1.5)
    accept_all(s, s.poll())
    s.poll_update(stage="COMPLETED")


@scenario
def server_ends_the_wait(s: Session) -> None:
    """A caller more patient than the server (20 s) gets the stage reached: ADMITTED, or ACCEPTED once accepted."""
    s.begun()
    completed = s.admit("one", deadline=40)
    accepted = s.admit("two", deadline=40, stage="ACCEPTED")
    s.start("wf-2", queue="q2")
    admitted = s.admit(wf="wf-2", deadline=40)
    task = s.poll()
    answer(s, task, accept(task.messages[0]), reject(task.messages[1]))
    polled = s.begin_poll_update("one", stage="COMPLETED", deadline=40)
    for begun in (accepted, completed, admitted, polled):
        s.join(begun)


@scenario
def completed_out_of_order(s: Session) -> None:
    """First accepted, second accepted, second completed, first completed."""
    s.begun()
    first = s.admit("one")
    task = s.poll()
    one = task.messages[0]
    second = s.admit("two")
    more = answer(s, task, accept(one), then=(s.activity(),), return_new_workflow_task=True)
    two = more.workflow_task.messages[0]
    answer(s, more.workflow_task, accept(two), then=(s.activity("b"),))
    s.signal()
    answer(s, s.poll(), respond(two))
    s.join(second)
    s.signal()
    answer(s, s.poll(), respond(one))
    s.join(first)
    s.history()


@scenario
def second_rejected(s: Session) -> None:
    """First accepted, second rejected, first completed: the rejecting task stays as it shipped the acceptance."""
    s.begun()
    first = s.admit("one")
    task = s.poll()
    one = task.messages[0]
    answer(s, task, accept(one), then=(s.activity(),))
    second = s.admit("two")
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(second)
    s.signal()
    answer(s, s.poll(), respond(one))
    s.join(first)
    s.history()


@scenario
def in_order_of_admission(s: Session) -> None:
    """Updates are sent to the worker in order of admission, ten in one task."""
    s.begun()
    begun = [s.admit(f"u{n}") for n in range(10)]
    accept_all(s, s.poll())
    for each in begun:
        s.join(each)
    s.history()


@scenario
def mixed_answers(s: Session) -> None:
    """One task accepts, rejects and completes several updates."""
    s.begun()
    begun = [s.admit(f"u{n}", stage="ACCEPTED") for n in range(4)]
    task = s.poll()
    one, two, three, four = task.messages
    answer(s, task, accept(one), reject(two, "not two"), accept(three), respond(three), reject(four, "not four"))
    for each in begun:
        s.join(each)
    s.history()


@scenario
def generated_id(s: Session) -> None:
    """Without an id the server makes one."""
    s.begun()
    request = {"meta": {"identity": "caller"}, "input": {"name": "up"}}
    begun = s.begin_update(request=request)
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def everything_in_the_request(s: Session) -> None:
    """Header, several arguments and identity reach the worker and the history unchanged."""
    s.begun()
    header = {"fields": {"h": payloads("v")["payloads"][0]}}
    request = {
        "meta": {"update_id": "u", "identity": "someone"},
        "input": {"name": "up", "header": header, "args": payloads(1, {"a": [2]}, None)},
    }
    begun = s.begin_update(request=request)
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def same_task_completes_workflow(s: Session) -> None:
    """Completed workflow, outcome of a completed update: repeated after close the answer is the same."""
    s.begun()
    begun = s.admit()
    accept_all(s, s.poll(), then=(complete("done"),))
    s.join(begun)
    s.update()
    s.poll_update()
    s.update("other")
    s.poll_update("other")
    s.history()


@scenario
def during_start_delay(s: Session) -> None:
    """An update does not wait for the start delay: its task comes at once."""
    s.start(workflow_start_delay=seconds(60))
    begun = s.admit()
    s.history()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()
