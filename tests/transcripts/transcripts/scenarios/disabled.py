"""What the real server has and refuses by default."""

from __future__ import annotations

from ..harness import Session
from . import scenario

NEXUS = ["Start", "Describe", "Poll", "RequestCancel", "Terminate", "Delete"]


def all_of(s: Session, *calls: str) -> None:
    """Makes calls with nothing but a namespace, and without one."""
    for call in calls:
        s.call(call)
        s.call(call, namespace="no-such-namespace")


@scenario
def rules(s: Session) -> None:
    """Workflow rules."""
    all_of(s, "CreateWorkflowRule", "DescribeWorkflowRule", "DeleteWorkflowRule", "ListWorkflowRules")
    all_of(s, "TriggerWorkflowRule")


@scenario
def build_ids(s: Session) -> None:
    """The older kinds of worker versioning."""
    all_of(s, "UpdateWorkerBuildIdCompatibility", "GetWorkerBuildIdCompatibility")
    all_of(s, "UpdateWorkerVersioningRules", "GetWorkerVersioningRules", "GetWorkerTaskReachability")
    all_of(s, "DescribeDeployment", "ListDeployments", "GetDeploymentReachability")
    all_of(s, "GetCurrentDeployment", "SetCurrentDeployment")


@scenario
def worker_config(s: Session) -> None:
    """Configuration of workers."""
    all_of(s, "FetchWorkerConfig", "UpdateWorkerConfig")


@scenario
def nexus_operations(s: Session) -> None:
    """Nexus operations without a workflow."""
    all_of(s, *[f"{what}NexusOperationExecution" for what in NEXUS])
    all_of(s, "ListNexusOperationExecutions", "CountNexusOperationExecutions")


@scenario
def pausing(s: Session) -> None:
    """Pausing a workflow is refused, so that none is paused."""
    run = s.start()
    s.call("PauseWorkflowExecution", workflow_id=s.name("wf"), reason="look")
    s.call("PauseWorkflowExecution", namespace="no-such-namespace")
    unpause = "UnpauseWorkflowExecution"
    s.call(unpause, workflow_id=s.name("wf"), reason="looked")
    s.call(unpause, workflow_id=s.name("wf"), run_id=run)
    s.call(unpause)
    s.call(unpause, workflow_id=s.name("nobody"))
    s.call(unpause, workflow_id=s.name("wf"), run_id="x")
    s.call(unpause, workflow_id=s.name("wf"), identity="i" * 2000)
    s.call(unpause, workflow_id=s.name("wf"), request_id="r" * 2000)
    s.call(unpause, workflow_id=s.name("wf"), reason="r" * 2000)
    s.terminate()
    s.call(unpause, workflow_id=s.name("wf"))
    s.call(unpause, namespace="no-such-namespace")


@scenario
def workflow_time_skipping(s: Session) -> None:
    """Workflows with a clock of their own."""
    all_of(s, "PollWorkflowExecutionTimeSkipping")
    s.call("PollWorkflowExecutionTimeSkipping", namespace="")
    for execution in ({"workflow_id": ""}, {"workflow_id": "w", "run_id": "x"}, {"workflow_id": "nobody"}):
        s.call("PollWorkflowExecutionTimeSkipping", workflow_execution=execution, fast_forward_id="f")
