"""`segno deployment`: deployments and their versions, by workers of Temporal's SDK.

The commands run against the server under test, which may also be Temporal's own (SEGNO_ADDRESS).
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from temporalio.common import PinnedVersioningOverride, VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from flows import Waiter
from helpers import Env, eventually
from test_cli import NOT_THERE, USAGE, Cli, cli

__all__ = ["cli"]

FAILED = 1


@pytest.fixture
def name() -> str:
    """A deployment of this test's own."""
    return f"d-{uuid.uuid4().hex[:12]}"


def version(name: str, build: str) -> dict[str, Any]:
    """Options of a worker of a version."""
    config = WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=name, build_id=build),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )
    return {"deployment_config": config}


async def appear(cli: Cli, name: str, *builds: str) -> None:
    """Waits until the versions are there with their queues."""

    async def look() -> bool:
        found = []
        for build in builds:
            shown = await cli.json("deployment", "describe-version", name, "--build-id", build)
            found.append(len(shown["versionTaskQueues"]))
        return min(found) >= 1

    await eventually(look)


async def routing(cli: Cli, name: str) -> dict[str, Any]:
    """The routing of a deployment."""
    return (await cli.json("deployment", "describe", name))["workerDeploymentInfo"]["routingConfig"]


async def test_a_rollout(env: Env, cli: Cli, name: str) -> None:
    async with env.worker(Waiter, **version(name, "b1")), env.worker(Waiter, **version(name, "b2")):
        await appear(cli, name, "b1", "b2")
        text = await cli.text("deployment", "set-current", name, "--build-id", "b1", "--yes")
        assert text == f"Deployment {name}: current is b1\n"
        handle = await env.start(Waiter)
        await handle.query("__temporal_workflow_metadata")

        ramp = ["deployment", "set-ramping", name, "--build-id", "b2"]
        text = await cli.text(*ramp, "--percentage", "30", "--yes")
        assert text == f"Deployment {name}: ramping b2 at 30 %\n"
        assert (await routing(cli, name))["rampingVersionPercentage"] == 30

        shown = await cli.json("deployment", "set-current", name, "--build-id", "b2", "--yes")
        assert shown == {"deploymentName": name, "buildId": "b2", "namespace": "default", "action": "setCurrent"}
        found = await routing(cli, name)
        assert found["currentDeploymentVersion"] == {"deploymentName": name, "buildId": "b2"}
        assert "rampingDeploymentVersion" not in found

        async def is_pinned() -> bool:
            described = await cli.json("deployment", "describe", name)
            return described["pinnedWorkflows"] == {"b1": 1, "b2": 0}

        await eventually(is_pinned)
        text = await cli.text("deployment", "describe", name)
        assert "  Current       b2\n" in text and "  LastModifiedBy  segno:tester@" in text, text
        rows = {row[0]: row[1:3] for row in map(str.split, text.split("Versions\n")[1].splitlines()[1:])}
        assert rows == {"b2": ["Current", "0"], "b1": ["Draining", "1"]}
        text = await cli.text("deployment", "describe-version", name, "--build-id", "b1")
        assert "  Status           Draining\n" in text and "  Pinned           1\n" in text, text
        assert env.task_queue in text
        listed = await cli.json("deployment", "list")
        assert name in {summary["name"] for summary in listed}
        [row] = [line for line in (await cli.text("deployment", "list")).splitlines() if line.startswith(name)]
        assert row.split()[1] == "b2", row
        await handle.terminate()


async def test_a_ramp_ends(env: Env, cli: Cli, name: str) -> None:
    async with env.worker(Waiter, **version(name, "b1")):
        await appear(cli, name, "b1")
        await cli.text("deployment", "set-ramping", name, "--build-id", "b1", "--percentage", "0.5", "--yes")
        text = await cli.text("deployment", "set-ramping", name, "--delete", "--yes")
        assert text == f"Deployment {name}: the ramp has ended\n"
        assert "rampingVersionPercentage" not in await routing(cli, name)
        text = await cli.fails(2, "deployment", "set-ramping", name, "--build-id", "b1", "--percentage", "101")
        assert "from 0 to 100" in text
        await cli.text("deployment", "set-current", name, "--build-id", "b1", "--yes")
        text = await cli.text("deployment", "set-current", name, "--unversioned", "--yes")
        assert text == f"Deployment {name}: current is unversioned workers\n"


