"""Operations of Nexus that workflows schedule and handlers end at once; commands and answers that are not allowed."""

from __future__ import annotations

import time
from typing import Any

from ..build import Fields, command, complete, failure, metadata, payload, payloads, seconds
from ..harness import NAMESPACE, Session
from ..nexus import (
    QUEUE,
    accept_cancel,
    begin,
    begin_poll,
    called,
    endpoint,
    fail,
    fail_operation,
    handler_failure,
    operation,
    poll,
    respond,
    succeed,
    taken,
)
from . import scenario
from .namespaces import REFRESH

EVENT = "temporal.api.common.v1.Link.WorkflowEvent"
RUN = "11111111-2222-4333-8444-555555555555"
FATAL = ["BAD_REQUEST", "UNAUTHENTICATED", "UNAUTHORIZED", "NOT_FOUND", "CONFLICT", "NOT_IMPLEMENTED"]
PASSING = ["REQUEST_TIMEOUT", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE", "UPSTREAM_TIMEOUT", "ODD", ""]


def link(event: str = "WorkflowExecutionStarted", number: int = 1) -> Fields:
    """A link of a handler's answer to an event of a workflow."""
    path = f"temporal:///namespaces/default/workflows/other/{RUN}/history"
    return {"url": f"{path}?eventID={number}&eventType={event}&referenceType=EventReference", "type": EVENT}


def old_error(kind: str, behavior: str = "", **more: Any) -> Fields:
    """A handler's error in the older form."""
    out: Fields = {"error_type": kind, "failure": {"message": "no handler", **more}}
    if behavior:
        out["retry_behavior"] = f"NEXUS_HANDLER_ERROR_RETRY_BEHAVIOR_{behavior}"
    return out


def operation_error(state: str, **failed: Any) -> Fields:
    """The end of an operation in the older form."""
    return {"operation_state": state, "failure": {"message": "sorry", **failed}}


def ends(s: Session, **outcome: Any) -> None:
    """An operation that its handler ends without a result."""
    endpoint(s)
    fail_operation(s, called(s), **outcome)
    s.poll()


def not_carried_out(s: Session, **what: Any) -> None:
    """An operation that its handler cannot carry out, for good."""
    endpoint(s)
    fail(s, called(s), **what)
    s.poll()


@scenario
def succeeded(s: Session) -> None:
    """All that a task has; headers, input and links; no event of a start."""
    endpoint(s)
    task = called(
        s,
        operation(
            s,
            metadata("summary"),
            input=payload("in"),
            nexus_header={"Own": "v", "UPPER": "W"},
            schedule_to_close_timeout=seconds(30),
        ),
    )
    s.describe()
    succeed(s, task, "out", links=[link()])
    s.poll()
    s.describe()


@scenario
def succeeded_without_result(s: Session) -> None:
    """Neither input nor result."""
    endpoint(s)
    succeed(s, called(s))
    s.poll()


@scenario
def headers_of_time_outs(s: Session) -> None:
    """What a handler learns about the time it has."""
    endpoint(s)
    times = {"start_to_close_timeout": seconds(20), "schedule_to_start_timeout": seconds(40)}
    succeed(s, called(s, operation(s, schedule_to_close_timeout=seconds(50), **times)))
    s.poll()


@scenario
def header_of_time(s: Session) -> None:
    """A time that the user gives the handler."""
    endpoint(s)
    header = {"operation-timeout": "7s", "x-own": "a, b"}
    succeed(s, called(s, operation(s, schedule_to_close_timeout=seconds(50), nexus_header=header)))
    s.poll()


@scenario
def header_of_odd_time(s: Session) -> None:
    """A time that nobody can read."""
    endpoint(s)
    header = {"operation-timeout": "soon"}
    succeed(s, called(s, operation(s, schedule_to_close_timeout=seconds(50), nexus_header=header)))
    s.poll()


@scenario
def header_of_request(s: Session) -> None:
    """Headers of the user that identify the request and its sender."""
    endpoint(s)
    succeed(s, called(s, operation(s, nexus_header={"nexus-request-id": "own", "user-agent": "own"})))
    s.poll()


@scenario
def header_of_authorization(s: Session) -> None:
    """What a caller says about itself reaches the handler."""
    endpoint(s)
    succeed(s, called(s, operation(s, nexus_header={"Authorization": "secret"})))
    s.poll()


@scenario
def headers_dropped(s: Session) -> None:
    """Headers that handlers do not get."""
    endpoint(s)
    header = {"accept-encoding": "x", "x-forwarded-for": "x", "temporal-nexus-failure-support": "false"}
    succeed(s, called(s, operation(s, nexus_header=header)))
    s.poll()


@scenario
def header_of_callback(s: Session) -> None:
    """A header that the callback is to have."""
    endpoint(s)
    succeed(s, called(s, operation(s, nexus_header={"Nexus-Callback-Own": "v"})))
    s.poll()


@scenario
def two_in_turn(s: Session) -> None:
    """A second operation after the first."""
    endpoint(s)
    succeed(s, called(s), 1)
    succeed(s, called(s, operation(s, operation="second"), task=s.poll()), 2)
    s.poll()


@scenario
def odd_names(s: Session) -> None:
    """Names that a URL has to escape."""
    endpoint(s)
    succeed(s, called(s, operation(s, service="a b?c%d", operation="é+&=:@,;")))
    s.poll()


@scenario
def no_operation(s: Session) -> None:
    """An operation without a name."""
    endpoint(s)
    s.begun(operation(s, operation=""))
    s.poll()


@scenario
def link_kinds(s: Session) -> None:
    """Links of answers: other kinds, unknown ones, broken ones."""
    endpoint(s)
    base = "temporal:///namespaces/default"
    kind = "temporal.api.common.v1.Link"
    by_request = "?eventType=WorkflowExecutionOptionsUpdated&referenceType=RequestIdReference&requestID=r%201"
    links = [
        {"url": f"{base}/workflows/w%2F1/{RUN}/history{by_request}", "type": EVENT},
        {"url": f"{base}/nexus-operations/o/{RUN}/details", "type": f"{kind}.NexusOperation"},
        {"url": f"{base}/activities/a/{RUN}/details", "type": f"{kind}.Activity"},
        {"url": f"{base}/workflows/w/{RUN}/history", "type": f"{kind}.Workflow"},
        {"url": "http://example.com/x", "type": "own"},
        {"url": f"{base}/workflows/w/{RUN}/history?eventID=x", "type": EVENT},
        {"url": "%zz", "type": EVENT},
        link("Odd", 2),
        link("EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED", 3),
    ]
    succeed(s, called(s), links=links)
    s.poll()


@scenario
def other_namespace(s: Session) -> None:
    """The handler is in another namespace."""
    name = s.new_namespace()
    time.sleep(REFRESH)
    endpoint(s, target={"worker": {"namespace": name, "task_queue": s.name(QUEUE)}})
    s.start()
    task = s.poll()
    begun = begin_poll(s, namespace=name)
    s.complete(task, operation(s))
    found = taken(s, begun)
    # The answer belongs to the namespace of the handler.
    succeed(s, found)
    s.namespace = name
    succeed(s, found)
    s.namespace = NAMESPACE
    s.poll()


@scenario
def ends_while_task_runs(s: Session) -> None:
    """The result comes while a workflow task is under way."""
    endpoint(s)
    handler = called(s)
    s.signal()
    task = s.poll()
    succeed(s, handler, "out")
    s.history()
    s.complete(task)
    s.poll()


@scenario
def failed_old(s: Session) -> None:
    """An operation fails, in the older form."""
    ends(s, operation_error=operation_error("failed"))


@scenario
def failed_old_with_details(s: Session) -> None:
    """A failure with metadata, details and stack trace."""
    more = {"metadata": {"k": "v"}, "details": b'{"a": [1, 2.50, null]}', "stack_trace": "here"}
    ends(s, operation_error=operation_error("failed", **more))


@scenario
def failed_old_of_temporal(s: Session) -> None:
    """A failure of Temporal in the older form."""
    details = b'{"applicationFailureInfo": {"type": "T", "nonRetryable": true}, "source": "x", "message": "other"}'
    kind = {"type": "temporal.api.failure.v1.Failure"}
    cause = {"message": "deep", "metadata": kind, "details": b'{"timeoutFailureInfo": {"timeoutType": 1}}'}
    ends(s, operation_error=operation_error("failed", metadata=kind, details=details, cause=cause))


@scenario
def failed_old_of_operation(s: Session) -> None:
    """A failure that is an error of an operation, with its cause."""
    kind = {"type": "nexus.OperationError"}
    cause = {"message": "deep"}
    ends(s, operation_error=operation_error("failed", metadata=kind, details=b'{"state": "failed"}', cause=cause))


@scenario
def failed_old_wrapped(s: Session) -> None:
    """A failure that only wraps its cause."""
    kind = {"type": "nexus.OperationError", "unwrap-error": "true"}
    cause = {"message": "deep"}
    ends(s, operation_error=operation_error("failed", metadata=kind, details=b'{"state": "failed"}', cause=cause))


@scenario
def canceled_old(s: Session) -> None:
    """An operation is canceled, in the older form."""
    ends(s, operation_error=operation_error("canceled", stack_trace="here", metadata={"k": "v"}))


@scenario
def failed(s: Session) -> None:
    """An operation fails with an application failure and its cause."""
    sorry = failure("sorry", details=payloads("d"))
    ends(s, failure={**sorry, "cause": failure("deep"), "stack_trace": "here"})


@scenario
def failed_plain(s: Session) -> None:
    """An operation fails with a failure of no kind."""
    ends(s, failure={"message": "sorry"})


@scenario
def failed_otherwise(s: Session) -> None:
    """An operation fails with a failure of another kind."""
    ends(s, failure={"message": "late", "timeout_failure_info": {"timeout_type": "TIMEOUT_TYPE_HEARTBEAT"}})


@scenario
def failed_by_handler_failure(s: Session) -> None:
    """An operation fails with a handler's failure, which would be retried if the handler had failed."""
    ends(s, failure=handler_failure("INTERNAL"))


@scenario
def failed_by_operation_failure(s: Session) -> None:
    """An operation fails with the failure that the handler's workflow got from an operation."""
    info = {"scheduled_event_id": 7, "endpoint": "e", "service": "s", "operation": "o", "operation_token": "t"}
    ends(s, failure={"message": "inner", "nexus_operation_execution_failure_info": info, "cause": failure()})


@scenario
def failed_encoded(s: Session) -> None:
    """Message and stack trace of a failure are encoded."""
    encoded = {"message": "Encoded failure", "encoded_attributes": payload("secret")}
    ends(s, failure={**encoded, "application_failure_info": {}})


@scenario
def canceled(s: Session) -> None:
    """An operation is canceled."""
    ends(s, failure={"message": "stop", "canceled_failure_info": {"details": payloads("d")}, "cause": failure()})


@scenario
def odd_state(s: Session) -> None:
    """An operation ends in no known state."""
    endpoint(s)
    tried_again_by_answer(s, operation_error=operation_error("odd"))


def tried_again_by_answer(s: Session, **outcome: Any) -> None:
    """An answer that counts as an error of the handler."""
    fail_operation(s, called(s), **outcome)
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt)
    s.describe()


