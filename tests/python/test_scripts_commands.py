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


@pytest.mark.asyncio
async def test_a_long_source_is_shown_whole(server: SegnoServer, flows: Flows, client: Client) -> None:
    lines = [f'  log("line {number}")' for number in range(2, 91)]
    flows.deploy("\n".join(["workflow tall() {", *lines, '  await wait_for_signal("go")', "}"]) + "\n")
    handle = await start(client, "tall", "tall-1")
    shown = segno(server, "flow", "show", "-w", "tall-1").stdout
    assert '    2 │   log("line 2")' in shown and ' ▶ 91 │   await wait_for_signal("go")' in shown, shown
    assert shown.count(" │ ") == 93, shown
    await handle.signal("go")
    await handle.result()
    closed = segno(server, "flow", "show", "-w", "tall-1").stdout
    assert '   91 │   await wait_for_signal("go")' in closed and "▶" not in closed, closed


def test_checking_by_http(flows: Flows) -> None:
    answer = flows.call("POST", "/flows:check", b"workflow tested() { return reslt }", file_name="t.flow")
    assert answer.status == 200, answer
    [found] = answer.body["diagnostics"]
    assert (found["code"], found["severity"], found["file"], found["line"], found["column"]) == ("F0201", "error", "t.flow", 1, 28)
    answer = flows.call("POST", "/flows:check", b"workflow tested() { return 1 }")
    assert answer.status == 200 and answer.body["name"] == "tested" and answer.body["diagnostics"] == [], answer
    assert "tested" not in names(flows)


@pytest.mark.asyncio
async def test_the_list_says_what_a_description_says(flows: Flows, client: Client) -> None:
    source = 'schedule("0 9 1 1 *")\nworkflow told() {\n  query q() { return 1 }\n  await wait_for_signal("go")\n}\n'
    flows.deploy(source)
    flows.deploy(source.replace("go", "went"))
    handle = await start(client, "told", "told-1")
    described = flows.call("GET", "/flows/told").body
    [listed] = [flow for flow in flows.call("GET", "/flows").body["flows"] if flow["name"] == "told"]
    assert listed == described
    assert described["schedule"] == "0 9 1 1 *" and described["handlers"] == [{"kind": "query", "name": "q"}]
    # That of the schedule and this one.
    assert described["open_runs"] == {described["current"]: 2}, described
    await handle.terminate()
    flows.call("DELETE", "/flows/told")


@pytest.mark.asyncio
async def test_an_unknown_version_is_not_found_also_for_a_closed_run(flows: Flows, client: Client) -> None:
    flows.deploy("workflow over() { return 1 }")
    assert await (await start(client, "over", "over-1")).result() == 1
    answer = flows.call("POST", "/runs/over-1:migrate", b'{"version": "ffffffffffff"}')
    assert answer.status == 404, answer
    answer = flows.call("POST", "/runs/over-1:migrate", b"{}")
    assert answer.status == 400 and "closed" in answer.body["message"], answer


def test_what_is_no_text_is_not_formatted(server: SegnoServer, tmp_path: Path) -> None:
    broken = tmp_path / "broken.flow"
    broken.write_bytes(b"workflow w(){\n  // \xff\n  return 1;\n}\n")
    done = segno(server, "flow", "fmt", str(broken))
    assert done.returncode == 1 and "broken.flow:2:6: error[F0006]" in done.stderr, done.stderr
    assert broken.read_bytes() == b"workflow w(){\n  // \xff\n  return 1;\n}\n"


def test_nobody_needs_to_poll_for_a_script(server: SegnoServer, flows: Flows) -> None:
    flows.deploy("workflow alone() { return 1 }")
    for queue in ("segno-flow", "somewhere"):
        done = segno(server, "workflow", "execute", "--type", "alone", "-t", queue)
        assert done.returncode == 0 and "no worker polls" not in done.stderr, done.stderr
