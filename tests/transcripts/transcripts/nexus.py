"""Plays Nexus: endpoints, workflows that call operations, and the worker that carries these out.

The real server has no backlog of Nexus tasks: the handler polls before the caller schedules the operation, otherwise
the attempt fails. After six failed attempts it sends nothing to the endpoint for a minute. So each scenario has an
endpoint of its own.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import Future
from typing import Any

from temporalio.api.enums.v1.common_pb2 import CallbackState as callback_state

from .build import Fields, command, payload
from .harness import POLL_SECONDS, Session, Stopped

# How long a poll needs to reach the queue, and a new endpoint the parts of the real server.
ARRIVAL = 0.3
QUEUE = "handlers"
# The header of a callback that says the operation's token, in case the handler's answer is not there yet.
OPERATION_TOKEN = "nexus-operation-token"
LINK = re.compile(r"temporal:///namespaces/([^/]+)/workflows/([^/]+)/([^/]+)/history\?eventID=(\d+)&.*")


def worker_target(s: Session, queue: str = QUEUE, **more: Any) -> Fields:
    """A target: a task queue."""
    return {"worker": {"namespace": s.namespace, "task_queue": s.name(queue), **more}}


def spec(s: Session, short: str = "ep", **more: Any) -> Fields:
    """What an endpoint is to be."""
    return {"name": s.name(short), "target": worker_target(s), **more}


def call_of(s: Session, rpc: str, **fields: Any) -> Any:
    """A recorded call of the operator service, whose requests have no namespace."""
    return s.call(rpc, namespace=None, **fields)


def quietly(s: Session, rpc: str, **fields: Any) -> Any:
    """A call of the operator service that is not recorded."""
    kind, method = s.server.method(rpc)
    return method(kind(**fields), timeout=10)


def create(s: Session, short: str = "ep", **more: Any) -> Any:
    """Creates an endpoint and records that."""
    made = call_of(s, "CreateNexusEndpoint", spec=spec(s, short, **more))
    return made.endpoint if made else None


def endpoint(s: Session, short: str = "ep", **more: Any) -> Any:
    """Creates an endpoint, unrecorded."""
    made = quietly(s, "CreateNexusEndpoint", spec=spec(s, short, **more))
    time.sleep(ARRIVAL)
    return made.endpoint


def operation(s: Session, user_metadata: Fields | None = None, **more: Any) -> Fields:
    """A command that schedules an operation."""
    plain = {"endpoint": s.name("ep"), "service": "svc", "operation": "op", **more}
    return command("SCHEDULE_NEXUS_OPERATION", user_metadata, **plain)


def cancel_operation(scheduled: int = 5) -> Fields:
    """A command that requests to cancel an operation."""
    return command("REQUEST_CANCEL_NEXUS_OPERATION", scheduled_event_id=scheduled)


def begin_poll(s: Session, queue: str = QUEUE, **more: Any) -> Future:
    """A worker's poll that is there when this returns."""
    begun = s.begin("PollNexusTaskQueue", POLL_SECONDS, task_queue=s.queue(queue), identity="handler", **more)
    time.sleep(ARRIVAL)
    return begun


def taken(s: Session, begun: Future) -> Any:
    """The task that a poll has brought."""
    task = s.join(begun)
    if task is None or not task.task_token:
        raise Stopped("no task for the handler arrived")
    return task


def poll(s: Session, queue: str = QUEUE, deadline: float = POLL_SECONDS) -> Any:
    """A task that comes later, such as that of the next attempt."""
    return taken(s, s.begin("PollNexusTaskQueue", deadline, task_queue=s.queue(queue), identity="handler"))


def called(s: Session, *commands: Fields, task: Any = None, **more: Any) -> Any:
    """Starts the caller `wf`, whose first workflow task schedules an operation; returns the handler's task.

    With `task`, that workflow task does it instead.
    """
    if task is None:
        s.start(**more)
        task = s.poll()
    begun = begin_poll(s)
    s.complete(task, *(commands or [operation(s)]))
    return taken(s, begun)


