"""A worker process of its own, for tests that kill it: python liveness_worker.py ADDRESS QUEUE DIARY [options].

It writes what happens to its diary, one line each: `ready`, `start ATTEMPT`, `cancelled`, `end`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

DIARY: Path


def note(line: str) -> None:
    with DIARY.open("a") as diary:
        diary.write(f"{line}\n")


@activity.defn
async def job(seconds: float, mode: str) -> str:
    """Takes its time.

    `heartbeat` says how often it ran; `poison` kills the worker that runs it; `elsewhere` is completed later by another
    process; `block` blocks the event loop.
    """
    info = activity.info()
    note(f"start {info.attempt}")
    if mode == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "elsewhere":
        activity.raise_complete_async()
    if mode == "block":
        time.sleep(seconds)
        seconds = 0
    if mode == "heartbeat":
        before = list(info.heartbeat_details)
        activity.heartbeat(*before, info.attempt)
        if before:
            return f"before: {before}"
    until = time.monotonic() + (seconds if info.attempt == 1 or mode == "always" else 0)
    try:
        while time.monotonic() < until:
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        note("cancelled")
        raise
    note("end")
    return f"{DIARY.stem}: attempt {info.attempt}"


@workflow.defn
class Stuck:
    """The first worker to take its task never answers; others do."""

    @workflow.run
    async def run(self, diary_of_the_first: str) -> str:
        if diary_of_the_first == DIARY.stem:
            note("start 1")
            time.sleep(600)
        return DIARY.stem


@workflow.defn
class Sticky:
    """Waits for a word."""

    def __init__(self) -> None:
        self.word = ""

    @workflow.run
    async def run(self) -> str:
        note("start 1")
        await workflow.wait_condition(lambda: self.word != "")
        return f"{DIARY.stem}: {self.word}"

    @workflow.signal
    def say(self, word: str) -> None:
        self.word = word


@workflow.defn
class Eager:
    """Calls the activity on its own queue, so that a worker with a free slot gets it with the answer to its task."""

    @workflow.run
    async def run(self, seconds: float) -> str:
        return await workflow.execute_activity(job, args=[seconds, ""], start_to_close_timeout=timedelta(minutes=10))


async def main() -> None:
    global DIARY
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("queue")
    parser.add_argument("diary", type=Path)
    parser.add_argument("--identity", default="")
    parser.add_argument("--slots", type=int, default=10)
    parser.add_argument("--graceful", type=float, default=0)
    parser.add_argument("--workflows", action="store_true")
    parser.add_argument("--reports", type=float, default=60, help="seconds between heartbeats of the worker")
    given = parser.parse_args()
    DIARY = given.diary
    runtime = Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=timedelta(seconds=given.reports))
    client = await Client.connect(given.address, identity=given.identity or None, runtime=runtime)
    worker = Worker(
        client,
        task_queue=given.queue,
        workflows=[Stuck, Sticky, Eager] if given.workflows else [],
        activities=[job],
        max_concurrent_activities=given.slots,
        graceful_shutdown_timeout=timedelta(seconds=given.graceful),
        workflow_runner=UnsandboxedWorkflowRunner(),
        debug_mode=True,
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with worker:
        note("ready")
        await stop.wait()
    note("stopped")


if __name__ == "__main__":
    asyncio.run(main())
