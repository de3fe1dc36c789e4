"""Workers and workflows to look at: one of each kind of thing that the pages show."""

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.api.namespace.v1 import UpdateNamespaceInfo
from temporalio.api.workflowservice.v1 import (
    SetWorkerDeploymentCurrentVersionRequest,
    SetWorkerDeploymentRampingVersionRequest,
    UpdateNamespaceRequest,
    UpdateWorkerDeploymentVersionMetadataRequest,
)
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleRange,
    ScheduleSpec,
)
from temporalio.common import RetryPolicy, VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

QUEUE = "orders"
DEPLOYMENT = "shipping"
# The oldest version first.
BUILDS = ["2026-11-12.3", "2026-11-18.1", "2026-11-19.1"]


@activity.defn
async def reserve_stock(order: dict) -> dict:
    await asyncio.sleep(0.15)
    return {"warehouse": "north", "items": order["items"]}


@activity.defn
async def charge_card(order: dict) -> str:
    await asyncio.sleep(0.2)
    if activity.info().attempt < 3 and order.get("flaky"):
        raise ValueError("the bank does not answer")
    if order.get("broken"):
        raise ValueError("card declined: insufficient funds")
    return "payment-8123"


@activity.defn
async def send_mail(text: str) -> None:
    await asyncio.sleep(0.05)


@activity.defn
async def note(number: int) -> int:
    return number


@workflow.defn
class Shipment:
    @workflow.run
    async def run(self, order: dict) -> str:
        await workflow.sleep(0.3)
        await workflow.execute_activity(send_mail, "on its way", start_to_close_timeout=timedelta(seconds=10))
        if order.get("slow"):
            await workflow.sleep(3600)
        return "delivered"


@workflow.defn
class Order:
    def __init__(self) -> None:
        self.approved = False
        self.notes: list[str] = []

    @workflow.run
    async def run(self, order: dict) -> dict:
        timeout = timedelta(seconds=10)
        quickly = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=order.get("attempts", 5))
        if order.get("broken"):
            quickly = RetryPolicy(initial_interval=timedelta(seconds=40), maximum_attempts=9)
        stock, _ = await asyncio.gather(
            workflow.execute_activity(reserve_stock, order, start_to_close_timeout=timeout),
            workflow.execute_activity(send_mail, "thank you", start_to_close_timeout=timeout),
        )
        payment = await workflow.execute_activity(
            charge_card, order, start_to_close_timeout=timeout, retry_policy=quickly
        )
        if order.get("approval"):
            await workflow.wait_condition(lambda: self.approved)
        await workflow.sleep(0.4)
        if order.get("wait"):
            await workflow.sleep(3600)
        shipped = await workflow.execute_child_workflow(
            Shipment.run, order, id=f"{workflow.info().workflow_id}-shipment"
        )
        return {"stock": stock, "payment": payment, "shipment": shipped, "notes": self.notes}

    @workflow.signal
    def approve(self, by: str) -> None:
        self.approved = True
        self.notes.append(f"approved by {by}")

    @workflow.update
    async def add_note(self, text: str) -> int:
        self.notes.append(text)
        return len(self.notes)

    @workflow.query
    def state(self) -> dict:
        return {"approved": self.approved, "notes": self.notes}


@workflow.defn
class Crashing:
    """Code with a mistake: its workflow task fails again and again."""

    @workflow.run
    async def run(self) -> None:
        raise RuntimeError("a mistake in the code")


@workflow.defn
class Parcel:
    """Stays on its version of the workers until it arrives."""

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: False)


@workflow.defn
class Many:
    """A long history: activities one after another, some side by side."""

    @workflow.run
    async def run(self, rounds: int) -> int:
        for number in range(rounds):
            calls = [
                workflow.execute_activity(note, number, start_to_close_timeout=timedelta(seconds=30)) for _ in range(10)
            ]
            await asyncio.gather(*calls)
        return rounds


SCRIPT = """workflow greeting(name) {
  const text = "Hello, " + name
  await Task.delay("1h")
  return text
}
"""


