"""Nexus operations: callers and handlers of the SDK in two namespaces."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import urllib.request
from datetime import timedelta
from typing import Any

import nexusrpc
import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import (
    CallbackState,
    EventType,
    NexusOperationCancellationState,
    PendingNexusOperationState,
    TaskQueueType,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ResetWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    NexusOperationError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from flows import Waiter
from helpers import (
    NAMESPACE,
    SegnoServer,
    chain,
    event_counts,
    event_name,
    event_names,
    events,
    eventually,
    find_event,
    raises,
)
from nexus import (
    CALLERS,
    Call,
    Caller,
    CallsAll,
    ContinuesAsNew,
    EndsLater,
    Fault,
    Nexus,
    Sample,
    create_endpoint,
    delete_endpoint,
    happened,
    move_endpoint,
    operation_events,
    pending_operations,
    prepare,
    rename_endpoint,
)
from test_durable_restart import connect

STATE = PendingNexusOperationState


async def failure(handle: WorkflowHandle[Any, Any]) -> BaseException:
    """The cause of the failure of the operation, which failed its caller."""
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, NexusOperationError), chain(error)
    assert error.cause.service == "Sample"
    assert error.cause.__cause__
    return error.cause.__cause__


# Results.


@workflow.defn
class Typed:
    """Calls an operation by its definition."""

    @workflow.run
    async def run(self, endpoint: str) -> list[Any]:
        client = workflow.create_nexus_client(service=Sample, endpoint=endpoint)
        handle = await client.start_operation(Sample.echo, {"n": 1}, headers={"X-Own": "v"}, summary="an echo")
        return [handle.operation_token, await handle]


async def test_sync_result(nexus: Nexus):
    """The handler receives input and headers; the operation completes without a Started event."""
    async with nexus.caller.worker(Typed), nexus.serving():
        handle = await nexus.caller.start(Typed, nexus.endpoint.spec.name)
        assert await handle.result() == [None, {"n": 1}]
    assert await operation_events(handle) == ["Scheduled", "Completed"]
    scheduled = await find_event(handle, "NexusOperationScheduled")
    assert (scheduled.endpoint, scheduled.endpoint_id) == (nexus.endpoint.spec.name, nexus.endpoint.id)
    assert (scheduled.service, scheduled.operation) == ("Sample", "echo")
    assert dict(scheduled.nexus_header) == {"x-own": "v"}
    [start] = nexus.handlers.starts
    assert start.request_id == scheduled.request_id
    assert start.endpoint == nexus.endpoint.spec.name
    assert start.headers["x-own"] == "v"


@workflow.defn
class CallsInTurn:
    """Calls an operation so many times, one after the other."""

    @workflow.run
    async def run(self, endpoint: str, times: int) -> None:
        client = workflow.create_nexus_client(service=Sample, endpoint=endpoint)
        for _ in range(times):
            await client.execute_operation(Sample.echo, None)


def commits(server: SegnoServer) -> int:
    """How many transitions the server has stored."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        lines = reply.read().decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("segno_commits_total"))


async def test_sync_operation_takes_two_commits(durable_server: SegnoServer):
    """That of the workflow task that schedules it, and that of its result."""
    durable_server.start()
    nexus = await prepare(await connect(durable_server, "commits"))
    async with nexus.caller.worker(CallsInTurn), nexus.serving():
        # Workers report when they begin.
        await nexus.caller.execute(CallsInTurn, nexus.endpoint.spec.name, 1, id="first")
        counts = []
        for times in (0, 20):
            before = commits(durable_server)
            await nexus.caller.execute(CallsInTurn, nexus.endpoint.spec.name, times, id=f"{times}-times")
            counts.append(commits(durable_server) - before)
    assert counts == [2, 2 + 2 * 20]


