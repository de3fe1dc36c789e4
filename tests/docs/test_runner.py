"""The runner of documentation commands fails where a page is wrong."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pages import parse
from runner import Failed, Runner

SERVER = "```sh run background\nsegno serve --in-memory\n```\n"


def run(tmp_path: Path, text: str) -> Runner:
    """Runs a page with this text."""
    place = tmp_path / "page"
    place.mkdir()
    runner = Runner(parse("page.md", text), place)
    try:
        runner.run()
    finally:
        runner.close()
    return runner


@pytest.mark.parametrize(
    "text",
    [
        "```sh run\nsegno workflow lits\n```\n",
        "```sh run\nsegno workflow lits\ntrue\n```\n",
        "```sh run\nsegno nonsense | cat\n```\n",
        "```console run\n$ segno nonsense\n```\n",
        "```console run\n$ echo one\ntwo\n```\n",
        "```console run\n$ echo one; echo two\none\n```\n",
        "```console run\n$ echo one\none\n$ segno nonsense\n```\n",
        "```sh run exit=1\ntrue\n```\n",
        "```sh run\necho one\n```\n```text output\ntwo\n```\n",
        "<!-- docs-test: false -->\n",
        "```sh run background\nsegno serve --no-such-flag\n```\n",
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path: Path, text: str) -> None:
    with pytest.raises(Failed, match="page.md:1: |page.md:4: "):
        run(tmp_path, text)


def test_a_command_that_the_server_refuses_fails(tmp_path: Path) -> None:
    command = "segno workflow describe --workflow-id nobody"
    with pytest.raises(Failed, match="workflow not found for ID: nobody"):
        run(tmp_path, f"{SERVER}```sh run\n{command}\n```\n")


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    text = f"""{SERVER}
```python file=part/hello.py
print("127.0.0.1:7233, 2026-11-16T16:53:41.144Z (now)")
```
<!-- docs-test: cd part
export WHO=me -->
```console run
$ echo $WHO 00000000-0005-7678-9c07-301c6ee463ef   x
me 00000000-0001-7678-9c07-301c6ee463ef x
$ printf 'a\\nb\\nc\\n'
a
...
c
```
```sh run
python hello.py
```
```text output
127.0.0.1:7233, 2025-01-01T00:00:00Z (3 seconds ago)
```
"""
    text = text.replace("127.0.0.1:7233, 2025", "127.0.0.1:PORT, 2025")
    with pytest.raises(Failed):
        run(tmp_path, text)
    (tmp_path / "again").mkdir()
    run(tmp_path / "again", text.replace("127.0.0.1:PORT", "127.0.0.1:7233"))


def test_what_runs_in_the_background_is_ended_and_its_output_awaited(tmp_path: Path) -> None:
    text = "```sh run background\necho started; sleep 1000\n```\n```text log\nstarted\n```\n"
    runner = run(tmp_path, text)
    assert [process.poll() for process in runner.background] == [-9]
    alive = subprocess.run(["pgrep", "-g", str(runner.background[0].pid)], capture_output=True, check=False)
    assert alive.stdout == b""


def test_what_needs_a_tool_runs_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```sh run needs=go\nfalse\n```\n```text output needs=go\nnothing\n```\n"
    monkeypatch.setenv("DOCS_TOOLS", "java")
    run(tmp_path, text)
    monkeypatch.setenv("DOCS_TOOLS", "java,go")
    (tmp_path / "again").mkdir()
    with pytest.raises(Failed, match="page.md:1: "):
        run(tmp_path / "again", text)


def test_a_page_has_databases_of_its_own(tmp_path: Path) -> None:
    url = "postgres://user@db.example/segno"
    command = f"segno export --store {url} --to whole && segno import --from whole --store {url}"
    run(tmp_path, f"<!-- docs-test database: {url} -->\n```sh run\n{command}\n```\n")


def test_a_python_program_may_crash_once(tmp_path: Path) -> None:
    crash = "import os, pathlib\nprint(1)\nif not pathlib.Path('once').exists():\n    {}\n    os.abort()\n"
    page = "```python file=a.py\n{}```\n```console run\n$ python a.py\n1\n```\n"
    run(tmp_path, page.format(crash.format("pathlib.Path('once').touch()")))
    (tmp_path / "again").mkdir()
    with pytest.raises(Failed, match="Aborted"):
        run(tmp_path / "again", page.format(crash.format("pass")))


def test_unmarked_commands_are_found() -> None:
    text = "```sh\nls\n```\n\n    segno serve\n\n```sh skip=example\nls\n```\n```console run\n$ ls\n```\n"
    assert [problem.split(": ")[0] for problem in parse("page.md", text).unmarked] == ["page.md:1", "page.md:5"]
