"""Worker deployments: what transcripts cannot say: races, restarts, drainage."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus as Status
from temporalio.api.enums.v1 import WorkerVersioningMode
from temporalio.api.workflowservice.v1 import request_response_pb2 as requests
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

from helpers import NAMESPACE, SegnoServer

DRAINAGE_GRACE_SECONDS = 10


def call(server: SegnoServer, rpc: str, timeout: float = 10, **fields: Any) -> Any:
    """Makes a call."""
    with grpc.insecure_channel(server.address) as channel:
        request = getattr(requests, f"{rpc}Request")(namespace=NAMESPACE, **fields)
        return getattr(WorkflowServiceStub(channel), rpc)(request, timeout=timeout)


def poll(server: SegnoServer, build: str) -> None:
    """A worker of a version polls once."""
    options = {
        "deployment_name": "d",
        "build_id": build,
        "worker_versioning_mode": WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED,
    }
    fields = {"task_queue": {"name": "q"}, "identity": build, "deployment_options": options}
    call(server, "PollWorkflowTaskQueue", 2.1, **fields)


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


@pytest.mark.timeout(120)
def test_one_caller_wins_with_a_token(durable_server: SegnoServer) -> None:
    durable_server.start()
    poll(durable_server, "b1")
    poll(durable_server, "b2")
    token = set_current(durable_server, "b1", identity="first").conflict_token

    def attempt(place: int) -> bool:
        fields = {"identity": f"caller-{place}", "conflict_token": token}
        try:
            set_current(durable_server, f"b{1 + place % 2}", **fields)
            return True
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
            assert error.details() == "conflict token mismatch"
            return False

    with ThreadPoolExecutor(20) as callers:
        assert sum(callers.map(attempt, range(50))) == 1


@pytest.mark.timeout(180)
def test_routing_survives_a_kill(durable_server: SegnoServer) -> None:
    durable_server.start()
    poll(durable_server, "b1")
    poll(durable_server, "b2")
    for revision in range(1, 6):
        current = f"b{1 + revision % 2}"
        set_current(durable_server, current, identity="caller")
        durable_server.kill()
        durable_server.start()
        routing = describe(durable_server).routing_config
        assert routing.revision_number == revision
        assert routing.current_deployment_version.build_id == current
        assert set(statuses(durable_server)) == {"b1", "b2"}


@pytest.mark.timeout(120)
def test_an_unused_version_is_drained_after_the_grace(durable_server: SegnoServer) -> None:
    durable_server.start()
    poll(durable_server, "b1")
    poll(durable_server, "b2")
    assert statuses(durable_server)["b1"] == Status.WORKER_DEPLOYMENT_VERSION_STATUS_INACTIVE
    set_current(durable_server, "b1")
    set_current(durable_server, "b2")
    assert statuses(durable_server)["b1"] == Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING
    time.sleep(DRAINAGE_GRACE_SECONDS + 0.5)
    drained = {
        "b1": Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED,
        "b2": Status.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT,
    }
    assert statuses(durable_server) == drained
    first = describe(durable_server).version_summaries[1].drainage_info.last_changed_time
    time.sleep(0.2)
    assert describe(durable_server).version_summaries[1].drainage_info.last_changed_time == first
