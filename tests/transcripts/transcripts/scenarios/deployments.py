"""Worker deployments: workers register their versions with polls, callers change the routing."""

from __future__ import annotations

import time
from typing import Any

from ..harness import POLL_SHORT, Session
from ..versions import ACTIVITY, WORKFLOW, settled, version, wait
from . import scenario


def poll(s: Session, build: str, name: str = "d", queue: str = "q", rpc: str = WORKFLOW) -> None:
    """A worker of a version polls a queue; returns once the version has the queue."""
    options = {**version(s, build, name), "worker_versioning_mode": "WORKER_VERSIONING_MODE_VERSIONED"}
    begun = s.begin(rpc, 3, task_queue={"name": s.name(queue)}, identity="worker", deployment_options=options)
    begun.result(timeout=30)
    kind = 1 if rpc == WORKFLOW else 2

    def listed() -> bool:
        found = s.silent("DescribeWorkerDeploymentVersion", deployment_version=version(s, build, name))
        infos = found.worker_deployment_version_info.task_queue_infos
        return any(info.name == s.name(queue) and info.type == kind for info in infos)

    wait(listed)


def describe(s: Session, name: str = "d") -> Any:
    """Describes a deployment."""
    return s.call("DescribeWorkerDeployment", deployment_name=s.name(name))


def describe_version(s: Session, build: str, name: str = "d") -> None:
    """Describes a version."""
    s.call("DescribeWorkerDeploymentVersion", deployment_version=version(s, build, name))


def set_current(s: Session, build: str, name: str = "d", **more: Any) -> Any:
    """Makes a version the current one."""
    fields = {"deployment_name": s.name(name), "build_id": build, "identity": "caller", **more}
    return s.call("SetWorkerDeploymentCurrentVersion", **fields)


def set_ramping(s: Session, build: str, percentage: float, name: str = "d", **more: Any) -> Any:
    """Lets a version ramp."""
    fields = {"deployment_name": s.name(name), "build_id": build, "percentage": percentage, "identity": "caller"}
    return s.call("SetWorkerDeploymentRampingVersion", **{**fields, **more})


def create(s: Session, *builds: str, name: str = "d") -> None:
    """Creates a deployment with versions that nothing polls."""
    s.call("CreateWorkerDeployment", deployment_name=s.name(name), identity="creator", request_id="r")
    for build in builds:
        fields = {"deployment_version": version(s, build, name), "identity": "creator", "request_id": "r"}
        s.call("CreateWorkerDeploymentVersion", **fields)


@scenario
def registered_by_polls(s: Session) -> None:
    """A poll makes a deployment, a version and its queue; further polls add queues."""
    poll(s, "b1")
    describe(s)
    describe_version(s, "b1")
    poll(s, "b1", rpc=ACTIVITY)
    poll(s, "b1", queue="other")
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=1)


@scenario
def names(s: Session) -> None:
    """Names that are refused."""
    for name in ("", "x" * 481, "a.b", "a:b", "__a", "a.:" + "x" * 480):
        s.call("CreateWorkerDeployment", deployment_name=name, request_id="r")
        s.call("DescribeWorkerDeployment", deployment_name=name)
        s.call("DeleteWorkerDeployment", deployment_name=name)
        s.call("SetWorkerDeploymentManager", deployment_name=name, identity="i", manager_identity="m")
        for build in ("", "b"):
            fields = {"deployment_name": name, "build_id": build}
            s.call("SetWorkerDeploymentCurrentVersion", **fields)
            s.call("SetWorkerDeploymentCurrentVersion", allow_no_pollers=True, **{**fields, "build_id": "__" + build})
            s.call("SetWorkerDeploymentRampingVersion", percentage=0, **fields)
            s.call("SetWorkerDeploymentRampingVersion", percentage=50, **fields)
            s.call("DescribeWorkerDeploymentVersion", deployment_version=fields)
            s.call("DeleteWorkerDeploymentVersion", deployment_version=fields)
            s.call("CreateWorkerDeploymentVersion", deployment_version=fields, request_id="r")
            s.call("UpdateWorkerDeploymentVersionMetadata", deployment_version=fields, remove_entries=["a"])
    for build in ("x" * 481, "__b"):
        fields = {"deployment_name": "unknown", "build_id": build}
        s.call("SetWorkerDeploymentCurrentVersion", **fields)
        s.call("SetWorkerDeploymentCurrentVersion", allow_no_pollers=True, **fields)
        s.call("SetWorkerDeploymentRampingVersion", percentage=50, **fields)
        s.call("SetWorkerDeploymentRampingVersion", percentage=50, allow_no_pollers=True, **fields)
        s.call("DescribeWorkerDeploymentVersion", deployment_version=fields)
        s.call("DeleteWorkerDeploymentVersion", deployment_version=fields)
        s.call("CreateWorkerDeploymentVersion", deployment_version=fields, request_id="r")