def respond(s: Session, task: Any, response: Fields | None, **more: Any) -> None:
    """The handler has carried out a task."""
    fields = {"task_token": task.task_token, "identity": "handler", "response": response, **more}
    s.call("RespondNexusTaskCompleted", **fields)


def succeed(s: Session, task: Any, *result: Any, links: list[Fields] | None = None) -> None:
    """The operation is over, with a result."""
    done: Fields = {"links": links or []}
    if result:
        done["payload"] = payload(result[0])
    respond(s, task, {"start_operation": {"sync_success": done}})


def begin(s: Session, task: Any, token: str = "token", links: list[Fields] | None = None) -> None:
    """The operation goes on."""
    respond(s, task, {"start_operation": {"async_success": {"operation_token": token, "links": links or []}}})


def fail_operation(s: Session, task: Any, **outcome: Any) -> None:
    """The operation is over without a result: `failure` or `operation_error`."""
    respond(s, task, {"start_operation": outcome})


def accept_cancel(s: Session, task: Any) -> None:
    """The handler has accepted the request to cancel."""
    respond(s, task, {"cancel_operation": {}})


def handler_failure(kind: str = "INTERNAL", message: str = "no handler", behavior: str = "", **more: Any) -> Fields:
    """A failure with the info of a handler's error."""
    info = {"type": kind}
    if behavior:
        info["retry_behavior"] = f"NEXUS_HANDLER_ERROR_RETRY_BEHAVIOR_{behavior}"
    return {"message": message, "nexus_handler_failure_info": info, **more}


def fail(s: Session, task: Any, **what: Any) -> None:
    """The handler could not carry out a task: `failure` or, in the older form, `error`."""
    s.call("RespondNexusTaskFailed", task_token=task.task_token, identity="handler", **what)


def callback_of(task: Any, token: str = "token", links: list[Any] | None = None) -> Fields:
    """The callback that came with a task, as SDKs attach it to a workflow."""
    asked = task.request.start_operation
    header = {**asked.callback_header, OPERATION_TOKEN: token} if token else dict(asked.callback_header)
    return {"nexus": {"url": asked.callback, "header": header}, "links": links or []}


def links_of(task: Any) -> list[Fields]:
    """The caller's event as a link of a start request, made of the link that came with a task."""
    wanted = LINK.fullmatch(task.request.start_operation.links[0].url)
    if wanted is None:
        raise Stopped("the task's link is none to an event")
    namespace, workflow_id, run_id, event_id = wanted.groups()
    event = {"event_id": int(event_id), "event_type": "EVENT_TYPE_NEXUS_OPERATION_SCHEDULED"}
    where = {"namespace": namespace, "workflow_id": workflow_id, "run_id": run_id}
    return [{"workflow_event": {**where, "event_ref": event}}]


def link_to(s: Session, wf: str, run: str) -> Fields:
    """A link to the start of a workflow, as a handler's answer has it."""
    path = f"temporal:///namespaces/{s.namespace}/workflows/{s.name(wf)}/{run}/history"
    query = "eventID=1&eventType=WorkflowExecutionStarted&referenceType=EventReference"
    return {"url": f"{path}?{query}", "type": "temporal.api.common.v1.Link.WorkflowEvent"}


def start_handler(s: Session, task: Any, token: str = "token", wf: str = "h", **more: Any) -> str:
    """Starts the workflow that carries out an operation, as SDKs do it; returns its run id."""
    links = links_of(task)
    fields = {
        "completion_callbacks": [callback_of(task, token, links)],
        "request_id": task.request.start_operation.request_id,
        "links": links,
        **more,
    }
    return s.start(wf, "hq", **fields)


def wait_callbacks(s: Session, wf: str = "h", run: str = "", count: int = 1) -> None:
    """Waits, unrecorded, until callbacks of a workflow have been delivered, or have failed."""
    done = ("CALLBACK_STATE_SUCCEEDED", "CALLBACK_STATE_FAILED")

    def delivered(described: Any) -> bool:
        states = [callback_state.Name(each.state) for each in described.callbacks]
        return len(states) >= count and all(state in done for state in states)

    s.wait_describe(delivered, wf, run)
