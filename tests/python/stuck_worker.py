"""A worker whose activities never end: `stuck_worker.py ADDRESS QUEUE`. Prints a line for each one that began."""

from __future__ import annotations

import asyncio
import sys

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker


@activity.defn(name="add")
async def never(a: int, b: int) -> int:
    print("begun", flush=True)
    await asyncio.sleep(3600)
    return 0


async def main(address: str, queue: str) -> None:
    client = await Client.connect(address)
    await Worker(client, task_queue=queue, activities=[never], max_concurrent_activities=6).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
