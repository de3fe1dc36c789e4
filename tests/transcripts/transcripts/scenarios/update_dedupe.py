"""Updates repeated with the same id, in every state."""

from __future__ import annotations

import time

from ..build import complete, payloads
from ..harness import Session
from ..messages import accept, accept_all, answer, reject, respond
from . import scenario

# How long a repeated call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6


@scenario
def scheduled(s: Session) -> None:
    """Scheduled speculative task, same id twice: one message, both callers get the result."""
    s.begun()
    first = s.admit()
    second = s.begin_update()
    time.sleep(CALL_ARRIVES)
    accept_all(s, s.poll())
    s.join(first)
    s.join(second)
    s.history()


@scenario
def started(s: Session) -> None:
    """Started speculative task, same id again: the second caller is answered with the first."""
    s.begun()
    first = s.admit()
    task = s.poll()
    second = s.begin_update(stage="ACCEPTED")
    time.sleep(CALL_ARRIVES)
    accept_all(s, task)
    s.join(first)
    s.join(second)
    s.poll(deadline=2.5, may_be_empty=True)
    s.history()


@scenario
def started_then_rejected(s: Session) -> None:
    """Both callers of one id get the rejection."""
    s.begun()
    first = s.admit()
    task = s.poll()
    second = s.begin_update()
    time.sleep(CALL_ARRIVES)
    answer(s, task, reject(task.messages[0]))
    s.join(first)
    s.join(second)
    s.history()


@scenario
def accepted(s: Session) -> None:
    """An accepted id asked again: ACCEPTED at once, or waits for the outcome; no new task."""
    s.begun()
    s_accepted = s.admit(stage="ACCEPTED")
    task = s.poll()
    message = task.messages[0]
    answer(s, task, accept(message))
    s.join(s_accepted)
    s.update(stage="ACCEPTED")
    waiting = s.begin_update(stage="COMPLETED")
    s.signal()
    answer(s, s.poll(), respond(message))
    s.join(waiting)
    s.history()


@scenario
def completed(s: Session) -> None:
    """Completed speculative task, same id again: the stored outcome at once, regardless of the new arguments."""
    s.begun()
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.update()
    s.update(stage="ACCEPTED")
    s.update(request={"meta": {"update_id": "u"}, "input": {"name": "another", "args": payloads("else")}})
    s.poll(deadline=2.5, may_be_empty=True)
    s.history()


@scenario
def after_close(s: Session) -> None:
    """Ids of a closed run: completed ones answer, by run and without; others are refused."""
    run = s.begun()
    begun = s.admit()
    accept_all(s, s.poll(), then=(complete(),))
    s.join(begun)
    s.update(run=run)
    s.update("other", run=run)
    s.start(request_id="again")
    s.update(run=run)
    s.poll_update(run=run)
    s.poll_update()
    s.update(deadline=1.5)


@scenario
def second_id_on_one_task(s: Session) -> None:
    """An id repeated while another one waits: each is delivered once."""
    s.begun()
    begun = [s.admit("one"), s.admit("two"), s.begin_update("one"), s.begin_update("two")]
    time.sleep(CALL_ARRIVES)
    accept_all(s, s.poll())
    for each in begun:
        s.join(each)
