"""What scenarios about versions of workers share: workers that belong to a version, and changes of routing.

A server allows a hundred deployments in a namespace, so that scenarios do not use the default one but share others.
The real server tells its queues of a change with delay. `current` and `ramping` therefore return only when every
queue knows it, and `workers` when every version has its queues.
"""

from __future__ import annotations

import functools
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import grpc

from .build import Fields
from .harness import POLL_SECONDS, Server, Session, Stopped
from .scenarios import Scenario, scenario

WORKFLOW, ACTIVITY = "PollWorkflowTaskQueue", "PollActivityTaskQueue"
TYPES = {WORKFLOW: 1, ACTIVITY: 2}
PINNED, AUTO = "VERSIONING_BEHAVIOR_PINNED", "VERSIONING_BEHAVIOR_AUTO_UPGRADE"
PATIENCE = 40
# Polls that register a version: the real server answers a second before the deadline.
REGISTERING = (2.2, 6, 12)
# A poll that finds nothing.
EMPTY_POLL = 2.5
# How long a call begun in the background takes at most to reach the server.
CALL_ARRIVES = 0.6

# Playings that share a namespace.
SHARING = 30


class SharedNamespaces:
    """Namespaces for scenarios with deployments."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.server: Server | None = None
        self.playings = 0
        self.name = ""
        self.id = ""

    def enter(self, s: Session) -> None:
        """Lets a playing use the newest namespace."""
        with self.lock:
            if self.server is not s.server or self.playings == SHARING:
                self.server, self.playings, self.name = s.server, 0, f"versions-{uuid.uuid4().hex[:12]}"
                s.namespace = self.name
                s.silent("RegisterNamespace", workflow_execution_retention_period={"seconds": 86400})
                self.id = s.silent("DescribeNamespace").namespace_info.id
            self.playings += 1
            s.namespace = self.name
            s.normaliser.names[self.name] = "versions"
            s.normaliser.known[self.id] = "<namespace-id>"


SHARED = SharedNamespaces()


def of_versions(function: Scenario) -> Scenario:
    """Registers a scenario that plays in a shared namespace."""

    @functools.wraps(function)
    def play(s: Session) -> None:
        SHARED.enter(s)
        function(s)

    return scenario(play)


def version(s: Session, build: str, name: str = "d") -> Fields:
    """A version of a deployment."""
    return {"deployment_name": s.name(name), "build_id": build}


def options(s: Session, build: str | None, name: str = "d") -> Fields | None:
    """What a worker says of its version; a worker without one says nothing."""
    if build is None:
        return None
    return {**version(s, build, name), "worker_versioning_mode": "WORKER_VERSIONING_MODE_VERSIONED"}


def wait(test: Callable[[], Any], what: str = "the deployment is not as expected") -> None:
    """Waits until a test succeeds."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if test():
                return
        except grpc.RpcError:
            pass
        time.sleep(0.1)
    raise Stopped(what)


def has_queue(s: Session, build: str, name: str, queue: str, rpc: str) -> bool:
    """Whether a version has a queue."""
    found = s.silent("DescribeWorkerDeploymentVersion", deployment_version=version(s, build, name))
    infos = found.worker_deployment_version_info.task_queue_infos
    return any(info.name == s.name(queue) and info.type == TYPES[rpc] for info in infos)


def workers(s: Session, *builds: str, name: str = "d", queue: str = "q", activities: bool = False) -> None:
    """Workers of versions poll a queue for workflow tasks, and for activities; nothing is recorded."""
    rpcs = [WORKFLOW, ACTIVITY] if activities else [WORKFLOW]
    polls = [register(s, build, name, queue, rpc) for build in builds for rpc in rpcs]
    for poll in polls:
        poll.result(timeout=60)


def register(s: Session, build: str, name: str, queue: str, rpc: str) -> Future:
    """Begins a poll, which registers a version; returns when the version has the queue."""
    for deadline in REGISTERING:
        poll = s.begin(
            rpc,
            deadline,
            task_queue={"name": s.name(queue)},
            identity="worker",
            deployment_options=options(s, build, name),
        )
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            if is_listed(s, build, name, queue, rpc):
                return poll
            time.sleep(0.05)
    raise Stopped("a version has no queues")


def is_listed(s: Session, build: str, name: str, queue: str, rpc: str) -> bool:
    """Whether a version is known and has a queue."""
    try:
        return has_queue(s, build, name, queue, rpc)
    except grpc.RpcError:
        return False


