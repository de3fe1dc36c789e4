"""Starting workflows: histories, id policies, delays, what event 1 carries."""

from __future__ import annotations

from ..build import complete, fail, failure, fields, metadata, payload, payloads, retry, seconds
from ..harness import Session
from . import scenario

REUSE = "WORKFLOW_ID_REUSE_POLICY_"
CONFLICT = "WORKFLOW_ID_CONFLICT_POLICY_"


@scenario
def minimal(s: Session) -> None:
    """A start with nothing but the required fields: history and description before any worker."""
    run = s.start()
    s.history()
    s.describe()
    s.history(run=run)


@scenario
def to_completion(s: Session) -> None:
    """Start, first task, completion with a result."""
    s.start(input=payloads("in", 1))
    s.run_task(complete("out"))
    s.history()
    s.describe()


@scenario
def conflict_fail(s: Session) -> None:
    """A second start of a running id fails, by default and by conflict policy FAIL."""
    s.start()
    s.start()
    s.start(workflow_id_conflict_policy=CONFLICT + "FAIL")


@scenario
def conflict_use_existing(s: Session) -> None:
    """USE_EXISTING answers the running run with started=false."""
    s.start()
    s.start(workflow_id_conflict_policy=CONFLICT + "USE_EXISTING")
    s.history()


@scenario
def conflict_use_existing_attach(s: Session) -> None:
    """USE_EXISTING with on-conflict options attaches the request id by an options-updated event."""
    s.start()
    options = {"attach_request_id": True, "attach_completion_callbacks": True, "attach_links": True}
    again = s.start_fields(workflow_id_conflict_policy=CONFLICT + "USE_EXISTING", on_conflict_options=options)
    s.call("StartWorkflowExecution", **again)
    s.call("StartWorkflowExecution", **again)
    s.history()
    s.describe()


@scenario
def conflict_terminate_existing(s: Session) -> None:
    """TERMINATE_EXISTING ends the running run and starts another."""
    first = s.start()
    second = s.start(workflow_id_conflict_policy=CONFLICT + "TERMINATE_EXISTING")
    s.history(run=first)
    s.history(run=second)
    s.describe(run=first)


@scenario
def reuse_terminate_if_running(s: Session) -> None:
    """The deprecated reuse policy TERMINATE_IF_RUNNING."""
    first = s.start()
    s.start(workflow_id_reuse_policy=REUSE + "TERMINATE_IF_RUNNING")
    s.history(run=first)
    s.history()


@scenario
def reuse_after_completed(s: Session) -> None:
    """Reuse policies after a completed run."""
    s.begun(complete())
    s.start(workflow_id_reuse_policy=REUSE + "REJECT_DUPLICATE")
    s.start(workflow_id_reuse_policy=REUSE + "ALLOW_DUPLICATE_FAILED_ONLY")
    s.start(workflow_id_reuse_policy=REUSE + "ALLOW_DUPLICATE")
    s.history()


@scenario
def reuse_after_failed(s: Session) -> None:
    """Reuse policies after a failed run."""
    s.begun(fail())
    s.start(workflow_id_reuse_policy=REUSE + "REJECT_DUPLICATE")
    s.start(workflow_id_reuse_policy=REUSE + "ALLOW_DUPLICATE_FAILED_ONLY")
    s.history()


@scenario
def reuse_after_terminated(s: Session) -> None:
    """A terminated run counts as failed."""
    s.start()
    s.terminate()
    s.start(workflow_id_reuse_policy=REUSE + "REJECT_DUPLICATE")
    s.start(workflow_id_reuse_policy=REUSE + "ALLOW_DUPLICATE_FAILED_ONLY")


@scenario
def request_id_dedupe(s: Session) -> None:
    """The same request id answers the same run, also after it closed."""
    same = s.start_fields()
    s.call("StartWorkflowExecution", **same)
    s.call("StartWorkflowExecution", **same)
    s.run_task(complete())
    s.call("StartWorkflowExecution", **same)


@scenario
def start_delay(s: Session) -> None:
    """A start delay holds the first task back; a signal does not shorten it."""
    s.start(workflow_start_delay=seconds(2))
    s.signal()
    s.describe()
    s.history()
    s.run_task(complete())
    s.history()


