"""The clock of one node is wrong: timers go by the database's clock, and so does what is written."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import segno_binary
from nodes import Cluster, connect

pytestmark = pytest.mark.timeout(180)

# Shifts the wall clock of a process, and no other clock.
SHIFT = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += atol(getenv("SHIFT_SECONDS"));
    return result;
}
"""


@workflow.defn
class Sleeps:
    @workflow.run
    async def run(self, seconds: float) -> float:
        before = workflow.now()
        await asyncio.sleep(seconds)
        return (workflow.now() - before).total_seconds()


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes; the clock of the first is an hour ahead, that of the second an hour behind."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed, as for building the server"
    (tmp_path / "shift.c").write_text(SHIFT)
    library = tmp_path / "shift.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "shift.c"], check=True)
    cluster = Cluster(tmp_path, lease=20)
    try:
        for node, seconds in zip(cluster.nodes, (3600, -3600, 0)):
            os.environ |= {"LD_PRELOAD": str(library), "SHIFT_SECONDS": str(seconds)}
            try:
                node.start()
            finally:
                del os.environ["LD_PRELOAD"], os.environ["SHIFT_SECONDS"]
        cluster.wait_balanced()
        yield cluster
    finally:
        cluster.stop()


async def test_a_wrong_clock_of_a_node_fires_no_timer_at_a_wrong_time(cluster: Cluster) -> None:
    clients: list[Client] = [await connect(node) for node in cluster.nodes]
    workers = [
        Worker(client, task_queue="clocks", workflows=[Sleeps], workflow_runner=UnsandboxedWorkflowRunner())
        for client in clients
    ]
    async with workers[0], workers[1], workers[2]:
        begun = time.time()
        # Their shards are spread over all nodes.
        handles = [
            await clients[number % 3].start_workflow(Sleeps.run, 3.0, id=f"sleeps-{number}", task_queue="clocks")
            for number in range(24)
        ]
        slept = await asyncio.gather(*(handle.result() for handle in handles))
        took = time.time() - begun
    assert all(2.9 <= seconds < 60 for seconds in slept), slept
    assert took < 60, took
    for handle in handles:
        history = await handle.fetch_history()
        for event in history.events:
            assert abs(event.event_time.seconds - begun) < 120, (event.event_id, event.event_time)
        times = [event.event_time.ToNanoseconds() for event in history.events]
        assert times == sorted(times), "time went backwards from one node to another"
