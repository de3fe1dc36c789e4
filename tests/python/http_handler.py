"""A server outside: answers requests over HTTP as a test tells it to, and keeps them."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Callable
from urllib.parse import parse_qs, urlsplit


@dataclass
class Request:
    """A request as it came; names of headers are in lower case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """A status, headers and a body, which becomes JSON unless it is bytes."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)


class OutsideServer:
    """Answers each path as `answers` says: an answer, or a function of the request. Other paths are not found."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers: dict[str, Answer | Callable[[Request], Answer]] = {}
        outside = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                url = urlsplit(self.path)
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", 0)))
                request = Request(self.command, url.path, parse_qs(url.query), headers, body)
                outside.requests.append(request)
                answer = outside.answers.get(url.path, Answer(404))
                self._send(answer(request) if callable(answer) else answer)

            do_GET = do_POST

            def _send(self, answer: Answer) -> None:
                is_bytes = isinstance(answer.body, bytes)
                body = answer.body if is_bytes else json.dumps(answer.body).encode()
                headers = answer.headers if is_bytes else {"Content-Type": "application/json"} | answer.headers
                self.send_response(answer.status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def at(self, path: str) -> list[Request]:
        """The requests to a path."""
        return [request for request in self.requests if request.path == path]

    def __enter__(self) -> OutsideServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
