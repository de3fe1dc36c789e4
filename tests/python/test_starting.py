"""Starting workflows: options, id policies, timeouts, eager and delayed start."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import (
    Priority,
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import (
    TerminatedError,
    TimeoutError,
    TimeoutType,
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError, RPCStatusCode

from flows import CallActivity, Echo, Fails, Sleeper, Waiter, echo
from helpers import COMPLETE_WORKFLOW, NAMESPACE, Env, event_names, find_event, raises


async def test_start_and_result(env: Env):
    async with env.worker(Echo):
        assert await env.execute(Echo, {"a": [1, 2.5, None, "ü"]}) == {"a": [1, 2.5, None, "ü"]}


async def test_history_of_the_simplest_workflow(env: Env):
    async with env.worker(Echo):
        handle = await env.start(Echo, "x")
        await handle.result()
    assert await event_names(handle) == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "WorkflowExecutionCompleted",
    ]


async def test_start_before_any_worker_exists(env: Env):
    handle = await env.start(Echo, "early")
    async with env.worker(Echo):
        assert await handle.result() == "early"


async def test_started_event_carries_the_options(env: Env):
    handle = await env.start(
        Echo,
        "x",
        execution_timeout=timedelta(seconds=300),
        run_timeout=timedelta(seconds=200),
        task_timeout=timedelta(seconds=7),
        retry_policy=RetryPolicy(maximum_attempts=3, initial_interval=timedelta(seconds=2)),
        memo={"note": "remember"},
        priority=Priority(priority_key=2),
    )
    started = await find_event(handle, "WorkflowExecutionStarted")
    assert started.workflow_type.name == "Echo"
    assert started.task_queue.name == env.task_queue
    assert started.workflow_execution_timeout.seconds == 300
    assert started.workflow_run_timeout.seconds == 200
    assert started.workflow_task_timeout.seconds == 7
    assert started.retry_policy.maximum_attempts == 3
    assert started.retry_policy.initial_interval.seconds == 2
    assert started.retry_policy.backoff_coefficient == 2.0
    assert started.retry_policy.maximum_interval.seconds == 200
    assert started.attempt == 1
    assert started.memo.fields["note"].data == b'"remember"'
    assert started.priority.priority_key == 2
    assert started.original_execution_run_id == handle.first_execution_run_id
    assert started.first_execution_run_id == handle.first_execution_run_id
    await handle.terminate()


async def test_defaults_of_the_started_event(env: Env):
    handle = await env.start(Echo, "x")
    started = await find_event(handle, "WorkflowExecutionStarted")
    assert started.workflow_task_timeout.seconds == 10
    assert started.workflow_execution_timeout.seconds == 0
    assert started.workflow_run_timeout.seconds == 0
    assert not started.HasField("retry_policy")
    assert started.workflow_id == env.id
    await handle.terminate()


@workflow.defn
class ReadsMemoAndPriority:
    @workflow.run
    async def run(self) -> list:
        return [workflow.memo_value("note"), workflow.info().priority.priority_key]


async def test_workflow_sees_memo_and_priority(env: Env):
    async with env.worker(ReadsMemoAndPriority):
        result = await env.execute(
            ReadsMemoAndPriority, memo={"note": 5}, priority=Priority(priority_key=4)
        )
    assert result == [5, 4]


async def test_describe_shows_memo_summary_and_details(env: Env):
    handle = await env.start(
        Echo, "x", memo={"k": [1]}, static_summary="a summary", static_details="some *details*"
    )
    described = await handle.describe()
    assert await described.memo() == {"k": [1]}
    assert await described.static_summary() == "a summary"
    assert await described.static_details() == "some *details*"
    await handle.terminate()


async def test_unknown_search_attribute_is_rejected(env: Env):
    pair = SearchAttributePair(SearchAttributeKey.for_keyword("NeverRegistered"), "x")
    error = await raises(
        RPCError, env.start(Echo, "x", search_attributes=TypedSearchAttributes([pair]))
    )
    assert error.status == RPCStatusCode.INVALID_ARGUMENT


# --- id policies ---


async def test_running_id_is_already_started(env: Env):
    first = await env.start(Waiter)
    error = await raises(WorkflowAlreadyStartedError, env.start(Waiter))
    assert error.workflow_id == env.id
    assert error.run_id == first.first_execution_run_id
    await first.terminate()


async def test_closed_id_can_be_reused_by_default(env: Env):
    async with env.worker(Echo):
        first = await env.start(Echo, 1)
        assert await first.result() == 1
        second = await env.start(Echo, 2)
        assert await second.result() == 2
    assert first.first_execution_run_id != second.first_execution_run_id


@pytest.mark.parametrize("workflow_class", [Echo, Fails])
async def test_reuse_policy_reject_duplicate(env: Env, workflow_class: type):
    policy = WorkflowIDReusePolicy.REJECT_DUPLICATE
    async with env.worker(Echo, Fails):
        first = await env.start(workflow_class, id_reuse_policy=policy)
        try:
            await first.result()
        except WorkflowFailureError:
            pass
        await raises(WorkflowAlreadyStartedError, env.start(Echo, id_reuse_policy=policy))


async def test_reuse_policy_allow_duplicate_failed_only(env: Env):
    policy = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
    async with env.worker(Echo, Fails):
        await raises(WorkflowFailureError, env.execute(Fails))
        assert await env.execute(Echo, "after failure", id_reuse_policy=policy) == "after failure"
        await raises(WorkflowAlreadyStartedError, env.start(Echo, id_reuse_policy=policy))


async def test_reuse_policy_terminate_if_running(env: Env):
    first = await env.start(Waiter)
    second = await env.start(
        Waiter, id_reuse_policy=WorkflowIDReusePolicy.TERMINATE_IF_RUNNING
    )
    assert second.first_execution_run_id != first.first_execution_run_id
    old = env.handle(run_id=first.first_execution_run_id)
    error = await raises(WorkflowFailureError, old.result())
    assert isinstance(error.cause, TerminatedError)
    await second.terminate()


async def test_conflict_policy_use_existing(env: Env):
    async with env.worker(Waiter):
        first = await env.start(Waiter)
        second = await env.start(
            Waiter, id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING
        )
        assert second.first_execution_run_id == first.first_execution_run_id
        await second.signal(Waiter.finish)
        assert await first.result() == []


async def test_conflict_policy_terminate_existing(env: Env):
    first = await env.start(Waiter)
    second = await env.start(
        Waiter, id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING
    )
    old = await env.handle(run_id=first.first_execution_run_id).describe()
    assert old.status == WorkflowExecutionStatus.TERMINATED
    assert (await second.describe()).status == WorkflowExecutionStatus.RUNNING
    await second.terminate()


async def test_conflict_policy_fail(env: Env):
    first = await env.start(Waiter)
    await raises(
        WorkflowAlreadyStartedError,
        env.start(Waiter, id_conflict_policy=WorkflowIDConflictPolicy.FAIL),
    )
    await first.terminate()


async def test_same_request_id_starts_once(env: Env):
    request = env.raw_start_request()
    async with env.raw() as stub:
        first = await stub.StartWorkflowExecution(request)
        again = await stub.StartWorkflowExecution(request)
    assert first.started
    assert again.run_id == first.run_id
    await env.handle().terminate()


# --- start delay and eager start ---


async def test_start_delay_defers_the_first_task(env: Env):
    async with env.worker(Echo):
        begin = time.monotonic()
        handle = await env.start(Echo, "late", start_delay=timedelta(seconds=1))
        assert await handle.result() == "late"
        assert time.monotonic() - begin >= 0.9
    started = await find_event(handle, "WorkflowExecutionStarted")
    assert started.first_workflow_task_backoff.ToTimedelta() == timedelta(seconds=1)


async def test_signal_with_start_honours_start_delay(env: Env):
    async with env.worker(Waiter):
        begin = time.monotonic()
        handle = await env.start(
            Waiter, start_signal="finish", start_delay=timedelta(seconds=1)
        )
        assert await handle.result() == []
        assert time.monotonic() - begin >= 0.9


async def test_eager_start_through_the_sdk(env: Env):
    async with env.worker(Echo):
        handle = await env.start(Echo, "eager", request_eager_start=True)
        assert await handle.result() == "eager"
    started = await find_event(handle, "WorkflowExecutionStarted")
    assert started.eager_execution_accepted
    assert getattr(handle, "__temporal_eagerly_started")


async def test_eager_start_returns_the_first_task(env: Env):
    async with env.raw() as stub:
        response = await stub.StartWorkflowExecution(
            env.raw_start_request(request_eager_execution=True)
        )
        task = response.eager_workflow_task
        assert task.task_token
        assert task.workflow_execution.workflow_id == env.id
        assert task.started_event_id == 3
        assert [event.event_id for event in task.history.events] == [1, 2, 3]
        await env.raw_complete_workflow_task(stub, task.task_token, COMPLETE_WORKFLOW)
    assert (await env.handle().describe()).status == WorkflowExecutionStatus.COMPLETED


# --- timeouts ---


async def test_run_timeout(env: Env):
    async with env.worker(Sleeper):
        handle = await env.start(Sleeper, 60, run_timeout=timedelta(seconds=1))
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, TimeoutError)
    assert error.cause.type == TimeoutType.START_TO_CLOSE
    assert (await handle.describe()).status == WorkflowExecutionStatus.TIMED_OUT


async def test_execution_timeout_without_worker(env: Env):
    handle = await env.start(Echo, "x", execution_timeout=timedelta(seconds=1))
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, TimeoutError)
    assert (await event_names(handle))[-1] == "WorkflowExecutionTimedOut"


async def test_run_timeout_is_cut_to_the_execution_timeout(env: Env):
    handle = await env.start(
        Echo, "x", run_timeout=timedelta(seconds=500), execution_timeout=timedelta(seconds=100)
    )
    started = await find_event(handle, "WorkflowExecutionStarted")
    assert started.workflow_run_timeout.seconds == 100
    await handle.terminate()


# --- task queues ---


@workflow.defn
class CallsOtherQueue:
    @workflow.run
    async def run(self, task_queue: str) -> str:
        return await workflow.execute_activity(
            echo, "from afar", task_queue=task_queue, start_to_close_timeout=timedelta(seconds=10)
        )


async def test_activity_on_another_task_queue(env: Env):
    other = f"{env.task_queue}-other"
    async with env.worker(CallsOtherQueue), env.worker(echo, task_queue=other):
        assert await env.execute(CallsOtherQueue, other) == "from afar"


async def test_two_clients_work_on_the_same_workflow(env: Env):
    second = await Client.connect(env.address, namespace=NAMESPACE, identity="second-client")
    async with env.worker(Waiter):
        first_handle = await env.start(Waiter)
        second_handle = second.get_workflow_handle_for(Waiter.run, env.id)
        await first_handle.signal(Waiter.add, "first")
        await second_handle.signal(Waiter.add, "second")
        assert await first_handle.query(Waiter.current) == ["first", "second"]
        assert await second_handle.query(Waiter.current) == ["first", "second"]
        await second_handle.signal(Waiter.finish)
        assert await first_handle.result() == await second_handle.result()


async def test_many_workflows_at_once(env: Env):
    async with env.worker(CallActivity, echo):
        results = await asyncio.gather(
            *(
                env.execute(CallActivity, "echo", [n], {}, id=f"{env.id}-{n}")
                for n in range(30)
            )
        )
    assert results == list(range(30))
