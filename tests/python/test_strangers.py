"""What an unknown caller gets from a server with authentication: a refusal, early, and no place of a known one."""

from __future__ import annotations

import http.client
import http.server
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from temporalio.api.workflowservice.v1 import ListNamespacesRequest

from bounded import MIB, memory
from helpers import SegnoServer
from test_security import EXHAUSTED, SERVICE, UNKNOWN_CALLER, Guarded, Issuer, call, guarded  # noqa: F401
from wire import INFO, PREFACE, SETTINGS, Closed, Wire, frame, info

pytestmark = pytest.mark.timeout(120)

UNAUTHENTICATED = 16


# ---- early refusal


def test_strangers_are_refused_before_their_request_is_there(guarded: Callable[..., Guarded], tmp_path: Path) -> None:  # noqa: F811
    issuer = Issuer(tmp_path / "jwks.json")
    issuer.add("ec", ec.generate_private_key(ec.SECP256R1()), "ES256")
    other = Issuer(tmp_path / "other.json")
    other.add("ec", ec.generate_private_key(ec.SECP256R1()), "ES256")
    log = tmp_path / "audit.jsonl"
    server = guarded(
        "--jwks", str(issuer.path), "--jwt-issuer", "issuer", "--jwt-audience", "segno", "--audit-log", str(log)
    )
    with Wire(server.address) as wire:
        shown = [
            (),
            (("authorization", "Bearer segno_nobody"),),
            (("authorization", "Basic x"),),
            # Whether a token is good takes a while to find out; the request is not waited for either.
            (("authorization", f"Bearer {other.token('ec', permissions=['*:admin'])}"),),
        ]
        for more in shown:
            for method in ("StartWorkflowExecution", "RegisterNamespace", "NoSuchMethod"):
                stream = wire.open(method, *more)
                answer = wire.answer(stream, timeout=5)
                assert answer.status == UNAUTHENTICATED, (more, method, answer.text)
        # A known caller goes on on the same connection.
        stream = wire.open("StartWorkflowExecution", ("authorization", f"Bearer {server.admin}"))
        wire.upload(stream, b"\0\0\0\0\0")
        assert wire.answer(stream).status == 3
        # What every caller may ask is answered.
        info(wire.call("GetSystemInfo", INFO))
    until = time.monotonic() + 10
    refused: list[Any] = []
    while len(refused) < 12 and time.monotonic() < until:
        time.sleep(0.1)
        refused = [json.loads(line) for line in log.read_text().splitlines()]
        refused = [line["method"] for line in refused if line["outcome"] == "Unauthenticated"]
    assert sorted(refused) == sorted(["StartWorkflowExecution", "RegisterNamespace", "NoSuchMethod"] * 4)


def test_what_strangers_send_is_not_kept(guarded: Callable[..., Guarded]) -> None:  # noqa: F811
    server = guarded()
    assert server.server.process
    before = memory(server.server)
    wires = [Wire(server.address) for _ in range(40)]
    body = b"\0\0\x3f\xff\xff" + bytes(900_000)
    for wire in wires:
        stream = wire.open("StartWorkflowExecution")
        try:
            wire.upload(stream, body, end=False)
        except (Closed, OSError, TimeoutError):
            pass
    grown = memory(server.server) - before
    for wire in wires:
        wire.socket.close()
    assert grown < 30 * MIB, f"{grown / MIB:.0f} MiB for {40 * 0.9:.0f} MiB that were not asked for"


def test_strangers_make_room(guarded: Callable[..., Guarded]) -> None:  # noqa: F811
    """Connections without a known caller are the first to go, however complete their handshake is."""
    server = guarded("--max-connections", "20")
    authorization = ("authorization", f"Bearer {server.admin}")
    request = ListNamespacesRequest()
    with Wire(server.address) as known:
        assert known.call("ListNamespaces", request, authorization).status == 0
        strangers = []
        for _ in range(60):
            stranger = Wire(server.address)
            strangers.append(stranger)
            try:
                info(stranger.call("GetSystemInfo", INFO, timeout=2))
            except (Closed, OSError, TimeoutError):
                pass
        # Who comes now takes the place of a stranger.
        with Wire(server.address) as late:
            assert late.call("ListNamespaces", request, authorization).status == 0
        # Who was there is still there.
        assert known.call("ListNamespaces", request, authorization).status == 0
        for stranger in strangers:
            stranger.socket.close()


# ---- the HTTP port


