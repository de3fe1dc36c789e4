"""Reading histories."""

from __future__ import annotations

import time

from ..build import complete, marker, payloads
from ..harness import Session
from . import scenario

CLOSE = "HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT"
NOBODY = "11111111-2222-4333-8444-555555555555"
ALL = "HISTORY_EVENT_FILTER_TYPE_ALL_EVENT"


@scenario
def pages(s: Session) -> None:
    """Page by page, one batch at a time."""
    s.begun(marker("a"), marker("b"))
    s.signal()
    token = b""
    for _ in range(10):
        page = s.history(maximum_page_size=1, next_page_token=token)
        token = page.next_page_token
        if not token:
            break


@scenario
def pages_of_two(s: Session) -> None:
    """Pages of two."""
    s.begun(marker("a"), complete())
    token = b""
    for _ in range(10):
        page = s.history(maximum_page_size=2, next_page_token=token)
        token = page.next_page_token
        if not token:
            break


@scenario
def reverse(s: Session) -> None:
    """Backwards, whole and page by page."""
    s.begun(marker("a"), complete("x"))
    s.call("GetWorkflowExecutionHistoryReverse", execution=s.execution())
    token = b""
    for _ in range(10):
        page = s.call(
            "GetWorkflowExecutionHistoryReverse",
            execution=s.execution(),
            maximum_page_size=2,
            next_page_token=token,
        )
        token = page.next_page_token
        if not token:
            break


@scenario
def reverse_unknown(s: Session) -> None:
    """Backwards reads that are refused."""
    s.call("GetWorkflowExecutionHistoryReverse", execution=s.execution())
    s.call("GetWorkflowExecutionHistoryReverse")
    s.start()
    s.call("GetWorkflowExecutionHistoryReverse", execution=s.execution(), next_page_token=b"nonsense")


@scenario
def close_event(s: Session) -> None:
    """The close event alone, of a closed workflow."""
    s.begun(complete("out"))
    s.history(history_event_filter_type=CLOSE)
    s.history(history_event_filter_type=CLOSE, wait_new_event=True)


@scenario
def wait_for_close(s: Session) -> None:
    """Waiting for the close event of an open workflow."""
    s.begun()
    begun = s.begin(
        "GetWorkflowExecutionHistory",
        15,
        execution=s.execution(),
        history_event_filter_type=CLOSE,
        wait_new_event=True,
    )
    time.sleep(0.3)
    s.terminate()
    s.join(begun)


@scenario
def wait_for_close_deadline(s: Session) -> None:
    """Waiting in vain: an empty answer with a token shortly before the deadline."""
    s.begun()
    s.history(deadline=3, history_event_filter_type=CLOSE, wait_new_event=True)


@scenario
def close_without_wait(s: Session) -> None:
    """The close event of an open workflow without waiting."""
    s.begun()
    s.history(deadline=3, history_event_filter_type=CLOSE)


@scenario
def wait_new_event(s: Session) -> None:
    """Long-polling all events: the first page at once, the next when something happens."""
    s.begun()
    page = s.history(wait_new_event=True, history_event_filter_type=ALL)
    begun = s.begin(
        "GetWorkflowExecutionHistory",
        15,
        execution=s.execution(),
        wait_new_event=True,
        history_event_filter_type=ALL,
        next_page_token=page.next_page_token,
    )
    time.sleep(0.3)
    s.signal(input=payloads("x"))
    page = s.join(begun)
    s.terminate()
    s.history(wait_new_event=True, history_event_filter_type=ALL, next_page_token=page.next_page_token)


@scenario
def older_run(s: Session) -> None:
    """Runs of one id are told apart by run id."""
    first = s.begun(complete(1))
    second = s.begun(complete(2))
    s.history(run=first, history_event_filter_type=CLOSE)
    s.history(run=second, history_event_filter_type=CLOSE)
    s.history(history_event_filter_type=CLOSE)


@scenario
def unknown(s: Session) -> None:
    """Unknown workflow and run, invalid requests."""
    s.history()
    s.history(run="11111111-2222-4333-8444-555555555555")
    s.history(run="bad")
    s.call("GetWorkflowExecutionHistory")
    s.call("GetWorkflowExecutionHistory", execution={"workflow_id": ""})
    s.start()
    s.history(run="11111111-2222-4333-8444-555555555555")
    s.history(maximum_page_size=-1)


@scenario
def foreign_token(s: Session) -> None:
    """A page token of another execution, and a malformed one."""
    s.start("one", queue="one")
    s.run_task(queue="one")
    s.start("two", queue="two")
    token = s.history("one", maximum_page_size=1).next_page_token
    s.history("two", next_page_token=token)
    s.history("two", next_page_token=b"nonsense")


@scenario
def skip_archival(s: Session) -> None:
    """skip_archival changes nothing for what is not archived."""
    s.start()
    s.history(skip_archival=True)
    s.history("nowhere", skip_archival=True)


@scenario
def transient_events(s: Session) -> None:
    """Scheduled and started transient tasks are (or are not) appended for readers, also backwards."""
    s.start()
    s.fail_task(s.poll())
    s.history()
    s.poll()
    s.history()
    s.call("GetWorkflowExecutionHistoryReverse", execution=s.execution())
    s.history(maximum_page_size=2)


@scenario
def page_token_of_another_run(s: Session) -> None:
    """A page token belongs to its run; a request that names no run takes that of the token."""
    first = s.begun(marker("a"), complete())
    second = s.begun(marker("b"), complete())
    for rpc in ("GetWorkflowExecutionHistory", "GetWorkflowExecutionHistoryReverse"):
        page = s.call(rpc, execution=s.execution(run=first), maximum_page_size=1)
        token = {"maximum_page_size": 1, "next_page_token": page.next_page_token}
        s.call(rpc, execution=s.execution(run=second), **token)
        s.call(rpc, execution=s.execution(run=first), **token)
        s.call(rpc, execution=s.execution(), **token)
        s.call(rpc, execution=s.execution("other"), **token)
        s.call(rpc, execution=s.execution("other", run=first), **token)
        s.call(rpc, execution=s.execution("other", run=second), **token)
        s.call(rpc, execution=s.execution(run=NOBODY), **token)
        s.call(rpc, execution=s.execution(run="not a run id"), **token)


@scenario
def page_token_of_another_run_awaited(s: Session) -> None:
    """The same for tokens of reads that wait."""
    first = s.begun()
    page = s.history(wait_new_event=True)
    s.start("other")
    s.terminate()
    for more in ({}, {"history_event_filter_type": CLOSE}):
        s.history(run=NOBODY, wait_new_event=True, next_page_token=page.next_page_token, **more)
        s.history(run=first, wait_new_event=True, next_page_token=page.next_page_token, **more)
        s.history("other", wait_new_event=True, next_page_token=page.next_page_token, **more)
