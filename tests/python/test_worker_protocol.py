"""Segno's own protocol for workers: leases by heartbeat, and who holds what."""

from __future__ import annotations

import asyncio
import time
import urllib.request
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, AsyncIterator, Iterator

import grpc
import pytest
import pytest_asyncio
from temporalio.api.workflowservice.v1 import CountWorkersRequest, DescribeWorkerRequest, ListWorkersRequest
from temporalio.client import Client, WorkflowHandle

from flows import CallActivity
from helpers import NAMESPACE, Env, SegnoServer, eventually, pending_activity, raises, segno_binary
from leases import LeaseClient, protocol

GRACE = 1.0
# An activity that was handed over and never named by its worker is found after this time.
VERIFICATION = 8.0


@pytest.fixture(scope="module")
def quick(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    """A server with a short grace period, which must not matter to workers that speak the protocol, and a short time in
    which they must say what they hold."""
    if request.config.getoption("--segno-address"):
        pytest.skip("Segno's own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    if not segno_binary().exists():
        pytest.exit(f"no server: set SEGNO_ADDRESS, or build {segno_binary()}", returncode=3)
    flags = ["--worker-grace", f"{GRACE}s", "--worker-verification", f"{VERIFICATION}s"]
    server = SegnoServer(log=tmp_path_factory.mktemp("segno") / "server.log", flags=flags)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Scene:
    """A connection, a name for a worker, and workflows whose activities a test takes by hand."""

    def __init__(self, env: Env, client: LeaseClient, http_port: int) -> None:
        self.env = env
        self.client = client
        self.queue = f"{env.task_queue}-activities"
        self.http_port = http_port

    def name(self, name: str = "worker") -> str:
        return f"{name}-{uuid.uuid4().hex[:8]}"

    async def begin(self, id: str = "", **options: Any) -> WorkflowHandle[Any, Any]:
        options = {"task_queue": self.queue, "start_to_close_timeout": 600.0, **options}
        return await self.env.start(CallActivity, "job", [], options, id=id or self.env.id)

    async def take(self, worker: str, attempt: int = 1) -> bytes:
        """The token of an activity that is handed to a worker."""
        task = await self.client.poll_activity(self.queue, worker)
        assert task.task_token, "there is an activity"
        assert task.attempt == attempt
        return task.task_token

    async def refused(self, call: Any, code: grpc.StatusCode = grpc.StatusCode.FAILED_PRECONDITION) -> Any:
        error = await raises(grpc.aio.AioRpcError, call)
        assert error.code() == code, error
        return error

    async def mismatch(self, call: Any) -> bytes:
        """The token that a refusal tells to go on with."""
        detail = self.client.detail(await self.refused(call))
        assert type(detail).__name__ == "TokenMismatch"
        return detail.current_token

    async def inactive(self, call: Any) -> None:
        detail = self.client.detail(await self.refused(call))
        assert type(detail).__name__ == "WorkerInactive"

    def metric(self, name: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=5) as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith(f"segno_{name}_total "):
                    return int(line.split()[1])
        raise AssertionError(f"no metric {name}")


@asynccontextmanager
async def scene_at(server: SegnoServer, name: str) -> AsyncIterator[Scene]:
    client = await Client.connect(server.address, namespace=NAMESPACE)
    async with grpc.aio.insecure_channel(server.address) as channel:
        lease_client = LeaseClient(channel, await protocol(channel))
        yield Scene(Env(address=server.address, client=client, name=name), lease_client, server.http_port)


@pytest_asyncio.fixture
async def scene(quick: SegnoServer, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with scene_at(quick, request.node.name) as scene:
        yield scene


def seconds(duration: Any) -> float:
    return duration.seconds + duration.nanos / 1e9


async def test_first_heartbeat_registers(scene: Scene):
    worker, client = scene.name(), scene.client
    await scene.refused(client.describe(worker), grpc.StatusCode.NOT_FOUND)
    assert worker not in await client.list()
    answer = await client.heartbeat(worker)
    assert answer.token
    assert seconds(answer.lease) == pytest.approx(60, abs=0.5)
    assert worker in await client.list()
    described = await client.describe(worker)
    assert described.speaks_protocol
    assert described.state == 1
    assert seconds(described.lease_remaining) == pytest.approx(60, abs=1)


async def test_lease_that_is_asked_for(scene: Scene):
    worker, token = scene.name(), b""
    for asked, granted in ((5, 5), (0.1, 1), (7200, 3600), (2.5, 2.5), (None, 60)):
        answer = await scene.client.heartbeat(worker, token, lease=asked)
        assert seconds(answer.lease) == pytest.approx(granted, abs=0.3), asked
        token = answer.token


async def test_tokens_follow_each_other(scene: Scene):
    worker, seen = scene.name(), [b""]
    for _ in range(5):
        seen.append((await scene.client.heartbeat(worker, seen[-1])).token)
    assert len(set(seen)) == 6
    for old in seen[:-1]:
        assert await scene.mismatch(scene.client.heartbeat(worker, old)) == seen[-1]
    assert await scene.mismatch(scene.client.heartbeat(worker, b"anything")) == seen[-1]
    assert (await scene.client.heartbeat(worker, seen[-1])).token not in seen


async def test_lost_answer(scene: Scene):
    """The worker goes on with the token of the refusal, with its deltas; of the refused heartbeat nothing counts."""
    worker, client = scene.name(), scene.client
    async with scene.env.worker(CallActivity):
        await scene.begin()
        before = (await client.heartbeat(worker, lease=3)).token
        held = await scene.take(worker)
        await client.heartbeat(worker, before, lease=3)  # the answer is lost
        await asyncio.sleep(1)
        current = await scene.mismatch(client.heartbeat(worker, before, lease=3, bound=[held]))
        remaining = seconds((await client.describe(worker)).lease_remaining)
        assert remaining < 2.2, "a refused heartbeat renews nothing"
        await client.heartbeat(worker, current, lease=3, bound=[held])
        assert seconds((await client.describe(worker)).lease_remaining) > 2.5
        await client.complete(held)
        await asyncio.wait_for(scene.env.handle().result(), 10)


async def test_two_heartbeats_at_a_time(scene: Scene):
    """Of two that are under way together one is taken; the other hears with what to go on."""
    worker, client = scene.name(), scene.client
    token = (await client.heartbeat(worker)).token
    for _ in range(20):
        both = await asyncio.gather(
            client.heartbeat(worker, token), client.heartbeat(worker, token), return_exceptions=True
        )
        errors = [error for error in both if isinstance(error, grpc.aio.AioRpcError)]
        answers = [answer for answer in both if not isinstance(answer, BaseException)]
        assert len(errors) == 1 and len(answers) == 1, both
        token = answers[0].token
        assert client.detail(errors[0]).current_token == token


async def test_two_first_heartbeats(scene: Scene):
    worker, client = scene.name(), scene.client
    both = await asyncio.gather(*(client.heartbeat(worker) for _ in range(2)), return_exceptions=True)
    assert sum(isinstance(answer, grpc.aio.AioRpcError) for answer in both) == 1


async def test_inactive_is_forever(scene: Scene):
    worker, client = scene.name(), scene.client
    token = (await client.heartbeat(worker, lease=1)).token
    await asyncio.sleep(0.8)
    token = (await client.heartbeat(worker, token, lease=1)).token
    await asyncio.sleep(1.3)
    await scene.inactive(client.heartbeat(worker, token))
    await scene.inactive(client.heartbeat(worker, token))
    await scene.inactive(client.heartbeat(worker, b""))
    assert worker not in await client.list()
    await client.heartbeat(scene.name())


async def test_inactive_in_spite_of_polls(scene: Scene):
    """A worker whose lease is over may still poll, because it does not know: that does not bring it back."""
    worker, client = scene.name(), scene.client
    token = (await client.heartbeat(worker, lease=1)).token
    poll = asyncio.ensure_future(client.poll_activity(scene.queue, worker, timeout=20))
    await asyncio.sleep(1.5)
    await scene.inactive(client.heartbeat(worker, token))
    again = asyncio.ensure_future(client.poll_activity(scene.queue, worker, timeout=20))
    await asyncio.sleep(0.3)
    try:
        await scene.inactive(client.heartbeat(worker, token))
        await scene.inactive(client.heartbeat(worker, b""))
    finally:
        poll.cancel()
        again.cancel()


async def test_deltas_may_come_twice(scene: Scene):
    worker, client = scene.name(), scene.client
    token = (await client.heartbeat(worker)).token
    async with scene.env.worker(CallActivity):
        handle = await scene.begin()
        held = await scene.take(worker)
        for _ in range(2):
            token = (await client.heartbeat(worker, token, bound=[held, held])).token
            assert (await client.describe(worker)).activity_count == 1
        await client.complete(held)
        await asyncio.wait_for(handle.result(), 10)
        assert (await client.describe(worker)).activity_count == 0
        for _ in range(2):
            token = (await client.heartbeat(worker, token, unbound=[held, held])).token
            assert (await client.describe(worker)).activity_count == 0


async def test_delta_of_an_activity_that_is_over(scene: Scene):
    """Short activities begin and end between two heartbeats. The worker tells of both; nothing is left over."""
    worker, client = scene.name(), scene.client
    token = (await client.heartbeat(worker)).token
    async with scene.env.worker(CallActivity):
        handle = await scene.begin()
        held = await scene.take(worker)
        await client.complete(held)
        await asyncio.wait_for(handle.result(), 10)
    token = (await client.heartbeat(worker, token, bound=[held], unbound=[held])).token
    described = await client.describe(worker)
    assert (described.activity_count, len(described.activities)) == (0, 0)
    token = (await client.heartbeat(worker, token, bound=[held])).token
    assert (await client.describe(worker)).activity_count == 0


async def test_delta_of_an_activity_of_another_worker(scene: Scene):
    """Only what a worker was handed can be bound by it."""
    worker, other, client = scene.name(), scene.name("other"), scene.client
    await client.heartbeat(worker)
    token = (await client.heartbeat(other)).token
    async with scene.env.worker(CallActivity):
        handle = await scene.begin()
        held = await scene.take(worker)
        await client.heartbeat(other, token, bound=[held])
        assert (await client.describe(other)).activity_count == 0
        assert (await client.describe(worker)).activity_count == 1
        await client.complete(held)
        await asyncio.wait_for(handle.result(), 10)


async def test_what_is_refused(scene: Scene):
    worker, client = scene.name(), scene.client
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    await scene.refused(client.heartbeat(""), invalid)
    await scene.refused(client.heartbeat("x" * 1001), invalid)
    await scene.refused(client.heartbeat(worker, bound=[b"no task token"]), invalid)
    await scene.refused(client.heartbeat(worker, unbound=[b"no task token"]), invalid)
    assert worker not in await client.list()
    for call in ("Heartbeat", "DescribeWorker"):
        wrong = client.call(call, namespace="no-such-namespace", worker_instance_key=worker)
        await scene.refused(wrong, grpc.StatusCode.NOT_FOUND)
    await scene.refused(client.call("ListWorkers", namespace="no-such-namespace"), grpc.StatusCode.NOT_FOUND)


async def test_bound_activity_moves_when_the_lease_ends(scene: Scene):
    """Not before, regardless of connections and polls; the first worker is fenced."""
    worker, other, client, lease = scene.name(), scene.name("other"), scene.client, 2.0
    other_token = (await client.heartbeat(other, lease=60)).token
    assert other_token
    async with scene.env.worker(CallActivity):
        handle = await scene.begin()
        token = (await client.heartbeat(worker, lease=lease)).token
        async with grpc.aio.insecure_channel(scene.env.address) as own:
            held = (await LeaseClient(own, client.messages).poll_activity(scene.queue, worker)).task_token
            waiting = asyncio.ensure_future(LeaseClient(own, client.messages).poll_activity(scene.queue, worker, 60))
            await asyncio.sleep(0.1)
            token = (await client.heartbeat(worker, token, lease=lease, bound=[held])).token
        # Its connection is gone, with a poll on it. A stock worker would be lost after the grace period.
        await asyncio.gather(waiting, return_exceptions=True)
        poll = asyncio.ensure_future(client.poll_activity(scene.queue, other, timeout=30))
        until = time.monotonic() + 2 * lease + GRACE
        while time.monotonic() < until:
            await asyncio.sleep(lease / 2)
            token = (await client.heartbeat(worker, token, lease=lease)).token
            renewed = time.monotonic()
        assert not poll.done(), "it is held for as long as the lease is renewed"
        assert [a.activity_id for a in (await client.describe(worker)).activities] == ["1"]
        task = await asyncio.wait_for(poll, lease + 5)
        assert lease - 0.1 < time.monotonic() - renewed < lease + 1
        assert task.attempt == 2
        await scene.inactive(client.heartbeat(worker, token))
        await scene.refused(client.complete(held), grpc.StatusCode.NOT_FOUND)
        await client.complete(task.task_token)
        await asyncio.wait_for(handle.result(), 10)


async def test_polls_do_not_renew(scene: Scene):
    worker, other, client = scene.name(), scene.name("other"), scene.client
    await client.heartbeat(other)
    async with scene.env.worker(CallActivity):
        await scene.begin()
        begin = time.monotonic()
        await client.heartbeat(worker, lease=2)
        await scene.take(worker)
        polls = []
        while time.monotonic() < begin + 1.5:
            polls.append(asyncio.ensure_future(client.poll_activity(f"{scene.queue}-none", worker, timeout=20)))
            await asyncio.sleep(0.3)
        task = await client.poll_activity(scene.queue, other, timeout=10)
        assert task.attempt == 2
        assert time.monotonic() - begin < 3
        await client.complete(task.task_token)
        for poll in polls:
            poll.cancel()


async def test_list_and_describe(scene: Scene):
    worker, idle, client = scene.name(), scene.name("idle"), scene.client
    token = (await client.heartbeat(worker, lease=30)).token
    await client.heartbeat(idle, lease=40)
    async with scene.env.worker(CallActivity):
        first, second = await scene.begin(), await scene.begin(id=f"{scene.env.id}-2")
        held = [await scene.take(worker), await scene.take(worker)]
        await client.heartbeat(worker, token, lease=30, bound=held)
        listed = await client.list()
        assert (listed[worker].activity_count, listed[idle].activity_count) == (2, 0)
        assert list(listed[worker].activities) == [], "how many, not which"
        assert 25 < seconds(listed[worker].lease_remaining) <= 30
        assert 35 < seconds(listed[idle].lease_remaining) <= 40
        assert list(listed) == sorted(listed)
        described = await client.describe(worker)
        assert {(a.workflow_id, a.run_id) for a in described.activities} == {
            (handle.id, handle.first_execution_run_id) for handle in (first, second)
        }
        for activity in described.activities:
            assert (activity.activity_id, activity.activity_type, activity.attempt) == ("1", "job", 1)
            assert abs(activity.started_time.seconds - time.time()) < 30
        assert described.speaks_protocol and described.state == 1 and described.connections >= 1
        for token in held:
            await client.complete(token)
        await asyncio.gather(first.result(), second.result())
        assert (await client.describe(worker)).activity_count == 0


async def test_temporals_lists(scene: Scene):
    """Temporal's own calls also tell of workers that report in Segno's protocol, and of none that only polls."""
    poller, registered, service = scene.name("poller"), scene.name("registered"), scene.client.workflows
    await scene.client.heartbeat(registered)
    polls = [
        asyncio.ensure_future(scene.client.poll_activity(scene.queue, worker, timeout=20))
        for worker in (poller, registered)
    ]

    async def listed(query: str) -> list[str]:
        found = await service.ListWorkers(ListWorkersRequest(namespace=NAMESPACE, query=query))
        count = await service.CountWorkers(CountWorkersRequest(namespace=NAMESPACE, query=query))
        assert count.count == len(found.workers_info)
        return [worker.worker_heartbeat.worker_instance_key for worker in found.workers_info]

    async def both_poll() -> bool:
        known = await scene.client.list()
        return poller in known and known[registered].identity != ""

    await eventually(both_poll)
    assert await listed(f"TaskQueue = '{scene.queue}'") == [registered]
    assert await listed(f"WorkerIdentity = 'id-{registered}' and Status = 'Running'") == [registered]
    assert await listed(f"WorkerInstanceKey = '{poller}'") == []
    described = await service.DescribeWorker(
        DescribeWorkerRequest(namespace=NAMESPACE, worker_instance_key=registered)
    )
    worker = described.worker_info.worker_heartbeat
    assert (worker.worker_identity, worker.task_queue) == (f"id-{registered}", scene.queue)
    assert abs(worker.start_time.seconds - time.time()) < 30
    for poll in polls:
        poll.cancel()


async def test_server_restart(tmp_path: Path, durable_server: SegnoServer):
    """Leases are not stored: the worker goes on with the token that it has, and keeps what it holds."""
    server = durable_server
    server.start()
    async with scene_at(server, "restart") as scene:
        worker, client = scene.name(), scene.client
        token = (await client.heartbeat(worker, lease=30)).token
        async with scene.env.worker(CallActivity):
            handle = await scene.begin()
            held = await scene.take(worker)
            token = (await client.heartbeat(worker, token, lease=30, bound=[held])).token
            server.kill()
            server.start()
            activity = await pending_activity(handle)
            assert activity.attempt == 1
    async with scene_at(server, "restart") as scene:
        client = scene.client
        token = (await client.heartbeat(worker, token, lease=30)).token
        assert (await client.describe(worker)).activity_count == 1
        async with scene.env.worker(CallActivity, task_queue=handle_queue(handle)):
            await client.complete(held)
            await asyncio.wait_for(scene.env.handle(handle.id).result(), 20)
        assert scene.metric("activities_moved") == 0


def handle_queue(handle: WorkflowHandle[Any, Any]) -> str:
    return f"tq-{handle.id}"


async def test_handed_over_but_never_bound(scene: Scene):
    """After a while an activity that was handed over must be bound. One that was given up must be over by then."""
    worker, other, client = scene.name(), scene.name("other"), scene.client
    token = (await client.heartbeat(worker, lease=10)).token
    found = scene.metric("orphans_found")
    async with scene.env.worker(CallActivity):
        ids = {name: f"{scene.env.id}-{name}" for name in ("bound", "unbound", "never")}
        held = {}
        for name, id in ids.items():
            await scene.begin(id=id)
            held[name] = await scene.take(worker)
        begin = time.monotonic()
        token = (await client.heartbeat(worker, token, lease=10, bound=[held["bound"], held["unbound"]])).token
        token = (await client.heartbeat(worker, token, lease=10, unbound=[held["unbound"]])).token
    moved: list[tuple[float, Any]] = []

    async def collect() -> None:
        while True:
            task = await client.poll_activity(scene.queue, other, timeout=20)
            if task.task_token:
                moved.append((time.monotonic() - begin, task))

    collecting = asyncio.ensure_future(collect())
    while time.monotonic() < begin + VERIFICATION + 5:
        await asyncio.sleep(3)
        token = (await client.heartbeat(worker, token, lease=10)).token
    collecting.cancel()
    assert sorted(task.workflow_execution.workflow_id for _, task in moved) == sorted([ids["never"], ids["unbound"]])
    for after, task in moved:
        assert task.attempt == 2
        assert VERIFICATION - 1 < after < VERIFICATION + 2
    assert scene.metric("orphans_found") == found + 2
    assert [a.workflow_id for a in (await client.describe(worker)).activities] == [ids["bound"]]
    await scene.refused(client.complete(held["never"]), grpc.StatusCode.NOT_FOUND)
    await client.complete(held["bound"])
    for _, task in moved:
        await client.complete(task.task_token)
