"""Speculative workflow tasks on sticky queues."""

from __future__ import annotations

import time
from typing import Any

from ..harness import Session
from ..messages import DISCARDS, accept_all, answer, reject, respond
from . import scenario
from .sticky import WORKER_COUNTS_AS_GONE, sticky_attributes


def begun_sticky(s: Session, timeout: float = 5, **more: Any) -> None:
    """Starts `wf` and completes its first task as sticky; the sticky queue gets a poller first."""
    s.start(**more)
    s.poll(s.sticky(), deadline=2.5, may_be_empty=True)
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s, timeout))


@scenario
def schedule_to_start_timeout(s: Session) -> None:
    """Schedule-to-start time-out on a sticky queue: the update comes on the normal queue with the whole history."""
    begun_sticky(s, 1)
    begun = s.admit()
    s.describe()
    s.wait_event("workflow_task_timed_out")
    s.history()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.history()


@scenario
def accepted(s: Session) -> None:
    """Sticky speculative task, accept and complete: partial history."""
    begun_sticky(s)
    begun = s.admit()
    accept_all(s, s.poll(s.sticky()))
    s.join(begun)
    s.history()


@scenario
def worker_unavailable(s: Session) -> None:
    """Sticky worker unavailable (it never polled): the task goes to the normal queue with the whole history."""
    s.start()
    s.complete(s.poll(), sticky_attributes=sticky_attributes(s))
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def worker_silent(s: Session) -> None:
    """Sticky worker unavailable (silent for over ten seconds): the normal queue at once, with the whole history."""
    begun_sticky(s, 60)
    time.sleep(WORKER_COUNTS_AS_GONE)
    begun = s.admit()
    accept_all(s, s.poll())
    s.join(begun)
    s.history()


@scenario
def rejected(s: Session) -> None:
    """A discarded sticky task: the next one comes to the sticky queue again, with the same events."""
    begun_sticky(s)
    for name in ("one", "two"):
        begun = s.admit(name)
        task = s.poll(s.sticky())
        answer(s, task, reject(task.messages[0]), sticky_attributes=sticky_attributes(s), capabilities=DISCARDS)
        s.join(begun)
    s.history()


@scenario
def failed_by_bad_message(s: Session) -> None:
    """A malformed answer to a sticky speculative task clears stickiness."""
    begun_sticky(s)
    begun = s.admit()
    task = s.poll(s.sticky())
    answer(s, task, respond(task.messages[0]))
    s.join(begun)
    s.history()
    s.poll()
