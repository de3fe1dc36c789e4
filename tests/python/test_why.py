"""`segno workflow why`, the last reported failure, and backups of a server that runs."""

from __future__ import annotations

import asyncio
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from flows import Echo, Waiter
from helpers import NAMESPACE, Env, SegnoServer, eventually, segno_binary
from test_cli import Cli

QUICK = timedelta(seconds=1)


@pytest.fixture
def cli(env: Env) -> Cli:
    return Cli(env.address)


@workflow.defn(name="BreaksAtOnce")
class Broken:
    @workflow.run
    async def run(self) -> None:
        raise RuntimeError("a bug in the code")


@activity.defn(name="always_declined")
async def declined() -> None:
    raise ValueError("card declined")


@workflow.defn
class Paying:
    @workflow.run
    async def run(self) -> None:
        retry = RetryPolicy(initial_interval=timedelta(seconds=30))
        await workflow.execute_activity(declined, start_to_close_timeout=timedelta(seconds=5), retry_policy=retry)


@workflow.defn
class Sleeping:
    @workflow.run
    async def run(self) -> None:
        await asyncio.sleep(3600)


async def kinds(cli: Cli, workflow_id: str) -> list[str]:
    return [reason["kind"] for reason in (await cli.json("workflow", "why", "-w", workflow_id))["reasons"]]


async def reason(cli: Cli, workflow_id: str, kind: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def told() -> bool:
        reasons = (await cli.json("workflow", "why", "-w", workflow_id))["reasons"]
        found[:] = [one for one in reasons if one["kind"] == kind]
        return bool(found)

    await eventually(told)
    return found[0]


async def test_nobody_polls_until_a_worker_comes(env: Env, cli: Cli):
    handle = await env.start(Echo, "x")
    told = await reason(cli, handle.id, "NO_POLLER")
    assert env.task_queue in told["text"] and "Start a worker" in told["hint"]
    async with env.worker(Echo):
        await handle.result()
    assert await kinds(cli, handle.id) == ["COMPLETED"]


async def test_the_code_breaks_and_later_timeouts_do_not_hide_it(env: Env, cli: Cli):
    async with env.worker(Broken):
        handle = await env.start(Broken, task_timeout=QUICK)
        told = await reason(cli, handle.id, "TASK_FAILING")
        assert "a bug in the code (RuntimeError)" in told["text"]
        assert any("test_why.py" in line for line in told["details"])
        # The SDK lets later attempts time out.
        await asyncio.sleep(3)
        answer = await cli.json("workflow", "why", "-w", handle.id)
        assert answer["lastTaskFailure"]["message"] == "a bug in the code"
        assert answer["lastTaskFailure"]["failures"] >= 2
        described = await cli.text("workflow", "describe", "-w", handle.id)
        assert "a bug in the code" in described and "WORKFLOW_WORKER_UNHANDLED_FAILURE" in described
        assert "(RuntimeError)" in await cli.text("workflow", "show", "-w", handle.id)
    await handle.terminate()
    assert await kinds(cli, handle.id) == ["TERMINATED"]


async def test_activities_timers_and_code_that_waits(env: Env, cli: Cli):
    async with env.worker(Paying, Sleeping, Waiter, declined):
        paying = await env.start(Paying, id=f"{env.name}-paying")
        told = await reason(cli, paying.id, "ACTIVITY_FAILING")
        assert "always_declined" in told["text"] and "card declined (ValueError)" in told["text"]
        assert "attempt 2 is in" in told["text"]
        sleeping = await env.start(Sleeping, id=f"{env.name}-sleeping")
        assert "fires at" in (await reason(cli, sleeping.id, "TIMER"))["text"]
        waiting = await env.start(Waiter, id=f"{env.name}-waiting")
        assert "segno workflow stack" in (await reason(cli, waiting.id, "WAITS_IN_CODE"))["hint"]
        assert "workflow: Waiter" in await cli.text("workflow", "stack", "-w", waiting.id)
        pending = await cli.json("workflow", "describe", "-w", paying.id)
        activity_id = pending["pendingActivities"][0]["activityId"]
        await cli.text("activity", "pause", "-w", paying.id, "-a", activity_id, "--reason", "bank is down")
        assert "(bank is down)" in (await reason(cli, paying.id, "ACTIVITY_PAUSED"))["text"]
        await cli.text("activity", "unpause", "-w", paying.id, "-a", activity_id)
        await cli.text("activity", "complete", "-w", paying.id, "-a", activity_id)
        await paying.result()
        for handle in (sleeping, waiting):
            await handle.terminate()


async def test_a_backup_of_a_running_server_is_restored(durable_server: SegnoServer, tmp_path: Path):
    durable_server.start()
    client = await Client.connect(durable_server.address, namespace=NAMESPACE)
    for number in range(20):
        await client.start_workflow("Echo", f"{number}", id=f"w-{number}", task_queue="backup")
    copy = tmp_path / "copy.db"
    data = tmp_path / "data"
    segno = str(segno_binary())
    subprocess.run([segno, "backup", "--data-dir", str(data), "--to", str(copy)], check=True)
    await client.start_workflow("Echo", "late", id="late", task_queue="backup")
    assert subprocess.run([segno, "doctor", "--data-dir", str(data)]).returncode in (0, 1)
    durable_server.kill()
    restored = tmp_path / "restored"
    subprocess.run([segno, "restore", "--from", str(copy), "--data-dir", str(restored)], check=True)
    again = SegnoServer(log=tmp_path / "restored.log", data_dir=restored)
    again.start()
    try:
        client = await Client.connect(again.address, namespace=NAMESPACE)
        runner = UnsandboxedWorkflowRunner()
        async with Worker(client, task_queue="backup", workflows=[Echo], workflow_runner=runner):
            for number in range(20):
                assert await client.get_workflow_handle(f"w-{number}").result() == f"{number}"
        names = [one.id async for one in client.list_workflows()]
        assert sorted(names) == sorted(f"w-{number}" for number in range(20))
    finally:
        again.kill()