async def test_async_result(nexus: Nexus):
    """A workflow behind the operation: the operation completes with its result."""
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter")
        [operation] = await pending_operations(handle)
        assert operation.state == STATE.PENDING_NEXUS_OPERATION_STATE_STARTED
        behind = nexus.handler.handle()
        [callback] = (await behind.describe()).raw_description.callbacks
        assert callback.state == CallbackState.CALLBACK_STATE_STANDBY
        await behind.signal(Waiter.add, 1)
        await behind.signal(Waiter.finish)
        assert await handle.result() == [1]
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
    started = await find_event(handle, "NexusOperationStarted")
    assert started.operation_token == operation.operation_token
    padded = started.operation_token + "=" * (-len(started.operation_token) % 4)
    assert json.loads(base64.urlsafe_b64decode(padded))["wid"] == nexus.handler.id
    assert await pending_operations(handle) == []

    async def delivered() -> bool:
        [callback] = (await behind.describe()).raw_description.callbacks
        return callback.state == CallbackState.CALLBACK_STATE_SUCCEEDED

    await eventually(delivered)


async def test_handler_continues_as_new(nexus: Nexus):
    """The operation completes with the result of the last run."""
    async with nexus.workers():
        handle = await nexus.start_flow("ContinuesAsNew", 2)
        behind = nexus.handler.handle()
        first = (await find_event(handle, "NexusOperationStarted")).request_id

        async def last_run() -> bool:
            started = await find_event(behind, "WorkflowExecutionStarted")
            return [arg.data for arg in started.input.payloads] == [b"0"]

        await eventually(last_run)
        assert len(await pending_operations(handle)) == 1
        await behind.signal(ContinuesAsNew.finish)
        assert await handle.result() == "last run"
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]
    assert (await find_event(handle, "NexusOperationCompleted")).request_id == first


async def test_handler_workflow_is_retried(nexus: Nexus):
    """The operation completes with the result of the last run."""
    async with nexus.workers():
        handle = await nexus.start("flow", nexus.flow("FailsAtFirst", attempts=2))
        assert await handle.result() == 2
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_handler_workflow_is_reset(nexus: Nexus):
    """The run that the reset terminates does not end the operation; the new run does."""
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter")
        behind = nexus.handler.handle()
        await behind.signal(Waiter.add, 1)
        await eventually(lambda: task_number(behind, 1))
        again = await reset(behind, await task_number(behind, 1))
        assert len(await pending_operations(handle)) == 1
        await again.signal(Waiter.finish)
        assert await handle.result() == [1]
    assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


async def test_caller_is_gone_when_the_operation_completes(nexus: Nexus):
    """The callback of the handler's workflow fails, and its workflow ends as usual."""
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter")
        await handle.terminate()
        behind = nexus.handler.handle()
        await behind.signal(Waiter.finish)
        assert await behind.result() == []

        async def failed() -> bool:
            [callback] = (await behind.describe()).raw_description.callbacks
            return callback.state == CallbackState.CALLBACK_STATE_FAILED and callback.HasField("last_attempt_failure")

        await eventually(failed)
    assert await operation_events(handle) == ["Scheduled", "Started"]


async def test_operations_are_replayed(nexus: Nexus):
    """The worker of the caller keeps no workflow: each of its tasks begins with the first event."""
    async with nexus.caller.worker(*CALLERS, max_cached_workflows=0), nexus.serving():
        calls = [nexus.call("echo", "sync"), nexus.call("flow", nexus.flow("Echo", "async"))]
        handle = await nexus.caller.start(CallsAll, calls, id=f"{nexus.caller.id}-all")
        assert await handle.result() == ["sync", "async"]
        histories = [await handle.fetch_history()]
        for kind in ("WAIT_REQUESTED", "WAIT_COMPLETED"):
            flow = nexus.flow("Waiter", id=f"{nexus.handler.id}-{kind}")
            handle = await nexus.start("flow", flow, id=f"{nexus.caller.id}-{kind}", cancellation=kind)
            await happened(handle, "NexusOperationStarted")
            await handle.signal(Caller.cancel)
            assert isinstance(await failure(handle), CancelledError)
            histories.append(await handle.fetch_history())
    replayer = Replayer(workflows=CALLERS, workflow_runner=UnsandboxedWorkflowRunner())
    for history in histories:
        await replayer.replay_workflow(history)


