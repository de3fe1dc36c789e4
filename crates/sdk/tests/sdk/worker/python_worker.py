"""A worker in Python, for the Rust SDK's tests: python_worker.py ADDRESS QUEUE"""

import asyncio
import sys
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker


@activity.defn
async def shout(text: str) -> str:
    if not text:
        raise ApplicationError("nothing to shout", 7, type="Silence", non_retryable=True)
    return text.upper() + "!"


@workflow.defn
class AskRust:
    @workflow.run
    async def run(self, queue: str, number: int) -> int:
        return await workflow.execute_activity(
            "double",
            number,
            task_queue=queue,
            result_type=int,
            start_to_close_timeout=timedelta(seconds=20),
        )


async def main(address: str, queue: str) -> None:
    client = await Client.connect(address)
    worker = Worker(
        client,
        task_queue=queue,
        activities=[shout],
        workflows=[AskRust],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    await worker.run()


asyncio.run(main(sys.argv[1], sys.argv[2]))
