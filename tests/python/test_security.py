"""TLS, API keys, tokens, certificates, roles, the audit log: what a caller may do, and what it is told if it may not."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable, Iterator

import grpc
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from temporalio import activity, workflow
from temporalio.api.operatorservice.v1 import request_response_pb2 as operator_messages
from temporalio.api.operatorservice.v1.service_pb2_grpc import OperatorServiceStub
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetSystemInfoRequest,
    GetWorkflowExecutionHistoryRequest,
    ListNamespacesRequest,
    StartWorkflowExecutionRequest,
)
from temporalio.api.workflowservice.v1 import request_response_pb2 as workflow_messages
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub
from temporalio.client import Client, TLSConfig
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from helpers import SegnoServer, free_port, segno_binary

pytestmark = pytest.mark.timeout(120)

SERVICE = "temporal.api.workflowservice.v1.WorkflowService"
DENIED = grpc.StatusCode.PERMISSION_DENIED
UNKNOWN_CALLER = grpc.StatusCode.UNAUTHENTICATED
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def segno(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [str(segno_binary()), *arguments], capture_output=True, text=True, timeout=60, env=environment
    )


def done(*arguments: str, **variables: str) -> str:
    result = segno(*arguments, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


class Guarded:
    """A server that asks who calls, and its admin key."""

    def __init__(self, directory: Path, *flags: str, tls: bool = False, data: bool = False) -> None:
        self.directory = directory
        key_file = directory / "admin.key"
        flags = ("--admin-key-file", str(key_file), *flags)
        self.certificates = directory / "tls"
        self.is_tls = tls
        if tls:
            done("tls", "init", "--dir", str(self.certificates), "--client", "ann", "--client", "bob")
            flags += ("--tls-cert", str(self.certificates / "server.pem"))
            flags += ("--tls-key", str(self.certificates / "server.key"))
        self.server = SegnoServer(
            log=directory / "server.log", data_dir=directory / "data" if data else None, flags=flags
        )
        self.server.is_ready = self.answers  # type: ignore[method-assign]
        self.start()
        self.admin = key_file.read_text().strip()

    def start(self) -> None:
        self.server.start()

    @property
    def address(self) -> str:
        return self.server.address

    def credentials(self, client: str | None = None) -> grpc.ChannelCredentials:
        root = (self.certificates / "ca.pem").read_bytes()
        if client is None:
            return grpc.ssl_channel_credentials(root)
        key = (self.certificates / f"{client}.key").read_bytes()
        return grpc.ssl_channel_credentials(root, key, (self.certificates / f"{client}.pem").read_bytes())

    def channel(self, client: str | None = None) -> grpc.Channel:
        if self.is_tls:
            return grpc.secure_channel(self.address, self.credentials(client))
        return grpc.insecure_channel(self.address)

    def answers(self) -> bool:
        """Whether a server listens. One that wants certificates answers no client without."""
        import socket

        try:
            socket.create_connection(("127.0.0.1", self.server.port), timeout=1).close()
            return "ready" in self.server.log.read_text()
        except OSError:
            return False

    def segno(self, *arguments: str, key: str | None = None) -> subprocess.CompletedProcess[str]:
        flags = ["--address", self.address]
        if self.is_tls:
            flags += ["--tls-ca-path", str(self.certificates / "ca.pem")]
        return segno(*arguments, *flags, SEGNO_API_KEY=key or self.admin)

    def key(self, name: str, *flags: str) -> str:
        made = self.segno("key", "create", name, *flags)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Callable[..., Guarded]]:
    made: list[Guarded] = []

    def make(*flags: str, **options: Any) -> Guarded:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Guarded(directory, *flags, **options))
        return made[-1]

    yield make
    for server in made:
        server.server.kill()


def call(channel: grpc.Channel, path: str, message: bytes, key: str | None) -> grpc.StatusCode:
    metadata = [("authorization", f"Bearer {key}")] if key else []
    method = channel.unary_unary(path, lambda raw: raw, lambda raw: raw)
    try:
        method(message, timeout=1.5, metadata=metadata)
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        # Features that are turned off are refused with the same code and other words.
        if error.code() == DENIED and not error.details().startswith("Request unauthorized: "):
            return grpc.StatusCode.UNIMPLEMENTED
        return error.code()


# ---- every call with every role


def needed(service: str, method: str) -> tuple[str, str]:
    """Where a role is needed and which one, as Temporal's authorizer and docs/guides/security.md say it."""
    if method == "GetSystemInfo":
        return "every caller", ""
    if method in ("GetClusterInfo", "GetSearchAttributes") or re.fullmatch("(Get|List)NexusEndpoints?", method):
        return "known", ""
    if re.search(r"NexusEndpoint|RemoteCluster", method) or method in ("ListNamespaces", "ListClusters"):
        return "server", "read" if re.match("List|Get", method) else "admin"
    if re.fullmatch(r"(Add|Remove)SearchAttributes|(Register|Update|Deprecate|Delete)Namespace", method):
        return "namespace", "admin"
    if re.fullmatch(r"(Respond|Record)ActivityTask.*", method):
        return "namespace", "work or write"
    if re.fullmatch(
        r"Poll(Workflow|Activity|Nexus)TaskQueue|Respond.*|RecordWorkerHeartbeat|ShutdownWorker|ResetStickyTaskQueue"
        r"|FetchWorkerConfig",
        method,
    ):
        return "namespace", "work"
    if re.match(r"Describe|List|Count|Get|Scan|Query|Validate|Poll", method):
        return "namespace", "read"
    return "namespace", "write"


INCLUDES = {
    "read": {"read"},
    "work": {"read", "work", "work or write"},
    "write": {"read", "write", "work or write"},
    "admin": {"read", "work", "write", "work or write", "admin"},
}


def methods(channel: grpc.Channel) -> list[tuple[str, str, Any]]:
    """Every call of Temporal's services with the type of its request."""
    found = []
    for name, stub, messages in (
        ("workflowservice.v1.WorkflowService", WorkflowServiceStub(channel), workflow_messages),
        ("operatorservice.v1.OperatorService", OperatorServiceStub(channel), operator_messages),
    ):
        for method in vars(stub):
            found.append((f"temporal.api.{name}", method, getattr(messages, f"{method}Request").DESCRIPTOR))
    return found


