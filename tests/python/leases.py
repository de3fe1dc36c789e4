"""Segno's own protocol for workers as a client without generated code speaks it: messages come from reflection."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from temporalio.api.common.v1 import GrpcStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollActivityTaskQueueRequest,
    PollActivityTaskQueueResponse,
    RespondActivityTaskCompletedRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

from helpers import NAMESPACE

PACKAGE = "segno.worker.v1"
REFLECTION = "grpc.reflection.v1"


def messages_of(file: descriptor_pb2.FileDescriptorProto, pool: descriptor_pool.DescriptorPool) -> dict[str, Any]:
    """The classes of a file's messages, by their names."""
    pool.Add(file)
    found = [pool.FindMessageTypeByName(f"{file.package}.{message.name}") for message in file.message_type]
    return {message.name: message_factory.GetMessageClass(message) for message in found}


def reflection_messages() -> dict[str, Any]:
    """As much of the reflection protocol as it takes to ask for a symbol's files."""
    file = descriptor_pb2.FileDescriptorProto(name="reflection.proto", package=REFLECTION, syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto
    for name, member, number, kind, label, of in (
        ("Request", "file_containing_symbol", 4, field.TYPE_STRING, field.LABEL_OPTIONAL, None),
        ("Files", "file_descriptor_proto", 1, field.TYPE_BYTES, field.LABEL_REPEATED, None),
        ("Response", "file_descriptor_response", 4, field.TYPE_MESSAGE, field.LABEL_OPTIONAL, f".{REFLECTION}.Files"),
    ):
        made = file.message_type.add(name=name).field.add(name=member, number=number, type=kind, label=label)
        if of:
            made.type_name = of
    return messages_of(file, descriptor_pool.DescriptorPool())


async def protocol(channel: grpc.aio.Channel) -> dict[str, Any]:
    """The messages of the protocol, as the server describes them."""
    asked = reflection_messages()
    call = channel.stream_stream(
        f"/{REFLECTION}.ServerReflection/ServerReflectionInfo",
        request_serializer=asked["Request"].SerializeToString,
        response_deserializer=asked["Response"].FromString,
    )(iter([asked["Request"](file_containing_symbol=f"{PACKAGE}.WorkerService")]))
    files = [
        descriptor_pb2.FileDescriptorProto.FromString(file)
        async for reply in call
        for file in reply.file_descriptor_response.file_descriptor_proto
    ]
    pool = descriptor_pool.DescriptorPool()
    # What the file imports: times and durations, which protobuf brings along.
    for name in ("duration", "timestamp"):
        known = __import__(f"google.protobuf.{name}_pb2", fromlist=["DESCRIPTOR"]).DESCRIPTOR
        pool.AddSerializedFile(known.serialized_pb)
    return messages_of(next(file for file in files if file.package == PACKAGE), pool)


class LeaseClient:
    """Calls of the protocol on one connection."""

    def __init__(self, channel: grpc.aio.Channel, messages: dict[str, Any]) -> None:
        self.channel = channel
        self.messages = messages
        self.workflows = WorkflowServiceStub(channel)

    async def call(self, name: str, **fields: Any) -> Any:
        request = self.messages[f"{name}Request"]
        call = self.channel.unary_unary(
            f"/{PACKAGE}.WorkerService/{name}",
            request_serializer=request.SerializeToString,
            response_deserializer=self.messages[f"{name}Response"].FromString,
        )
        return await call(request(**{"namespace": NAMESPACE, **fields}), timeout=10)

    async def heartbeat(
        self,
        worker: str,
        token: bytes = b"",
        lease: float | None = None,
        bound: list[bytes] = [],
        unbound: list[bytes] = [],
    ) -> Any:
        fields: dict[str, Any] = {"bound_activities": bound, "unbound_activities": unbound}
        if lease is not None:
            fields["lease"] = {"seconds": int(lease), "nanos": int(lease % 1 * 1e9)}
        return await self.call("Heartbeat", worker_instance_key=worker, token=token, **fields)

    async def describe(self, worker: str) -> Any:
        return (await self.call("DescribeWorker", worker_instance_key=worker)).worker

    async def list(self) -> dict[str, Any]:
        return {worker.worker_instance_key: worker for worker in (await self.call("ListWorkers")).workers}

    async def poll_activity(self, queue: str, worker: str, timeout: float = 10.0) -> PollActivityTaskQueueResponse:
        """An activity task; an empty one if there is none in time."""
        request = PollActivityTaskQueueRequest(
            namespace=NAMESPACE, task_queue=TaskQueue(name=queue), identity=f"id-{worker}", worker_instance_key=worker
        )
        return await self.workflows.PollActivityTaskQueue(request, timeout=timeout)

    async def complete(self, task_token: bytes) -> None:
        request = RespondActivityTaskCompletedRequest(namespace=NAMESPACE, task_token=task_token)
        await self.workflows.RespondActivityTaskCompleted(request, timeout=10)

    def detail(self, error: grpc.aio.AioRpcError) -> Any:
        """The message that a refusal carries."""
        trailers = dict(error.trailing_metadata() or ())
        status = GrpcStatus.FromString(trailers["grpc-status-details-bin"])
        assert status.code == error.code().value[0] and status.message == error.details()
        (detail,) = status.details
        name = detail.type_url.rpartition("/")[2]
        assert name.startswith(f"{PACKAGE}."), name
        return self.messages[name.removeprefix(f"{PACKAGE}.")].FromString(detail.value)
