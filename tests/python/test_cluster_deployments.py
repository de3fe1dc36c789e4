"""Worker deployments on several nodes: what is changed at one node is in effect at every other one, whichever of them fails."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import grpc
import pytest
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus as Status

from deployments import call, describe, poll, set_current, start, statuses, stop_worker, waiting_for
from helpers import SegnoServer, segno_binary
from nodes import Cluster

pytestmark = pytest.mark.timeout(240)

TEMPORARY = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three nodes of the test's own."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs nodes of its own: not with SEGNO_ADDRESS, only SEGNO_BIN")
    assert segno_binary().exists(), f"no server: build {segno_binary()}"
    cluster = Cluster(tmp_path)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def insist(attempt: Any, seconds: float = 60) -> Any:
    """Repeats a call while nodes come and go."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except grpc.RpcError as error:
            if error.code() not in TEMPORARY or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def taken_by(node: SegnoServer, build: str, queue: str, wait: float = 3.0) -> str:
    """The workflow whose task a poll gets."""
    return poll(node, build, queue, wait).workflow_execution.workflow_id


def test_a_change_at_one_node_is_in_effect_at_the_others_when_it_is_answered(cluster: Cluster) -> None:
    first, second, third = cluster.nodes
    queues = [f"q{place}" for place in range(6)]
    for queue in queues:
        poll(first, "b1", queue)
        poll(second, "b2", queue)
    for round_ in range(6):
        build, other = ("b1", "b2") if round_ % 2 == 0 else ("b2", "b1")
        writer, reader, starter = (cluster.nodes[(round_ + place) % 3] for place in range(3))
        queue = queues[round_]
        set_current(writer, build, identity="operator")
        assert describe(reader).routing_config.current_deployment_version.build_id == build
        assert describe(starter).routing_config.revision_number == round_ + 1
        start(starter, f"w{round_}", queue)
        assert not taken_by(third, other, queue)
        assert taken_by(reader, build, queue) == f"w{round_}"


def test_tasks_that_wait_follow_a_change_at_all_nodes(cluster: Cluster) -> None:
    for build in ["b1", "b2"]:
        poll(cluster.nodes[0], build)
    set_current(cluster.nodes[0], "b1")
    names = [f"w{place}" for place in range(60)]
    for place, name in enumerate(names):
        start(cluster.nodes[place % 3], name)
    set_current(cluster.nodes[1], "b2")

    def work(place: int) -> list[str]:
        found = []
        while name := taken_by(cluster.nodes[place % 3], "b2", "q"):
            found.append(name)
        return found

    with ThreadPoolExecutor(6) as workers:
        old = workers.submit(taken_by, cluster.nodes[2], "b1", "q")
        found = [name for each in workers.map(work, range(5)) for name in each]
    assert not old.result(), "the old version gets none after the answer"
    assert sorted(found) == sorted(names)


def test_workflows_of_all_nodes_note_that_they_wait_for_a_version(cluster: Cluster) -> None:
    first, second, third = cluster.nodes
    poll(second, "b1", worker_instance_key="worker b1")
    set_current(third, "b1")
    stop_worker(second, "b1")
    names = {f"w{place}" for place in range(12)}
    for place, name in enumerate(sorted(names)):
        start(cluster.nodes[place % 3], name)
    deadline = time.monotonic() + 60
    while waiting_for(first, "d:b1") != names:
        assert time.monotonic() < deadline, "workflows do not note that they wait"
        time.sleep(0.5)


def test_a_version_with_workers_at_another_node_is_not_deleted(cluster: Cluster) -> None:
    first, second, _ = cluster.nodes
    poll(first, "b1")
    version = {"deployment_name": "d", "build_id": "b1"}
    for node in cluster.nodes:
        with pytest.raises(grpc.RpcError) as refused:
            call(node, "DeleteWorkerDeploymentVersion", deployment_version=version)
        assert refused.value.details() == "version 'd:b1' cannot be deleted since it has active pollers"


def test_a_run_at_any_node_makes_a_version_drain(cluster: Cluster) -> None:
    first, second, third = cluster.nodes
    poll(first, "b1")
    poll(first, "b2")
    pinned = {"pinned": {"behavior": 1, "version": {"deployment_name": "d", "build_id": "b2"}}}
    set_current(first, "b1")
    for place in range(6):
        name = f"w{place}"
        start(cluster.nodes[place % 3], name)
        call(
            cluster.nodes[place % 3],
            "UpdateWorkflowExecutionOptions",
            workflow_execution={"workflow_id": name},
            workflow_execution_options={"versioning_override": pinned},
            update_mask={"paths": ["versioning_override"]},
        )
    assert all(statuses(node)["b2"] == Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING for node in cluster.nodes)
    for place in range(6):
        call(second, "TerminateWorkflowExecution", workflow_execution={"workflow_id": f"w{place}"})
    assert all(statuses(node)["b2"] == Status.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED for node in cluster.nodes)


def test_a_node_dies_while_the_routing_changes(cluster: Cluster) -> None:
    survivor, writer, victim = cluster.nodes
    poll(survivor, "b1")
    poll(survivor, "b2")
    names = [f"w{place}" for place in range(30)]
    set_current(survivor, "b1")
    for place, name in enumerate(names):
        start(cluster.nodes[place % 3], name)
    with ThreadPoolExecutor(1) as operator:
        change = operator.submit(insist, lambda: set_current(writer, "b2", identity="operator"))
        time.sleep(0.002)
        victim.kill()
        change.result()
    # The change was answered, though the node that died did not confirm it.
    for node in (survivor, writer):
        assert insist(lambda node=node: describe(node)).routing_config.current_deployment_version.build_id == "b2"
    found: set[str] = set()
    deadline = time.monotonic() + 90
    while len(found) < len(names) and time.monotonic() < deadline:
        assert not insist(lambda: taken_by(writer, "b1", "q"))
        while name := insist(lambda: taken_by(survivor, "b2", "q")):
            found.add(name)
    assert found == set(names), "none is lost"
