"""Workers that die, stand still, lose their connections or leave: their work goes to others."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, AsyncIterator, Iterator

import grpc
import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ActivityError, ApplicationError

from flows import CallActivity
from helpers import NAMESPACE, Env, SegnoServer, eventually, segno_binary

GRACE = 2.0
WORKER = Path(__file__).with_name("liveness_worker.py")


class Process:
    """A worker process of this test."""

    def __init__(self, address: str, queue: str, diary: Path, *options: str) -> None:
        self.diary = diary
        command = [sys.executable, str(WORKER), address, queue, str(diary), *options]
        with diary.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def lines(self) -> list[str]:
        return self.diary.read_text().splitlines() if self.diary.exists() else []

    async def wrote(self, line: str, timeout: float = 20.0) -> None:
        async def there() -> bool:
            return line in self.lines()

        try:
            await eventually(there, timeout=timeout)
        except BaseException as error:
            log = self.diary.with_suffix(".log").read_text()
            raise AssertionError(f"{self.diary.stem} never wrote {line!r}: {self.lines()}\n{log}") from error

    def send(self, what: signal.Signals) -> None:
        self.process.send_signal(what)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


class Proxy:
    """A way to the server that can be cut."""

    def __init__(self, target: str) -> None:
        self.host, port = target.split(":")
        self.target_port = int(port)
        self.open = True
        self.writers: set[asyncio.StreamWriter] = set()
        self.accepted = 0

    async def start(self) -> str:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.open:
            writer.transport.abort()
            return
        self.accepted += 1
        far_reader, far_writer = await asyncio.open_connection(self.host, self.target_port)
        self.writers |= {writer, far_writer}

        async def pass_on(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(65536):
                    to.write(data)
                    await to.drain()
            except (OSError, asyncio.CancelledError):
                pass
            finally:
                to.transport.abort()

        await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    def cut(self, *, open: bool) -> None:
        """Drops all connections; new ones are taken or not."""
        self.open = open
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    def close(self) -> None:
        self.cut(open=False)
        self.server.close()


@pytest.fixture(scope="module")
def quick(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SegnoServer]:
    """A server with a short grace period."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs a server with a short grace period: not with SEGNO_ADDRESS, only SEGNO_BIN")
    if not segno_binary().exists():
        pytest.exit(f"no server: set SEGNO_ADDRESS, or build {segno_binary()}", returncode=3)
    log = tmp_path_factory.mktemp("segno") / "server.log"
    server = SegnoServer(log=log, flags=["--worker-grace", f"{GRACE}s"])
    server.start()
    try:
        yield server
    finally:
        server.kill()


