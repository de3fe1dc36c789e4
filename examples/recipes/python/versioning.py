"""New code for a workflow while runs of the old code are open."""

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker


@activity.defn
async def step(name: str) -> str:
    return name


async def do(name: str) -> str:
    return await workflow.execute_activity(step, name, start_to_close_timeout=timedelta(seconds=10))


@workflow.defn(name="Order")
class OldOrder:
    def __init__(self) -> None:
        self.paid = False

    @workflow.run
    async def run(self) -> list[str]:
        steps = [await do("reserved")]
        await workflow.wait_condition(lambda: self.paid)
        return [*steps, await do("shipped")]

    @workflow.update
    def pay(self) -> None:
        self.paid = True


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.paid = False

    @workflow.run
    async def run(self) -> list[str]:
        steps = []
        if workflow.patched("check-fraud"):  # False in runs that passed this line without it.
            steps.append(await do("checked"))
        steps.append(await do("reserved"))
        await workflow.wait_condition(lambda: self.paid)
        return [*steps, await do("shipped")]

    @workflow.update
    def pay(self) -> None:
        self.paid = True


WORKFLOWS, ACTIVITIES = [], [step]


async def demo(client: Client) -> None:
    async with Worker(client, task_queue="orders", workflows=[OldOrder], activities=[step]):
        old = await client.start_workflow(OldOrder.run, id="order-old", task_queue="orders")
        await old.execute_update(OldOrder.pay)
    async with Worker(client, task_queue="orders", workflows=[Order], activities=[step]):
        new = await client.start_workflow(Order.run, id="order-new", task_queue="orders")
        await new.execute_update(Order.pay)
        print("old run:", ", ".join(await old.result()))
        print("new run:", ", ".join(await new.result()))
