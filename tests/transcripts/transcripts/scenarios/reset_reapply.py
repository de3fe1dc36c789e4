"""What a reset takes along to the new run: signals and updates."""

from __future__ import annotations

import time
from typing import Any

from temporalio.api.update.v1 import message_pb2 as update

from ..build import command, complete
from ..harness import Session
from ..messages import accept, accept_all, answer, packed, reject, respond
from . import scenario

# How long a call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6
GO_ON = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"})
NO_SIGNALS = "RESET_REAPPLY_EXCLUDE_TYPE_SIGNAL"
NO_UPDATES = "RESET_REAPPLY_EXCLUDE_TYPE_UPDATE"


def signals_and_updates(s: Session) -> None:
    """A workflow with a signal, a completed update, another signal and an accepted update, all after event 4."""
    s.begun()
    s.signal("one")
    first = s.admit("done")
    accept_all(s, s.poll())
    s.join(first)
    s.signal("two")
    second = s.admit("open", stage="ACCEPTED")
    task = s.poll()
    answer(s, task, accept(task.messages[0]))
    s.join(second)


def reset_to_first(s: Session, **more: Any) -> None:
    """Resets that workflow to its first task and tells what the new run has."""
    signals_and_updates(s)
    s.reset(4, **more)
    s.history()


def reapplied(s: Session) -> Any:
    """Resets a workflow with one completed update and returns the new run's task and the update's old message."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    accept_all(s, task)
    s.join(begun)
    s.reset(4)
    return s.poll(), task.messages[0]


@scenario
def by_default(s: Session) -> None:
    """Exclude none, reapply by default: both signals, both updates as admitted ones."""
    reset_to_first(s)


@scenario
def all_eligible(s: Session) -> None:
    """Exclude none, reapply all."""
    reset_to_first(s, reset_reapply_type="RESET_REAPPLY_TYPE_ALL_ELIGIBLE")


@scenario
def only_signals(s: Session) -> None:
    """Exclude none, reapply type signal (deprecated): updates are left behind."""
    reset_to_first(s, reset_reapply_type="RESET_REAPPLY_TYPE_SIGNAL")


@scenario
def nothing(s: Session) -> None:
    """Exclude none, reapply type none (deprecated)."""
    reset_to_first(s, reset_reapply_type="RESET_REAPPLY_TYPE_NONE")


@scenario
def signals_excluded(s: Session) -> None:
    """Exclude signals: only the updates."""
    reset_to_first(s, reset_reapply_exclude_types=[NO_SIGNALS])


@scenario
def updates_excluded(s: Session) -> None:
    """Exclude updates: only the signals."""
    reset_to_first(s, reset_reapply_exclude_types=[NO_UPDATES])


@scenario
def both_excluded(s: Session) -> None:
    """Exclude signals and updates."""
    reset_to_first(s, reset_reapply_exclude_types=[NO_SIGNALS, NO_UPDATES])


@scenario
def excluded_and_typed(s: Session) -> None:
    """Exclude signals and reapply only signals: nothing is left."""
    reset_to_first(s, reset_reapply_type="RESET_REAPPLY_TYPE_SIGNAL", reset_reapply_exclude_types=[NO_SIGNALS])


@scenario
def signals_excluded_all_eligible(s: Session) -> None:
    """Exclude signals, reapply all: only the updates."""
    reset_to_first(s, reset_reapply_type="RESET_REAPPLY_TYPE_ALL_ELIGIBLE", reset_reapply_exclude_types=[NO_SIGNALS])


@scenario
def signals_excluded_nothing(s: Session) -> None:
    """Exclude signals, reapply none: nothing."""
    reset_to_first(s, reset_reapply_type="RESET_REAPPLY_TYPE_NONE", reset_reapply_exclude_types=[NO_SIGNALS])


def options_updated(s: Session, **more: Any) -> None:
    """A workflow whose options were changed after the point by a second start that was attached to it, then reset."""
    s.begun()
    attached = {"attach_request_id": True}
    s.start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING", on_conflict_options=attached)
    s.reset(4, **more)
    s.history()
    s.describe()


@scenario
def options_by_default(s: Session) -> None:
    """Changed options are taken along."""
    options_updated(s)


@scenario
def options_with_nothing(s: Session) -> None:
    """Changed options are taken along or not when nothing is reapplied."""
    options_updated(s, reset_reapply_type="RESET_REAPPLY_TYPE_NONE")


@scenario
def later_point(s: Session) -> None:
    """Only what came after the point is taken along; an update accepted before it stays as it was."""
    signals_and_updates(s)
    s.reset(14)
    s.history()
    s.poll_update("done")
    s.poll_update("open")


@scenario
def twice(s: Session) -> None:
    """A second reset takes the same along again."""
    signals_and_updates(s)
    second = s.reset(4)
    s.reset(4, second)
    s.history(run=second)
    s.history()


@scenario
def update_answered_again(s: Session) -> None:
    """A reapplied update comes with its event, not with a message; it is accepted and completed anew."""
    task, message = reapplied(s)
    s.poll_update()
    s.update(deadline=1.5)
    polled = s.begin_poll_update(stage="COMPLETED")
    accepting = accept(message, accepted_request=None, accepted_request_sequencing_event_id=5)
    answer(s, task, accepting, respond(message, {"success": {}}))
    s.join(polled)
    s.history()


@scenario
def update_rejected(s: Session) -> None:
    """A reapplied update is rejected: its admitted event stays."""
    task, message = reapplied(s)
    polled = s.begin_poll_update(stage="ACCEPTED")
    time.sleep(CALL_ARRIVES)
    answer(s, task, reject(message))
    s.join(polled)
    s.history()


@scenario
def update_ignored(s: Session) -> None:
    """A reapplied update that the worker ignores is rejected by the server."""
    task, _ = reapplied(s)
    polled = s.begin_poll_update(stage="COMPLETED")
    time.sleep(CALL_ARRIVES)
    s.complete(task)
    s.join(polled)
    s.history()


@scenario
def update_accepted_then_reset_again(s: Session) -> None:
    """A reapplied update that was accepted again: the next reset takes its admitted event along."""
    task, message = reapplied(s)
    answer(s, task, accept(message, accepted_request=None, accepted_request_sequencing_event_id=5))
    s.history()
    s.reset(4)
    s.history()


@scenario
def rejected_update(s: Session) -> None:
    """A rejected update left nothing that could be taken along."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    answer(s, task, reject(task.messages[0]))
    s.join(begun)
    s.signal()
    s.reset(4)
    s.history()


