"""Rollouts that are tried before they are made: workers of a candidate replay open runs, which do not change."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator

import pytest
from temporalio import activity, workflow
from temporalio.api.enums.v1 import TaskQueueKind
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    GetWorkflowExecutionHistoryRequest,
    PollWorkflowTaskQueueRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client, WorkflowHandle
from temporalio.common import (
    VersioningBehavior,
    WorkerDeploymentVersion,
)
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from helpers import NAMESPACE, Env, SegnoServer, event_name, event_names, events, eventually, segno_binary
from nodes import Cluster, connect

pytestmark = pytest.mark.timeout(120)


@activity.defn(name="one")
async def one() -> str:
    return "one"


@activity.defn(name="two")
async def two() -> str:
    return "two"


async def step(name: str) -> None:
    await workflow.execute_activity(name, start_to_close_timeout=timedelta(seconds=10))


class Waits:
    """What all versions of the workflow have."""

    def __init__(self) -> None:
        self.rounds = 0

    @workflow.signal
    def go(self) -> None:
        self.rounds += 1

    async def wait(self) -> None:
        await workflow.wait_condition(lambda: self.rounds >= 1)
        await step("one")
        await workflow.wait_condition(lambda: self.rounds >= 2)


@workflow.defn(name="Verified")
class Deployed(Waits):
    @workflow.run
    async def run(self) -> None:
        await step("one")
        await step("two")
        await self.wait()


@workflow.defn(name="Verified")
class Reordered(Waits):
    @workflow.run
    async def run(self) -> None:
        await step("two")
        await step("one")
        await self.wait()


@workflow.defn(name="Verified")
class WithoutTheLast(Waits):
    """Differs in the last task alone: it starts a timer where history has an activity."""

    @workflow.run
    async def run(self) -> None:
        await step("one")
        await asyncio.sleep(60)


@workflow.defn(name="Verified")
class Compatible(Waits):
    @workflow.run
    async def run(self) -> None:
        await step("one")
        await step("two")
        await self.wait()
        await step("three")


@workflow.defn(name="Verified")
class Broken(Waits):
    @workflow.run
    async def run(self) -> None:
        await step("one")
        raise RuntimeError("this code is broken")


@workflow.defn(name="Unrelated")
class Unrelated:
    @workflow.run
    async def run(self) -> None: ...


LONG = 140


@workflow.defn(name="Long")
class Long:
    @workflow.run
    async def run(self) -> None:
        for _ in range(LONG):
            await step("one")
        await workflow.wait_condition(lambda: False)


@workflow.defn(name="Long")
class LongWithAnotherEnd:
    @workflow.run
    async def run(self) -> None:
        for _ in range(LONG - 1):
            await step("one")
        await step("two")
        await workflow.wait_condition(lambda: False)


async def segno(address: str, *words: str) -> tuple[int, str, str]:
    """Exit code and output of a command."""
    command = [str(segno_binary()), *words, "--address", address]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode or 0, out.decode(), err.decode()


async def verify(env: Env, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and result of `segno workflow verify` on the queue of the candidate."""
    queues = ["--task-queue", env.task_queue, "--on", f"{env.task_queue}-candidate"]
    code, out, err = await segno(env.address, "workflow", "verify", *queues, "-o", "json", *words)
    assert out, err
    return code, json.loads(out)


def candidate(env: Env, *definitions: type, client: Client | None = None, **options: Any) -> Worker:
    """A worker of the candidate. It has no activities."""
    options.setdefault("task_queue", f"{env.task_queue}-candidate")
    return Worker(
        client or env.client, workflows=definitions, workflow_runner=UnsandboxedWorkflowRunner(), **options
    )