class Scene:
    """A test's workflow, whose activity runs in processes of their own."""

    def __init__(self, env: Env, folder: Path) -> None:
        self.env = env
        self.folder = folder
        self.queue = f"{env.task_queue}-activities"
        self.processes: list[Process] = []

    def worker(self, name: str, *options: str, address: str = "") -> Process:
        process = Process(
            address or self.env.address, self.queue, self.folder / name, *options
        )
        self.processes.append(process)
        return process

    async def begin(self, seconds: float, mode: str = "", **options: Any) -> WorkflowHandle[Any, Any]:
        options = {"task_queue": self.queue, "start_to_close_timeout": 600.0, **options}
        return await self.env.start(CallActivity, "job", [seconds, mode], options)

    def metric(self, name: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/metrics", timeout=5) as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith(f"segno_{name}_total "):
                    return int(line.split()[1])
        raise AssertionError(f"no metric {name}")

    http_port: int


@pytest_asyncio.fixture
async def scene(
    quick: SegnoServer, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Scene]:
    client = await Client.connect(quick.address, namespace=NAMESPACE)
    scene = Scene(Env(address=quick.address, client=client, name=request.node.name), tmp_path)
    scene.http_port = quick.http_port
    try:
        yield scene
    finally:
        for process in scene.processes:
            process.end()


async def attempts(handle: WorkflowHandle[Any, Any]) -> list[int]:
    """Attempts that history knows of: one per activity that ended."""
    history = await handle.fetch_history()
    return [
        event.activity_task_started_event_attributes.attempt
        for event in history.events
        if event.HasField("activity_task_started_event_attributes")
    ]


async def test_killed(scene: Scene):
    async with scene.env.worker(CallActivity):
        first = scene.worker("first")
        await first.wrote("ready")
        handle = await scene.begin(300)
        await first.wrote("start 1")
        second = scene.worker("second")
        await second.wrote("ready")
        first.send(signal.SIGKILL)
        begin = time.monotonic()
        assert await asyncio.wait_for(handle.result(), GRACE + 10) == "second: attempt 2"
        assert time.monotonic() - begin < GRACE + 2
    assert await attempts(handle) == [2]
    described = await handle.describe()
    assert described.raw_description.pending_activities == []


async def test_killed_heartbeat_details_survive(scene: Scene):
    async with scene.env.worker(CallActivity):
        first = scene.worker("first")
        handle = await scene.begin(300, "heartbeat")
        await first.wrote("start 1")
        await asyncio.sleep(0.5)
        first.send(signal.SIGKILL)
        scene.worker("second")
        assert await asyncio.wait_for(handle.result(), 20) == "before: [1]"


async def test_killed_at_most_once(scene: Scene):
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", "--identity", "the-first")
        handle = await scene.begin(300, retry={"maximum_attempts": 1})
        await first.wrote("start 1")
        second = scene.worker("second")
        await second.wrote("ready")
        first.send(signal.SIGKILL)
        with pytest.raises(WorkflowFailureError) as failed:
            await asyncio.wait_for(handle.result(), GRACE + 10)
    assert isinstance(failed.value.cause, ActivityError)
    lost = failed.value.cause.cause
    assert isinstance(lost, ApplicationError) and lost.type == "WorkerLost"
    assert "the-first" in lost.message and "lost" in lost.message
    assert "start 1" not in second.lines()


async def test_poison(scene: Scene):
    """An activity that kills its worker ends when its attempts are used up."""
    async with scene.env.worker(CallActivity):
        workers = [scene.worker(f"w{n}") for n in range(4)]
        for worker in workers:
            await worker.wrote("ready")
        handle = await scene.begin(1, "poison", retry={"maximum_attempts": 3})
        with pytest.raises(WorkflowFailureError) as failed:
            await asyncio.wait_for(handle.result(), 40)
    assert isinstance(failed.value.cause, ActivityError)
    assert failed.value.cause.cause.type == "WorkerLost"
    started = sorted(line for worker in workers for line in worker.lines() if line != "ready")
    assert started == ["start 1", "start 2", "start 3"]
    assert [worker.process.poll() for worker in workers].count(None) == 1


async def test_connections_come_and_go(scene: Scene):
    """A worker that comes back in time keeps everything, also one that has no slot left and polls nothing."""
    proxy = Proxy(scene.env.address)
    address = await proxy.start()
    moved = scene.metric("activities_moved")
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", "--slots", "1", address=address)
        handle = await scene.begin(3 * GRACE + 2, "always")
        await first.wrote("start 1")
        other = scene.worker("other")
        await other.wrote("ready")
        for _ in range(3):
            proxy.cut(open=True)
            await asyncio.sleep(GRACE)
        assert await asyncio.wait_for(handle.result(), 20) == "first: attempt 1"
        assert proxy.accepted > 1, "it came back by itself"
    assert scene.metric("activities_moved") == moved
    proxy.close()


async def test_connection_that_breaks_again_and_again(scene: Scene):
    """SDKs repeat a poll after 0.2 s, and after twice as long each time it is cut off, up to 10 s and a fifth more."""
    proxy = Proxy(scene.env.address)
    address = await proxy.start()
    moved = scene.metric("activities_moved")
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", address=address)
        handle = await scene.begin(25, "always")
        await first.wrote("start 1")
        other = scene.worker("other")
        await other.wrote("ready")

        async def back() -> bool:
            return proxy.accepted > before

        for _ in range(6):
            before = proxy.accepted
            proxy.cut(open=True)
            await eventually(back, timeout=15)
            await asyncio.sleep(0.5)
        assert scene.metric("activities_moved") == moved
        assert await asyncio.wait_for(handle.result(), 40) == "first: attempt 1"
    proxy.close()


async def test_cut_off(scene: Scene):
    """Cut off for longer than the grace period: the activity moves, and the first worker is fenced and told to stop."""
    proxy = Proxy(scene.env.address)
    address = await proxy.start()
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", address=address)
        handle = await scene.begin(GRACE + 6, "always")
        await first.wrote("start 1")
        second = scene.worker("second")
        await second.wrote("ready")
        proxy.cut(open=False)
        begin = time.monotonic()
        await second.wrote("start 2", timeout=GRACE + 10)
        assert time.monotonic() - begin < GRACE + 2
        proxy.open = True
        await first.wrote("cancelled", timeout=20)
        assert await asyncio.wait_for(handle.result(), 20) == "second: attempt 2"
    assert await attempts(handle) == [2]
    proxy.close()


async def test_cut_off_after_a_while(scene: Scene):
    """As above, but the worker's poll for commands has waited for a while, as it usually has."""
    proxy = Proxy(scene.env.address)
    address = await proxy.start()
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", address=address)
        handle = await scene.begin(300)
        await first.wrote("start 1")
        await asyncio.sleep(11)
        second = scene.worker("second")
        await second.wrote("ready")
        proxy.cut(open=False)
        await second.wrote("start 2", timeout=GRACE + 10)
        proxy.open = True
        assert await asyncio.wait_for(handle.result(), 20) == "second: attempt 2"
        await first.wrote("cancelled", timeout=30)
    proxy.close()


@pytest.mark.timeout(150)
async def test_stopped(scene: Scene):
    """A process that stands still does not answer pings: it is noticed, and fenced when it goes on."""
    async with scene.env.worker(CallActivity):
        first = scene.worker("first")
        handle = await scene.begin(5, "always")
        await first.wrote("start 1")
        first.send(signal.SIGSTOP)
        second = scene.worker("second")
        await second.wrote("ready")
        # A ping every 15 s, 20 s for the answer, and the grace period.
        await second.wrote("start 2", timeout=15 + 20 + GRACE + 5)
    first.send(signal.SIGCONT)
    await first.wrote("end", timeout=20)
    async with scene.env.worker(CallActivity):
        assert await asyncio.wait_for(handle.result(), 20) == "second: attempt 2"
    assert await attempts(handle) == [2]


async def test_same_identity_is_another_worker(scene: Scene):
    """A worker that is killed and started again at once under its old name has nothing of its former life."""
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", "--identity", "me")
        handle = await scene.begin(300)
        await first.wrote("start 1")
        first.send(signal.SIGKILL)
        again = scene.worker("again", "--identity", "me")
        assert await asyncio.wait_for(handle.result(), 20) == "again: attempt 2"
        assert again.lines().count("start 2") == 1


async def test_workflow_task_of_a_killed_worker(scene: Scene):
    first = scene.worker("first", "--workflows")
    await first.wrote("ready")
    from liveness_worker import Stuck

    from datetime import timedelta

    handle = await scene.env.client.start_workflow(
        Stuck.run, "first", id=scene.env.id, task_queue=scene.queue, task_timeout=timedelta(seconds=60)
    )
    await first.wrote("start 1")
    second = scene.worker("second", "--workflows")
    await second.wrote("ready")
    first.send(signal.SIGKILL)
    begin = time.monotonic()
    assert await asyncio.wait_for(handle.result(), 20) == "second"
    assert time.monotonic() - begin < GRACE + 2


async def test_sticky_queue_of_a_killed_worker(scene: Scene):
    from liveness_worker import Sticky

    first = scene.worker("first", "--workflows")
    await first.wrote("ready")
    handle = await scene.env.client.start_workflow(Sticky.run, id=scene.env.id, task_queue=scene.queue)
    await first.wrote("start 1")
    second = scene.worker("second", "--workflows")
    await second.wrote("ready")
    first.send(signal.SIGKILL)
    await asyncio.sleep(GRACE + 0.5)
    begin = time.monotonic()
    await handle.signal("say", "hello")
    assert await asyncio.wait_for(handle.result(), 20) == "second: hello"
    assert time.monotonic() - begin < 2


async def eager_activity(scene: Scene) -> tuple[Any, Any]:
    """A worker and its workflow, whose activity came with the answer to a workflow task and runs."""
    from liveness_worker import Eager

    first = scene.worker("first", "--workflows")
    await first.wrote("ready")
    before = scene.metric("activity_tasks_eager")
    handle = await scene.env.client.start_workflow(Eager.run, 300, id=scene.env.id, task_queue=scene.queue)
    await first.wrote("start 1")
    assert scene.metric("activity_tasks_eager") == before + 1, "it was not handed out by a poll"
    return first, handle


async def test_eager_activity_of_a_killed_worker(scene: Scene):
    """An activity that came with the answer to a workflow task was never polled for, and moves all the same."""
    first, handle = await eager_activity(scene)
    second = scene.worker("second", "--workflows")
    await second.wrote("ready")
    first.send(signal.SIGKILL)
    begin = time.monotonic()
    assert await asyncio.wait_for(handle.result(), 20) == "second: attempt 2"
    assert time.monotonic() - begin < GRACE + 2
    assert await attempts(handle) == [2]


async def test_eager_activity_is_told_to_stop(scene: Scene):
    first, handle = await eager_activity(scene)
    await handle.terminate()
    await first.wrote("cancelled", timeout=5)


async def test_cancellation_needs_no_heartbeat(scene: Scene):
    async with scene.env.worker(CallActivity):
        first = scene.worker("first")
        handle = await scene.begin(300, cancellation_type=1)
        await first.wrote("start 1")
        await handle.cancel()
        await first.wrote("cancelled", timeout=5)
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), 10)


