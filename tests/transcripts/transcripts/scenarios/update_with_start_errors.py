"""Update-with-start calls that are refused before anything is started."""

from __future__ import annotations

from typing import Any

from ..build import fields, metadata, payloads, seconds
from ..harness import NAMESPACE, PATIENT, Session
from ..messages import accept_all
from . import scenario

USE_EXISTING = {"workflow_id_conflict_policy": "WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"}


def starting(s: Session, **more: Any) -> dict[str, Any]:
    """A start operation; None leaves a field out."""
    plain = {"namespace": NAMESPACE, **s.start_fields(), **USE_EXISTING, **more}
    return {"start_workflow": {k: v for k, v in plain.items() if v is not None}}


def updating(s: Session, update_id: str = "u", **more: Any) -> dict[str, Any]:
    """An update operation; None leaves a field out."""
    plain = {"namespace": NAMESPACE, **s.update_fields(update_id), **more}
    return {"update_workflow": {k: v for k, v in plain.items() if v is not None}}


def refused(s: Session, *operations: dict[str, Any], **more: Any) -> None:
    """Calls with these operations."""
    s.call("ExecuteMultiOperation", 3, operations=list(operations), **more)


@scenario
def shape(s: Session) -> None:
    """The operations must be exactly a start and an update."""
    refused(s)
    refused(s, starting(s))
    refused(s, updating(s))
    refused(s, updating(s), starting(s))
    refused(s, starting(s), starting(s))
    refused(s, updating(s), updating(s))
    refused(s, starting(s), updating(s), updating(s, "u2"))
    refused(s, starting(s), {})
    refused(s, {}, updating(s))
    refused(s, starting(s), updating(s), namespace="")
    refused(s, starting(s), updating(s), namespace="no-such-namespace")


@scenario
def inconsistent(s: Session) -> None:
    """Both operations must name the same workflow and the call's namespace."""
    refused(s, starting(s), updating(s, workflow_execution=s.execution("other")))
    refused(s, starting(s, namespace="other"), updating(s))
    refused(s, starting(s), updating(s, namespace="other"))
    refused(s, starting(s, namespace=None), updating(s))
    refused(s, starting(s), updating(s, namespace=None))


@scenario
def start_invalid(s: Session) -> None:
    """Starts that update-with-start does not allow, and invalid ones."""
    refused(s, starting(s, cron_schedule="* * * * *"), updating(s))
    refused(s, starting(s, request_eager_execution=True), updating(s))
    refused(s, starting(s, workflow_start_delay=seconds(1)), updating(s))
    refused(s, starting(s, workflow_id=""), updating(s))
    refused(s, starting(s, workflow_type=None), updating(s))
    refused(s, starting(s, task_queue=None), updating(s))
    refused(s, starting(s, task_queue={"name": "/_sys/odd/0"}), updating(s))
    refused(s, starting(s, request_id="x" * 1001), updating(s))
    refused(s, starting(s, workflow_run_timeout=seconds(-1)), updating(s))


@scenario
def update_invalid(s: Session) -> None:
    """Updates that update-with-start does not allow, and invalid ones."""
    refused(s, starting(s), updating(s, first_execution_run_id="11111111-2222-4333-8444-555555555555"))
    refused(s, starting(s), updating(s, workflow_execution=s.execution(run="11111111-2222-4333-8444-555555555555")))
    refused(s, starting(s), updating(s, workflow_execution=None))
    refused(s, starting(s), updating(s, request=None))
    refused(s, starting(s), updating(s, request={"input": {"name": "up"}}))
    refused(s, starting(s), updating(s, request={"meta": {"update_id": "u"}}))
    refused(s, starting(s), updating(s, request={"meta": {"update_id": "u"}, "input": {}}))
    refused(s, starting(s), updating(s, "x" * 1001))


@scenario
def both_invalid(s: Session) -> None:
    """Both operations are wrong: both errors are told."""
    refused(s, starting(s, workflow_type=None), updating(s, "x" * 1001))
    s.history()


@scenario
def no_conflict_policy(s: Session) -> None:
    """A start without a conflict policy."""
    refused(s, starting(s, workflow_id_conflict_policy=None), updating(s))


@scenario
def generated_id(s: Session) -> None:
    """Without an update id the server makes one."""
    request = {"meta": {"identity": "caller"}, "input": {"name": "up"}}
    operations = [starting(s), updating(s, request=request)]
    begun = s.begin("ExecuteMultiOperation", PATIENT, operations=operations)
    accept_all(s, s.poll())
    s.join(begun)


@scenario
def everything_of_the_start(s: Session) -> None:
    """Input, header, memo and user metadata of the start survive."""
    rich = {"input": payloads(1), "header": fields(h=1), "memo": fields(m=1), "user_metadata": metadata("sum", "det")}
    begun = s.begin("ExecuteMultiOperation", PATIENT, operations=[starting(s, **rich), updating(s)])
    accept_all(s, s.poll())
    s.join(begun)
    s.history()
    s.describe()


@scenario
def internal_queue(s: Session) -> None:
    """The server's own task queue: the start is refused, the update aborted."""
    refused(s, starting(s, task_queue={"name": "temporal-sys-per-ns-tq"}), updating(s))
    s.history()
