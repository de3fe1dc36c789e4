"""Workflows that signal a workflow, and start it if it is not open: the operation of the server itself, through the SDK."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import NexusOperationError

from flows import Waiter
from helpers import SWITCHED_ON, Env, SegnoServer, event_name, events, eventually, raises
from nexus import happened, operation_events
from nodes import Cluster, insist
from test_durable_restart import connect, restart
from test_nexus_cluster import reconnected
from test_nexus_restart import patiently

pytestmark = pytest.mark.timeout(120)

CALLERS = 60
TARGETS = 5


@workflow.defn
class Introduces:
    """Adds words to a workflow, one after the other, which is started with the first one."""

    @workflow.run
    async def run(self, target: str, queue: str, words: list[str], reuse: int = 1) -> str:
        for word in words:
            handle = await workflow.signal_with_start_workflow(
                "Waiter",
                id=target,
                task_queue=queue,
                signal="add",
                signal_args=[word],
                static_summary="of a caller",
                id_reuse_policy=WorkflowIDReusePolicy(reuse),
            )
        return handle.id


@pytest.fixture
def switched_on(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SegnoServer]:
    """A server with a data directory that allows it, not started yet."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "data", flags=SWITCHED_ON)
    try:
        yield server
    finally:
        server.kill()


async def finished(target: WorkflowHandle[Any, Any]) -> list[str]:
    """Ends a target, and returns its words."""
    await target.signal(Waiter.finish)
    return await target.result()


async def test_starts_and_signals(switched_on: SegnoServer):
    switched_on.start()
    env = await connect(switched_on, "starts")
    target = env.handle("target")
    async with env.worker(Introduces, Waiter):
        caller = await env.start(Introduces, "target", env.task_queue, ["one", "two"])
        assert await caller.result() == "target"
        assert await operation_events(caller) == ["Scheduled", "Completed"] * 2
        started, *signalled = [event for event in await events(target) if event.links]
        assert [event_name(event) for event in signalled] == ["WorkflowExecutionSignaled"] * 2
        # Each history links to the other one.
        of_caller = [event for event in await events(caller) if event_name(event).startswith("NexusOperation")]
        reference = started.links[0].workflow_event
        assert (reference.workflow_id, reference.event_ref.event_id) == (caller.id, of_caller[0].event_id)
        request_id = signalled[0].workflow_execution_signaled_event_attributes.request_id
        assert of_caller[1].links[0].workflow_event.request_id_ref.request_id == request_id
        assert await finished(target) == ["one", "two"]
        reuse = WorkflowIDReusePolicy.REJECT_DUPLICATE
        refused = await env.start(Introduces, "target", env.task_queue, ["three"], reuse, id=f"{env.id}-refused")
        error = (await raises(Exception, refused.result())).cause
        assert isinstance(error, NexusOperationError)
        assert "Workflow Id reuse policy: reject duplicate workflow Id" in str(error.cause)


async def test_off_by_default(env: Env, segno_only: None):
    async with env.worker(Introduces, Waiter):
        caller = await env.start(Introduces, f"{env.id}-target", env.task_queue, ["one"])
        failed = await happened(caller, "WorkflowTaskFailed")
        text = failed.workflow_task_failed_event_attributes.failure.message
        assert text == "BadScheduleNexusOperationAttributes: SignalWithStart operation is disabled"
        await caller.terminate()


async def introduce(env: Env, number: int) -> str:
    """A workflow that adds its number to one of the targets."""
    args = [f"target-{number % TARGETS}", env.task_queue, [str(number)]]
    # A start whose answer was lost finds the workflow.
    options = {"id": f"{env.id}-{number}", "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING}
    handle = await patiently(lambda: env.start(Introduces, *args, **options))
    return await patiently(handle.result)


async def check_targets(env: Env, numbers: range) -> None:
    """Each target has each of its words once."""
    for target in range(TARGETS):
        words = await insist(lambda: finished(env.handle(f"target-{target}")))
        expected = {str(number): 1 for number in numbers if number % TARGETS == target}
        assert Counter(words) == expected, target


async def test_each_signal_arrives_once_under_kills(switched_on: SegnoServer):
    switched_on.start()
    env = await connect(switched_on, "kills")
    async with env.worker(Introduces, Waiter):
        calls = [asyncio.create_task(introduce(env, number)) for number in range(CALLERS)]
        for pause in (0.1, 0.4, 0.2):
            await asyncio.sleep(pause)
            await restart(switched_on, "SIGKILL")
        await asyncio.gather(*calls)
        await eventually(env.handle("target-0").describe)
        await check_targets(env, range(CALLERS))


async def test_between_two_nodes(tmp_path: Path, request: pytest.FixtureRequest):
    """Callers and targets are at either node."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    cluster = Cluster(tmp_path, size=2)
    for node in cluster.nodes:
        node.flags += SWITCHED_ON
    try:
        cluster.start()
        one, two = cluster.nodes
        env = await connect(one, "nodes")
        async with env.worker(Introduces, Waiter):
            other = await reconnected(env, two.address)
            numbers = range(CALLERS // 3)
            calls = [introduce((env, other)[number % 2], number) for number in numbers]
            await asyncio.gather(*calls)
            await check_targets(other, numbers)
    finally:
        cluster.stop()
