"""`segno workflow why`, the last reported failure, and backups of a server that runs."""

from __future__ import annotations

import asyncio
import re
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowUpdateStage
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


@workflow.defn
class Waits:
    @workflow.run
    async def run(self) -> str:
        await workflow.wait_condition(lambda: False)
        return ""

    @workflow.update
    async def approve(self, by: str) -> None:
        await workflow.wait_condition(lambda: False)


@workflow.defn
class Grandparent:
    @workflow.run
    async def run(self, generations: int) -> None:
        if generations:
            id = f"{workflow.info().workflow_id}-child"
            await workflow.execute_child_workflow(Grandparent.run, generations - 1, id=id)
        await workflow.execute_activity("no_such_activity", start_to_close_timeout=timedelta(seconds=5))


async def test_no_worker_polls_until_a_worker_comes(env: Env, cli: Cli):
    handle = await env.start(Echo, "x")
    told = await reason(cli, handle.id, "NO_POLLER")
    assert env.task_queue in told["text"] and "Start a worker" in told["hint"]
    assert (told["severity"], told["brief"]) == ("DELAYED", f"a worker on {env.task_queue}")
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


async def test_what_a_child_waits_for_is_told_with_its_parents(env: Env, cli: Cli):
    async with env.worker(Grandparent, declined):
        handle = await env.start(Grandparent, 2)
        told = await reason(cli, handle.id, "CHILD")
        child = {}
        for _ in range(100):
            told = await reason(cli, handle.id, "CHILD")
            below = told.get("because", [{}])[0]
            child = below.get("because", [{}])[0]
            if child.get("kind") == "NOT_REGISTERED":
                break
            await asyncio.sleep(0.1)
        assert child["kind"] == "NOT_REGISTERED" and "no_such_activity" in child["text"], told
        assert "Deploy workers that register it" in child["hint"]
        # The parents are stuck, because the activity is.
        assert [told["severity"], below["severity"], child["severity"]] == ["STUCK"] * 3
        text = await cli.text("workflow", "why", "-w", handle.id)
        assert "\n    - [stuck] Activity no_such_activity" in text, text
        # The suggested command is complete.
        command = re.search(r"`segno (activity reset [^`]*)`", child["hint"])
        assert command and f"--workflow-id {handle.id}-child-child --activity-id" in command.group(1)
        await cli.text(*command.group(1).split())
        for id in (f"{handle.id}-child-child", f"{handle.id}-child", handle.id):
            await env.client.get_workflow_handle(id).terminate()


async def test_a_type_that_no_worker_has(env: Env, cli: Cli):
    async with env.worker(Echo):
        handle = await env.client.start_workflow("NoSuchType", id=f"{env.name}-unknown", task_queue=env.task_queue)
        told = await reason(cli, handle.id, "NOT_REGISTERED")
        assert told["severity"] == "STUCK" and "do not have the workflow type NoSuchType" in told["hint"]
        await handle.terminate()


async def test_updates_have_name_and_age_and_a_cancellation_who_and_why(env: Env, cli: Cli):
    async with env.worker(Waits):
        handle = await env.start(Waits)
        await handle.start_update(Waits.approve, "ann", id="u-1", wait_for_stage=WorkflowUpdateStage.ACCEPTED)
        told = await reason(cli, handle.id, "UPDATE")
        assert told["text"].startswith('Update "approve" (id "u-1") was accepted at'), told
        assert f"`segno workflow stack --workflow-id {handle.id}`" in told["hint"]
        await cli.text("workflow", "cancel", "-w", handle.id, "--reason", "not wanted")
        asked = await reason(cli, handle.id, "CANCELED")
        assert "cancellation was requested by" in asked["text"] and "because: not wanted" in asked["text"], asked


async def test_schedules_batches_and_activities_without_a_workflow(env: Env, cli: Cli):
    name = env.name
    await cli.text("schedule", "create", "-s", name, "--interval", "1h", "--type", "Echo", "-t", name)
    told = await cli.json("schedule", "why", "-s", name)
    assert (told["id"], [one["kind"] for one in told["reasons"]]) == (name, ["SCHEDULE"])
    await cli.text("schedule", "toggle", "-s", name, "--pause", "--reason", "audit")
    assert (await cli.text("schedule", "why", "-s", name)).startswith(
        f"Schedule {name}.\n- [waiting] The schedule is paused (audit)"
    )
    await cli.text("schedule", "delete", "-s", name, "--yes")
    start = ["activity", "start", "-a", name, "--type", "send", "-t", name, "--start-to-close-timeout", "9s"]
    await cli.text(*start)
    told = await cli.json("activity", "why", name)
    assert (told["workflowType"], told["reasons"][0]["kind"]) == ("send", "NO_POLLER")
    await cli.text("activity", "terminate", "-a", name)
    assert (await cli.json("activity", "why", "-a", name))["reasons"][0]["kind"] == "TERMINATED"
    started = await cli.json("workflow", "terminate", "-q", f"WorkflowId = '{name}-none'", "--yes")
    job = started["batchJobId"]

    async def is_over() -> bool:
        return (await cli.json("batch", "why", job))["reasons"][0]["kind"] == "BATCH_CLOSED"

    await eventually(is_over)


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
