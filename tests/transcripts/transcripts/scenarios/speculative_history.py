"""What readers of the history see of a speculative workflow task."""

from __future__ import annotations

import time

from ..build import marker
from ..harness import Session
from ..messages import accept_all, answer, reject
from . import scenario

# How long a call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6


@scenario
def backwards(s: Session) -> None:
    """Reading backwards, or for the close event, shows nothing of a speculative task."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    s.call("GetWorkflowExecutionHistoryReverse", execution=s.execution())
    close = "HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT"
    s.history(history_event_filter_type=close, wait_new_event=True, deadline=2)
    accept_all(s, task)
    s.join(begun)


@scenario
def for_people(s: Session) -> None:
    """The command line and the user interface are not shown what is not durable; SDKs are."""
    s.begun()
    begun = s.admit()
    for client in ("temporal-cli", "temporal-ui", "temporal-python"):
        s.history(headers={"client-name": client, "client-version": "1.20.0"})
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def long_poll(s: Session) -> None:
    """A long poll for new events is not woken by a speculative task, only by what becomes of it."""
    s.begun()
    page = s.history(wait_new_event=True)
    more = {"execution": s.execution(), "wait_new_event": True}
    waiting = s.begin("GetWorkflowExecutionHistory", 8, next_page_token=page.next_page_token, **more)
    begun = s.admit()
    task = s.poll()
    time.sleep(CALL_ARRIVES)
    s.signal()
    s.join(waiting)
    accept_all(s, task)
    s.join(begun)


@scenario
def paged(s: Session) -> None:
    """Reading one batch at a time: the speculative events come with the last page."""
    s.begun()
    begun = s.admit()
    task = s.poll()
    page = s.history(maximum_page_size=1)
    while page.next_page_token:
        page = s.history(maximum_page_size=1, next_page_token=page.next_page_token)
    accept_all(s, task)
    s.join(begun)


@scenario
def paged_across_a_signal(s: Session) -> None:
    """Paging goes on with a token from before a signal made the speculative task durable: no event is missing."""
    s.begun()
    s.signal("one")
    s.run_task(*[marker(f"m{n}") for n in range(2)])
    begun = s.admit()
    task = s.poll()
    page = s.history(maximum_page_size=3)
    s.signal("two")
    while page.next_page_token:
        page = s.history(maximum_page_size=3, next_page_token=page.next_page_token)
    accept_all(s, task)
    s.join(begun)


@scenario
def for_other_clients(s: Session) -> None:
    """Each SDK, an unknown client and one without a name are shown what is not durable."""
    s.begun()
    begun = s.admit()
    for client in ("temporal-go", "temporal-java", "temporal-typescript", "temporal-dotnet", "odd"):
        s.history(headers={"client-name": client, "client-version": "1.20.0"})
    s.history()
    accept_all(s, s.poll())
    s.join(begun)
