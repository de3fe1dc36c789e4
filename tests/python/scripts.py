"""Deploying and driving scripts in tests."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowHandle

QUEUE = "segno-flow"


@dataclass
class HttpAnswer:
    status: int
    body: Any


class Flows:
    """The HTTP form of the calls about scripts, on one server."""

    def __init__(self, http: str, namespace: str = "default") -> None:
        self.base = f"http://{http}/api/v1/namespaces/{urllib.parse.quote(namespace)}"

    def call(self, method: str, path: str, body: bytes | None = None, **query: Any) -> HttpAnswer:
        given = {k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items()}
        url = self.base + path + ("?" + urllib.parse.urlencode(given) if given else "")
        request = urllib.request.Request(url, data=body, method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return self._answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return self._answer(error.code, error.headers, error.read())

    @staticmethod
    def _answer(status: int, headers: Any, content: bytes) -> HttpAnswer:
        is_json = headers.get_content_type() == "application/json"
        return HttpAnswer(status, json.loads(content) if is_json else content.decode())

    def deploy(self, source: str, **query: Any) -> dict[str, Any]:
        answer = self.call("POST", "/flows", source.encode(), **query)
        assert answer.status == 200, answer
        return answer.body


async def start(
    client: Client, name: str, workflow_id: str, *args: Any, task_queue: str = QUEUE, **options: Any
) -> WorkflowHandle:
    return await client.start_workflow(
        name, args=list(args), id=workflow_id, task_queue=task_queue, **options
    )


async def event_types(handle: WorkflowHandle) -> list[str]:
    """Names of the events of a run, short."""
    from temporalio.api.enums.v1 import EventType

    history = await handle.fetch_history()
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]


async def eventually(check: Any, seconds: float = 10) -> None:
    """Waits until a condition holds."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not await check():
        assert asyncio.get_running_loop().time() < deadline, "it did not happen in time"
        await asyncio.sleep(0.05)
