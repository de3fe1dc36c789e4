"""Standalone activities: started without a workflow, polled by the same workers, waited for, described, found, ended."""

from __future__ import annotations

import time
from typing import Any

import grpc

from ..build import big, failure, fields, metadata, payload, payloads, retry, seconds
from ..harness import Session, Stopped
from . import scenario
from .search_attributes import add

NOBODY = "11111111-2222-4333-8444-555555555555"
PATIENCE = 20


def start(s: Session, short: str = "a", **more: Any) -> str:
    """Starts an activity and returns its run id ("" after an error)."""
    plain = {
        "activity_id": s.name(short),
        "activity_type": {"name": "act"},
        "task_queue": {"name": s.name("q")},
        "start_to_close_timeout": seconds(10),
        "identity": "caller",
        "request_id": s.request_id(),
    }
    given = {k: v for k, v in {**plain, **more}.items() if v is not None}
    response = s.call("StartActivityExecution", **given)
    return response.run_id if response else ""


def about(s: Session, rpc: str, short: str = "a", **more: Any) -> Any:
    """A call about an activity."""
    return s.call(rpc, **{"activity_id": s.name(short), **more})


def describe(s: Session, short: str = "a", **more: Any) -> Any:
    """Describes an activity with everything there is."""
    everything = {
        "include_input": True,
        "include_outcome": True,
        "include_last_failure": True,
        "include_heartbeat_details": True,
    }
    return about(s, "DescribeActivityExecution", short, **{**everything, **more})


def outcome(s: Session, short: str = "a", **more: Any) -> Any:
    """Waits for the end of an activity."""
    return about(s, "PollActivityExecution", short, **{"deadline": PATIENCE, **more})


def cancel(s: Session, short: str = "a", **more: Any) -> None:
    """Requests cancellation."""
    given = {"identity": "canceller", "reason": "no need", "request_id": s.request_id(), **more}
    about(s, "RequestCancelActivityExecution", short, **given)


def terminate(s: Session, short: str = "a", **more: Any) -> None:
    """Terminates an activity."""
    given = {"identity": "terminator", "reason": "enough", "request_id": s.request_id(), **more}
    about(s, "TerminateActivityExecution", short, **given)


def by_id(s: Session, rpc: str, short: str = "a", **more: Any) -> None:
    """One of the calls of a worker that name an activity by its id."""
    about(s, rpc, short, **{"identity": "worker", **more})


def wait_listed(s: Session, query: str, count: int) -> None:
    """Waits, unrecorded, until lists know so many activities."""
    end = time.monotonic() + PATIENCE
    while s.silent("CountActivityExecutions", query=query).count != count:
        if time.monotonic() > end:
            raise Stopped(f"{query} did not become {count}")
        time.sleep(0.1)


# -- the life of an activity --------------------------------------------------------------


@scenario
def completed(s: Session) -> None:
    """Started, described, polled, described, completed, waited for, described."""
    start(
        s,
        input=payloads("in", 2),
        header=fields(h="header"),
        user_metadata=metadata("summary", "details"),
        schedule_to_close_timeout=seconds(60),
        heartbeat_timeout=seconds(9),
        priority={"priority_key": 2, "fairness_key": "f", "fairness_weight": 2},
    )
    describe(s)
    task = s.poll_activity()
    describe(s)
    s.heartbeat(task, "half")
    describe(s)
    s.complete_activity(task, "out")
    outcome(s)
    describe(s)
    about(s, "DescribeActivityExecution")
    s.complete_activity(task, "out")
    s.heartbeat(task)
    s.fail_activity(task, failure())


@scenario
def minimal(s: Session) -> None:
    """Only what must be given; no result."""
    run = start(s, start_to_close_timeout=None, schedule_to_close_timeout=seconds(30), identity=None, request_id=None)
    describe(s)
    about(s, "DescribeActivityExecution", run_id=run)
    task = s.poll_activity()
    s.complete_activity(task)
    outcome(s, run_id=run)
    about(s, "DescribeActivityExecution", run_id=run, include_outcome=True)


@scenario
def failed_for_good(s: Session) -> None:
    """A failure that must not be retried."""
    start(s)
    task = s.poll_activity()
    s.fail_activity(task, failure(non_retryable=True))
    outcome(s)
    describe(s)


@scenario
def failed_without_failure(s: Session) -> None:
    """A worker fails it without saying how, with one attempt."""
    start(s, retry_policy=retry(1, maximum_attempts=1))
    task = s.poll_activity()
    s.call("RespondActivityTaskFailed", task_token=task.task_token, identity="worker")
    outcome(s)
    describe(s)


