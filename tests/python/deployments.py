"""Calls about worker deployments, and polls of workers that belong to a version, over raw gRPC."""

from __future__ import annotations

import urllib.request
import uuid
from contextlib import contextmanager
from typing import Any, Iterator

import grpc
from temporalio.api.enums.v1 import WorkerVersioningMode
from temporalio.api.workflowservice.v1 import request_response_pb2 as requests
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

from helpers import NAMESPACE, SegnoServer

CHANNELS: dict[str, grpc.Channel] = {}


@contextmanager
def one_channel(server: SegnoServer) -> Iterator[None]:
    """Calls to a server share a connection meanwhile."""
    with grpc.insecure_channel(server.address) as channel:
        CHANNELS[server.address] = channel
        try:
            yield
        finally:
            del CHANNELS[server.address]


def call(server: SegnoServer, rpc: str, timeout: float = 10, **fields: Any) -> Any:
    """Makes a call, on a connection of its own unless one is shared."""
    request = getattr(requests, f"{rpc}Request")(namespace=NAMESPACE, **fields)
    if shared := CHANNELS.get(server.address):
        return getattr(WorkflowServiceStub(shared), rpc)(request, timeout=timeout)
    with grpc.insecure_channel(server.address) as channel:
        return getattr(WorkflowServiceStub(channel), rpc)(request, timeout=timeout)


def options(build: str) -> dict[str, Any]:
    """How a worker says to which version it belongs."""
    return {
        "deployment_name": "d",
        "build_id": build,
        "worker_versioning_mode": WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED,
    }


def poll(server: SegnoServer, build: str, queue: str = "q", wait: float = 3.0, **more: Any) -> Any:
    """A worker of a version polls once for a workflow task."""
    fields = {"task_queue": {"name": queue}, "identity": build, "deployment_options": options(build), **more}
    try:
        return call(server, "PollWorkflowTaskQueue", wait, **fields)
    except grpc.RpcError as error:
        # A busy machine is late with an empty response.
        if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
        return requests.PollWorkflowTaskQueueResponse()


def poll_on(channel: grpc.Channel, build: str) -> Any:
    """A worker with a key of its own polls on its connection, for a minute."""
    request = requests.PollWorkflowTaskQueueRequest(
        namespace=NAMESPACE,
        task_queue={"name": "q"},
        identity=build,
        worker_instance_key=f"worker {build}",
        deployment_options=options(build),
    )
    return WorkflowServiceStub(channel).PollWorkflowTaskQueue(request, timeout=60)


def start(server: SegnoServer, workflow_id: str, queue: str = "q") -> None:
    """Starts a workflow."""
    call(
        server,
        "StartWorkflowExecution",
        workflow_id=workflow_id,
        workflow_type={"name": "w"},
        task_queue={"name": queue},
        request_id=str(uuid.uuid4()),
        # A task that a test takes and does not complete stays taken.
        workflow_task_timeout={"seconds": 120},
    )


def stop_worker(server: SegnoServer, build: str, identity: str = "") -> None:
    """A worker that polled with the key `worker {build}` says that it ends."""
    key = {"worker_instance_key": f"worker {build}", "identity": identity or build, "task_queue": "q"}
    call(server, "ShutdownWorker", sticky_task_queue="", reason="test", **key)


def waiting_for(server: SegnoServer, version: str) -> set[str]:
    """The workflows that are listed as waiting for a version."""
    listed = call(server, "ListWorkflowExecutions", query=f"WaitsForVersion = '{version}'").executions
    return {found.execution.workflow_id for found in listed}


def set_current(server: SegnoServer, build: str, **more: Any) -> Any:
    """Makes a version the current one."""
    fields = {"deployment_name": "d", "build_id": build, **more}
    return call(server, "SetWorkerDeploymentCurrentVersion", **fields)


def describe(server: SegnoServer) -> Any:
    """Describes the deployment."""
    return call(server, "DescribeWorkerDeployment", deployment_name="d").worker_deployment_info


def statuses(server: SegnoServer) -> dict[str, int]:
    """The statuses of the versions, by build id."""
    summaries = describe(server).version_summaries
    return {summary.deployment_version.build_id: summary.status for summary in summaries}


def group_commits(server: SegnoServer) -> int:
    """How many groups of commits the server has made durable."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        lines = reply.read().decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("segno_commit_seconds_count"))
