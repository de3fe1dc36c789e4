"""OpenTelemetry traces of calls, received by a small collector."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from temporalio.api.common.v1 import WorkflowExecution, WorkflowType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.operatorservice.v1.service_pb2_grpc import OperatorServiceStub
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkflowExecutionRequest,
    GetSystemInfoRequest,
    StartWorkflowExecutionRequest,
)
from temporalio.api.workflowservice.v1.service_pb2_grpc import WorkflowServiceStub

from helpers import SegnoServer, free_port

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SERVICE = "temporal.api.workflowservice.v1.WorkflowService"


class Collector:
    """Takes OTLP/HTTP in JSON; `fails` makes it refuse."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.requests: list[tuple[str, dict[str, str], int]] = []
        self.fails = False
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if not collector.fails:
                    collector.take(self.path, dict(self.headers), json.loads(body))
                self.send_response(503 if collector.fails else 200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> None:
        found = []
        for resource in body["resourceSpans"]:
            names = {item["key"]: item["value"]["stringValue"] for item in resource["resource"]["attributes"]}
            assert names["service.name"] == "tested"
            for scope in resource["scopeSpans"]:
                found.extend(scope["spans"])
        self.requests.append((path, {name.lower(): value for name, value in headers.items()}, len(found)))
        self.spans.extend(found)

    def await_spans(self, count: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 10
        while len(self.spans) < count and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(self.spans) >= count, self.spans
        return self.spans


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()


def serve(tmp_path: Path, collector: Collector, *flags: str) -> SegnoServer:
    traces = ["--otlp-endpoint", collector.url, "--otlp-headers", "x-key=secret", "--otlp-service-name", "tested"]
    server = SegnoServer(log=tmp_path / "server.log", flags=[*traces, *flags])
    server.start()
    return server


def attributes(span: dict[str, Any]) -> dict[str, str]:
    return {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}


def metric(server: SegnoServer, name: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as reply:
        found = re.search(rf"^{name} (\d+)$", reply.read().decode(), re.MULTILINE)
    assert found, name
    return int(found[1])


def start(workflow_id: str) -> StartWorkflowExecutionRequest:
    return StartWorkflowExecutionRequest(
        namespace="default",
        workflow_id=workflow_id,
        workflow_type=WorkflowType(name="Raw"),
        task_queue=TaskQueue(name="traces"),
        request_id=workflow_id,
    )


def test_calls_are_traced_as_their_callers_say(tmp_path: Path, collector: Collector) -> None:
    server = serve(tmp_path, collector, "--trace-sample", "0")
    try:
        with grpc.insecure_channel(server.address) as channel:
            stub = WorkflowServiceStub(channel)
            sampled = [("traceparent", f"00-{TRACE}-{PARENT}-01")]
            begun = time.time_ns()
            stub.StartWorkflowExecution(start("traced"), metadata=sampled)
            # Not frequent enough for the direct path, of another service, and one that fails.
            stub.DescribeNamespace(DescribeNamespaceRequest(namespace="default"), metadata=sampled)
            OperatorServiceStub(channel).ListSearchAttributes(
                ListSearchAttributesRequest(namespace="default"), metadata=sampled
            )
            with pytest.raises(grpc.RpcError):
                nobody = WorkflowExecution(workflow_id="nobody")
                describe = DescribeWorkflowExecutionRequest(namespace="default", execution=nobody)
                stub.DescribeWorkflowExecution(describe, metadata=sampled)
            # Not sampled by the caller, malformed, and none with a fraction of 0.
            stub.StartWorkflowExecution(start("b"), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-00")])
            stub.StartWorkflowExecution(start("c"), metadata=[("traceparent", f"00-{TRACE}")])
            stub.StartWorkflowExecution(start("d"))
            ended = time.time_ns()
        spans = collector.await_spans(4)
        time.sleep(1.5)
        assert len(spans) == 4, [span["name"] for span in spans]
        by_name = {span["name"].rsplit("/")[-1]: span for span in spans}
        for span in spans:
            assert (span["traceId"], span["parentSpanId"], span["kind"]) == (TRACE, PARENT, 2)
            assert re.fullmatch("[0-9a-f]{16}", span["spanId"]) and span["spanId"] != PARENT
            assert begun <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) <= ended
        assert len({span["spanId"] for span in spans}) == 4
        assert attributes(by_name["StartWorkflowExecution"]) == {
            "rpc.system": "grpc",
            "rpc.service": SERVICE,
            "rpc.method": "StartWorkflowExecution",
            "rpc.grpc.status_code": "0",
            "temporal.namespace": "default",
            "temporal.workflow.id": "traced",
        }
        failed = attributes(by_name["DescribeWorkflowExecution"])
        assert (failed["rpc.grpc.status_code"], failed["temporal.workflow.id"]) == ("5", "nobody")
        assert attributes(by_name["DescribeNamespace"])["temporal.namespace"] == "default"
        assert attributes(by_name["ListSearchAttributes"])["rpc.service"].endswith("OperatorService")
        path, headers, _ = collector.requests[0]
        assert (path, headers["x-key"], headers["content-type"]) == ("/v1/traces", "secret", "application/json")
        assert (metric(server, "segno_trace_spans_total"), metric(server, "segno_trace_spans_dropped_total")) == (4, 0)
    finally:
        server.kill()


def test_spans_are_sent_in_batches_and_the_last_ones_at_the_end(tmp_path: Path, collector: Collector) -> None:
    server = serve(tmp_path, collector)
    try:
        with grpc.insecure_channel(server.address) as channel:
            stub = WorkflowServiceStub(channel)
            for _ in range(1_200):
                stub.GetSystemInfo(GetSystemInfoRequest())
        assert server.terminate() == 0
        spans = [span for span in collector.spans if span["name"].endswith("GetSystemInfo")]
        # Those with which the fixture waited for the server count as well.
        assert len(spans) >= 1_200
        assert max(count for _, _, count in collector.requests) <= 512
        assert len(collector.requests) < 100
        assert all(span["parentSpanId"] == "" for span in spans)
        assert len({span["traceId"] for span in spans}) == len(spans)
    finally:
        server.kill()


def test_a_collector_that_is_away_costs_spans_and_not_calls(tmp_path: Path, collector: Collector) -> None:
    server = serve(tmp_path, collector)
    try:
        collector.fails = True
        with grpc.insecure_channel(server.address) as channel:
            stub = WorkflowServiceStub(channel)
            begun = time.monotonic()
            for _ in range(200):
                stub.GetSystemInfo(GetSystemInfoRequest())
            assert time.monotonic() - begun < 5
            deadline = time.monotonic() + 15
            while metric(server, "segno_trace_spans_dropped_total") < 200 and time.monotonic() < deadline:
                time.sleep(0.2)
            assert metric(server, "segno_trace_spans_dropped_total") >= 200
            assert server.log.read_text().count("traces cannot be sent") == 1
            collector.fails = False
            stub.GetSystemInfo(GetSystemInfoRequest())
            collector.await_spans(1)
    finally:
        server.kill()