@scenario
def fatal_errors_old(s: Session) -> None:
    """Errors of handlers that end an operation, in the older form."""
    endpoint(s)
    s.start()
    task = s.poll()
    for kind in FATAL:
        fail(s, called(s, task=task), error=old_error(kind))
        task = s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker")
    s.history()


@scenario
def fatal_errors(s: Session) -> None:
    """Errors of handlers that end an operation."""
    endpoint(s)
    s.start()
    task = s.poll()
    for kind in FATAL:
        fail(s, called(s, task=task), failure=handler_failure(kind))
        task = s.silent("PollWorkflowTaskQueue", task_queue=s.queue(), identity="worker")
    s.history()


@scenario
def passing_errors_old(s: Session) -> None:
    """Errors of handlers after which an operation is tried again, in the older form."""
    for number, kind in enumerate(PASSING):
        endpoint(s, f"ep{number}")
        tried_again_at(s, number, error=old_error(kind))


@scenario
def passing_errors(s: Session) -> None:
    """Errors of handlers after which an operation is tried again."""
    for number, kind in enumerate(PASSING):
        endpoint(s, f"ep{number}")
        tried_again_at(s, number, failure=handler_failure(kind))


def tried_again_at(s: Session, number: int, **what: Any) -> None:
    """An operation that its handler cannot carry out for now: how its workflow describes it."""
    wf, queue = f"wf{number}", f"q{number}"
    s.start(wf, queue)
    fail(s, called(s, operation(s, endpoint=s.name(f"ep{number}")), task=s.poll(queue)), **what)
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt, wf)
    s.describe(wf)
    s.terminate(wf)