@scenario
def retried(s: Session) -> None:
    """A failure is retried after the interval of the policy; what a heartbeat said is handed on."""
    start(s, retry_policy=retry(1, maximum_attempts=3, backoff_coefficient=1), input=payloads("in"))
    task = s.poll_activity()
    s.heartbeat(task, 1)
    s.fail_activity(task, failure("first"), last_heartbeat_details=payloads(2))
    describe(s)
    task = s.poll_activity()
    describe(s)
    s.fail_activity(task, failure("second", next_retry_delay=seconds(2)))
    describe(s)
    task = s.poll_activity()
    s.fail_activity(task, failure("third"))
    outcome(s)
    describe(s)


@scenario
def attempts_are_told_apart(s: Session) -> None:
    """A token of an attempt that is over."""
    start(s, retry_policy=retry(0.1))
    first = s.poll_activity()
    s.fail_activity(first, failure("first"))
    second = s.poll_activity()
    s.complete_activity(first, "late")
    s.heartbeat(first)
    s.complete_activity(second, "in time")
    outcome(s)


@scenario
def no_more_time_to_retry(s: Session) -> None:
    """The next attempt would begin after the time for all of them."""
    start(s, schedule_to_close_timeout=seconds(5), retry_policy=retry(20))
    task = s.poll_activity()
    s.fail_activity(task, failure("first"))
    outcome(s)
    describe(s)


# -- time-outs ----------------------------------------------------------------------------


@scenario
def timed_out_waiting(s: Session) -> None:
    """No worker takes it in time."""
    start(s, schedule_to_start_timeout=seconds(1))
    outcome(s)
    describe(s)


@scenario
def timed_out_as_a_whole(s: Session) -> None:
    """It does not end in time, all attempts together."""
    start(s, start_to_close_timeout=None, schedule_to_close_timeout=seconds(2), retry_policy=retry(0.1))
    task = s.poll_activity()
    s.fail_activity(task, failure("first"))
    task = s.poll_activity()
    s.heartbeat(task, "said")
    outcome(s)
    describe(s)
    s.complete_activity(task)


@scenario
def timed_out_running(s: Session) -> None:
    """Attempts take too long, until there are none left."""
    start(s, start_to_close_timeout=seconds(1), retry_policy=retry(1, maximum_attempts=2, backoff_coefficient=1))
    s.poll_activity()
    task = s.poll_activity()
    describe(s)
    s.heartbeat(task, "said")
    outcome(s)
    describe(s)


@scenario
def timed_out_without_heartbeat(s: Session) -> None:
    """A worker is silent for too long."""
    start(s, heartbeat_timeout=seconds(1), retry_policy=retry(1, maximum_attempts=1))
    task = s.poll_activity()
    s.heartbeat(task, "said")
    outcome(s)
    describe(s)


@scenario
def timed_out_before_a_retry(s: Session) -> None:
    """An attempt runs out, and there is no time for another one."""
    start(s, start_to_close_timeout=seconds(1), schedule_to_close_timeout=seconds(4), retry_policy=retry(10))
    s.poll_activity()
    outcome(s)
    describe(s)


# -- cancellation and termination ---------------------------------------------------------


@scenario
def cancelled_before_it_starts(s: Session) -> None:
    """No worker has it: it ends at once."""
    start(s)
    cancel(s, request_id="c1")
    outcome(s)
    describe(s)
    cancel(s, request_id="c1")
    cancel(s, request_id="c2")


@scenario
def cancelled_while_it_runs(s: Session) -> None:
    """The worker hears of it by heartbeat and obeys."""
    start(s)
    task = s.poll_activity()
    s.call("RespondActivityTaskCanceled", task_token=task.task_token, identity="worker", details=payloads("why"))
    cancel(s, request_id="c1")
    cancel(s, request_id="c1")
    cancel(s, request_id="c2")
    describe(s)
    s.heartbeat(task, 1)
    s.call("RespondActivityTaskCanceled", task_token=task.task_token, identity="worker", details=payloads("gone"))
    outcome(s)
    describe(s)


@scenario
def cancelled_and_failed(s: Session) -> None:
    """A worker fails instead of obeying: it is not retried."""
    start(s)
    task = s.poll_activity()
    cancel(s)
    s.fail_activity(task, failure("no"))
    outcome(s)
    describe(s)