@scenario
def version_strings(s: Session) -> None:
    """Versions that are named by strings."""
    for text in ("", "nothing", ".b", "d.", ".", "__unversioned__", "d.b", "other.b"):
        s.call("DescribeWorkerDeploymentVersion", version=text)
        s.call("DeleteWorkerDeploymentVersion", version=text)
        s.call("SetWorkerDeploymentCurrentVersion", deployment_name="d", version=text)
        s.call("SetWorkerDeploymentRampingVersion", deployment_name="d", version=text)
        s.call("SetWorkerDeploymentRampingVersion", deployment_name="d", version=text, percentage=50)
        s.call("UpdateWorkerDeploymentVersionMetadata", version=text, remove_entries=["a"])
    s.call("SetWorkerDeploymentCurrentVersion", deployment_name="d", version="other.x", build_id="b")
    s.call("DescribeWorkerDeploymentVersion", version="other.x", deployment_version=version(s, "b"))
    s.call("DescribeWorkerDeploymentVersion")
    s.call("DeleteWorkerDeploymentVersion")
    s.call("CreateWorkerDeploymentVersion", request_id="r")
    s.call("UpdateWorkerDeploymentVersionMetadata")


@scenario
def current_version(s: Session) -> None:
    """The current version is set, set again, set by another caller, with tokens."""
    poll(s, "b1")
    token = s.silent("DescribeWorkerDeployment", deployment_name=s.name("d")).conflict_token
    set_current(s, "unknown")
    set_current(s, "b1", conflict_token=b"something")
    set_current(s, "b1", conflict_token=token)
    settled(s)
    describe(s)
    describe_version(s, "b1")
    set_current(s, "b1")
    set_current(s, "b1", conflict_token=token)
    set_current(s, "b1", conflict_token=token, identity="other")
    newest = set_current(s, "b1", identity="other").conflict_token
    describe(s)
    poll(s, "b2")
    set_current(s, "b2", conflict_token=newest, identity="other")
    settled(s)
    describe(s)
    set_current(s, "")
    settled(s)
    describe(s)
    set_current(s, "")
    s.call("DescribeTaskQueue", task_queue=s.queue(), task_queue_type=1)


@scenario
def current_version_by_string(s: Session) -> None:
    """The current version is set and unset by strings, as older clients do."""
    create(s, "b.1")
    set_current(s, "", version=f"{s.name('d')}.b.1")
    set_current(s, "", version="__unversioned__")


@scenario
def unknown(s: Session) -> None:
    """Calls on a deployment that does not exist."""
    describe(s)
    describe_version(s, "b1")
    set_current(s, "b1")
    set_current(s, "")
    set_ramping(s, "b1", 10)
    set_ramping(s, "", 10)
    set_ramping(s, "", 0)
    s.call("DeleteWorkerDeployment", deployment_name=s.name("d"))
    s.call("DeleteWorkerDeploymentVersion", deployment_version=version(s, "b1"))
    s.call("CreateWorkerDeploymentVersion", deployment_version=version(s, "b1"), request_id="r")
    s.call("UpdateWorkerDeploymentVersionMetadata", deployment_version=version(s, "b1"), remove_entries=["a"])
    s.call("SetWorkerDeploymentManager", deployment_name=s.name("d"), manager_identity="m", identity="i")
    for rpc in ("ListWorkerDeployments", "DescribeWorkerDeployment"):
        s.call(rpc, namespace="nowhere")
        s.call(rpc, namespace="")


