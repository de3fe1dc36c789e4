"""Nexus for people: the commands about endpoints, and the pages."""

from __future__ import annotations

import asyncio
import urllib.parse
import urllib.request

from helpers import NAMESPACE, SegnoServer
from nexus import Nexus, happened, pending_operations, prepare
from test_cli import USAGE, Cli
from test_durable_restart import connect

ENDPOINT = ("nexus", "endpoint")


def page(server: SegnoServer, path: str, form: dict[str, str] | None = None) -> str:
    """Reads a page, or sends a form to it."""
    url = f"http://127.0.0.1:{server.http_port}/ui/{NAMESPACE}/{path}"
    data = urllib.parse.urlencode(form).encode() if form else None
    headers = {"Origin": f"http://127.0.0.1:{server.http_port}"} if form else {}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as response:
        return response.read().decode()


async def test_commands_about_endpoints(durable_server: SegnoServer):
    durable_server.start()
    cli = Cli(durable_server.address)
    create = [*ENDPOINT, "create", "--name"]
    to_queue = ["--target-namespace", NAMESPACE, "--target-task-queue", "handlers"]
    created = await cli.json(*create, "payments", *to_queue, "--description", "of finance")
    assert created["spec"]["target"]["worker"] == {"namespace": NAMESPACE, "taskQueue": "handlers"}
    assert created["urlPrefix"] == f"/nexus/endpoints/{created['id']}/services"
    assert "Endpoint with name payments already registered" in await cli.fails(1, *create, "payments", *to_queue)
    change = ["--new-name", "billing", "--target-task-queue", "others"]
    changed = await cli.json(*ENDPOINT, "update", "--name", "payments", *change)
    assert (changed["id"], changed["version"]) == (created["id"], "2")
    # What no flag names stays as it was.
    assert changed["spec"]["target"]["worker"] == {"namespace": NAMESPACE, "taskQueue": "others"}
    assert changed["spec"]["description"] == created["spec"]["description"]
    assert await cli.json(*ENDPOINT, "get", "--name", "billing") == changed
    assert await cli.json(*ENDPOINT, "list") == [changed]
    assert "there is no endpoint payments" in await cli.fails(1, *ENDPOINT, "get", "--name", "payments")
    refused = await cli.fails(USAGE, *create, "outside", "--target-url", "https://pay.example.com")
    assert "no pattern allows pay.example.com" in refused
    deleted = await cli.json(*ENDPOINT, "delete", "--name", "billing", "--yes")
    assert deleted == {"name": "billing", "action": "deleted"}
    assert await cli.json(*ENDPOINT, "list") == []


async def test_pages_of_endpoints(durable_server: SegnoServer):
    durable_server.start()
    form = {"do": "create", "name": "payments", "namespace": NAMESPACE, "queue": "handlers"}
    await asyncio.to_thread(page, durable_server, "endpoints", form)
    [created] = await Cli(durable_server.address).json(*ENDPOINT, "list")
    text = await asyncio.to_thread(page, durable_server, "endpoints")
    assert "payments" in text and "handlers" in text and created["id"] in text
    form = {"do": "delete", "name": "payments", "id": created["id"], "version": "1"}
    await asyncio.to_thread(page, durable_server, "endpoints", form)
    assert await Cli(durable_server.address).json(*ENDPOINT, "list") == []


async def shown(server: SegnoServer, nexus: Nexus) -> str:
    return await asyncio.to_thread(page, server, f"workflows/{nexus.caller.id}")


async def test_pages_of_operations(durable_server: SegnoServer):
    """The page of a workflow has its pending operations, and that of a queue the workers of handlers."""
    durable_server.start()
    nexus: Nexus = await prepare(await connect(durable_server, "page"))
    async with nexus.callers():
        handle = await nexus.start("flow", nexus.flow("Waiter"))
        await happened(handle, "NexusOperationScheduled")
        waiting = await shown(durable_server, nexus)
        assert "Pending operations (1)" in waiting and "Sample.flow" in waiting
        why = await Cli(durable_server.address).text("workflow", "why", "--workflow-id", nexus.caller.id)
        for name in (nexus.endpoint.spec.name, nexus.handler.task_queue, nexus.handler.client.namespace):
            assert name in why, why
        async with nexus.serving():
            await happened(handle, "NexusOperationStarted")
            [operation] = await pending_operations(handle)
            started = await shown(durable_server, nexus)
            assert "Pending operations (1)" in started and "Started" in started
            assert operation.operation_token
            await nexus.handler.handle().signal("finish")
            await handle.result()
    assert "Pending operations" not in await shown(durable_server, nexus)