async def test_links_in_both_histories(nexus: Nexus):
    async with nexus.workers():
        handle = await nexus.start("flow", nexus.flow("Echo", "linked"))
        assert await handle.result() == "linked"
    scheduled = await happened(handle, "NexusOperationScheduled")
    started = await happened(handle, "NexusOperationStarted")
    [link] = started.links
    behind = await happened(nexus.handler.handle(), "WorkflowExecutionStarted")
    event = link.workflow_event
    assert (event.namespace, event.workflow_id) == (nexus.handler.client.namespace, nexus.handler.id)
    run_id = (await nexus.handler.handle().describe()).run_id
    assert event.run_id == run_id
    assert event.event_ref.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
    assert event.event_ref.event_id == 1
    [callback] = behind.workflow_execution_started_event_attributes.completion_callbacks
    back = [*behind.links, *callback.links]
    assert {link.workflow_event.workflow_id for link in back} == {nexus.caller.id}
    for link in back:
        assert link.workflow_event.namespace == NAMESPACE
        assert link.workflow_event.run_id == handle.first_execution_run_id
        assert link.workflow_event.event_ref.event_id == scheduled.event_id
        assert link.workflow_event.event_ref.event_type == EventType.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED


async def test_link_of_a_signal_that_a_handler_sends(nexus: Nexus):
    async with nexus.workers():
        behind = await nexus.handler.start(Waiter)
        handle = await nexus.start("signal", behind.id)
        assert await handle.result() is None
        assert await behind.result() == []
    [link] = (await happened(behind, "WorkflowExecutionSignaled")).links
    event = link.workflow_event
    assert (event.namespace, event.workflow_id) == (NAMESPACE, nexus.caller.id)
    assert event.event_ref.event_type == EventType.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED


async def test_two_callers_of_one_handler_workflow(nexus: Nexus):
    """The second caller attaches to the workflow; both get the result."""
    flow = nexus.flow("Waiter", use_existing=True)
    async with nexus.workers():
        callers = [await nexus.start("flow", flow, id=f"{nexus.caller.id}-{n}") for n in range(2)]
        for handle in callers:
            await happened(handle, "NexusOperationStarted")
        behind = nexus.handler.handle()
        await behind.signal(Waiter.add, "both")
        await behind.signal(Waiter.finish)
        assert [await handle.result() for handle in callers] == [["both"]] * 2
    counts = await event_counts(behind)
    assert counts["WorkflowExecutionStarted"] == counts["WorkflowExecutionOptionsUpdated"] == 1
    updated = await find_event(behind, "WorkflowExecutionOptionsUpdated")
    assert len(updated.attached_completion_callbacks) == 1
    links = [(await happened(handle, "NexusOperationStarted")).links[0].workflow_event for handle in callers]
    [attached] = [link for link in links if link.HasField("request_id_ref")]
    assert attached.request_id_ref.request_id == updated.attached_request_id
    assert attached.request_id_ref.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_OPTIONS_UPDATED
    for handle in callers:
        assert await operation_events(handle) == ["Scheduled", "Started", "Completed"]


# Failures.


async def test_operation_fails(nexus: Nexus):
    async with nexus.workers():
        handle = await nexus.start("unsuccessful", "failed")
        cause = await failure(handle)
    assert isinstance(cause, ApplicationError)
    assert (cause.message, cause.type) == ("ended on purpose", "OperationError")
    assert await operation_events(handle) == ["Scheduled", "Failed"]


async def test_operation_is_canceled_by_its_handler(nexus: Nexus):
    async with nexus.workers():
        handle = await nexus.start("unsuccessful", "canceled")
        cause = await failure(handle)
    assert isinstance(cause, CancelledError) and cause.message == "ended on purpose"
    assert await operation_events(handle) == ["Scheduled", "Canceled"]


async def test_handler_workflow_fails(nexus: Nexus):
    async with nexus.workers():
        handle = await nexus.start("flow", nexus.flow("Fails", "behind the operation"))
        cause = await failure(handle)
    assert isinstance(cause, ApplicationError)
    assert (cause.message, cause.type) == ("behind the operation", "OnPurpose")
    assert list(cause.details) == ["detail", 7]
    assert await operation_events(handle) == ["Scheduled", "Started", "Failed"]


