"""The tables of docs/reference/cli.md and docs/guides/cluster.md name commands, flags, variables and defaults that there are, and leave none out."""

from __future__ import annotations

import functools
import re
import subprocess

import pytest

from pages import ROOT
from runner import segno_binary

CLI = (ROOT / "docs/reference/cli.md").read_text()
CLUSTER = (ROOT / "docs/guides/cluster.md").read_text()
# Flags that every command has, or that the tables need not name.
EVERYWHERE = {"--help", "--version"}


@functools.cache
def help_of(*words: str) -> str:
    """What `--help` prints of a command."""
    done = subprocess.run(
        [segno_binary(), *words, "--help"], capture_output=True, text=True, timeout=20, env={"COLUMNS": "400"}
    )
    assert done.returncode == 0, f"segno {' '.join(words)}: {done.stderr}"
    return done.stdout


def flags(text: str) -> set[str]:
    """Long flags that are described in a help text: those at the beginning of a line."""
    return set(re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)", text, re.MULTILINE))


def commands(*words: str) -> list[tuple[str, ...]]:
    """All commands without commands below them."""
    listed = re.search(r"^Commands:\n((?: +.*\n)+)", help_of(*words), re.MULTILINE)
    if not listed:
        return [words]
    below = [name for name in re.findall(r"^  ([a-z][a-z-]*)", listed[1], re.MULTILINE) if name != "help"]
    return [command for name in below for command in commands(*words, name)]


def section(text: str, heading: str) -> str:
    """A section without those below it."""
    found = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of all tables."""
    lines = [line for line in text.splitlines() if line.startswith("| ") or line.startswith("|-")]
    headings = {at - 1 for at, line in enumerate(lines) if line.startswith("|-")}
    kept = [line for at, line in enumerate(lines) if not line.startswith("|-") and at not in headings]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in kept]


def alternatives(cell: str) -> list[str]:
    """`a b|c -w ID` is two commands."""
    code = re.match(r"`([^`]+)`", cell)
    assert code, cell
    words = code[1].split()
    at = next((at for at, word in enumerate(words[:3]) if re.fullmatch(r"[a-z-]+(\|[a-z-]+)+", word)), None)
    if at is None or (at and words[at - 1] == "completions"):
        return [code[1]]
    return [" ".join([*words[:at], word, *words[at + 1 :]]) for word in words[at].split("|")]


def client_commands() -> list[str]:
    cells = [row[0] for heading in ("Client commands", "Scripts") for row in rows(section(CLI, heading))]
    return [command for cell in cells if re.match(r"`[a-z]", cell) for command in alternatives(cell)]


def split(command: str) -> tuple[tuple[str, ...], set[str]]:
    """The words of a command, and the flags that the table shows with it."""
    words: list[str] = []
    for word in command.split():
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        words.append(word)
    return tuple(words), set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", command))


@pytest.mark.parametrize("command", client_commands())
def test_a_command_of_the_table_has_these_flags(command: str) -> None:
    words, shown = split(command)
    text = help_of(*words)
    usage = re.search(r"^Usage: (.*)$", text, re.MULTILINE)
    assert usage and "<COMMAND>" not in usage[1], f"{command}: {usage and usage[1]}"
    short = {f"-{letter}" for letter in re.findall(r"^ +-(\w), ", text, re.MULTILINE)}
    assert shown <= flags(text) | short, command


def test_every_command_is_in_a_table() -> None:
    shown = {split(command)[0] for command in client_commands()}
    servers = {("serve",), ("server", "start-dev")}
    assert {" ".join(command) for command in set(commands()) - shown - servers} == set()


def test_options_of_every_command() -> None:
    shown = {flag for row in rows(section(CLI, "Options of every client command")) for flag in re.findall(r"--[a-z-]+", row[0])}
    text = help_of("workflow", "count")
    assert flags(text) - EVERYWHERE - {"--query"} == shown
    for row in rows(section(CLI, "Options of every client command")):
        for name in re.findall(r"SEGNO_\w+", row[1]):
            assert name in text, row


def test_flags_of_serve() -> None:
    """Flags, their variables and defaults; those of nodes are in cluster.md."""
    text = help_of("serve")
    table = rows(section(CLI, "`segno serve`")) + rows(CLUSTER.partition("\n## ")[0])
    shown = {flag for row in table for flag in re.findall(r"--[a-z-]+", row[0])}
    assert flags(text) - EVERYWHERE == shown
    entries = re.split(r"^ +(?=(?:-\w, )?--)", text, flags=re.MULTILINE)
    by_flag = {match[1]: entry for entry in entries if (match := re.match(r"(?:-\w, )?(--[a-z-]+)", entry))}
    for row in rows(section(CLI, "`segno serve`")):
        names = re.findall(r"--[a-z-]+", row[0])
        variables = re.findall(r"[A-Z][A-Z_]+", row[1])
        for at, name in enumerate(names):
            found = re.search(r"\[env: (\w+)", by_flag[name])
            assert (found[1] if found else None) == (variables[at] if variables else None), row
            default = re.search(r"\[default: ([^\]]+)\]", by_flag[name])
            if default and len(names) == 1 and re.fullmatch(r"`[^`]+`", row[2]):
                assert default[1] == row[2].strip("`"), row


def test_flags_of_start_dev() -> None:
    text = help_of("server", "start-dev")
    known = flags(text) | {f"-{letter}" for letter in re.findall(r"^ +-(\w), ", text, re.MULTILINE)}
    table = rows(section(CLI, "`segno server start-dev`"))
    shown = {flag for row in table for flag in re.findall(r"--?[a-z][a-z-]*(?<!-)\b(?!\*|-\*)", row[0])}
    assert shown <= known, shown - known
    assert len(shown) > 10