@scenario
def cancelled_and_completed(s: Session) -> None:
    """A worker completes instead of obeying."""
    start(s)
    task = s.poll_activity()
    cancel(s)
    s.complete_activity(task, "done all the same")
    outcome(s)
    describe(s)


@scenario
def cancelled_and_timed_out(s: Session) -> None:
    """A worker does not obey in time."""
    start(s, start_to_close_timeout=seconds(1))
    s.poll_activity()
    cancel(s)
    outcome(s)


@scenario
def cancelled_between_attempts(s: Session) -> None:
    """Cancelled while the next attempt is not due yet, without a reason."""
    start(s, retry_policy=retry(30))
    task = s.poll_activity()
    s.fail_activity(task, failure("first"))
    cancel(s, reason=None)
    outcome(s)
    describe(s)


@scenario
def terminated(s: Session) -> None:
    """Ended at once; again with the same request, with another one, and after it completed."""
    start(s)
    task = s.poll_activity()
    terminate(s, request_id="t1")
    outcome(s)
    describe(s)
    terminate(s, request_id="t1")
    terminate(s, request_id="t2")
    s.complete_activity(task)
    s.heartbeat(task)
    cancel(s)
    start(s, "b")
    s.complete_activity(s.poll_activity())
    terminate(s, "b")
    cancel(s, "b")


@scenario
def unknown(s: Session) -> None:
    """Calls about an activity or a run that does not exist, and calls that name none."""
    start(s)
    for rpc in (
        "DescribeActivityExecution",
        "PollActivityExecution",
        "RequestCancelActivityExecution",
        "TerminateActivityExecution",
        "DeleteActivityExecution",
        "PauseActivityExecution",
        "UnpauseActivityExecution",
        "ResetActivityExecution",
    ):
        about(s, rpc, "other")
        about(s, rpc, run_id=NOBODY)
        about(s, rpc, run_id="nonsense")
        about(s, rpc, activity_id="")
        about(s, rpc, activity_id="x" * 1001)
        about(s, rpc, namespace=s.name("nowhere"))
    about(s, "DescribeActivityExecution", long_poll_token=b"nonsense")
    about(s, "DescribeActivityExecution", long_poll_token=b"nonsense", run_id=NOBODY)


@scenario
def workflows_are_no_activities(s: Session) -> None:
    """The same id as a workflow and as an activity; calls about workflows do not find activities."""
    start(s)
    s.call("DescribeWorkflowExecution", execution=s.execution("a"))
    s.call("GetWorkflowExecutionHistory", execution=s.execution("a"))
    s.signal(wf="a")
    s.cancel(wf="a")
    s.terminate(wf="a")
    s.start("a")
    s.describe("a")
    about(s, "TerminateActivityExecution")
    s.call("DescribeWorkflowExecution", execution=s.execution("a"))


# -- starting -----------------------------------------------------------------------------


@scenario
def the_same_request_again(s: Session) -> None:
    """A start that is repeated, while it runs and after its end."""
    start(s, request_id="r1")
    start(s, request_id="r1")
    s.complete_activity(s.poll_activity(), 1)
    start(s, request_id="r1")
    start(s, request_id="r1", id_reuse_policy="ACTIVITY_ID_REUSE_POLICY_REJECT_DUPLICATE")


@scenario
def an_id_in_use(s: Session) -> None:
    """Another start with the id of one that runs."""
    start(s)
    start(s)
    start(s, id_conflict_policy="ACTIVITY_ID_CONFLICT_POLICY_FAIL")
    start(s, id_conflict_policy="ACTIVITY_ID_CONFLICT_POLICY_USE_EXISTING")
    start(s, id_conflict_policy=7)
    start(s, id_reuse_policy=7)


@scenario
def an_id_used_before(s: Session) -> None:
    """Another start with the id of one that is over."""
    policy = "ACTIVITY_ID_REUSE_POLICY_"
    first = start(s)
    s.complete_activity(s.poll_activity(), 1)
    start(s, id_reuse_policy=policy + "REJECT_DUPLICATE")
    start(s, id_reuse_policy=policy + "ALLOW_DUPLICATE_FAILED_ONLY")
    start(s, id_reuse_policy=policy + "ALLOW_DUPLICATE")
    outcome(s, run_id=first)
    describe(s)
    terminate(s)
    start(s, id_reuse_policy=policy + "REJECT_DUPLICATE")
    start(s, id_reuse_policy=policy + "ALLOW_DUPLICATE_FAILED_ONLY")
    describe(s, run_id=first)
    describe(s)