@scenario
def start_delay_cancel(s: Session) -> None:
    """Cancelling during a start delay."""
    s.start(workflow_start_delay=seconds(60))
    s.cancel()
    s.history()
    s.describe()


@scenario
def start_delay_terminate(s: Session) -> None:
    """Terminating during a start delay."""
    s.start(workflow_start_delay=seconds(60))
    s.terminate()
    s.history()


@scenario
def timeouts_recorded(s: Session) -> None:
    """Timeouts as given are recorded in event 1 and the description."""
    s.start(
        workflow_execution_timeout=seconds(100),
        workflow_run_timeout=seconds(50),
        workflow_task_timeout=seconds(5),
    )
    s.history()
    s.describe()


@scenario
def timeouts_clamped(s: Session) -> None:
    """Run timeout is clamped to the execution timeout, task timeout to 120 s and to the run timeout."""
    s.start("wf-1", workflow_execution_timeout=seconds(20), workflow_run_timeout=seconds(50))
    s.history("wf-1")
    s.start("wf-2", workflow_task_timeout=seconds(1000))
    s.history("wf-2")
    s.start("wf-3", workflow_run_timeout=seconds(4))
    s.history("wf-3")
    s.start("wf-4", workflow_execution_timeout=seconds(4), workflow_task_timeout=seconds(8))
    s.history("wf-4")
    s.start("wf-5", workflow_task_timeout=seconds(0.5))
    s.history("wf-5")


@scenario
def everything_carried(s: Session) -> None:
    """Memo, search attributes, header, user metadata, priority and links arrive in event 1."""
    link = {
        "workflow_event": {
            "namespace": "default",
            "workflow_id": "other",
            "run_id": "other-run",
            "event_ref": {"event_id": 3, "event_type": "EVENT_TYPE_TIMER_STARTED"},
        }
    }
    search = {"indexed_fields": {"TemporalChangeVersion": payload(["v-1"])}}
    s.start(
        input=payloads({"a": 1}),
        memo=fields(note="remember"),
        search_attributes=search,
        header=fields(trace="t1"),
        user_metadata=metadata("the summary", "the details"),
        priority={"priority_key": 2, "fairness_key": "tenant", "fairness_weight": 1.5},
        links=[link],
        retry_policy=retry(2, maximum_attempts=3),
    )
    s.history()
    s.describe()
    s.poll()


@scenario
def retry_policy_defaults(s: Session) -> None:
    """Missing parts of a retry policy get defaults."""
    s.start("wf-1", retry_policy={})
    s.history("wf-1")
    s.start("wf-2", retry_policy={"maximum_attempts": 5})
    s.history("wf-2")
    s.start("wf-3", retry_policy=retry(3, backoff_coefficient=1.5, non_retryable_error_types=["X"]))
    s.history("wf-3")


@scenario
def continued_failure_given(s: Session) -> None:
    """A start may carry the last failure and last result of an earlier life."""
    s.start(
        workflow_id_reuse_policy=REUSE + "ALLOW_DUPLICATE",
        continued_failure=failure("earlier"),
        last_completion_result=payloads("earlier result"),
    )
    s.history()


@scenario
def after_close_new_run(s: Session) -> None:
    """By default a closed id may be used again; the old run stays readable."""
    first = s.begun(complete("one"))
    s.begun(complete("two"))
    s.history()
    s.history(run=first)
    s.describe(run=first)


@scenario
def eager(s: Session) -> None:
    """A requested eager start answers with the first workflow task."""
    response = s.call("StartWorkflowExecution", **s.start_fields(request_eager_execution=True))
    s.history()
    s.complete(response.eager_workflow_task, complete())
    s.history()


@scenario
def eager_dedupe(s: Session) -> None:
    """An eager start repeated with its request id answers the same task again."""
    same = s.start_fields(request_eager_execution=True)
    s.call("StartWorkflowExecution", **same)
    s.call("StartWorkflowExecution", **same)
    s.history()


@scenario
def eager_with_delay(s: Session) -> None:
    """Start delay excludes an eager start."""
    s.start(request_eager_execution=True, workflow_start_delay=seconds(60))
    s.history()
