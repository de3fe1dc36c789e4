"""Nexus operations that a standalone activity or an update carries out, by callbacks that are off by default."""

from __future__ import annotations

import time
from typing import Any

from ..build import complete, failure, payload, payloads, seconds
from ..harness import Session, Stopped
from ..messages import accept, accept_all, answer, reject, respond
from ..nexus import begin, called, callback_of, endpoint, links_of
from . import scenario
from .standalone import cancel, describe, outcome, start, terminate

SWITCHED_ON = True
PATIENCE = 15
USE_EXISTING = "ACTIVITY_ID_CONFLICT_POLICY_USE_EXISTING"
ALL = {"attach_request_id": True, "attach_completion_callbacks": True, "attach_links": True}


def start_activity(s: Session, task: Any, short: str = "a", **more: Any) -> str:
    """Starts the activity that carries out an operation, as SDKs do it."""
    links = links_of(task)
    callbacks = [callback_of(task, "token", links)]
    request_id = task.request.start_operation.request_id
    return start(s, short, **{"completion_callbacks": callbacks, "request_id": request_id, "links": links, **more})


def wait_callbacks(s: Session, short: str = "a", count: int = 1) -> None:
    """Waits, unrecorded, until callbacks of an activity have been delivered, or have failed."""
    end = time.monotonic() + PATIENCE
    while True:
        described = s.silent("DescribeActivityExecution", activity_id=s.name(short))
        over = [each for each in described.callbacks if each.info.attempt > 0]
        if len(over) >= count:
            return
        if time.monotonic() > end:
            raise Stopped("the callback was not delivered")
        time.sleep(0.05)


@scenario
def by_activity(s: Session) -> None:
    """All steps, with links and the states of the callback."""
    endpoint(s)
    task = called(s)
    start_activity(s, task)
    begin(s, task)
    describe(s)
    s.complete_activity(s.poll_activity(), "out")
    outcome(s)
    wait_callbacks(s)
    describe(s)
    s.wait_event("nexus_operation_completed")
    s.history()


@scenario
def activity_first(s: Session) -> None:
    """The activity is over before the handler has answered."""
    endpoint(s)
    task = called(s)
    start_activity(s, task)
    s.complete_activity(s.poll_activity())
    s.wait_event("nexus_operation_completed")
    s.history()


@scenario
def activity_fails(s: Session) -> None:
    """The activity fails."""
    endpoint(s)
    task = called(s)
    start_activity(s, task)
    begin(s, task)
    s.fail_activity(s.poll_activity(), failure(non_retryable=True))
    s.wait_event("nexus_operation_failed")
    s.history()


@scenario
def activity_is_canceled(s: Session) -> None:
    """The activity is cancelled."""
    endpoint(s)
    task = called(s)
    start_activity(s, task)
    begin(s, task)
    cancel(s)
    s.wait_event("nexus_operation_canceled")
    s.history()


@scenario
def activity_is_terminated(s: Session) -> None:
    """The activity is terminated."""
    endpoint(s)
    task = called(s)
    start_activity(s, task)
    begin(s, task)
    terminate(s)
    s.wait_event("nexus_operation_failed")
    s.history()


@scenario
def activity_times_out(s: Session) -> None:
    """The activity times out."""
    endpoint(s)
    task = called(s)
    start_activity(s, task, schedule_to_start_timeout=seconds(1))
    begin(s, task)
    s.wait_event("nexus_operation_failed")
    s.history()


@scenario
def activity_attached(s: Session) -> None:
    """Two operations wait for one activity; the second start is repeated."""
    endpoint(s)
    task = called(s)
    start_activity(s, task)
    begin(s, task)
    s.start("wf2", "q2")
    second = called(s, task=s.poll("q2"))
    more = {"id_conflict_policy": USE_EXISTING, "on_conflict_options": ALL}
    start_activity(s, second, **more)
    start_activity(s, second, **more)
    begin(s, second)
    describe(s)
    s.complete_activity(s.poll_activity(), "out")
    s.wait_event("nexus_operation_completed")
    s.wait_event("nexus_operation_completed", "wf2")
    s.history("wf2")
    wait_callbacks(s, count=2)
    describe(s)


@scenario
def activity_refused(s: Session) -> None:
    """Callbacks that are refused."""
    for url in ("http://localhost:1/", "ftp://localhost", "http://", "", "x" * 1001):
        start(s, completion_callbacks=[{"nexus": {"url": url}}])
    start(s, completion_callbacks=[{}])
    start(s, completion_callbacks=[{"nexus": {"url": "temporal://system", "header": {"x": "y" * 9000}}}])
    start(s, completion_callbacks=[{"nexus": {"url": "temporal://system"}}] * 2001)
    start(s, completion_callbacks=[{"nexus": {"url": "temporal://system", "header": {"Own": "v"}}}])
    describe(s)
    more = {"id_conflict_policy": USE_EXISTING}
    callback = {"nexus": {"url": "temporal://system"}}
    start(s, completion_callbacks=[callback], on_conflict_options={"attach_completion_callbacks": True}, **more)
    start(s, completion_callbacks=[callback], on_conflict_options={"attach_request_id": True}, **more)
    start(s, completion_callbacks=[callback], **more)
    start(s, completion_callbacks=[callback], on_conflict_options=ALL, **more)
    describe(s)
    terminate(s)
    wait_callbacks(s, count=2)
    describe(s)