@scenario
def links(s: Session) -> None:
    """Links at the start, and attached to one that runs."""
    link = {"workflow_event": {"namespace": "ns", "workflow_id": "wf", "run_id": NOBODY}}
    start(s, links=[link])
    describe(s)
    other = {"activity": {"namespace": "ns", "activity_id": "other", "run_id": NOBODY}}
    use = {"id_conflict_policy": "ACTIVITY_ID_CONFLICT_POLICY_USE_EXISTING"}
    start(s, links=[other], **use)
    describe(s)
    start(s, links=[other], on_conflict_options={"attach_links": True}, request_id="l1", **use)
    start(s, links=[other], on_conflict_options={"attach_links": True}, request_id="l1", **use)
    describe(s)
    start(s, on_conflict_options={"attach_completion_callbacks": True}, **use)
    start(s, on_conflict_options={"attach_request_id": True}, **use)
    start(s, "b", links=[{"workflow_event": {"workflow_id": "wf"}}])
    callback = {"nexus": {"url": "http://localhost:1/"}}
    start(s, "b", completion_callbacks=[callback])


@scenario
def bad_starts(s: Session) -> None:
    """What is refused."""
    start(s, activity_id="")
    start(s, activity_id="x" * 1001)
    start(s, activity_type=None)
    start(s, activity_type={"name": "x" * 1001})
    start(s, task_queue=None)
    start(s, task_queue={"name": ""})
    start(s, task_queue={"name": "x" * 1001})
    start(s, task_queue={"name": "/_sys/queue"})
    start(s, task_queue={"name": "temporal-sys-per-ns-tq"})
    start(s, start_to_close_timeout=None)
    for field in (
        "schedule_to_close_timeout",
        "schedule_to_start_timeout",
        "start_to_close_timeout",
        "heartbeat_timeout",
        "start_delay",
    ):
        start(s, **{field: seconds(-1)})
    start(s, retry_policy=retry(-1))
    start(s, retry_policy=retry(1, backoff_coefficient=0.5))
    start(s, retry_policy=retry(1, maximum_attempts=-1))
    start(s, retry_policy=retry(5, maximum_interval=seconds(1)))
    start(s, request_id="x" * 1001)
    start(s, identity="x" * 1001)
    start(s, priority={"priority_key": -1})
    start(s, priority={"fairness_key": "x" * 65})
    start(s, input=big(2.5))
    start(s, user_metadata={"summary": payload("x" * 500)})
    start(s, user_metadata={"details": payload("x" * 20500)})
    start(s, search_attributes={"indexed_fields": {"NoSuchAttribute": payload("x")}})
    start(s, search_attributes={"indexed_fields": {"ActivityType": payload("x")}})
    start(s, namespace=s.name("nowhere"))
    start(s, namespace="")


@scenario
def timeouts_are_fitted(s: Session) -> None:
    """Time-outs that are missing or longer than they can be."""
    start(s, "a", start_to_close_timeout=None, schedule_to_close_timeout=seconds(9))
    describe(s, "a")
    start(
        s,
        "b",
        start_to_close_timeout=seconds(20),
        schedule_to_close_timeout=seconds(9),
        schedule_to_start_timeout=seconds(20),
        heartbeat_timeout=seconds(30),
    )
    describe(s, "b")
    start(s, "c", retry_policy={"maximum_attempts": 2})
    describe(s, "c")


@scenario
def delayed(s: Session) -> None:
    """Held back at its start: nothing runs out meanwhile."""
    start(s, start_delay=seconds(2), schedule_to_start_timeout=seconds(1), schedule_to_close_timeout=seconds(20))
    describe(s)
    task = s.poll_activity()
    describe(s)
    s.complete_activity(task)
    describe(s)


# -- by id --------------------------------------------------------------------------------


@scenario
def by_its_id(s: Session) -> None:
    """A worker, or another client, reports by id."""
    run = start(s)
    by_id(s, "RecordActivityTaskHeartbeatById", details=payloads(0))
    by_id(s, "RespondActivityTaskFailedById", failure=failure())
    by_id(s, "RespondActivityTaskCanceledById", details=payloads(0))
    s.poll_activity()
    by_id(s, "RecordActivityTaskHeartbeatById", details=payloads(1))
    by_id(s, "RecordActivityTaskHeartbeatById", details=payloads(1), run_id=run)
    by_id(s, "RecordActivityTaskHeartbeatById", run_id=NOBODY)
    by_id(s, "RespondActivityTaskCanceledById", details=payloads(0))
    by_id(s, "RespondActivityTaskCompletedById", result=payloads("out"))
    by_id(s, "RespondActivityTaskCompletedById", result=payloads("out"))
    by_id(s, "RecordActivityTaskHeartbeatById")
    outcome(s)
    for rpc in (
        "RecordActivityTaskHeartbeatById",
        "RespondActivityTaskCompletedById",
        "RespondActivityTaskFailedById",
        "RespondActivityTaskCanceledById",
    ):
        by_id(s, rpc, "other")
        by_id(s, rpc, activity_id="")


