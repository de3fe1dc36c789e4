"""Namespaces: separate worlds, custom search attributes, deletion; and workers that tell about themselves."""

from __future__ import annotations

import uuid
from datetime import timedelta

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    DeleteNamespaceRequest,
    ListSearchAttributesRequest,
    RemoveSearchAttributesRequest,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetWorkflowExecutionHistoryRequest,
    ListNamespacesRequest,
    ListWorkersRequest,
    PollWorkflowTaskQueueRequest,
    PollWorkflowTaskQueueResponse,
    RegisterNamespaceRequest,
    RespondWorkflowTaskCompletedRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode

from flows import Echo, Waiter
from helpers import Env, SegnoServer, eventually


async def register(client: Client, name: str, retention: timedelta = timedelta(days=1)) -> str:
    """Registers a namespace and returns its name."""
    period = Duration()
    period.FromTimedelta(retention)
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=period)
    )
    return name


async def in_namespace(env: Env, name: str) -> Env:
    """The same test, with the same ids and queues, in a new namespace."""
    await register(env.client, name)
    other = Env(env.address, await Client.connect(env.address, namespace=name), env.name)
    other.id, other.task_queue = env.id, env.task_queue
    return other


async def test_same_ids_and_queues(env: Env) -> None:
    """Two namespaces with the same workflow ids and task queue names do not meet."""
    one, two = await in_namespace(env, f"one-{env.id}"), await in_namespace(env, f"two-{env.id}")
    first, second = await one.start(Waiter), await two.start(Waiter)
    assert first.first_execution_run_id != second.first_execution_run_id
    async with one.worker(Waiter), two.worker(Waiter):
        await first.signal(Waiter.add, 1)
        await second.signal(Waiter.add, 2)
        await first.signal(Waiter.finish)
        await second.signal(Waiter.finish)
        assert await first.result() == [1]
        assert await second.result() == [2]
    # Terminating one leaves the other alone.
    third, fourth = await one.start(Waiter), await two.start(Waiter)
    await third.terminate()
    assert (await fourth.describe()).status == WorkflowExecutionStatus.RUNNING
    with pytest.raises(RPCError) as refused:
        await two.handle(run_id=third.first_execution_run_id).describe()
    assert refused.value.status == RPCStatusCode.NOT_FOUND


async def test_foreign_tokens(env: Env) -> None:
    """Task and page tokens of one namespace are refused in another."""
    one, two = await in_namespace(env, f"one-{env.id}"), await in_namespace(env, f"two-{env.id}")
    async with env.raw() as stub:
        for world in (one, two):
            request = env.raw_start_request()
            request.namespace = world.client.namespace
            await stub.StartWorkflowExecution(request)
        task = await one_task(stub, env, one.client.namespace)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.RespondWorkflowTaskCompleted(
                RespondWorkflowTaskCompletedRequest(namespace=two.client.namespace, task_token=task.task_token)
            )
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == "Operation requested with a token from a different namespace."
        page = GetWorkflowExecutionHistoryRequest(namespace=one.client.namespace, maximum_page_size=1)
        page.execution.workflow_id = env.id
        page.next_page_token = (await stub.GetWorkflowExecutionHistory(page)).next_page_token
        page.namespace = two.client.namespace
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetWorkflowExecutionHistory(page)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        # In its own namespace the token is good.
        await stub.RespondWorkflowTaskCompleted(
            RespondWorkflowTaskCompletedRequest(namespace=one.client.namespace, task_token=task.task_token)
        )


async def one_task(stub: WorkflowServiceStub, env: Env, namespace: str) -> PollWorkflowTaskQueueResponse:
    """A workflow task of a namespace."""
    queue = TaskQueue(name=env.task_queue)
    return await stub.PollWorkflowTaskQueue(
        PollWorkflowTaskQueueRequest(namespace=namespace, task_queue=queue, identity="raw"), timeout=20
    )


async def test_list_in_pages(env: Env) -> None:
    """Pages of namespaces: each once, in the order in which they were registered."""
    names = [await register(env.client, f"{number}-{env.id}") for number in (3, 1, 2)]
    found, token = [], b""
    while True:
        page = await env.client.workflow_service.list_namespaces(
            ListNamespacesRequest(page_size=2, next_page_token=token)
        )
        assert len(page.namespaces) <= 2
        found += [namespace.namespace_info.name for namespace in page.namespaces]
        token = page.next_page_token
        if not token:
            break
    assert [name for name in found if name in names] == names
    assert found.count("default") == 1
    with pytest.raises(RPCError) as refused:
        await env.client.workflow_service.list_namespaces(ListNamespacesRequest(next_page_token=b"no token"))
    assert refused.value.status == RPCStatusCode.INVALID_ARGUMENT


