"""Child workflows, and signalling and cancelling other workflows from inside a workflow."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    TerminatedError,
    TimeoutError,
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError
from temporalio.workflow import ParentClosePolicy

from flows import Echo, Fails, Sleeper, Waiter
from helpers import Env, event_names, eventually, find_event, raises


@workflow.defn
class RunsChild:
    """Runs one child with options from the test and returns its result."""

    @workflow.run
    async def run(self, child: str, args: list[Any], options: dict[str, Any]) -> Any:
        if "max_attempts" in options:
            policy = RetryPolicy(maximum_attempts=options.pop("max_attempts"))
            options["retry_policy"] = policy
        if "run_timeout" in options:
            options["run_timeout"] = timedelta(seconds=options["run_timeout"])
        return await workflow.execute_child_workflow(child, args=args, **options)


async def test_child_result(env: Env):
    async with env.worker(RunsChild, Echo):
        handle = await env.start(RunsChild, "Echo", ["from child"], {"id": f"{env.id}-child"})
        assert await handle.result() == "from child"
    names = await event_names(handle)
    assert [name for name in names if "Child" in name] == [
        "StartChildWorkflowExecutionInitiated",
        "ChildWorkflowExecutionStarted",
        "ChildWorkflowExecutionCompleted",
    ]
    child = env.handle(f"{env.id}-child")
    started = await find_event(child, "WorkflowExecutionStarted")
    assert started.parent_workflow_execution.workflow_id == env.id
    assert started.parent_workflow_execution.run_id == handle.first_execution_run_id
    assert started.parent_initiated_event_id == 5
    assert started.root_workflow_execution.workflow_id == env.id


@workflow.defn
class Relatives:
    @workflow.run
    async def run(self, depth: int) -> list[Any]:
        info = workflow.info()
        here = [
            info.parent.workflow_id if info.parent else None,
            info.root.workflow_id if info.root else None,
        ]
        if depth == 0:
            return [here]
        child = f"{info.workflow_id}-{depth}"
        return [here, *await workflow.execute_child_workflow(Relatives.run, depth - 1, id=child)]


async def test_grandchild_knows_parent_and_root(env: Env):
    async with env.worker(Relatives):
        result = await env.execute(Relatives, 2)
    child, grandchild = f"{env.id}-2", f"{env.id}-2-1"
    assert result == [[None, None], [env.id, env.id], [child, env.id]]
    assert (await env.handle(grandchild).describe()).parent_id == child
    assert (await env.handle(grandchild).describe()).root_id == env.id


async def test_child_failure(env: Env):
    async with env.worker(RunsChild, Fails):
        handle = await env.start(RunsChild, "Fails", ["child broke"], {"id": f"{env.id}-child"})
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ChildWorkflowError)
    assert error.cause.workflow_id == f"{env.id}-child"
    assert error.cause.workflow_type == "Fails"
    assert error.cause.initiated_event_id == 5
    assert isinstance(error.cause.cause, ApplicationError)
    assert error.cause.cause.message == "child broke"
    assert list(error.cause.cause.details) == ["detail", 7]


async def test_child_run_timeout(env: Env):
    async with env.worker(RunsChild, Sleeper):
        handle = await env.start(RunsChild, "Sleeper", [60], {"run_timeout": 1})
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ChildWorkflowError)
    assert isinstance(error.cause.cause, TimeoutError)
    assert "ChildWorkflowExecutionTimedOut" in await event_names(handle)


async def test_child_terminated(env: Env):
    child_id = f"{env.id}-child"
    async with env.worker(RunsChild, Waiter):
        handle = await env.start(RunsChild, "Waiter", [], {"id": child_id})
        await eventually(lambda: env.handle(child_id).describe())
        await env.handle(child_id).terminate("enough")
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ChildWorkflowError)
    assert isinstance(error.cause.cause, TerminatedError)


@workflow.defn
class FailsBeforeAttempt:
    @workflow.run
    async def run(self, attempt: int) -> int:
        if workflow.info().attempt < attempt:
            raise ApplicationError("not yet")
        return workflow.info().attempt


async def test_child_retry_policy(env: Env):
    async with env.worker(RunsChild, FailsBeforeAttempt):
        options = {"id": f"{env.id}-child", "max_attempts": 3}
        handle = await env.start(RunsChild, "FailsBeforeAttempt", [2], options)
        assert await handle.result() == 2
    names = await event_names(handle)
    assert names.count("ChildWorkflowExecutionStarted") == 1
    assert names.count("ChildWorkflowExecutionFailed") == 0


@workflow.defn
class ContinuesOnce:
    @workflow.run
    async def run(self, left: int) -> str:
        if left:
            workflow.continue_as_new(left - 1)
        return "last run"


async def test_parent_waits_for_the_last_run_of_a_continued_child(env: Env):
    async with env.worker(RunsChild, ContinuesOnce):
        assert await env.execute(RunsChild, "ContinuesOnce", [2], {}) == "last run"


@workflow.defn
class TriesTakenId:
    @workflow.run
    async def run(self, child_id: str, reuse_policy: int) -> str:
        try:
            await workflow.execute_child_workflow(
                Waiter.run, id=child_id, id_reuse_policy=WorkflowIDReusePolicy(reuse_policy)
            )
        except WorkflowAlreadyStartedError as err:
            return f"{err.workflow_id} {err.workflow_type}"
        return "started"


async def test_child_id_of_a_running_workflow(env: Env):
    other = f"{env.id}-other"
    async with env.worker(TriesTakenId, Waiter):
        running = await env.start(Waiter, id=other)
        handle = await env.start(
            TriesTakenId, other, int(WorkflowIDReusePolicy.ALLOW_DUPLICATE)
        )
        assert await handle.result() == f"{other} Waiter"
        assert "StartChildWorkflowExecutionFailed" in await event_names(handle)
        await running.terminate()


async def test_child_id_of_a_closed_workflow_with_reject_duplicate(env: Env):
    other = f"{env.id}-other"
    async with env.worker(TriesTakenId, Waiter):
        await (await env.start(Waiter, id=other, start_signal="finish")).result()
        result = await env.execute(
            TriesTakenId, other, int(WorkflowIDReusePolicy.REJECT_DUPLICATE)
        )
        assert result == f"{other} Waiter"


# --- parent close policies ---


@workflow.defn
class LeavesChild:
    """Starts a child, then closes at once in the way the test wants."""

    @workflow.run
    async def run(self, child_id: str, policy: int, ending: str) -> str:
        await workflow.start_child_workflow(
            WaitsForever.run, id=child_id, parent_close_policy=ParentClosePolicy(policy)
        )
        if ending == "fail":
            raise ApplicationError("parent failed")
        if ending == "continue":
            workflow.continue_as_new(args=[f"{child_id}-of-second-run", policy, "complete"])
        return "left"


@workflow.defn
class WaitsForever:
    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)


async def child_status_after(env: Env, policy: ParentClosePolicy, ending: str = "complete"):
    """Close a parent and return its child's final status (RUNNING if it stays so for a while)."""
    child = env.handle(f"{env.id}-child")
    async with env.worker(LeavesChild, WaitsForever):
        handle = await env.start(LeavesChild, child.id, int(policy), ending)
        try:
            await handle.result()
        except WorkflowFailureError:
            pass
        if policy == ParentClosePolicy.ABANDON:
            await asyncio.sleep(0.5)
        else:

            async def closed() -> bool:
                return (await child.describe()).status != WorkflowExecutionStatus.RUNNING

            await eventually(closed)
        status = (await child.describe()).status
        try:
            await child.terminate()
        except RPCError:
            pass
        return status