def encoded(input_type: Any, namespace: str) -> bytes:
    """A request that names the namespace and nothing else."""
    field = input_type.fields_by_name.get("namespace")
    if field is None:
        return b""
    value = namespace.encode()
    key = field.number << 3 | 2
    head = bytes([key]) if key < 128 else bytes([key & 127 | 128, key >> 7])
    return head + bytes([len(value)]) + value


def test_every_call_with_every_role(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    assert server.segno("namespace", "create", "mine").returncode == 0
    assert server.segno("namespace", "create", "other").returncode == 0
    keys = {role: server.key(f"mine-{role}", "--grant", f"mine:{role}") for role in INCLUDES}
    keys |= {f"server {role}": server.key(f"all-{role}", "--grant", f"*:{role}") for role in INCLUDES}
    keys["elsewhere"] = server.key("elsewhere", "--grant", "other:admin")
    wrong: list[str] = []
    with server.channel() as channel:
        calls = methods(channel)
        assert len(calls) >= 130
        # What removes the namespace comes last.
        calls.sort(key=lambda found: found[1] in ("DeprecateNamespace", "DeleteNamespace"))
        for service, method, input_type in calls:
            scope, role = needed(service, method)
            path, message = f"/{service}/{method}", encoded(input_type, "mine")

            def expect(who: str, key: str | None, is_allowed: bool, refusal: grpc.StatusCode) -> None:
                code = call(channel, path, message, key)
                # After some wrong keys an address hears that it has to wait.
                code = UNKNOWN_CALLER if code == EXHAUSTED else code
                refused = code in (DENIED, UNKNOWN_CALLER)
                if refused == is_allowed or (refused and code != refusal):
                    wrong.append(f"{method} by {who}: {code}")

            expect("no key", None, scope == "every caller", UNKNOWN_CALLER)
            expect("a stranger", "segno_unknown", scope == "every caller", UNKNOWN_CALLER)
            expect("elsewhere", keys["elsewhere"], scope in ("every caller", "known"), DENIED)
            for granted, includes in INCLUDES.items():
                in_namespace = scope in ("every caller", "known") or (scope == "namespace" and role in includes)
                expect(granted, keys[granted], in_namespace, DENIED)
                on_server = scope in ("every caller", "known") or role in includes
                expect(f"server {granted}", keys[f"server {granted}"], on_server, DENIED)
    assert not wrong, "\n".join(wrong)


OWN = {
    "segno.flow.v1.FlowService/List": ("mine", "read"),
    "segno.flow.v1.FlowService/Check": ("mine", "read"),
    "segno.flow.v1.FlowService/Deploy": ("mine", "write"),
    "segno.flow.v1.FlowService/Migrate": ("mine", "write"),
    "segno.verification.v1.VerificationService/Describe": ("mine", "read"),
    "segno.verification.v1.VerificationService/List": ("mine", "read"),
    "segno.verification.v1.VerificationService/Start": ("mine", "write"),
    "segno.verification.v1.VerificationService/Stop": ("mine", "write"),
    "segno.verification.v1.VerificationService/TryRun": ("mine", "write"),
    "segno.worker.v1.WorkerService/Heartbeat": ("mine", "work"),
    "segno.worker.v1.WorkerService/ListWorkers": ("mine", "read"),
    "segno.cluster.v1.ClusterService/Describe": ("", "read"),
    "segno.cluster.v1.ClusterService/Fence": ("", "admin"),
    "segno.access.v1.AccessService/ListKeys": ("", "admin"),
    "segno.access.v1.AccessService/RevokeKey": ("", "admin"),
}


def test_our_own_services_and_routes(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    assert server.segno("namespace", "create", "mine").returncode == 0
    keys = {role: server.key(f"mine-{role}", "--grant", f"mine:{role}") for role in INCLUDES}
    whole = {role: server.key(f"all-{role}", "--grant", f"*:{role}") for role in INCLUDES}
    with server.channel() as channel:
        for path, (namespace, role) in OWN.items():
            message = b"\x0a\x04mine" if namespace else b""
            assert call(channel, f"/{path}", message, None) == UNKNOWN_CALLER, path
            for granted, includes in INCLUDES.items():
                is_allowed = bool(namespace) and role in includes
                assert (call(channel, f"/{path}", message, keys[granted]) != DENIED) == is_allowed, (path, granted)
                assert (call(channel, f"/{path}", message, whole[granted]) != DENIED) == (role in includes), path
        assert call(channel, "/grpc.health.v1.Health/Check", b"", None) == grpc.StatusCode.OK
        assert call(channel, f"/{SERVICE}/NoSuchCall", b"", None) == UNKNOWN_CALLER
        assert call(channel, f"/{SERVICE}/NoSuchCall", b"", keys["read"]) == grpc.StatusCode.UNIMPLEMENTED
    flows = "/api/v1/namespaces/mine/flows"
    for method, path, key, status in [
        ("GET", "/healthz", None, 200),
        ("GET", "/metrics", None, 401),
        ("GET", "/metrics", keys["admin"], 403),
        ("GET", "/metrics", whole["read"], 200),
        ("GET", flows, None, 401),
        ("GET", flows, "segno_wrong", 401),
        ("GET", flows, keys["work"], 200),
        ("GET", "/api/v1/namespaces/default/flows", keys["admin"], 403),
        ("POST", flows, keys["read"], 403),
        ("POST", flows, keys["write"], 400),
    ]:
        assert http(f"http://127.0.0.1:{server.server.http_port}{path}", method, key) == status, (method, path)


def http(url: str, method: str = "GET", key: str | None = None, context: ssl.SSLContext | None = None) -> int:
    request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


# ---- what is bound to a namespace


def test_names_ids_and_repeated_fields_do_not_open_doors(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    assert server.segno("namespace", "create", "mine").returncode == 0
    key = server.key("mine", "--grant", "mine:admin")
    with server.channel() as channel:
        stub = WorkflowServiceStub(channel)
        admin = [("authorization", f"Bearer {server.admin}")]
        ids = {
            name: stub.DescribeNamespace(
                DescribeNamespaceRequest(namespace=name), metadata=admin
            ).namespace_info.id
            for name in ("mine", "default")
        }
        path = f"/{SERVICE}/DescribeNamespace"
        for request, code in [
            (DescribeNamespaceRequest(namespace="mine"), grpc.StatusCode.OK),
            (DescribeNamespaceRequest(id=ids["mine"]), grpc.StatusCode.OK),
            (DescribeNamespaceRequest(id=ids["default"]), DENIED),
            (DescribeNamespaceRequest(id="no-such-id"), DENIED),
            (DescribeNamespaceRequest(namespace="mine", id=ids["default"]), grpc.StatusCode.INVALID_ARGUMENT),
        ]:
            assert call(channel, path, request.SerializeToString(), key) == code, request
        # The last of several values is the one that counts, here and there.
        mine = StartWorkflowExecutionRequest(namespace="mine").SerializeToString()
        default = StartWorkflowExecutionRequest(namespace="default").SerializeToString()
        start = f"/{SERVICE}/StartWorkflowExecution"
        assert call(channel, start, mine + default, key) == DENIED
        assert call(channel, start, default + mine, key) == grpc.StatusCode.INVALID_ARGUMENT
        assert call(channel, start, b"\x0a\xff", key) == grpc.StatusCode.INVALID_ARGUMENT
        # Compressed requests are looked into as well.
        history = channel.unary_unary(
            f"/{SERVICE}/GetWorkflowExecutionHistory", lambda request: request.SerializeToString(), lambda raw: raw
        )
        with pytest.raises(grpc.RpcError) as refused:
            history(
                GetWorkflowExecutionHistoryRequest(namespace="default"),
                compression=grpc.Compression.Gzip,
                metadata=[("authorization", f"Bearer {key}")],
                timeout=5,
            )
        assert refused.value.code() == DENIED
        assert refused.value.details() == (
            "Request unauthorized: key mine has mine:admin; GetWorkflowExecutionHistory needs default:read."
        )


# ---- workers


@activity.defn
async def work() -> str:
    return "worked"


@workflow.defn
class Working:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(work, start_to_close_timeout=timedelta(seconds=20))


async def test_a_worker_limited_to_its_queues(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    worker_key = server.key("worker", "--grant", "default:work", "--task-queue", "orders*")
    client_key = server.key("client", "--grant", "default:write")
    client = await Client.connect(server.address, api_key=client_key, tls=False)
    of_worker = await Client.connect(server.address, api_key=worker_key, tls=False)
    worker = Worker(
        of_worker,
        task_queue="orders-1",
        workflows=[Working],
        activities=[work],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        # Twice, so that sticky queues are in use.
        for number in range(2):
            result = client.execute_workflow(Working.run, id=f"w{number}", task_queue="orders-1")
            assert await asyncio.wait_for(result, 30) == "worked"
    with pytest.raises(RPCError, match="unauthorized"):
        await of_worker.start_workflow(Working.run, id="x", task_queue="orders-1")
    from temporalio.api.enums.v1 import TaskQueueKind
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest, PollWorkflowTaskQueueRequest

    with server.channel() as channel:
        for queue in [
            TaskQueue(name="secret"),
            TaskQueue(name="secret", normal_name="orders"),
            TaskQueue(name="orders", normal_name="secret", kind=TaskQueueKind.TASK_QUEUE_KIND_STICKY),
        ]:
            poll = PollWorkflowTaskQueueRequest(namespace="default", task_queue=queue).SerializeToString()
            assert call(channel, f"/{SERVICE}/PollWorkflowTaskQueue", poll, worker_key) == DENIED
        poll = PollActivityTaskQueueRequest(namespace="default", task_queue=TaskQueue(name="secret"))
        path = f"/{SERVICE}/PollActivityTaskQueue"
        assert call(channel, path, poll.SerializeToString(), worker_key) == DENIED


def test_a_sticky_queue_has_only_tasks_of_its_normal_queue(guarded: Callable[..., Guarded]) -> None:
    """A limited worker may choose any name for its sticky queue, also one of another queue."""
    from temporalio.api.enums.v1 import TaskQueueKind
    from temporalio.api.taskqueue.v1 import StickyExecutionAttributes, TaskQueue
    from temporalio.api.workflowservice.v1 import (
        PollWorkflowTaskQueueRequest,
        RespondWorkflowTaskCompletedRequest,
        SignalWorkflowExecutionRequest,
    )

    server = guarded()
    limited = server.key("worker", "--grant", "default:work", "--task-queue", "orders*")
    secret = "secret-0123456789abcdef0123456789abcdef"
    sticky_kind = TaskQueueKind.TASK_QUEUE_KIND_STICKY

    with server.channel() as channel:
        stub = WorkflowServiceStub(channel)

        def as_(key: str) -> list[tuple[str, str]]:
            return [("authorization", f"Bearer {key}")]

        def poll(key: str, queue: TaskQueue, seconds: float) -> Any:
            request = PollWorkflowTaskQueueRequest(namespace="default", task_queue=queue, identity="w")
            try:
                return stub.PollWorkflowTaskQueue(request, timeout=seconds, metadata=as_(key))
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
                return None

        def start(workflow_id: str, queue: str) -> None:
            request = StartWorkflowExecutionRequest(namespace="default", workflow_id=workflow_id, request_id=workflow_id)
            request.workflow_type.name, request.task_queue.name = "Any", queue
            stub.StartWorkflowExecution(request, metadata=as_(server.admin))

        def signal(workflow_id: str) -> None:
            request = SignalWorkflowExecutionRequest(namespace="default", signal_name="s")
            request.workflow_execution.workflow_id = workflow_id
            stub.SignalWorkflowExecution(request, metadata=as_(server.admin))

        # A queue of this name has tasks for workers that may poll it; as a sticky queue the name means something else.
        start("secret", secret)
        theirs = TaskQueue(name=secret, kind=sticky_kind, normal_name="orders1")
        assert not (task := poll(limited, theirs, 2)) or not task.task_token
        task = poll(server.admin, TaskQueue(name=secret), 10)
        assert task.workflow_execution.workflow_id == "secret"
        # Its worker has a sticky queue, whose name another worker knows: the normal name is what counts.
        own = TaskQueue(name=f"{secret}-own", kind=sticky_kind, normal_name=secret)
        done = RespondWorkflowTaskCompletedRequest(task_token=task.task_token, namespace="default", identity="w")
        done.sticky_attributes.CopyFrom(StickyExecutionAttributes(worker_task_queue=own))
        done.sticky_attributes.schedule_to_start_timeout.FromSeconds(60)
        stub.RespondWorkflowTaskCompleted(done, metadata=as_(server.admin))
        assert not (task := poll(server.admin, own, 2)) or not task.task_token
        signal("secret")
        known = TaskQueue(name=own.name, kind=sticky_kind, normal_name="orders1")
        assert not (task := poll(limited, known, 2)) or not task.task_token
        assert poll(server.admin, own, 10).workflow_execution.workflow_id == "secret"
        # What the limited worker may have, it gets.
        start("order", "orders1")
        task = poll(limited, TaskQueue(name="orders1"), 10)
        done.task_token = task.task_token
        done.sticky_attributes.worker_task_queue.CopyFrom(theirs)
        stub.RespondWorkflowTaskCompleted(done, metadata=as_(limited))
        assert not (task := poll(limited, theirs, 2)) or not task.task_token
        signal("order")
        assert poll(limited, theirs, 10).workflow_execution.workflow_id == "order"


# ---- keys


def test_keys_are_made_listed_and_revoked(guarded: Callable[..., Guarded]) -> None:
    server = guarded(data=True)
    secret = server.key("ci", "--grant", "default:write", "--expires-in", "30d")
    assert secret.startswith("segno_") and len(secret) > 40
    listed = json.loads(server.segno("key", "list", "-o", "json").stdout)["keys"]
    assert [key["name"] for key in listed] == ["ci"] and secret not in json.dumps(listed)
    assert listed[0]["createdBy"] == "admin"
    assert "default:write" in server.segno("key", "list").stdout
    assert "ci (by key): default:write" in server.segno("key", "whoami", key=secret).stdout
    assert server.segno("workflow", "list", key=secret).returncode == 0
    again = server.segno("key", "create", "ci", "--grant", "default:read")
    assert again.returncode != 0 and "already" in again.stderr
    for flags in (["--grant", "default"], ["--grant", "default:king"]):
        bad = server.segno("key", "create", "bad", *flags)
        assert bad.returncode != 0 and "is not a grant" in bad.stderr
    # Only an admin of the whole server makes keys.
    assert "not allowed" in server.segno("key", "create", "x", "--grant", "*:admin", key=secret).stderr
    # They survive, and nothing of the secret is on the disk.
    server.server.kill()
    files = [path for path in server.directory.rglob("*") if path.is_file() and path.name != "admin.key"]
    assert files and all(secret.encode() not in path.read_bytes() for path in files)
    server.start()
    assert server.segno("workflow", "list", key=secret).returncode == 0
    assert server.segno("key", "revoke", "ci").returncode == 0
    refused = server.segno("workflow", "list", key=secret)
    assert refused.returncode != 0 and "revoked" in refused.stderr
    assert "there is no key" in server.segno("key", "revoke", "ci").stderr
    server.server.kill()
    server.start()
    assert server.segno("workflow", "list", key=secret).returncode != 0


def test_keys_expire(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    secret = server.key("brief", "--grant", "default:read", "--expires-in", "2s")
    assert server.segno("workflow", "list", key=secret).returncode == 0
    time.sleep(2.1)
    assert "has expired" in server.segno("workflow", "list", key=secret).stderr


# ---- TLS


async def test_tls_and_keys_with_the_stock_sdk_and_cli(guarded: Callable[..., Guarded]) -> None:
    server = guarded(tls=True)
    root = (server.certificates / "ca.pem").read_bytes()
    key = server.key("all", "--grant", "default:work,write")
    client = await Client.connect(server.address, api_key=key, tls=TLSConfig(server_root_ca_cert=root))
    worker = Worker(
        client, task_queue="q", workflows=[Working], activities=[work], workflow_runner=UnsandboxedWorkflowRunner()
    )
    async with worker:
        result = client.execute_workflow(Working.run, id="w", task_queue="q")
        assert await asyncio.wait_for(result, 30) == "worked"
    temporal = Path(os.environ.get("TEMPORAL_BIN", Path(os.sys.executable).parent / "temporal"))
    listed = subprocess.run(
        [str(temporal), "workflow", "list", "--address", server.address, "--api-key", key]
        + ["--tls-ca-path", str(server.certificates / "ca.pem"), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert listed.returncode == 0 and '"workflowId": "w"' in listed.stdout, listed.stderr
    # Plain text, an unknown root and a wrong name are no ways in.
    with pytest.raises(RuntimeError):
        await Client.connect(server.address, api_key=key, tls=False)
    with pytest.raises(RuntimeError):
        await Client.connect(server.address, api_key=key, tls=True)
    with pytest.raises(RuntimeError):
        await Client.connect(
            server.address, api_key=key, tls=TLSConfig(server_root_ca_cert=root, domain="elsewhere.example")
        )
    context = ssl.create_default_context(cafile=str(server.certificates / "ca.pem"))
    url = f"https://127.0.0.1:{server.server.http_port}"
    assert http(f"{url}/healthz", context=context) == 200
    assert http(f"{url}/metrics", context=context) == 401
    assert http(f"{url}/metrics", key=server.admin, context=context) == 200


def test_mistakes_with_tls_are_told_on_both_sides(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    encrypted, plain = guarded(tls=True), guarded()
    root = ["--tls-ca-path", str(encrypted.certificates / "ca.pem")]
    other = tmp_path / "other"
    done("tls", "init", "--dir", str(other))
    listing = ["workflow", "list", "--address"]
    for words, told, logged, server in [
        ([encrypted.address], "say --tls, or --tls-ca-path", "a client does not use TLS", encrypted),
        ([plain.address, "--tls"], "it does not speak TLS", "a client uses TLS, and this port is not encrypted", plain),
        ([encrypted.address, "--tls"], "--tls-ca-path FILE", "does not know the authority that issued", encrypted),
        (
            [encrypted.address, "--tls-ca-path", str(other / "ca.pem")],
            "--tls-ca-path FILE",
            "does not know the authority that issued",
            encrypted,
        ),
        (
            [encrypted.address, *root, "--tls-server-name", "elsewhere.example"],
            "--tls-server-name NAME",
            "does not have the name by which the client connects",
            encrypted,
        ),
    ]:
        refused = segno(*listing, *words, SEGNO_API_KEY=server.admin)
        assert refused.returncode != 0 and told in refused.stderr, refused.stderr
        deadline = time.monotonic() + 5
        while logged not in server.server.log.read_text():
            assert time.monotonic() < deadline, server.server.log.read_text()
            time.sleep(0.1)
    # Browsers are told so, too.
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{encrypted.server.http_port}/ui/", timeout=5)
    assert refused.value.code == 400 and b"begins with https://" in refused.value.read()
    # The log of a server that wants certificates of its clients says that one is missing.
    strict = guarded("--tls-client-ca", str(encrypted.certificates / "ca.pem"), tls=True)
    strict_root = ["--tls-ca-path", str(strict.certificates / "ca.pem")]
    assert segno(*listing, strict.address, *strict_root, SEGNO_API_KEY=strict.admin).returncode != 0
    assert "a client showed no certificate" in strict.server.log.read_text()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions_of_tls_and_alpn(guarded: Callable[..., Guarded], version: ssl.TLSVersion) -> None:
    import socket

    server = guarded(tls=True)
    context = ssl.create_default_context(cafile=str(server.certificates / "ca.pem"))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    for port, protocol in ((server.server.port, "h2"), (server.server.http_port, "http/1.1")):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as stream:
                assert stream.selected_alpn_protocol() == protocol
                assert stream.version() == version.name.replace("_", ".")
    context.set_alpn_protocols(["http/1.1"])
    with socket.create_connection(("127.0.0.1", server.server.port), timeout=5) as plain:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, server_hostname="localhost")


async def test_certificates_of_clients(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    server = guarded("--tls-client-ca", str(tmp_path / "0/tls/ca.pem"), "--tls-client-certs", "optional", tls=True)
    made = server.segno("key", "create", "Ann", "--certificate", "ann", "--grant", "default:write")
    assert made.returncode == 0 and made.stdout.strip() == "", made.stderr
    taken = server.segno("key", "create", "Ann2", "--certificate", "ann", "--grant", "default:read")
    assert taken.returncode != 0 and "stands for this certificate already" in taken.stderr
    flags = ["--address", server.address, "--tls-ca-path", str(server.certificates / "ca.pem")]

    def by(client: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        cert, key = (str(server.certificates / f"{client}.{kind}") for kind in ("pem", "key"))
        return segno(*arguments, *flags, "--tls-cert-path", cert, "--tls-key-path", key)

    assert "Ann (by certificate): default:write" in by("ann", "key", "whoami").stdout
    assert by("ann", "workflow", "list").returncode == 0
    assert by("ann", "namespace", "list").returncode != 0
    assert "has no grants" in by("bob", "workflow", "list").stderr
    # A certificate of another root is not even a connection.
    stranger = tmp_path / "stranger"
    done("tls", "init", "--dir", str(stranger), "--client", "ann")
    cert, key = (str(stranger / f"ann.{kind}") for kind in ("pem", "key"))
    refused = segno("workflow", "list", *flags, "--tls-cert-path", cert, "--tls-key-path", key)
    assert refused.returncode != 0
    # Stock SDK.
    client = await Client.connect(
        server.address,
        tls=TLSConfig(
            server_root_ca_cert=(server.certificates / "ca.pem").read_bytes(),
            client_cert=(server.certificates / "ann.pem").read_bytes(),
            client_private_key=(server.certificates / "ann.key").read_bytes(),
        ),
    )
    await client.start_workflow("Any", id="by-certificate", task_queue="q")


async def test_a_required_certificate(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    server = guarded("--tls-client-ca", str(tmp_path / "0/tls/ca.pem"), tls=True)
    root = (server.certificates / "ca.pem").read_bytes()
    with pytest.raises(RuntimeError):
        await Client.connect(server.address, api_key=server.admin, tls=TLSConfig(server_root_ca_cert=root))
    with server.channel("ann") as channel:
        # The connection is made; who calls is a question of its own.
        code = call(channel, f"/{SERVICE}/ListNamespaces", ListNamespacesRequest().SerializeToString(), server.admin)
        assert code == grpc.StatusCode.OK


def test_who_calls_is_remembered_until_keys_change(guarded: Callable[..., Guarded]) -> None:
    """A connection remembers who called last, but not beyond a revocation or an expiry, and not for other keys."""
    server = guarded()
    keys = {name: server.key(name, "--grant", "default:read") for name in ("one", "two")}
    brief = server.key("brief", "--grant", "default:read", "--expires-in", "3s")
    expires = time.monotonic() + 3
    request = DescribeNamespaceRequest(namespace="default").SerializeToString()
    with server.channel() as channel:

        def described(key: str | None) -> grpc.StatusCode:
            return call(channel, f"/{SERVICE}/DescribeNamespace", request, key)

        assert [described(brief), described(brief)] == [grpc.StatusCode.OK] * 2
        for _ in range(3):
            assert described(keys["one"]) == described(keys["two"]) == grpc.StatusCode.OK
            assert described(None) == described(keys["one"] + "x") == described(keys["one"][:-1]) == UNKNOWN_CALLER
        assert described(keys["two"]) == grpc.StatusCode.OK
        server.segno("key", "revoke", "two")
        assert described(keys["two"]) == UNKNOWN_CALLER
        assert described(keys["one"]) == grpc.StatusCode.OK
        # What a caller may do is looked at with every call.
        listing = call(channel, f"/{SERVICE}/ListNamespaces", ListNamespacesRequest().SerializeToString(), keys["one"])
        assert listing == DENIED
        assert described(keys["one"]) == grpc.StatusCode.OK
        time.sleep(max(0.0, expires + 0.2 - time.monotonic()))
        assert described(brief) == UNKNOWN_CALLER


def revocation_list(place: Path, *revoked: str) -> bytes:
    """A list of the authority in a directory with the certificates of these clients on it."""
    authority = x509.load_pem_x509_certificate((place / "ca.pem").read_bytes())
    key = serialization.load_pem_private_key((place / "ca.key").read_bytes(), None)
    now = datetime.now(timezone.utc)
    made = x509.CertificateRevocationListBuilder().issuer_name(authority.subject)
    made = made.last_update(now - timedelta(hours=1)).next_update(now + timedelta(days=1))
    made = made.add_extension(x509.CRLNumber(1), critical=False)
    for client in revoked:
        certificate = x509.load_pem_x509_certificate((place / f"{client}.pem").read_bytes())
        entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(now)
        made = made.add_revoked_certificate(entry.build())
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_certificate_on_a_revocation_list(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    place, listed = tmp_path / "clients", tmp_path / "revoked.pem"
    done("tls", "init", "--dir", str(place), "--client", "ann", "--client", "bob")
    listed.write_bytes(revocation_list(place, "bob"))
    flags = ["--tls-client-ca", str(place / "ca.pem"), "--tls-client-certs", "optional", "--tls-client-crl", str(listed)]
    server = guarded(*flags, tls=True)

    def whoami(client: str) -> subprocess.CompletedProcess[str]:
        flags = ["--address", server.address, "--tls-ca-path", str(server.certificates / "ca.pem")]
        flags += ["--tls-cert-path", str(place / f"{client}.pem"), "--tls-key-path", str(place / f"{client}.key")]
        return segno("key", "whoami", *flags)

    for client in ("ann", "bob"):
        server.segno("key", "create", client, "--certificate", client, "--grant", "default:write")
    assert "ann (by certificate)" in whoami("ann").stdout
    assert whoami("bob").returncode != 0
    # A new list is in effect without a restart.
    listed.write_bytes(revocation_list(place, "ann", "bob"))
    until = time.monotonic() + 10
    while whoami("ann").returncode == 0:
        assert time.monotonic() < until, "the new list is not in effect"
        time.sleep(0.2)
    # What is no list stops the server from starting, with the name of the file.
    words = ["serve", "--in-memory", "--tls-cert", str(place / "server.pem"), "--tls-key", str(place / "server.key")]
    refused = segno(*words, "--tls-client-ca", str(place / "ca.pem"), "--tls-client-crl", str(place / "ca.pem"))
    assert refused.returncode != 0 and "there is no revocation list in it" in refused.stderr


def served_certificate(server: Guarded) -> bytes:
    return ssl.get_server_certificate(("127.0.0.1", server.server.http_port)).encode()


def test_certificates_are_loaded_again(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    server = guarded(tls=True)
    before = served_certificate(server)
    with server.channel() as channel:
        stub = WorkflowServiceStub(channel)
        stub.GetSystemInfo(GetSystemInfoRequest(), timeout=5)
        new = tmp_path / "new"
        done("tls", "init", "--dir", str(new))
        # A file that is no certificate changes nothing.
        (server.certificates / "server.pem").write_text("nonsense")
        time.sleep(3)
        assert served_certificate(server) == before
        (server.certificates / "server.pem").write_bytes((new / "server.pem").read_bytes())
        (server.certificates / "server.key").write_bytes((new / "server.key").read_bytes())
        until = time.monotonic() + 10
        while served_certificate(server) == before and time.monotonic() < until:
            time.sleep(0.2)
        assert served_certificate(server).strip() == (new / "server.pem").read_bytes().strip()
        # Connections that are open stay open.
        stub.GetSystemInfo(GetSystemInfoRequest(), timeout=5)


# ---- tokens


class Issuer:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.keys: dict[str, Any] = {}

    def add(self, name: str, key: Any, algorithm: str) -> None:
        self.keys[name] = (key, algorithm)
        algorithms = jwt.get_algorithm_by_name
        entries = []
        for kid, (private, alg) in self.keys.items():
            entry = json.loads(algorithms(alg).to_jwk(private.public_key()))
            entries.append({**entry, "kid": kid, "use": "sig"})
        self.path.write_text(json.dumps({"keys": entries}))

    def token(self, kid: str, **claims: Any) -> str:
        key, algorithm = self.keys[kid]
        full = {"iss": "issuer", "aud": "segno", "sub": "ann", "exp": time.time() + 60, **claims}
        full = {name: value for name, value in full.items() if value is not None}
        return jwt.encode(full, key, algorithm=algorithm, headers={"kid": kid})


def test_tokens(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    issuer = Issuer(tmp_path / "jwks.json")
    issuer.add("rsa", rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256")
    issuer.add("ec", ec.generate_private_key(ec.SECP256R1()), "ES256")
    server = guarded("--jwks", str(issuer.path), "--jwt-issuer", "issuer", "--jwt-audience", "segno")
    read = ListNamespacesRequest().SerializeToString()
    with server.channel() as channel:

        def code(token: str) -> grpc.StatusCode:
            return call(channel, f"/{SERVICE}/ListNamespaces", read, token)

        for kid in ("rsa", "ec"):
            assert code(issuer.token(kid, permissions=["temporal-system:read"])) == grpc.StatusCode.OK, kid
            assert code(issuer.token(kid, permissions=["default:admin"])) == DENIED
            assert code(issuer.token(kid)) == DENIED
        good = {"permissions": ["*:admin"]}
        public = issuer.keys["rsa"][0].public_key()
        pem = public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        import base64
        import hashlib
        import hmac

        def part(value: Any) -> str:
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

        claims = {"iss": "issuer", "aud": "segno", "sub": "x", "exp": time.time() + 60, **good}
        unsigned = f"{part({'alg': 'none', 'kid': 'rsa'})}.{part(claims)}."
        signed = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(claims)}"
        confused = f"{signed}.{part(hmac.new(pem, signed.encode(), hashlib.sha256).digest())}"
        stranger = Issuer(tmp_path / "stranger.json")
        stranger.add("rsa", rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256")
        for what, token in {
            "expired": issuer.token("rsa", exp=time.time() - 60, **good),
            "not yet": issuer.token("rsa", nbf=time.time() + 90, **good),
            "another audience": issuer.token("rsa", aud="other", **good),
            "another issuer": issuer.token("rsa", iss="other", **good),
            "another key": stranger.token("rsa", **good),
            "no subject": issuer.token("rsa", sub=None, **good),
            "an empty subject": issuer.token("rsa", sub="", **good),
            "algorithm none": unsigned,
            "the public key as a shared secret": confused,
        }.items():
            assert code(token) == UNKNOWN_CALLER, what
        # Clocks may be a little apart.
        assert code(issuer.token("rsa", exp=time.time() - 5, **good)) == grpc.StatusCode.OK
        # A new key is fetched when a token names it.
        time.sleep(5)
        issuer.add("next", ec.generate_private_key(ec.SECP256R1()), "ES256")
        assert code(issuer.token("next", **good)) == grpc.StatusCode.OK


# ---- starting, the audit log, secrets


def test_other_machines_are_not_let_in_by_accident(tmp_path: Path) -> None:
    ports = ["--port", str(free_port()), "--http-port", str(free_port())]
    for command in (["serve", "--in-memory"], ["server", "start-dev"]):
        refused = segno(*command, "--ip", "0.0.0.0", *ports)
        assert refused.returncode != 0
        assert "encryption and authentication are off" in refused.stderr and "--insecure" in refused.stderr
    refused = segno("serve", "--in-memory", "--auth", *ports)
    assert refused.returncode != 0 and "--admin-key-file" in refused.stderr
    missing = ["--tls-cert", str(tmp_path / "no.pem"), "--tls-key", str(tmp_path / "no.key")]
    refused = segno("serve", "--in-memory", *missing, *ports)
    assert refused.returncode != 0 and "no.pem" in refused.stderr


def test_the_audit_log_and_secrets(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    server = guarded("--audit-log", str(log), "--log-level", "trace")
    secret = server.key("ci", "--grant", "default:read")
    assert server.segno("namespace", "create", "made").returncode == 0
    assert server.segno("namespace", "create", "refused", key=secret).returncode != 0
    assert server.segno("workflow", "list", key=secret).returncode == 0
    assert server.segno("workflow", "list", key="segno_wrong_key_of_somebody").returncode != 0
    until = time.monotonic() + 10
    while time.monotonic() < until and len(log.read_text().splitlines()) < 4:
        time.sleep(0.1)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    seen = [(line["method"], line["namespace"], (line["caller"] or {}).get("name"), line["outcome"]) for line in lines]
    assert ("CreateKey", "", "admin", "Ok") in seen
    assert ("RegisterNamespace", "made", "admin", "Ok") in seen
    assert ("RegisterNamespace", "refused", "ci", "PermissionDenied") in seen
    assert any(line[3] == "Unauthenticated" for line in seen), seen
    assert not any(line[0].startswith("List") and line[3] == "Ok" for line in seen), "reading is not written down"
    for text in (log.read_text(), server.server.log.read_text()):
        for word in (secret, server.admin, "wrong_key_of_somebody"):
            assert word not in text
    assert log.stat().st_mode & 0o077 == 0 and (server.directory / "admin.key").stat().st_mode & 0o077 == 0


def test_wrong_keys_are_throttled_and_right_ones_are_not(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    issuer = Issuer(tmp_path / "jwks.json")
    issuer.add("ec", ec.generate_private_key(ec.SECP256R1()), "ES256")
    log = tmp_path / "audit.jsonl"
    flags = ("--jwks", str(issuer.path), "--jwt-issuer", "issuer", "--jwt-audience", "segno", "--audit-log", str(log))
    server = guarded(*flags)
    late = server.key("late", "--grant", "default:read")
    read = DescribeNamespaceRequest(namespace="default").SerializeToString()
    with server.channel() as channel:

        def codes(keys: list[str | None]) -> dict[str, int]:
            return statuses([call(channel, f"/{SERVICE}/DescribeNamespace", read, key) for key in keys])

        assert codes([None] * 20) == {"UNAUTHENTICATED": 20}, "who shows nothing guesses nothing"
        guesses = codes([f"segno_{number}" for number in range(300)])
        assert guesses["UNAUTHENTICATED"] <= 15 and sum(guesses.values()) == 300, guesses
        assert codes([issuer.token("ec", sub=None)]) == {"RESOURCE_EXHAUSTED": 1}
        # Keys and tokens that were never seen before.
        assert codes([server.admin, late, issuer.token("ec", permissions=["default:read"])]) == {"OK": 3}
        with pytest.raises(grpc.RpcError) as refused:
            WorkflowServiceStub(channel).DescribeNamespace(
                DescribeNamespaceRequest(namespace="default"), metadata=[("authorization", "Bearer segno_again")]
            )
        assert "stop trying for" in refused.value.details() and "api_key" in refused.value.details()
    # Pages and the HTTP API count together with gRPC.
    logins = [ask(server, "/ui/login", {"key": f"segno_{number}", "next": "/"})[0] for number in range(20)]
    assert logins.count(429) >= 18, logins
    assert ask(server, "/ui/login", {"key": late, "next": "/"})[0] == 303
    listed = "/api/v1/namespaces/default/workflows"
    assert ask(server, listed, Authorization="Bearer segno_x", Accept="application/json")[0] == 429
    assert ask(server, listed, Authorization=f"Bearer {late}", Accept="application/json")[0] == 200
    time.sleep(0.5)
    assert len(log.read_text().splitlines()) < 60, "a flood of wrong keys does not fill the audit log"


def test_a_full_disk_and_the_audit_log(guarded: Callable[..., Guarded]) -> None:
    """`/dev/full` refuses every write as a full disk does."""
    for flags, changes in ((), True), (("--audit-required",), False):
        server = guarded("--audit-log", "/dev/full", *flags)
        health = f"http://127.0.0.1:{server.server.http_port}/healthz"
        # The first change finds out.
        server.segno("namespace", "create", "first")
        until = time.monotonic() + 10
        while http(health) == 200 and time.monotonic() < until:
            time.sleep(0.05)
        assert http(health) == 503
        created = server.segno("namespace", "create", "second")
        assert (created.returncode == 0) == changes, created.stderr
        if not changes:
            assert "nothing is changed: the audit log cannot be written" in created.stderr
        listed = server.segno("namespace", "list").stdout
        assert ("second" in listed) == changes, "reading goes on"


# ---- limits


def statuses(codes: list[grpc.StatusCode]) -> dict[str, int]:
    return {code.name: codes.count(code) for code in set(codes)}


def test_limits_of_namespaces_and_callers(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    limits = ["calls-per-second=20", "pollers=1", "open-workflows=3"]
    flags = [part for limit in limits for part in ("--data", f"segno.limit.{limit}")]
    assert server.segno("namespace", "create", "noisy", *flags).returncode == 0
    assert server.segno("namespace", "create", "quiet").returncode == 0
    slow = server.key("slow", "--grant", "quiet:read", "--calls-per-second", "5")
    exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
    path = f"/{SERVICE}/CountWorkflowExecutions"

    def count(channel: grpc.Channel, namespace: str, key: str, times: int) -> list[grpc.StatusCode]:
        from temporalio.api.workflowservice.v1 import CountWorkflowExecutionsRequest

        message = CountWorkflowExecutionsRequest(namespace=namespace).SerializeToString()
        return [call(channel, path, message, key) for _ in range(times)]

    with server.channel() as channel:
        noisy = count(channel, "noisy", server.admin, 100)
        assert 40 <= noisy.count(grpc.StatusCode.OK) < 100 and noisy.count(exhausted) > 0, statuses(noisy)
        assert set(count(channel, "quiet", server.admin, 100)) == {grpc.StatusCode.OK}
        limited = count(channel, "quiet", slow, 30)
        assert 10 <= limited.count(grpc.StatusCode.OK) < 30 and limited.count(exhausted) > 0, statuses(limited)
        stub = WorkflowServiceStub(channel)
        admin = [("authorization", f"Bearer {server.admin}")]
        with pytest.raises(grpc.RpcError) as refused:
            for _ in range(100):
                from temporalio.api.workflowservice.v1 import CountWorkflowExecutionsRequest

                stub.CountWorkflowExecutions(CountWorkflowExecutionsRequest(namespace="noisy"), metadata=admin)
        assert refused.value.details() == "namespace rate limit exceeded"
        detail = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
        assert b"ResourceExhaustedFailure" in detail and b"google.rpc.RetryInfo" in detail
        time.sleep(2.5)
        started = []
        for number in range(5):
            request = StartWorkflowExecutionRequest(namespace="noisy", workflow_id=f"w{number}", request_id=str(number))
            request.workflow_type.name = "T"
            request.task_queue.name = "q"
            started.append(call(channel, f"/{SERVICE}/StartWorkflowExecution", request.SerializeToString(), server.admin))
        assert started == [grpc.StatusCode.OK] * 3 + [exhausted] * 2, started
        from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest

        poll = PollActivityTaskQueueRequest(namespace="noisy")
        poll.task_queue.name = "empty"
        first = stub.PollActivityTaskQueue.future(poll, metadata=admin, timeout=10)
        time.sleep(0.5)
        with pytest.raises(grpc.RpcError) as refused:
            stub.PollActivityTaskQueue(poll, metadata=admin, timeout=5)
        assert refused.value.details() == "namespace concurrent poller limit exceeded"
        first.cancel()
        until = time.monotonic() + 5
        while time.monotonic() < until:
            second = stub.PollActivityTaskQueue.future(poll, metadata=admin, timeout=3)
            time.sleep(0.3)
            if not second.done():
                break
        assert not second.done(), second
        second.cancel()


# ---- pages and the HTTP API


def ask(
    server: Guarded, path: str, form: dict[str, str] | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """A request of a browser that follows nothing: status, body, headers."""
    import http.client
    from urllib.parse import urlencode

    connection = http.client.HTTPConnection("127.0.0.1", server.server.http_port, timeout=10)
    headers = {"Accept": "text/html", **{name.replace("_", "-"): value for name, value in headers.items()}}
    body = None
    if form is not None:
        body = urlencode(form)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    connection.request("POST" if form is not None else "GET", path, body=body, headers=headers)
    reply = connection.getresponse()
    return reply.status, reply.read().decode(), {name.lower(): value for name, value in reply.getheaders()}


def test_logging_in_to_the_pages(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    assert server.segno("namespace", "create", "nobodys").returncode == 0
    reader = server.key("reader", "--grant", "default:read")
    page = "/ui/default/workflows?query=x"
    status, text, _ = ask(server, page)
    assert status == 401 and 'type="password"' in text and "/ui/default/workflows?query=x" in text
    assert ask(server, "/ui/assets/style.css")[0] == 200
    status, text, headers = ask(server, "/ui/login", {"key": "segno_wrong", "next": page})
    assert status == 401 and "not known" in text and "set-cookie" not in headers
    status, _, headers = ask(server, "/ui/login", {"key": reader, "next": page})
    assert (status, headers["location"]) == (303, page)
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    key = cookie.split(";")[0]
    assert ask(server, "/ui/login", {"key": reader, "next": "//evil.example"})[2]["location"] == "/"
    foreign = ask(server, "/ui/login", {"key": reader, "next": page}, Origin="http://evil.example")
    assert foreign[0] == 403 and "set-cookie" not in foreign[2]
    status, text, _ = ask(server, "/ui/default/workflows", Cookie=key)
    assert status == 200 and "nobodys" not in text
    for path, expected in [
        ("/ui/nobodys/workflows", 403),
        ("/ui/live?page=/ui/nobodys/workflows", 403),
        ("/ui/default/namespaces", 403),
        ("/ui/default/server", 403),
    ]:
        assert ask(server, path, Cookie=key)[0] == expected, path
    assert ask(server, "/ui/default/workflows", {"action": "terminate"}, Cookie=key)[0] == 403
    # A cookie is for pages: programs have headers.
    assert ask(server, "/metrics", Cookie=f"segno_key={server.admin}")[0] == 401
    status, _, headers = ask(server, "/ui/logout", {}, Cookie=key)
    assert status == 303 and "Max-Age=0" in headers["set-cookie"]


def test_the_http_api_asks_as_well(guarded: Callable[..., Guarded]) -> None:
    server = guarded()
    reader = server.key("reader", "--grant", "default:read")
    listed, other = "/api/v1/namespaces/default/workflows", "/api/v1/namespaces/other/workflows"
    assert ask(server, listed)[0] == 401
    assert ask(server, listed, Authorization=f"Bearer {reader}")[0] == 200
    assert ask(server, other, Authorization=f"Bearer {reader}")[0] == 403
    assert ask(server, listed, Cookie=f"segno_key={reader}")[0] == 401
    assert ask(server, "/api/v1/system-info")[0] == 200
    started = ask(server, f"{listed}/w", {}, Authorization=f"Bearer {reader}", Accept="application/json")
    assert started[0] in (400, 403), started


def test_other_sites_and_deep_documents(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    """Without authentication as well: a page of another site cannot act here, and no document ends the server."""
    server = SegnoServer(log=tmp_path / "open.log")
    server.start()
    try:
        url = f"http://127.0.0.1:{server.http_port}/api/v1/namespaces/default"
        for path, body in [("/flows", b"workflow x() { return 1 }"), ("/workflows/w", b"{}")]:
            for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
                request = urllib.request.Request(url + path, method="POST", data=body, headers=headers)
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=10)
                assert refused.value.code == 403, (path, headers)
        for nested in (b'{"a":' * 9999, b"[" * 200_000):
            request = urllib.request.Request(f"{url}/workflows/w", method="POST", data=nested)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=10)
            assert refused.value.code == 400
        assert server.healthz() == 200
    finally:
        server.kill()
