"""Nexus operations without a workflow: ids, policies, links, what is refused, long polls, lists, deletion."""

from __future__ import annotations

import time
from typing import Any

import grpc

from ..build import metadata, payload, seconds
from ..harness import Session, Stopped
from ..nexus import begin, begin_poll, endpoint, succeed, taken
from . import scenario
from .nexus_standalone import about, cancel, describe, outcome, start, started, terminate
from .search_attributes import add

SWITCHED_ON = True
NOBODY = "11111111-2222-4333-8444-555555555555"
PATIENCE = 20
REUSE = "NEXUS_OPERATION_ID_REUSE_POLICY_"
CONFLICT = "NEXUS_OPERATION_ID_CONFLICT_POLICY_"


def ended(s: Session, short: str = "o", **more: Any) -> str:
    """Starts an operation that its handler completes; returns its run id."""
    begun = begin_poll(s)
    run = start(s, short, **more)
    succeed(s, taken(s, begun), 1)
    outcome(s, short)
    return run


def listed(s: Session, query: str, **more: Any) -> Any:
    """Lists operations."""
    return s.call("ListNexusOperationExecutions", query=query, **more)


def counted(s: Session, query: str) -> None:
    """Counts operations."""
    s.call("CountNexusOperationExecutions", query=query)


def wait_listed(s: Session, query: str, count: int) -> None:
    """Waits, unrecorded, until lists know so many operations."""
    end = time.monotonic() + PATIENCE
    while s.silent("CountNexusOperationExecutions", query=query).count != count:
        if time.monotonic() > end:
            raise Stopped(f"{query} did not become {count}")
        time.sleep(0.1)


@scenario
def the_same_request_again(s: Session) -> None:
    """A start that is repeated, while it runs and after its end."""
    endpoint(s)
    begun = begin_poll(s)
    start(s, request_id="r1")
    start(s, request_id="r1")
    succeed(s, taken(s, begun), 1)
    outcome(s)
    start(s, request_id="r1")
    start(s, request_id="r1", id_reuse_policy=f"{REUSE}REJECT_DUPLICATE")


@scenario
def an_id_in_use(s: Session) -> None:
    """Another start with the id of one that runs."""
    endpoint(s)
    start(s)
    start(s)
    start(s, id_conflict_policy=f"{CONFLICT}FAIL")
    start(s, id_conflict_policy=f"{CONFLICT}USE_EXISTING")
    start(s, id_conflict_policy=7)
    start(s, id_reuse_policy=7)
    start(s, id_conflict_policy=f"{CONFLICT}USE_EXISTING", id_reuse_policy=f"{REUSE}REJECT_DUPLICATE")


@scenario
def an_id_used_before(s: Session) -> None:
    """Another start with the id of one that is over."""
    endpoint(s)
    first = ended(s)
    start(s, id_reuse_policy=f"{REUSE}REJECT_DUPLICATE")
    start(s, id_reuse_policy=f"{REUSE}ALLOW_DUPLICATE_FAILED_ONLY")
    start(s, id_reuse_policy=f"{REUSE}ALLOW_DUPLICATE")
    outcome(s, run_id=first)
    terminate(s)
    start(s, id_reuse_policy=f"{REUSE}REJECT_DUPLICATE")
    start(s, id_reuse_policy=f"{REUSE}ALLOW_DUPLICATE_FAILED_ONLY")
    describe(s, run_id=first)
    describe(s)
    cancel(s, run_id=first)
    terminate(s, run_id=first)


@scenario
def links(s: Session) -> None:
    """Links, options on conflict and callbacks of starts."""
    endpoint(s)
    link = {"workflow_event": {"namespace": "ns", "workflow_id": "wf", "run_id": NOBODY}}
    other = {"activity": {"namespace": "ns", "activity_id": "other", "run_id": NOBODY}}
    start(s, links=[link])
    describe(s)
    use = {"id_conflict_policy": f"{CONFLICT}USE_EXISTING"}
    start(s, links=[other], on_conflict_options={"attach_links": True}, **use)
    start(s, on_conflict_options={"attach_completion_callbacks": True}, **use)
    start(s, on_conflict_options={"attach_request_id": True}, **use)
    describe(s)
    start(s, "b", links=[{"workflow_event": {"workflow_id": "wf"}}])
    start(s, "c", completion_callbacks=[{"nexus": {"url": "http://localhost:1/"}}])
    start(s, "d", completion_callbacks=[{"nexus": {"url": "temporal://system"}}])
    describe(s, "d")


