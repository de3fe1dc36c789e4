"""Settings of a namespace: entries of its data whose names begin with `segno.`."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import UpdateNamespaceInfo
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from helpers import SegnoServer, raises
from updating import ADMITTED, Basket, update_request

IN_FLIGHT = "segno.update.in-flight-max"
TOTAL = "segno.update.total-max"


async def namespace_with(client: Client, name: str, settings: dict[str, str]) -> None:
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(
            namespace=name,
            workflow_execution_retention_period=Duration(seconds=86400),
            data=settings,
        )
    )


async def set_in(client: Client, name: str, settings: dict[str, str]) -> None:
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=name, update_info=UpdateNamespaceInfo(data=settings))
    )


@pytest.fixture
def own(durable_server: SegnoServer) -> SegnoServer:
    """Settings mean nothing to another server, so each test starts Segno itself."""
    durable_server.start()
    return durable_server


async def admitted(client: Client, namespace: str, workflow_id: str, id: str) -> None:
    request = update_request(workflow_id, "add", 1, id=id, stage=ADMITTED)
    request.namespace = namespace
    await client.workflow_service.update_workflow_execution(request, retry=False)


async def start(client: Client, namespace: str, workflow_id: str) -> None:
    there = await Client.connect(client.service_client.config.target_host, namespace=namespace)
    await there.start_workflow(
        Basket.run, id=workflow_id, task_queue="settings", run_timeout=timedelta(minutes=1)
    )


async def test_limits_of_updates_are_set_per_namespace(own: SegnoServer) -> None:
    client = await Client.connect(own.address)
    await namespace_with(client, "small", {IN_FLIGHT: "2", "team": "blue"})
    for namespace in ("small", "default"):
        await start(client, namespace, "w")
        for id in ("u1", "u2"):
            await admitted(client, namespace, "w", id)
    await admitted(client, "default", "w", "u3")
    refused = await raises(RPCError, admitted(client, "small", "w", "u3"))
    assert refused.status == RPCStatusCode.RESOURCE_EXHAUSTED
    assert refused.message.endswith("has been reached (2)")

    # In effect at once, also for runs that are there; kept over a restart.
    await set_in(client, "small", {IN_FLIGHT: "3"})
    await admitted(client, "small", "w", "u3")
    own.kill()
    own.start()
    client = await Client.connect(own.address)
    refused = await raises(RPCError, admitted(client, "small", "w", "u4"))
    assert refused.message.endswith("has been reached (3)")
    await set_in(client, "small", {IN_FLIGHT: ""})
    await admitted(client, "small", "w", "u4")
    await set_in(client, "small", {TOTAL: "4"})
    refused = await raises(RPCError, admitted(client, "small", "w", "u5"))
    assert refused.status == RPCStatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("segno.update.in-flight", "1", "is not a setting. Settings are segno.update."),
        (IN_FLIGHT, "many", "must be a whole number"),
        (TOTAL, "-1", "must be a whole number"),
    ],
)
async def test_mistakes_are_refused(own: SegnoServer, name: str, value: str, says: str) -> None:
    client = await Client.connect(own.address)
    for call in (
        namespace_with(client, "wrong", {name: value}),
        set_in(client, "default", {name: value}),
    ):
        refused = await raises(RPCError, call)
        assert refused.status == RPCStatusCode.INVALID_ARGUMENT
        assert refused.message.startswith(name) and says in refused.message