class World:
    def __init__(self, address):
        self.address = address
        self.ready = threading.Event()
        self.failed = None
        self.loop = None

    def run(self):
        try:
            asyncio.run(self.live())
        except Exception as error:  # noqa: BLE001: told by the caller that waits
            self.failed = error
            self.ready.set()

    def call(self, coroutine, timeout=60):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def stop(self):
        if self.loop:
            self.loop.call_soon_threadsafe(self.end.set)

    async def live(self):
        self.loop, self.end = asyncio.get_running_loop(), asyncio.Event()
        self.client = await Client.connect(self.address)
        async with Worker(
            self.client,
            task_queue=QUEUE,
            workflows=[Order, Shipment, Many, Crashing],
            activities=[reserve_stock, charge_card, send_mail, note],
            max_concurrent_activities=200,
            workflow_runner=UnsandboxedWorkflowRunner(),
            identity="orders-worker@host-1",
        ):
            async with AsyncExitStack() as versions:
                await asyncio.gather(self.seed(), self.deploy(versions))
                self.ready.set()
                await self.end.wait()

    async def deploy(self, running):
        """Workers of three versions: one drains, one is current, one is ramping."""
        for build, parcels in zip(BUILDS, [4, 9, 0]):
            config = WorkerDeploymentConfig(
                version=WorkerDeploymentVersion(deployment_name=DEPLOYMENT, build_id=build),
                use_worker_versioning=True,
                default_versioning_behavior=VersioningBehavior.PINNED,
            )
            worker = Worker(
                self.client,
                task_queue=DEPLOYMENT,
                workflows=[Parcel],
                workflow_runner=UnsandboxedWorkflowRunner(),
                identity=f"shipping-worker@{build}",
                deployment_config=config,
            )
            await running.enter_async_context(worker)
            if build == BUILDS[-1]:
                await self.routed(self.ramp, DEPLOYMENT, build, 25)
            else:
                await self.routed(self.make_current, DEPLOYMENT, build)
            for number in range(parcels):
                parcel = f"parcel-{build}-{number}"
                handle = await self.client.start_workflow(Parcel.run, id=parcel, task_queue=DEPLOYMENT)
                while (await handle.describe()).history_length < 4:
                    await asyncio.sleep(0.05)
        request = UpdateWorkerDeploymentVersionMetadataRequest(namespace="default")
        request.deployment_version.deployment_name = DEPLOYMENT
        request.deployment_version.build_id = BUILDS[-1]
        request.upsert_entries["commit"].CopyFrom(self.client.data_converter.payload_converter.to_payloads(["4f2a91c"])[0])
        await self.client.workflow_service.update_worker_deployment_version_metadata(request)

    async def routed(self, change, *arguments):
        """Changes the routing as soon as the version has polled."""
        while True:
            try:
                return await change(*arguments)
            except RPCError as error:
                if "not found" not in error.message and "no Worker Deployment" not in error.message:
                    raise
                await asyncio.sleep(0.05)

    async def make_current(self, name, build, **more):
        request = SetWorkerDeploymentCurrentVersionRequest(
            namespace="default", deployment_name=name, build_id=build, identity="pipeline", **more
        )
        await self.client.workflow_service.set_worker_deployment_current_version(request)

    async def ramp(self, name, build, percentage):
        request = SetWorkerDeploymentRampingVersionRequest(
            namespace="default", deployment_name=name, build_id=build, percentage=percentage, identity="pipeline"
        )
        await self.client.workflow_service.set_worker_deployment_ramping_version(request)

    async def settings(self, settings):
        """Changes settings of the namespace."""
        info = UpdateNamespaceInfo(data=settings)
        request = UpdateNamespaceRequest(namespace="default", update_info=info)
        await self.client.workflow_service.update_namespace(request)

    async def order(self, name, **options):
        order = {"customer": "Ada Lovelace", "items": [{"article": "lamp", "count": 2}], **options}
        return await self.client.start_workflow(Order.run, order, id=name, task_queue=QUEUE)

    async def seed(self):
        done = [await self.order(f"order-10{number:02}", flaky=number == 3) for number in range(8)]
        await self.order("order-2001", wait=True)
        await self.order("order-2002", broken=True)
        await self.order("order-2003", approval=True)
        await self.client.start_workflow("Invoice", 7, id="invoice-1", task_queue="invoices")
        await self.client.start_workflow(
            Crashing.run, id="crashing", task_queue=QUEUE, task_timeout=timedelta(seconds=1)
        )
        failed = await self.order("order-3001", broken=True)
        await asyncio.gather(*(one.result() for one in done))
        await failed.terminate("a customer changed their mind")
        await self.client.create_schedule(
            "nightly-report",
            Schedule(
                action=ScheduleActionStartWorkflow("Report", id="report", task_queue="reports"),
                spec=ScheduleSpec(
                    calendars=[
                        ScheduleCalendarSpec(hour=[ScheduleRange(6)], day_of_week=[ScheduleRange(1, 5)]),
                        ScheduleCalendarSpec(hour=[ScheduleRange(18)], day_of_week=[ScheduleRange(2)]),
                    ]
                ),
            ),
        )

    async def long(self, name, rounds):
        handle = await self.client.start_workflow(Many.run, rounds, id=name, task_queue=QUEUE)
        await handle.result()
        described = await handle.describe()
        return described.run_id, described.history_length


if __name__ == "__main__":
    import sys

    living = World(sys.argv[1])

    def told():
        living.ready.wait()
        print(json.dumps({"ready": True, "failed": repr(living.failed)}), flush=True)

    threading.Thread(target=told, daemon=True).start()
    living.run()
