"""Cancelling, terminating and deleting workflows; cancellation of what runs inside them."""

from __future__ import annotations

import asyncio

import pytest
from temporalio import activity, workflow
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
)
from temporalio.service import RPCError, RPCStatusCode
from temporalio.workflow import (
    ActivityCancellationType,
    ChildWorkflowCancellationType,
    ParentClosePolicy,
)

from flows import SHORT, CallActivity, Echo, Sleeper, Waiter
from helpers import NAMESPACE, Env, event_names, eventually, find_event, raises


async def cancelled(handle) -> None:
    """Assert that the workflow ends as cancelled."""
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, CancelledError), error.cause
    assert (await handle.describe()).status == WorkflowExecutionStatus.CANCELED


# --- workflow and timer ---


async def test_cancel_workflow_in_a_timer(env: Env):
    async with env.worker(Sleeper):
        handle = await env.start(Sleeper, 3600)
        await eventually(lambda: has_event(handle, "TimerStarted"))
        await handle.cancel()
        await cancelled(handle)
    names = await event_names(handle)
    assert "WorkflowExecutionCancelRequested" in names
    assert names[-1] == "WorkflowExecutionCanceled"
    assert (await handle.describe()).close_time is not None


async def has_event(handle, name: str) -> bool:
    return name in await event_names(handle)


async def test_cancel_before_the_first_task(env: Env):
    handle = await env.start(Sleeper, 3600)
    await handle.cancel()
    async with env.worker(Sleeper):
        await cancelled(handle)


async def test_cancel_twice_is_one_request(env: Env):
    handle = await env.start(Sleeper, 3600)
    await handle.cancel()
    try:
        await handle.cancel()
    except RPCError as err:
        assert err.status == RPCStatusCode.NOT_FOUND
    assert (await event_names(handle)).count("WorkflowExecutionCancelRequested") == 1
    await handle.terminate()


async def test_cancel_with_reason(env: Env):
    handle = await env.start(Sleeper, 3600)
    await handle.cancel(reason="no longer needed")
    requested = await find_event(handle, "WorkflowExecutionCancelRequested")
    assert requested.cause == "no longer needed"
    await handle.terminate()


async def test_cancel_unknown_workflow(env: Env):
    error = await raises(RPCError, env.handle().cancel())
    assert error.status == RPCStatusCode.NOT_FOUND


async def test_cancel_closed_workflow(env: Env):
    handle = await env.start(Sleeper, 3600)
    await handle.terminate()
    try:
        await handle.cancel()
    except RPCError as err:
        assert err.status == RPCStatusCode.NOT_FOUND


@workflow.defn
class RefusesCancel:
    @workflow.run
    async def run(self) -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return "cleaned up instead"
        return "slept"


async def test_workflow_may_complete_after_a_cancel(env: Env):
    async with env.worker(RefusesCancel):
        handle = await env.start(RefusesCancel)
        await eventually(lambda: has_event(handle, "TimerStarted"))
        await handle.cancel()
        assert await handle.result() == "cleaned up instead"
        assert (await handle.describe()).status == WorkflowExecutionStatus.COMPLETED


@workflow.defn
class Shielded:
    @workflow.run
    async def run(self) -> str:
        important = asyncio.create_task(self.work())
        try:
            await asyncio.shield(important)
        except asyncio.CancelledError:
            return f"cancelled, but {await important}"
        return "not cancelled"

    async def work(self) -> str:
        await asyncio.sleep(0.5)
        return "work done"


async def test_shielded_work_goes_on(env: Env):
    async with env.worker(Shielded):
        handle = await env.start(Shielded)
        await eventually(lambda: has_event(handle, "TimerStarted"))
        await handle.cancel()
        assert await handle.result() == "cancelled, but work done"
    assert "TimerCanceled" not in await event_names(handle)


# --- activities ---


