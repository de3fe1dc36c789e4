"""What the tests of updates share: a workflow, raw calls, a worker in a process of its own."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import uuid
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, AsyncIterator

import grpc
from temporalio import workflow
from temporalio.api.common.v1 import Payloads, WorkflowExecution
from temporalio.api.enums.v1 import UpdateWorkflowExecutionLifecycleStage as Stage
from temporalio.api.update.v1 import Input, Meta, Outcome, Request, UpdateRef, WaitPolicy
from temporalio.api.workflowservice.v1 import (
    PollWorkflowExecutionUpdateRequest,
    PollWorkflowExecutionUpdateResponse,
    UpdateWorkflowExecutionRequest,
    UpdateWorkflowExecutionResponse,
)
from temporalio.client import Client
from temporalio.converter import PayloadConverter
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import NAMESPACE, Env

ADMITTED = Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED
ACCEPTED = Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED
COMPLETED = Stage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED


@workflow.defn
class Basket:
    """A list that updates and signals add to."""

    # Items that validators have looked at, in workers of this process, by workflow id.
    validated: dict[str, list[int]] = {}

    def __init__(self) -> None:
        self.items: list[int] = []
        self.done = False
        self.gate = False
        self.next_run = False

    @workflow.run
    async def run(self) -> list[int]:
        await workflow.wait_condition(lambda: self.done or self.next_run)
        if self.next_run:
            workflow.continue_as_new()
        return self.items

    @workflow.update
    async def add(self, item: int) -> int:
        self.items.append(item)
        return len(self.items)

    @add.validator
    def may_add(self, item: int) -> None:
        Basket.validated.setdefault(workflow.info().workflow_id, []).append(item)
        if item < 0:
            raise ValueError("negative")

    @workflow.update
    async def add_slowly(self, item: int) -> int:
        await asyncio.sleep(0.2)
        self.items.append(item)
        return item

    @workflow.update
    async def add_when_opened(self, item: int) -> int:
        await workflow.wait_condition(lambda: self.gate)
        self.items.append(item)
        return len(self.items)

    @workflow.update
    async def never(self) -> None:
        await workflow.wait_condition(lambda: False)

    @workflow.signal
    def put(self, item: int) -> None:
        self.items.append(item)

    @workflow.signal
    def open(self) -> None:
        self.gate = True

    @workflow.signal
    def finish(self) -> None:
        self.done = True

    @workflow.signal
    def roll(self) -> None:
        self.next_run = True

    @workflow.query
    def content(self) -> list[int]:
        return self.items


def update_request(
    workflow_id: str, name: str, *args: Any, id: str = "", stage: Any = COMPLETED, run_id: str = ""
) -> UpdateWorkflowExecutionRequest:
    """The request of an update, under a new id unless one is given."""
    payloads = PayloadConverter.default.to_payloads(args)
    return UpdateWorkflowExecutionRequest(
        namespace=NAMESPACE,
        workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
        wait_policy=WaitPolicy(lifecycle_stage=stage),
        request=Request(
            meta=Meta(update_id=id or str(uuid.uuid4()), identity="test"),
            input=Input(name=name, args=Payloads(payloads=payloads)),
        ),
    )


async def admit(
    client: Client, workflow_id: str, name: str, *args: Any, id: str = ""
) -> UpdateWorkflowExecutionResponse:
    """Calls for an update to be stored, without a worker. The SDK does not offer this stage."""
    request = update_request(workflow_id, name, *args, id=id, stage=ADMITTED)
    return await client.workflow_service.update_workflow_execution(request)


async def poll(
    client: Client, workflow_id: str, id: str, stage: Any = COMPLETED, **options: Any
) -> PollWorkflowExecutionUpdateResponse:
    """How the update stands, or comes to stand within the server's long poll."""
    return await client.workflow_service.poll_workflow_execution_update(
        PollWorkflowExecutionUpdateRequest(
            namespace=NAMESPACE,
            update_ref=UpdateRef(
                workflow_execution=WorkflowExecution(workflow_id=workflow_id), update_id=id
            ),
            identity="test",
            wait_policy=WaitPolicy(lifecycle_stage=stage),
        ),
        **options,
    )


def value(outcome: Outcome) -> Any:
    """What a successful update answered."""
    assert outcome.HasField("success"), outcome
    return PayloadConverter.default.from_payloads(outcome.success.payloads)[0]


def code(error: BaseException) -> grpc.StatusCode:
    """The status of a raw call that failed."""
    assert isinstance(error, grpc.aio.AioRpcError), repr(error)
    return error.code()


class WorkerProcess:
    """A worker for Basket that can be killed or frozen."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def kill(self) -> None:
        """SIGKILL: it does not say goodbye."""
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP: its connections stay and its polls wait, but it answers nothing."""
        self.process.send_signal(signal.SIGSTOP)


@asynccontextmanager
async def worker_process(env: Env) -> AsyncIterator[WorkerProcess]:
    """Runs a worker for Basket on this test's task queue, in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), env.address, env.task_queue]
    worker = WorkerProcess(subprocess.Popen(command))
    try:
        yield worker
    finally:
        worker.kill()


async def serve(address: str, task_queue: str) -> None:
    client = await Client.connect(address, namespace=NAMESPACE, identity="other-process")
    async with Worker(
        client,
        task_queue=task_queue,
        workflows=[Basket],
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
