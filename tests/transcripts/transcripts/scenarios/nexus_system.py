"""The operation of the server itself that workflows call: start a workflow with a signal."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message
from temporalio.api.workflowservice.v1 import SignalWithStartWorkflowExecutionRequest as Request

from ..build import Fields, complete, fields, metadata, payload, payloads, seconds
from ..harness import Session
from ..nexus import call_of, cancel_operation, endpoint, operation, spec
from . import scenario

SWITCHED_ON = True
ENDPOINT = "__temporal_system"
SERVICE = "temporal.api.workflowservice.v1.WorkflowService"
OPERATION = "SignalWithStartWorkflowExecution"


def encoded(message: Message) -> Fields:
    """A message as the input of an operation of the server."""
    kind = {"encoding": b"binary/protobuf", "messageType": message.DESCRIPTOR.full_name.encode()}
    return {"metadata": kind, "data": message.SerializeToString()}


def request(s: Session, wf: str = "target", **more: Any) -> Request:
    """Start the workflow `target`, and send it a signal."""
    plain = {
        "workflow_id": s.name(wf),
        "workflow_type": {"name": "wt"},
        "task_queue": {"name": s.name("tq")},
        "signal_name": "sig",
    }
    return Request(**{k: v for k, v in {**plain, **more}.items() if v is not None})


def calling(s: Session, **more: Any) -> Fields:
    """A command that calls the server's own operation."""
    given = {"endpoint": ENDPOINT, "service": SERVICE, "operation": OPERATION, **more}
    return operation(s, **{k: v for k, v in given.items() if v is not None})


def call(s: Session, wf: str = "target", **more: Any) -> Fields:
    """The same, with such a request."""
    return calling(s, input=encoded(request(s, wf, **more)))


def refused(s: Session, *commands: Fields) -> None:
    """Workflows whose first task has a bad command."""
    for number, each in enumerate(commands):
        s.start(f"wf{number}", f"q{number}")
        s.run_task(each, queue=f"q{number}")


@scenario
def starts(s: Session) -> None:
    """All that a request can say; both histories."""
    sent = request(
        s,
        input=payloads("in"),
        signal_input=payloads("said"),
        workflow_execution_timeout=seconds(300),
        workflow_run_timeout=seconds(200),
        workflow_task_timeout=seconds(5),
        identity="me",
        control="c",
        retry_policy={"initial_interval": seconds(2)},
        memo=fields(m="x"),
        header=fields(h="y"),
        user_metadata=metadata("summary", "details"),
        priority={"priority_key": 2},
    )
    s.begun(operation(s, metadata("called"), endpoint=ENDPOINT, service=SERVICE, operation=OPERATION, input=encoded(sent)))
    s.complete(s.poll(), complete("done"))
    s.history()
    s.poll("tq")
    s.describe("target")


@scenario
def signals(s: Session) -> None:
    """A workflow that is open already gets the signal alone."""
    s.start("target", "tq")
    s.begun(call(s))
    s.poll()
    s.history("target")


@scenario
def twice(s: Session) -> None:
    """Two calls in one task, to the same workflow, carried out in either order."""
    s.begun(call(s), call(s, signal_name="other"))
    s.wait_event("nexus_operation_completed", count=2)
    s.wait_event("workflow_execution_signaled", "target", count=2)
    s.describe()


@scenario
def namespace_named(s: Session) -> None:
    """The namespace of the caller, by name."""
    s.begun(call(s, namespace="default"))
    s.poll()


@scenario
def times(s: Session) -> None:
    """Time-outs of the operation do not matter."""
    s.begun(calling(s, input=encoded(request(s)), schedule_to_close_timeout=seconds(20)))
    s.poll()


@scenario
def described(s: Session) -> None:
    """After it is over nothing is pending."""
    s.begun(call(s))
    s.wait_event("nexus_operation_completed")
    s.describe()


@scenario
def cancelled_too_late(s: Session) -> None:
    """A request to cancel, in the same task."""
    s.begun(call(s), cancel_operation())
    s.poll()