async def waiting(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether both activities are done, and the task after them."""
    names = await event_names(handle)
    return names.count("ActivityTaskCompleted") == 2 and names[-1] == "WorkflowTaskCompleted"


async def start(env: Env, count: int) -> list[WorkflowHandle[Any, Any]]:
    """Runs that wait for a signal."""
    handles = [await env.start(Deployed, id=f"{env.id}-{number}") for number in range(count)]
    for handle in handles:
        await eventually(lambda handle=handle: waiting(handle))
    return handles


def counts(found: dict[str, Any]) -> tuple[int, int, int, int]:
    """Runs, and how many of them replay, do not, and have no answer."""
    names = ["total", "replayed", "failed", "unanswered"]
    return tuple(int(found.get(name, 0)) for name in names)  # type: ignore[return-value]


async def test_a_reordered_activity_is_found_with_its_event(env: Env) -> None:
    async with env.worker(Deployed, one, two):
        handles = await start(env, 5)
        before = [(await handle.describe()).raw_description for handle in handles]
        async with candidate(env, Reordered):
            code, found = await verify(env)
        assert (code, counts(found)) == (1, (5, 0, 5, 0)), found
        assert [(group["workflowType"], group["count"]) for group in found["groups"]] == [("Verified", "5")]
        for failed in found["failures"]:
            assert failed["failure"]["cause"] == "NON_DETERMINISTIC_ERROR"
            assert failed["failure"]["eventId"] == "5"
            assert failed["failure"]["eventType"] == "ActivityTaskScheduled"
        assert {failed["workflowId"] for failed in found["failures"]} == {handle.id for handle in handles}
        # Nothing of it is in the runs.
        after = [(await handle.describe()).raw_description for handle in handles]
        assert after == before
        # They go on at the worker that has them in its cache.
        await handles[0].signal("go")
        await eventually(lambda: done(handles[0]))
        scheduled = [event for event in await events(handles[0]) if event_name(event) == "WorkflowTaskScheduled"]
        queue = scheduled[3].workflow_task_scheduled_event_attributes.task_queue
        assert queue.kind == TaskQueueKind.TASK_QUEUE_KIND_STICKY


async def done(handle: WorkflowHandle[Any, Any]) -> bool:
    names = await event_names(handle)
    return names.count("ActivityTaskCompleted") == 3 and names[-1] == "WorkflowTaskCompleted"


async def test_a_later_event_is_found(env: Env) -> None:
    async with env.worker(Deployed, one, two):
        await start(env, 1)
    async with candidate(env, WithoutTheLast):
        _, found = await verify(env)
    assert found["failures"][0]["failure"]["eventId"] == "11", found


async def test_the_commands_of_the_last_task_are_compared(env: Env) -> None:
    """The run waits for its second activity; that is where the code differs."""
    async with env.worker(Deployed, one):
        handle = await env.start(Deployed)

        async def scheduled() -> bool:
            return (await event_names(handle)).count("ActivityTaskScheduled") == 2

        await eventually(scheduled)
        async with candidate(env, WithoutTheLast):
            _, found = await verify(env)
        assert counts(found) == (1, 0, 1, 0), found
        assert found["failures"][0]["failure"]["eventId"] == "11", found
        async with candidate(env, Deployed):
            code, found = await verify(env)
        assert (code, counts(found)) == (0, (1, 1, 0, 0)), found


async def test_compatible_code_passes_also_later(env: Env) -> None:
    async with env.worker(Deployed, one, two), candidate(env, Compatible):
        handles = await start(env, 3)
        code, found = await verify(env)
        assert (code, counts(found)) == (0, (3, 3, 0, 0)), found
        # The candidate has the runs in its cache now. They go on elsewhere, and are tried again.
        for handle in handles:
            await handle.signal("go")
            await eventually(lambda handle=handle: done(handle))
        code, found = await verify(env)
        assert (code, counts(found)) == (0, (3, 3, 0, 0)), found
        text = await segno(
            env.address, "workflow", "verify", "--task-queue", env.task_queue, "--on", f"{env.task_queue}-candidate"
        )
        assert text[0] == 0 and text[1].strip().endswith("3 runs: 3 replay, 0 do not, 0 no answer")


async def test_code_that_fails_otherwise_is_found(env: Env) -> None:
    async with env.worker(Deployed, one, two):
        await start(env, 1)
    async with candidate(env, Broken):
        _, found = await verify(env)
    failure = found["failures"][0]["failure"]
    assert (failure["cause"], failure["message"]) == ("WORKFLOW_WORKER_UNHANDLED_FAILURE", "this code is broken")
    async with candidate(env, Unrelated):
        _, found = await verify(env)
    assert "not registered" in found["failures"][0]["failure"]["message"], found


async def test_runs_with_a_pending_task_are_tried_and_keep_it(env: Env) -> None:
    async with env.worker(Deployed, one, two):
        (handle,) = await start(env, 1)
    await handle.signal("go")
    before = (await handle.describe()).raw_description
    async with candidate(env, Compatible):
        code, found = await verify(env)
    assert (code, counts(found)) == (0, (1, 1, 0, 0)), found
    assert (await handle.describe()).raw_description == before
    async with candidate(env, Reordered):
        code, found = await verify(env)
    assert (code, found["failures"][0]["failure"]["eventId"]) == (1, "5"), found
    async with env.worker(Deployed, one, two):
        await eventually(lambda: done(handle))


async def test_new_runs_have_nothing_to_replay(env: Env) -> None:
    await env.start(Deployed)
    async with candidate(env, Reordered):
        code, found = await verify(env)
    assert (code, counts(found), found["skipped"]) == (0, (0, 0, 0, 0), "1"), found


async def test_long_histories_come_in_pages(env: Env) -> None:
    length = 4 + 6 * LONG
    async with env.worker(Long, one):
        handle = await env.start(Long)
        await eventually(lambda: is_long(handle, length), timeout=40)
    async with candidate(env, LongWithAnotherEnd):
        code, found = await verify(env)
    # The worker names no event, and all of them but the last are of the right type.
    assert (code, found["failures"][0]["failure"]["eventId"]) == (1, str(5 + 6 * (LONG - 1))), found
    async with candidate(env, Long):
        code, found = await verify(env)
    assert (code, counts(found)) == (0, (1, 1, 0, 0)), found
    # Go's SDK gets a workflow task behind the history.
    async with env.raw() as stub:
        queue = TaskQueue(name=f"{env.task_queue}-candidate")
        request = PollWorkflowTaskQueueRequest(namespace=NAMESPACE, task_queue=queue, identity="go")
        metadata = [("client-name", "temporal-go"), ("client-version", "1.50.0")]
        poll = asyncio.ensure_future(stub.PollWorkflowTaskQueue(request, timeout=20, metadata=metadata))
        verified = asyncio.ensure_future(verify(env))
        task = await poll
        seen, token = list(task.history.events), task.next_page_token
        assert token and not task.HasField("query") and task.started_event_id == length + 2
        while token:
            page = await stub.GetWorkflowExecutionHistory(
                GetWorkflowExecutionHistoryRequest(
                    namespace=NAMESPACE, execution=env.execution(), next_page_token=token
                ),
                timeout=10,
            )
            seen, token = seen + list(page.history.events), page.next_page_token
        assert [event.event_id for event in seen] == list(range(1, length + 3))
        assert [event_name(event) for event in seen[-2:]] == ["WorkflowTaskScheduled", "WorkflowTaskStarted"]
        await env.raw_complete_workflow_task(stub, task.task_token)
        code, found = await verified
    assert (code, counts(found)) == (0, (1, 1, 0, 0)), found
    assert len(await events(handle)) == length


async def is_long(handle: WorkflowHandle[Any, Any], length: int) -> bool:
    return (await handle.describe()).history_length >= length


async def test_a_candidate_that_dies_leaves_no_answer(env: Env) -> None:
    async with env.worker(Deployed, one, two):
        handles = await start(env, 2)
        async with env.raw() as stub:
            queue = TaskQueue(name=f"{env.task_queue}-candidate")
            request = PollWorkflowTaskQueueRequest(namespace=NAMESPACE, task_queue=queue, identity="dies")
            # It takes one task and never answers.
            poll = asyncio.ensure_future(stub.PollWorkflowTaskQueue(request, timeout=20))
            code, found = await verify(env, "--timeout", "1s")
            task = await poll
        assert task.query.query_type == "__temporal_workflow_metadata"
        assert task.history.events[0].event_id == 1
        assert (code, counts(found)) == (1, (2, 0, 0, 2)), found
        # A worker that comes later gets none of these tasks, and the runs go on.
        async with candidate(env, Compatible):
            code, found = await verify(env)
            assert (code, counts(found)) == (0, (2, 2, 0, 0)), found
        for handle in handles:
            await handle.signal("go")
            await eventually(lambda handle=handle: done(handle))


async def test_a_candidate_without_workers_is_given_up(env: Env) -> None:
    async with env.worker(Deployed, one, two):
        await start(env, 12)
    words = ["--timeout", "200ms", "--parallel", "2"]
    code, found = await asyncio.wait_for(verify(env, *words), 20)
    assert (code, counts(found)) == (1, (12, 0, 0, 12)), found


async def test_a_verification_is_stopped(env: Env) -> None:
    async with env.worker(Deployed, one, two):
        await start(env, 3)
    running = asyncio.ensure_future(verify(env, "--timeout", "30s", "--parallel", "1"))
    words = ["workflow", "verify", "--task-queue", env.task_queue, "--on", "x"]

    async def stopped() -> bool:
        code, _, _ = await segno(env.address, *words, "--stop")
        return code == 0

    await asyncio.sleep(0.5)
    code, _, err = await segno(env.address, *words)
    assert code == 1 and "is running in this namespace" in err, err
    await eventually(stopped)
    code, found = await running
    assert (code, found["state"], counts(found)) == (1, "STATE_STOPPED", (3, 0, 0, 0)), found


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_verification_begins_anew_after_a_restart(durable_server: SegnoServer, end: str) -> None:
    durable_server.start()
    env = Env(address=durable_server.address, client=await Client.connect(durable_server.address), name="restarted")
    async with env.worker(Deployed, one, two):
        await start(env, 12)
    async with candidate(env, Compatible):
        running = asyncio.ensure_future(verify(env, "--rps", "4"))
        await asyncio.sleep(1.5)
        assert not running.done()
        getattr(durable_server, end)()
        durable_server.start()
        # It is known at once, and no second one begins beside it.
        code, _, err = await segno(env.address, "workflow", "verify", "--task-queue", env.task_queue, "--on", "x")
        assert code == 1 and "is running in this namespace" in err, err
        code, found = await running
    assert (code, counts(found), found["restarts"]) == (0, (12, 12, 0, 0), 1), found
    # It ended, so that the next start of the server has nothing to begin anew.
    durable_server.terminate()
    durable_server.start()
    async with candidate(env, Compatible):
        code, found = await verify(env)
    assert (code, counts(found), "restarts" in found) == (0, (12, 12, 0, 0), False), found


async def test_a_sample_and_a_filter(env: Env) -> None:
    async with env.worker(Deployed, one, two), candidate(env, Compatible):
        handles = await start(env, 6)
        _, found = await verify(env, "--sample", "2")
        assert (found["found"], counts(found)) == ("6", (2, 2, 0, 0)), found
        _, found = await verify(env, "--query", f"WorkflowId = '{handles[0].id}'")
        assert (found["found"], counts(found)) == ("1", (1, 1, 0, 0)), found


async def test_queues_have_to_differ(env: Env) -> None:
    words = ["workflow", "verify", "--task-queue", "q", "--on", "q"]
    code, _, err = await segno(env.address, *words)
    assert code == 64 and "another task queue" in err, err


def deployed(env: Env, build: str, definition: type, **options: Any) -> Worker:
    """A worker of a version of the deployment that has the name of the test's queue."""
    version = WorkerDeploymentVersion(deployment_name=env.name, build_id=build)
    config = WorkerDeploymentConfig(
        version=version,
        use_worker_versioning=True,
        default_versioning_behavior=options.pop("behavior", VersioningBehavior.AUTO_UPGRADE),
    )
    return Worker(
        env.client,
        task_queue=env.task_queue,
        workflows=[definition],
        activities=[one, two],
        workflow_runner=UnsandboxedWorkflowRunner(),
        deployment_config=config,
        **options,
    )


async def make_current(env: Env, build: str) -> None:
    async with env.raw() as stub:
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace=NAMESPACE, deployment_name=env.name, build_id=build, identity="test"
        )

        async def current() -> bool:
            await stub.SetWorkerDeploymentCurrentVersion(request, timeout=5)
            return True

        deadline = asyncio.get_running_loop().time() + 10
        while True:
            try:
                assert await current()
                return
            except Exception:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.1)