async def test_handler_workflow_is_cancelled_terminated_or_times_out(nexus: Nexus):
    async with nexus.workers():
        handles = {}
        for how in ("cancel", "terminate", "time out"):
            limit = 1 if how == "time out" else None
            flow = nexus.flow("Waiter", id=f"{nexus.handler.id}-{how}", run_timeout_s=limit)
            handles[how] = await nexus.start("flow", flow, id=f"{nexus.caller.id}-{how}")
            await happened(handles[how], "NexusOperationStarted")
        await nexus.handler.handle(f"{nexus.handler.id}-cancel").cancel()
        await nexus.handler.handle(f"{nexus.handler.id}-terminate").terminate("enough")
        assert isinstance(await failure(handles["cancel"]), CancelledError)
        assert isinstance(await failure(handles["terminate"]), TerminatedError)
        assert isinstance(await failure(handles["time out"]), TimeoutError)
    assert (await operation_events(handles["cancel"]))[-1] == "Canceled"
    assert (await operation_events(handles["terminate"]))[-1] == "Failed"
    assert (await operation_events(handles["time out"]))[-1] == "Failed"


@pytest.mark.parametrize("kind", ["BAD_REQUEST", "UNAUTHORIZED", "NOT_FOUND", "NOT_IMPLEMENTED"])
async def test_handler_error_that_is_not_retried(nexus: Nexus, kind: str):
    async with nexus.workers():
        handle = await nexus.start("faulty", Fault(kind))
        cause = await failure(handle)
    assert isinstance(cause, nexusrpc.HandlerError)
    assert (cause.type.value, cause.message, cause.retryable) == (kind, "handler broke", False)
    assert await operation_events(handle) == ["Scheduled", "Failed"]
    assert len(nexus.handlers.starts) == 1


async def test_handler_error_that_is_retried(nexus: Nexus):
    async with nexus.workers():
        handle = await nexus.start("faulty", Fault("INTERNAL", attempts=2))

        async def backing_off() -> Any:
            state = STATE.PENDING_NEXUS_OPERATION_STATE_BACKING_OFF
            return next((operation for operation in await pending_operations(handle) if operation.state == state), None)

        operation = await eventually(backing_off)
        assert operation.attempt == 1
        assert operation.last_attempt_failure.message == "handler broke"
        assert operation.last_attempt_failure.nexus_handler_failure_info.type == "INTERNAL"
        assert operation.HasField("next_attempt_schedule_time")
        assert await handle.result() == 3
    assert await operation_events(handle) == ["Scheduled", "Completed"]
    assert {start.request_id for start in nexus.handlers.starts} == {
        (await find_event(handle, "NexusOperationScheduled")).request_id
    }


async def test_lists_know_what_is_retried(nexus: Nexus, segno_only: None):
    async with nexus.workers():
        id = nexus.caller.id
        stuck = await nexus.start("faulty", Fault("INTERNAL"), id=f"{id}-stuck")
        fine = await nexus.start("flow", nexus.flow("Waiter"), id=f"{id}-fine")

        async def found(query: str) -> list[str]:
            runs = nexus.caller.client.list_workflows(f"WorkflowId STARTS_WITH '{id}-' AND {query}")
            return [run.id async for run in runs]

        async def is_found() -> bool:
            return await found("NexusAttempts >= 2") == [stuck.id]

        await eventually(is_found)
        assert await found("NexusLastFailure LIKE '%broke%'") == [stuck.id]
        assert await found("NexusAttempts IS NULL") == [fine.id]
        await stuck.terminate()
        assert await found("NexusAttempts > 0") == []


async def test_unknown_service_and_operation(nexus: Nexus):
    async with nexus.workers():
        for number, options in enumerate([{"operation": "missing"}, {"operation": "echo", "service": "Missing"}]):
            call = Call(nexus.endpoint.spec.name, **options)
            handle = await nexus.caller.start(Caller, call, id=f"{nexus.caller.id}-{number}")
            error = await raises(WorkflowFailureError, handle.result())
            cause = chain(error)[-1]
            assert isinstance(cause, nexusrpc.HandlerError) and cause.type == nexusrpc.HandlerErrorType.NOT_FOUND