async def test_termination_stops_the_activity(scene: Scene):
    async with scene.env.worker(CallActivity):
        first = scene.worker("first")
        handle = await scene.begin(300)
        await first.wrote("start 1")
        await handle.terminate()
        await first.wrote("cancelled", timeout=5)


async def test_graceful_goodbye(scene: Scene):
    """A worker that says goodbye and finishes its work keeps it until then."""
    moved = scene.metric("activities_moved")
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", "--graceful", "30")
        handle = await scene.begin(GRACE + 3, "always")
        await first.wrote("start 1")
        other = scene.worker("other")
        await other.wrote("ready")
        first.send(signal.SIGTERM)
        assert await asyncio.wait_for(handle.result(), 20) == "first: attempt 1"
        await first.wrote("stopped")
    assert scene.metric("activities_moved") == moved


async def test_goodbye_and_killed(scene: Scene):
    """As an orchestrator does it: SIGTERM, and SIGKILL before the activity is done."""
    async with scene.env.worker(CallActivity):
        first = scene.worker("first", "--graceful", "60")
        handle = await scene.begin(300)
        await first.wrote("start 1")
        second = scene.worker("second")
        await second.wrote("ready")
        first.send(signal.SIGTERM)
        await asyncio.sleep(1)
        first.send(signal.SIGKILL)
        begin = time.monotonic()
        assert await asyncio.wait_for(handle.result(), 20) == "second: attempt 2"
        assert time.monotonic() - begin < GRACE + 2


async def test_server_restart_moves_nothing(tmp_path: Path, durable_server: SegnoServer):
    """A server that was away loses no worker: the worker has a full lease to show up, and keeps its activity."""
    server = durable_server
    server.flags = ["--worker-grace", f"{GRACE}s"]
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    scene = Scene(Env(address=server.address, client=client, name="restart"), tmp_path)
    scene.http_port = server.http_port
    try:
        async with scene.env.worker(CallActivity):
            first = scene.worker("first", "--slots", "1")
            handle = await scene.begin(12, "always")
            await first.wrote("start 1")
            await asyncio.sleep(1)
            server.kill()
            await asyncio.sleep(GRACE)
            server.start()
            other = scene.worker("other")
            await other.wrote("ready")
            assert await asyncio.wait_for(handle.result(), 40) == "first: attempt 1"
            assert scene.metric("activities_moved") == 0
    finally:
        for process in scene.processes:
            process.end()
