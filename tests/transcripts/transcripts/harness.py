"""One scenario's connection to a server: plays the caller and the worker, and writes down every call.

`Session.call` performs one RPC and records it; the other methods are conveniences with
defaults. Names given by scenarios (workflow ids, task queues) get a random suffix so that
scenarios do not meet; the normaliser removes it again.
"""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import Future
from typing import Any

import grpc
from google.protobuf.message import Message
from temporalio.api.operatorservice.v1 import request_response_pb2 as operator_requests
from temporalio.api.operatorservice.v1 import service_pb2_grpc as operator_grpc
from temporalio.api.workflowservice.v1 import request_response_pb2 as requests
from temporalio.api.workflowservice.v1 import service_pb2_grpc

from .build import Fields, payloads
from .normalise import Normaliser

NAMESPACE = "default"
POLL_SECONDS = 8.0
# A poll that is to come back empty. Servers refuse those that arrive with less than 2 s left.
POLL_SHORT = 2.5
# How long a caller waits for an update: long on busy machines, but less than the server's own limit of 20 s.
PATIENT = 18
STAGE = "UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_"
OPTIONS = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]


class Stopped(Exception):
    """The scenario cannot go on, for example because an expected task did not arrive."""


class Server:
    """A channel to the server under test, shared by all scenarios."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, options=OPTIONS)
        self.stub = service_pb2_grpc.WorkflowServiceStub(self.channel)
        self.operator = operator_grpc.OperatorServiceStub(self.channel)
        self.namespace_id = ""

    def method(self, rpc: str) -> tuple[Any, Any]:
        """The type of a call's request, and the call itself; of whichever service has it."""
        if hasattr(self.stub, rpc):
            return getattr(requests, f"{rpc}Request"), getattr(self.stub, rpc)
        return getattr(operator_requests, f"{rpc}Request"), getattr(self.operator, rpc)

    def wait_ready(self, patience: float = 30) -> None:
        """Waits until the default namespace answers, and learns its id."""
        end = time.monotonic() + patience
        while True:
            try:
                request = requests.DescribeNamespaceRequest(namespace=NAMESPACE)
                self.namespace_id = self.stub.DescribeNamespace(request, timeout=5).namespace_info.id
                return
            except grpc.RpcError as error:
                if time.monotonic() > end:
                    raise SystemExit(f"server not ready: {error.code().name} {error.details()}") from error
                time.sleep(0.2)


