"""Worker deployments: which check of a call comes first, and what is in the answers of calls that are made together."""

from __future__ import annotations

import time
from typing import Any

from ..harness import POLL_SHORT, Session
from ..versions import ACTIVITY, WORKFLOW, of_versions, settled, version, wait
from .deployments import create, describe, describe_version, poll, set_current, set_ramping

NEXUS = "PollNexusTaskQueue"
VERSIONED = "WORKER_VERSIONING_MODE_VERSIONED"
TOKEN = b"something"


def manage(s: Session, manager: str) -> None:
    """Sets the manager."""
    s.call("SetWorkerDeploymentManager", deployment_name=s.name("d"), manager_identity=manager, identity=manager)


@of_versions
def order_of_current(s: Session) -> None:
    """Several things are wrong with a change of the current version."""
    create(s, "b1")
    manage(s, "m")
    set_current(s, "unknown", conflict_token=TOKEN)
    set_current(s, "unknown")
    set_current(s, "b1", conflict_token=TOKEN)
    set_current(s, "b1", identity="")
    set_current(s, "", conflict_token=TOKEN)
    set_current(s, "", identity="m", conflict_token=TOKEN)
    set_current(s, "")
    set_current(s, "unknown", allow_no_pollers=True)
    set_current(s, "__b", allow_no_pollers=True, conflict_token=TOKEN)
    set_current(s, "x" * 481, conflict_token=TOKEN)
    set_current(s, "b1", identity="m", version="other.b1")
    set_current(s, "unknown", identity="m", version=f"{s.name('d')}.b1")
    set_current(s, "b1", identity="m", version="__unversioned__")
    describe(s)


@of_versions
def order_of_ramping(s: Session) -> None:
    """Several things are wrong with a change of the ramp."""
    create(s, "b1", "b2")
    set_current(s, "b1")
    set_ramping(s, "b1", 101)
    set_ramping(s, "", -1)
    set_ramping(s, "x", 101, deployment_name="unknown")
    set_ramping(s, "", 101, deployment_name="")
    set_ramping(s, "", 0, deployment_name="")
    set_ramping(s, "b", 101, deployment_name="")
    set_ramping(s, "b", 101, deployment_name="a.b")
    set_ramping(s, "b", 101, deployment_name="__x")
    set_ramping(s, "", 101, deployment_name="__x")
    set_ramping(s, "", 101, version="nothing")
    set_ramping(s, "", 101, version="other.b")
    set_ramping(s, "__b", 101, allow_no_pollers=True)
    set_ramping(s, "b1", 10, conflict_token=TOKEN)
    set_ramping(s, "unknown", 10, conflict_token=TOKEN)
    set_ramping(s, "", 0, conflict_token=TOKEN)
    set_ramping(s, "", 0, conflict_token=TOKEN, identity="other")
    set_ramping(s, "b2", 10)
    set_ramping(s, "b2", 10, conflict_token=TOKEN)
    set_ramping(s, "b2", 10, conflict_token=TOKEN, identity="other")
    set_ramping(s, "b2", 20, conflict_token=TOKEN)
    manage(s, "m")
    set_ramping(s, "b1", 10)
    set_ramping(s, "b2", 10)
    set_ramping(s, "unknown", 10)
    set_ramping(s, "", 0)
    set_ramping(s, "", 40)
    set_ramping(s, "unknown", 10, allow_no_pollers=True)
    set_ramping(s, "", 0, version="__unversioned__", identity="m")
    describe(s)


@of_versions
def order_of_deletion(s: Session) -> None:
    """Several things forbid the deletion of a version."""
    poll(s, "b1")
    create_version = {"deployment_version": version(s, "b2"), "request_id": "r"}
    s.call("CreateWorkerDeploymentVersion", **create_version)
    set_current(s, "b1")
    settled(s)
    manage(s, "m")

    def delete(build: str, **more: Any) -> None:
        s.call("DeleteWorkerDeploymentVersion", deployment_version=version(s, build), **more)

    delete("b1")
    delete("b1", identity="m")
    delete("b2")
    delete("b2", identity="m", version="other.x")
    delete("b2")
    set_current(s, "", identity="m")
    settled(s)
    delete("b1")
    delete("b1", identity="m")
    delete("b1", identity="m", skip_drainage=True)
    s.call("DeleteWorkerDeployment", deployment_name=s.name("d"))
    describe(s)


