"""A Nexus service, a workflow that calls its operations, and the two namespaces they are in."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, AsyncIterator, Sequence

import nexusrpc
from nexusrpc.handler import (
    CancelOperationContext,
    OperationHandler,
    StartOperationContext,
    StartOperationResultAsync,
    operation_handler,
    service_handler,
    sync_operation,
)
from temporalio import nexus, workflow
from temporalio.api.nexus.v1 import Endpoint, EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import (
    CreateNexusEndpointRequest,
    DeleteNexusEndpointRequest,
    UpdateNexusEndpointRequest,
)
from temporalio.api.workflowservice.v1 import CountWorkflowExecutionsRequest, RegisterNamespaceRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, NexusOperationError
from temporalio.worker import Worker

from flows import Echo, Fails, Sleeper, Waiter
from helpers import Env, event_name, events, eventually


@dataclass
class Flow:
    """The workflow behind an operation."""

    workflow: str
    id: str
    args: list[Any] = field(default_factory=list)
    use_existing: bool = False
    run_timeout_s: float | None = None
    attempts: int = 1


@dataclass
class Fault:
    """The handler error of the first `attempts` attempts; those after them succeed."""

    type: str
    message: str = "handler broke"
    attempts: int = 1000


@nexusrpc.service
class Sample:
    """The service that the tests call."""

    echo: nexusrpc.Operation[Any, Any]
    unsuccessful: nexusrpc.Operation[str, str]
    faulty: nexusrpc.Operation[Fault, int]
    flow: nexusrpc.Operation[Flow, Any]
    signal: nexusrpc.Operation[str, None]
    endless: nexusrpc.Operation[str, str]


@dataclass
class Start:
    """A request to start an operation, as its handler received it."""

    operation: str
    request_id: str
    endpoint: str
    headers: dict[str, str]
    callback: dict[str, str]


@service_handler(service=Sample)
class Handlers:
    """The handlers of the operations; they keep what they received."""

    def __init__(self) -> None:
        self.starts: list[Start] = []
        self.cancels = 0
        # While it is not set, no workflow is started behind an operation.
        self.open = asyncio.Event()
        self.open.set()

    @sync_operation
    async def echo(self, ctx: StartOperationContext, value: Any) -> Any:
        """Answers with its input."""
        self._keep(ctx)
        return value

    @sync_operation
    async def unsuccessful(self, ctx: StartOperationContext, state: str) -> str:
        """Ends in the state `failed` or `canceled`."""
        self._keep(ctx)
        raise nexusrpc.OperationError("ended on purpose", state=nexusrpc.OperationErrorState(state))

    @sync_operation
    async def faulty(self, ctx: StartOperationContext, fault: Fault) -> int:
        """Answers with a handler error, later with the number of attempts."""
        self._keep(ctx)
        attempts = self.attempts(ctx.request_id)
        if attempts <= fault.attempts:
            raise nexusrpc.HandlerError(fault.message, type=nexusrpc.HandlerErrorType(fault.type))
        return attempts

    @nexus.workflow_run_operation
    async def flow(self, ctx: nexus.WorkflowRunOperationContext, flow: Flow) -> nexus.WorkflowHandle[Any]:
        """Starts a workflow, with whose result the operation completes."""
        self._keep(ctx)
        policy = WorkflowIDConflictPolicy.USE_EXISTING if flow.use_existing else WorkflowIDConflictPolicy.UNSPECIFIED
        await self.open.wait()
        limit = None if flow.run_timeout_s is None else timedelta(seconds=flow.run_timeout_s)
        return await ctx.start_workflow(
            flow.workflow,
            args=flow.args,
            id=flow.id,
            id_conflict_policy=policy,
            run_timeout=limit,
            retry_policy=RetryPolicy(maximum_attempts=flow.attempts, initial_interval=timedelta(seconds=0.1)),
        )

    @sync_operation
    async def signal(self, ctx: StartOperationContext, workflow_id: str) -> None:
        """Sends the signal `finish` to a workflow."""
        self._keep(ctx)
        await nexus.client().get_workflow_handle(workflow_id).signal("finish")

    @operation_handler
    def endless(self) -> OperationHandler[str, str]:
        """An operation that does not end, and whose cancellation is refused."""
        handlers = self

        class Endless(OperationHandler[str, str]):
            async def start(self, ctx: StartOperationContext, token: str) -> StartOperationResultAsync:
                handlers._keep(ctx)
                return StartOperationResultAsync(token)

            async def cancel(self, ctx: CancelOperationContext, token: str) -> None:
                handlers.cancels += 1
                raise nexusrpc.HandlerError(f"{token} goes on", type=nexusrpc.HandlerErrorType.NOT_IMPLEMENTED)

        return Endless()

    def attempts(self, request_id: str) -> int:
        """How often the handlers received this request."""
        return len([start for start in self.starts if start.request_id == request_id])

    def _keep(self, ctx: StartOperationContext) -> None:
        endpoint, callback = nexus.info().endpoint, dict(ctx.callback_headers)
        self.starts.append(Start(ctx.operation, ctx.request_id, endpoint, dict(ctx.headers), callback))


@workflow.defn
class ContinuesAsNew:
    """Continues as new as often as it is told, then waits for the signal `finish`."""

    def __init__(self) -> None:
        self.finished = False

    @workflow.run
    async def run(self, left: int) -> str:
        if left:
            workflow.continue_as_new(left - 1)
        await workflow.wait_condition(lambda: self.finished)
        return "last run"

    @workflow.signal
    def finish(self) -> None:
        self.finished = True


@workflow.defn
class FailsAtFirst:
    """Its first attempt fails."""

    @workflow.run
    async def run(self) -> int:
        if workflow.info().attempt == 1:
            raise ApplicationError("not yet")
        return workflow.info().attempt


@workflow.defn
class EndsLater:
    """When it is cancelled it waits for the signal `finish` before it is."""

    def __init__(self) -> None:
        self.finished = False

    @workflow.run
    async def run(self) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await workflow.wait_condition(lambda: self.finished)
            raise

    @workflow.signal
    def finish(self) -> None:
        self.finished = True


@dataclass
class Call:
    """An operation, and how a workflow calls it."""

    endpoint: str
    operation: str
    input: Any = None
    timeouts_s: dict[str, float] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cancellation: str = "WAIT_COMPLETED"
    service: str = "Sample"
    # Whether the workflow waits for the signal `finish` after the operation.
    stays: bool = False


async def execute(call: Call) -> Any:
    """Calls an operation from within a workflow."""
    client = workflow.create_nexus_client(service=call.service, endpoint=call.endpoint)
    return await client.execute_operation(
        call.operation,
        call.input,
        headers=call.headers,
        cancellation_type=workflow.NexusOperationCancellationType[call.cancellation],
        **{f"{kind}_timeout": timedelta(seconds=seconds) for kind, seconds in call.timeouts_s.items()},
    )


@workflow.defn
class Caller:
    """Calls an operation, and ends with its result or its failure. The signal `cancel` cancels the operation."""

    def __init__(self) -> None:
        self.cancelling = False
        self.finished = False
        self.ended = ""

    @workflow.run
    async def run(self, call: Call) -> Any:
        operation = asyncio.create_task(execute(call))
        cancelling = asyncio.create_task(self.cancel_on_signal(operation))
        result, failure = None, None
        try:
            result = await operation
            self.ended = "completed"
        except NexusOperationError as error:
            failure = error
            self.ended = type(error.cause).__name__
        cancelling.cancel()
        await workflow.wait_condition(lambda: self.finished or not call.stays)
        if failure:
            raise failure
        return result

    async def cancel_on_signal(self, operation: asyncio.Task[Any]) -> None:
        await workflow.wait_condition(lambda: self.cancelling)
        operation.cancel()

    @workflow.signal
    def cancel(self) -> None:
        self.cancelling = True

    @workflow.signal
    def finish(self) -> None:
        self.finished = True

    @workflow.query
    def how(self) -> str:
        """How the operation ended; empty while it is pending."""
        return self.ended


@workflow.defn
class CallsAll:
    """Calls operations at the same time, and waits for all of them."""

    @workflow.run
    async def run(self, calls: list[Call]) -> list[Any]:
        return await asyncio.gather(*[execute(call) for call in calls])


CALLERS = [Caller, CallsAll]
BEHIND = [ContinuesAsNew, Echo, EndsLater, Fails, FailsAtFirst, Sleeper, Waiter]


@dataclass
class Nexus:
    """A caller and a handler, each in a namespace of its own, and an endpoint that leads from one to the other."""

    caller: Env
    handler: Env
    endpoint: Endpoint
    handlers: Handlers = field(default_factory=Handlers)

    @asynccontextmanager
    async def workers(self) -> AsyncIterator[None]:
        """Runs the worker of the caller and that of the handlers."""
        async with self.callers(), self.serving():
            yield

    @asynccontextmanager
    async def callers(self) -> AsyncIterator[Worker]:
        """Runs the worker of the caller."""
        async with self.caller.worker(*CALLERS) as worker:
            yield worker

    @asynccontextmanager
    async def serving(self, **options: Any) -> AsyncIterator[Worker]:
        """Runs the worker of the handlers."""
        async with self.handler.worker(*BEHIND, nexus_service_handlers=[self.handlers], **options) as worker:
            yield worker

    def call(self, operation: str, input: Any = None, **options: Any) -> Call:
        return Call(self.endpoint.spec.name, operation, input, **options)

    def flow(self, workflow: str, *args: Any, id: str = "", **options: Any) -> Flow:
        """A workflow behind an operation, by default with the id of the test."""
        return Flow(workflow, id or self.handler.id, list(args), **options)

    async def start(self, operation: str, input: Any = None, id: str = "", **options: Any) -> WorkflowHandle[Any, Any]:
        """Starts a workflow that calls an operation."""
        return await self.caller.start(Caller, self.call(operation, input, **options), id=id or self.caller.id)

    async def start_flow(self, workflow: str, *args: Any, **options: Any) -> WorkflowHandle[Any, Any]:
        """Starts a workflow that calls an operation behind which there is a workflow; returns when that has started."""
        handle = await self.start("flow", self.flow(workflow, *args), **options)
        await happened(handle, "NexusOperationStarted")
        return handle


async def create_endpoint(client: Client, name: str, namespace: str, queue: str) -> Endpoint:
    """Creates an endpoint that leads to a task queue."""
    target = EndpointTarget(worker=EndpointTarget.Worker(namespace=namespace, task_queue=queue))
    request = CreateNexusEndpointRequest(spec=EndpointSpec(name=name, target=target))
    return (await client.operator_service.create_nexus_endpoint(request)).endpoint


async def rename_endpoint(client: Client, endpoint: Endpoint, name: str) -> Endpoint:
    """Gives an endpoint another name."""
    request = UpdateNexusEndpointRequest(id=endpoint.id, version=endpoint.version, spec=endpoint.spec)
    request.spec.name = name
    return (await client.operator_service.update_nexus_endpoint(request)).endpoint


async def move_endpoint(client: Client, endpoint: Endpoint, queue: str) -> None:
    """Leads an endpoint to another task queue of the same namespace."""
    request = UpdateNexusEndpointRequest(id=endpoint.id, version=endpoint.version, spec=endpoint.spec)
    request.spec.target.worker.task_queue = queue
    await client.operator_service.update_nexus_endpoint(request)


async def delete_endpoint(client: Client, endpoint: Endpoint) -> None:
    """Deletes an endpoint that was not changed."""
    request = DeleteNexusEndpointRequest(id=endpoint.id, version=endpoint.version)
    await client.operator_service.delete_nexus_endpoint(request)


async def new_namespace(client: Client, name: str) -> None:
    """Registers a namespace, and waits until it can be used: Temporal's frontend reads the list of them from time to time."""
    request = RegisterNamespaceRequest(namespace=name)
    request.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(request)

    async def known() -> bool:
        await client.workflow_service.count_workflow_executions(CountWorkflowExecutionsRequest(namespace=name))
        return True

    await eventually(known, timeout=20)