async def test_unknown_endpoint(nexus: Nexus):
    """The task of the workflow fails until somebody creates the endpoint."""
    name = f"{nexus.endpoint.spec.name}-late"
    async with nexus.workers():
        # The SDK lets a task that keeps failing time out.
        handle = await nexus.caller.start(Caller, Call(name, "echo", "at last"), task_timeout=timedelta(seconds=1))
        failed = await happened(handle, "WorkflowTaskFailed")
        attributes = failed.workflow_task_failed_event_attributes
        assert f'endpoint "{name}" not found' in attributes.failure.message
        handler = nexus.handler
        await create_endpoint(handler.client, name, handler.client.namespace, handler.task_queue)
        assert await handle.result() == "at last"


# Cancellation.


async def ended(handle: WorkflowHandle[Any, Any]) -> bool:
    return bool(await handle.query(Caller.how))


async def test_cancellation_abandon(nexus: Nexus):
    """The caller goes on at once; the handler hears nothing."""
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter", cancellation="ABANDON", stays=True)
        await handle.signal(Caller.cancel)
        await eventually(lambda: ended(handle))
        await handle.signal(Caller.finish)
        assert isinstance(await failure(handle), CancelledError)
        assert await operation_events(handle) == ["Scheduled", "Started"]
        behind = nexus.handler.handle()
        assert "WorkflowExecutionCancelRequested" not in await event_names(behind)
        await behind.signal(Waiter.finish)
        assert await behind.result() == []


async def test_cancellation_try_cancel(nexus: Nexus):
    """The caller goes on at once; the handler is asked to cancel."""
    async with nexus.callers():
        async with nexus.serving():
            handle = await nexus.start_flow("EndsLater", cancellation="TRY_CANCEL", stays=True)
        # Without a worker of the handler the request cannot be answered.
        await handle.signal(Caller.cancel)
        await eventually(lambda: ended(handle))
        assert await operation_events(handle) == ["Scheduled", "Started", "CancelRequested"]
        async with nexus.serving():
            await happened(handle, "NexusOperationCancelRequestCompleted")
            await nexus.handler.handle().signal(EndsLater.finish)
            await happened(handle, "NexusOperationCanceled")
            await handle.signal(Caller.finish)
            assert isinstance(await failure(handle), CancelledError)


async def test_cancellation_wait_requested(nexus: Nexus):
    """The caller goes on when the handler has accepted the request, though the operation goes on."""
    async with nexus.workers():
        handle = await nexus.start_flow("EndsLater", cancellation="WAIT_REQUESTED", stays=True)
        await handle.signal(Caller.cancel)
        await eventually(lambda: ended(handle))
        assert await operation_events(handle) == ["Scheduled", "Started", "CancelRequested", "CancelRequestCompleted"]
        [operation] = await pending_operations(handle)
        succeeded = NexusOperationCancellationState.NEXUS_OPERATION_CANCELLATION_STATE_SUCCEEDED
        assert operation.cancellation_info.state == succeeded
        await nexus.handler.handle().signal(EndsLater.finish)
        await happened(handle, "NexusOperationCanceled")
        await handle.signal(Caller.finish)
        assert isinstance(await failure(handle), CancelledError)


async def test_cancellation_wait_completed(nexus: Nexus):
    """The caller goes on when the operation is over. Here the cancellation of the caller cancels the operation."""
    async with nexus.workers():
        handle = await nexus.start_flow("EndsLater", cancellation="WAIT_COMPLETED")
        await handle.cancel()
        await happened(handle, "NexusOperationCancelRequestCompleted")
        assert not await ended(handle)
        await nexus.handler.handle().signal(EndsLater.finish)
        error = await raises(WorkflowFailureError, handle.result())
        assert isinstance(error.cause, CancelledError) or isinstance(error.cause.__cause__, CancelledError)
        assert (await nexus.handler.handle().describe()).status == WorkflowExecutionStatus.CANCELED
    assert await operation_events(handle) == [
        "Scheduled",
        "Started",
        "CancelRequested",
        "CancelRequestCompleted",
        "Canceled",
    ]