@scenario
def unknown(s: Session) -> None:
    """Calls about an operation or a run that does not exist, and calls that name none."""
    endpoint(s)
    start(s)
    for rpc in ("Describe", "Poll", "RequestCancel", "Terminate", "Delete"):
        about(s, rpc, "other")
        about(s, rpc, run_id=NOBODY)
        about(s, rpc, run_id="nonsense")
        about(s, rpc, operation_id="")
        about(s, rpc, operation_id="x" * 1001)
        about(s, rpc, namespace=s.name("nowhere"))
    for rpc in ("RequestCancel", "Terminate"):
        about(s, rpc, request_id="x" * 1001)
        about(s, rpc, identity="x" * 1001)
        about(s, rpc, reason="x" * 1001)
        about(s, rpc, reason="x" * (3 << 20))
    about(s, "Poll", wait_stage=7)
    about(s, "Describe", long_poll_token=b"nonsense")
    about(s, "Describe", long_poll_token=b"nonsense", run_id=NOBODY)


@scenario
def bad_starts(s: Session) -> None:
    """What is refused."""
    endpoint(s)
    start(s, operation_id="")
    start(s, operation_id="x" * 1001)
    start(s, endpoint="")
    start(s, endpoint="nowhere")
    start(s, endpoint="x" * 1001)
    start(s, service="")
    start(s, service="x" * 1001)
    start(s, operation="")
    start(s, operation="x" * 1001)
    start(s, request_id="x" * 1001)
    start(s, identity="x" * 1001)
    for field in ("schedule_to_close_timeout", "schedule_to_start_timeout", "start_to_close_timeout"):
        start(s, **{field: seconds(-1)})
    start(s, input=payload("x" * 2_600_000))
    start(s, nexus_header={"Request-Timeout": "1s"})
    start(s, nexus_header={"operation-timeout": "1s"})
    start(s, nexus_header={"big": "x" * 9000})
    start(s, user_metadata={"summary": payload("x" * 500)})
    start(s, user_metadata={"details": payload("x" * 20500)})
    start(s, search_attributes={"indexed_fields": {"NoSuchAttribute": payload("x")}})
    start(s, search_attributes={"indexed_fields": {"Endpoint": payload("x")}})
    start(s, operation_id="", endpoint="", service="", operation="")
    start(s, namespace=s.name("nowhere"))
    start(s, namespace="")


@scenario
def timeouts_are_fitted(s: Session) -> None:
    """Time-outs that are longer than the whole."""
    endpoint(s)
    more = {"schedule_to_start_timeout": seconds(20), "start_to_close_timeout": seconds(30)}
    start(s, schedule_to_close_timeout=seconds(9), **more)
    describe(s)
    start(s, "p", **more)
    describe(s, "p")


@scenario
def long_polls(s: Session) -> None:
    """Descriptions that wait for a change."""
    task = started(s)
    described = describe(s)
    run, token = described.run_id, described.long_poll_token
    waiting = s.begin(
        "DescribeNexusOperationExecution", 15, operation_id=s.name("o"), run_id=run, long_poll_token=token
    )
    begin(s, task)
    changed = s.join(waiting)
    about(s, "Describe", run_id=run, long_poll_token=token)
    about(s, "Describe", long_poll_token=token)
    start(s, "p")
    about(s, "Describe", "p", run_id=NOBODY, long_poll_token=token)
    other = s.silent("DescribeNexusOperationExecution", operation_id=s.name("p"))
    about(s, "Describe", "p", run_id=other.run_id, long_poll_token=token)
    waiting = s.begin(
        "DescribeNexusOperationExecution", 15, operation_id=s.name("o"), run_id=run,
        long_poll_token=changed.long_poll_token, include_outcome=True,
    )
    time.sleep(0.3)
    terminate(s)
    s.join(waiting)
    about(s, "Describe", run_id=run, long_poll_token=changed.long_poll_token)