@scenario
def ramping_version(s: Session) -> None:
    """The ramp is set, raised, set to nothing, removed, and becomes the current version."""
    create(s, "b1", "b2")
    set_ramping(s, "b1", 101)
    set_ramping(s, "b1", -1)
    set_ramping(s, "", 50)
    set_ramping(s, "b2", 30)
    describe(s)
    describe_version(s, "b2")
    set_ramping(s, "b2", 30)
    set_ramping(s, "b2", 30, identity="other")
    set_ramping(s, "b2", 60.5)
    set_ramping(s, "b2", 0)
    describe(s)
    set_ramping(s, "", 0)
    describe(s)
    set_ramping(s, "", 0)
    set_ramping(s, "", 0, identity="other")
    set_current(s, "b1")
    set_ramping(s, "b1", 10)
    set_ramping(s, "", 25)
    describe(s)
    set_ramping(s, "b2", 100)
    set_current(s, "b2")
    describe(s)
    set_ramping(s, "unknown", 5)
    set_ramping(s, "b1", 5, conflict_token=b"something")


@scenario
def ramp_to_unversioned(s: Session) -> None:
    """Unversioned workers ramp and become current."""
    create(s, "b1")
    set_current(s, "b1")
    set_ramping(s, "", 25)
    set_current(s, "")
    describe(s)
    set_ramping(s, "", 25)
    set_ramping(s, "", 0, version="__unversioned__")


@scenario
def ramp_without_current(s: Session) -> None:
    """A ramp on a deployment that was never changed is removed."""
    create(s)
    set_ramping(s, "", 0, identity="creator")
    set_ramping(s, "", 0)
    describe(s)


@scenario
def created(s: Session) -> None:
    """Deployments and versions are created by calls, again, by another call, and after polls."""
    create(s, "b1")
    create(s, "b1")
    s.call("CreateWorkerDeployment", deployment_name=s.name("d"), identity="other", request_id="other")
    fields = {"deployment_version": version(s, "b1"), "identity": "other", "request_id": "other"}
    s.call("CreateWorkerDeploymentVersion", **fields)
    describe(s)
    describe_version(s, "b1")
    poll(s, "b1")
    describe_version(s, "b1")
    poll(s, "b1", "polled")
    s.call("CreateWorkerDeployment", deployment_name=s.name("polled"), request_id="r")
    s.call("CreateWorkerDeploymentVersion", deployment_version=version(s, "b1", "polled"), request_id="r")


@scenario
def created_with_a_change(s: Session) -> None:
    """A deployment and its version are created when the version becomes current."""
    set_current(s, "b1", allow_no_pollers=True)
    describe(s)
    set_ramping(s, "b2", 10, allow_no_pollers=True)
    describe(s)


@scenario
def deleted(s: Session) -> None:
    """Versions and deployments are deleted."""
    create(s, "b1", "b2", "b3")
    set_current(s, "b1")
    set_ramping(s, "b2", 10)

    def delete(build: str, **more: Any) -> None:
        fields = {"deployment_version": version(s, build), "identity": "deleter", **more}
        s.call("DeleteWorkerDeploymentVersion", **fields)

    delete("b1")
    delete("b2", skip_drainage=True)
    delete("b3")
    delete("b3")
    delete("unknown")
    describe(s)
    set_ramping(s, "", 0)
    delete("b2")
    delete("b2", skip_drainage=True)
    describe_version(s, "b2")
    s.call("DeleteWorkerDeployment", deployment_name=s.name("d"), identity="deleter")
    set_current(s, "")
    delete("b1", skip_drainage=True)
    describe(s)
    s.call("DeleteWorkerDeployment", deployment_name=s.name("d"), identity="deleter")
    s.call("DeleteWorkerDeployment", deployment_name=s.name("d"), identity="deleter")