@of_versions
def without_identity(s: Session) -> None:
    """Calls that do not say who makes them."""
    s.call("CreateWorkerDeployment", deployment_name=s.name("d"), request_id="r")
    describe(s)
    for build in ("b1", "b2"):
        s.call("CreateWorkerDeploymentVersion", deployment_version=version(s, build), request_id="r")
    describe_version(s, "b1")
    metadata = {"upsert_entries": {"a": {"data": b"1"}}}
    s.call("UpdateWorkerDeploymentVersionMetadata", deployment_version=version(s, "b1"), **metadata)
    describe_version(s, "b1")
    set_ramping(s, "b1", 10, identity="caller")
    set_ramping(s, "b1", 20, identity="")
    describe(s)
    set_current(s, "b1", identity="caller")
    set_current(s, "", identity="")
    describe(s)
    s.call("DeleteWorkerDeploymentVersion", deployment_version=version(s, "unknown"))
    describe(s)
    s.call("DeleteWorkerDeploymentVersion", deployment_version=version(s, "b2"))
    describe(s)


@of_versions
def by_strings(s: Session) -> None:
    """A version that exists, by the string of the older form."""
    create(s, "b.1:x")
    name = f"{s.name('d')}.b.1:x"
    s.call("DescribeWorkerDeploymentVersion", version=name)
    s.call("UpdateWorkerDeploymentVersionMetadata", version=name, upsert_entries={"a": {"data": b"1"}}, identity="i")
    s.call("UpdateWorkerDeploymentVersionMetadata", version=name, remove_entries=["a"], identity="i")
    s.call("DescribeWorkerDeploymentVersion", version=name)
    set_ramping(s, "", 10, version=name)
    set_current(s, "", version=name)
    s.call("DeleteWorkerDeploymentVersion", version=name, identity="i")


@of_versions
def managers(s: Session) -> None:
    """The manager, in every way that a caller can name one."""
    create(s, "b1")

    def set_manager(**fields: Any) -> Any:
        return s.call("SetWorkerDeploymentManager", **{"deployment_name": s.name("d"), **fields})

    set_manager(self=False, identity="i")
    set_manager(self=True, identity="i")
    set_manager(self=True, identity="i", conflict_token=TOKEN)
    set_manager(self=False, identity="i", conflict_token=TOKEN)
    token = set_manager(self=False, identity="i").conflict_token
    set_manager(manager_identity="m", identity="i", conflict_token=token)
    set_manager(manager_identity="m", identity="")
    set_manager(deployment_name="")
    set_manager(deployment_name="", identity="i")
    set_manager(deployment_name="__x", identity="i")
    set_manager(manager_identity="m" * 2000, identity="i" * 2000)
    describe(s)


@of_versions
def tokens(s: Session) -> None:
    """Which calls leave a token as it is."""
    token = s.call("CreateWorkerDeployment", deployment_name=s.name("d"), request_id="r").conflict_token
    s.call("CreateWorkerDeploymentVersion", deployment_version=version(s, "b1"), request_id="r", identity="i")
    s.call(
        "UpdateWorkerDeploymentVersionMetadata",
        deployment_version=version(s, "b1"),
        upsert_entries={"a": {"data": b"1"}},
        identity="i",
    )
    poll(s, "b1")
    poll(s, "b2")
    s.call("DeleteWorkerDeploymentVersion", deployment_version=version(s, "unknown"), identity="i")
    set_current(s, "b1", conflict_token=token)
    set_current(s, "b2", conflict_token=token)


@of_versions
def polls_refused(s: Session) -> None:
    """Polls and completions that say too little of their version, or too much."""
    names = [("", ""), ("d", ""), ("", "b"), ("a.b", "c"), ("a:b", "c"), ("__d", "b"), ("d", "__b"), ("x" * 481, "b")]
    for rpc in (WORKFLOW, ACTIVITY, NEXUS):
        for name, build in names:
            given = {"deployment_name": name, "build_id": build, "worker_versioning_mode": VERSIONED}
            s.call(rpc, task_queue={"name": s.name("q")}, identity="w", deployment_options=given)
    sticky = {"name": s.name("sticky"), "kind": "TASK_QUEUE_KIND_STICKY"}
    unversioned = {"deployment_name": "d", "build_id": "b"}
    s.call(WORKFLOW, task_queue=sticky, identity="w", deployment_options=unversioned)
    s.call(WORKFLOW, task_queue=sticky, identity="w", deployment_options={})
    old = {"build_id": "b", "use_versioning": True}
    s.call(WORKFLOW, task_queue=sticky, identity="w", worker_version_capabilities=old)
    for rpc in (WORKFLOW, ACTIVITY, NEXUS):
        s.call(rpc, task_queue=s.queue(), identity="w", worker_version_capabilities={"use_versioning": True})
        s.call(rpc, task_queue=s.queue(), identity="w", worker_version_capabilities={**old, "build_id": "x" * 256})
        series = {**old, "deployment_series_name": "a.b"}
        s.call(rpc, task_queue=s.queue(), identity="w", worker_version_capabilities={**series, "build_id": ""})


