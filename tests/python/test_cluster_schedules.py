"""Schedules and standalone activities on several nodes: any node answers for all, and they outlive their node."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import ActivityType, Payload, Payloads
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollActivityTaskQueueRequest,
    PollActivityTaskQueueResponse,
    RecordActivityTaskHeartbeatRequest,
    RespondActivityTaskCompletedRequest,
    StartActivityExecutionRequest,
)
from temporalio.client import (
    ActivityExecutionStatus,
    ActivityFailureError,
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)

from helpers import NAMESPACE, eventually, scheduled_times, segno_binary
from nodes import Cluster, connect, insist

pytestmark = pytest.mark.timeout(180)

SECONDLY = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=1))])
# So many that every node of three has some.
MANY = 12


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes of the test's own."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    cluster = Cluster(tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def name(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:12]}"


async def start(client: Client, id: str, queue: str, **more: Any) -> None:
    request = StartActivityExecutionRequest(
        namespace=NAMESPACE,
        request_id=str(uuid.uuid4()),
        activity_id=id,
        activity_type=ActivityType(name="echo"),
        task_queue=TaskQueue(name=queue),
        start_to_close_timeout=Duration(seconds=60),
        input=json_payloads(f'"{id}"'),
        **more,
    )
    await client.workflow_service.start_activity_execution(request)


def json_payloads(text: str) -> Payloads:
    return Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=text.encode())])


async def poll(client: Client, queue: str) -> PollActivityTaskQueueResponse:
    request = PollActivityTaskQueueRequest(namespace=NAMESPACE, task_queue=TaskQueue(name=queue), identity="raw")
    return await client.workflow_service.poll_activity_task_queue(request, timeout=timedelta(seconds=30))


async def complete(client: Client, task: PollActivityTaskQueueResponse) -> None:
    request = RespondActivityTaskCompletedRequest(namespace=NAMESPACE, task_token=task.task_token, result=task.input)
    await insist(lambda: client.workflow_service.respond_activity_task_completed(request))


async def test_an_activity_is_started_polled_and_completed_at_different_nodes(cluster: Cluster) -> None:
    clients = [await connect(node) for node in cluster.nodes]
    for number in range(MANY):
        starter, poller, reporter = (clients[(number + step) % 3] for step in range(3))
        id, queue = name("activity"), name("queue")
        # A poll that waits is found by a task that comes later, and the other way round.
        waiting = asyncio.create_task(poll(poller, queue)) if number % 2 else None
        if waiting:
            await asyncio.sleep(0.1)
        await start(starter, id, queue, heartbeat_timeout=Duration(seconds=30))
        task = await (waiting or poll(poller, queue))
        assert (task.activity_id, task.attempt) == (id, 1)
        beat = RecordActivityTaskHeartbeatRequest(namespace=NAMESPACE, task_token=task.task_token)
        assert not (await reporter.workflow_service.record_activity_task_heartbeat(beat)).cancel_requested
        result = asyncio.create_task(starter.get_activity_handle(id, result_type=str).result())
        await complete(reporter, task)
        assert await asyncio.wait_for(result, 20) == id
        for client in clients:
            assert (await client.get_activity_handle(id).describe()).status == ActivityExecutionStatus.COMPLETED
            assert [found.activity_id async for found in client.list_activities(f"ActivityId = '{id}'")] == [id]
            assert (await client.count_activities(f"TaskQueue = '{queue}'")).count == 1


async def test_activities_outlive_the_node_that_has_them(cluster: Cluster) -> None:
    one, two, three = cluster.nodes
    clients = [await connect(one), await connect(three)]
    queue, late = name("queue"), name("late")
    held, waiting, timed = ([name(kind) for _ in range(MANY)] for kind in ("held", "waiting", "timed"))
    for id in held:
        await start(clients[0], id, queue)
    tasks = [await poll(clients[1], queue) for _ in held]
    assert sorted(task.activity_id for task in tasks) == sorted(held)
    for id in waiting:
        await start(clients[1], id, queue)
    for id in timed:
        await start(clients[0], id, late, schedule_to_start_timeout=Duration(seconds=8))
    two.kill()
    # Those that a worker has can be reported, those that wait are offered, and time-outs come.
    for task in tasks:
        await complete(clients[0], task)
    for id in held:
        assert await insist(lambda: clients[1].get_activity_handle(id, result_type=str).result()) == id
    left = set(waiting)
    while left:
        task = await insist(lambda: poll(clients[1], queue))
        if task.task_token:
            await complete(clients[0], task)
            left.discard(task.activity_id)
    for id in waiting:
        assert await insist(lambda: clients[0].get_activity_handle(id, result_type=str).result()) == id
    for id in timed:
        with pytest.raises(ActivityFailureError):
            await insist(lambda: clients[1].get_activity_handle(id).result())
        described = await insist(lambda: clients[0].get_activity_handle(id).describe())
        assert described.status == ActivityExecutionStatus.TIMED_OUT


async def create(client: Client, id: str, **state: Any) -> Any:
    action = ScheduleActionStartWorkflow("Nobody", id=f"{id}-wf", task_queue="nobody-polls")
    policy = SchedulePolicy(overlap=ScheduleOverlapPolicy.ALLOW_ALL)
    schedule = Schedule(action=action, spec=SECONDLY, policy=policy, state=ScheduleState(**state))
    return await client.create_schedule(id, schedule)


async def test_schedules_are_served_by_every_node(cluster: Cluster) -> None:
    clients = [await connect(node) for node in cluster.nodes]
    for number in range(MANY):
        maker, watcher, other = (clients[(number + step) % 3] for step in range(3))
        id = name("schedule")
        await create(maker, id, paused=True)
        with pytest.raises(Exception, match="already"):
            await create(other, id, paused=True)
        assert (await watcher.get_schedule_handle(id).describe()).schedule.state.paused
        await other.get_schedule_handle(id).trigger()

        async def acted() -> Any:
            info = (await watcher.get_schedule_handle(id).describe()).info
            return info.num_actions == 1 and info.recent_actions[0].action.workflow_id

        started = await eventually(acted)
        for client in clients:
            assert (await client.get_workflow_handle(started).describe()).workflow_type == "Nobody"
            assert [found.id async for found in await client.list_schedules(f"ScheduleId = '{id}'")] == [id]
        # The end of the workflow is told to the schedule, wherever both live.
        await watcher.get_workflow_handle(started).terminate()

        async def ended() -> bool:
            return not (await maker.get_schedule_handle(id).describe()).info.running_actions

        await eventually(ended)
        await watcher.get_schedule_handle(id).delete()
        with pytest.raises(Exception, match="not found"):
            await other.get_schedule_handle(id).describe()


async def test_schedules_go_on_when_their_node_is_killed(cluster: Cluster) -> None:
    one, two, three = cluster.nodes
    clients = [await connect(one), await connect(three)]
    ids = [name("schedule") for _ in range(MANY)]
    for number, id in enumerate(ids):
        await create(clients[number % 2], id)
    await asyncio.sleep(2)
    two.kill()
    before = {id: len(await insist(lambda: scheduled_times(clients[0], id))) for id in ids}

    async def went_on() -> bool:
        return all([len(await insist(lambda: scheduled_times(clients[1], id))) >= before[id] + 4 for id in ids])

    await eventually(went_on, timeout=60, interval=1)
    for id in ids:
        await insist(lambda: clients[0].get_schedule_handle(id).pause())
    await asyncio.sleep(1.5)
    for id in ids:
        # No time was missed, and none came twice.
        started = await scheduled_times(clients[1], id)
        gaps = Counter((later - earlier).total_seconds() for earlier, later in zip(started, started[1:]))
        assert set(gaps) == {1.0}, f"{id}: {gaps}"
        info = (await clients[1].get_schedule_handle(id).describe()).info
        assert info.num_actions == len(started), id
        assert info.num_actions_missed_catchup_window == 0
