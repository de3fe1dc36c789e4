"""Update calls and polls for them that are refused before any worker is asked."""

from __future__ import annotations

from typing import Any

from ..build import complete
from ..harness import Session
from ..messages import accept_all
from . import scenario

RUN = "11111111-2222-4333-8444-555555555555"


def asked(**more: Any) -> dict[str, Any]:
    """A request with changed parts; None leaves a part out."""
    plain = {"meta": {"update_id": "u"}, "input": {"name": "up"}, **more}
    return {"request": {k: v for k, v in plain.items() if v is not None}}


@scenario
def invalid(s: Session) -> None:
    """Missing or wrong parts of an update call; a stage that does not exist is answered at once."""
    s.start()
    s.update(workflow_execution=None)
    s.update(workflow_execution={"workflow_id": ""})
    s.update(workflow_execution={"workflow_id": "x" * 1001})
    s.update(run="bad run")
    s.update(request=None)
    s.update(**asked(meta=None))
    s.update(**asked(input=None))
    s.update(**asked(input={}))
    s.update("x" * 1001)
    s.update(wait_policy={"lifecycle_stage": 9}, deadline=2)
    s.update(namespace="")
    s.update(namespace="no-such-namespace")


@scenario
def longest_id(s: Session) -> None:
    """An id of a thousand bytes."""
    s.begun()
    begun = s.admit("x" * 1000)
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def unknown(s: Session) -> None:
    """Updates of workflows and runs that do not exist."""
    s.update()
    s.start()
    s.update(run=RUN)
    s.update(first_execution_run_id=RUN)


@scenario
def first_run(s: Session) -> None:
    """The chain may be named by its first run."""
    run = s.begun()
    begun = s.admit(first_execution_run_id=run)
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def first_run_unparsable(s: Session) -> None:
    """A first run id that is none."""
    s.start()
    s.update(first_execution_run_id="bad run", deadline=2)


@scenario
def closed(s: Session) -> None:
    """Updates of a closed workflow."""
    run = s.begun(complete())
    s.update()
    s.update(run=run)
    s.update(stage="ACCEPTED")
    s.poll_update()


@scenario
def callbacks(s: Session) -> None:
    """Completion callbacks are off: they need a request id, and are not looked at otherwise."""
    s.start()
    good = {"nexus": {"url": "http://127.0.0.1:1/callback"}}
    s.update(**asked(completion_callbacks=[good]), deadline=2)
    s.update(**asked(completion_callbacks=[{"nexus": {"url": "odd"}}], request_id="r"), deadline=2)
    s.update(**asked(completion_callbacks=[good], request_id="r"), deadline=2)


@scenario
def poll_invalid(s: Session) -> None:
    """Missing or wrong parts of a poll for an update."""
    s.start()
    s.poll_update(update_ref=None)
    s.poll_update(update_ref={"update_id": "u"})
    s.poll_update(update_ref={"workflow_execution": {"workflow_id": ""}, "update_id": "u"})
    s.poll_update(run="bad run")
    s.poll_update("")
    s.poll_update("x" * 1001)
    s.poll_update(namespace="no-such-namespace")


@scenario
def poll_unknown(s: Session) -> None:
    """Polls for updates, workflows and runs that do not exist."""
    s.poll_update()
    s.start()
    s.poll_update()
    s.poll_update(stage="COMPLETED")
    s.poll_update(run=RUN)


@scenario
def deleted(s: Session) -> None:
    """The workflow is deleted while an update waits."""
    s.begun()
    begun = s.admit()
    s.call("DeleteWorkflowExecution", workflow_execution=s.execution())
    s.join(begun)


@scenario
def closed_with_wrong_first_run(s: Session) -> None:
    """An update of a closed workflow that names another first run."""
    s.begun(complete())
    s.update(first_execution_run_id=RUN)
    s.update()