@of_versions
def polls_of_unversioned_workers(s: Session) -> None:
    """Workers without versioning may say any name, which registers nothing."""
    for mode in ("WORKER_VERSIONING_MODE_UNVERSIONED", "WORKER_VERSIONING_MODE_UNSPECIFIED"):
        for name in (s.name("d"), "a.b", ""):
            given = {"deployment_name": name, "build_id": "b", "worker_versioning_mode": mode}
            s.begin(WORKFLOW, POLL_SHORT, task_queue=s.queue(), identity="w", deployment_options=given).result(timeout=30)
    describe(s)
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=1)


@of_versions
def nexus_poll(s: Session) -> None:
    """A poll for Nexus tasks makes a version, too."""
    options = {**version(s, "b1"), "worker_versioning_mode": VERSIONED}
    s.begin(NEXUS, 3, task_queue=s.queue(), identity="worker", deployment_options=options).result(timeout=30)
    poll(s, "b1")
    describe_version(s, "b1")


@of_versions
def ramp_of_other_states(s: Session) -> None:
    """A ramp that becomes current, is taken back, and ramps again: times and statuses."""
    create(s, "b1", "b2", "b3")
    set_current(s, "b1")
    set_ramping(s, "b2", 50)
    set_ramping(s, "b3", 50)
    describe(s)
    describe_version(s, "b2")
    describe_version(s, "b3")
    set_current(s, "b3")
    describe_version(s, "b1")
    describe_version(s, "b3")
    set_ramping(s, "b1", 0.5)
    describe_version(s, "b1")
    set_current(s, "")
    describe(s)
    set_ramping(s, "", 50)
    set_ramping(s, "b1", 100)
    set_current(s, "b1")
    describe_version(s, "b1")
    describe(s)


@of_versions
def queue_that_moved(s: Session) -> None:
    """A version lacks a queue of the current one, which belongs to another deployment by now."""
    poll(s, "b1")
    poll(s, "b1", queue="moved")
    poll(s, "b2")
    poll(s, "b3")
    set_current(s, "b1")
    settled(s)
    poll(s, "c1", name="e", queue="moved")
    set_current(s, "c1", name="e")
    settled(s, "e")
    s.start("wf", "moved")
    time.sleep(5)
    set_ramping(s, "b3", 10)
    set_current(s, "b2")
    settled(s)
    describe(s)


@of_versions
def repeated_requests(s: Session) -> None:
    """Creations with the same request id, and without one."""
    for request in ("", "", "r", "r"):
        s.call("CreateWorkerDeployment", deployment_name=s.name("d" + request), request_id=request, identity="i")
    for request in ("", "", "r", "r"):
        fields = {"deployment_version": version(s, "b" + request), "request_id": request, "identity": "i"}
        s.call("CreateWorkerDeploymentVersion", **fields)
    s.call("CreateWorkerDeploymentVersion", deployment_version={"build_id": "b"})
    s.call("CreateWorkerDeploymentVersion", deployment_version={"deployment_name": "d"})
    s.call("CreateWorkerDeploymentVersion", deployment_version=version(s, "b"), compute_config={}, request_id="x")
    describe(s)


@of_versions
def listed(s: Session) -> None:
    """A deployment as it is listed."""
    namespace = s.namespace
    s.namespace = s.name("listed")
    s.silent("RegisterNamespace", workflow_execution_retention_period={"seconds": 86400})
    s.call("ListWorkerDeployments")
    create(s, "b1", "b2", "b3")
    set_current(s, "b1")
    set_ramping(s, "b2", 20)

    def ramps() -> bool:
        found = s.silent("ListWorkerDeployments").worker_deployments
        return bool(found) and found[0].routing_config.ramping_version_percentage == 20

    wait(ramps)
    for size in (0, -1, 1001):
        s.call("ListWorkerDeployments", page_size=size)
    s.namespace = namespace
