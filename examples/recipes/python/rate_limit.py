"""At most five calls a second to a service, from all workers together."""

from datetime import timedelta
from time import monotonic

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

calls: list[float] = []


@activity.defn
async def send_sms(number: str) -> None:
    calls.append(monotonic())


@workflow.defn
class Campaign:
    @workflow.run
    async def run(self, numbers: list[str]) -> int:
        sent = [
            workflow.start_activity(
                send_sms, number, task_queue="sms", start_to_close_timeout=timedelta(seconds=10)
            )
            for number in numbers
        ]
        for sms in sent:
            await sms
        return len(sent)


WORKFLOWS, ACTIVITIES = [Campaign], []


def sender(client: Client) -> Worker:
    """The server enforces the limit for the whole queue, however many workers poll it."""
    return Worker(client, task_queue="sms", activities=[send_sms], max_task_queue_activities_per_second=5)


async def demo(client: Client) -> None:
    async with sender(client):
        numbers = [f"+49 30 555 {number}" for number in range(11)]
        sent = await client.execute_workflow(Campaign.run, numbers, id="campaign-1", task_queue="recipes")
    pace = "at most" if calls[-1] - calls[0] > 1.5 else "more than"
    print(f"{sent} messages, {pace} 5 a second")
