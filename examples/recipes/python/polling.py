"""Waits for a job of another company, whose API can only be asked."""

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError


@activity.defn
async def fetch_export(job: str) -> str:
    attempt = activity.info().attempt
    if attempt < 3:  # Ask the API here; below is its answer "not yet".
        raise ApplicationError(f"{job} is not ready", type="NotReady")
    return f"{job}.csv after {attempt} attempts"


@workflow.defn
class Export:
    @workflow.run
    async def run(self, job: str, every_seconds: int) -> str:
        return await workflow.execute_activity(
            fetch_export,
            job,
            start_to_close_timeout=timedelta(seconds=20),  # one question
            schedule_to_close_timeout=timedelta(days=2),  # all of them
            retry_policy=RetryPolicy(initial_interval=timedelta(seconds=every_seconds), backoff_coefficient=1),
        )


WORKFLOWS, ACTIVITIES = [Export], [fetch_export]


async def demo(client: Client) -> None:
    print(await client.execute_workflow(Export.run, args=["export-7", 1], id="export-7", task_queue="recipes"))
