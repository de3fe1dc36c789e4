"""Fixtures of the end-to-end tests.

The tests run against the server at $SEGNO_ADDRESS (or --segno-address); without one, they start
the binary $SEGNO_BIN (by default target/debug/segno of this checkout) with an in-memory store.
With `-n 3` several files are tested at the same time, each process with servers of its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, AsyncIterator, Iterator

import pytest
import pytest_asyncio
from temporalio.client import Client

from helpers import NAMESPACE, Env, SegnoServer, is_segno, segno_binary
from nexus import Nexus, prepare


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--segno-address",
        default=os.environ.get("SEGNO_ADDRESS"),
        help="host:port of a running server (default: $SEGNO_ADDRESS; else start $SEGNO_BIN)",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`: the tests of a file follow each other in one process, those of liveness are spread.

    Tests of liveness wait nearly all of the time and depend on nothing of each other.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if nodeid.startswith("test_liveness") else nodeid.split("::")[0]

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """host:port of the server under test."""
    given = request.config.getoption("--segno-address")
    if given:
        yield given
        return
    if not segno_binary().exists():
        pytest.exit(f"no server: set SEGNO_ADDRESS, or build {segno_binary()}", returncode=3)
    server = SegnoServer(log=tmp_path_factory.mktemp("segno") / "server.log")
    print(f"segno log: {server.log}")
    server.start()
    try:
        yield server.address
    finally:
        server.kill()


@pytest_asyncio.fixture
async def env(address: str, request: pytest.FixtureRequest) -> AsyncIterator[Env]:
    """A client and unique names for one test."""
    client = await Client.connect(address, namespace=NAMESPACE)
    name = re.sub(r"[^A-Za-z0-9_]+", "-", request.node.name.removeprefix("test_"))
    yield Env(address=address, client=client, name=name)


@pytest.fixture
def segno_only(address: str) -> None:
    """Skips a test that Temporal's own server does not pass."""
    if not is_segno(address):
        pytest.skip("Temporal's own server does otherwise")


@pytest_asyncio.fixture
async def nexus(env: Env) -> Nexus:
    """A caller, a handler in another namespace, and an endpoint."""
    return await prepare(env)


@pytest.fixture
def durable_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SegnoServer]:
    """A server of this test's own, with a data directory, not started yet."""
    if request.config.getoption("--segno-address"):
        pytest.skip("needs to kill and restart the server: not with SEGNO_ADDRESS, only SEGNO_BIN")
    if not segno_binary().exists():
        pytest.exit(f"no server: set SEGNO_ADDRESS, or build {segno_binary()}", returncode=3)
    server = SegnoServer(log=tmp_path / "server.log", data_dir=tmp_path / "data")
    try:
        yield server
    finally:
        server.kill()
