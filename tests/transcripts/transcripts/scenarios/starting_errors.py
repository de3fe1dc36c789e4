"""Start requests that are refused, with their exact texts."""

from __future__ import annotations

from ..build import payload, retry, seconds
from ..harness import Session
from . import scenario

REUSE = "WORKFLOW_ID_REUSE_POLICY_"
CONFLICT = "WORKFLOW_ID_CONFLICT_POLICY_"


@scenario
def missing_fields(s: Session) -> None:
    """Required fields left out, one at a time."""
    s.start(workflow_id="")
    s.start(workflow_type=None)
    s.start(workflow_type={"name": ""})
    s.start(task_queue=None)
    s.start(task_queue={"name": ""})
    s.start(namespace="")


@scenario
def missing_request_id(s: Session) -> None:
    """A missing request id is made up by the server."""
    s.start(request_id="")
    s.history()


@scenario
def too_long(s: Session) -> None:
    """Names over 1000 bytes."""
    long = "x" * 1001
    s.start(workflow_id=long)
    s.start(workflow_type={"name": long})
    s.start(task_queue={"name": long})
    s.start(request_id=long)
    s.start(cron_schedule="* * * * * " + "x" * 1001)


@scenario
def bad_task_queue(s: Session) -> None:
    """Task queue names with reserved prefixes, or of a wrong kind."""
    s.start(task_queue={"name": "/_sys/x"})
    s.start("wf-2", task_queue={"name": s.name("q"), "kind": "TASK_QUEUE_KIND_STICKY"})
    s.start("wf-3", task_queue={"name": "temporal-sys-per-ns-tq"})


@scenario
def bad_timeouts(s: Session) -> None:
    """Negative timeouts and a negative start delay."""
    s.start(workflow_execution_timeout=seconds(-1))
    s.start(workflow_run_timeout=seconds(-1))
    s.start(workflow_task_timeout=seconds(-1))
    s.start(workflow_start_delay=seconds(-1))


@scenario
def bad_retry_policy(s: Session) -> None:
    """Retry policies out of range."""
    s.start(retry_policy=retry(-1))
    s.start(retry_policy=retry(1, backoff_coefficient=0.5))
    s.start(retry_policy=retry(1, maximum_interval=seconds(-1)))
    s.start(retry_policy=retry(5, maximum_interval=seconds(1)))
    s.start(retry_policy=retry(1, maximum_attempts=-1))
    s.start(retry_policy=retry(1, non_retryable_error_types=["TemporalTimeout:Nonsense"]))


@scenario
def bad_cron(s: Session) -> None:
    """A malformed cron schedule, and a start delay next to one."""
    s.start(cron_schedule="nonsense")
    s.start(cron_schedule="61 * * * *")
    s.start(cron_schedule="* * * * *", workflow_start_delay=seconds(1))


@scenario
def bad_policies(s: Session) -> None:
    """Combinations of id policies that exclude each other."""
    s.start(
        workflow_id_reuse_policy=REUSE + "TERMINATE_IF_RUNNING",
        workflow_id_conflict_policy=CONFLICT + "FAIL",
    )
    s.start(
        workflow_id_reuse_policy=REUSE + "TERMINATE_IF_RUNNING",
        workflow_id_conflict_policy=CONFLICT + "USE_EXISTING",
    )
    s.start(
        workflow_id_reuse_policy=REUSE + "REJECT_DUPLICATE",
        workflow_id_conflict_policy=CONFLICT + "TERMINATE_EXISTING",
    )
    s.start(on_conflict_options={"attach_completion_callbacks": True})


@scenario
def unknown_namespace(s: Session) -> None:
    """Every kind of call on an unknown namespace."""
    s.start(namespace="nowhere")
    s.call("SignalWorkflowExecution", namespace="nowhere", workflow_execution=s.execution(), signal_name="x")
    s.call("DescribeWorkflowExecution", namespace="nowhere", execution=s.execution())
    s.call("GetWorkflowExecutionHistory", namespace="nowhere", execution=s.execution())
    s.call("QueryWorkflow", namespace="nowhere", execution=s.execution(), query={"query_type": "x"})
    s.call("PollWorkflowTaskQueue", namespace="nowhere", task_queue=s.queue(), identity="worker")


@scenario
def bad_search_attributes(s: Session) -> None:
    """Unknown, system and wrongly typed search attributes."""
    s.start(search_attributes={"indexed_fields": {"NoSuchAttribute": payload("x")}})
    s.start(search_attributes={"indexed_fields": {"WorkflowId": payload("x")}})
    s.start(search_attributes={"indexed_fields": {"TemporalChangeVersion": payload(5)}})


@scenario
def bad_priority(s: Session) -> None:
    """Priority values out of range."""
    s.start(priority={"priority_key": -1})
    s.start(priority={"fairness_key": "k" * 65})


@scenario
def bad_user_metadata(s: Session) -> None:
    """User metadata over the sizes SDKs keep to."""
    s.start("wf-1", user_metadata={"summary": payload("s" * 500)})
    s.start("wf-2", user_metadata={"details": payload("d" * 20100)})


@scenario
def bad_links(s: Session) -> None:
    """Links that lack their parts."""
    s.start(links=[{"workflow_event": {"namespace": "", "workflow_id": "w", "run_id": "r"}}])
    s.start(links=[{"workflow_event": {"namespace": "n", "workflow_id": "", "run_id": "r"}}])
    s.start(links=[{"workflow_event": {"namespace": "n", "workflow_id": "w", "run_id": ""}}])
    s.start(links=[{}])
