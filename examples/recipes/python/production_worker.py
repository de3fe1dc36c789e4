"""A worker for production: it says whether it is healthy, and ends what it has begun before it stops."""

import asyncio
import signal
from datetime import timedelta
from urllib.request import urlopen

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker


@activity.defn
async def import_rows(count: int) -> str:
    for row in range(count):
        activity.heartbeat(row)  # Without one for 10 s the attempt times out, and the next one begins.
        await asyncio.sleep(0.3)
    return f"{count} rows in attempt {activity.info().attempt}"


@workflow.defn
class Import:
    @workflow.run
    async def run(self, count: int) -> str:
        return await workflow.execute_activity(
            import_rows, count, start_to_close_timeout=timedelta(hours=1), heartbeat_timeout=timedelta(seconds=10)
        )


WORKFLOWS, ACTIVITIES = [], [import_rows]


async def work(client: Client, health_port: int) -> None:
    """Runs until SIGTERM or SIGINT, then gives activities under way 30 s."""
    worker = Worker(
        client,
        task_queue="imports",
        workflows=[Import],
        activities=[import_rows],
        graceful_shutdown_timeout=timedelta(seconds=30),
    )

    async def health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {'200 OK' if worker.is_running else '503 Stopping'}\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await asyncio.start_server(health, port=health_port), worker:
        await stop.wait()
        print("stopping")
    print("stopped")


async def demo(client: Client) -> None:
    worker = asyncio.create_task(work(client, 18081))
    handle = await client.start_workflow(Import.run, 3, id="import-1", task_queue="imports")
    while not (await handle.describe()).raw_description.pending_activities:
        await asyncio.sleep(0.1)
    print("health:", (await asyncio.to_thread(urlopen, "http://127.0.0.1:18081")).status)
    signal.raise_signal(signal.SIGTERM)  # As `docker stop` and Kubernetes do.
    await worker
    async with Worker(client, task_queue="imports", workflows=[Import], activities=[import_rows]):
        print(await handle.result())