def settled(s: Session, name: str = "d") -> None:
    """Waits until the real server's queues have heard of a change."""

    def test() -> bool:
        info = s.silent("DescribeWorkerDeployment", deployment_name=s.name(name)).worker_deployment_info
        return info.routing_config_update_state == 2

    wait(test)


def again(call: Callable[[], Any]) -> Any:
    """Repeats a call that the real server refuses because it is busy with the deployment."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except grpc.RpcError as error:
            if time.monotonic() > end or error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                raise
            time.sleep(0.2)


def current(s: Session, build: str, name: str = "d", **more: Any) -> None:
    """Makes a version the current one, and waits until its queues know it; nothing is recorded."""
    fields = {"deployment_name": s.name(name), "build_id": build, "identity": "caller", **more}
    again(lambda: s.silent("SetWorkerDeploymentCurrentVersion", **fields))
    settled(s, name)


def ramping(s: Session, build: str, percentage: float, name: str = "d", **more: Any) -> None:
    """Lets a version ramp, and waits until its queues know it; nothing is recorded."""
    fields = {"deployment_name": s.name(name), "build_id": build, "percentage": percentage, "identity": "caller"}
    again(lambda: s.silent("SetWorkerDeploymentRampingVersion", **{**fields, **more}))
    settled(s, name)


def deployed(s: Session, *builds: str, name: str = "d", queue: str = "q", activities: bool = False) -> None:
    """Workers of versions, of which the first becomes the current one."""
    workers(s, *builds, name=name, queue=queue, activities=activities)
    current(s, builds[0], name)


def begin_take(
    s: Session,
    build: str | None,
    rpc: str = WORKFLOW,
    name: str = "d",
    queue: str | Fields = "q",
    deadline: float = POLL_SECONDS,
) -> Future:
    """Begins a poll of a worker of a version."""
    wanted = {"name": s.name(queue)} if isinstance(queue, str) else queue
    of = options(s, build, name)
    return s.begin(rpc, deadline, task_queue=wanted, identity=f"worker {build}", deployment_options=of)


def take(s: Session, build: str | None, rpc: str = WORKFLOW, **more: Any) -> Any:
    """A worker of a version polls a task, which must arrive."""
    task = s.join(begin_take(s, build, rpc, **more))
    if task is None or not task.task_token:
        raise Stopped(f"no task arrived for {build}")
    return task


def take_activity(s: Session, build: str | None, **more: Any) -> Any:
    """A worker of a version polls an activity, which must arrive."""
    return take(s, build, ACTIVITY, **more)


def nothing_for(s: Session, build: str | None, rpc: str = WORKFLOW, **more: Any) -> None:
    """A worker of a version polls and gets nothing."""
    s.join(begin_take(s, build, rpc, deadline=EMPTY_POLL, **more))


def finish(
    s: Session, task: Any, build: str | None, behavior: str | None, *commands: Fields, name: str = "d", **more: Any
) -> Any:
    """A worker of a version completes a workflow task."""
    said = {"deployment_options": options(s, build, name), "versioning_behavior": behavior}
    return s.complete(task, *commands, **said, **more)


def step(s: Session, build: str | None, behavior: str | None, *commands: Fields, **more: Any) -> Any:
    """A worker of a version polls a workflow task and completes it."""
    where = {key: more.pop(key) for key in ("name", "queue") if key in more}
    name = {"name": where["name"]} if "name" in where else {}
    return finish(s, take(s, build, **where), build, behavior, *commands, **name, **more)


def begun(
    s: Session,
    build: str | None,
    behavior: str | None,
    *commands: Fields,
    sticky_attributes: Fields | None = None,
    **more: Any,
) -> str:
    """Starts `wf`, whose first workflow task a worker of a version completes; returns the run id."""
    run = s.start(**more)
    step(s, build, behavior, *commands, sticky_attributes=sticky_attributes)
    return run


def pinned_to(s: Session, build: str, name: str = "d") -> Fields:
    """An override that pins."""
    return {"pinned": {"behavior": "PINNED_OVERRIDE_BEHAVIOR_PINNED", "version": version(s, build, name)}}


def one_time(s: Session, build: str, name: str = "d") -> Fields:
    """An override that holds until its target has completed a workflow task."""
    return {"one_time": {"target_deployment_version": version(s, build, name)}}


def override(s: Session, given: Fields | None, wf: str = "wf", run: str = "", path: str = "versioning_override") -> Any:
    """Gives a run an override, or takes it back."""
    return s.call(
        "UpdateWorkflowExecutionOptions",
        workflow_execution=s.execution(wf, run),
        update_mask={"paths": [path]},
        workflow_execution_options={} if given is None else {"versioning_override": given},
        identity="operator",
    )