@scenario
def deleted_while_polled(s: Session) -> None:
    """A version that was polled a moment ago is not deleted."""
    poll(s, "b1")
    s.call("DeleteWorkerDeploymentVersion", deployment_version=version(s, "b1"), skip_drainage=True)


@scenario
def manager(s: Session) -> None:
    """The manager is set, taken over and unset; others may not change the routing."""
    create(s, "b1")

    def set_manager(**fields: Any) -> Any:
        return s.call("SetWorkerDeploymentManager", deployment_name=s.name("d"), **fields)

    set_manager(manager_identity="m")
    set_manager(manager_identity="m", identity="m")
    set_manager(manager_identity="m", identity="m", conflict_token=b"something")
    describe(s)
    set_current(s, "b1")
    set_current(s, "b1", identity="")
    set_ramping(s, "b1", 10)
    set_current(s, "b1", identity="m")
    s.call("DeleteWorkerDeploymentVersion", deployment_version=version(s, "b1"), identity="caller")
    set_current(s, "", identity="m")
    delete = {"deployment_version": version(s, "b1"), "skip_drainage": True}
    s.call("DeleteWorkerDeploymentVersion", identity="caller", **delete)
    set_manager(self=True, identity="other")
    set_manager(manager_identity="x", identity="x", conflict_token=b"something")
    set_manager(manager_identity="", identity="other")
    set_manager(identity="other")
    s.call("DeleteWorkerDeploymentVersion", identity="caller", **delete)


@scenario
def metadata(s: Session) -> None:
    """Metadata of versions."""
    create(s, "b1")

    def update(**fields: Any) -> None:
        fields = {"deployment_version": version(s, "b1"), "identity": "updater", **fields}
        s.call("UpdateWorkerDeploymentVersionMetadata", **fields)

    value = {"metadata": {"encoding": b"json/plain"}, "data": b"1"}
    update(upsert_entries={"a": value, "b": value})
    update(upsert_entries={"a": {**value, "data": b"2"}}, remove_entries=["b", "c"])
    update(upsert_entries={"x": value}, remove_entries=["x"])
    update()
    update(deployment_version=version(s, "unknown"), remove_entries=["a"])
    update(deployment_version=None, remove_entries=["a"])
    describe_version(s, "b1")


@scenario
def missing_queues(s: Session) -> None:
    """A version that lacks a queue of the current one with tasks."""
    poll(s, "b1")
    poll(s, "b1", queue="other")
    poll(s, "b2")
    set_current(s, "b1")
    settled(s)
    s.start("wf", "other")
    time.sleep(5)
    set_current(s, "b2")
    set_ramping(s, "b2", 10)
    set_ramping(s, "b2", 10, ignore_missing_task_queues=True)
    set_current(s, "b2", ignore_missing_task_queues=True)


@scenario
def compute_configuration(s: Session) -> None:
    """Segno starts no workers."""
    create(s, "b1")
    s.call("ValidateWorkerDeploymentVersionComputeConfig", deployment_version=version(s, "b1"))


@scenario
def polls_of_older_workers(s: Session) -> None:
    """Capabilities with a series name register a version; a build id alone does not."""
    old = {"build_id": "b1", "use_versioning": True, "deployment_series_name": s.name("d")}
    for capabilities in ({"build_id": "b1", "use_versioning": True}, old):
        fields = {"identity": "worker", "worker_version_capabilities": capabilities}
        s.begin(WORKFLOW, 3, task_queue=s.queue(), **fields).result(timeout=30)
    wait(lambda: s.silent("DescribeWorkerDeployment", deployment_name=s.name("d")))
    describe(s)
    s.begin(WORKFLOW, POLL_SHORT, task_queue=s.queue(), identity="worker").result(timeout=30)
