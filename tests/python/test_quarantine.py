"""An activity during which too many workers were lost is handed to no other one until an operator says so."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any, AsyncIterator, Iterator

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.namespace.v1 import UpdateNamespaceInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    PauseActivityRequest,
    UnpauseActivityRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, TimeoutError
from temporalio.service import RPCError

from flows import CallActivity
from helpers import NAMESPACE, Env, SegnoServer, eventually, raises, segno_binary
from test_liveness import GRACE, Process, Scene

# Workers take seconds to begin on a busy machine.
pytestmark = pytest.mark.timeout(180)
LIMIT = "segno.activity.lost-workers-max"


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    """A server with a short grace period whose data outlives it."""
    folder = tmp_path_factory.mktemp("segno")
    server = SegnoServer(log=folder / "server.log", data_dir=folder / "data", flags=["--worker-grace", f"{GRACE}s"])
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest_asyncio.fixture
async def scene(durable: SegnoServer, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    client = await Client.connect(durable.address, namespace=NAMESPACE)
    scene = Scene(Env(address=durable.address, client=client, name=request.node.name), tmp_path)
    scene.http_port = durable.http_port
    await limit(client, "")
    try:
        yield scene
    finally:
        for process in scene.processes:
            process.end()


async def limit(client: Client, value: str) -> None:
    update = UpdateNamespaceInfo(data={LIMIT: value})
    await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace=NAMESPACE, update_info=update))


def segno(scene: Scene, *words: str) -> str:
    """Output of the command line."""
    command = [str(segno_binary()), *words, "--address", scene.env.address]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


async def pending(handle: WorkflowHandle[Any, Any]) -> Any:
    request = DescribeWorkflowExecutionRequest(
        namespace=NAMESPACE, execution=WorkflowExecution(workflow_id=handle.id)
    )
    described = await handle._client.workflow_service.describe_workflow_execution(request)
    return next(iter(described.pending_activities), None)


async def quarantined(handle: WorkflowHandle[Any, Any]) -> Any:
    async def is_paused() -> bool:
        activity = await pending(handle)
        return activity is not None and activity.paused

    await eventually(is_paused, timeout=GRACE + 20)
    return await pending(handle)


async def ready(scene: Scene, count: int) -> list[Process]:
    """Workers that an activity may kill."""
    workers = [scene.worker(f"w{number}") for number in range(count)]
    for worker in workers:
        await worker.wrote("ready", timeout=40)
    return workers


async def killed(workers: list[Process], count: int) -> list[Process]:
    """Waits until so many of the workers are dead; returns the others, which got nothing."""

    async def are_dead() -> bool:
        return sum(worker.process.poll() is not None for worker in workers) == count

    await eventually(are_dead, timeout=count * (GRACE + 5))
    await asyncio.sleep(2 * GRACE)
    alive = [worker for worker in workers if worker.process.poll() is None]
    assert [worker.lines() for worker in alive] == (len(workers) - count) * [["ready"]]
    return alive


async def test_three_workers_and_no_fourth(scene: Scene, durable: SegnoServer):
    """With a policy without a limit of attempts. `why`, the description and a metric show it; a restart changes nothing."""
    metric = scene.metric("activities_quarantined")
    async with scene.env.worker(CallActivity):
        workers = await ready(scene, 4)
        handle = await scene.begin(1, "poison")
        (fourth,) = await killed(workers, 3)
        activity = await quarantined(handle)
        assert (activity.attempt, activity.pause_info.manual.identity) == (4, "segno")
        assert activity.pause_info.manual.reason == "3 workers were lost while they had it"
        assert scene.metric("activities_quarantined") == metric + 1

        why = segno(scene, "workflow", "why", "--workflow-id", handle.id)
        assert "has been quarantined since" in why and "3 workers were lost while they had the activity (" in why, why
        assert "`segno activity reset --workflow-id" in why
        # An operator's own pause is refused, as that of a paused activity.
        request = PauseActivityRequest(
            namespace=NAMESPACE, execution=WorkflowExecution(workflow_id=handle.id), id=activity.activity_id
        )
        await raises(RPCError, handle._client.workflow_service.pause_activity(request))

    durable.kill()
    durable.start()
    await asyncio.sleep(2 * GRACE)
    assert fourth.lines() == ["ready"]
    segno(scene, "activity", "reset", "--workflow-id", handle.id, "--activity-id", activity.activity_id)
    await fourth.wrote("start 1", timeout=30)
    await handle.terminate()


async def test_unpaused_it_goes_to_one_more_worker(scene: Scene):
    await limit(scene.env.client, "2")
    async with scene.env.worker(CallActivity):
        workers = await ready(scene, 4)
        handle = await scene.begin(1, "poison")
        await killed(workers, 2)
        activity = await quarantined(handle)
        request = UnpauseActivityRequest(
            namespace=NAMESPACE, execution=WorkflowExecution(workflow_id=handle.id), id=activity.activity_id
        )
        await handle._client.workflow_service.unpause_activity(request)
        await killed(workers, 3)
        assert (await quarantined(handle)).pause_info.manual.reason == "3 workers were lost while they had it"
        await handle.terminate()


async def test_off(scene: Scene):
    await limit(scene.env.client, "0")
    async with scene.env.worker(CallActivity):
        await ready(scene, 5)
        handle = await scene.begin(1, "poison", retry={"maximum_attempts": 5})
        failed = await raises(WorkflowFailureError, asyncio.wait_for(handle.result(), 40))
        assert failed.cause.cause.type == "WorkerLost"


async def test_the_deadline_of_the_workflow_holds(scene: Scene):
    """The server's pause does not make a workflow wait longer than its author allowed."""
    await limit(scene.env.client, "1")
    async with scene.env.worker(CallActivity):
        await ready(scene, 1)
        handle = await scene.begin(1, "poison", schedule_to_close_timeout=GRACE + 8)
        await quarantined(handle)
        failed = await raises(WorkflowFailureError, asyncio.wait_for(handle.result(), 30))
        assert isinstance(failed.cause, ActivityError) and isinstance(failed.cause.cause, TimeoutError)


async def test_workers_that_were_told_to_end_do_not_count(scene: Scene):
    """As in a deployment that does not wait for activities."""
    await limit(scene.env.client, "1")
    async with scene.env.worker(CallActivity):
        handle = await scene.begin(300)
        first = scene.worker("first", "--graceful", "60")
        await first.wrote("start 1")
        first.send(signal.SIGTERM)
        await asyncio.sleep(1)
        first.send(signal.SIGKILL)
        second = scene.worker("second")
        assert await asyncio.wait_for(handle.result(), GRACE + 20) == "second: attempt 2"


async def test_standalone(scene: Scene):
    await limit(scene.env.client, "2")
    workers = await ready(scene, 3)
    handle = await scene.env.client.start_activity(
        "job", args=[1, "poison"], id=scene.env.id, task_queue=scene.queue,
        start_to_close_timeout=timedelta(minutes=10), retry_policy=RetryPolicy(),
    )
    await killed(workers, 2)

    async def is_paused() -> bool:
        return (await handle.describe()).status.name == "PAUSED"

    await eventually(is_paused, timeout=GRACE + 20)
    segno(scene, "activity", "reset", "--activity-id", handle.id)
    await killed(workers, 3)
    await handle.terminate()
