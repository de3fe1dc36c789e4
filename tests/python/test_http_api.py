"""Temporal's HTTP API: the answers of Temporal's own server, and what they leave out."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path
from typing import Any, Iterator

import pytest
from temporalio.client import Client

import http_exchanges
from helpers import SegnoServer, segno_binary
from http_exchanges import EXCHANGES, NS, RECORDING, Exchange, ask, key, post


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegnoServer]:
    """A server of these tests alone: they read all of it."""
    if not segno_binary().exists():
        pytest.skip("needs the binary: set SEGNO_BIN")
    server = SegnoServer(log=tmp_path_factory.mktemp("http") / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


def http_address(server: SegnoServer) -> str:
    return f"127.0.0.1:{server.http_port}"


def raw(server: SegnoServer, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(http_address(server), timeout=60)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


async def test_every_answer_is_that_of_temporals_server(server: SegnoServer) -> None:
    recorded = json.loads(RECORDING.read_text())
    assert [entry["request"] for entry in recorded] == [key(exchange) for exchange in EXCHANGES]
    found = await http_exchanges.answers(server.address, http_address(server))
    wrong = []
    for entry, answer in zip(recorded, found):
        expected = {name: entry[name] for name in answer}
        if "/task-queues/" in entry["request"]:
            # On purpose: a queue that no version has was never routed. The real server gives the year 1 as the time.
            expected["body"] = expected["body"].replace(',"updateTime":"TIME"', "")
        if answer != expected:
            wrong.append(f"{entry['request']}\n  expected {expected}\n  found    {answer}")
    assert not wrong, "\n".join(wrong)


async def test_what_http_starts_grpc_sees(server: SegnoServer) -> None:
    body = {"workflowType": {"name": "T"}, "taskQueue": {"name": "idle"}, "input": [{"a": [1]}]}
    answer = ask(http_address(server), post(f"{NS}/workflows/seen", body))
    assert answer["status"] == 200
    client = await Client.connect(server.address)
    events = [event async for event in client.get_workflow_handle("seen").fetch_history_events()]
    [payload] = events[0].workflow_execution_started_event_attributes.input.payloads
    assert payload.metadata == {"encoding": b"json/plain"}
    assert json.loads(payload.data) == {"a": [1]}


def test_a_body_that_is_too_long_is_refused(server: SegnoServer) -> None:
    status, text = raw(server, "POST", f"{NS}/workflows/long", b" " * (4 * 1024 * 1024 + 1))
    assert (status, json.loads(text)) == (400, {"code": 3, "message": "http: request body too large"})


def test_numbers_keep_their_digits_on_the_way_in(server: SegnoServer) -> None:
    body = '{"workflowType":{"name":"T"},"taskQueue":{"name":"idle"},"input":[9007199254740993, 1e400, -0.0]}'
    status, text = raw(server, "POST", f"{NS}/workflows/digits", body)
    assert status == 200, text
    status, text = raw(server, "GET", f"{NS}/workflows/digits/history?noPayloadShorthand")
    assert '"data":"OTAwNzE5OTI1NDc0MDk5Mw=="' in text


def test_own_paths_come_first(server: SegnoServer) -> None:
    assert raw(server, "GET", "/healthz") == (200, "ok\n")
    assert raw(server, "GET", "/metrics")[1].startswith("# HELP segno_")
    assert raw(server, "GET", f"{NS}/flows")[0] == 200
    # Without nodes that share a database this is Temporal's.
    status, text = raw(server, "GET", "/cluster")
    assert status == 200 and ("nodes" if "--store" in server.storage else "serverVersion") in json.loads(text)


async def test_many_requests_on_one_connection(server: SegnoServer) -> None:
    def run() -> None:
        connection = http.client.HTTPConnection(http_address(server), timeout=60)
        for _ in range(50):
            connection.request("GET", "/api/v1/system-info")
            response = connection.getresponse()
            assert response.status == 200
            response.read()
        connection.close()

    await asyncio.gather(*(asyncio.to_thread(run) for _ in range(8)))


def test_the_recording_can_be_told_from_another() -> None:
    """Otherwise the first test could not fail."""
    assert http_exchanges.normalised('{"a":1}') != http_exchanges.normalised('{"a":2}')
    assert http_exchanges.normalised('{"a":1,"b":2}') != http_exchanges.normalised('{"b":2,"a":1}')
    assert key(Exchange("GET", "/a")) != key(Exchange("POST", "/a"))
    assert Path(RECORDING).exists()


def test_programs_see_that_pages_are_served(server: SegnoServer) -> None:
    """By the address that the namespaces have in Temporal's pages."""
    for accept in ("*/*", "text/html"):
        status, text = raw(server, "GET", "/namespaces", Accept=accept)
        assert status == 200 and "<h1>Namespaces</h1>" in text, text[:200]
    assert raw(server, "GET", "/namespaces/nothing")[0] == 404