async def test_cancellation_before_the_start(nexus: Nexus):
    """The request to cancel waits for the operation token."""
    async with nexus.callers():
        handle = await nexus.start("flow", nexus.flow("Waiter"))
        await happened(handle, "NexusOperationScheduled")
        await handle.signal(Caller.cancel)
        await happened(handle, "NexusOperationCancelRequested")
        async with nexus.serving():
            assert isinstance(await failure(handle), CancelledError)
            assert (await nexus.handler.handle().describe()).status == WorkflowExecutionStatus.CANCELED
    names = await operation_events(handle)
    assert names[:3] == ["Scheduled", "CancelRequested", "Started"]
    assert sorted(names[3:]) == ["CancelRequestCompleted", "Canceled"] or names[3:] == ["Canceled"]


async def test_cancellation_that_the_handler_refuses(nexus: Nexus):
    async with nexus.workers():
        handle = await nexus.start("endless", "token-1", cancellation="WAIT_REQUESTED")
        await happened(handle, "NexusOperationStarted")
        await handle.signal(Caller.cancel)
        cause = await failure(handle)
    assert isinstance(cause, nexusrpc.HandlerError)
    # The request to cancel is answered in the older form, in which the message is that of the cause.
    assert (cause.type.value, chain(cause)[-1].message) == ("NOT_IMPLEMENTED", "token-1 goes on")
    assert await operation_events(handle) == ["Scheduled", "Started", "CancelRequested", "CancelRequestFailed"]
    assert nexus.handlers.cancels == 1


# Time-outs and workers that come late.


async def test_time_outs(nexus: Nexus):
    """Each time-out ends the operation with its type; the workflow behind it goes on."""
    kinds = {
        "schedule_to_close": TimeoutType.SCHEDULE_TO_CLOSE,
        "schedule_to_start": TimeoutType.SCHEDULE_TO_START,
        "start_to_close": TimeoutType.START_TO_CLOSE,
    }
    handler, unserved = nexus.handler, f"{nexus.endpoint.spec.name}-unserved"
    await create_endpoint(nexus.caller.client, unserved, handler.client.namespace, f"{handler.task_queue}-unserved")
    async with nexus.workers():
        handles = {}
        for kind in kinds:
            limit = {"timeouts_s": {kind: 3}}
            if kind == "schedule_to_start":
                call = Call(unserved, "echo", **limit)
            else:
                call = nexus.call("flow", nexus.flow("Waiter", id=f"{handler.id}-{kind}"), **limit)
            handles[kind] = await nexus.caller.start(Caller, call, id=f"{nexus.caller.id}-{kind}")
        for kind, handle in handles.items():
            cause = await failure(handle)
            assert isinstance(cause, TimeoutError) and cause.type == kinds[kind], kind
            assert (cause.message, (await operation_events(handle))[-1]) == ("operation timed out", "TimedOut")
        for kind in ("schedule_to_close", "start_to_close"):
            behind = handler.handle(f"{handler.id}-{kind}")
            assert (await behind.describe()).status == WorkflowExecutionStatus.RUNNING
            await behind.terminate()


async def test_short_schedule_to_close_time_out(nexus: Nexus, segno_only: None):
    """Temporal lets an operation with less than 1.5 s time out without an attempt."""
    async with nexus.workers():
        handle = await nexus.start("echo", "in time", timeouts_s={"schedule_to_close": 1})
        assert await handle.result() == "in time"


async def test_operation_scheduled_before_a_worker_polls(nexus: Nexus):
    async with nexus.callers():
        handle = await nexus.start("flow", nexus.flow("Echo", "late"))
        await happened(handle, "NexusOperationScheduled")
        await asyncio.sleep(1)
        [operation] = await pending_operations(handle)
        assert operation.state == STATE.PENDING_NEXUS_OPERATION_STATE_SCHEDULED
        assert operation.attempt == 0
        async with nexus.serving():
            assert await handle.result() == "late"


