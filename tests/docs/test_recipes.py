"""The programs of examples/recipes are those that the pages show, and print what the pages show: in each language, and as scripts."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pages import EXAMPLE, ROOT, files, pages, parse, with_examples
from runner import Runner

EXAMPLES = ROOT / "examples/recipes"
PROGRAM_SECONDS_MAX = 220
# With Go or Java, which may download and compile first.
TOOL_SECONDS_MAX = 600
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LANGUAGES = ["python", "typescript", "rust", "go", "java"]
# What starts the programs and needs no page.
FRAMES = {"go.mod", "go.sum", "main.go", "pom.xml", "Run.java", "run.py", "main.rs", ".gitignore"}
FRAMES |= {"package.json", "tsconfig.json", "run.ts", "workflows.ts"}


def recipes() -> dict[str, list[str]]:
    """What the page of each recipe says that its programs print."""
    shown = {}
    for page in pages():
        for block in page.blocks:
            if block.has("recipe"):
                shown[Path(page.name).stem] = block.text.splitlines()
    return shown


def command(language: str, place: Path) -> tuple[list[str], Path]:
    """What starts the programs of a language, and where. What has to be compiled is compiled below `place`."""
    source = EXAMPLES / language
    target = Path(os.environ.get("DOCS_TARGET", ROOT / "target"))
    if language == "python":
        return [sys.executable, "run.py"], source
    if language == "rust":
        return [str(target / "debug/examples/recipes")], source
    if language == "go":
        return ["go", "run", "."], source
    if language == "java":
        classes = f"-Dbuild.place={target / 'recipes-java'}"
        return ["mvn", "--quiet", "--batch-mode", "-Dstyle.color=never", classes, "compile", "exec:java"], source
    shutil.copytree(source, place / "typescript", ignore=shutil.ignore_patterns("node_modules", "dist"))
    modules = os.environ.get("DOCS_NODE_MODULES", str(ROOT / "tests/typescript/node_modules"))
    (place / "typescript/node_modules").symlink_to(modules)
    return ["sh", "-ec", "node_modules/.bin/tsc -p . && exec node dist/run.js"], place / "typescript"


@pytest.mark.timeout(700)
@pytest.mark.parametrize("language", LANGUAGES)
def test_programs_print_what_the_pages_say(language: str, tmp_path: Path) -> None:
    needs_tool = language in ("go", "java")
    if needs_tool and language not in os.environ.get("DOCS_TOOLS", "").split(","):
        pytest.skip("only with --full")
    runner = Runner(parse("server", "```sh run background\nsegno serve --in-memory\n```\n"), make(tmp_path / "server"))
    try:
        runner.run()
        words, directory = command(language, tmp_path)
        done = subprocess.run(
            words,
            cwd=directory,
            env=runner.environment | {"PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS_MAX if needs_tool else PROGRAM_SECONDS_MAX,
        )
    finally:
        runner.close()
    printed: dict[str, list[str]] = {}
    recipe = "before the first"
    # Maven begins with a sequence that resets colours.
    for line in COLOURS.sub("", done.stdout).splitlines():
        if line.startswith("== "):
            recipe = line[3:]
            printed[recipe] = []
        else:
            printed.setdefault(recipe, []).append(line)
    assert printed == recipes(), f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    # Python's SDK now and then crashes when the interpreter ends (docs/guides/troubleshooting.md).
    crashes = (-signal.SIGABRT, -signal.SIGSEGV) if language == "python" else ()
    assert done.returncode in (0, *crashes), done.stderr


def make(directory: Path) -> Path:
    directory.mkdir()
    return directory


def test_pages_show_the_examples_as_they_are() -> None:
    differing = [str(file.relative_to(ROOT)) for file in files() if with_examples(file.read_text()) != file.read_text()]
    assert differing == [], "python tests/docs/pages.py writes them"


def test_every_example_is_on_a_page() -> None:
    shown = {found[2] for file in files() for found in EXAMPLE.finditer(file.read_text())}
    tracked = subprocess.run(["git", "ls-files", "examples/recipes"], cwd=ROOT, capture_output=True, text=True, check=True)
    there = {name for name in tracked.stdout.split() if Path(name).name not in FRAMES and not name.endswith("_test.flow")}
    assert len(there) > 60
    assert there == shown


def test_an_example_that_differs_is_found() -> None:
    page = "a\n```js file=x.flow example=examples/recipes/flow/rows.flow\nold\n```\nb\n"
    text = (EXAMPLES / "flow/rows.flow").read_text()
    assert with_examples(page) == page.replace("old\n", text)
    assert with_examples(page.replace("old\n", "")) == page.replace("old\n", text)
