"""Healthy workers on a bad network: none of them may be taken for lost. Run by hand; docs/internals/evidence.md says how.

    python false_alarms.py --minutes 15
    python false_alarms.py --minutes 2 --kill-one      # proves that a reschedule would be seen

A server, six worker processes under a steady load, and between them and the server a proxy each, which cuts
connections and holds them up. At the end the server's counters must say that no worker was lost and nothing was moved, and
every workflow must have completed with first attempts only.

An answer that the network swallows is no false alarm: its activity never began and is tried again when its time is up.
Such attempts are told apart by the workers' diaries and only counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import SegnoServer

LOAD = "false-alarms-load"
# What the server counts when it takes work from a worker.
COUNTERS = ("workers_lost", "activities_moved", "activities_lost", "workflow_tasks_moved", "orphans_found")
# Of interest, but not wrong.
ASIDE = ("tasks_given_back", "activity_tasks_started", "workflow_tasks_started", "commands_sent", "commands_dropped")


# ---------------------------------------------------------------------------------------------------------------------
# Worker processes

DIARY: Path


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03}"


def note(line: str) -> None:
    with DIARY.open("a") as diary:
        diary.write(f"{line} {clock(time.time())}\n")


@activity.defn
async def work(seconds: float, block: float) -> int:
    """Takes its time; `block` seconds of it the process does nothing else."""
    info = activity.info()
    note(f"start {info.workflow_id} {info.attempt}")
    time.sleep(block)
    await asyncio.sleep(max(0.0, seconds - block))
    note(f"end {info.workflow_id} {info.attempt}")
    return info.attempt


@workflow.defn
class Load:
    @workflow.run
    async def run(self, queue: str, seconds: float, block: float) -> int:
        return await workflow.execute_activity(
            work,
            args=[seconds, block],
            task_queue=queue,
            start_to_close_timeout=timedelta(seconds=seconds + block + 60),
        )


async def serve(given: argparse.Namespace) -> None:
    """The worker process."""
    global DIARY
    DIARY = given.diary
    reports = None if given.older else timedelta(seconds=60)
    runtime = Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=reports)
    while True:
        try:
            client = await Client.connect(given.serve, identity=given.diary.stem, runtime=runtime)
            break
        except RuntimeError as error:
            note(f"connects again: {error}")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    worker = Worker(
        client,
        task_queue=given.queue,
        workflows=[Load] if given.queue == LOAD else [],
        activities=[work],
        max_concurrent_activities=given.slots,
        workflow_runner=UnsandboxedWorkflowRunner(),
        debug_mode=True,
        graceful_shutdown_timeout=timedelta(seconds=10),
    )
    async with worker:
        note("ready")
        await stop.wait()


# ---------------------------------------------------------------------------------------------------------------------
# The network


class Network:
    """One worker's way to the server: cut at random, held up now and then, slow if `latency` says so."""

    def __init__(
        self, name: str, target: int, given: argparse.Namespace, chance: random.Random, latency: float
    ) -> None:
        self.name, self.target, self.given, self.chance, self.latency = name, target, given, chance, latency
        self.calm = False
        self.counts: Counter[str] = Counter()
        self.log: list[tuple[float, str]] = []
        self.late_next = False

    async def start(self, port: int) -> str:
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", port)
        return "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    def happens(self, what: str, more: str = "") -> None:
        self.counts[what] += 1
        self.log.append((time.time(), f"{self.name}: {what} {more}"))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self.lead(reader, writer)
        except asyncio.CancelledError:
            pass  # the run is over

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.late_next and not self.calm:
            self.late_next = False
            delay = self.chance.uniform(0.5, self.given.delay)
            self.happens("late connection", f"{delay:.1f} s")
            await asyncio.sleep(delay)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self.happens("connection")
        way = Way(self, [writer, far_writer])
        fate = asyncio.ensure_future(self.disturb(way))
        try:
            await asyncio.gather(way.carry(reader, far_writer), way.carry(far_reader, writer))
        finally:
            fate.cancel()
            way.end()

    async def disturb(self, way: Way) -> None:
        """What becomes of one connection."""
        while True:
            cut, hold = (self.chance.expovariate(1 / every) for every in (self.given.cut_every, self.given.hold_every))
            await asyncio.sleep(min(cut, hold))
            if self.calm:
                continue
            if cut < hold:
                # An answer on its way would be lost; that is another matter than the one looked at here.
                await way.quiet()
                self.happens("cut")
                self.late_next = self.chance.random() < 0.3
                way.end()
                return
            delay = self.chance.uniform(0.5, self.given.delay)
            self.happens("held up", f"{delay:.1f} s")
            way.held_until = time.monotonic() + delay