@scenario
def no_duplicates(s: Session) -> None:
    """A workflow that is closed, and must not be started again."""
    s.start("target", "tq")
    s.run_task(complete(), queue="tq")
    s.begun(call(s, workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE"))
    s.poll()


@scenario
def only_after_failures(s: Session) -> None:
    """A workflow that has completed, and may be started again only if it failed."""
    s.start("target", "tq")
    s.run_task(complete(), queue="tq")
    s.begun(call(s, workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY"))
    s.poll()


@scenario
def replaces(s: Session) -> None:
    """An open workflow is terminated first."""
    s.start("target", "tq")
    s.begun(call(s, workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING"))
    s.poll()
    s.history("target")


@scenario
def itself(s: Session) -> None:
    """A workflow that signals itself."""
    s.begun(call(s, "wf"))
    s.wait_event("nexus_operation_completed")
    s.wait_event("workflow_execution_signaled")
    s.describe()


@scenario
def bad_services(s: Session) -> None:
    """Services and operations that the server does not have."""
    refused(
        s,
        calling(s, service="svc"),
        calling(s, operation="op"),
        calling(s, operation="StartWorkflowExecution"),
        calling(s, service=""),
        calling(s, operation=""),
        calling(s, service="temporal.api.applicationservice.v1.ApplicationService", operation="GetWorkflowExecutionResult"),
    )


@scenario
def bad_inputs(s: Session) -> None:
    """Inputs that are no such request."""
    good = encoded(request(s))
    other = {"encoding": b"binary/protobuf", "messageType": b"temporal.api.workflowservice.v1.StartWorkflowExecutionRequest"}
    unknown = {"encoding": b"binary/protobuf", "messageType": b"no.such.Message"}
    refused(
        s,
        calling(s),
        calling(s, input={"metadata": {"encoding": b"binary/protobuf"}, "data": good["data"]}),
        calling(s, input={"metadata": other, "data": good["data"]}),
        calling(s, input={"metadata": unknown, "data": good["data"]}),
        calling(s, input={**good, "data": b"\xff\xff\xff"}),
        calling(s, input={"metadata": {"encoding": b"binary/null"}}),
        calling(s, input={"data": b"x"}),
        calling(s, input={**good, "data": b""}),
    )


@scenario
def other_inputs(s: Session) -> None:
    """Inputs that are no message."""
    refused(
        s,
        calling(s, input=payload("text")),
        calling(s, input=payload({"workflowId": "x"})),
        calling(s, input={"metadata": {"encoding": b"binary/plain"}, "data": b"x"}),
    )


@scenario
def json_input(s: Session) -> None:
    """A request as JSON."""
    kind = {"encoding": b"json/protobuf", "messageType": Request.DESCRIPTOR.full_name.encode()}
    text = '{"workflowId":"%s","workflowType":{"name":"wt"},"taskQueue":{"name":"%s"},"signalName":"sig"}'
    data = (text % (s.name("target"), s.name("tq"))).encode()
    s.begun(calling(s, input={"metadata": kind, "data": data}))
    s.poll()


@scenario
def bad_requests(s: Session) -> None:
    """Requests that no server would take."""
    long = "x" * 1001
    refused(
        s,
        call(s, namespace="other"),
        call(s, request_id="own"),
        call(s, links=[{"workflow_event": {"namespace": "n", "workflow_id": "w", "run_id": "r"}}]),
        calling(s, input=encoded(request(s, workflow_id=""))),
        call(s, signal_name=""),
        call(s, signal_name=long),
        call(s, workflow_type=None),
        call(s, workflow_type={"name": long}),
        call(s, task_queue=None),
        call(s, task_queue={"name": long}),
        calling(s, input=encoded(request(s, workflow_id=long))),
        call(s, workflow_execution_timeout=seconds(-1)),
        call(s, workflow_start_delay=seconds(-1)),
        call(s, retry_policy={"backoff_coefficient": 0.5}),
        call(s, workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_FAIL"),
        call(s, workflow_id_reuse_policy="WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING"),
        call(s, search_attributes={"indexed_fields": {"NoSuch": payload("x")}}),
        call(s, priority={"priority_key": -1}),
        call(s, cron_schedule="* * * * *", workflow_start_delay=seconds(5)),
    )


@scenario
def no_cron(s: Session) -> None:
    """A schedule that nobody can read."""
    s.begun(call(s, cron_schedule="no cron"))
    s.poll()


@scenario
def long_identity(s: Session) -> None:
    """An identity that is longer than those of clients."""
    s.begun(call(s, identity="x" * 1001))
    s.poll()


@scenario
def header(s: Session) -> None:
    """Headers are not for the server."""
    refused(s, calling(s, input=encoded(request(s)), nexus_header={"own": "v"}))


@scenario
def names_too_long(s: Session) -> None:
    """Names and time-outs are checked as those of other operations."""
    long = "x" * 1001
    refused(
        s,
        calling(s, service=long),
        calling(s, operation=long),
        calling(s, schedule_to_close_timeout=seconds(-1), input=encoded(request(s))),
        calling(s, service="svc", nexus_header={"own": "v"}),
        calling(s, nexus_header={"own": "v"}),
        calling(s, service="svc", schedule_to_close_timeout=seconds(-1)),
    )


@scenario
def not_an_endpoint(s: Session) -> None:
    """The endpoint is no endpoint that is managed."""
    call_of(s, "CreateNexusEndpoint", spec={**spec(s), "name": ENDPOINT})
    call_of(s, "ListNexusEndpoints", name=ENDPOINT)


@scenario
def without_a_workflow(s: Session) -> None:
    """As an operation without a workflow."""
    s.call(
        "StartNexusOperationExecution",
        operation_id=s.name("o"),
        endpoint=ENDPOINT,
        service=SERVICE,
        operation=OPERATION,
        identity="caller",
        request_id=s.request_id(),
        input=encoded(request(s)),
    )


@scenario
def beside_others(s: Session) -> None:
    """An operation of an endpoint in the same task."""
    endpoint(s)
    s.begun(call(s), operation(s))
    s.wait_event("nexus_operation_completed")
    s.poll()


@scenario
def closes_with_the_call(s: Session) -> None:
    """The caller closes in the task that makes the call."""
    s.begun(call(s), complete())
    s.history()


@scenario
def reset(s: Session) -> None:
    """The caller is reset to before the call, and makes it again."""
    run = s.begun(call(s))
    s.complete(s.poll(), complete())
    s.reset(4, run)
    s.run_task(call(s))
    s.poll()