async def test_all_operations_start_when_the_worker_comes(nexus: Nexus):
    """50 operations of two workflows wait for 2 s, and all of them are started within 1 s of the first poll."""
    calls = [nexus.call("endless", f"token-{n}") for n in range(50)]
    async with nexus.callers():
        ids = [f"{nexus.caller.id}-{n}" for n in range(2)]
        handles = [await nexus.caller.start(CallsAll, calls[n::2], id=ids[n]) for n in range(2)]
        for handle in handles:
            await happened(handle, "NexusOperationScheduled")
        await asyncio.sleep(2)
        first_poll = time.time()
        async with nexus.serving():
            for handle in handles:
                await eventually(lambda: count(handle, "NexusOperationStarted", 25))
    history = [event for handle in handles for event in await events(handle)]
    started = [e.event_time.ToNanoseconds() / 1e9 for e in history if event_name(e) == "NexusOperationStarted"]
    assert len(started) == len(nexus.handlers.starts) == 50
    print(f"the last of 50 operations was started {max(started) - first_poll:.2f} s after the first poll")
    assert max(started) < first_poll + 1
    for handle in handles:
        await handle.terminate()


async def count(handle: WorkflowHandle[Any, Any], name: str, expected: int) -> bool:
    return (await event_counts(handle))[name] == expected


async def test_100_operations_of_one_workflow(nexus: Nexus, segno_only: None):
    """Temporal allows 30."""
    calls = [nexus.call("flow", nexus.flow("Echo", n, id=f"{nexus.handler.id}-{n}")) for n in range(100)]
    async with nexus.workers():
        handle = await nexus.caller.start(CallsAll, calls)
        assert await handle.result() == list(range(100))
    names = await operation_events(handle)
    assert {name: names.count(name) for name in names} == {"Scheduled": 100, "Started": 100, "Completed": 100}


# Resets.


async def reset(handle: WorkflowHandle[Any, Any], finish_event_id: int) -> WorkflowHandle[Any, Any]:
    """Resets a workflow to before the end of a workflow task, and returns its new run."""
    client = handle._client
    request = ResetWorkflowExecutionRequest(
        namespace=client.namespace, workflow_task_finish_event_id=finish_event_id, request_id=handle.id, reason="test"
    )
    request.workflow_execution.workflow_id = handle.id
    run_id = (await client.workflow_service.reset_workflow_execution(request)).run_id
    return client.get_workflow_handle(handle.id, run_id=run_id)


async def finished_tasks(handle: WorkflowHandle[Any, Any]) -> list[int]:
    return [event.event_id for event in await events(handle) if event_name(event) == "WorkflowTaskCompleted"]


async def test_reset_of_a_caller_while_the_operation_is_pending(nexus: Nexus):
    """The completion finds the operation in the new run."""
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter")

        async def second_task() -> list[int]:
            return (await finished_tasks(handle))[1:]

        [finished] = await eventually(second_task)
        again = await reset(handle, finished)
        behind = nexus.handler.handle()
        await eventually(again.describe)
        await behind.signal(Waiter.add, "after the reset")
        await behind.signal(Waiter.finish)
        assert await again.result() == ["after the reset"]
    assert await operation_events(again) == ["Scheduled", "Started", "Completed"]
    assert len(nexus.handlers.starts) == 1
    first = nexus.caller.handle(run_id=handle.first_execution_run_id)
    assert (await first.describe()).status == WorkflowExecutionStatus.TERMINATED
    assert await operation_events(first) == ["Scheduled", "Started"]


async def test_reset_keeps_the_result_of_an_operation(nexus: Nexus):
    """The operation was scheduled before the point of the reset and completed after it."""
    async with nexus.workers():
        handle = await nexus.start_flow("Waiter", stays=True)
        await eventually(lambda: task_number(handle, 2))
        behind = nexus.handler.handle()
        await behind.signal(Waiter.finish)
        await happened(handle, "NexusOperationCompleted")
        await eventually(lambda: task_number(handle, 3))
        again = await reset(handle, await task_number(handle, 2))
        await eventually(again.describe)
        await again.signal(Caller.finish)
        assert await again.result() == []
    assert await operation_events(again) == ["Scheduled", "Started", "Completed"]
    assert len(nexus.handlers.starts) == 1


