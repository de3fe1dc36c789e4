"""Requests of Temporal's HTTP API, and what Temporal's own server answered to them.

The answers are in http_exchanges.json, recorded from `temporal server start-dev --port P --http-port H` by

    python http_exchanges.py 127.0.0.1:P 127.0.0.1:H

on a server that was just started. Recordings are never edited by hand.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

RECORDING = Path(__file__).with_name("http_exchanges.json")
QUEUE = "http"
NS = "/api/v1/namespaces/default"


@workflow.defn(name="Talker")
class Talker:
    """Answers queries and updates until it is told to end."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.over = False

    @workflow.run
    async def run(self, begin: Any) -> Any:
        self.said.append(begin)
        await workflow.wait_condition(lambda: self.over)
        return {"said": self.said, "empty": [], "nothing": None}

    @workflow.signal
    def say(self, what: Any) -> None:
        self.said.append(what)

    @workflow.signal
    def end(self) -> None:
        self.over = True

    @workflow.query
    def everything(self) -> list[Any]:
        return self.said

    @workflow.query
    def broken(self) -> None:
        raise ApplicationError("no answer", type="Broken")

    @workflow.update
    def add(self, what: Any) -> int:
        if what == "bad":
            raise ApplicationError("not that", type="Bad")
        self.said.append(what)
        return len(self.said)


@dataclass(frozen=True)
class Exchange:
    """One request."""

    method: str
    path: str
    # Sent as JSON, or as it is if it is a string.
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