async def verify_version(env: Env, build: str, *words: str) -> tuple[int, dict[str, Any], str]:
    words = ("deployment", "verify", env.name, "--build-id", build, "-o", "json", *words)
    code, out, err = await segno(env.address, *words)
    return code, json.loads(out or "{}"), err


async def known(env: Env, build: str) -> None:
    """Waits until a version is known for workflow tasks."""

    async def polls() -> bool:
        _, _, err = await verify_version(env, build, "--sample", "1", "--timeout", "10ms")
        return "is no version" not in err and "no worker of version" not in err

    await eventually(polls)


async def test_a_version_is_tried_before_it_is_current(env: Env) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(deployed(env, "b1", Deployed))
        await make_current(env, "b1")
        handles = await start(env, 3)
        before = [(await handle.describe()).raw_description for handle in handles]
        _, _, err = await verify_version(env, "b2")
        assert "there is no version" in err, err
        _, _, err = await verify_version(env, "b1")
        assert "is the current version" in err, err
        async with deployed(env, "b2", Reordered):
            await known(env, "b2")
            code, found, err = await verify_version(env, "b2")
        assert (code, counts(found)) == (1, (3, 0, 3, 0)), (found, err)
        assert found["failures"][0]["failure"]["eventId"] == "5"
        async with deployed(env, "b3", Compatible):
            await known(env, "b3")
            code, found, err = await verify_version(env, "b3")
        assert (code, counts(found)) == (0, (3, 3, 0, 0)), (found, err)
        words = ["deployment", "set-current", env.name, "--verify", "--yes", "--build-id"]
        async with deployed(env, "b2", Reordered):
            code, _, err = await segno(env.address, *words, "b2")
        assert code == 1 and "3 runs: 0 replay, 3 do not" in err, err
        # Versions, transitions and histories of the runs are as they were.
        assert [(await handle.describe()).raw_description for handle in handles] == before
        async with deployed(env, "b3", Compatible):
            code, _, err = await segno(env.address, *words, "b3")
            assert code == 0 and "3 runs: 3 replay" in err, err
            await handles[0].signal("go")
            await eventually(lambda: done(handles[0]))