async def test_changes_are_confirmed(env: Env, cli: Cli, name: str) -> None:
    text = await cli.fails(USAGE, "deployment", "set-current", name, "--build-id", "b1", "--allow-no-pollers")
    assert "--yes" in text
    text = await cli.fails(NOT_THERE, "deployment", "describe", name)
    assert "segno deployment list" in text
    words = ["deployment", "set-current", name, "--build-id", "b1", "--allow-no-pollers", "--yes"]
    await cli.text(*words)
    assert (await routing(cli, name))["currentDeploymentVersion"]["buildId"] == "b1"


async def test_refusals_say_what_to_do(env: Env, cli: Cli, name: str) -> None:
    async with env.worker(Waiter, **version(name, "b1")):
        await appear(cli, name, "b1")
        current = ["deployment", "set-current", name, "--build-id"]
        text = await cli.fails(NOT_THERE, *current, "b9", "--yes")
        assert "b9" in text and "start one first" in text
        await cli.text(*current, "b1", "--yes")
        delete = ["deployment", "delete-version", name, "--yes", "--build-id"]
        text = await cli.fails(FAILED, *delete, "b1")
        assert "segno deployment set-current" in text
        text = await cli.fails(NOT_THERE, *delete, "b9")
        assert "segno deployment describe" in text
        await cli.text("deployment", "set-manager", name, "--to", "pipeline", "--yes")
        text = await cli.fails(FAILED, "deployment", "set-current", name, "--unversioned", "--yes")
        assert "pipeline" in text and "segno deployment set-manager" in text
        assert "--yes to take it over" in await cli.fails(USAGE, "deployment", "set-manager", name, "--self")
        await cli.text("deployment", "set-current", name, "--unversioned", "--yes", "--identity", "pipeline")
        text = await cli.text("deployment", "set-manager", name, "--unset", "--yes")
        assert text == f"Deployment {name} has no manager\n"
        text = await cli.fails(FAILED, *delete, "b1", "--skip-drainage")
        assert "Stop the workers" in text
        assert "versions first" in await cli.fails(FAILED, "deployment", "delete", name, "--yes")


async def test_metadata_and_deletion(env: Env, cli: Cli, name: str) -> None:
    words = ["deployment", "set-current", name, "--build-id", "b1", "--allow-no-pollers", "--yes"]
    await cli.text(*words)
    target = [name, "--build-id", "b1"]
    await cli.text("deployment", "update-metadata", *target, "--metadata", 'commit="4f2a"', "--metadata", "n=1")
    await cli.text("deployment", "update-metadata", *target, "--remove", "n")
    text = await cli.text("deployment", "describe-version", *target)
    assert 'Metadata\n  commit  "4f2a"\n' in text, text
    await cli.text("deployment", "set-current", name, "--unversioned", "--yes")
    text = await cli.fails(FAILED, "deployment", "delete-version", *target, "--yes")
    assert "--skip-drainage" in text
    text = await cli.text("deployment", "delete-version", *target, "--skip-drainage", "--yes")
    assert text == f"Version {name}:b1 was deleted\n"

    async def deleted() -> bool:
        return await cli.text("deployment", "delete", name, "--yes") == f"Deployment {name} was deleted\n"

    await eventually(deleted)
    await cli.fails(NOT_THERE, "deployment", "describe", name)


async def test_a_version_with_pinned_workflows_is_kept(env: Env, cli: Cli, name: str) -> None:
    async with env.worker(Waiter, **version(name, "b1")):
        await appear(cli, name, "b1")
        override = PinnedVersioningOverride(WorkerDeploymentVersion(deployment_name=name, build_id="b1"))
        handle = await env.start(Waiter, versioning_override=override)

        async def is_pinned() -> bool:
            described = await cli.json("deployment", "describe-version", name, "--build-id", "b1")
            return described["pinnedWorkflows"] == 1

        await eventually(is_pinned)
        text = await cli.fails(FAILED, "deployment", "delete-version", name, "--build-id", "b1", "--yes")
        assert "draining" in text
        await handle.terminate()