@scenario
def completed_by_id_before_it_starts(s: Session) -> None:
    """Completed by id although no worker has it."""
    start(s)
    by_id(s, "RespondActivityTaskCompletedById", result=payloads("out"))
    outcome(s)
    describe(s)


@scenario
def failed_and_cancelled_by_id(s: Session) -> None:
    """Failed by id, then cancelled by id."""
    start(s, retry_policy=retry(0.1))
    s.poll_activity()
    by_id(s, "RespondActivityTaskFailedById", failure=failure("first"), last_heartbeat_details=payloads(5))
    s.poll_activity()
    cancel(s)
    by_id(s, "RecordActivityTaskHeartbeatById")
    by_id(s, "RespondActivityTaskCanceledById", details=payloads("gone"))
    outcome(s)
    describe(s)


@scenario
def large_values(s: Session) -> None:
    """Results, details and failures that are too large."""
    start(s, "a")
    s.complete_activity(s.poll_activity(), result=big(2.5))
    outcome(s, "a")
    start(s, "b")
    task = s.poll_activity()
    s.call("RecordActivityTaskHeartbeat", task_token=task.task_token, identity="worker", details=big(2.5))
    outcome(s, "b")


# -- waiting ------------------------------------------------------------------------------


@scenario
def waited_for(s: Session) -> None:
    """Polls that begin before the end."""
    run = start(s)
    waiting = s.begin("PollActivityExecution", PATIENCE, activity_id=s.name("a"))
    pinned = s.begin("PollActivityExecution", PATIENCE, activity_id=s.name("a"), run_id=run)
    described = describe(s, run_id=run)
    changed = s.begin(
        "DescribeActivityExecution",
        PATIENCE,
        activity_id=s.name("a"),
        run_id=run,
        long_poll_token=described.long_poll_token,
    )
    time.sleep(0.3)
    task = s.poll_activity()
    s.join(changed)
    s.complete_activity(task, "out")
    s.join(waiting)
    s.join(pinned)
    about(s, "DescribeActivityExecution", run_id=run, long_poll_token=described.long_poll_token)
    about(s, "DescribeActivityExecution", run_id=run, long_poll_token=b"nonsense")


@scenario
def waited_for_in_vain(s: Session) -> None:
    """Polls that end before the activity: an empty answer just before the caller's deadline."""
    run = start(s)
    about(s, "PollActivityExecution", deadline=3)
    described = about(s, "DescribeActivityExecution", run_id=run)
    about(s, "DescribeActivityExecution", deadline=3, run_id=run, long_poll_token=described.long_poll_token)


# -- finding ------------------------------------------------------------------------------


@scenario
def listed(s: Session) -> None:
    """Lists and counts, with filters."""
    s.namespace = s.new_namespace()
    add(s, Colour="KEYWORD")
    time.sleep(1)
    start(s, "a", search_attributes={"indexed_fields": {"Colour": payload("red")}})
    s.complete_activity(s.poll_activity(), 1)
    start(s, "b", activity_type={"name": "other"}, task_queue={"name": s.name("q2")})
    start(s, "c")
    terminate(s, "c")
    s.start("wf")
    wait_listed(s, "", 3)
    wait_listed(s, "ExecutionStatus = 'Terminated'", 1)
    wait_listed(s, "ExecutionStatus = 'Completed'", 1)
    s.call("ListActivityExecutions")
    for query in (
        f"ActivityId = '{s.name('a')}'",
        "ActivityType = 'other'",
        "ExecutionStatus = 'Running'",
        "ExecutionStatus = 'Completed' OR ExecutionStatus = 'Terminated'",
        "Colour = 'red'",
        f"TaskQueue = '{s.name('q2')}'",
        "StartTime > '2020-01-01T00:00:00Z'",
        "CloseTime > '2020-01-01T00:00:00Z'",
        "ExecutionTime > '2020-01-01T00:00:00Z'",
        "WorkflowId = 'x'",
        "WorkflowType = 'x'",
        "RunId = 'x'",
        "ActivityType STARTS_WITH 'oth'",
        "StateTransitionCount > 0",
    ):
        s.call("CountActivityExecutions", query=query)
        s.call("ListActivityExecutions", query=query)
    s.call("CountActivityExecutions")
    s.call("CountActivityExecutions", query="GROUP BY ExecutionStatus")
    s.call("CountWorkflowExecutions")
    first = s.call("ListActivityExecutions", page_size=2)
    s.call("ListActivityExecutions", page_size=2, next_page_token=first.next_page_token)
    s.call("ListActivityExecutions", namespace=s.name("nowhere"))
    s.call("CountActivityExecutions", namespace=s.name("nowhere"))