@pytest.mark.parametrize("ending", ["complete", "fail", "continue"])
async def test_parent_close_policy_terminate(env: Env, ending: str):
    status = await child_status_after(env, ParentClosePolicy.TERMINATE, ending)
    assert status == WorkflowExecutionStatus.TERMINATED


async def test_parent_close_policy_abandon(env: Env):
    status = await child_status_after(env, ParentClosePolicy.ABANDON)
    assert status == WorkflowExecutionStatus.RUNNING


async def test_parent_close_policy_request_cancel(env: Env):
    status = await child_status_after(env, ParentClosePolicy.REQUEST_CANCEL)
    assert status == WorkflowExecutionStatus.CANCELED


async def test_terminated_parent_terminates_the_child(env: Env):
    child = env.handle(f"{env.id}-child")
    async with env.worker(RunsChild, Waiter):
        handle = await env.start(RunsChild, "Waiter", [], {"id": child.id})
        await eventually(child.describe)
        await handle.terminate()
        error = await raises(WorkflowFailureError, child.result())
        assert isinstance(error.cause, TerminatedError)


async def test_many_children(env: Env):
    async with env.worker(ManyChildren, Echo):
        assert await env.execute(ManyChildren, 20) == list(range(20))


@workflow.defn
class ManyChildren:
    @workflow.run
    async def run(self, count: int) -> list[int]:
        runs = (workflow.execute_child_workflow(Echo.run, n) for n in range(count))
        return list(await asyncio.gather(*runs))


