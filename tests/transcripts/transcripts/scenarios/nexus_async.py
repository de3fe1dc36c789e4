"""Operations of Nexus that a workflow carries out: the callback that it gets, links both ways, several callers."""

from __future__ import annotations

import time
from typing import Any

from ..build import complete, payload
from ..harness import Session
from ..nexus import (
    begin,
    called,
    callback_of,
    endpoint,
    link_to,
    links_of,
    operation,
    start_handler,
    succeed,
    wait_callbacks,
)
from . import scenario

USE_EXISTING = "WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"
ALL = {"attach_request_id": True, "attach_completion_callbacks": True, "attach_links": True}


def attach(s: Session, task: Any, options: Any = ALL, token: str = "token", **more: Any) -> Any:
    """The handler's workflow runs already: another operation waits for it, too."""
    return start_handler(
        s, task, token, on_conflict_options=options, workflow_id_conflict_policy=USE_EXISTING, **more
    )


def second(s: Session, wf: str = "wf2") -> Any:
    """The task of another workflow that calls the same operation."""
    s.start(wf, "q2")
    return called(s, task=s.poll("q2"))


@scenario
def by_workflow(s: Session) -> None:
    """All steps, with links and the states of the callback."""
    endpoint(s)
    task = called(s, operation(s, input=payload("in"), nexus_header={"own": "v"}))
    run = start_handler(s, task)
    begin(s, task, links=[link_to(s, "h", run)])
    s.run_task()
    s.describe()
    s.describe("h")
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.describe("h")
    s.describe()
    s.history()
    s.history("h")


@scenario
def without_result(s: Session) -> None:
    """The handler's workflow has no result."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    s.run_task(complete(), queue="hq")
    s.wait_event("nexus_operation_completed")
    s.history()


@scenario
def several_results(s: Session) -> None:
    """The handler's workflow has more than one result."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    s.run_task(complete(1, 2), queue="hq")
    s.wait_event("nexus_operation_completed")
    s.history()


@scenario
def completed_before_start(s: Session) -> None:
    """The handler's workflow closes before the handler has answered; the answer is accepted and changes nothing."""
    endpoint(s)
    task = called(s)
    start_handler(s, task, "early")
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.history()
    begin(s, task, "late")
    s.history()
    s.describe("h")


@scenario
def completed_before_start_without_token(s: Session) -> None:
    """The same if the callback does not say the operation's token."""
    endpoint(s)
    task = called(s)
    start_handler(s, task, "")
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.history()
    s.describe("h")
    begin(s, task)
    s.history()


@scenario
def completed_before_late_result(s: Session) -> None:
    """The handler's late answer is a result."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    succeed(s, task, "other")
    s.history()


@scenario
def completed_while_task_runs(s: Session) -> None:
    """The operation ends while a workflow task of the caller is under way."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    workflow_task = s.poll()
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.history()
    s.complete(workflow_task)
    s.poll()


@scenario
def completed_twice(s: Session) -> None:
    """Two workflows carry out one operation: the second has nothing to report."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    start_handler(s, task, wf="h2")
    begin(s, task)
    s.run_task(complete("first"), queue="hq")
    wait_callbacks(s)
    s.run_task(complete("second"), queue="hq")
    wait_callbacks(s, "h2")
    s.describe("h2")
    s.history()


@scenario
def caller_closed(s: Session) -> None:
    """The caller is closed when the handler's workflow reports."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    begin(s, task)
    s.run_task(complete())
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.describe("h")
    s.describe()


@scenario
def timed_out_meanwhile(s: Session) -> None:
    """The operation has timed out when the handler's workflow reports."""
    endpoint(s)
    task = called(s, operation(s, start_to_close_timeout={"seconds": 2}))
    start_handler(s, task)
    begin(s, task)
    s.wait_event("nexus_operation_timed_out")
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.describe("h")
    s.history()