@scenario
def listed_otherwise(s: Session) -> None:
    """Filters that Segno takes or refuses in its own words."""
    s.namespace = s.new_namespace()
    time.sleep(1)
    start(s)
    wait_listed(s, "", 1)
    for query in (
        "ExecutionStatus = 'Nonsense'",
        "NoSuchAttribute = 'x'",
        "ActivityType = ",
        "ORDER BY StartTime",
        "TemporalNamespaceDivision IS NULL",
        "GROUP BY ActivityType",
    ):
        s.call("CountActivityExecutions", query=query)
        s.call("ListActivityExecutions", query=query)
    s.call("ListActivityExecutions", query="GROUP BY ExecutionStatus")
    s.call("ListActivityExecutions", next_page_token=b"nonsense")


@scenario
def deleted(s: Session) -> None:
    """Deleted while it runs and after its end."""
    s.namespace = s.new_namespace()
    time.sleep(1)
    run = start(s, "a")
    task = s.poll_activity()
    wait_listed(s, "", 1)
    about(s, "DeleteActivityExecution")
    wait_listed(s, "", 0)
    gone(s, "a")
    about(s, "DescribeActivityExecution")
    about(s, "DescribeActivityExecution", run_id=run)
    about(s, "DeleteActivityExecution")
    s.complete_activity(task)
    start(s, "a")


def gone(s: Session, short: str) -> None:
    """Waits, unrecorded, until an activity is unknown."""
    end = time.monotonic() + 40
    while True:
        try:
            s.silent("DescribeActivityExecution", activity_id=s.name(short))
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return
        if time.monotonic() > end:
            raise Stopped(f"{short} was not deleted")
        time.sleep(0.1)




# -- who calls ----------------------------------------------------------------------------


def sdk(name: str, version: str) -> dict[str, str]:
    """The headers by which an SDK names itself."""
    return {"client-name": name, "client-version": version}


def poll_as(s: Session, headers: dict[str, str]) -> Any:
    """Polls for an activity task as a worker of this SDK."""
    queue = s.queue("q")
    return s.join(s.begin("PollActivityTaskQueue", 8, headers, task_queue=queue, identity="worker"))


@scenario
def sdk_of_worker(s: Session) -> None:
    """The description has the SDK of the worker that took the last attempt."""
    s.join(s.begin("StartActivityExecution", 10, sdk("temporal-java", "1.2.3"), **fields_of_start(s)))
    describe(s)
    task = poll_as(s, sdk("temporal-go", "1.30.0"))
    describe(s)
    s.fail_activity(task, failure())
    describe(s)
    task = poll_as(s, sdk("temporal-python", "1.9.0"))
    describe(s)
    s.complete_activity(task)
    describe(s)


@scenario
def sdk_unknown(s: Session) -> None:
    """A worker that does not name its SDK, after one that did."""
    start(s, retry_policy=retry(0.2, maximum_attempts=3, backoff_coefficient=1))
    s.fail_activity(poll_as(s, {"client-name": "temporal-go"}), failure())
    describe(s)
    s.fail_activity(poll_as(s, {"client-version": "1.2.3"}), failure())
    describe(s)
    poll_as(s, {})
    describe(s)


def fields_of_start(s: Session) -> dict[str, Any]:
    """The fields of a start whose activity is retried."""
    return {
        "activity_id": s.name("a"),
        "activity_type": {"name": "act"},
        "task_queue": {"name": s.name("q")},
        "start_to_close_timeout": seconds(10),
        "retry_policy": retry(0.2, maximum_attempts=3, backoff_coefficient=1),
        "identity": "caller",
        "request_id": s.request_id(),
    }
