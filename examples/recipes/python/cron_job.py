"""A report at six o'clock on working days."""

import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)


@activity.defn
async def count_orders(region: str) -> int:
    return 42


@workflow.defn
class Report:
    @workflow.run
    async def run(self, region: str) -> str:
        orders = await workflow.execute_activity(count_orders, region, start_to_close_timeout=timedelta(minutes=5))
        return f"{region}: {orders} orders"


WORKFLOWS, ACTIVITIES = [Report], [count_orders]


async def demo(client: Client) -> None:
    schedule = await client.create_schedule(
        "daily-report",
        Schedule(
            action=ScheduleActionStartWorkflow(Report.run, "north", id="report", task_queue="recipes"),
            spec=ScheduleSpec(cron_expressions=["0 6 * * MON-FRI"], time_zone_name="Europe/Berlin"),
            # The next report waits for no other: a report that is still running skips it.
            policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(hours=1)),
        ),
    )
    await schedule.trigger()  # To see it work before tomorrow morning.
    while not (started := (await schedule.describe()).info.recent_actions):
        await asyncio.sleep(0.1)
    print(await client.get_workflow_handle(started[0].action.workflow_id).result())
    await schedule.delete()
