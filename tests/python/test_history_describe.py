"""Reading workflows: describe, and fetching history with paging and long polling."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone

import grpc
from temporalio import activity, workflow
from temporalio.api.enums.v1 import (
    HistoryEventFilterType,
    PendingActivityState,
    PendingWorkflowTaskState,
)
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHistoryEventFilterType,
)
from temporalio.service import RPCError, RPCStatusCode

from flows import CallActivity, Echo, Fails, Waiter, fail_until
from helpers import (
    NAMESPACE,
    Env,
    event_name,
    event_names,
    eventually,
    pending_activities,
    pending_activity,
    raises,
)


# --- describe ---


async def test_describe_running_and_completed(env: Env):
    before = datetime.now(timezone.utc) - timedelta(seconds=5)
    handle = await env.start(Echo, "x")
    running = await handle.describe()
    assert running.status == WorkflowExecutionStatus.RUNNING
    assert running.id == env.id
    assert running.run_id == handle.first_execution_run_id
    assert running.workflow_type == "Echo"
    assert running.task_queue == env.task_queue
    assert running.close_time is None
    assert before < running.start_time < datetime.now(timezone.utc) + timedelta(seconds=5)
    async with env.worker(Echo):
        await handle.result()
    closed = await handle.describe()
    assert closed.status == WorkflowExecutionStatus.COMPLETED
    assert closed.close_time >= closed.start_time
    assert closed.history_length == 5


async def test_describe_failed(env: Env):
    async with env.worker(Fails):
        handle = await env.start(Fails)
        await raises(WorkflowFailureError, handle.result())
    assert (await handle.describe()).status == WorkflowExecutionStatus.FAILED


async def test_describe_execution_config(env: Env):
    handle = await env.start(
        Echo,
        "x",
        execution_timeout=timedelta(seconds=90),
        run_timeout=timedelta(seconds=80),
        task_timeout=timedelta(seconds=6),
    )
    config = (await handle.describe()).raw_description.execution_config
    assert config.task_queue.name == env.task_queue
    assert config.workflow_execution_timeout.seconds == 90
    assert config.workflow_run_timeout.seconds == 80
    assert config.default_workflow_task_timeout.seconds == 6
    await handle.terminate()


async def test_describe_unknown_workflow_and_run(env: Env):
    error = await raises(RPCError, env.handle().describe())
    assert error.status == RPCStatusCode.NOT_FOUND
    handle = await env.start(Echo, "x")
    no_such_run = env.handle(run_id="01234567-89ab-cdef-0123-456789abcdef")
    error = await raises(RPCError, no_such_run.describe())
    assert error.status == RPCStatusCode.NOT_FOUND
    await handle.terminate()


async def test_describe_pending_workflow_task(env: Env):
    handle = await env.start(Echo, "x")
    pending = (await handle.describe()).raw_description.pending_workflow_task
    assert pending.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED
    assert pending.attempt == 1
    async with env.raw() as stub:
        await env.raw_poll_workflow_task(stub)
    pending = (await handle.describe()).raw_description.pending_workflow_task
    assert pending.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED
    await handle.terminate()


async def test_describe_scheduled_activity(env: Env):
    async with env.worker(CallActivity):
        options = {"activity_id": "waiting", "retry": {"maximum_attempts": 5}}
        handle = await env.start(CallActivity, "nobody_runs_this", [], options)
        pending = await eventually(lambda: pending_activity(handle))
        assert pending.activity_id == "waiting"
        assert pending.activity_type.name == "nobody_runs_this"
        assert pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
        assert pending.attempt == 1
        assert pending.maximum_attempts == 5
        await handle.terminate()


async def test_describe_activity_between_attempts(env: Env):
    async with env.worker(CallActivity, fail_until):
        options = {"retry": {"initial_interval": 60, "maximum_interval": 60}}
        handle = await env.start(CallActivity, "fail_until", [9], options)

        async def failed_once():
            pending = await pending_activity(handle)
            return pending if pending and pending.attempt == 2 else None

        pending = await eventually(failed_once)
        assert pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
        assert pending.last_failure.message == "attempt 1 fails"
        assert pending.last_failure.application_failure_info.type == "NotYet"
        assert pending.last_worker_identity
        assert pending.scheduled_time.ToDatetime() > pending.last_started_time.ToDatetime()
        await handle.terminate()


async def test_describe_started_activity(env: Env):
    release = asyncio.Event()

    @activity.defn
    async def wait_for_test() -> None:
        await release.wait()

    async with env.worker(CallActivity, wait_for_test):
        handle = await env.start(CallActivity, "wait_for_test", [], {})

        async def started():
            pending = await pending_activity(handle)
            state = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
            return pending if pending and pending.state == state else None

        pending = await eventually(started)
        assert pending.last_started_time.ToDatetime()
        # The started event comes only with the end of the activity.
        assert (await event_names(handle))[-1] == "ActivityTaskScheduled"
        release.set()
        await handle.result()
        assert not await pending_activities(handle)


@workflow.defn
class HasChild:
    @workflow.run
    async def run(self, child_id: str) -> None:
        await workflow.execute_child_workflow(Waiter.run, id=child_id)


async def test_describe_pending_child(env: Env):
    child_id = f"{env.id}-child"
    async with env.worker(HasChild, Waiter):
        handle = await env.start(HasChild, child_id)

        async def child():
            pending = (await handle.describe()).raw_description.pending_children
            return pending[0] if pending and pending[0].run_id else None

        pending = await eventually(child)
        assert pending.workflow_id == child_id
        assert pending.workflow_type_name == "Waiter"
        assert pending.initiated_id == 5
        assert (await env.handle(child_id).describe()).parent_id == env.id
        await env.handle(child_id).signal("finish")
        await handle.result()
        assert not (await handle.describe()).raw_description.pending_children


# --- history ---


async def test_event_ids_and_times_grow(env: Env):
    async with env.worker(CallActivity, fail_until):
        handle = await env.start(CallActivity, "fail_until", [1], {})
        await handle.result()
    events = (await handle.fetch_history()).events
    assert [event.event_id for event in events] == list(range(1, len(events) + 1))
    times = [event.event_time.ToDatetime() for event in events]
    assert times == sorted(times)


async def test_paging(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        for n in range(25):
            await handle.signal(Waiter.add, n)
        await handle.signal(Waiter.finish)
        await handle.result()
    whole = (await handle.fetch_history()).events
    pages = handle.fetch_history_events(page_size=7)
    sizes, paged = [], []
    while True:
        await pages.fetch_next_page()
        sizes.append(len(pages.current_page))
        paged.extend(pages.current_page)
        if not pages.next_page_token:
            break
    assert paged == list(whole)
    assert len(sizes) > 1


async def test_close_event_only(env: Env):
    async with env.worker(Echo):
        handle = await env.start(Echo, "x")
        await handle.result()
    found = [
        event_name(event)
        async for event in handle.fetch_history_events(
            event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
        )
    ]
    assert found == ["WorkflowExecutionCompleted"]


async def test_long_poll_for_new_events(env: Env):
    handle = await env.start(Waiter)
    seen: list[str] = []

    async def follow() -> None:
        async for event in handle.fetch_history_events(wait_new_event=True):
            seen.append(event_name(event))

    async def has_seen(name: str) -> bool:
        return name in seen

    following = asyncio.create_task(follow())
    await eventually(lambda: has_seen("WorkflowTaskScheduled"))
    await handle.signal(Waiter.add, 1)
    await eventually(lambda: has_seen("WorkflowExecutionSignaled"))
    await handle.terminate()
    await asyncio.wait_for(following, 5)
    assert seen[-1] == "WorkflowExecutionTerminated"


async def test_long_poll_for_the_close_event(env: Env):
    handle = await env.start(Waiter)
    async with env.raw() as stub:
        waiting = stub.GetWorkflowExecutionHistory(
            GetWorkflowExecutionHistoryRequest(
                namespace=NAMESPACE,
                execution=env.execution(),
                wait_new_event=True,
                history_event_filter_type=(
                    HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT
                ),
            ),
            timeout=10,
        )
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await handle.terminate()
        response = await waiting
    assert [event_name(e) for e in response.history.events] == ["WorkflowExecutionTerminated"]


async def test_reverse_history(env: Env):
    async with env.worker(Echo):
        handle = await env.start(Echo, "x")
        await handle.result()
    response = await env.client.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(
            namespace=NAMESPACE, execution=env.execution(), maximum_page_size=100
        )
    )
    assert [event.event_id for event in response.history.events] == [5, 4, 3, 2, 1]


async def test_history_of_an_unknown_workflow(env: Env):
    error = await raises(RPCError, env.handle().fetch_history())
    assert error.status == RPCStatusCode.NOT_FOUND


async def test_history_of_each_run(env: Env):
    async with env.worker(Echo):
        first = await env.start(Echo, "first")
        await first.result()
        second = await env.start(Echo, "second")
        await second.result()
    for handle, value in [(first, b'"first"'), (second, b'"second"')]:
        run = env.handle(run_id=handle.first_execution_run_id)
        history = await run.fetch_history()
        started = history.events[0].workflow_execution_started_event_attributes
        assert started.input.payloads[0].data == value
        assert history.run_id == handle.first_execution_run_id


async def test_invalid_page_token(env: Env):
    handle = await env.start(Echo, "x")
    async with env.raw() as stub:
        error = await raises(
            grpc.aio.AioRpcError,
            stub.GetWorkflowExecutionHistory(
                GetWorkflowExecutionHistoryRequest(
                    namespace=NAMESPACE, execution=env.execution(), next_page_token=b"rubbish"
                )
            ),
        )
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    await handle.terminate()