# The namespace of the handlers, by the address of the server.
_namespaces: dict[str, str] = {}


async def prepare(caller: Env) -> Nexus:
    """The caller of a test, its handler in another namespace, and a new endpoint."""
    if caller.address not in _namespaces:
        namespace = f"handlers-{uuid.uuid4().hex[:12]}"
        await new_namespace(caller.client, namespace)
        _namespaces[caller.address] = namespace
    namespace = _namespaces[caller.address]
    client = await Client.connect(caller.address, namespace=namespace)
    handler = Env(caller.address, client, caller.name)
    name = "e-" + caller.id.replace("_", "-")
    endpoint = await create_endpoint(caller.client, name, namespace, handler.task_queue)
    return Nexus(caller, handler, endpoint)


async def happened(handle: WorkflowHandle[Any, Any], name: str, timeout: float = 10) -> Any:
    """Waits until an event is in the history, and returns it."""

    async def found() -> Any:
        return next((event for event in await events(handle) if event_name(event) == name), None)

    return await eventually(found, timeout)


async def operation_events(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """The events of the operations of a run, without their common prefix."""
    names = [event_name(event) for event in await events(handle)]
    return [name.removeprefix("NexusOperation") for name in names if name.startswith("NexusOperation")]


async def pending_operations(handle: WorkflowHandle[Any, Any]) -> Sequence[Any]:
    """The pending operations that the server describes."""
    return (await handle.describe()).raw_description.pending_nexus_operations
