"""Nexus over HTTP: requests of the standard library, and a worker that speaks gRPC."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, AsyncIterator, Awaitable, Callable

from temporalio.api.common.v1 import Payload
from temporalio.api.nexus.v1 import Response, StartOperationResponse
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollNexusTaskQueueRequest,
    PollNexusTaskQueueResponse,
    RespondNexusTaskCompletedRequest,
    RespondNexusTaskFailedRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

from helpers import NAMESPACE, Env

JSON = {"Content-Type": "application/json"}
NEW_FORM = {"temporal-nexus-failure-support": "true"}


@dataclass
class Reply:
    """A response; names of headers are in lower case, values of the same name are joined."""

    status: int
    headers: dict[str, str]
    body: bytes

    def failure(self) -> Any:
        """The failure in the body."""
        assert self.headers["content-type"] == "application/json", self
        return json.loads(self.body)


def send(
    address: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    method: str = "POST",
    timeout: float = 20,
) -> Reply:
    """Sends a request to the HTTP port of a server."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        names = {name.lower() for name, _ in response.getheaders()}
        joined = {name: ", ".join(response.headers.get_all(name) or []) for name in names}
        return Reply(response.status, joined, response.read())
    finally:
        connection.close()


def error(kind: str, message: str, **details: Any) -> dict[str, Any]:
    """The failure that an error of the server itself is."""
    named = {"type": kind, **details}
    return {"message": message, "metadata": {"type": "nexus.HandlerError"}, "details": named}


def sync(payload: Payload | None = None, **fields: Any) -> Response:
    """The operation has completed."""
    payload = payload or Payload(metadata={"encoding": b"json/plain"}, data=b'"res"')
    success = StartOperationResponse.Sync(payload=payload, **fields)
    return Response(start_operation=StartOperationResponse(sync_success=success))


Respond = Callable[["Handler", bytes], Awaitable[None]]


@dataclass
class Handler:
    """A handler that the test itself is, and whose queue is called over HTTP."""

    stub: WorkflowServiceStub
    http: str
    queue: str
    namespace: str = NAMESPACE
    service: str = "svc/op"
    tasks: list[PollNexusTaskQueueResponse] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The path of the operation."""
        return f"/namespaces/{self.namespace}/task-queues/{self.queue}/nexus-services/{self.service}"

    async def poll(self, timeout: float = 20) -> PollNexusTaskQueueResponse:
        request = PollNexusTaskQueueRequest(
            namespace=self.namespace, task_queue=TaskQueue(name=self.queue), identity="raw"
        )
        task = await self.stub.PollNexusTaskQueue(request, timeout=timeout)
        self.tasks.append(task)
        return task

    async def complete(self, token: bytes, response: Response) -> None:
        request = RespondNexusTaskCompletedRequest(
            namespace=self.namespace, task_token=token, response=response, identity="raw"
        )
        await self.stub.RespondNexusTaskCompleted(request, timeout=10)

    async def fail(self, token: bytes, **fields: Any) -> None:
        request = RespondNexusTaskFailedRequest(
            namespace=self.namespace, task_token=token, identity="raw", **fields
        )
        await self.stub.RespondNexusTaskFailed(request, timeout=10)

    async def send(
        self, path: str = "", headers: dict[str, str] | None = None, body: bytes = b"", **options: Any
    ) -> Reply:
        """Sends a request that no worker answers."""
        return await asyncio.to_thread(send, self.http, path or self.path, headers, body, **options)

    async def call(
        self,
        respond: Response | Respond,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
        path: str = "",
    ) -> Reply:
        """Sends a request, and answers its task."""
        sending = asyncio.create_task(self.send(path, headers, body))
        task = await self.poll()
        assert task.task_token
        if isinstance(respond, Response):
            await self.complete(task.task_token, respond)
        else:
            await respond(self, task.task_token)
        return await sending

    @property
    def request(self) -> Any:
        """The request of the last task."""
        return self.tasks[-1].request


@asynccontextmanager
async def handling(env: Env, http: str) -> AsyncIterator[Handler]:
    """A handler at the queue of a test."""
    async with env.raw() as stub:
        yield Handler(stub, http, env.task_queue, env.client.namespace)