async def test_pinned_runs_do_not_move_and_are_tried_on_request(env: Env) -> None:
    async with AsyncExitStack() as stack:
        pinned = VersioningBehavior.PINNED
        await stack.enter_async_context(deployed(env, "b1", Deployed, behavior=pinned))
        await make_current(env, "b1")
        await start(env, 2)
        async with deployed(env, "b2", Reordered, behavior=pinned):
            await known(env, "b2")
            code, found, err = await verify_version(env, "b2")
            assert (code, counts(found)) == (0, (0, 0, 0, 0)), (found, err)
            code, found, err = await verify_version(env, "b2", "--include-pinned")
            assert (code, counts(found)) == (1, (2, 0, 2, 0)), (found, err)


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    cluster = Cluster(tmp_path_factory.mktemp("verification"), size=2, lease=30)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


async def test_runs_of_all_nodes_are_tried(two_nodes: Cluster, tmp_path: Path) -> None:
    two_nodes.wait_balanced()
    first, second = [await connect(node) for node in two_nodes.nodes]
    env = Env(address=two_nodes.nodes[0].address, client=first, name="nodes")
    async with env.worker(Deployed, one, two):
        handles = await start(env, 24)
        before = [(await handle.describe()).raw_description for handle in handles]
        async with candidate(env, Compatible, client=second):
            code, found = await verify(env)
        assert (code, counts(found)) == (0, (24, 24, 0, 0)), found
        async with candidate(env, Reordered, client=second):
            code, found = await verify(env)
        assert (code, counts(found)) == (1, (24, 0, 24, 0)), found
        assert {failed["failure"]["eventId"] for failed in found["failures"]} == {"5"}
        # The other node knows the result, too.
        env.address = two_nodes.nodes[1].address
        async with candidate(env, Compatible, client=first):
            code, found = await verify(env)
        assert (code, counts(found)) == (0, (24, 24, 0, 0)), found
        assert [(await handle.describe()).raw_description for handle in handles] == before


async def test_the_next_leader_begins_a_verification_anew(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    cluster = Cluster(tmp_path, size=2)
    try:
        cluster.start()
        leader, other = cluster.nodes
        env = Env(address=other.address, client=await connect(other), name="leaders")
        async with env.worker(Deployed, one, two):
            await start(env, 12)
        async with candidate(env, Compatible):
            running = asyncio.ensure_future(verify(env, "--rps", "4"))
            await asyncio.sleep(1.5)
            leader.kill()
            code, found = await running
        assert (code, counts(found), found["restarts"]) == (0, (12, 12, 0, 0), 1), found
    finally:
        cluster.stop()