# --- signals between workflows ---


@workflow.defn
class SignalsChild:
    @workflow.run
    async def run(self) -> list[Any]:
        child = await workflow.start_child_workflow(Waiter.run)
        await child.signal(Waiter.add, "from parent")
        await child.signal(Waiter.finish)
        return await child


async def test_parent_signals_child(env: Env):
    async with env.worker(SignalsChild, Waiter):
        assert await env.execute(SignalsChild) == ["from parent"]


@workflow.defn
class SignalsOther:
    @workflow.run
    async def run(self, workflow_id: str, run_id: str | None) -> str:
        other = workflow.get_external_workflow_handle(workflow_id, run_id=run_id)
        await other.signal("add", "from a stranger")
        await other.signal("finish")
        return "signalled"


@pytest.mark.parametrize("with_run_id", [True, False])
async def test_external_signal(env: Env, with_run_id: bool):
    async with env.worker(SignalsOther, Waiter):
        target = await env.start(Waiter, id=f"{env.id}-target")
        run_id = target.first_execution_run_id if with_run_id else None
        handle = await env.start(SignalsOther, target.id, run_id)
        assert await handle.result() == "signalled"
        assert await target.result() == ["from a stranger"]
    names = await event_names(handle)
    assert names.count("SignalExternalWorkflowExecutionInitiated") == 2
    assert names.count("ExternalWorkflowExecutionSignaled") == 2


async def test_external_signal_to_unknown_workflow(env: Env):
    async with env.worker(SignalsOther):
        handle = await env.start(SignalsOther, f"{env.id}-nobody", None)
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ApplicationError)
    assert "not found" in str(error.cause).lower()
    assert "SignalExternalWorkflowExecutionFailed" in await event_names(handle)


async def test_external_signal_to_closed_workflow(env: Env):
    async with env.worker(SignalsOther, Waiter):
        target = await env.start(Waiter, id=f"{env.id}-target", start_signal="finish")
        await target.result()
        handle = await env.start(SignalsOther, target.id, None)
        await raises(WorkflowFailureError, handle.result())
    assert "SignalExternalWorkflowExecutionFailed" in await event_names(handle)


# --- cancelling other workflows ---


@workflow.defn
class CancelsOther:
    @workflow.run
    async def run(self, workflow_id: str) -> str:
        await workflow.get_external_workflow_handle(workflow_id).cancel()
        return "asked"


async def test_external_cancel(env: Env):
    async with env.worker(CancelsOther, WaitsForever):
        target = await env.start(WaitsForever, id=f"{env.id}-target")
        handle = await env.start(CancelsOther, target.id)
        assert await handle.result() == "asked"
        await raises(WorkflowFailureError, target.result())
        assert (await target.describe()).status == WorkflowExecutionStatus.CANCELED
    names = await event_names(handle)
    assert "RequestCancelExternalWorkflowExecutionInitiated" in names
    assert "ExternalWorkflowExecutionCancelRequested" in names


async def test_external_cancel_of_unknown_workflow(env: Env):
    async with env.worker(CancelsOther):
        handle = await env.start(CancelsOther, f"{env.id}-nobody")
        await raises(WorkflowFailureError, handle.result())
    assert "RequestCancelExternalWorkflowExecutionFailed" in await event_names(handle)