class Session:
    """One playing of one scenario."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.nonce = uuid.uuid4().hex[:12]
        self.normaliser = Normaliser(self.nonce, server.namespace_id)
        self.steps: list[dict[str, Any]] = []
        self.request_count = 0
        # Where calls go that name no namespace.
        self.namespace = NAMESPACE

    # -- the one way to talk to the server ------------------------------------------------

    def call(self, rpc: str, /, deadline: float | None = 10, **fields: Any) -> Any:
        """Performs and records one RPC. Returns the response, or None after an error."""
        return self.join(self.begin(rpc, deadline, **fields))

    def begin(
        self, rpc: str, /, deadline: float | None = 10, headers: dict[str, str] | None = None, **fields: Any
    ) -> Future:
        """Starts an RPC in the background; `join` records it."""
        sent = tuple((headers or {}).items())
        fields.setdefault("namespace", self.namespace)
        kind, method = self.server.method(rpc)
        request = kind(**{k: v for k, v in fields.items() if v is not None})
        done: Future = Future()

        def run() -> None:
            try:
                response = method(request, timeout=deadline, metadata=sent)
                done.set_result((rpc, headers, request, response, None))
            except grpc.RpcError as error:
                done.set_result((rpc, headers, request, None, error))

        threading.Thread(target=run, daemon=True).start()
        return done

    def join(self, begun: Future) -> Any:
        """Waits for a begun RPC and records it."""
        rpc, headers, request, response, error = begun.result(timeout=60)
        step: dict[str, Any] = {"call": rpc, "request": self._summary(request)}
        if headers:
            step["headers"] = headers
        if error is not None:
            step["error"] = self.normaliser.error(error)
        else:
            step["response"] = self.normaliser.message(response)
        self.steps.append(step)
        return response

    def _summary(self, request: Message) -> Any:
        out = self.normaliser.message(request)
        if out.get("namespace") in (NAMESPACE, *self.normaliser.names.values()):
            del out["namespace"]
        return out

    def silent(self, rpc: str, **fields: Any) -> Any:
        """Performs an RPC without recording it."""
        kind, method = self.server.method(rpc)
        return method(kind(**{"namespace": self.namespace, **fields}), timeout=10)

    def observe(self, what: str, value: Any) -> None:
        """Records what unrecorded calls have found out."""
        self.steps.append({"call": f"({what})", "response": value})

    # -- names ----------------------------------------------------------------------------

    def name(self, short: str) -> str:
        """A name unique to this playing."""
        return f"{short}-{self.nonce}"

    def new_namespace(self, short: str = "ns", days: int = 1, **more: Any) -> str:
        """Registers a namespace and returns its name."""
        fields = {"workflow_execution_retention_period": {"seconds": days * 86400}, **more}
        self.call("RegisterNamespace", namespace=self.name(short), **fields)
        return self.name(short)

    def queue(self, short: str = "q") -> Fields:
        """A TaskQueue."""
        return {"name": self.name(short), "kind": "TASK_QUEUE_KIND_NORMAL"}

    def sticky(self, short: str = "sticky") -> Fields:
        """A sticky TaskQueue that belongs to the queue `q`."""
        return {"name": self.name(short), "kind": "TASK_QUEUE_KIND_STICKY", "normal_name": self.name("q")}

    def request_id(self) -> str:
        """A fresh request id."""
        self.request_count += 1
        return self.name(f"request-{self.request_count}")

    def execution(self, wf: str = "wf", run: str = "") -> Fields:
        """A WorkflowExecution."""
        return {"workflow_id": self.name(wf), "run_id": run}

    # -- caller ---------------------------------------------------------------------------

    def start_fields(self, wf: str = "wf", queue: str = "q", **more: Any) -> Fields:
        """The fields of a plain start request."""
        plain = {
            "workflow_id": self.name(wf),
            "workflow_type": {"name": "wt"},
            "task_queue": {"name": self.name(queue)},
            "identity": "caller",
            "request_id": self.request_id(),
        }
        return {**plain, **more}

    def start(self, wf: str = "wf", queue: str = "q", **more: Any) -> str:
        """Starts a workflow and returns its run id ("" after an error)."""
        response = self.call("StartWorkflowExecution", **self.start_fields(wf, queue, **more))
        return response.run_id if response else ""

    def signal(self, signal_name: str = "sig", wf: str = "wf", run: str = "", **more: Any) -> None:
        """Signals a workflow."""
        fields = {"workflow_execution": self.execution(wf, run), "signal_name": signal_name, "identity": "caller"}
        self.call("SignalWorkflowExecution", **{**fields, **more})

    def signal_with_start(self, signal_name: str = "sig", wf: str = "wf", **more: Any) -> str:
        """Signals a workflow, starting it if needed."""
        fields = {**self.start_fields(wf), "signal_name": signal_name, **more}
        response = self.call("SignalWithStartWorkflowExecution", **fields)
        return response.run_id if response else ""

    def cancel(self, wf: str = "wf", run: str = "", **more: Any) -> None:
        """Requests cancellation."""
        fields = {"workflow_execution": self.execution(wf, run), "identity": "caller", "request_id": self.request_id()}
        self.call("RequestCancelWorkflowExecution", **{**fields, **more})

    def terminate(self, wf: str = "wf", run: str = "", **more: Any) -> None:
        """Terminates a workflow."""
        fields = {"workflow_execution": self.execution(wf, run), "identity": "caller", "reason": "enough"}
        self.call("TerminateWorkflowExecution", **{**fields, **more})

    def reset(self, event_id: int, run: str = "", wf: str = "wf", **more: Any) -> str:
        """Resets a workflow to the given event and returns the new run's id ("" after an error)."""
        fields = {
            "workflow_execution": self.execution(wf, run),
            "reason": "again",
            "workflow_task_finish_event_id": event_id,
            "request_id": self.request_id(),
            "identity": "caller",
        }
        response = self.call("ResetWorkflowExecution", **{**fields, **more})
        return response.run_id if response else ""

    def begin_query(self, wf: str = "wf", run: str = "", deadline: float = 10, **more: Any) -> Future:
        """Begins a query; `join` it after a worker has answered."""
        fields = {"execution": self.execution(wf, run), "query": {"query_type": "state"}}
        return self.begin("QueryWorkflow", deadline, **{**fields, **more})

    def query(self, wf: str = "wf", run: str = "", **more: Any) -> Any:
        """A query that needs no worker of ours."""
        return self.join(self.begin_query(wf, run, **more))

    def update_fields(
        self, update_id: str = "u", wf: str = "wf", run: str = "", stage: str = "", **more: Any
    ) -> Fields:
        """The fields of an update request; `stage` names the stage to wait for."""
        plain: Fields = {
            "workflow_execution": self.execution(wf, run),
            "request": {
                "meta": {"update_id": update_id, "identity": "caller"},
                "input": {"name": "up", "args": payloads(f"args of {update_id}")},
            },
        }
        if stage:
            plain["wait_policy"] = {"lifecycle_stage": f"{STAGE}{stage}"}
        return {**plain, **more}

    def begin_update(self, update_id: str = "u", wf: str = "wf", deadline: float = PATIENT, **more: Any) -> Future:
        """Begins an update; `join` it after a worker has answered."""
        return self.begin("UpdateWorkflowExecution", deadline, **self.update_fields(update_id, wf, **more))

    def admit(self, update_id: str = "u", wf: str = "wf", **more: Any) -> Future:
        """Begins an update and waits, unrecorded, until the server knows it."""
        begun = self.begin_update(update_id, wf, **more)
        self.wait_update(update_id, wf)
        return begun

    def update(self, update_id: str = "u", wf: str = "wf", **more: Any) -> Any:
        """An update that needs no worker of ours."""
        return self.join(self.begin_update(update_id, wf, **more))

    def begin_poll_update(
        self,
        update_id: str = "u",
        wf: str = "wf",
        run: str = "",
        stage: str = "",
        deadline: float = PATIENT,
        **more: Any,
    ) -> Future:
        """Begins to wait for an update's outcome; without a stage it asks for what is known now."""
        fields: Fields = {"update_ref": {"workflow_execution": self.execution(wf, run), "update_id": update_id}}
        if stage:
            fields["wait_policy"] = {"lifecycle_stage": f"{STAGE}{stage}"}
        return self.begin("PollWorkflowExecutionUpdate", deadline, **{**fields, **more})

    def poll_update(self, update_id: str = "u", wf: str = "wf", **more: Any) -> Any:
        """Waits for an update's outcome."""
        return self.join(self.begin_poll_update(update_id, wf, **more))

    def history(self, wf: str = "wf", run: str = "", **more: Any) -> Any:
        """Reads and records the history."""
        return self.call("GetWorkflowExecutionHistory", execution=self.execution(wf, run), **more)

    def describe(self, wf: str = "wf", run: str = "") -> Any:
        """Describes and records the execution."""
        return self.call("DescribeWorkflowExecution", execution=self.execution(wf, run))

    # -- workflow worker ------------------------------------------------------------------

    def poll(self, queue: str | Fields = "q", deadline: float = POLL_SECONDS, may_be_empty: bool = False) -> Any:
        """Polls for a workflow task, which must arrive unless `may_be_empty`."""
        target = self.queue(queue) if isinstance(queue, str) else queue
        return self._poll_for("PollWorkflowTaskQueue", target, deadline, may_be_empty)

    def _poll_for(self, rpc: str, queue: Fields, deadline: float, may_be_empty: bool) -> Any:
        task = self.call(rpc, deadline, task_queue=queue, identity="worker")
        if not may_be_empty and (task is None or not task.task_token):
            raise Stopped("no task arrived")
        return task

    def complete(self, task: Any, *commands: Fields, **more: Any) -> Any:
        """Completes a workflow task."""
        fields = {"task_token": task.task_token, "identity": "worker", "commands": list(commands)}
        return self.call("RespondWorkflowTaskCompleted", **{**fields, **more})

    def fail_task(self, task: Any, cause: str = "WORKFLOW_WORKER_UNHANDLED_FAILURE", **more: Any) -> None:
        """Fails a workflow task."""
        fields = {
            "task_token": task.task_token,
            "cause": f"WORKFLOW_TASK_FAILED_CAUSE_{cause}",
            "identity": "worker",
            "failure": {"message": "worker broke", "application_failure_info": {"type": "Broken"}},
        }
        self.call("RespondWorkflowTaskFailed", **{**fields, **more})

    def run_task(self, *commands: Fields, queue: str | Fields = "q", **more: Any) -> Any:
        """Polls a workflow task and completes it; returns the completion's response."""
        return self.complete(self.poll(queue), *commands, **more)

    def begun(self, *commands: Fields, **more: Any) -> str:
        """Starts `wf`, completes its first workflow task with the given commands, returns the run id."""
        run = self.start(**more)
        self.run_task(*commands)
        return run

    # -- activity worker ------------------------------------------------------------------

    def activity(self, activity_id: str = "a", user_metadata: Fields | None = None, **more: Any) -> Fields:
        """A ScheduleActivityTask command with sensible defaults."""
        attributes = {
            "activity_id": activity_id,
            "activity_type": {"name": "act"},
            "task_queue": {"name": self.name("q")},
            "start_to_close_timeout": {"seconds": 10},
            **more,
        }
        attributes = {k: v for k, v in attributes.items() if v is not None}
        out: Fields = {
            "command_type": "COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK",
            "schedule_activity_task_command_attributes": attributes,
        }
        if user_metadata:
            out["user_metadata"] = user_metadata
        return out

    def poll_activity(self, queue: str = "q", deadline: float = POLL_SECONDS, may_be_empty: bool = False) -> Any:
        """Polls for an activity task."""
        return self._poll_for("PollActivityTaskQueue", self.queue(queue), deadline, may_be_empty)

    def complete_activity(self, task: Any, *results: Any, **more: Any) -> None:
        """Completes an activity task."""
        given = payloads(*results) if results else None
        fields = {"task_token": task.task_token, "identity": "worker", "result": given}
        self.call("RespondActivityTaskCompleted", **{**fields, **more})

    def fail_activity(self, task: Any, failure: Fields, **more: Any) -> None:
        """Fails an activity task."""
        fields = {"task_token": task.task_token, "identity": "worker", "failure": failure}
        self.call("RespondActivityTaskFailed", **{**fields, **more})

    def heartbeat(self, task: Any, *details: Any, **more: Any) -> Any:
        """Heartbeats an activity task."""
        given = payloads(*details) if details else None
        return self.call(
            "RecordActivityTaskHeartbeat", task_token=task.task_token, identity="worker", details=given, **more
        )

    def by_id(self, rpc: str, wf: str = "wf", run: str = "", activity_id: str = "a", **more: Any) -> None:
        """Calls one of the …ById activity RPCs."""
        fields = {"workflow_id": self.name(wf), "run_id": run, "activity_id": activity_id, "identity": "worker"}
        self.call(rpc, **{**fields, **more})

    # -- waiting --------------------------------------------------------------------------

    def wait_event(self, kind: str, wf: str = "wf", run: str = "", count: int = 1, patience: float = 15) -> Any:
        """Waits, unrecorded, until the history holds `count` events of the kind; returns the last of them."""
        end = time.monotonic() + patience
        while True:
            try:
                history = self.silent("GetWorkflowExecutionHistory", execution=self.execution(wf, run)).history
                found = [e for e in history.events if e.WhichOneof("attributes") == f"{kind}_event_attributes"]
                if len(found) >= count:
                    return found[-1]
            except grpc.RpcError:
                pass
            if time.monotonic() > end:
                raise Stopped(f"no {kind} event number {count} in {wf}")
            time.sleep(0.05)

    def wait_describe(self, test: Any, wf: str = "wf", run: str = "", patience: float = 15) -> Any:
        """Waits, unrecorded, until a description satisfies the test; returns it."""
        end = time.monotonic() + patience
        while True:
            try:
                described = self.silent("DescribeWorkflowExecution", execution=self.execution(wf, run))
                if test(described):
                    return described
            except grpc.RpcError:
                pass
            if time.monotonic() > end:
                raise Stopped("the awaited description did not come")
            time.sleep(0.05)

    def wait_update(self, update_id: str = "u", wf: str = "wf", patience: float = 15) -> None:
        """Waits, unrecorded, until the server knows the update."""
        ref = {"workflow_execution": self.execution(wf), "update_id": update_id}
        end = time.monotonic() + patience
        while True:
            try:
                self.silent("PollWorkflowExecutionUpdate", update_ref=ref)
                return
            except grpc.RpcError:
                if time.monotonic() > end:
                    raise Stopped(f"update {update_id} did not arrive") from None
            time.sleep(0.03)

    def wait_new_run(self, old_run: str, wf: str = "wf") -> str:
        """Waits, unrecorded, until the workflow id belongs to another run; returns that run's id."""
        described = self.wait_describe(lambda d: d.workflow_execution_info.execution.run_id != old_run, wf)
        return described.workflow_execution_info.execution.run_id