async def test_reset_to_before_the_operation(nexus: Nexus):
    """The new run schedules an operation of its own."""
    async with nexus.workers():
        handle = await nexus.start("echo", "twice")
        assert await handle.result() == "twice"
        again = await reset(handle, (await finished_tasks(handle))[0])
        assert await again.result() == "twice"
    assert await operation_events(again) == ["Scheduled", "Completed"]
    assert len({start.request_id for start in nexus.handlers.starts}) == 2


async def task_number(handle: WorkflowHandle[Any, Any], number: int) -> int:
    """The event with which the workflow task of that number was completed; 0 before that."""
    finished = await finished_tasks(handle)
    return finished[number - 1] if len(finished) >= number else 0


# Endpoints.


async def test_endpoint_is_usable_at_once(nexus: Nexus, segno_only: None):
    """Temporal's nodes hear of an endpoint some time after its creation."""
    async with nexus.workers():
        for number in range(20):
            name, handler = f"{nexus.endpoint.spec.name}-{number}", nexus.handler
            await create_endpoint(nexus.caller.client, name, handler.client.namespace, handler.task_queue)
            handle = await nexus.caller.start(Caller, Call(name, "echo", number), id=f"{nexus.caller.id}-{number}")
            assert await handle.result() == number
            assert (await event_counts(handle))["WorkflowTaskFailed"] == 0


async def test_pollers_of_handlers(nexus: Nexus):
    """The workers of handlers poll the queue for Nexus tasks, and are described as its pollers."""
    client = nexus.handler.client
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=nexus.handler.task_queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_NEXUS,
    )

    async def pollers() -> Any:
        return (await client.workflow_service.describe_task_queue(request)).pollers

    assert not await pollers()
    async with nexus.serving():
        [poller] = await eventually(pollers)
    assert poller.identity == client.identity


async def test_rename_of_an_endpoint_while_operations_are_pending(nexus: Nexus):
    """An operation keeps its endpoint: one that is not started reaches the handler under the new name."""
    old, new = nexus.endpoint.spec.name, f"{nexus.endpoint.spec.name}-renamed"
    async with nexus.callers():
        async with nexus.serving():
            started = await nexus.start_flow("Waiter")
        waiting = await nexus.start("echo", "renamed", id=f"{nexus.caller.id}-waiting")
        await happened(waiting, "NexusOperationScheduled")
        renamed = await rename_endpoint(nexus.caller.client, nexus.endpoint, new)
        assert (renamed.id, renamed.spec.name) == (nexus.endpoint.id, new)
        async with nexus.serving():
            assert await waiting.result() == "renamed"
            await nexus.handler.handle().signal(Waiter.finish)
            assert await started.result() == []
    assert (await find_event(waiting, "NexusOperationScheduled")).endpoint == old
    assert [start.operation for start in nexus.handlers.starts] == ["flow", "echo"]


async def waits_again(nexus: Nexus) -> WorkflowHandle[Any, Any]:
    """Starts an operation whose first attempt fails, and returns when the second one waits for a worker."""
    async with nexus.serving():
        handle = await nexus.start("faulty", Fault("INTERNAL", attempts=1))

        async def failed() -> bool:
            return any(operation.attempt == 1 for operation in await pending_operations(handle))

        await eventually(failed)

    async def waits() -> bool:
        [operation] = await pending_operations(handle)
        return operation.state == STATE.PENDING_NEXUS_OPERATION_STATE_SCHEDULED

    await eventually(waits)
    return handle


async def test_endpoint_moves_while_a_second_attempt_waits(nexus: Nexus, segno_only: None):
    """Temporal's attempts do not wait for a worker: they fail again."""
    async with nexus.callers():
        handle = await waits_again(nexus)
        queue = f"{nexus.handler.task_queue}-moved"
        await move_endpoint(nexus.caller.client, nexus.endpoint, queue)
        async with nexus.serving(task_queue=queue):
            assert await handle.result() == 2


async def test_endpoint_is_deleted_while_a_second_attempt_waits(nexus: Nexus, segno_only: None):
    async with nexus.callers():
        handle = await waits_again(nexus)
        await delete_endpoint(nexus.caller.client, nexus.endpoint)
        cause = await failure(handle)
    assert isinstance(cause, nexusrpc.HandlerError)
    assert (cause.type.value, cause.message) == ("NOT_FOUND", "endpoint not registered")