class Way:
    """One connection."""

    def __init__(self, network: Network, writers: list[asyncio.StreamWriter]) -> None:
        self.network, self.writers = network, writers
        self.held_until = 0.0
        self.moved = time.monotonic()
        self.inside = 0

    async def carry(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def out() -> None:
            while True:
                due, data = await waiting.get()
                while (wait := max(due, self.held_until) - time.monotonic()) > 0:
                    await asyncio.sleep(wait)
                to.write(data)
                await to.drain()
                self.inside -= 1
                self.moved = time.monotonic()
                if not data:
                    return

        writing = asyncio.ensure_future(out())
        try:
            while data := await source.read(65536):
                self.inside += 1
                self.moved = time.monotonic()
                waiting.put_nowait((time.monotonic() + self.network.latency, data))
        except OSError:
            pass
        finally:
            writing.cancel()
            self.end()

    async def quiet(self) -> None:
        """Returns when nothing is on its way, or after a while."""
        patience = time.monotonic() + 10
        while time.monotonic() < patience and (self.inside or time.monotonic() - self.moved < 0.05):
            await asyncio.sleep(0.01)

    def end(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


# ---------------------------------------------------------------------------------------------------------------------
# The run

# Name, queue, slots, whether it reports as recent SDKs do, latency of its network.
WORKERS = (
    ("full", "long", 2, True, 0.0),
    ("full-older", "long-older", 2, False, 0.0),
    ("idle", "idle", 10, True, 0.0),
    ("busy", LOAD, 20, True, 0.0),
    ("busy-older", LOAD, 20, False, 0.0),
    ("slow", "slow", 10, True, 0.7),
)


class Run:
    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self.given, self.folder = given, folder
        self.chance = random.Random(given.seed)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.networks: dict[str, Network] = {}
        self.results: list[asyncio.Task[None]] = []
        self.attempts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.swallowed: list[str] = []
        self.begun = 0

    def worker(self, name: str, address: str, queue: str, slots: int, reports: bool) -> None:
        command = [sys.executable, __file__, "--serve", address, "--queue", queue, "--slots", str(slots)]
        command += ["--diary", str(self.folder / name)] + ([] if reports else ["--older"])
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def starts(self) -> Counter[str]:
        """How often each attempt began, by the diaries."""
        found: Counter[str] = Counter()
        for name in self.processes:
            diary = self.folder / name
            lines = diary.read_text().splitlines() if diary.exists() else []
            words = [line.split() for line in lines if line.startswith("start ")]
            found.update(f"{id} {attempt}" for _, id, attempt, _ in words)
        return found

    def is_ready(self, name: str) -> bool:
        diary = self.folder / name
        return diary.exists() and "ready " in diary.read_text()

    async def ready(self, *names: str) -> None:
        for _ in range(600):
            if all(map(self.is_ready, names)):
                return
            await asyncio.sleep(0.1)
        raise SystemExit(f"not all of {names} got ready")

    async def begin(self, client: Client, queue: str, seconds: float, block: float = 0.0) -> asyncio.Task[None]:
        self.begun += 1
        handle = await client.start_workflow(
            Load.run, args=[queue, seconds, block], id=f"{queue}-{self.begun}", task_queue=LOAD
        )
        self.results.append(asyncio.create_task(self.see(handle), name=handle.id))
        return self.results[-1]

    async def see(self, handle: WorkflowHandle[Any, int]) -> None:
        try:
            await handle.result()
        except Exception as error:
            self.wrong.append(f"{handle.id} did not complete: {error!r}")
            return
        completed = 0
        for event in (await handle.fetch_history()).events:
            if event.HasField("activity_task_completed_event_attributes"):
                completed += 1
            if event.HasField("workflow_task_timed_out_event_attributes"):
                self.attempts["workflow tasks timed out"] += 1
            if not event.HasField("activity_task_started_event_attributes"):
                continue
            started = event.activity_task_started_event_attributes
            self.attempts[f"activities completed by attempt {started.attempt}"] += 1
            if started.attempt > 1:
                ran = self.starts()[f"{handle.id} 1"]
                text = f"{handle.id} attempt {started.attempt}: {started.last_failure.message}"
                timed_out = started.last_failure.HasField("timeout_failure_info")
                (self.swallowed if timed_out and not ran else self.wrong).append(text)
        if completed != 1:
            self.wrong.append(f"{handle.id} has {completed} completed activities")

    async def steady(self, client: Client, until: float, every: float, queue: str, what: Any) -> None:
        """Begins one workflow after the other, none that would still be at work when time is up."""
        while True:
            seconds, block = what()
            if time.monotonic() + seconds + block > until:
                return
            await self.begin(client, queue, seconds, block)
            # A worker that stands still is not told to do so again at once.
            pause = 2 * block + self.chance.expovariate(1 / every)
            await asyncio.sleep(min(pause, max(0.0, until - time.monotonic())))

    async def filled(self, client: Client, until: float, queue: str) -> None:
        """Keeps all slots of a queue's worker full for most of the time."""
        while time.monotonic() + 2 * self.given.long < until:
            lengths = [self.chance.uniform(0.7, 1.0) * self.given.long for _ in range(4)]
            await asyncio.wait([await self.begin(client, queue, length) for length in lengths])

    async def all(self, server: SegnoServer) -> int:
        given, chance = self.given, self.chance
        for at, (name, queue, slots, reports, latency) in enumerate(WORKERS):
            network = Network(name, server.port, given, random.Random(chance.random()), latency)
            self.networks[name] = network
            address = await network.start(given.port + 2 + at if given.port else 0)
            self.worker(name, address, queue, slots, reports)
        await self.ready(*self.processes)
        client = await Client.connect(server.address)
        begin = time.monotonic()
        until = begin + given.minutes * 60
        short = chance.uniform
        loads = [
            self.steady(client, until, 1 / given.rate, LOAD, lambda: (short(0.05, 1.5), 0.0)),
            self.steady(client, until, 4.0, "slow", lambda: (short(0.1, 5.0), 0.0)),
            # The process stands still for longer than the grace period.
            self.steady(client, until, 30.0, "slow", lambda: (0.0, given.grace + 1)),
            self.steady(client, until, 45.0, "idle", lambda: (short(10, 40), 0.0)),
            self.filled(client, until, "long"),
            self.filled(client, until, "long-older"),
        ]
        tasks = [asyncio.ensure_future(load) for load in loads]
        if given.kill_one:
            await asyncio.sleep(20)
            print(f"{self.stamp()} kills full, which holds {given.long:.0f} s of work", flush=True)
            self.processes["full"].kill()
            calm = Network("again", server.port, given, chance, 0.0)
            calm.calm = True
            self.worker("again", await calm.start(0), "long", 2, True)
        while time.monotonic() < until:
            await asyncio.sleep(min(30.0, max(0.1, until - time.monotonic())))
            self.tell(server)
        for network in self.networks.values():
            network.calm = True
        # Time enough for a long activity whose answer was swallowed to be tried again.
        _, pending = await asyncio.wait([*tasks, *self.results], timeout=2 * given.long + 120)
        for one in pending:
            one.cancel()
            self.wrong.append(f"{one.get_name()} did not end")
        return self.verdict(server)

    def stamp(self) -> str:
        return time.strftime("%H:%M:%S")

    def tell(self, server: SegnoServer) -> None:
        counts = counters(server)
        done = sum(1 for result in self.results if result.done())
        cuts = sum(network.counts["cut"] for network in self.networks.values())
        said = [f"{name} {counts[name]}" for name in COUNTERS]
        print(self.stamp(), f"begun {self.begun}, done {done}, cuts {cuts}", *said, flush=True)

    def verdict(self, server: SegnoServer) -> int:
        counts = counters(server)
        network: Counter[str] = sum((n.counts for n in self.networks.values()), Counter())
        dead = [name for name, process in self.processes.items() if process.poll() is not None]
        print(f"network: {dict(network)}")
        for name, each in self.networks.items():
            print(f"  {name}: {dict(each.counts)}")
        print(f"workflows: {self.begun}; {dict(self.attempts)}")
        print("server:", {name: counts[name] for name in (*COUNTERS, *ASIDE)})
        print(f"answers that the network swallowed: {len(self.swallowed)}", *self.swallowed, sep="\n  ")
        twice = {start: times for start, times in self.starts().items() if times > 1}
        if twice:
            self.wrong.append(f"attempts that began twice: {twice}")
        log = sorted(line for each in self.networks.values() for line in each.log)
        (self.folder / "network.log").write_text("".join(f"{clock(at)} {what}\n" for at, what in log))
        taken = {name: counts[name] for name in COUNTERS if counts[name]}
        if self.given.kill_one:
            noticed = counts["workers_lost"] == 1 and counts["activities_moved"] >= 1
            blamed = [text for text in self.wrong if "WorkerLost" in text or "is lost" in text]
            print("the killed worker was", "" if noticed and blamed else "NOT", "noticed:", taken)
            print(*blamed, sep="\n")
            return 0 if noticed and blamed and dead == ["full"] else 1
        if dead:
            self.wrong.append(f"workers ended by themselves: {dead}")
        if taken:
            self.wrong.append(f"false alarms: {taken}")
        if self.begun == 0 or network["cut"] == 0:
            self.wrong.append("nothing happened, so nothing was shown")
        print("FAILED" if self.wrong else "no false alarm", *self.wrong, sep="\n  ")
        return 1 if self.wrong else 0


def counters(server: SegnoServer) -> dict[str, int]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        lines = [line.split() for line in reply.read().decode().splitlines() if line.startswith("segno_")]
    totals = {line[0].removeprefix("segno_").removesuffix("_total"): line[1] for line in lines if len(line) == 2}
    return {name: int(totals[name]) for name in (*COUNTERS, *ASIDE)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--grace", type=float, default=15, help="the server's grace period, in seconds")
    parser.add_argument("--rate", type=float, default=2, help="short workflows per second")
    parser.add_argument("--long", type=float, default=150, help="longest activity of the workers without free slots")
    parser.add_argument("--cut-every", type=float, default=20, help="mean life of a connection, in seconds")
    parser.add_argument("--hold-every", type=float, default=30, help="mean time between delays of a connection")
    parser.add_argument("--delay", type=float, default=3, help="longest delay, in seconds; below the grace period")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--port", type=int, default=0, help="first of ten ports to use; any free ones if not given")
    parser.add_argument("--kill-one", action="store_true", help="kill a worker; succeeds if that is noticed")
    parser.add_argument("--folder", type=Path, default=None, help="for logs and diaries")
    for inner in ("--serve", "--queue"):
        parser.add_argument(inner, help=argparse.SUPPRESS)
    parser.add_argument("--diary", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--slots", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--older", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given))
        return 0
    import tempfile

    folder = given.folder or Path(tempfile.mkdtemp(prefix="false-alarms-"))
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["--worker-grace", f"{given.grace}s", "--log-level", "info,segno_node::workers=debug"]
    server = SegnoServer(log=folder / "server.log", flags=flags)
    if given.port:
        server.port, server.http_port = given.port, given.port + 1
        server.address = f"127.0.0.1:{given.port}"
    print(f"seed {given.seed}, grace {given.grace} s, logs in {folder}", flush=True)
    run = Run(given, folder)
    server.start()
    try:
        return asyncio.run(run.all(server))
    finally:
        for process in run.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        server.kill()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