# -- updates ------------------------------------------------------------------------------


def begin_update(s: Session, task: Any, update_id: str = "u", wf: str = "h", **more: Any) -> Any:
    """Begins the update that carries out an operation, as SDKs do it."""
    links = links_of(task)
    request = {
        "meta": {"update_id": update_id, "identity": "caller"},
        "input": {"name": "up", "args": payloads("in")},
        "request_id": task.request.start_operation.request_id,
        "completion_callbacks": [callback_of(task, "token", links)],
        "links": links,
    }
    return s.begin_update(update_id, wf, request=request, **more)


@scenario
def by_update(s: Session) -> None:
    """An update is accepted, and completed later."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="ACCEPTED")
    turn = s.poll("hq")
    message = turn.messages[0]
    answer(s, turn, accept(message))
    s.join(begun)
    begin(s, task)
    s.describe("h")
    s.signal(wf="h")
    turn = s.poll("hq")
    answer(s, turn, respond(message))
    s.wait_event("nexus_operation_completed")
    s.history()
    s.history("h")
    s.describe("h")


@scenario
def update_first(s: Session) -> None:
    """The update is completed before the handler has answered, and asked for again."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="COMPLETED")
    accept_all(s, s.poll("hq"))
    s.join(begun)
    s.wait_event("nexus_operation_completed")
    s.join(begin_update(s, task, stage="COMPLETED"))
    begin(s, task)
    s.history()
    s.describe("h")


@scenario
def update_fails(s: Session) -> None:
    """The update is completed with a failure."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="COMPLETED")
    turn = s.poll("hq")
    message = turn.messages[0]
    answer(s, turn, accept(message), respond(message, {"failure": failure("bad")}))
    s.join(begun)
    s.wait_event("nexus_operation_failed")
    s.history()
    s.describe("h")


@scenario
def update_rejected(s: Session) -> None:
    """The update is rejected."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="COMPLETED")
    turn = s.poll("hq")
    answer(s, turn, reject(turn.messages[0]))
    s.join(begun)
    time.sleep(1)
    s.describe("h")
    s.history("h")
    s.history()


@scenario
def update_of_a_workflow_that_closes(s: Session) -> None:
    """The workflow closes while the update is accepted."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="ACCEPTED")
    turn = s.poll("hq")
    answer(s, turn, accept(turn.messages[0]))
    s.join(begun)
    begin(s, task)
    s.terminate("h")
    time.sleep(2)
    s.history()
    s.describe("h")


@scenario
def update_attached(s: Session) -> None:
    """Two operations wait for one update."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="ACCEPTED")
    turn = s.poll("hq")
    message = turn.messages[0]
    answer(s, turn, accept(message))
    s.join(begun)
    begin(s, task)
    s.start("wf2", "q2")
    second = called(s, task=s.poll("q2"))
    s.join(begin_update(s, second, stage="ACCEPTED"))
    begin(s, second)
    s.describe("h")
    s.signal(wf="h")
    answer(s, s.poll("hq"), respond(message))
    s.wait_event("nexus_operation_completed")
    time.sleep(1)
    s.history()
    s.history("wf2")
    s.history("h")
    s.describe("h")


@scenario
def update_refused(s: Session) -> None:
    """Callbacks that are refused."""
    s.start("h", "hq")
    s.run_task(queue="hq")
    for callback in (
        {"nexus": {"url": "http://localhost:1/"}},
        {"nexus": {"url": "x" * 1001}},
        {},
        {"nexus": {"url": "temporal://system"}},
    ):
        request = {
            "meta": {"update_id": "u", "identity": "caller"},
            "input": {"name": "up"},
            "completion_callbacks": [callback],
        }
        s.join(s.begin_update("u", "h", 3, request=request))


@scenario
def update_attached_early(s: Session) -> None:
    """Another operation attaches to an update that no worker has accepted yet."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="ACCEPTED")
    s.wait_update("u", "h")
    s.start("wf2", "q2")
    second = called(s, task=s.poll("q2"))
    another = begin_update(s, second, stage="ACCEPTED")
    time.sleep(0.5)
    turn = s.poll("hq")
    message = turn.messages[0]
    answer(s, turn, accept(message))
    s.join(begun)
    s.join(another)
    s.describe("h")
    s.signal(wf="h")
    answer(s, s.poll("hq"), respond(message))
    time.sleep(1)
    s.history("wf2")
    s.history("h")
    s.describe("h")


@scenario
def update_attached_late(s: Session) -> None:
    """Another operation asks for an update that is completed."""
    endpoint(s)
    s.start("h", "hq")
    s.run_task(queue="hq")
    task = called(s)
    begun = begin_update(s, task, stage="COMPLETED")
    accept_all(s, s.poll("hq"))
    s.join(begun)
    s.start("wf2", "q2")
    second = called(s, task=s.poll("q2"))
    s.join(begin_update(s, second, stage="COMPLETED"))
    time.sleep(1)
    s.history("wf2")
    s.history("h")
    s.describe("h")
