"""Three bookings that belong together: if one fails, those before it are undone, the last one first."""

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError


@activity.defn
async def book(what: str) -> None:
    if what == "tour":
        raise ApplicationError("the tour is sold out", type="SoldOut", non_retryable=True)
    print(f"booked {what}", flush=True)


@activity.defn
async def cancel_booking(what: str) -> None:
    print(f"cancelled {what}", flush=True)  # Must succeed for what was never booked, too.


@workflow.defn
class Trip:
    @workflow.run
    async def run(self, parts: list[str]) -> None:
        undo: list[str] = []
        try:
            for part in parts:
                undo.append(part)  # Before the booking: it may take place although its answer is lost.
                await workflow.execute_activity(book, part, start_to_close_timeout=timedelta(seconds=30))
        except Exception:
            for part in reversed(undo):
                await workflow.execute_activity(cancel_booking, part, start_to_close_timeout=timedelta(seconds=30))
            raise


WORKFLOWS, ACTIVITIES = [Trip], [book, cancel_booking]


async def demo(client: Client) -> None:
    try:
        await client.execute_workflow(Trip.run, ["flight", "hotel", "tour"], id="trip-1", task_queue="recipes")
    except WorkflowFailureError as failed:
        print(f"failed: {failed.cause.cause.message}")