@scenario
def error_with_details_old(s: Session) -> None:
    """Stack trace, metadata, details and cause of a handler's error in the older form."""
    more = {"metadata": {"k": "v"}, "details": b'"d"', "stack_trace": "here", "cause": {"message": "deep"}}
    not_carried_out(s, error=old_error("NOT_FOUND", **more))


@scenario
def error_of_temporal_old(s: Session) -> None:
    """A handler's error in the older form whose failure is one of Temporal."""
    kind = {"type": "temporal.api.failure.v1.Failure"}
    more = {"metadata": kind, "details": b'{"applicationFailureInfo": {"type": "T"}}'}
    not_carried_out(s, error=old_error("NOT_FOUND", **more))


@scenario
def error_without_failure_old(s: Session) -> None:
    """A handler's error in the older form that says nothing more."""
    not_carried_out(s, error={"error_type": "NOT_FOUND"})


@scenario
def error_with_cause(s: Session) -> None:
    """A handler's error with its cause and stack trace."""
    more = {"stack_trace": "here", "source": "SDK", "cause": failure("deep", details=payloads("d"))}
    not_carried_out(s, failure=handler_failure("NOT_FOUND", **more))


@scenario
def not_retryable(s: Session) -> None:
    """An error that would be retried, if the handler did not forbid it."""
    not_carried_out(s, failure=handler_failure("INTERNAL", behavior="NON_RETRYABLE"))