def get(path: str, **headers: str) -> Exchange:
    return Exchange("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def post(path: str, body: Any = None, **headers: str) -> Exchange:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Exchange("POST", path, body, names)


def start(workflow_id: str, **more: Any) -> Exchange:
    body = {"workflowType": {"name": "Talker"}, "taskQueue": {"name": "idle"}, **more}
    return post(f"{NS}/workflows/{workflow_id}", body)


TALKER = {"workflowType": {"name": "Talker"}, "taskQueue": {"name": QUEUE}}
PLAIN = "anNvbi9wbGFpbg=="

EXCHANGES = [
    # Paths and methods.
    get("/api/v1/system-info"),
    get("/system-info"),
    get("/api/v1/system-info?pretty"),
    get("/api/v1/system-info", Accept="application/json+pretty"),
    get("/api/v1/system-info", Accept="text/html"),
    get("/nope"),
    get("/api/v1"),
    get("/api/v1/namespaces/"),
    get("/api/v1/namespaces/default/"),
    get("/api/v1/nope?pretty"),
    Exchange("DELETE", "/api/v1/system-info"),
    Exchange("HEAD", "/api/v1/system-info"),
    Exchange("OPTIONS", "/api/v1/system-info"),
    Exchange("PUT", f"{NS}/workflows/w"),
    post("/api/v1/system-info", "", Content_Type="application/x-www-form-urlencoded"),
    post(f"{NS}/workflow-count", "query=WorkflowId%3D%27nope%27", Content_Type="application/x-www-form-urlencoded"),
    post(f"{NS}/workflow-count", "query=x", Content_Type="text/plain"),
    # Namespaces.
    get("/api/v1/namespaces/default"),
    get("/cluster/namespaces/default"),
    get("/api/v1/namespaces/no-such-namespace"),
    get("/api/v1/namespaces/no-such-namespace/workflows"),
    post("/api/v1/namespaces", {"namespace": "http-made", "workflowExecutionRetentionPeriod": "86400s", "data": {"b": "2", "a": "1"}}),
    post("/api/v1/namespaces", {"namespace": "http-made", "workflowExecutionRetentionPeriod": "86400s"}),
    post("/api/v1/namespaces", {"namespace": "http-short", "workflowExecutionRetentionPeriod": "1s"}),
    get("/api/v1/namespaces/http-made"),
    post("/api/v1/namespaces/http-made/update", {"updateInfo": {"description": "d", "data": {"c": "3"}}}),
    # Starting.
    start("w1", input=["a", 1, 1.5, {"b": [], "c": None}, None, 12345678901234567890, True]),
    start("w1"),
    start("w1", workflowIdConflictPolicy="WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING"),
    start("w2", input={"payloads": [{"metadata": {"encoding": PLAIN}, "data": "ImEi"}]}),
    start("w3", input=[{"metadata": {"encoding": PLAIN, "more": "eA=="}, "data": "ImEi"}, 2]),
    start("w4", input=[{"metadata": {"encoding": "YmluYXJ5L3BsYWlu"}, "data": "AAE="}]),
    start("w5", input=[{"_protoMessageType": "a.B", "x": "<&>"}], identity="someone"),
    post("/namespaces/default/workflows/w6", {"workflow_type": {"name": "T"}, "task_queue": {"name": "idle"}, "request_id": "r"}),
    start(
        "w7",
        memo={"fields": {"text": "b", "object": {"d": [1, 2]}}},
        retryPolicy={"maximumAttempts": 3, "backoffCoefficient": 1.5, "initialInterval": "1.5s", "maximumInterval": "60s"},
        workflowRunTimeout="100s",
        workflowIdReusePolicy="RejectDuplicate",
        userMetadata={"summary": "in short"},
        priority={"priorityKey": 2, "fairnessKey": "f", "fairnessWeight": 1.25},
    ),
    start("w8", searchAttributes={"indexedFields": {"NoSuchAttribute": "x"}}),
    start("w9", cronSchedule="not cron"),
    post(f"{NS}/workflows/in-body", {**TALKER, "taskQueue": {"name": "idle"}, "workflowId": "other", "namespace": "elsewhere"}),
    post(f"{NS}/workflows/none", {}),
    post(f"{NS}/workflows/none"),
    post(f"{NS}/workflows/a%20b%3Ac", {**TALKER, "taskQueue": {"name": "idle"}}),
    # Bodies that do not fit.
    post(f"{NS}/workflows/w", "{"),
    post(f"{NS}/workflows/w", "x"),
    post(f"{NS}/workflows/w", '{"a" 1}'),
    post(f"{NS}/workflows/w", '{"identity":"a",}'),
    post(f"{NS}/workflows/w", "{'a':1}"),
    post(f"{NS}/workflows/w", '{"nope":1}'),
    post(f"{NS}/workflows/w", '{"identity":1}'),
    post(f"{NS}/workflows/w", '{\n  "identity": "é",\n  "nope": 1\n}'),
    post(f"{NS}/workflows/w", '{"identity":"a","identity":"b"}'),
    post(f"{NS}/workflows/w", '{"identity":"a","workflow_id":"b","workflowId":"c"}'),
    post(f"{NS}/workflows/w", '{"workflowRunTimeout":"5"}'),
    post(f"{NS}/workflows/w", '{"workflowRunTimeout":"400000000000s"}'),
    post(f"{NS}/workflows/w", '{"workflowIdReusePolicy":"X"}'),
    post(f"{NS}/workflows/w", '{"workflowIdReusePolicy":true}'),
    post(f"{NS}/workflows/w", '{"requestEagerExecution":"yes"}'),
    post(f"{NS}/workflows/w", '{"retryPolicy":{"maximumAttempts":1.5}}'),
    post(f"{NS}/workflows/w", '{"retryPolicy":{"maximumAttempts":3000000000}}'),
    post(f"{NS}/workflows/w", '{"retryPolicy":{"backoffCoefficient":"x"}}'),
    post(f"{NS}/workflows/w", '{"lastCompletionResult":[1],"header":{"fields":{"a":1,"a":2}}}'),
    # Reading.
    get(f"{NS}/workflows/w1"),
    get(f"{NS}/workflows/w7"),
    get(f"{NS}/workflows/w7?noPayloadShorthand"),
    get(f"{NS}/workflows/nope"),
    get(f"{NS}/workflows/w1?execution.runId=abc"),
    get(f"{NS}/workflows/w1?execution.workflowId=other"),
    get(f"{NS}/workflows/a%20b%3Ac"),
    get(f"{NS}/workflows/a%2Fb"),
    get(f"{NS}/workflows/w1/history"),
    get(f"{NS}/workflows/w3/history"),
    get(f"{NS}/workflows/w4/history"),
    get(f"{NS}/workflows/w5/history"),
    get(f"{NS}/workflows/w5/history", Accept="application/json+no-payload-shorthand"),
    get(f"{NS}/workflows/w1/history?maximumPageSize=1&noPayloadShorthand&pretty"),
    get(f"{NS}/workflows/w1/history-reverse?maximumPageSize=1"),
    get(f"{NS}/workflows/w1/history?maximumPageSize=x"),
    get(f"{NS}/workflows/w1/history?waitNewEvent=maybe"),
    get(f"{NS}/workflows/w1/history?historyEventFilterType=x"),
    get(f"{NS}/workflows/w1/history?nextPageToken=!"),
    get(f"{NS}/workflows?query=WorkflowId%3D%27w1%27&pageSize=5"),
    get(f"{NS}/workflows?pageSize=x"),
    get(f"{NS}/workflows?pageSize=99999999999"),
    get(f"{NS}/workflows?pageSize=1&pageSize=2"),
    get(f"{NS}/workflows?query=WorkflowId%3D%27w1%27&nope=1&page_size=1"),
    get(f"{NS}/workflow-count?query=WorkflowId%3D%27w1%27"),
    get(f"{NS}/workflow-count?query=WorkflowId%3D%27w1%27+GROUP+BY+ExecutionStatus"),
    # Changing.
    post(f"{NS}/workflows/w1/signal/s", {"input": [{"x": 1}], "requestId": "r"}),
    post(f"{NS}/workflows/w1/signal/s"),
    post(f"{NS}/workflows/nope/signal/s", {}),
    post(f"{NS}/workflows/w1/signal/s", {"input": {"payloads": []}}, Content_Type="application/json+no-payload-shorthand"),
    post(f"{NS}/workflows/w1/signal/s", {"input": [1]}, Content_Type="application/json+no-payload-shorthand"),
    post(f"{NS}/workflows/w20/signal-with-start/s", {**TALKER, "taskQueue": {"name": "idle"}, "signalInput": ["x"]}),
    post(f"{NS}/workflows/w1/cancel", {}),
    post(f"{NS}/workflows/w1/cancel", {"reason": "again"}),
    post(f"{NS}/workflows/w1/terminate", {"reason": "r", "details": ["d"]}),
    post(f"{NS}/workflows/w1/terminate", {"reason": "r"}),
    get(f"{NS}/workflows/w1/history?historyEventFilterType=2"),
    post(f"{NS}/workflows/w2/pause", {}),
    post(f"{NS}/workflows/nope/reset", {"reason": "r", "workflowTaskFinishEventId": "3", "requestId": "x"}),
    # With a worker.
    post(f"{NS}/workflows/talker", {**TALKER, "input": [{"hello": ["world"]}]}),
    post(f"{NS}/workflows/talker/update/add", {}),
    post(
        f"{NS}/workflows/talker/update/add",
        {
            "waitPolicy": {"lifecycleStage": "UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED"},
            "request": {"meta": {"updateId": "u1"}, "input": {"args": ["more"]}},
        },
    ),
    post(
        f"{NS}/workflows/talker/update/add",
        {
            "waitPolicy": {"lifecycleStage": "UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED"},
            "request": {"meta": {"updateId": "u2"}, "input": {"args": ["bad"]}},
        },
    ),
    post(f"{NS}/workflows/talker/signal/say", {"input": [[1, 2.5, "three"]]}),
    post(f"{NS}/workflows/talker/query/everything", {}),
    post(f"{NS}/workflows/talker/query/everything"),
    post(f"{NS}/workflows/talker/query/broken"),
    post(f"{NS}/workflows/talker/query/nope", {}),
    post(f"{NS}/workflows/talker/query/everything", {"queryRejectCondition": "NOPE"}),
    post(f"{NS}/workflows/nope/query/q"),
    post(f"{NS}/workflows/nope/update/u", {}),
    post(f"{NS}/workflows/talker/signal/end", {}),
    get(f"{NS}/workflows/talker/history?waitNewEvent=true&historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT"),
    post(f"{NS}/workflows/talker/query/everything", {"queryRejectCondition": "QUERY_REJECT_CONDITION_NOT_OPEN"}),
    # Schedules.
    post(
        f"{NS}/schedules/s1",
        {
            "schedule": {
                "spec": {"interval": [{"interval": "3600s"}], "timezoneName": "Europe/Berlin"},
                "action": {
                    "startWorkflow": {
                        "workflowId": "x",
                        "workflowType": {"name": "t"},
                        "taskQueue": {"name": "q"},
                        "input": [1, {"a": "b"}],
                    }
                },
                "state": {"notes": "n", "paused": True},
            },
            "requestId": "r",
            "memo": {"fields": {"m": 1}},
        },
    ),
    post(f"{NS}/schedules/s1", {"schedule": {"action": {"startWorkflow": {"workflowId": "x"}}}}),
    post(f"{NS}/schedules/s2", {"schedule": {"spec": {"interval": [{"interval": 5}]}}}),
    get(f"{NS}/schedules/s1"),
    get(f"{NS}/schedules/s1/matching-times?startTime=2024-01-01T00:00:00Z&endTime=2024-01-01T03:00:00Z"),
    get(f"{NS}/schedules/s1/matching-times?startTime=yesterday"),
    post(f"{NS}/schedules/s1/patch", {"patch": {"unpause": "go"}, "requestId": "p"}),
    get(f"{NS}/schedules/nope"),
    Exchange("DELETE", f"{NS}/schedules/s1"),
    Exchange("DELETE", f"{NS}/schedules/s1"),
    # Others.
    get("/api/v1/cluster-info"),
    get(f"{NS}/search-attributes"),
    get(f"{NS}/task-queues/q?taskQueueType=TASK_QUEUE_TYPE_ACTIVITY"),
    get(f"{NS}/task-queues/q?taskQueueType=2"),
    get(f"{NS}/task-queues/q?taskQueueType=x"),
    get(f"{NS}/batch-operations"),
    get(f"{NS}/batch-operations/nope"),
    post(f"{NS}/batch-operations/b1", {"visibilityQuery": "WorkflowId='nope'", "reason": "r", "terminationOperation": {}}),
    post(
        f"{NS}/batch-operations/b2",
        '{"visibilityQuery":"x","reason":"r","terminationOperation":{},"cancellationOperation":{}}',
    ),
    get(f"{NS}/workflow-rules"),
    get(f"{NS}/workflows/w1/time-skipping/poll"),
]


def ask(address: str, exchange: Exchange) -> dict[str, Any]:
    """Makes a request; returns what is compared."""
    connection = http.client.HTTPConnection(address, timeout=60)
    body, headers = exchange.body, dict(exchange.headers)
    if body is not None and not isinstance(body, str):
        body = json.dumps(body)
    try:
        connection.request(exchange.method, exchange.path, body.encode() if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read().decode()
        return {
            "status": response.status,
            "content_type": response.getheader("content-type"),
            "body": normalised(text),
        }
    finally:
        connection.close()


def normalised(text: str) -> str:
    """A body without what differs from one time to the next. Order and spacing stay."""
    # Where the SDK is installed is not compared.
    text = re.sub(r'("stackTrace":\s*)"(\\.|[^"\\])*"', r'\1"…"', text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", text)
    # Where in the source of Temporal's server a token was not expected.
    text = re.sub(r" \(in [^ )]*\)", "", text)
    for name in ("taskId", "historySizeBytes", "identity", "sdkVersion", "workerInstanceKey", "workerGroupingKey"):
        text = re.sub(rf'("{name}":\s*)"[^"]*"', r'\1"…"', text)
    text = re.sub(r'("(nextPageToken|conflictToken)":\s*)"[^"]*"', r'\1"…"', text)
    # Paths of the machine that the worker runs on.
    text = re.sub(r'("stackTrace":\s*)"(?:[^"\\]|\\.)*"', r'\1"…"', text)
    # What the calls themselves answer otherwise, also over gRPC (docs/reference/compatibility.md).
    for name in ("capabilities", "limits"):
        text = re.sub(rf'("{name}":\s*){{[^}}]*}}', r"\1{…}", text)
    text = re.sub(r'"(clusterId|persistenceStore|visibilityStore)":"[^"]*"', r'"\1":"…"', text)
    text = re.sub(r',"effectiveRateLimit":{"requestsPerSecond":4000,"rateLimitSource":"RATE_LIMIT_SOURCE_SYSTEM"}', "", text)
    return text.replace(',"state":"REPLICATION_STATE_NORMAL"', "")


async def answers(grpc: str, http_address: str) -> list[dict[str, Any]]:
    """Makes all requests, in their order."""
    client = await Client.connect(grpc)
    worker = Worker(
        client, task_queue=QUEUE, workflows=[Talker], workflow_runner=UnsandboxedWorkflowRunner()
    )
    async with worker:
        found = []
        for exchange in EXCHANGES:
            found.append(await asyncio.to_thread(ask, http_address, exchange))
        return found


def key(exchange: Exchange) -> str:
    """A request in one line."""
    body = "" if exchange.body is None else " " + (exchange.body if isinstance(exchange.body, str) else json.dumps(exchange.body))
    headers = "".join(f" {name}: {value}" for name, value in sorted(exchange.headers.items()))
    return f"{exchange.method} {exchange.path}{headers}{body}"


def main() -> None:
    grpc, http_address = sys.argv[1:]
    found = asyncio.run(answers(grpc, http_address))
    recorded = [{"request": key(exchange), **answer} for exchange, answer in zip(EXCHANGES, found)]
    RECORDING.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
