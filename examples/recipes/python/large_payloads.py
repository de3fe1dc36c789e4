"""Data that is too large for history: workflows pass the name of a file, activities read and write it."""

from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client

STORE = Path("/tmp")  # Use an object store that all workers reach, such as S3.


@activity.defn
async def download(workflow_id: str) -> str:
    key = f"{workflow_id}.bin"  # The same in every attempt: a repeat overwrites the file.
    (STORE / key).write_bytes(b"x" * 5_000_000)
    return key


@activity.defn
async def measure(key: str) -> str:
    return f"{len((STORE / key).read_bytes())} bytes"


@activity.defn
async def remove(key: str) -> None:
    (STORE / key).unlink(missing_ok=True)


@workflow.defn
class Digest:
    @workflow.run
    async def run(self) -> str:
        limit = {"start_to_close_timeout": timedelta(minutes=1)}
        key = await workflow.execute_activity(download, workflow.info().workflow_id, **limit)
        try:
            return await workflow.execute_activity(measure, key, **limit)
        finally:
            await workflow.execute_activity(remove, key, **limit)


WORKFLOWS, ACTIVITIES = [Digest], [download, measure, remove]


async def demo(client: Client) -> None:
    print(await client.execute_workflow(Digest.run, id="digest-python", task_queue="recipes"))
