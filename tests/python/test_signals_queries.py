"""Signals, signal-with-start and queries."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Sequence

import grpc
from temporalio import workflow
from temporalio.api.enums.v1 import WorkflowTaskFailedCause
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import (
    QueryRejectCondition,
    RawValue,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from flows import SHORT, Fails, Waiter, echo
from helpers import COMPLETE_WORKFLOW, NAMESPACE, Env, event_counts, event_names, find_events, raises


async def test_signals_arrive_in_order(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        for value in ["a", "b", "c"]:
            await handle.signal(Waiter.add, value)
        await handle.signal(Waiter.finish)
        assert await handle.result() == ["a", "b", "c"]


async def test_signals_before_the_first_task(env: Env):
    handle = await env.start(Waiter)
    await handle.signal(Waiter.add, 1)
    await handle.signal(Waiter.add, 2)
    await handle.signal(Waiter.finish)
    async with env.worker(Waiter):
        assert await handle.result() == [1, 2]
    assert await event_names(handle) == [
        "WorkflowExecutionStarted",
        "WorkflowTaskScheduled",
        "WorkflowExecutionSignaled",
        "WorkflowExecutionSignaled",
        "WorkflowExecutionSignaled",
        "WorkflowTaskStarted",
        "WorkflowTaskCompleted",
        "WorkflowExecutionCompleted",
    ]


async def test_200_signals_keep_their_order(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        for value in range(200):
            await handle.signal(Waiter.add, value)
        await handle.signal(Waiter.finish)
        assert await handle.result() == list(range(200))
    assert (await event_counts(handle))["WorkflowExecutionSignaled"] == 201


async def test_200_concurrent_signals_all_arrive(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        await asyncio.gather(*(handle.signal(Waiter.add, value) for value in range(200)))
        await handle.signal(Waiter.finish)
        assert sorted(await handle.result()) == list(range(200))


async def test_signals_are_buffered_while_a_task_runs(env: Env):
    """Signals sent during a started workflow task come into history after its completion."""
    async with env.raw() as stub:
        handle = await env.start(Waiter)
        task = await env.raw_poll_workflow_task(stub)
        assert task.workflow_execution.workflow_id == env.id
        for value in range(20):
            await handle.signal(Waiter.add, value)
        names = await event_names(handle)
        assert names[-1] == "WorkflowTaskStarted"
        await env.raw_complete_workflow_task(stub, task.task_token)
    names = await event_names(handle)
    assert names[3:] == (
        ["WorkflowTaskCompleted"] + 20 * ["WorkflowExecutionSignaled"] + ["WorkflowTaskScheduled"]
    )
    signaled = await find_events(handle, "WorkflowExecutionSignaled")
    assert [int(s.input.payloads[0].data) for s in signaled] == list(range(20))
    await handle.terminate()


async def test_signal_during_completion_is_not_lost(env: Env):
    """A completion whose task did not see a signal is refused, and the workflow runs again."""
    async with env.raw() as stub:
        handle = await env.start(Waiter)
        task = await env.raw_poll_workflow_task(stub)
        await handle.signal(Waiter.finish)
        error = await raises(
            grpc.aio.AioRpcError,
            env.raw_complete_workflow_task(stub, task.task_token, COMPLETE_WORKFLOW),
        )
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "UnhandledCommand"
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    failed = await find_events(handle, "WorkflowTaskFailed")
    assert [f.cause for f in failed] == [
        WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
    ]
    async with env.worker(Waiter):
        assert await handle.result() == []


async def test_signal_unknown_workflow(env: Env):
    error = await raises(RPCError, env.handle().signal("add", 1))
    assert error.status == RPCStatusCode.NOT_FOUND


async def test_signal_closed_workflow(env: Env):
    handle = await env.start(Waiter)
    await handle.terminate()
    error = await raises(RPCError, handle.signal(Waiter.add, 1))
    assert error.status == RPCStatusCode.NOT_FOUND
    assert "already completed" in str(error)


async def test_signal_with_the_same_request_id_counts_once(env: Env):
    handle = await env.start(Waiter)
    request = SignalWorkflowExecutionRequest(
        namespace=NAMESPACE,
        workflow_execution=env.execution(),
        signal_name="add",
        request_id="same",
        identity="raw-test",
    )
    async with env.raw() as stub:
        await stub.SignalWorkflowExecution(request)
        await stub.SignalWorkflowExecution(request)
    assert (await event_counts(handle))["WorkflowExecutionSignaled"] == 1
    await handle.terminate()


@workflow.defn
class SignalsOfAnyName:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @workflow.run
    async def run(self) -> list[str]:
        await workflow.wait_condition(lambda: len(self.seen) >= 2)
        return self.seen

    @workflow.signal(dynamic=True)
    def any(self, name: str, args: Sequence[RawValue]) -> None:
        self.seen.append(name)


async def test_dynamic_signals(env: Env):
    async with env.worker(SignalsOfAnyName):
        handle = await env.start(SignalsOfAnyName)
        await handle.signal("one")
        await handle.signal("two", 5)
        assert await handle.result() == ["one", "two"]


# --- signal with start ---


async def test_signal_with_start_starts(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter, start_signal="add", start_signal_args=["hi"])
        await handle.signal(Waiter.finish)
        assert await handle.result() == ["hi"]
    names = await event_names(handle)
    assert names[:3] == [
        "WorkflowExecutionStarted",
        "WorkflowExecutionSignaled",
        "WorkflowTaskScheduled",
    ]


async def test_signal_with_start_signals_the_running_one(env: Env):
    async with env.worker(Waiter):
        first = await env.start(Waiter, start_signal="add", start_signal_args=[1])
        second = await env.start(Waiter, start_signal="add", start_signal_args=[2])
        run_id = (await first.describe()).run_id
        assert (await second.describe()).run_id == run_id
        await second.signal(Waiter.finish)
        assert await first.result() == [1, 2]


async def test_signal_with_start_after_close_starts_anew(env: Env):
    async with env.worker(Waiter):
        assert await env.execute(Waiter, start_signal="finish") == []
        old = (await env.handle().describe()).run_id
        assert await env.execute(Waiter, start_signal="finish") == []
        assert (await env.handle().describe()).run_id != old


async def test_signal_with_start_reject_duplicate(env: Env):
    async with env.worker(Waiter):
        await env.execute(Waiter, start_signal="finish")
        await raises(
            WorkflowAlreadyStartedError,
            env.start(
                Waiter,
                start_signal="finish",
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            ),
        )


async def test_signal_with_start_terminate_existing(env: Env):
    first = await env.start(Waiter)
    await env.start(
        Waiter,
        start_signal="finish",
        id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
    )
    old = await env.handle(run_id=first.first_execution_run_id).describe()
    assert old.status == WorkflowExecutionStatus.TERMINATED
    async with env.worker(Waiter):
        assert await env.handle().result() == []


# --- queries ---


async def test_query_running_workflow(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        assert await handle.query(Waiter.current) == []
        await handle.signal(Waiter.add, 3)
        assert await handle.query(Waiter.current) == [3]
        await handle.signal(Waiter.finish)
        await handle.result()


async def test_query_leaves_no_trace_in_history(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        await handle.query(Waiter.current)
        before = await event_names(handle)
        for _ in range(5):
            await handle.query(Waiter.current)
        assert await event_names(handle) == before
        await handle.terminate()


async def test_query_sees_every_signal_sent_before(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        for count in range(1, 11):
            await handle.signal(Waiter.add, count)
            assert len(await handle.query(Waiter.current)) == count
        await handle.terminate()


async def test_query_closed_workflow(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter, start_signal="add", start_signal_args=["kept"])
        await handle.signal(Waiter.finish)
        await handle.result()
        assert await handle.query(Waiter.current) == ["kept"]


async def test_query_closed_workflow_on_a_new_worker(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter, start_signal="add", start_signal_args=["kept"])
        await handle.signal(Waiter.finish)
        await handle.result()
    async with env.worker(Waiter):
        assert await handle.query(Waiter.current) == ["kept"]


async def test_query_failed_workflow_rejected(env: Env):
    async with env.worker(Fails):
        handle = await env.start(Fails)
        await raises(WorkflowFailureError, handle.result())
        error = await raises(
            WorkflowQueryRejectedError,
            handle.query(
                "__stack_trace", reject_condition=QueryRejectCondition.NOT_COMPLETED_CLEANLY
            ),
        )
    assert error.status == WorkflowExecutionStatus.FAILED


async def test_query_completed_workflow_rejected_if_not_open(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter, start_signal="finish")
        await handle.result()
        error = await raises(
            WorkflowQueryRejectedError,
            handle.query(Waiter.current, reject_condition=QueryRejectCondition.NOT_OPEN),
        )
        assert error.status == WorkflowExecutionStatus.COMPLETED
        assert (
            await handle.query(
                Waiter.current, reject_condition=QueryRejectCondition.NOT_COMPLETED_CLEANLY
            )
            == []
        )


async def test_failing_query(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        error = await raises(WorkflowQueryFailedError, handle.query(Waiter.broken))
        assert "query failed on purpose" in str(error)
        assert await handle.query(Waiter.current) == []
        await handle.terminate()


async def test_unknown_query(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)
        error = await raises(WorkflowQueryFailedError, handle.query("no such query"))
        assert "no such query" in str(error)
        await handle.terminate()


async def test_query_unknown_workflow(env: Env):
    error = await raises(RPCError, env.handle().query("current"))
    assert error.status == RPCStatusCode.NOT_FOUND


async def test_query_without_worker_times_out(env: Env):
    handle = await env.start(Waiter)
    error = await raises(
        RPCError, handle.query(Waiter.current, rpc_timeout=timedelta(seconds=1))
    )
    assert error.status in (
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.FAILED_PRECONDITION,
    )
    await handle.terminate()


async def test_concurrent_queries_and_signals(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Waiter)

        async def one(n: int) -> int:
            await handle.signal(Waiter.add, n)
            return len(await handle.query(Waiter.current))

        counts = await asyncio.gather(*(one(n) for n in range(20)))
        assert all(1 <= count <= 20 for count in counts)
        await handle.signal(Waiter.finish)
        assert sorted(await handle.result()) == list(range(20))


@workflow.defn
class Busy:
    """Has workflow tasks all the time, so that queries come with them."""

    def __init__(self) -> None:
        self.rounds = 0

    @workflow.run
    async def run(self) -> int:
        while self.rounds < 20:
            await workflow.execute_activity(echo, start_to_close_timeout=SHORT)
            self.rounds += 1
        return self.rounds

    @workflow.query
    def progress(self) -> int:
        return self.rounds


async def test_queries_while_workflow_tasks_run(env: Env):
    async with env.worker(Busy, echo):
        handle = await env.start(Busy)
        seen = [await handle.query(Busy.progress) for _ in range(15)]
        assert seen == sorted(seen)
        assert await handle.result() == 20
