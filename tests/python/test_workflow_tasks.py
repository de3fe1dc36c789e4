"""Workflow tasks: failures and fixes, timeouts, non-determinism, sticky queues, patches, replay."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import grpc
import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import TaskQueueKind, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import StickyExecutionAttributes, TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskFailedRequest,
)
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from flows import SHORT, Echo, Waiter, echo
from helpers import (
    COMPLETE_WORKFLOW,
    NAMESPACE,
    Env,
    event_counts,
    event_names,
    eventually,
    find_event,
    find_events,
    raises,
)


# --- failures and fixes ---

# The SDK reports only the first failure of a task and lets the further attempts time out.
QUICK = timedelta(seconds=1)


@workflow.defn(name="Fixable")
class Broken:
    @workflow.run
    async def run(self) -> str:
        raise RuntimeError("a bug")


@workflow.defn(name="Fixable")
class Fixed:
    @workflow.run
    async def run(self) -> str:
        return "fixed"


async def test_a_bug_fails_the_task_and_a_fix_completes_the_workflow(env: Env):
    async with env.worker(Broken):
        handle = await env.start(Broken, task_timeout=QUICK)
        await eventually(lambda: find_events(handle, "WorkflowTaskFailed"))
        assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
    async with env.worker(Fixed):
        assert await handle.result() == "fixed"
    failed = await find_event(handle, "WorkflowTaskFailed")
    assert failed.failure.message == "a bug"
    cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE
    assert failed.cause == cause


async def test_repeated_task_failures_are_attempts_not_events(env: Env):
    async with env.worker(Broken):
        handle = await env.start(Broken, task_timeout=QUICK)

        async def third_attempt() -> bool:
            task = (await handle.describe()).raw_description.pending_workflow_task
            return task.attempt >= 3

        await eventually(third_attempt, timeout=30)
    counts = await event_counts(handle)
    assert counts["WorkflowTaskFailed"] + counts["WorkflowTaskTimedOut"] == 1
    await handle.terminate()


async def test_unregistered_workflow_type_waits_for_a_worker_that_knows_it(env: Env):
    async with env.worker(Waiter):
        handle = await env.start(Echo, "patience", task_timeout=QUICK)
        await eventually(lambda: find_events(handle, "WorkflowTaskFailed"))
    async with env.worker(Echo):
        assert await handle.result() == "patience"


async def test_failure_exception_types_fail_the_workflow(env: Env):
    async with env.worker(Broken, workflow_failure_exception_types=[RuntimeError]):
        error = await raises(WorkflowFailureError, env.execute(Broken))
    assert isinstance(error.cause, ApplicationError)
    assert error.cause.type == "RuntimeError"


async def test_failed_task_comes_again_with_the_next_attempt(env: Env):
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        assert task.attempt == 1
        await stub.RespondWorkflowTaskFailed(
            RespondWorkflowTaskFailedRequest(
                namespace=NAMESPACE,
                task_token=task.task_token,
                cause=WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNSPECIFIED,
                failure=Failure(message="raw failure"),
                identity="raw-test",
            )
        )
        again = await env.raw_poll_workflow_task(stub)
        assert again.attempt == 2
        await env.raw_complete_workflow_task(stub, again.task_token, COMPLETE_WORKFLOW)
    failed = await find_event(env.handle(), "WorkflowTaskFailed")
    assert failed.failure.message == "raw failure"


async def test_task_timeout_and_next_attempt(env: Env):
    async with env.raw() as stub:
        request = env.raw_start_request()
        request.workflow_task_timeout.FromSeconds(1)
        await stub.StartWorkflowExecution(request)
        lost = await env.raw_poll_workflow_task(stub)
        again = await env.raw_poll_workflow_task(stub)
        assert again.attempt == 2
        error = await raises(
            grpc.aio.AioRpcError,
            env.raw_complete_workflow_task(stub, lost.task_token, COMPLETE_WORKFLOW),
        )
        assert error.code() == grpc.StatusCode.NOT_FOUND
        await env.raw_complete_workflow_task(stub, again.task_token, COMPLETE_WORKFLOW)
    timed_out = await find_event(env.handle(), "WorkflowTaskTimedOut")
    assert timed_out.timeout_type == TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE


async def test_sticky_task_falls_back_to_the_normal_queue(env: Env):
    """A task that no worker takes from the sticky queue in time comes with full history elsewhere."""
    sticky = StickyExecutionAttributes(
        worker_task_queue=TaskQueue(
            name=f"{env.task_queue}-sticky",
            kind=TaskQueueKind.TASK_QUEUE_KIND_STICKY,
            normal_name=env.task_queue,
        )
    )
    sticky.schedule_to_start_timeout.FromSeconds(1)
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        await env.raw_complete_workflow_task(stub, task.task_token, sticky_attributes=sticky)
        await env.handle().signal("anything")
        again = await env.raw_poll_workflow_task(stub)
        assert again.history.events[0].event_id == 1
        await env.raw_complete_workflow_task(stub, again.task_token, COMPLETE_WORKFLOW)
    assert (await event_names(env.handle()))[-1] == "WorkflowExecutionCompleted"


async def test_sticky_task_has_only_the_new_events(env: Env):
    queue = TaskQueue(
        name=f"{env.task_queue}-sticky",
        kind=TaskQueueKind.TASK_QUEUE_KIND_STICKY,
        normal_name=env.task_queue,
    )
    sticky = StickyExecutionAttributes(worker_task_queue=queue)
    sticky.schedule_to_start_timeout.FromSeconds(10)
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        await env.raw_complete_workflow_task(stub, task.task_token, sticky_attributes=sticky)
        poll = stub.PollWorkflowTaskQueue(
            PollWorkflowTaskQueueRequest(
                namespace=NAMESPACE, task_queue=queue, identity="raw-test"
            ),
            timeout=15,
        )
        await asyncio.sleep(0.3)  # Tasks go to a sticky queue only while it has a poller.
        await env.handle().signal("anything")
        again = await poll
        assert again.history.events[0].event_id > 3
        assert again.previous_started_event_id == 3
        await env.raw_complete_workflow_task(stub, again.task_token, COMPLETE_WORKFLOW)


async def test_completion_may_return_the_next_task(env: Env):
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        response = await env.raw_complete_workflow_task(
            stub, task.task_token, return_new_workflow_task=True, force_create_new_workflow_task=True
        )
        assert response.workflow_task.task_token
        assert response.workflow_task.started_event_id == 6
        await env.raw_complete_workflow_task(
            stub, response.workflow_task.task_token, COMPLETE_WORKFLOW
        )
    assert (await env.handle().describe()).status == WorkflowExecutionStatus.COMPLETED


async def test_task_of_a_terminated_workflow_is_gone(env: Env):
    async with env.raw() as stub:
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await env.raw_poll_workflow_task(stub)
        await env.handle().terminate()
        error = await raises(
            grpc.aio.AioRpcError,
            env.raw_complete_workflow_task(stub, task.task_token, COMPLETE_WORKFLOW),
        )
    assert error.code() == grpc.StatusCode.NOT_FOUND


# --- determinism ---


@workflow.defn(name="Changing")
class UsesActivity:
    @workflow.run
    async def run(self) -> str:
        await workflow.execute_activity(echo, start_to_close_timeout=SHORT)
        await workflow.wait_condition(lambda: False)
        return "activity"


@workflow.defn(name="Changing")
class UsesTimer:
    def __init__(self) -> None:
        self.woken = False

    @workflow.run
    async def run(self) -> str:
        await asyncio.sleep(3600)
        return "timer"

    @workflow.signal
    def wake(self) -> None:
        self.woken = True


async def test_changed_code_fails_the_task_as_non_deterministic(env: Env):
    async with env.worker(UsesActivity, echo):
        handle = await env.start(UsesActivity)

        async def settled() -> bool:
            return (await event_counts(handle))["WorkflowTaskCompleted"] == 2

        await eventually(settled)
    async with env.worker(UsesTimer):
        await handle.signal("wake")
        failed = await eventually(lambda: find_events(handle, "WorkflowTaskFailed"))
        cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR
        assert failed[0].cause == cause
        assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING
        await handle.terminate()


async def test_replay_of_a_fetched_history(env: Env):
    async with env.worker(ManySteps, echo):
        handle = await env.start(ManySteps, 5)
        await handle.result()
    replayer = Replayer(workflows=[ManySteps], workflow_runner=UnsandboxedWorkflowRunner())
    result = await replayer.replay_workflow(await handle.fetch_history())
    assert result.replay_failure is None


async def test_replay_finds_changed_code(env: Env):
    async with env.worker(UsesActivity, echo):
        handle = await env.start(UsesActivity)
        await eventually(lambda: find_events(handle, "ActivityTaskCompleted"))
        await handle.terminate()
    replayer = Replayer(workflows=[UsesTimer], workflow_runner=UnsandboxedWorkflowRunner())
    result = await replayer.replay_workflow(
        await handle.fetch_history(), raise_on_replay_failure=False
    )
    assert isinstance(result.replay_failure, NondeterminismError)


@workflow.defn
class ManySteps:
    """Mixes activities, random numbers and a timer."""

    @workflow.run
    async def run(self, steps: int) -> list[Any]:
        done: list[Any] = [str(workflow.uuid4()), workflow.random().randint(0, 10**9)]
        for step in range(steps):
            done.append(
                await workflow.execute_activity(echo, step, start_to_close_timeout=SHORT)
            )
        await asyncio.sleep(0.01)
        return done


@pytest.mark.parametrize("cached", [0, 1])
async def test_workflows_finish_without_a_useful_cache(env: Env, cached: int):
    """Every task replays the history from its start, on the normal or the sticky queue."""
    async with env.worker(ManySteps, echo, max_cached_workflows=cached):
        handles = [await env.start(ManySteps, 4, id=f"{env.id}-{n}") for n in range(3)]
        for handle in handles:
            assert (await handle.result())[2:] == [0, 1, 2, 3]


# --- patches ---


@workflow.defn(name="Patchable")
class BeforePatch:
    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: self.go)
        return "old"

    def __init__(self) -> None:
        self.go = False

    @workflow.signal
    def proceed(self) -> None:
        self.go = True


@workflow.defn(name="Patchable")
class WithPatch:
    def __init__(self) -> None:
        self.go = False

    @workflow.run
    async def run(self) -> str:
        version = "new" if workflow.patched("my-patch") else "old"
        await workflow.wait_condition(lambda: self.go)
        return version

    @workflow.signal
    def proceed(self) -> None:
        self.go = True


@workflow.defn(name="Patchable")
class WithDeprecatedPatch:
    def __init__(self) -> None:
        self.go = False

    @workflow.run
    async def run(self) -> str:
        workflow.deprecate_patch("my-patch")
        await workflow.wait_condition(lambda: self.go)
        return "new"

    @workflow.signal
    def proceed(self) -> None:
        self.go = True


async def first_task_done(handle) -> bool:
    return (await event_counts(handle))["WorkflowTaskCompleted"] >= 1


async def test_patched_code_for_a_new_workflow(env: Env):
    async with env.worker(WithPatch):
        handle = await env.start(WithPatch)
        await handle.signal(WithPatch.proceed)
        assert await handle.result() == "new"
    marker = await find_event(handle, "MarkerRecorded")
    assert marker.marker_name == "core_patch"


async def test_patch_sets_the_change_version_search_attribute(env: Env):
    async with env.worker(WithPatch):
        handle = await env.start(WithPatch)
        await eventually(lambda: first_task_done(handle))
        described = (await handle.describe()).raw_description.workflow_execution_info
        value = described.search_attributes.indexed_fields["TemporalChangeVersion"]
        assert b"my-patch" in value.data
        assert value.metadata["type"] == b"KeywordList"
        await handle.terminate()
    assert "UpsertWorkflowSearchAttributes" in await event_names(handle)


async def test_old_code_path_for_an_old_workflow(env: Env):
    async with env.worker(BeforePatch):
        handle = await env.start(BeforePatch)
        await eventually(lambda: first_task_done(handle))
    async with env.worker(WithPatch):
        await handle.signal(WithPatch.proceed)
        assert await handle.result() == "old"
    assert "MarkerRecorded" not in await event_names(handle)


async def test_deprecated_patch_for_a_patched_workflow(env: Env):
    async with env.worker(WithPatch):
        handle = await env.start(WithPatch)
        await eventually(lambda: first_task_done(handle))
    async with env.worker(WithDeprecatedPatch):
        await handle.signal(WithPatch.proceed)
        assert await handle.result() == "new"


# --- memo and details ---


@workflow.defn
class UpsertsMemo:
    @workflow.run
    async def run(self) -> dict[str, Any]:
        workflow.upsert_memo({"added": 1, "changed": "after", "removed": None})
        await workflow.execute_activity(echo, start_to_close_timeout=SHORT)
        return dict(workflow.memo())


async def test_upsert_memo(env: Env):
    async with env.worker(UpsertsMemo, echo):
        handle = await env.start(
            UpsertsMemo, memo={"kept": True, "changed": "before", "removed": "x"}
        )
        expected = {"kept": True, "added": 1, "changed": "after"}
        assert await handle.result() == expected
        assert await (await handle.describe()).memo() == expected
    assert "WorkflowPropertiesModified" in await event_names(handle)


async def test_history_size_and_length_reach_the_workflow(env: Env):
    async with env.worker(ReadsHistoryLength, echo):
        length, size = await env.execute(ReadsHistoryLength)
    assert length == 9
    assert size > 0


@workflow.defn
class ReadsHistoryLength:
    @workflow.run
    async def run(self) -> list[int]:
        await workflow.execute_activity(echo, start_to_close_timeout=SHORT)
        info = workflow.info()
        return [info.get_current_history_length(), info.get_current_history_size()]


async def test_short_task_timeout_is_enough_for_quick_tasks(env: Env):
    async with env.worker(ManySteps, echo):
        handle = await env.start(ManySteps, 3, task_timeout=timedelta(seconds=1))
        assert (await handle.result())[2:] == [0, 1, 2]
