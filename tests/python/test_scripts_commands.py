"""`segno flow` and `segno workflow` on scripts: deployments of several files, hints, stacks, looks into the past."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError

from helpers import NAMESPACE, SegnoServer, raises, segno_binary
from scripts import Flows, eventually, start


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    if not segno_binary().exists():
        pytest.exit(f"no server: build {segno_binary()}", returncode=3)
    server = SegnoServer(log=tmp_path_factory.mktemp("scripts") / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def flows(server: SegnoServer) -> Flows:
    return Flows(f"127.0.0.1:{server.http_port}")


@pytest_asyncio.fixture
async def client(server: SegnoServer) -> Client:
    return await Client.connect(server.address, namespace=NAMESPACE)


def segno(server: SegnoServer, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(segno_binary()), *words, "--address", server.address]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def names(flows: Flows) -> set[str]:
    return {flow["name"] for flow in flows.call("GET", "/flows").body["flows"]}


def write(directory: Path, **sources: str) -> str:
    for name, source in sources.items():
        (directory / f"{name}.flow").write_text(source)
    return str(directory)


def test_several_files_are_deployed_in_order(server: SegnoServer, flows: Flows, tmp_path: Path) -> None:
    done = segno(server, "flow", "deploy", write(tmp_path, a="workflow da() { return 1 }", b="workflow db() { return 2 }"))
    assert [line.split()[::2] for line in done.stdout.splitlines()] == [["da", "deployed"], ["db", "deployed"]]
    done = segno(server, "flow", "deploy", write(tmp_path, b="workflow db() { return 3 }"))
    assert [line.split()[::2] for line in done.stdout.splitlines()] == [["da", "unchanged"], ["db", "deployed"]]
    assert {"da", "db"} <= names(flows)


def test_the_same_name_twice_is_refused(server: SegnoServer, flows: Flows, tmp_path: Path) -> None:
    done = segno(server, "flow", "deploy", write(tmp_path, a="workflow twice() { return 1 }", b="workflow twice() { return 2 }"))
    assert done.returncode == 1 and "a.flow" in done.stderr and "b.flow" in done.stderr, done.stderr
    assert "twice" not in names(flows)


@pytest.mark.asyncio
async def test_nothing_is_deployed_if_one_file_is_refused(
    server: SegnoServer, flows: Flows, client: Client, tmp_path: Path
) -> None:
    await client.start_workflow("of_code", id="of-code-1", task_queue="nobody")
    sources = dict(a="workflow before() { return 1 }", b="workflow of_code() { return 2 }", c="workflow after() { return 3 }")
    done = segno(server, "flow", "deploy", write(tmp_path, **sources))
    assert done.returncode != 0 and '1 open runs of "of_code" are no scripts' in done.stderr, done.stderr
    assert not {"before", "of_code", "after"} & names(flows)
    done = segno(server, "flow", "deploy", "--take-over", str(tmp_path))
    assert done.returncode == 0 and {"before", "of_code", "after"} <= names(flows)


def test_an_unknown_script_has_its_own_hint(server: SegnoServer) -> None:
    done = segno(server, "flow", "run", "no_such_script")
    assert done.returncode == 66 and "segno flow list" in done.stderr, (done.returncode, done.stderr)


@pytest.mark.asyncio
async def test_versions_of_a_deleted_name_go_with_their_last_run(flows: Flows, client: Client) -> None:
    source = 'workflow leaves(n) { await wait_for_signal("go"); return n }'
    versions = []
    for n in range(2):
        versions.append(flows.deploy(source + f" // {n}")["version"])
        for place in range(2):
            handle = await start(client, "leaves", f"leaves-{n}-{place}", n)
            await handle.signal("go")
            await handle.result()
    assert flows.call("DELETE", "/flows/leaves").status == 200

    def kept() -> list[bool]:
        found = [flows.call("GET", "/flows/leaves/source", version=version) for version in versions]
        return [answer.status == 200 for answer in found]

    async def delete(workflow_id: str) -> None:
        execution = WorkflowExecution(workflow_id=workflow_id)
        request = DeleteWorkflowExecutionRequest(namespace=NAMESPACE, workflow_execution=execution)
        await client.workflow_service.delete_workflow_execution(request)

    assert kept() == [True, True]
    await delete("leaves-0-0")
    assert kept() == [True, True]
    await delete("leaves-0-1")

    async def first_is_gone() -> bool:
        return kept() == [False, True]

    await eventually(first_is_gone)
    for place in range(2):
        await delete(f"leaves-1-{place}")

    async def all_are_gone() -> bool:
        return "leaves" not in names(flows) and kept() == [False, False]

    await eventually(all_are_gone)


@pytest.mark.asyncio
async def test_a_failed_script_shows_its_stack(server: SegnoServer, flows: Flows, client: Client) -> None:
    flows.deploy("function f(x) {\n  return x.y.z\n}\nworkflow breaks() {\n  return f({})\n}\n", file_name="breaks.flow")
    handle = await start(client, "breaks", "breaks-1")
    await raises(WorkflowFailureError, handle.result())
    for words in (["workflow", "result", "-w", "breaks-1"], ["flow", "run", "breaks"]):
        done = segno(server, *words)
        assert done.returncode == 1 and done.stdout == ""
        assert "at f (breaks.flow:2:" in done.stderr and "at breaks (breaks.flow:5:" in done.stderr, done.stderr


@pytest.mark.asyncio
async def test_a_look_into_the_past_of_a_closed_run(server: SegnoServer, flows: Flows, client: Client) -> None:
    flows.deploy(
        'workflow past() {\n  let zulu = 1\n  let alpha = 2\n  await wait_for_signal("go")\n  return zulu + alpha\n}\n'
    )
    handle = await start(client, "past", "past-1")
    await handle.signal("go")
    assert await handle.result() == 3
    assert "▶" not in segno(server, "flow", "show", "-w", "past-1").stdout
    shown = segno(server, "flow", "show", "-w", "past-1", "--at", "4").stdout
    assert '▶ 4 │   await wait_for_signal("go")' in shown, shown
    assert 0 < shown.index("  zulu ") < shown.index("  alpha "), shown
