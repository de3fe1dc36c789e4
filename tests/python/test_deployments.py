"""Worker deployments: what transcripts cannot say: races, restarts, drainage, many queues and many tasks."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus as Status

from deployments import (
    call,
    describe,
    group_commits,
    one_channel,
    options,
    poll,
    poll_on,
    set_current,
    start,
    statuses,
    stop_worker,
    waiting_for,
)
from helpers import SegnoServer

# With 100 the test of kills takes some minutes.
KILLS = int(os.environ.get("SEGNO_DEPLOYMENT_KILLS", "10"))
DRAINAGE_GRACE_SECONDS = 10
# How often the server looks for tasks that wait for a version.
WAITS_LOOK_SECONDS = 5


@pytest.mark.timeout(120)
def test_one_caller_wins_with_a_token(durable_server: SegnoServer) -> None:
    durable_server.start()
    poll(durable_server, "b1")
    poll(durable_server, "b2")
    winners = 0
    for _ in range(3):
        answer = set_current(durable_server, f"b{1 + winners % 2}", identity="first")
        winners += 1
        assert describe(durable_server).routing_config.revision_number == winners
        winners += race(durable_server, answer.conflict_token, taken=f"b{1 + (winners - 1) % 2}")
        assert describe(durable_server).routing_config.revision_number == winners


def race(durable_server: SegnoServer, token: bytes, taken: str) -> int:
    """50 callers with the same token make the other version the current one. How many of them do."""
    other = "b2" if taken == "b1" else "b1"

    def attempt(place: int) -> bool:
        fields = {"identity": f"caller-{place}", "conflict_token": token}
        try:
            set_current(durable_server, other, **fields)
            return True
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
            assert error.details() == "conflict token mismatch"
            return False

    with ThreadPoolExecutor(20) as callers:
        winners = sum(callers.map(attempt, range(50)))
    assert winners == 1
    return winners


@pytest.mark.timeout(120 + 6 * KILLS)
def test_routing_survives_a_kill(durable_server: SegnoServer) -> None:
    durable_server.start()
    poll(durable_server, "b1")
    poll(durable_server, "b2")
    for revision in range(1, KILLS + 1):
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


@pytest.mark.timeout(120)
def test_a_change_of_a_hundred_queues_is_one_commit(durable_server: SegnoServer) -> None:
    durable_server.start()
    for build in ["b1", "b2"]:
        with ThreadPoolExecutor(25) as workers:
            list(workers.map(lambda place: poll(durable_server, build, f"q{place}"), range(100)))
    set_current(durable_server, "b1")
    for place in range(100):
        start(durable_server, f"w{place}", f"q{place}")
    before = group_commits(durable_server)
    set_current(durable_server, "b2")
    assert group_commits(durable_server) == before + 1
    # Every task that is started after the answer goes by it.
    for place in (0, 50, 99):
        assert not poll(durable_server, "b1", f"q{place}").task_token
        assert poll(durable_server, "b2", f"q{place}").workflow_execution.workflow_id == f"w{place}"


@pytest.mark.timeout(300)
def test_ten_thousand_tasks_that_wait_follow_a_change(durable_server: SegnoServer) -> None:
    durable_server.start()
    with one_channel(durable_server):
        changes_while_tasks_wait(durable_server, 10_000)


def changes_while_tasks_wait(durable_server: SegnoServer, count: int) -> None:
    poll(durable_server, "b1")
    poll(durable_server, "b2")
    set_current(durable_server, "b1")
    with ThreadPoolExecutor(16) as callers:
        list(callers.map(lambda place: start(durable_server, f"w{place}"), range(count)))
    taken = [poll(durable_server, "b1").workflow_execution.workflow_id for _ in range(50)]
    assert all(taken), "they go to the current version"
    set_current(durable_server, "b2")
    assert not poll(durable_server, "b1").task_token

    def work(_: int) -> list[str]:
        found = []
        while name := poll(durable_server, "b2").workflow_execution.workflow_id:
            found.append(name)
        return found

    with ThreadPoolExecutor(16) as workers:
        for found in workers.map(work, range(16)):
            taken += found
    assert set(taken) == {f"w{place}" for place in range(count)}, "none is lost"
    assert not poll(durable_server, "b1").task_token


@pytest.mark.timeout(120)
def test_a_version_goes_at_once_when_its_worker_has_shut_down(durable_server: SegnoServer) -> None:
    durable_server.start()
    for build in ["b1", "b2"]:
        # One identity, as of two workers of a process.
        poll(durable_server, build, worker_instance_key=f"worker {build}", identity="same")
    version = {"deployment_name": "d", "build_id": "b1"}
    with pytest.raises(grpc.RpcError) as refused:
        call(durable_server, "DeleteWorkerDeploymentVersion", deployment_version=version)
    assert refused.value.details() == "version 'd:b1' cannot be deleted since it has active pollers"
    stop_worker(durable_server, "b1", "same")
    call(durable_server, "DeleteWorkerDeploymentVersion", deployment_version=version)
    assert set(statuses(durable_server)) == {"b2"}
    with pytest.raises(grpc.RpcError) as refused:
        other = {"deployment_name": "d", "build_id": "b2"}
        call(durable_server, "DeleteWorkerDeploymentVersion", deployment_version=other)
    assert refused.value.details() == "version 'd:b2' cannot be deleted since it has active pollers"


@pytest.mark.timeout(120)
def test_workflows_that_wait_for_a_version_without_workers_are_listed(durable_server: SegnoServer) -> None:
    durable_server.start()
    poll(durable_server, "b1", worker_instance_key="worker b1")
    set_current(durable_server, "b1")
    stop_worker(durable_server, "b1")
    start(durable_server, "w1")
    start(durable_server, "w2")
    assert not waiting_for(durable_server, "d:b1"), "a worker may be back at once"
    deadline = time.monotonic() + 40
    while waiting_for(durable_server, "d:b1") != {"w1", "w2"}:
        assert time.monotonic() < deadline, "workflows do not note that they wait"
        time.sleep(0.5)
    # Each notes it once.
    before = group_commits(durable_server)
    time.sleep(WAITS_LOOK_SECONDS + 1)
    assert group_commits(durable_server) == before
    durable_server.kill()
    durable_server.start()
    assert waiting_for(durable_server, "d:b1") == {"w1", "w2"}
    task = poll(durable_server, "b1")
    done = {"task_token": task.task_token, "deployment_options": options("b1"), "versioning_behavior": 2}
    call(durable_server, "RespondWorkflowTaskCompleted", **done)
    other = {"w1": "w2", "w2": "w1"}[task.workflow_execution.workflow_id]
    assert waiting_for(durable_server, "d:b1") == {other}
    call(durable_server, "TerminateWorkflowExecution", workflow_execution={"workflow_id": other})
    assert not waiting_for(durable_server, "d:b1")


@pytest.mark.timeout(120)
def test_older_workers_with_bad_names_do_not_keep_the_server_from_starting(durable_server: SegnoServer) -> None:
    durable_server.start()
    capabilities = {"build_id": "1", "use_versioning": True, "deployment_series_name": "a:b"}
    fields = {"task_queue": {"name": "q"}, "identity": "old", "worker_version_capabilities": capabilities}
    with pytest.raises(grpc.RpcError) as refused:
        call(durable_server, "PollWorkflowTaskQueue", 3.0, **fields)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "worker deployment name cannot contain ':'"
    durable_server.kill()
    durable_server.start()
    assert not call(durable_server, "ListWorkerDeployments").worker_deployments


@pytest.mark.timeout(120)
def test_a_version_goes_when_its_worker_has_died(durable_server: SegnoServer) -> None:
    durable_server.flags = ["--worker-grace", "1s"]
    durable_server.start()
    version = {"deployment_name": "d", "build_id": "b1"}
    with ThreadPoolExecutor(1) as worker, grpc.insecure_channel(durable_server.address) as channel:
        polled = worker.submit(poll_on, channel, "b1")
        while not call(durable_server, "ListWorkerDeployments").worker_deployments:
            time.sleep(0.1)
        with pytest.raises(grpc.RpcError) as refused:
            call(durable_server, "DeleteWorkerDeploymentVersion", deployment_version=version)
        assert refused.value.details() == "version 'd:b1' cannot be deleted since it has active pollers"
        channel.close()
        assert isinstance(polled.exception(), (grpc.RpcError, ValueError))
    # Its lease ends, long before five minutes have passed.
    deadline = time.monotonic() + 60
    while True:
        try:
            call(durable_server, "DeleteWorkerDeploymentVersion", deployment_version=version)
            break
        except grpc.RpcError as error:
            assert error.details() == "version 'd:b1' cannot be deleted since it has active pollers"
            assert time.monotonic() < deadline
            time.sleep(0.5)
    assert not statuses(durable_server)


@pytest.mark.timeout(120)
def test_settings_of_the_server_are_in_effect(durable_server: SegnoServer) -> None:
    durable_server.flags = ["--drainage-grace", "1ms", "--deployments-max", "1", "--deployment-versions-max", "2"]
    durable_server.start()
    poll(durable_server, "b1")
    poll(durable_server, "b2")
    with pytest.raises(grpc.RpcError) as refused:
        call(durable_server, "CreateWorkerDeployment", deployment_name="other", identity="i", request_id="r")
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refused.value.details() == "reached maximum deployments in namespace (1)"
    full = "cannot add version d.b3 since maximum number of versions (2) have been registered in the deployment"
    with pytest.raises(grpc.RpcError) as refused:
        version = {"deployment_name": "d", "build_id": "b3"}
        call(durable_server, "CreateWorkerDeploymentVersion", deployment_version=version, identity="i", request_id="r")
    assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, full)
    set_current(durable_server, "b1")
    set_current(durable_server, "b2")
    assert statuses(durable_server)["b1"] == Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED
