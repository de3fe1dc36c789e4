"""Schedules and scripts, the command line, and servers that are killed: nothing is lost or started twice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)

from helpers import NAMESPACE, Env, SegnoServer, eventually, scheduled_times, segno_binary
from scripts import Flows

SECONDLY = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=1))])


async def create(client: Client, id: str, policy: ScheduleOverlapPolicy, kind: str = "Nobody", **more: Any) -> Any:
    action = ScheduleActionStartWorkflow(kind, id=f"{id}-wf", task_queue="nobody-polls")
    schedule = Schedule(action=action, spec=SECONDLY, policy=SchedulePolicy(overlap=policy), **more)
    return await client.create_schedule(id, schedule)


async def test_kills_lose_nothing_and_start_nothing_twice(durable_server: SegnoServer) -> None:
    server = durable_server
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    names = [f"kill-{number}" for number in range(15)]
    handles = [await create(client, name, ScheduleOverlapPolicy.ALLOW_ALL) for name in names]
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(8):
        # Most kills come within the moments after a full second, when everything is due.
        now = datetime.now(timezone.utc).timestamp()
        await asyncio.sleep(1 - now % 1 + chance.random() * chance.choice([0.02, 0.1, 0.6]))
        server.kill()
        await asyncio.sleep(chance.random() * 1.5)
        server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handles = [client.get_schedule_handle(name) for name in names]
    for handle in handles:
        await handle.pause()
    await asyncio.sleep(1.5)
    for name, handle in zip(names, handles):
        started = await scheduled_times(client, name)
        assert len(started) > 8, name
        gaps = Counter((later - one).total_seconds() for one, later in zip(started, started[1:]))
        assert set(gaps) == {1.0}, f"{name}: {gaps}"
        info = (await handle.describe()).info
        assert info.num_actions == len(started), name
        assert info.num_actions_missed_catchup_window == 0
        last = [action.scheduled_at.replace(tzinfo=None) for action in info.recent_actions]
        assert last == started[-len(last) :], name


async def test_a_restart_keeps_a_schedule(durable_server: SegnoServer) -> None:
    server = durable_server
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handle = await create(client, "kept", ScheduleOverlapPolicy.BUFFER_ALL)

    async def waits() -> bool:
        return (await handle.describe()).raw_description.info.buffer_size >= 2

    await eventually(waits)
    first = (await handle.describe()).info.running_actions[0]
    server.kill()
    server.start()
    client = await Client.connect(server.address, namespace=NAMESPACE)
    handle = client.get_schedule_handle("kept")
    assert (await handle.describe()).info.running_actions[0] == first
    # Its end is told to the schedule of the new process, which starts the next one.
    await client.get_workflow_handle(first.workflow_id).terminate()

    async def next_one() -> bool:
        info = (await handle.describe()).info
        return bool(info.running_actions) and info.running_actions[0] != first

    await eventually(next_one)


async def test_a_script_is_scheduled_like_any_workflow(durable_server: SegnoServer) -> None:
    server = durable_server
    server.start()
    flows = Flows(f"127.0.0.1:{server.http_port}")
    source = "workflow tick(name) { return `tick ${name}` }"
    flows.deploy(source)
    client = await Client.connect(server.address, namespace=NAMESPACE)
    action = ScheduleActionStartWorkflow("tick", "tock", id="tick-wf", task_queue="segno-flow")
    handle = await client.create_schedule(
        "ticks", Schedule(action=action, spec=SECONDLY, state=ScheduleState(paused=True))
    )
    await handle.trigger()

    async def done() -> Any:
        info = (await handle.describe()).info
        return info.recent_actions and not info.running_actions and info.recent_actions[-1]

    last = await eventually(done)
    assert await client.get_workflow_handle(last.action.workflow_id).result() == "tick tock"


def segno(env: Env, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(segno_binary()), "schedule", *words, "--address", env.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


async def said(env: Env, *words: str) -> Any:
    done = await asyncio.to_thread(segno, env, *words, "--output", "json")
    assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


async def test_commands(env: Env) -> None:
    id = ("--schedule-id", env.id)
    start = ("--type", "Nobody", "--task-queue", env.task_queue)
    made = await said(env, "create", *id, *start, "--cron", "0 3 * * *", "--input", '"x"', "--schedule-memo", "a=1")
    assert made == {"scheduleId": env.id, "namespace": "default"}
    again = await asyncio.to_thread(segno, env, "create", *id, *start, "--interval", "1h")
    assert again.returncode != 0 and "is already registered" in again.stderr
    await said(env, "toggle", *id, "--pause", "--reason", "a reason")
    await said(env, "trigger", *id, "--overlap-policy", "AllowAll")
    await said(env, "backfill", *id, "--start-time", "2024-01-01T00:00:00Z", "--end-time", "2024-01-02T12:00:00Z")

    async def taken() -> Any:
        described = await said(env, "describe", *id)
        return described if int(described["info"].get("actionCount", 0)) >= 2 else None

    described = await eventually(taken)
    assert described["schedule"]["state"] == {"notes": "a reason", "paused": True}
    assert described["schedule"]["spec"]["structuredCalendar"][0]["hour"] == [{"start": 3, "end": 3, "step": 1}]
    shown = (await asyncio.to_thread(segno, env, "describe", *id)).stdout
    assert "a reason" in shown and "hour 3" in shown and f"{env.id}-2024-01-01T03:00:00Z" in shown, shown
    listed = await said(env, "list", "--query", f"ScheduleId = '{env.id}'")
    assert [entry["scheduleId"] for entry in listed] == [env.id]
    assert env.id in (await asyncio.to_thread(segno, env, "list")).stdout
    await said(env, "update", *id, *start, "--interval", "6h/1h", "--overlap-policy", "BufferOne")
    await said(env, "toggle", *id, "--unpause")
    described = await said(env, "describe", *id)
    assert described["schedule"]["policies"]["overlapPolicy"] == "SCHEDULE_OVERLAP_POLICY_BUFFER_ONE"
    assert described["schedule"]["spec"]["interval"] == [{"interval": "21600s", "phase": "3600s"}]
    await said(env, "delete", *id, "--yes")
    gone = await asyncio.to_thread(segno, env, "describe", *id)
    assert gone.returncode != 0 and "schedule not found" in gone.stderr
