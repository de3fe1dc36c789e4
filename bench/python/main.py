"""One-activity workflows as a user of the Python SDK runs them: client and worker in one process.

Run by `cargo xtask bench`: python main.py ADDRESS COUNT CONCURRENCY SECONDS_MAX; prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

TASK_QUEUE = f"python-{os.getpid()}"


@activity.defn
async def echo(text: str) -> str:
    """Gives back its input."""
    return text


@workflow.defn
class OneActivity:
    """One activity, then its result."""

    @workflow.run
    async def run(self, text: str) -> str:
        """The workflow."""
        return await workflow.execute_activity(echo, text, start_to_close_timeout=timedelta(seconds=60))


async def measure(
    client: Client, name: str, count: int, concurrency: int, seconds_max: float
) -> tuple[list[float], float]:
    """Sorted latencies in milliseconds, and seconds in all."""
    latencies: list[float] = []
    started = time.perf_counter()
    indexes = iter(range(count))

    async def caller() -> None:
        for index in indexes:
            if time.perf_counter() - started > seconds_max:
                return
            begun = time.perf_counter()
            workflow_id = f"{TASK_QUEUE}-{name}-{index}"
            result = await client.execute_workflow(OneActivity.run, "hello", id=workflow_id, task_queue=TASK_QUEUE)
            assert result == "hello", result
            latencies.append((time.perf_counter() - begun) * 1000)

    await asyncio.gather(*(caller() for _ in range(concurrency)))
    return sorted(latencies), time.perf_counter() - started


async def main() -> None:
    """Warms up, says so, measures, prints."""
    address, count, concurrency = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seconds_max = float(sys.argv[4])
    client = await Client.connect(address)
    async with Worker(client, task_queue=TASK_QUEUE, workflows=[OneActivity], activities=[echo]):
        await measure(client, "warm", max(1, count // 20), concurrency, seconds_max)
        # The line before measuring tells the benchmark to read the server's counters.
        print("ready", flush=True)
        latencies, seconds = await measure(client, "run", count, concurrency, seconds_max)
        at = lambda share: latencies[round((len(latencies) - 1) * share)]  # noqa: E731
        figures = {"count": len(latencies), "seconds": seconds, "p50_ms": at(0.5), "p99_ms": at(0.99)}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
