"""A person decides, or the time runs out."""

import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client


@activity.defn
async def ask(document: str) -> None:
    pass  # Send the approver a link to the page with the two buttons.


@workflow.defn
class Approval:
    def __init__(self) -> None:
        self.decision: str | None = None

    @workflow.run
    async def run(self, document: str, patience_seconds: int) -> str:
        await workflow.execute_activity(ask, document, start_to_close_timeout=timedelta(seconds=30))
        try:
            await workflow.wait_condition(
                lambda: self.decision is not None, timeout=timedelta(seconds=patience_seconds)
            )
        except asyncio.TimeoutError:
            return "no answer"
        return self.decision or ""

    @workflow.update
    def decide(self, by: str, approved: bool) -> str:
        self.decision = f"{'approved' if approved else 'rejected'} by {by}"
        return self.decision

    @decide.validator
    def check_decision(self, by: str, approved: bool) -> None:
        if self.decision is not None:
            raise ValueError(f"already {self.decision}")


WORKFLOWS, ACTIVITIES = [Approval], [ask]


async def demo(client: Client) -> None:
    budget = await client.start_workflow(
        Approval.run, args=["budget", 7 * 86_400], id="approval-budget", task_queue="recipes"
    )
    await budget.execute_update(Approval.decide, args=["Ada", True])
    print(await budget.result())
    travel = await client.start_workflow(Approval.run, args=["travel", 1], id="approval-travel", task_queue="recipes")
    print(await travel.result())
