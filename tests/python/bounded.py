"""Watching a server that is attacked: its memory stays bounded and others are served."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest

from helpers import SegnoServer
from wire import INFO, Wire, info

MIB = 1 << 20


@pytest.fixture
def fresh(tmp_path: Path, server: SegnoServer) -> Iterator[SegnoServer]:
    """A server of one test's own: no memory is left from another flood."""
    fresh = SegnoServer(log=tmp_path / "server.log")
    fresh.start()
    try:
        yield fresh
    finally:
        fresh.kill()


def memory(server: SegnoServer) -> int:
    assert server.process
    with open(f"/proc/{server.process.pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


@contextmanager
def bounded(server: SegnoServer, limit: int = 100, wait: float = 2) -> Iterator[None]:
    """Meanwhile the server's memory stays within `limit` MiB of what it was, and others wait `wait` seconds at most."""
    if "--store" in server.storage:
        # What is read from a database is in the buffers of its connections as well.
        limit *= 2
    before, most, worst, over = memory(server), 0, 0.0, threading.Event()

    def look() -> None:
        nonlocal most, worst
        with Wire(server.address, timeout=20) as other:
            while not over.wait(0.005):
                began = time.monotonic()
                info(other.call("GetSystemInfo", INFO))
                worst = max(worst, time.monotonic() - began)
                most = max(most, memory(server))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            yield
            time.sleep(0.1)
        finally:
            over.set()
    looking.result()
    assert most, "the other client was never served"
    print(f"{(most - before) / MIB:.1f} MiB more, {worst * 1000:.0f} ms at most")
    assert most - before < limit * MIB
    assert worst < wait
