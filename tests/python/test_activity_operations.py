"""Activities paused, resumed, reset and changed by an operator, as workers of the SDK see it."""

from __future__ import annotations

import asyncio
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio import activity
from temporalio.api.activity.v1 import ActivityOptions
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PauseActivityRequest,
    ResetActivityRequest,
    UnpauseActivityRequest,
    UpdateActivityOptionsRequest,
)
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError

from flows import CallActivity
from helpers import NAMESPACE, Env, SegnoServer, eventually, find_event, pending_activity, to_dict

HEARTBEATS = {"heartbeat_timeout": 5, "retry": {"initial_interval": 0.2}}


def fields(env: Env, activity_id: str = "1") -> dict[str, Any]:
    """What all requests have in common; the SDK numbers activities from 1."""
    return {"namespace": NAMESPACE, "execution": env.execution(), "id": activity_id, "identity": "operator"}


async def pause(env: Env, **more: Any) -> None:
    request = PauseActivityRequest(**fields(env), **more)
    await env.client.workflow_service.pause_activity(request)


async def unpause(env: Env, **more: Any) -> None:
    request = UnpauseActivityRequest(**fields(env), **more)
    await env.client.workflow_service.unpause_activity(request)


async def state_is(handle: WorkflowHandle[Any, Any], state: str) -> bool:
    found = await pending_activity(handle)
    return bool(found) and found.state == PendingActivityState.Value(f"PENDING_ACTIVITY_STATE_{state}")


class Beats:
    """An activity that heartbeats until it is told to succeed or to stop; remembers what it was told."""

    def __init__(self) -> None:
        self.attempts: list[int] = []
        self.told: list[Any] = []
        self.running = asyncio.Event()
        self.succeed = asyncio.Event()

    @activity.defn(name="beats")
    async def run(self) -> str:
        self.attempts.append(activity.info().attempt)
        self.running.set()
        try:
            while not self.succeed.is_set():
                activity.heartbeat(len(self.attempts))
                await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            self.told.append(activity.cancellation_details())
            raise
        return f"attempt {activity.info().attempt}"


async def test_running_activity_is_paused_and_resumed(env: Env):
    beats = Beats()
    async with env.worker(CallActivity, beats.run):
        handle = await env.start(CallActivity, "beats", [], HEARTBEATS)
        await beats.running.wait()
        await pause(env, reason="a closer look")
        await eventually(lambda: state_is(handle, "PAUSED"))

        (details,) = beats.told
        assert details.paused and not details.cancel_requested and not details.reset
        found = await pending_activity(handle)
        assert found.attempt == 2 and found.paused
        assert found.pause_info.manual.identity == "operator"
        assert found.pause_info.manual.reason == "a closer look"
        assert found.last_failure.application_failure_info.type == "ActivityPause"
        described = to_dict((await handle.describe()).raw_description.workflow_execution_info)
        assert "TemporalPauseInfo" in described["search_attributes"]["indexed_fields"]

        await asyncio.sleep(1)
        assert beats.attempts == [1]
        beats.succeed.set()
        await unpause(env)
        assert await handle.result() == "attempt 2"
    assert (await find_event(handle, "ActivityTaskStarted")).attempt == 2


async def test_waiting_activity_is_paused_and_resumed(env: Env):
    beats = Beats()
    beats.succeed.set()
    async with env.worker(CallActivity):
        handle = await env.start(CallActivity, "beats", [], HEARTBEATS)
        await eventually(lambda: state_is(handle, "SCHEDULED"))
        await pause(env)
        assert await state_is(handle, "PAUSED")
        async with env.worker(beats.run):
            await asyncio.sleep(1)
            assert beats.attempts == []
            await unpause(env)
            assert await handle.result() == "attempt 1"


async def test_paused_activity_survives_a_kill(durable_server: SegnoServer):
    """Paused between attempts, the server is killed: afterwards it is as paused as before."""
    server = durable_server
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    env = Env(address=server.address, client=client, name="paused")
    attempts: list[int] = []

    @activity.defn
    async def fails_once() -> str:
        attempts.append(activity.info().attempt)
        if len(attempts) == 1:
            raise ApplicationError("not yet")
        return f"attempt {activity.info().attempt}"

    async with env.worker(CallActivity, fails_once):
        options = {"retry": {"initial_interval": 1}, "schedule_to_start_timeout": 2}
        handle = await env.start(CallActivity, "fails_once", [], options)
        await eventually(lambda: second_attempt(handle))
        await pause(env, reason="before the crash")

        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

        await eventually(lambda: state_is(handle, "PAUSED"))
        found = await pending_activity(handle)
        assert found.attempt == 2 and found.pause_info.manual.reason == "before the crash"
        # Longer than the back-off and than schedule-to-start: neither ends while it is paused.
        await asyncio.sleep(3)
        assert attempts == [1]
        assert await state_is(handle, "PAUSED")
        await unpause(env)
        assert await handle.result() == "attempt 2"


async def second_attempt(handle: WorkflowHandle[Any, Any]) -> bool:
    found = await pending_activity(handle)
    return bool(found) and found.attempt == 2


async def test_running_activity_is_reset(env: Env):
    beats = Beats()
    async with env.worker(CallActivity, beats.run):
        handle = await env.start(CallActivity, "beats", [], HEARTBEATS)
        await beats.running.wait()
        await env.client.workflow_service.reset_activity(
            ResetActivityRequest(**fields(env), reset_heartbeat=True)
        )
        await eventually(lambda: asyncio.sleep(0, len(beats.attempts) == 2))
        (details,) = beats.told
        assert details.reset and not details.paused
        beats.succeed.set()
        assert await handle.result() == "attempt 2"


async def test_activity_is_moved_to_a_queue_that_has_workers(env: Env):
    beats = Beats()
    beats.succeed.set()
    elsewhere = f"{env.task_queue}-elsewhere"
    async with env.worker(CallActivity):
        options = {**HEARTBEATS, "task_queue": f"{env.task_queue}-nobody"}
        handle = await env.start(CallActivity, "beats", [], options)
        await eventually(lambda: state_is(handle, "SCHEDULED"))
        async with env.worker(beats.run, task_queue=elsewhere):
            response = await env.client.workflow_service.update_activity_options(
                UpdateActivityOptionsRequest(
                    **fields(env),
                    activity_options=ActivityOptions(
                        task_queue=TaskQueue(name=elsewhere), start_to_close_timeout=Duration(seconds=7)
                    ),
                    update_mask=FieldMask(paths=["task_queue.name", "start_to_close_timeout"]),
                )
            )
            assert response.activity_options.task_queue.name == elsewhere
            assert response.activity_options.start_to_close_timeout.seconds == 7
            assert await handle.result() == "attempt 1"