async def test_search_attributes_at_once(env: Env) -> None:
    """A custom attribute can be set as soon as the call that added it returned, and not after its removal."""
    world = await in_namespace(env, f"ns-{env.id}")
    name = world.client.namespace
    operator = world.client.operator_service
    color = SearchAttributeKey.for_keyword("Color")
    red = TypedSearchAttributes([SearchAttributePair(color, "red")])
    with pytest.raises(RPCError):
        await world.start(Echo, 1, search_attributes=red)
    await operator.add_search_attributes(
        AddSearchAttributesRequest(
            namespace=name,
            search_attributes={"Color": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD},
        )
    )
    handle = await world.start(Echo, 1, search_attributes=red)
    assert (await handle.describe()).typed_search_attributes[color] == "red"
    # There is no limit on their number.
    many = {f"Number{n}": IndexedValueType.INDEXED_VALUE_TYPE_INT for n in range(50)}
    await operator.add_search_attributes(AddSearchAttributesRequest(namespace=name, search_attributes=many))
    listed = await operator.list_search_attributes(ListSearchAttributesRequest(namespace=name))
    assert set(listed.custom_attributes) == {"Color", *many}
    await operator.remove_search_attributes(RemoveSearchAttributesRequest(namespace=name, search_attributes=["Color"]))
    with pytest.raises(RPCError):
        await world.start(Echo, 1, id=f"other-{env.id}", search_attributes=red)
    assert (await env.client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace="default")
    )).custom_attributes.get("Number1") is None


async def test_delete(env: Env) -> None:
    """A deleted namespace sends its worker away, frees its name at once and is gone soon."""
    world = await in_namespace(env, f"ns-{env.id}")
    name = world.client.namespace
    service = world.client.workflow_service
    ident = (await service.describe_namespace(DescribeNamespaceRequest(namespace=name))).namespace_info.id
    for number in range(20):
        await world.start(Waiter, id=f"{env.id}-{number}")
    deleted = await env.client.operator_service.delete_namespace(DeleteNamespaceRequest(namespace=name))
    assert deleted.deleted_namespace == f"{name}-deleted-{ident[:5]}"
    with pytest.raises(RPCError) as refused:
        await world.handle(f"{env.id}-1").describe()
    assert refused.value.status == RPCStatusCode.NOT_FOUND
    await register(env.client, name)
    handle = await world.start(Echo, "again", id=f"{env.id}-1")
    async with world.worker(Echo):
        assert await handle.result() == "again"

    async def gone() -> bool:
        try:
            await service.describe_namespace(DescribeNamespaceRequest(id=ident))
            return False
        except RPCError as error:
            return error.status == RPCStatusCode.NOT_FOUND

    await eventually(gone)
    assert (await handle.describe()).status == WorkflowExecutionStatus.COMPLETED


async def test_delete_survives_a_kill(durable_server: SegnoServer) -> None:
    """The server is killed right after a deletion began: it goes on when the server is back."""
    durable_server.start()
    client = await Client.connect(durable_server.address)
    name = await register(client, f"ns-{uuid.uuid4().hex}")
    ident = (await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))).namespace_info.id
    inside = await Client.connect(durable_server.address, namespace=name)
    for number in range(200):
        await inside.start_workflow(Waiter.run, id=f"w{number}", task_queue="q")
    await client.operator_service.delete_namespace(DeleteNamespaceRequest(namespace=name))
    durable_server.kill()
    durable_server.start()
    client = await Client.connect(durable_server.address)
    with pytest.raises(RPCError) as refused:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=name))
    assert refused.value.status == RPCStatusCode.NOT_FOUND

    async def gone() -> bool:
        every = ListNamespacesRequest(page_size=1000)
        every.namespace_filter.include_deleted = True
        page = await client.workflow_service.list_namespaces(every)
        return all(namespace.namespace_info.id != ident for namespace in page.namespaces)

    await eventually(gone, 30)


async def test_workers_are_listed(env: Env) -> None:
    """A worker of the SDK is listed as running until it leaves."""
    world = await in_namespace(env, f"ns-{env.id}")
    # Once a minute would be too seldom for a test.
    runtime = Runtime(telemetry=TelemetryConfig(), worker_heartbeat_interval=timedelta(seconds=1))
    world.client = await Client.connect(env.address, namespace=world.client.namespace, runtime=runtime)

    async def count() -> int:
        request = ListWorkersRequest(namespace=world.client.namespace)
        request.query = f"TaskQueue = '{env.task_queue}' AND Status = 'Running'"
        listed = await world.client.workflow_service.list_workers(request)
        assert all(worker.task_queue == env.task_queue for worker in listed.workers)
        return len(listed.workers)

    async def none() -> bool:
        return await count() == 0

    async with world.worker(Echo):
        assert await world.execute(Echo, 1) == 1
        assert await eventually(count) == 1
    await eventually(none)
