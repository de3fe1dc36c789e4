"""A private PostgreSQL and several nodes on it, for the tests of the cluster."""

from __future__ import annotations

import asyncio
import atexit
import functools
import glob
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Awaitable, Callable, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from helpers import NAMESPACE, SegnoServer, free_port

T = TypeVar("T")

# What a client that retries may see while nodes come and go.
TEMPORARY = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}


class Postgres:
    """PostgreSQL in a directory of its own. It refuses to run as root and gets a user then."""

    def __init__(self, inside: Path | None = None) -> None:
        places = os.environ.get("SEGNO_POSTGRES_BIN", "")
        found = [places] if places else sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        found = [place for place in found if Path(place, "initdb").exists()]
        assert found, "no PostgreSQL here: install Debian's package postgresql, or set SEGNO_POSTGRES_BIN"
        self.programs = Path(found[-1])
        self.directory = Path(tempfile.mkdtemp(prefix="segno-cluster-", dir=inside))
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        if self.user:
            os.chown(self.directory, self.user.pw_uid, self.user.pw_gid)
        self.port = free_port()
        self.server: subprocess.Popen[bytes] | None = None
        self._run("initdb", "--username=segno", "--auth=trust", "--encoding=UTF8", "--locale=C",
                  "--no-sync", "-D", str(self.directory / "data"))
        self.start()
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "segno", "segno")

    def _as_user(self) -> dict[str, Any]:
        options: dict[str, Any] = {"cwd": self.directory}
        if self.user:
            options |= {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        return options

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run([self.programs / program, *arguments], capture_output=True, **self._as_user())
        assert done.returncode == 0, f"{program}: {done.stderr.decode()}"

    def query(self, sql: str) -> str:
        """The rows of a statement, with | between columns."""
        command = ["psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p", str(self.port), "-U", "segno", "-d", "segno", "-c", sql]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def start(self) -> None:
        command = [self.programs / "postgres", "-D", self.directory / "data", "-k", self.directory, "-p",
                   str(self.port), "-c", "listen_addresses=127.0.0.1"]
        with (self.directory / "log").open("ab") as log:
            self.server = subprocess.Popen(command, stdout=log, stderr=log, **self._as_user())
        ready = [self.programs / "pg_isready", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + 60
        while subprocess.run(ready, capture_output=True).returncode != 0:
            assert time.monotonic() < deadline and self.server.poll() is None, "PostgreSQL did not start"
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends it at once, as a crash of its machine would."""
        if self.server:
            self.server.send_signal(signal.SIGQUIT)
            self.server.wait()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def url(self) -> str:
        return f"postgres://segno@127.0.0.1:{self.port}/segno"


@functools.cache
def scratch_postgres() -> Postgres:
    """One for all tests of this process."""
    postgres = Postgres()
    atexit.register(postgres.remove)
    return postgres


def scratch_database() -> str:
    """The URL of an empty database."""
    name = f"scratch_{uuid.uuid4().hex}"
    scratch_postgres().query(f"CREATE DATABASE {name}")
    return scratch_postgres().url.removesuffix("segno") + name


class Node(SegnoServer):
    """One node on a database."""

    def __init__(self, postgres: Postgres, name: str, log: Path, lease: int = 6) -> None:
        flags = ["--node-name", name, "--node-listen", f"127.0.0.1:{free_port()}", "--node-lease", str(lease)]
        super().__init__(log=log / f"{name}.log", flags=flags)
        self.name = name
        self.storage = ["--store", postgres.url]

    def cluster(self) -> dict[str, Any]:
        """What the node says of the cluster."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/cluster", timeout=5) as reply:
            return json.load(reply)

    def pause(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGCONT)


class Cluster:
    """Several nodes on one database."""

    def __init__(self, directory: Path, size: int = 3, lease: int = 6) -> None:
        self.postgres = Postgres()
        self.nodes = [Node(self.postgres, f"n{number}", directory, lease) for number in range(1, size + 1)]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.wait_balanced()

    def stop(self) -> None:
        for node in self.nodes:
            if node.process and node.process.poll() is None:
                node.resume()
            node.kill()
        self.postgres.remove()

    def live(self) -> list[Node]:
        return [node for node in self.nodes if node.process and node.process.poll() is None]

    def wait_balanced(self, timeout: float = 30) -> None:
        """Waits until every live node serves its part and knows all others."""
        deadline = time.monotonic() + timeout
        live = self.live()
        while True:
            seen: Any = None
            try:
                seen = [node.cluster() for node in live]
                members = all(len(view["nodes"]) == len(live) for view in seen)
                shards = sum(view["shards_served_here"] for view in seen) == seen[0]["shards"]
                linked = all(other["linked"] in (True, None) for view in seen for other in view["nodes"])
                parts = all(view["shards_served_here"] > 0 for view in seen)
                if members and shards and linked and parts:
                    return
            except OSError:
                pass
            assert time.monotonic() < deadline, f"the nodes did not come together: {seen}"
            time.sleep(0.1)


async def connect(node: Node) -> Client:
    return await Client.connect(node.address, namespace=NAMESPACE)


async def insist(call: Callable[[], Awaitable[T]], timeout: float = 40) -> T:
    """Makes a call again while nodes come and go, as a patient client does."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return await call()
        except RPCError as error:
            if error.status not in TEMPORARY or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
