//! Calls that are not built yet answer UNIMPLEMENTED and say which call it was.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// Every call that is built. The compatibility page lists the same ones; a test compares.
pub const BUILT: &[&str] = &[
    "AddSearchAttributes",
    "CountWorkers",
    "CountWorkflowExecutions",
    "DeleteNamespace",
    "DeleteWorkflowExecution",
    "DeprecateNamespace",
    "DescribeNamespace",
    "DescribeTaskQueue",
    "DescribeWorker",
    "DescribeWorkflowExecution",
    "ExecuteMultiOperation",
    "GetClusterInfo",
    "GetSearchAttributes",
    "GetSystemInfo",
    "GetWorkflowExecutionHistory",
    "GetWorkflowExecutionHistoryReverse",
    "ListArchivedWorkflowExecutions",
    "ListClosedWorkflowExecutions",
    "ListClusters",
    "ListNamespaces",
    "ListOpenWorkflowExecutions",
    "ListSearchAttributes",
    "ListTaskQueuePartitions",
    "ListWorkers",
    "ListWorkflowExecutions",
    "PauseActivity",
    "PauseActivityExecution",
    "PollActivityTaskQueue",
    "PollNexusTaskQueue",
    "PollWorkflowExecutionUpdate",
    "PollWorkflowTaskQueue",
    "QueryWorkflow",
    "RecordActivityTaskHeartbeat",
    "RecordActivityTaskHeartbeatById",
    "RecordWorkerHeartbeat",
    "RegisterNamespace",
    "RemoveSearchAttributes",
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
    "RespondQueryTaskCompleted",
    "RespondWorkflowTaskCompleted",
    "RespondWorkflowTaskFailed",
    "ScanWorkflowExecutions",
    "ShutdownWorker",
    "SignalWithStartWorkflowExecution",
    "SignalWorkflowExecution",
    "StartWorkflowExecution",
    "TerminateWorkflowExecution",
    "UnpauseActivity",
    "UnpauseActivityExecution",
    "UpdateActivityExecutionOptions",
    "UpdateActivityOptions",
    "UpdateNamespace",
    "UpdateWorkflowExecution",
];

/// Answers for what is not built.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameUnbuilt;

impl<S> Layer<S> for NameUnbuilt {
    type Service = Naming<S>;

    fn layer(&self, inner: S) -> Naming<S> {
        Naming { inner }
    }
}

/// See [`NameUnbuilt`].
#[derive(Clone, Debug)]
pub struct Naming<S> {
    inner: S,
}

/// How the transport begins when a compressed request turns out too large.
const INFLATED: &[u8] = b"Error%20decompressing:%20size%20limit";

/// A request that is too large is refused by the transport, in its own words; clients know Temporal's.
fn as_temporal_says(response: Response<Body>) -> Response<Body> {
    let headers = response.headers();
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

/// The call a path names, if it is one of Temporal's services and not built.
fn unbuilt(path: &str) -> Option<&str> {
    let (service, call) = path.strip_prefix('/')?.split_once('/')?;
    if BUILT.binary_search(&call).is_ok() {
        return None;
    }
    segno_proto::METHODS.iter().any(|(of, name)| *of == service && *name == call).then_some(call)
}

impl<S> Service<Request<Body>> for Naming<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if let Some(call) = unbuilt(request.uri().path()) {
            let status = Status::unimplemented(format!("{call} is not built yet in Segno"));
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let response = self.inner.call(request);
        Box::pin(async move { Ok(as_temporal_says(response.await?)) })
    }
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
        assert_eq!(unbuilt(&format!("{path}/CreateSchedule")), Some("CreateSchedule"));
        assert_eq!(unbuilt(&format!("{path}/StartWorkflowExecution")), None);
        assert_eq!(unbuilt(&format!("{path}/NoSuchCall")), None);
        assert_eq!(unbuilt("/grpc.health.v1.Health/Check"), None);
    }
}
