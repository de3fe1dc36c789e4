//! Calls that are not built yet answer UNIMPLEMENTED and say which call it was.

use http::Response;
use tonic::{Status, body::Body};

/// Every call that is built. The compatibility page lists the same ones; a test compares.
pub const BUILT: &[&str] = &[
    "AddSearchAttributes",
    "CountActivityExecutions",
    "CountNexusOperationExecutions",
    "CountSchedules",
    "CountWorkers",
    "CountWorkflowExecutions",
    "CreateSchedule",
    "CreateWorkflowRule",
    "DeleteActivityExecution",
    "DeleteNamespace",
    "DeleteNexusOperationExecution",
    "DeleteSchedule",
    "DeleteWorkflowExecution",
    "DeleteWorkflowRule",
    "DeprecateNamespace",
    "DescribeActivityExecution",
    "DescribeBatchOperation",
    "DescribeDeployment",
    "DescribeNamespace",
    "DescribeNexusOperationExecution",
    "DescribeSchedule",
    "DescribeTaskQueue",
    "DescribeWorker",
    "DescribeWorkflowExecution",
    "DescribeWorkflowRule",
    "ExecuteMultiOperation",
    "FetchWorkerConfig",
    "GetClusterInfo",
    "GetCurrentDeployment",
    "GetDeploymentReachability",
    "GetSearchAttributes",
    "GetSystemInfo",
    "GetWorkerBuildIdCompatibility",
    "GetWorkerTaskReachability",
    "GetWorkerVersioningRules",
    "GetWorkflowExecutionHistory",
    "GetWorkflowExecutionHistoryReverse",
    "ListActivityExecutions",
    "ListArchivedWorkflowExecutions",
    "ListBatchOperations",
    "ListClosedWorkflowExecutions",
    "ListClusters",
    "ListDeployments",
    "ListNamespaces",
    "ListNexusOperationExecutions",
    "ListOpenWorkflowExecutions",
    "ListScheduleMatchingTimes",
    "ListSchedules",
    "ListSearchAttributes",
    "ListTaskQueuePartitions",
    "ListWorkers",
    "ListWorkflowExecutions",
    "ListWorkflowRules",
    "PatchSchedule",
    "PauseActivity",
    "PauseActivityExecution",
    "PauseWorkflowExecution",
    "PollActivityExecution",
    "PollActivityTaskQueue",
    "PollNexusOperationExecution",
    "PollNexusTaskQueue",
    "PollWorkflowExecutionTimeSkipping",
    "PollWorkflowExecutionUpdate",
    "PollWorkflowTaskQueue",
    "QueryWorkflow",
    "RecordActivityTaskHeartbeat",
    "RecordActivityTaskHeartbeatById",
    "RecordWorkerHeartbeat",
    "RegisterNamespace",
    "RemoveSearchAttributes",
    "RequestCancelActivityExecution",
    "RequestCancelNexusOperationExecution",
    "RequestCancelWorkflowExecution",
    "ResetActivity",
    "ResetActivityExecution",
    "ResetStickyTaskQueue",
    "ResetWorkflowExecution",
    "RespondActivityTaskCanceled",
    "RespondActivityTaskCanceledById",
    "RespondActivityTaskCompleted",
    "RespondActivityTaskCompletedById",
    "RespondActivityTaskFailed",
    "RespondActivityTaskFailedById",
    "RespondNexusTaskCompleted",
    "RespondNexusTaskFailed",
    "RespondQueryTaskCompleted",
    "RespondWorkflowTaskCompleted",
    "RespondWorkflowTaskFailed",
    "ScanWorkflowExecutions",
    "SetCurrentDeployment",
    "ShutdownWorker",
    "SignalWithStartWorkflowExecution",
    "SignalWorkflowExecution",
    "StartActivityExecution",
    "StartBatchOperation",
    "StartNexusOperationExecution",
    "StartWorkflowExecution",
    "StopBatchOperation",
    "TerminateActivityExecution",
    "TerminateNexusOperationExecution",
    "TerminateWorkflowExecution",
    "TriggerWorkflowRule",
    "UnpauseActivity",
    "UnpauseActivityExecution",
    "UnpauseWorkflowExecution",
    "UpdateActivityExecutionOptions",
    "UpdateActivityOptions",
    "UpdateNamespace",
    "UpdateSchedule",
    "UpdateTaskQueueConfig",
    "UpdateWorkerBuildIdCompatibility",
    "UpdateWorkerConfig",
    "UpdateWorkerVersioningRules",
    "UpdateWorkflowExecution",
    "UpdateWorkflowExecutionOptions",
];

/// How the transport begins when a compressed request turns out too large.
const INFLATED: &[u8] = b"Error%20decompressing:%20size%20limit";

/// A request that is too large is refused by the transport, in its own words; clients know Temporal's.
pub fn as_temporal_says(response: Response<Body>) -> Response<Body> {
    let headers = response.headers();
    // Only an answer without a body says in its head how it ended.
    if !headers.contains_key("grpc-status") {
        return response;
    }
    let out_of_range = headers.get("grpc-status").is_some_and(|status| status == "11");
    let too_large = headers.get("grpc-message").is_some_and(|message| {
        message
            .as_bytes()
            .windows(b"message%20length%20too%20large".len())
            .any(|w| w == b"message%20length%20too%20large")
    });
    if out_of_range && too_large {
        return Status::resource_exhausted("grpc: received message larger than max (4194304 bytes)").into_http();
    }
    let inflated = headers.get("grpc-message").is_some_and(|message| message.as_bytes().starts_with(INFLATED));
    if inflated {
        let text = "grpc: received message after decompression larger than max 4194304";
        return Status::resource_exhausted(text).into_http();
    }
    response
}

/// The answer to a call that is one of Temporal's and not built.
pub fn refusal(path: &str) -> Option<Response<Body>> {
    let call = unbuilt(path)?;
    Some(Status::unimplemented(format!("{call} is not built yet in Segno")).into_http())
}

/// Whether a call is built.
pub fn is_built(call: &str) -> bool {
    BUILT.binary_search(&call).is_ok()
}

/// The call a path names, if it is one of Temporal's services and not built.
fn unbuilt(path: &str) -> Option<&str> {
    let (service, call) = path.strip_prefix('/')?.split_once('/')?;
    if is_built(call) {
        return None;
    }
    segno_proto::METHODS.iter().any(|(of, name)| *of == service && *name == call).then_some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_call_exists() {
        for call in BUILT {
            assert!(segno_proto::METHODS.iter().any(|(_, name)| name == call), "{call}");
        }
    }

    #[test]
    fn built_calls_are_in_order() {
        assert!(BUILT.is_sorted());
    }

    #[test]
    fn only_calls_of_the_protocol_are_named() {
        let path = "/temporal.api.workflowservice.v1.WorkflowService";
        assert_eq!(unbuilt(&format!("{path}/ListWorkerDeployments")), Some("ListWorkerDeployments"));
        assert_eq!(unbuilt(&format!("{path}/StartWorkflowExecution")), None);
        assert_eq!(unbuilt(&format!("{path}/NoSuchCall")), None);
        assert_eq!(unbuilt("/grpc.health.v1.Health/Check"), None);
    }
}