@scenario
def brought_back_update(s: Session) -> None:
    """An update the server learned of from its acceptance is taken along too."""
    s.begun()
    s.signal()
    task = s.poll()
    asked = update.Request(meta={"update_id": "lost"}, input={"name": "up"})
    body = update.Acceptance(
        accepted_request_message_id="lost/request", accepted_request_sequencing_event_id=6, accepted_request=asked
    )
    answer(s, task, packed("lost/request/accept", "lost", body))
    s.reset(4)
    s.history()


@scenario
def waiting_callers(s: Session) -> None:
    """Callers that wait at the time of the reset: one update accepted, one not seen by any worker."""
    run = s.begun()
    first = s.admit("one")
    task = s.poll()
    answer(s, task, accept(task.messages[0]))
    second = s.admit("two")
    s.reset(4)
    s.join(first)
    s.join(second)
    s.history(run=run)
    s.history()
    s.poll_update("one", run=run)
    s.poll_update("one")
    s.poll_update("two")


@scenario
def buffered_signal(s: Session) -> None:
    """A signal that came while a task runs is taken along."""
    run = s.begun()
    s.signal("one")
    s.poll()
    s.signal("buffered")
    s.reset(4)
    s.history(run=run)
    s.history()


@scenario
def buffered_signal_dropped(s: Session) -> None:
    """A signal that came while a task runs is left behind if signals are excluded."""
    s.begun()
    s.signal("one")
    s.poll()
    s.signal("buffered")
    s.reset(4, reset_reapply_exclude_types=[NO_SIGNALS])
    s.history()


@scenario
def continued_runs(s: Session) -> None:
    """Signals and updates of the runs that continued the reset one are taken along, in order."""
    first = s.begun()
    begun = s.admit("one")
    accept_all(s, s.poll(), then=(GO_ON,))
    s.join(begun)
    s.wait_new_run(first)
    begun = s.admit("two")
    accept_all(s, s.poll())
    s.join(begun)
    s.signal("sig")
    s.reset(4, first)
    s.history()


@scenario
def closed_run(s: Session) -> None:
    """Signals and updates of a closed run are taken along."""
    s.begun()
    s.signal()
    begun = s.admit()
    accept_all(s, s.poll(), then=(complete(),))
    s.join(begun)
    s.reset(4)
    s.history()