@scenario
def not_retryable_old(s: Session) -> None:
    """The same in the older form."""
    not_carried_out(s, error=old_error("INTERNAL", "NON_RETRYABLE"))


@scenario
def retryable(s: Session) -> None:
    """An error that would not be retried, if the handler did not allow it; the next attempt succeeds."""
    endpoint(s)
    fail(s, called(s), failure=handler_failure("NOT_FOUND", behavior="RETRYABLE"))
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt)
    s.describe()
    succeed(s, poll(s), "out")
    s.poll()


@scenario
def retryable_old(s: Session) -> None:
    """The same in the older form."""
    endpoint(s)
    fail(s, called(s), error=old_error("NOT_FOUND", "RETRYABLE"))
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt)
    s.describe()
    task = poll(s)
    s.describe()
    begin(s, task)
    s.poll()
    s.describe()


@scenario
def closed_while_pending(s: Session) -> None:
    """A workflow that closes forgets its operations; a handler's answer comes too late."""
    endpoint(s)
    task = called(s)
    s.signal()
    s.run_task(complete())
    s.history()
    s.describe()
    succeed(s, task)


@scenario
def closes_at_once(s: Session) -> None:
    """A workflow that schedules an operation and closes."""
    endpoint(s)
    s.begun(operation(s), complete())
    s.history()
    s.describe()


@scenario
def unknown_endpoints(s: Session) -> None:
    """Endpoints that are not there."""
    for name in (s.name("nobody"), "", "a_b", "x" * 300):
        s.start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING")
        s.run_task(operation(s, endpoint=name))
    s.history()


@scenario
def bad_commands(s: Session) -> None:
    """What a command may not have."""
    endpoint(s)
    long = "x" * 1001
    for bad in (
        {"service": long},
        {"operation": long},
        {"service": long, "operation": long, "schedule_to_close_timeout": seconds(-1)},
        {"schedule_to_close_timeout": seconds(-1)},
        {"schedule_to_start_timeout": seconds(-1)},
        {"start_to_close_timeout": seconds(-1)},
        {"nexus_header": {"Request-Timeout": "1s"}},
        {"nexus_header": {"request-timeout": "1s", "own": "v"}},
        {"nexus_header": {"xdc-redirection": "x"}},
        {"nexus_header": {"xdc-redirection-api": "x"}},
        {"nexus_header": {"xdc-redirection-source-cell": "x"}},
        {"nexus_header": {"caller-name": "x"}},
        {"nexus_header": {"caller-type": "x"}},
        {"nexus_header": {"call-initiation": "x"}},
        {"nexus_header": {"temporal-principal-type": "x"}},
        {"nexus_header": {"Temporal-Principal-Name": "x"}},
        {"nexus_header": {"k": "v" * 8192}},
    ):
        s.start(workflow_id_conflict_policy="WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING")
        s.run_task(operation(s, **bad))
    s.history()


@scenario
def headers_of_most_bytes(s: Session) -> None:
    """As many bytes of headers as there may be."""
    endpoint(s)
    s.begun(operation(s, nexus_header={"k": "v" * 8191}))
    s.history()


