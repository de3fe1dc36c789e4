"""Timers."""

from __future__ import annotations

from ..build import command, complete, timer
from ..harness import Session
from . import scenario


@scenario
def fired(s: Session) -> None:
    """A timer fires and makes a task."""
    s.begun(timer("t", 1))
    s.history()
    s.run_task(complete())
    s.history()


@scenario
def short(s: Session) -> None:
    """A timer of 50 ms."""
    s.begun(timer("t", 0.05))
    s.poll()
    s.history()


@scenario
def canceled(s: Session) -> None:
    """A running timer is cancelled by a later task."""
    s.begun(timer("t", 60))
    s.signal()
    s.run_task(command("CANCEL_TIMER", timer_id="t"))
    s.history()


@scenario
def canceled_at_once(s: Session) -> None:
    """Started and cancelled in one completion."""
    s.begun(timer("t", 60), command("CANCEL_TIMER", timer_id="t"))
    s.history()


@scenario
def several(s: Session) -> None:
    """Two timers fire in the order of their times."""
    s.begun(timer("later", 2), timer("sooner", 1))
    s.run_task()
    s.run_task(complete())
    s.history()


@scenario
def id_reused(s: Session) -> None:
    """A timer id is free again after firing."""
    s.begun(timer("t", 0.1))
    s.run_task(timer("t", 0.1))
    s.poll()
    s.history()


@scenario
def cancel_fired(s: Session) -> None:
    """Cancelling a timer that already fired."""
    s.begun(timer("t", 0.1))
    s.run_task(command("CANCEL_TIMER", timer_id="t"))
    s.history()


@scenario
def close_with_open_timer(s: Session) -> None:
    """A workflow may complete while a timer runs."""
    s.begun(timer("t", 60), complete())
    s.history()
    s.describe()


@scenario
def zero(s: Session) -> None:
    """A timer of length zero fires soon."""
    s.begun(timer("t", 0))
    s.run_task(complete())
    s.history()
