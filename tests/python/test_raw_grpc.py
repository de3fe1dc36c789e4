"""The transport: health, compression, server and namespace information, metadata."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from temporalio.api.enums.v1 import HistoryEventFilterType, NamespaceState
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetClusterInfoRequest,
    GetSystemInfoRequest,
    GetWorkflowExecutionHistoryRequest,
    ListNamespacesRequest,
    PollActivityTaskQueueRequest,
    PollWorkflowTaskQueueRequest,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.client import Client, GrpcCompression
from temporalio.service import RPCError, RPCStatusCode

from flows import CallActivity, Echo, echo
from helpers import NAMESPACE, Env, raises


async def test_health(env: Env):
    assert await env.client.service_client.check_health()


async def test_health_of_an_unknown_service(env: Env):
    error = await raises(RPCError, env.client.service_client.check_health(service="no.such.Service"))
    assert error.status == RPCStatusCode.NOT_FOUND


async def test_system_info(env: Env):
    info = await env.client.workflow_service.get_system_info(GetSystemInfoRequest())
    assert info.server_version
    capabilities = info.capabilities
    assert capabilities.signal_and_query_header
    assert capabilities.internal_error_differentiation
    assert capabilities.activity_failure_include_heartbeat
    assert capabilities.encoded_failure_attributes
    assert capabilities.upsert_memo
    assert capabilities.eager_workflow_start
    assert capabilities.sdk_metadata
    assert capabilities.nexus


async def test_cluster_info(env: Env):
    info = await env.client.workflow_service.get_cluster_info(GetClusterInfoRequest())
    assert info.cluster_id
    assert info.server_version


async def test_describe_namespace(env: Env):
    response = await env.client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=NAMESPACE)
    )
    assert response.namespace_info.name == NAMESPACE
    assert response.namespace_info.state == NamespaceState.NAMESPACE_STATE_REGISTERED
    assert response.namespace_info.id
    assert response.namespace_info.limits.blob_size_limit_error == 2 * 1024 * 1024
    by_id = await env.client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(id=response.namespace_info.id)
    )
    assert by_id.namespace_info.name == NAMESPACE


async def test_list_namespaces(env: Env):
    response = await env.client.workflow_service.list_namespaces(ListNamespacesRequest())
    assert NAMESPACE in [n.namespace_info.name for n in response.namespaces]


@pytest.mark.parametrize(
    "compression", [GrpcCompression.NONE, GrpcCompression.GZIP], ids=["plain", "gzip"]
)
async def test_sdk_with_and_without_compression(env: Env, compression: GrpcCompression):
    text = "squeeze me " * 20_000
    client = await Client.connect(
        env.address, namespace=NAMESPACE, grpc_compression=compression
    )
    async with env.worker(CallActivity, echo, client=client):
        result = await client.execute_workflow(
            CallActivity.run,
            args=["echo", [text], {}],
            id=env.id,
            task_queue=env.task_queue,
        )
    assert result == text


async def test_raw_gzip_request(env: Env):
    request = env.raw_start_request("Echo")
    payload = request.input.payloads.add()
    payload.metadata["encoding"] = b"json/plain"
    payload.data = b'"' + b"a" * 500_000 + b'"'
    async with env.raw(compression=grpc.Compression.Gzip) as stub:
        await stub.StartWorkflowExecution(request, compression=grpc.Compression.Gzip)
    async with env.worker(Echo):
        assert await env.handle().result() == "a" * 500_000


async def test_unknown_method(env: Env):
    async with grpc.aio.insecure_channel(env.address) as channel:
        call = channel.unary_unary("/temporal.api.workflowservice.v1.WorkflowService/NoSuchMethod")
        error = await raises(grpc.aio.AioRpcError, call(b""))
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_100_calls_on_one_connection(env: Env):
    async with env.raw() as stub:
        responses = await asyncio.gather(
            *(stub.GetSystemInfo(GetSystemInfoRequest()) for _ in range(100))
        )
    assert len({response.server_version for response in responses}) == 1


@pytest.mark.parametrize("kind", ["Workflow", "Activity"])
async def test_poll_ends_with_its_deadline(env: Env, kind: str):
    """A long poll answers empty, or runs into the caller's deadline, when there is no task."""
    request_type = {
        "Workflow": PollWorkflowTaskQueueRequest,
        "Activity": PollActivityTaskQueueRequest,
    }[kind]
    async with env.raw() as stub:
        call = getattr(stub, f"Poll{kind}TaskQueue")
        try:
            response = await call(
                request_type(
                    namespace=NAMESPACE,
                    task_queue=TaskQueue(name=env.task_queue),
                    identity="raw-test",
                ),
                timeout=4,
            )
            assert not response.task_token
        except grpc.aio.AioRpcError as err:
            assert err.code() == grpc.StatusCode.DEADLINE_EXCEEDED


async def test_cancelled_poll_takes_no_task(env: Env):
    """A poll whose caller has gone must not swallow the next task."""
    async with env.raw() as stub:
        poll = asyncio.create_task(env.raw_poll_workflow_task(stub))
        await asyncio.sleep(0.3)
        poll.cancel()
        await asyncio.sleep(0.3)
        await stub.StartWorkflowExecution(env.raw_start_request())
        task = await asyncio.wait_for(env.raw_poll_workflow_task(stub), 5)
    assert task.workflow_execution.workflow_id == env.id
    assert task.attempt == 1
    await env.handle().terminate()


async def test_waiting_for_a_result_ends_with_its_deadline(env: Env):
    """The server answers without events, but with a token to go on, or the deadline passes."""
    handle = await env.start(Echo, "x")
    async with env.raw() as stub:
        try:
            response = await stub.GetWorkflowExecutionHistory(
                GetWorkflowExecutionHistoryRequest(
                    namespace=NAMESPACE,
                    execution=env.execution(),
                    wait_new_event=True,
                    history_event_filter_type=(
                        HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT
                    ),
                ),
                timeout=3,
            )
            assert not response.history.events
            assert response.next_page_token
        except grpc.aio.AioRpcError as err:
            assert err.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    await handle.terminate()