@scenario
def no_attributes(s: Session) -> None:
    """Commands without attributes."""
    s.start()
    s.run_task({"command_type": "COMMAND_TYPE_SCHEDULE_NEXUS_OPERATION"})
    s.run_task({"command_type": "COMMAND_TYPE_REQUEST_CANCEL_NEXUS_OPERATION"})
    s.history()


@scenario
def input_too_large(s: Session) -> None:
    """An input above the limit of payloads."""
    endpoint(s)
    big = {"metadata": {"encoding": b"binary/plain"}, "data": b"x" * (2 * 1024 * 1024 + 1)}
    s.begun(operation(s, input=big))
    s.history()


@scenario
def result_too_large(s: Session) -> None:
    """A result above the limit of payloads."""
    endpoint(s)
    big = {"metadata": {"encoding": b"binary/plain"}, "data": b"x" * (2 * 1024 * 1024 + 1)}
    respond(s, called(s), {"start_operation": {"sync_success": {"payload": big}}})
    s.poll()


@scenario
def too_many(s: Session) -> None:
    """More operations than a workflow may have pending."""
    endpoint(s)
    s.begun(*[operation(s)] * 31)
    s.history()


@scenario
def system_endpoint(s: Session) -> None:
    """The endpoint of the server's own operations."""
    called = {"endpoint": "__temporal_system", "service": "temporal.api.workflowservice.v1.WorkflowService"}
    s.begun(operation(s, **called))
    s.poll()
    s.history()
    broken = {"metadata": {"encoding": b"binary/protobuf"}, "data": b"\xff"}
    own = [{"input": {**broken, "data": b""}}, {"input": broken}, {}, {"nexus_header": {"own": "v"}}]
    for number, each in enumerate(own):
        s.start(f"wf{number}", f"q{number}")
        s.run_task(operation(s, **called, operation="SignalWithStartWorkflowExecution", **each), queue=f"q{number}")


@scenario
def bad_tokens(s: Session) -> None:
    """Answers to no task."""
    for rpc in ("RespondNexusTaskCompleted", "RespondNexusTaskFailed"):
        for token in (b"", b"junk"):
            s.call(rpc, task_token=token, identity="handler")


@scenario
def answered_twice(s: Session) -> None:
    """A second answer to a task."""
    endpoint(s)
    task = called(s)
    succeed(s, task)
    succeed(s, task)
    fail(s, task, failure=handler_failure())
    s.poll()


@scenario
def failed_twice(s: Session) -> None:
    """A second answer to an attempt that failed."""
    endpoint(s)
    task = called(s)
    fail(s, task, failure=handler_failure())
    fail(s, task, failure=handler_failure())
    succeed(s, task)
    succeed(s, poll(s))
    s.poll()


@scenario
def bad_answers(s: Session) -> None:
    """Answers that are refused leave the task as it is."""
    endpoint(s)
    task = called(s)
    respond(s, task, {"start_operation": {"async_success": {}}})
    begin(s, task, "t" * 4097)
    fail_operation(s, task, operation_error=operation_error("failed", details=b"no JSON"))
    fail(s, task)
    fail(s, task, failure=failure())
    fail(s, task, error=old_error("NOT_FOUND", details=b"no JSON"))
    s.describe()
    begin(s, task, "t" * 4096)
    s.poll()


@scenario
def empty_answer(s: Session) -> None:
    """An answer without content."""
    endpoint(s)
    respond(s, called(s), None)
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt)
    s.describe()


@scenario
def empty_outcome(s: Session) -> None:
    """An answer to a start without an outcome."""
    endpoint(s)
    tried_again_by_answer(s)


@scenario
def answer_to_cancel(s: Session) -> None:
    """An answer to a request that was not made."""
    endpoint(s)
    accept_cancel(s, called(s))
    s.wait_describe(lambda d: d.pending_nexus_operations[0].attempt)
    s.describe()


@scenario
def old_token(s: Session) -> None:
    """An operation goes on under an id, as older SDKs have it."""
    endpoint(s)
    respond(s, called(s), {"start_operation": {"async_success": {"operation_id": "old", "links": [link()]}}})
    s.poll()
    s.describe()


@scenario
def failed_task(s: Session) -> None:
    """A workflow task with an operation and a bad command schedules nothing."""
    endpoint(s)
    s.begun(operation(s), command("START_TIMER", timer_id=""))
    s.history()
    s.describe()