def test_strangers_do_not_cut_long_polls_on_the_http_port(guarded: Callable[..., Guarded]) -> None:  # noqa: F811
    """A known caller's requests stay, however many connections strangers make; probes get through all the same."""
    server = guarded()
    authorization = {"Authorization": f"Bearer {server.admin}"}
    port = server.server.http_port
    workflows = "/api/v1/namespaces/default/workflows"
    start = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    body = json.dumps({"workflowType": {"name": "Any"}, "taskQueue": {"name": "q"}})
    start.request("POST", f"{workflows}/w", body, {**authorization, "Content-Type": "application/json"})
    assert start.getresponse().status == 200
    start.close()
    polls = []
    for _ in range(50):
        poll = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        wait = "waitNewEvent=true&historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT"
        poll.request("GET", f"{workflows}/w/history?{wait}", headers=authorization)
        polls.append(poll)
    time.sleep(1)
    strangers = []
    for number in range(300):
        stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
        strangers.append(stranger)
        if number % 3 == 1:
            # A request that never ends.
            stranger.sendall(b"POST /ui/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        if number % 50 == 0:
            assert ask(server.server, "/healthz", "localhost") == 200
    late = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    late.request("POST", f"{workflows}/w/terminate", "{}", {**authorization, "Content-Type": "application/json"})
    assert late.getresponse().status == 200, "who is known is served beside strangers"
    answers = [poll.getresponse() for poll in polls]
    assert [answer.status for answer in answers] == [200] * 50
    assert all(b"TERMINATED" in answer.read().upper() for answer in answers)
    for stranger in strangers:
        stranger.close()


def ask(server: SegnoServer, path: str, host: str | None, method: str = "GET", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[SegnoServer]:
    server = SegnoServer(log=tmp_path / "server.log")
    server.start()
    yield server
    server.kill()


def test_names_that_lead_here_by_dns_rebinding(open_server: SegnoServer) -> None:
    paths = ["/api/v1/namespaces", "/metrics", "/ui", "/api/v1/namespaces/default/flows"]
    for path in paths:
        for host in ("evil.example", "evil.example:8233", "127.0.0.1.evil.example", "localhost.evil.example"):
            assert ask(open_server, path, host) == 421, (path, host)
        for host in ("127.0.0.1", "localhost:8233", "[::1]:8233", "segno.localhost"):
            assert ask(open_server, path, host) in (200, 303, 302, 307), (path, host)
    assert ask(open_server, "/healthz", "probe.example") == 200


def test_failed_logins_are_written_down(guarded: Callable[..., Guarded], tmp_path: Path) -> None:  # noqa: F811
    log = tmp_path / "audit.jsonl"
    server = guarded("--audit-log", str(log))
    connection = http.client.HTTPConnection("127.0.0.1", server.server.http_port, timeout=10)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/ui/login", "key=segno_guess_of_a_stranger&next=/", form)
    connection.getresponse().read()
    connection.request("GET", "/api/v1/namespaces")
    assert connection.getresponse().status == 401
    until = time.monotonic() + 10
    seen: list[Any] = []
    while len(seen) < 2 and time.monotonic() < until:
        time.sleep(0.1)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        seen = [(line["method"], line["caller"], line["outcome"]) for line in lines]
    assert seen == [("POST /ui/login", None, "Unauthenticated"), ("GET /api/v1/namespaces", None, "Unauthenticated")]
    assert "guess_of_a_stranger" not in log.read_text() + server.server.log.read_text()


# ---- TLS


def test_connections_end_with_close_notify(guarded: Callable[..., Guarded]) -> None:  # noqa: F811
    """A peer can tell an end from a cut."""
    server = guarded(tls=True)
    context = ssl.create_default_context(cafile=str(server.certificates / "ca.pem"))
    context.set_alpn_protocols(["h2"])
    plain = socket.create_connection(("127.0.0.1", server.server.port), timeout=10)
    # A cut would be an SSLEOFError.
    with context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as stream:
        # DATA on stream 0 is a connection error.
        stream.sendall(PREFACE + frame(SETTINGS) + frame(0, payload=b"x"))
        heard = b""
        while part := stream.recv(65536):
            heard += part
    assert b"\x07" in heard, "GOAWAY"


# ---- key sets by URL


class KeySets(http.server.BaseHTTPRequestHandler):
    """Serves the file of an issuer."""

    path_of_file: Path
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        content = self.path_of_file.read_bytes() if self.path_of_file.exists() else b""
        self.send_response(200 if content and self.path == "/keys" else 503)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def test_key_sets_by_url(guarded: Callable[..., Guarded], tmp_path: Path) -> None:  # noqa: F811
    issuer = Issuer(tmp_path / "jwks.json")
    issuer.add("one", ec.generate_private_key(ec.SECP256R1()), "ES256")
    handler = type("Handler", (KeySets,), {"path_of_file": issuer.path, "asked": 0})
    source = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=source.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{source.server_address[1]}/keys"
    server = guarded("--jwks", url, "--jwt-issuer", "issuer", "--jwt-audience", "segno")
    read = ListNamespacesRequest().SerializeToString()
    good = {"permissions": ["*:read"]}
    try:
        with server.channel() as channel:

            def code(token: str) -> grpc.StatusCode:
                return call(channel, f"/{SERVICE}/ListNamespaces", read, token)

            for number in range(20):
                assert code(issuer.token("one", jti=str(number), **good)) == grpc.StatusCode.OK
            assert handler.asked <= 2, "keys are kept"
            # A key that is new is fetched when a token names it; a flood of unknown names does not become a flood there.
            time.sleep(5.5)
            issuer.add("two", ec.generate_private_key(ec.SECP256R1()), "ES256")
            assert code(issuer.token("two", **good)) == grpc.StatusCode.OK
            asked = handler.asked
            stranger = Issuer(tmp_path / "stranger.json")
            for number in range(20):
                stranger.add(f"x{number}", ec.generate_private_key(ec.SECP256R1()), "ES256")
                assert code(stranger.token(f"x{number}", **good)) in (UNKNOWN_CALLER, EXHAUSTED)
            assert handler.asked <= asked + 2
            # While the source is away, keys that are known stay known.
            issuer.path.rename(tmp_path / "away.json")
            assert code(issuer.token("two", jti="away", **good)) == grpc.StatusCode.OK
    finally:
        source.shutdown()
        source.server_close()
