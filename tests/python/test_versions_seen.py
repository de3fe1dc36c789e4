"""What operators see of versions of workers: `segno workflow why`, metrics, the log, and the roles that pages need."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.parse
import urllib.request
from datetime import timedelta
from typing import Any, AsyncIterator, Callable

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from flows import Waiter
from helpers import NAMESPACE, Env, SegnoServer, eventually
from test_cli import Cli
from test_security import Guarded, guarded
from test_why import reason

__all__ = ["guarded"]

pytestmark = pytest.mark.timeout(120)

NAME = "shop"


def version(build: str, behavior: VersioningBehavior = VersioningBehavior.PINNED) -> dict[str, Any]:
    """Options of a worker of a version."""
    config = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=NAME, build_id=build),
        use_worker_versioning=True,
        default_versioning_behavior=behavior,
    )
    # Soon after the worker with the run in its cache is gone, its task waits for any worker of the version.
    return {"deployment_config": config, "sticky_queue_schedule_to_start_timeout": timedelta(milliseconds=500)}


@pytest_asyncio.fixture
async def own(durable_server: SegnoServer) -> AsyncIterator[Env]:
    """A server without other deployments."""
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    yield Env(address=durable_server.address, client=client, name="own")


async def current(cli: Cli, build: str, *words: str) -> None:
    """Makes a version current, as soon as it has polled."""

    async def is_set() -> bool:
        done = await cli.run("deployment", "set-current", NAME, "--build-id", build, "--yes", *words)
        return done.returncode == 0

    await eventually(is_set)


async def is_member(cli: Cli, build: str) -> bool:
    """Whether a queue is in a version."""
    shown = await cli.json("deployment", "describe-version", NAME, "--build-id", build)
    return bool(shown.get("versionTaskQueues"))


def metrics(server: SegnoServer) -> dict[str, float]:
    """All metrics with their labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        lines = [line for line in reply.read().decode().splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


async def test_a_pinned_run_waits_for_its_version(own: Env, durable_server: SegnoServer) -> None:
    cli = Cli(own.address)
    async with own.worker(Waiter, **version("b1")):
        await current(cli, "b1")
        handle = await own.start(Waiter)
        await handle.query("__temporal_workflow_metadata")
    async with own.worker(Waiter, **version("b2")):
        await current(cli, "b2")
        await handle.signal("finish")
        told = await reason(cli, handle.id, "WAITS_FOR_VERSION")
        assert "the run is pinned to version shop:b1, which has had no worker on task queue" in told["text"]
        assert "Meanwhile workers of shop:b2 poll the queue." in told["text"]
        hint = re.search(r"`segno (workflow update-options [^`]+)`", told["hint"])
        assert hint, told
        label = f'{{namespace="{NAMESPACE}",deployment="shop",build_id="b1"}}'
        shown = metrics(durable_server)
        assert shown[f"segno_version_backlog{label}"] >= 1
        assert shown[f"segno_version_backlog_unserved{label}"] >= 1
        assert shown["segno_routing_changes_total"] == 2
        # The command of the hint moves the run.
        text = await cli.text(*hint[1].replace('"', "").split())
        assert text == f"Workflow {handle.id} goes to the current version\n"
        assert await handle.result() == []
    assert metrics(durable_server)["segno_version_transitions_total"] == 1


async def test_runs_wait_for_the_current_version_and_for_a_ramp(own: Env) -> None:
    cli = Cli(own.address)
    async with own.worker(Waiter, **version("b1")):
        await current(cli, "b1")
        await current(cli, "b2", "--allow-no-pollers", "--ignore-missing-task-queues")
        # A version without task queues gets none: its routing leaves the queue to workers without a version.
        handle = await own.start(Waiter)
        told = await reason(cli, handle.id, "WAITS_FOR_VERSION")
        assert "no version is current for task queue" in told["text"]
        assert "workers of shop:b1 poll the queue" in told["text"]
        assert "`segno deployment set-current shop --build-id b1`" in told["hint"]
        await handle.terminate()
    async with own.worker(Waiter, **version("b2")):
        await eventually(lambda: is_member(cli, "b2"))
    async with own.worker(Waiter, **version("b1")):
        handle = await own.start(Waiter)
        told = await reason(cli, handle.id, "WAITS_FOR_VERSION")
        assert "it goes to the current version shop:b2, which has had no worker" in told["text"]
    await current(cli, "b1")
    await cli.text("deployment", "set-ramping", NAME, "--build-id", "b2", "--percentage", "100", "--yes")
    told = await reason(cli, handle.id, "WAITS_FOR_VERSION")
    assert "it belongs to the 100 % that go to version shop:b2" in told["text"]
    async with own.worker(Waiter, **version("b1")):
        await cli.text("deployment", "set-ramping", NAME, "--delete", "--yes")
        await handle.signal("finish")
        assert await handle.result() == []


async def test_unversioned_workers_are_logged_once(own: Env, durable_server: SegnoServer) -> None:
    cli = Cli(own.address)
    async with own.worker(Waiter, **version("b1")):
        await current(cli, "b1")
    async with own.worker(Waiter, identity="old-worker"):
        handle = await own.start(Waiter)
        told = await reason(cli, handle.id, "WAITS_FOR_VERSION")
        assert "workers without a version poll the queue" in told["text"]
        assert "Workers without a version get nothing while a version is current" in told["hint"]
        await asyncio.sleep(1)
        [queue] = await cli.json("task-queue", "describe", "-t", own.task_queue, "--task-queue-type", "workflow")
        assert "old-worker" in {poller["identity"] for poller in queue["pollers"]}
    logged = [line for line in durable_server.log.read_text().splitlines() if "unversioned worker polls" in line]
    assert len(logged) == 1, logged
    assert "current version is shop:b1" in logged[0] and own.task_queue in logged[0]


def test_pages_respect_roles(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    words = ["deployment", "set-current", NAME, "--build-id", "b1", "--allow-no-pollers", "--yes"]
    done = server.segno(*words)
    assert done.returncode == 0, done.stderr
    reader = server.key("reader", "--grant", "default:read")
    writer = server.key("writer", "--grant", "default:read", "--grant", "default:write")

    def page(key: str, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        data = urllib.parse.urlencode(form).encode() if form is not None else None
        url = f"http://127.0.0.1:{server.server.http_port}/ui/default/deployments{path}"
        request = urllib.request.Request(url, data, {"authorization": f"Bearer {key}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    for path in ["", f"/{NAME}", f"/{NAME}/b1"]:
        status, text = page(reader, path)
        assert status == 200 and "b1" in text and "<form method" not in text, text
    status, text = page(writer, f"/{NAME}")
    assert status == 200 and "Set current" in text
    end = {"do": "current", "build": ""}
    assert page(reader, f"/{NAME}", end)[0] == 403
    assert page(reader, f"/{NAME}/b1", {"do": "delete-version", "build": "b1"})[0] == 403
    status, text = page(writer, f"/{NAME}", {**end, "token": "00"})
    assert status == 409 and "conflict token mismatch" in text
    assert page(writer, f"/{NAME}", end)[0] == 200
    assert page(writer, "/no-such")[0] == 404
    assert server.segno("deployment", "list", key=reader).returncode == 0
    assert server.segno(*words, key=reader).returncode == 77