@scenario
def deleted(s: Session) -> None:
    """Deleted while it runs, and after its end."""
    endpoint(s)
    run = ended(s)
    about(s, "Delete")
    wait_gone(s, run)
    describe(s)
    about(s, "Delete")
    start(s, "p")
    about(s, "Delete", "p")
    wait_gone(s, "", "p")
    describe(s, "p")


def wait_gone(s: Session, run: str, short: str = "o") -> None:
    """Waits, unrecorded, until an operation is gone."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            s.silent("DescribeNexusOperationExecution", operation_id=s.name(short), run_id=run)
        except grpc.RpcError:
            return
        if time.monotonic() > end:
            raise Stopped("the operation did not go away")
        time.sleep(0.1)


@scenario
def found(s: Session) -> None:
    """Lists and counts, by what filters know."""
    s.namespace = s.new_namespace()
    add(s, Customer="KEYWORD")
    endpoint(s)
    mine = f"Endpoint = '{s.name('ep')}'"
    customer = {"indexed_fields": {"Customer": payload("c")}}
    ended(s, "a", search_attributes=customer)
    start(s, "b", service="other", user_metadata=metadata("summary"))
    start(s, "c", operation="other", request_id=s.name("req"))
    terminate(s, "c")
    wait_listed(s, f"{mine} AND ExecutionStatus = 'Terminated'", 1)
    wait_listed(s, f"{mine} AND ExecutionStatus = 'Completed'", 1)
    wait_listed(s, mine, 3)
    own_id = s.silent("DescribeNexusOperationExecution", operation_id=s.name("b")).info.request_id
    for query in (
        f"RequestId = '{own_id}'",
        f"{mine} AND Service = 'other'",
        f"{mine} AND Operation = 'other'",
        f"OperationId = '{s.name('a')}'",
        f"OperationId != '{s.name('a')}' AND {mine} AND Service = 'svc'",
        f"OperationId STARTS_WITH 'a-' AND {mine}",
        f"OperationId IN ('{s.name('a')}', 'x')",
        f"RequestId = '{s.name('req')}'",
        f"{mine} AND ExecutionStatus = 'Completed'",
        f"{mine} AND ExecutionStatus = 'Running'",
        f"{mine} AND ExecutionStatus != 'Running' AND CloseTime IS NULL",
        f"{mine} AND Customer = 'c'",
        f"{mine} AND StartTime > '2020-01-01T00:00:00Z' AND Service = 'other'",
        f"{mine} AND ExecutionDuration < '1h' AND Service = 'svc' AND Operation = 'op'",
        f"{mine} AND TemporalNamespaceDivision = '131748067' AND Service = 'other'",
    ):
        listed(s, query)
        counted(s, query)
    counted(s, f"{mine} GROUP BY ExecutionStatus")


@scenario
def found_otherwise(s: Session) -> None:
    """Filters that are refused."""
    for query in ("NoSuchAttribute = 1", "ActivityId = 'x'", "nonsense", "Endpoint = "):
        listed(s, query)
        counted(s, query)
    counted(s, "GROUP BY Service")
    counted(s, "GROUP BY StartTime")


@scenario
def pages(s: Session) -> None:
    """Pages of a list."""
    endpoint(s)
    mine = f"Endpoint = '{s.name('ep')}' AND Service = 'svc'"
    for short in ("a", "b", "c"):
        start(s, short)
    wait_listed(s, mine, 3)
    page = listed(s, mine, page_size=2)
    listed(s, mine, page_size=2, next_page_token=page.next_page_token)
    listed(s, mine, page_size=-1)
    s.call("ListNexusOperationExecutions", namespace=s.name("nowhere"))
    s.call("CountNexusOperationExecutions", namespace=s.name("nowhere"))


@scenario
def no_workflows(s: Session) -> None:
    """The same id as a workflow; calls about workflows do not find operations."""
    endpoint(s)
    start(s, "a")
    s.call("DescribeWorkflowExecution", execution=s.execution("a"))
    s.start("a")
    s.describe("a")
    terminate(s, "a")
    s.describe("a")


@scenario
def announced(s: Session) -> None:
    """SDKs learn from a namespace that it has them."""
    found = s.silent("DescribeNamespace").namespace_info.capabilities
    s.observe("capabilities", {"standalone_nexus_operation": found.standalone_nexus_operation})
