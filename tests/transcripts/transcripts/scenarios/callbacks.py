"""Completion callbacks: which addresses are taken, what descriptions say of them."""

from __future__ import annotations

import time

from ..build import Fields, command, complete, fail, retry
from ..harness import Session
from . import scenario

SYSTEM = "temporal://system"


def nexus(url: str, **header: str) -> Fields:
    """A callback to an address."""
    return {"nexus": {"url": url, "header": header}}


@scenario
def addresses(s: Session) -> None:
    """Addresses that are not allowed, or are none."""
    for url in (
        "http://127.0.0.1:1/x",
        "http://localhost:1/x",
        "https://example.com/x",
        "http://example.com",
        "ftp://example.com/x",
        "temporal://other",
        "temporal://system/x",
        "example.com/x",
        "",
        "http://",
        "https://:1/",
        "%zz",
        "http://a b/",
    ):
        s.start(completion_callbacks=[nexus(url)])
    s.start(completion_callbacks=[nexus("http://example.com/" + "x" * 1001)])
    s.start(completion_callbacks=[nexus(SYSTEM, big="x" * 9000)])
    s.start(completion_callbacks=[{}])
    s.start(completion_callbacks=[{"internal": {"data": b"x"}}])
    s.start(completion_callbacks=[{"nexus_handler": {}}])


@scenario
def described(s: Session) -> None:
    """A callback waits for the end of its workflow."""
    s.start(completion_callbacks=[nexus(SYSTEM, Token="t")])
    s.describe()
    s.history()


@scenario
def attached(s: Session) -> None:
    """A start that finds the workflow running adds its callback."""
    s.start(completion_callbacks=[nexus(SYSTEM)])
    attach(s)
    s.describe()
    s.history()


@scenario
def too_many(s: Session) -> None:
    """More than an execution may have."""
    s.start(completion_callbacks=[nexus(SYSTEM)] * 2001)


def attach(s: Session) -> None:
    """A second start adds a callback."""
    options = {"attach_request_id": True, "attach_completion_callbacks": True}
    s.start(
        completion_callbacks=[nexus(SYSTEM, Number="2")],
        on_conflict_options=options,
        workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING",
    )


@scenario
def continued(s: Session) -> None:
    """The next run of a chain has them, also those that were added."""
    first = s.start(completion_callbacks=[nexus(SYSTEM)])
    attach(s)
    again = command("CONTINUE_AS_NEW_WORKFLOW_EXECUTION", workflow_type={"name": "wt"}, task_queue={"name": s.name("q")})
    s.run_task(again)
    time.sleep(0.5)
    s.describe(run=first)
    s.describe()
    s.history()


@scenario
def retried(s: Session) -> None:
    """The next attempt of a workflow has them."""
    first = s.start(completion_callbacks=[nexus(SYSTEM)], retry_policy=retry(1))
    s.run_task(fail())
    time.sleep(0.5)
    s.describe(run=first)
    s.describe()
    s.history()


@scenario
def repeated(s: Session) -> None:
    """A workflow with a cron schedule."""
    first = s.start(completion_callbacks=[nexus(SYSTEM)], cron_schedule="@every 1s")
    s.run_task(complete("done"))
    time.sleep(0.5)
    s.describe(run=first)
    s.history()


@scenario
def reset(s: Session) -> None:
    """A run that is reset hands them on."""
    first = s.start(completion_callbacks=[nexus(SYSTEM)])
    s.run_task()
    s.reset(4)
    time.sleep(0.5)
    s.describe(run=first)
    s.describe()


@scenario
def terminated(s: Session) -> None:
    """However it ends."""
    s.start(completion_callbacks=[nexus("temporal://system", Token="t")])
    s.terminate()
    time.sleep(2)
    s.describe()


@scenario
def closed(s: Session) -> None:
    """A callback to the server itself that means nothing."""
    s.start(completion_callbacks=[nexus(SYSTEM)])
    s.run_task(complete("done"))
    time.sleep(3)
    s.describe()