class Patient:
    """An activity that heartbeats until it is cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    @activity.defn(name="patient")
    async def run(self) -> str:
        self.started.set()
        try:
            while True:
                activity.heartbeat("beat")
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    @activity.defn(name="stubborn")
    async def run_stubborn(self) -> str:
        self.started.set()
        try:
            while True:
                activity.heartbeat("beat")
                await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            self.cancelled.set()
            return "finished anyway"


def beating(kind: ActivityCancellationType) -> dict:
    return {"heartbeat_timeout": 5, "start_to_close_timeout": 30, "cancellation_type": int(kind)}


async def test_activity_learns_of_the_cancel_by_heartbeat(env: Env):
    patient = Patient()
    async with env.worker(CallActivity, patient.run):
        options = beating(ActivityCancellationType.WAIT_CANCELLATION_COMPLETED)
        handle = await env.start(CallActivity, "patient", [], options)
        await patient.started.wait()
        await handle.cancel()
        await cancelled(handle)
        assert patient.cancelled.is_set()
    names = await event_names(handle)
    assert names.index("ActivityTaskCancelRequested") < names.index("ActivityTaskCanceled")


async def test_try_cancel_does_not_wait_for_the_activity(env: Env):
    patient = Patient()
    async with env.worker(CallActivity, patient.run):
        options = beating(ActivityCancellationType.TRY_CANCEL)
        handle = await env.start(CallActivity, "patient", [], options)
        await patient.started.wait()
        await handle.cancel()
        await cancelled(handle)
        await patient.cancelled.wait()
    assert "ActivityTaskCancelRequested" in await event_names(handle)


async def test_abandon_leaves_the_activity_alone(env: Env):
    patient = Patient()
    async with env.worker(CallActivity, patient.run):
        options = beating(ActivityCancellationType.ABANDON)
        handle = await env.start(CallActivity, "patient", [], options)
        await patient.started.wait()
        await handle.cancel()
        await cancelled(handle)
    assert "ActivityTaskCancelRequested" not in await event_names(handle)


async def test_activity_may_complete_after_a_cancel(env: Env):
    patient = Patient()
    async with env.worker(CallActivity, patient.run_stubborn):
        options = beating(ActivityCancellationType.WAIT_CANCELLATION_COMPLETED)
        handle = await env.start(CallActivity, "stubborn", [], options)
        await patient.started.wait()
        await handle.cancel()
        assert await handle.result() == "finished anyway"


async def test_cancel_an_activity_nobody_has_started(env: Env):
    async with env.worker(CallActivity):
        options = beating(ActivityCancellationType.WAIT_CANCELLATION_COMPLETED)
        handle = await env.start(CallActivity, "patient", [], options)
        await eventually(lambda: has_event(handle, "ActivityTaskScheduled"))
        await handle.cancel()
        await cancelled(handle)
    assert "ActivityTaskStarted" not in await event_names(handle)


@workflow.defn
class CancelsItsActivity:
    @workflow.run
    async def run(self) -> str:
        running = workflow.start_activity(
            "patient",
            start_to_close_timeout=SHORT,
            heartbeat_timeout=SHORT,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        await asyncio.sleep(0.1)
        running.cancel()
        try:
            await running
        except ActivityError as err:
            return type(err.cause).__name__
        return "no error"


async def test_workflow_cancels_its_activity(env: Env):
    patient = Patient()
    async with env.worker(CancelsItsActivity, patient.run):
        assert await env.execute(CancelsItsActivity) == "CancelledError"


async def test_activity_of_a_terminated_workflow_is_cancelled(env: Env):
    patient = Patient()
    async with env.worker(CallActivity, patient.run):
        options = beating(ActivityCancellationType.TRY_CANCEL)
        handle = await env.start(CallActivity, "patient", [], options)
        await patient.started.wait()
        await handle.terminate()
        await asyncio.wait_for(patient.cancelled.wait(), 10)


# --- children ---


@workflow.defn
class ParentOfSleeper:
    @workflow.run
    async def run(self, child_id: str, kind: int, close_policy: int) -> None:
        await workflow.execute_child_workflow(
            Sleeper.run,
            3600,
            id=child_id,
            cancellation_type=ChildWorkflowCancellationType(kind),
            parent_close_policy=ParentClosePolicy(close_policy),
        )


async def start_parent(
    env: Env,
    kind: ChildWorkflowCancellationType,
    close_policy: ParentClosePolicy = ParentClosePolicy.ABANDON,
):
    """Start a parent and wait until its child sleeps."""
    child = env.handle(f"{env.id}-child")
    handle = await env.start(ParentOfSleeper, child.id, int(kind), int(close_policy))
    await eventually(lambda: has_event(child, "TimerStarted"))
    await eventually(lambda: has_event(handle, "ChildWorkflowExecutionStarted"))
    return handle, child


async def test_cancel_reaches_the_child(env: Env):
    async with env.worker(ParentOfSleeper, Sleeper):
        wait = ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED
        handle, child = await start_parent(env, wait)
        await handle.cancel()
        await cancelled(handle)
        await cancelled(child)
    names = await event_names(handle)
    assert "RequestCancelExternalWorkflowExecutionInitiated" in names
    assert "ChildWorkflowExecutionCanceled" in names


async def test_try_cancel_child(env: Env):
    async with env.worker(ParentOfSleeper, Sleeper):
        # The parent closes in the task that asks for the child's cancellation. That request may
        # then be dropped, as Temporal does, but the parent close policy still cancels the child.
        handle, child = await start_parent(
            env, ChildWorkflowCancellationType.TRY_CANCEL, ParentClosePolicy.REQUEST_CANCEL
        )
        await handle.cancel()
        await cancelled(handle)
        await cancelled(child)


async def test_abandoned_child_is_not_cancelled(env: Env):
    async with env.worker(ParentOfSleeper, Sleeper):
        handle, child = await start_parent(env, ChildWorkflowCancellationType.ABANDON)
        await handle.cancel()
        await cancelled(handle)
        assert (await child.describe()).status == WorkflowExecutionStatus.RUNNING
        await child.terminate()


async def test_parent_sees_its_child_cancelled_by_someone_else(env: Env):
    async with env.worker(ParentOfSleeper, Sleeper):
        handle, child = await start_parent(env, ChildWorkflowCancellationType.TRY_CANCEL)
        await child.cancel()
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ChildWorkflowError)
    assert isinstance(error.cause.cause, CancelledError)


# --- terminate and delete ---


async def test_terminate(env: Env):
    handle = await env.start(Waiter)
    await handle.terminate("detail", 5, reason="had to go")
    error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, TerminatedError)
    assert error.cause.message == "had to go"
    terminated = await find_event(handle, "WorkflowExecutionTerminated")
    assert terminated.reason == "had to go"
    assert [p.data for p in terminated.details.payloads] == [b'"detail"', b"5"]
    assert (await handle.describe()).status == WorkflowExecutionStatus.TERMINATED


async def test_terminate_wakes_a_waiting_client(env: Env):
    handle = await env.start(Waiter)
    waiting = asyncio.create_task(raises(WorkflowFailureError, handle.result()))
    await asyncio.sleep(0.3)
    await handle.terminate()
    await asyncio.wait_for(waiting, 5)


async def test_terminate_closed_or_unknown_workflow(env: Env):
    error = await raises(RPCError, env.handle().terminate())
    assert error.status == RPCStatusCode.NOT_FOUND
    handle = await env.start(Waiter)
    await handle.terminate()
    error = await raises(RPCError, handle.terminate())
    assert error.status == RPCStatusCode.NOT_FOUND


async def test_first_execution_run_id_protects_a_newer_workflow(env: Env):
    old = await env.start(Waiter)
    await old.terminate()
    new = await env.start(Waiter)
    stale = env.handle(first_execution_run_id=old.first_execution_run_id)
    error = await raises(RPCError, stale.terminate())
    assert error.status == RPCStatusCode.NOT_FOUND
    assert (await new.describe()).status == WorkflowExecutionStatus.RUNNING
    await new.terminate()


@pytest.mark.parametrize("running", [True, False])
async def test_delete(env: Env, running: bool):
    async with env.worker(Echo):
        handle = await env.start(Waiter if running else Echo)
        if not running:
            await handle.result()
    await env.client.workflow_service.delete_workflow_execution(
        DeleteWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=env.execution())
    )

    async def gone() -> bool:
        try:
            await handle.describe()
            return False
        except RPCError as err:
            return err.status == RPCStatusCode.NOT_FOUND

    # Temporal takes 5 to 35 s to delete a closed workflow.
    await eventually(gone, timeout=50)
    # The id is free again.
    again = await env.start(Waiter)
    await again.terminate()


async def test_delete_unknown_workflow(env: Env):
    error = await raises(
        RPCError,
        env.client.workflow_service.delete_workflow_execution(
            DeleteWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=env.execution())
        ),
    )
    assert error.status == RPCStatusCode.NOT_FOUND


@workflow.defn
class CleansUp:
    @workflow.run
    async def run(self) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await workflow.execute_activity("clean", start_to_close_timeout=SHORT)


async def test_cleanup_activity_after_a_cancel(env: Env):
    cleaned: list[str] = []

    @activity.defn
    async def clean() -> None:
        cleaned.append("yes")

    async with env.worker(CleansUp, clean):
        handle = await env.start(CleansUp)
        await eventually(lambda: has_event(handle, "TimerStarted"))
        await handle.cancel()
        await cancelled(handle)
    assert cleaned == ["yes"]


async def test_failing_after_a_cancel_is_a_failure(env: Env):
    async with env.worker(FailsOnCancel):
        handle = await env.start(FailsOnCancel)
        await eventually(lambda: has_event(handle, "TimerStarted"))
        await handle.cancel()
        error = await raises(WorkflowFailureError, handle.result())
    assert isinstance(error.cause, ApplicationError)


@workflow.defn
class FailsOnCancel:
    @workflow.run
    async def run(self) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise ApplicationError("could not clean up")