@scenario
def links_of_request(s: Session) -> None:
    """Links that are in the callback are dropped from the start itself; others stay."""
    endpoint(s)
    task = called(s)
    other = {"workflow_event": {"namespace": "default", "workflow_id": "other", "run_id": "r", "event_ref": {}}}
    callback = callback_of(task, links=links_of(task))
    s.start("h", "hq", completion_callbacks=[callback], links=[*links_of(task), other])
    s.history("h")
    s.describe("h")


@scenario
def attached_links(s: Session) -> None:
    """Links of a request that attaches, beside those of its callback."""
    endpoint(s)
    task = called(s)
    s.start("h", "hq")
    other = {"workflow_event": {"namespace": "default", "workflow_id": "other", "run_id": "r", "event_ref": {}}}
    attach(s, task, links=[*links_of(task), other])
    attach(s, task, {"attach_links": True}, request_id="2", links=[other])
    attach(s, task, {"attach_request_id": True}, request_id="3", links=[other])
    s.history("h")


@scenario
def two_callers(s: Session) -> None:
    """A workflow carries out the operations of two workflows; both get its result. Which request attached each."""
    endpoint(s)
    first = called(s)
    run = start_handler(s, first, workflow_id_conflict_policy=USE_EXISTING)
    begin(s, first, links=[link_to(s, "h", run)])
    other = second(s)
    attach(s, other)
    begin(s, other, links=[link_to(s, "h", run)])
    s.describe("h")
    s.run_task(complete("out"), queue="hq")
    s.wait_event("nexus_operation_completed")
    s.wait_event("nexus_operation_completed", "wf2")
    wait_callbacks(s, count=2)
    s.describe("h")
    s.history("h")
    s.history("wf2")


@scenario
def attached_before_start(s: Session) -> None:
    """The start that a completion stands for links to the request that attached the callback."""
    endpoint(s)
    s.start("h", "hq")
    attach(s, called(s))
    s.run_task(complete("out"), queue="hq")
    wait_callbacks(s)
    s.history()
    s.history("h")


@scenario
def attached_again(s: Session) -> None:
    """The same request once more changes nothing."""
    endpoint(s)
    task = called(s)
    s.start("h", "hq")
    attach(s, task)
    attach(s, task)
    s.history("h")
    s.describe("h")


@scenario
def started_again(s: Session) -> None:
    """The request that started the workflow once more, with and without a wish to attach."""
    endpoint(s)
    task = called(s)
    start_handler(s, task)
    attach(s, task)
    start_handler(s, task)
    s.history("h")
    s.describe("h")


@scenario
def attached_nothing(s: Session) -> None:
    """A wish to attach nothing still leaves an event; no wish leaves none."""
    endpoint(s)
    task = called(s)
    s.start("h", "hq")
    attach(s, task, {}, request_id="1")
    attach(s, task, {"attach_links": True}, request_id="2")
    attach(s, task, None, request_id="3")
    attach(s, task, {"attach_request_id": True}, request_id="4")
    s.history("h")
    s.describe("h")


@scenario
def attached_without_request_id(s: Session) -> None:
    """Callbacks are attached with the id of their request only."""
    endpoint(s)
    task = called(s)
    s.start("h", "hq")
    attach(s, task, {"attach_completion_callbacks": True})
    s.history("h")


@scenario
def attached_to_closed(s: Session) -> None:
    """A closed workflow is not attached to; a new run starts."""
    endpoint(s)
    task = called(s)
    s.start("h", "hq")
    s.run_task(complete("old"), queue="hq")
    attach(s, task)
    begin(s, task)
    s.run_task(complete("new"), queue="hq")
    wait_callbacks(s)
    s.history()


@scenario
def altered_token(s: Session) -> None:
    """A callback whose token is none, and one without a token."""
    endpoint(s)
    task = called(s)
    for header in ({"temporal-callback-token": "junk"}, {}):
        callback = {"nexus": {"url": "temporal://system", "header": header}}
        s.start("h", "hq", completion_callbacks=[callback])
        s.run_task(complete("out"), queue="hq")
        wait_callbacks(s)
        s.describe("h")
    begin(s, task)
    time.sleep(0.5)
    s.describe()
