"""Executes what a page asks for, in a scratch directory, as a reader would in a shell.

Commands are taken as they are written. Only ports differ: the server of a page listens on free ones, which its commands learn from the
environment and its files by replacement of 127.0.0.1:7233 and 127.0.0.1:8233.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from pages import ROOT, Block, Page

sys.path.append(str(ROOT / "tests/python"))
from nodes import Postgres  # noqa: E402

COMMAND_SECONDS_MAX = 60
# With a tool that first downloads and compiles.
TOOL_SECONDS_MAX = 600
READY_SECONDS_MAX = 20
LOG_SECONDS_MAX = 10
# Exit codes of a shell whose command ended by SIGABRT or SIGSEGV.
CRASHES = (134, 139)

# What differs from run to run: ids, times, spans, and the width of columns, which follows from them.
VARIABLE = [
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b(now|for \d+ ?\w+|\d+ (ms|s|min|h|d|millisecond|second|minute|hour|day)s? ago|in \d+ \w+)\b"), "WHEN"),
    (re.compile(r"[ \t]+"), " "),
]


class Failed(Exception):
    """A page does not work as it is written."""


def segno_binary() -> Path:
    """The binary that pages call `segno`."""
    return Path(os.environ.get("SEGNO_BIN", ROOT / "target/debug/segno")).resolve()


def normal(text: str) -> list[str]:
    """Lines without what differs from run to run; empty lines do not count."""
    lines = []
    for line in text.splitlines():
        for pattern, name in VARIABLE:
            line = pattern.sub(name, line)
        if line.strip():
            lines.append(line.strip())
    return lines


def matches(shown: list[str], actual: list[str]) -> bool:
    """True if the lines are the same; a line `...` stands for any lines."""
    if not shown:
        return not actual
    if shown[0] == "...":
        return any(matches(shown[1:], actual[at:]) for at in range(len(actual) + 1))
    return bool(actual) and shown[0] == actual[0] and matches(shown[1:], actual[1:])


def free_port() -> int:
    """A TCP port below the ephemeral ones that is free right now."""
    low, high = (int(part) for part in os.environ.get("SEGNO_DOCS_PORTS", "20000-30000").split("-"))
    while True:
        port = random.randint(low, high)
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Runner:
    """Runs the blocks of one page; `close` ends what it left in the background."""

    def __init__(self, page: Page, place: Path) -> None:
        self.page = page
        self.place = place
        self.port, self.http_port = free_port(), free_port()
        self.background: list[subprocess.Popen[bytes]] = []
        self.log = place.parent / f"{place.name}.log"
        self.log.touch()
        self.state = place.parent / f"{place.name}.state"
        self.last_output = ""
        self.postgres: Postgres | None = None
        self.databases: list[tuple[str, str]] = []
        tools = place.parent / f"{place.name}.bin"
        tools.mkdir()
        (tools / "segno").symlink_to(segno_binary())
        # The virtual environment is what a reader has installed with pip.
        path = [str(tools), str(Path(sys.executable).parent), os.environ["PATH"]]
        hidden = ("SEGNO_", "TEMPORAL_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment |= {
            "PATH": ":".join(path),
            "XDG_CONFIG_HOME": str(place / ".config"),
            "XDG_DATA_HOME": str(place / ".data"),
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
            "DOCS_ROOT": str(ROOT),
            "DOCS_TARGET": os.environ.get("DOCS_TARGET", str(ROOT / "target")),
            "DOCS_NODE_MODULES": os.environ.get("DOCS_NODE_MODULES", str(ROOT / "tests/typescript/node_modules")),
            "SEGNO_PORT": str(self.port),
            "SEGNO_HTTP_PORT": str(self.http_port),
            "SEGNO_ADDRESS": f"127.0.0.1:{self.port}",
            "TEMPORAL_ADDRESS": f"127.0.0.1:{self.port}",
        }
        # For other servers of a page.
        for number in (1, 2, 3, 4, 5, 6):
            self.environment[f"DOCS_PORT_{number}"] = str(free_port())

    def replaced(self, text: str) -> str:
        """The text with this run's ports and places."""
        for what, by in self.databases + self.page.replacements:
            text = text.replace(what, re.sub(r"\$(DOCS_\w+)", lambda name: self.environment[name[1]], by))
        for host in ("127.0.0.1", "localhost"):
            text = text.replace(f"{host}:7233", f"{host}:{self.port}")
            text = text.replace(f"{host}:8233", f"{host}:{self.http_port}")
        return text

    def run(self) -> None:
        """Runs all blocks; raises Failed with everything that did not go as the page says."""
        problems = []
        self.make_databases()
        for block in self.page.blocks:
            try:
                self.block(block)
            except Failed as failed:
                problems.append(f"{self.page.name}:{block.line}: {failed}")
        if problems:
            log = self.log.read_text(errors="replace")[-2000:]
            raise Failed("\n".join([*problems, f"in the background: {log}"]))

    def make_databases(self) -> None:
        """A PostgreSQL with one empty database for each that the page names."""
        for number, shown in enumerate(self.page.databases):
            self.postgres = self.postgres or Postgres()
            name = f"page{number}"
            self.postgres.query(f"CREATE DATABASE {name}")
            self.databases.append((shown, f"{self.postgres.url.removesuffix('/segno')}/{name}"))

    def block(self, block: Block) -> None:
        text = self.replaced(block.text)
        tool = block.value("needs")
        if tool and tool not in os.environ.get("DOCS_TOOLS", "").split(","):
            return
        if name := block.value("file"):
            target = self.place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        elif block.has("background"):
            self.start(text)
        elif block.language == "console" and block.has("run"):
            problems = [problem for step in transcript(text) if (problem := self.compare(*step))]
            if problems:
                raise Failed("\n".join(problems))
        elif block.has("run"):
            code = self.shell(text, TOOL_SECONDS_MAX if tool else COMMAND_SECONDS_MAX)
            wanted = int(block.value("exit") or 0)
            if code != wanted:
                raise Failed(f"exits with {code}, not {wanted}:\n{text}{self.last_output}")
        elif block.has("output"):
            if not contains(normal(self.last_output), normal(text)):
                raise Failed(f"the page shows:\n{text}\nthe command printed:\n{self.last_output}")
        elif block.has("log"):
            self.await_log(text)

    def compare(self, command: str, shown: str) -> str | None:
        """Runs one command and says what is wrong. Where output is shown, that is the criterion; elsewhere it must succeed."""
        code = self.shell(command)
        # With any server, Temporal's Python SDK now and then crashes when the interpreter ends (docs/guides/troubleshooting.md).
        if code in CRASHES and command.startswith("python "):
            code = self.shell(command)
        if shown and not matches(normal(shown), normal(self.last_output)):
            return f"$ {command}\nthe page shows:\n{shown}\nthe command printed:\n{self.last_output}"
        if not shown and code != 0:
            return f"$ {command}\nexits with {code}:\n{self.last_output}"
        return None

    def shell(self, script: str, seconds_max: int = COMMAND_SECONDS_MAX) -> int:
        """Runs commands with the variables and the directory that earlier ones left; returns the exit code."""
        before = f'. "{self.state}"; ' if self.state.exists() else ""
        after = f'{{ export -p; echo "cd \\"$PWD\\""; }} > "{self.state}"'
        whole = f"set -eo pipefail\n{before}\n{script}\n{after}\n"
        process = subprocess.Popen(
            ["bash", "-c", whole],
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise Failed(f"takes more than {seconds_max} s:\n{script}{output.decode()}") from None
        self.last_output = output.decode(errors="replace")
        return process.returncode

    def start(self, script: str) -> None:
        """Leaves commands running; returns when a server among them answers."""
        before = f'. "{self.state}"; ' if self.state.exists() else ""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"{before}\n{script}"],
                cwd=self.place,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.background.append(process)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while "segno serve" in script and not self.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the server did not start:\n{script}")
            time.sleep(0.05)

    def is_ready(self) -> bool:
        """True if the server of this page is there; one with TLS refuses the request."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/healthz", timeout=2) as reply:
                return reply.status == 200
        except (http.client.HTTPException, urllib.error.HTTPError):
            return True
        except OSError:
            return False

    def await_log(self, text: str) -> None:
        """Waits until the processes in the background have printed these lines, in this order."""
        deadline = time.monotonic() + LOG_SECONDS_MAX
        while not contains(normal(self.log.read_text(errors="replace")), normal(text)):
            if time.monotonic() > deadline:
                raise Failed(f"nothing in the background printed:\n{text}")
            time.sleep(0.1)

    def close(self) -> None:
        """Ends what is in the background, each with its children."""
        for process in self.background:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        if self.postgres:
            self.postgres.remove()


def transcript(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output shown after it."""
    steps: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], ""))
            continue
        command, shown = steps.pop()
        if line.startswith("> ") and not shown:
            steps.append((f"{command}\n{line[2:]}", ""))
        else:
            steps.append((command, f"{shown}{line}\n"))
    return steps


def contains(actual: list[str], shown: list[str]) -> bool:
    """True if the lines follow each other somewhere in the output."""
    return any(actual[at : at + len(shown)] == shown for at in range(len(actual) - len(shown) + 1))
