"""`segno server start-dev` with the command line of Temporal's: what SDKs start for local tests."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, AsyncIterator

import pytest
from temporalio import workflow
from temporalio.api.workflowservice.v1 import request_response_pb2 as service_requests
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from flows import Echo
from helpers import answers, free_port, segno_binary

QUEUE = "start-dev"


@pytest.fixture(autouse=True)
def binary() -> None:
    if not segno_binary().exists():
        pytest.skip("needs the binary: set SEGNO_BIN")


@asynccontextmanager
async def local(**options: Any) -> AsyncIterator[WorkflowEnvironment]:
    """The SDK's local test environment, with Segno as its server."""
    env = await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(segno_binary()), **options
    )
    async with env:
        yield env


def worker(client: Client, *workflows: type) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=workflows,
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


class Process:
    """One `segno server start-dev` of a test's own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = folder / f"start-dev-{self.port}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(segno_binary()), "server", "start-dev", "--port", str(self.port), *words],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_until_ready(self, limit: float = 5.0) -> Process:
        deadline = time.monotonic() + limit
        while not answers(self.address):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"not ready in {limit} s: {self.log.read_text()}"
            time.sleep(0.02)
        return self

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=20)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()


async def test_the_sdk_starts_it() -> None:
    async with local() as env:
        async with worker(env.client, Echo):
            result = await env.client.execute_workflow(Echo.run, "hi", id="w", task_queue=QUEUE)
    assert result == "hi"


async def test_the_sdk_starts_it_with_everything(tmp_path: Path) -> None:
    async with local(
        ip="127.0.0.1",
        port=free_port(),
        ui=True,
        dev_server_database_filename=str(tmp_path / "data.db"),
        dev_server_log_format="json",
        dev_server_log_level="error",
        dev_server_extra_args=[
            *["--dynamic-config-value", "system.forceSearchAttributesCacheRefreshOnRead=true"],
            *["--dynamic-config-value", 'system.refreshNexusEndpointsMinWait="0s"'],
            *["--http-port", str(free_port()), "--sqlite-pragma", "journal_mode=wal"],
        ],
    ) as env:
        await env.client.start_workflow("Nobody", id="w", task_queue=QUEUE)
    assert (tmp_path / "data.db" / "segno.db").is_file()


async def test_namespaces_and_search_attributes_are_created() -> None:
    color = SearchAttributeKey.for_keyword("Color")
    async with local(
        namespace="orders",
        search_attributes=[color],
        dev_server_extra_args=["--namespace", "invoices", "--search-attribute", "Amount=Double"],
    ) as env:
        for namespace in ("orders", "invoices", "default"):
            address = env.client.service_client.config.target_host
            client = await Client.connect(address, namespace=namespace)
            await client.start_workflow(
                "Nobody",
                id="w",
                task_queue=QUEUE,
                search_attributes=TypedSearchAttributes([SearchAttributePair(color, "blue")]),
            )
            described = await client.get_workflow_handle("w").describe()
            assert described.typed_search_attributes[color] == "blue"


async def test_batches_are_carried_out_where_something_was_created() -> None:
    """What is created at the start comes through a door of its own, which is closed before the first batch begins."""
    async with local(search_attributes=[SearchAttributeKey.for_keyword("Color")]) as env:
        handle = await env.client.start_workflow("Nobody", id="w", task_queue=QUEUE)
        request = service_requests.StartBatchOperationRequest(
            namespace="default", job_id="job", visibility_query="WorkflowId = 'w'", reason="over"
        )
        request.termination_operation.SetInParent()
        await env.client.workflow_service.start_batch_operation(request)
        with pytest.raises(WorkflowFailureError):
            await asyncio.wait_for(handle.result(), timeout=10)


@workflow.defn
class Suggested:
    """Gathers events until it is told to continue as new; returns how many there were."""

    @workflow.run
    async def run(self) -> int:
        while not workflow.info().is_continue_as_new_suggested():
            await asyncio.sleep(0.001)
            assert workflow.info().get_current_history_length() < 200, "never suggested"
        return workflow.info().get_current_history_length()


async def test_when_continuing_as_new_is_suggested_can_be_set() -> None:
    setting = "limit.historyCount.suggestContinueAsNew=50"
    async with local(dev_server_extra_args=["--dynamic-config-value", setting]) as env:
        async with worker(env.client, Suggested):
            events = await env.client.execute_workflow(Suggested.run, id="w", task_queue=QUEUE)
    assert 50 <= events < 60
    setting = "limit.historySize.suggestContinueAsNew=3000"
    async with local(dev_server_extra_args=["--dynamic-config-value", setting]) as env:
        async with worker(env.client, Suggested):
            events = await env.client.execute_workflow(Suggested.run, id="w", task_queue=QUEUE)
    assert 10 < events < 100


def set_to(*settings: str) -> list[str]:
    """The flags that set dynamic config values."""
    return [word for setting in settings for word in ("--dynamic-config-value", setting)]


async def test_the_largest_payload_can_be_set() -> None:
    settings = set_to("limit.blobSize.error=1000", "limit.blobSize.warn=300")
    async with local(dev_server_extra_args=settings) as env:
        service = env.client.workflow_service
        described = await service.describe_namespace(service_requests.DescribeNamespaceRequest(namespace="default"))
        assert described.namespace_info.limits.blob_size_limit_error == 1000
        with pytest.raises(RPCError, match="Blob data size exceeds limit"):
            await env.client.start_workflow("Nobody", "x" * 1000, id="w", task_queue=QUEUE)
        handle = await env.client.start_workflow("Nobody", "x" * 900, id="w", task_queue=QUEUE)
        with pytest.raises(RPCError, match="Blob data size exceeds limit"):
            await handle.signal("s", "x" * 1000)
        # A failure that is larger is kept in short; so much of it is decided by the other setting.
        poll = service_requests.PollWorkflowTaskQueueRequest(namespace="default", task_queue={"name": QUEUE})
        task = await service.poll_workflow_task_queue(poll)
        failure = {"message": "m" * 1000, "application_failure_info": {"type": "T"}}
        answer = service_requests.RespondWorkflowTaskFailedRequest(task_token=task.task_token, failure=failure)
        await service.respond_workflow_task_failed(answer)
        events = [event async for event in handle.fetch_history_events()]
        failed = [event for event in events if event.HasField("workflow_task_failed_event_attributes")]
        kept = failed[0].workflow_task_failed_event_attributes.failure
        assert kept.message == "Failure exceeds size limit."
        assert 200 < len(kept.cause.message) < 300


async def test_worker_deployments_can_be_switched_off() -> None:
    async with local(dev_server_extra_args=set_to("system.enableDeploymentVersions=false")) as env:
        service = env.client.workflow_service
        version = {"deployment_name": "d", "build_id": "b"}
        # A worker of a version polls and gets nothing.
        poll = service_requests.PollWorkflowTaskQueueRequest(
            namespace="default",
            task_queue={"name": QUEUE},
            deployment_options={**version, "worker_versioning_mode": "WORKER_VERSIONING_MODE_VERSIONED"},
        )
        await env.client.start_workflow("Nobody", id="w", task_queue=QUEUE)
        task = await service.poll_workflow_task_queue(poll, timeout=timedelta(seconds=3))
        assert not task.task_token
        # A worker without one gets the task.
        async with worker(env.client, Echo):
            assert await env.client.execute_workflow(Echo.run, "hello", id="echo", task_queue=QUEUE) == "hello"
        describe = service_requests.DescribeWorkerDeploymentRequest(namespace="default", deployment_name="d")
        with pytest.raises(RPCError, match="Worker Deployment Versions are disabled on this namespace."):
            await service.describe_worker_deployment(describe)
        # What is left of earlier days can be deleted.
        delete = service_requests.DeleteWorkerDeploymentRequest(namespace="default", deployment_name="d")
        await service.delete_worker_deployment(delete)


@pytest.mark.parametrize("end", ["true", "false"])
async def test_whether_polls_end_on_shutdown_can_be_set(end: str) -> None:
    setting = f"frontend.enableCancelWorkerPollsOnShutdown={end}"
    async with local(dev_server_extra_args=set_to(setting)) as env:
        service = env.client.workflow_service
        described = await service.describe_namespace(service_requests.DescribeNamespaceRequest(namespace="default"))
        assert described.namespace_info.capabilities.worker_poll_complete_on_shutdown == (end == "true")
        who = {"namespace": "default", "identity": "worker", "worker_instance_key": "key"}
        queue = {"name": QUEUE}
        poll = service_requests.PollWorkflowTaskQueueRequest(task_queue=queue, **who)
        waiting = asyncio.create_task(service.poll_workflow_task_queue(poll, timeout=timedelta(seconds=30)))
        describe = service_requests.DescribeTaskQueueRequest(
            namespace="default", task_queue=queue, task_queue_type=1
        )
        while not (await service.describe_task_queue(describe)).pollers:
            await asyncio.sleep(0.02)
        await service.shutdown_worker(service_requests.ShutdownWorkerRequest(task_queue=QUEUE, **who))
        listed = [poller.identity for poller in (await service.describe_task_queue(describe)).pollers]
        if end == "true":
            assert not (await waiting).task_token
            assert listed == []
        else:
            assert listed == ["worker"]
            await env.client.start_workflow("Nobody", id="w", task_queue=QUEUE)
            assert (await waiting).task_token, "the poll goes on"


async def test_data_is_kept_only_with_a_file_name(tmp_path: Path) -> None:
    for words, kept in ((["--db-filename", str(tmp_path / "kept")], True), ([], False)):
        with Process(tmp_path, *words) as server:
            client = await Client.connect(server.wait_until_ready().address)
            await client.start_workflow("Nobody", id="w", task_queue=QUEUE)
            assert server.end() == 0, server.log.read_text()
        with Process(tmp_path, *words) as server:
            client = await Client.connect(server.wait_until_ready().address)
            found = True
            try:
                await client.get_workflow_handle("w").describe()
            except Exception as error:
                assert "workflow not found" in str(error)
                found = False
            assert found is kept


async def test_what_is_there_already_is_left_as_it_is(tmp_path: Path) -> None:
    words = ["--db-filename", str(tmp_path / "data"), "--namespace", "orders", "--search-attribute"]
    for attribute in ("Color=Keyword", "Color=Keyword"):
        with Process(tmp_path, *words, attribute) as server:
            server.wait_until_ready()
            assert server.end() == 0, server.log.read_text()
    with Process(tmp_path, *words, "Color=Int") as server:
        assert server.process.wait(timeout=10) == 1
        text = server.log.read_text()
    assert 'the search attribute "Color" could not be added to the namespace "default": ' in text


async def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "temporal.db"
    file.write_bytes(b"somebody else's")
    with Process(tmp_path, "--db-filename", str(file)) as server:
        assert server.process.wait(timeout=10) == 64
        text = server.log.read_text()
    assert "temporal.db" in text and "not Segno's" in text and "directory" in text
    assert file.read_bytes() == b"somebody else's"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_when_told(tmp_path: Path, how: signal.Signals) -> None:
    with Process(tmp_path, "--headless") as server:
        client = await Client.connect(server.wait_until_ready().address)
        async with worker(client, Echo):
            # A worker that never reached its server fails by itself; this one did.
            await client.execute_workflow(Echo.run, "x", id="before-the-end", task_queue=QUEUE)
            began = time.monotonic()
            assert server.end(how) == 0, server.log.read_text()
            assert time.monotonic() - began < 8


async def test_what_has_no_meaning_is_named_once(tmp_path: Path) -> None:
    with Process(
        tmp_path,
        *["--dynamic-config-value", "a.b=1", "--dynamic-config-value", "c.d=true"],
        *["--ui-ip", "127.0.0.1", "--sqlite-pragma", "x=y", "--log-format", "json"],
    ) as server:
        server.wait_until_ready()
        assert server.end() == 0
        lines = server.log.read_text().splitlines()
    messages = [json.loads(line)["message"] for line in lines]
    assert any(message.startswith("Segno is ready.") for message in messages)
    assert [message for message in messages if not message.startswith("Segno is ready.")] == [
        "dynamic config keys without a meaning here: a.b, c.d",
        "flags without a meaning here: --ui-ip, --sqlite-pragma",
    ]


async def test_never_means_never(tmp_path: Path) -> None:
    with Process(tmp_path, "--log-level", "never", "--dynamic-config-value", "a.b=1") as server:
        server.wait_until_ready()
        assert server.end() == 0
        assert len(server.log.read_text().splitlines()) == 1


async def test_wrong_values_are_refused(tmp_path: Path) -> None:
    for words, wrong in (
        (["--search-attribute", "A=Kewyord"], "Kewyord"),
        (["--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=many"], "whole number"),
        (["--dynamic-config-value", "nonsense"], "KEY=VALUE"),
    ):
        with Process(tmp_path, *words) as server:
            assert server.process.wait(timeout=10) == 2
            assert wrong in server.log.read_text()


async def test_namespaces_announce_what_is_built_and_their_search_attributes(tmp_path: Path) -> None:
    words = ["--namespace", "orders", "--search-attribute", "Color=Keyword", "--search-attribute", "Amount=Double"]
    with Process(tmp_path, *words, "--headless") as process:
        process.wait_until_ready()
        client = await Client.connect(process.address)
        for namespace in ("default", "orders"):
            request = service_requests.DescribeNamespaceRequest(namespace=namespace)
            described = await client.workflow_service.describe_namespace(request)
            aliases = dict(described.config.custom_search_attribute_aliases)
            assert {name: field.rstrip("0123456789") for field, name in aliases.items()} == {
                "Color": "Keyword",
                "Amount": "Double",
            }, aliases
            announced = {field.name for field, _ in described.namespace_info.capabilities.ListFields()}
            # What Temporal's own dev server announces.
            assert announced >= {
                "eager_workflow_start",
                "sync_update",
                "async_update",
                "worker_heartbeats",
                "reported_problems_search_attribute",
                "standalone_activities",
                "poller_autoscaling",
                "standalone_activity_start_delay",
                "standalone_activity_batch_operations",
                "standalone_activity_operator_commands",
            }
            # A description may be sent back.
            update = service_requests.UpdateNamespaceRequest(namespace=namespace, config=described.config)
            await client.workflow_service.update_namespace(update)
            update.config.custom_search_attribute_aliases["Keyword09"] = "Other"
            with pytest.raises(RPCError, match="aliases"):
                await client.workflow_service.update_namespace(update)
