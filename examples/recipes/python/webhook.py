"""A webhook whose sender repeats events: each is handled once."""

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError


@activity.defn
async def book_payment(event: dict) -> None:
    print(f"booked {event['amount']}", flush=True)


@workflow.defn
class Payment:
    @workflow.run
    async def run(self, event: dict) -> None:
        await workflow.execute_activity(book_payment, event, start_to_close_timeout=timedelta(seconds=30))


WORKFLOWS, ACTIVITIES = [Payment], [book_payment]


async def receive(client: Client, event: dict) -> int:
    """The handler of `POST /webhook`; gives the HTTP status."""
    try:
        await client.start_workflow(
            Payment.run,
            event,
            id=f"payment-{event['id']}",  # Chosen by the sender, the same in every repeat.
            task_queue="recipes",
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,  # while the workflow runs
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,  # after its end
        )
        return 202
    except WorkflowAlreadyStartedError:
        return 200  # Anything else is an error, after which the sender repeats the event.


async def demo(client: Client) -> None:
    event = {"id": "evt-1", "amount": 450}
    statuses = [await receive(client, event), await receive(client, event)]
    await client.get_workflow_handle("payment-evt-1").result()
    statuses.append(await receive(client, event))
    print(*statuses)
