//! Calls by method: how many, how they ended, how long they took.
//!
//! There is one table in a process, made of the methods that are built, so labels are bounded. Calls of anything else are
//! counted together.

use std::{
    collections::HashMap,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use http::HeaderMap;
use segno_runtime::Latency;
use tonic::Code;

use crate::{connections::WORKFLOW_SERVICE, unbuilt::BUILT};

/// Codes of gRPC are numbered from 0.
const CODES: usize = 17;
/// Calls of methods that are not built.
const OTHER: &str = "other";

/// Calls of one method.
#[derive(Debug, Default)]
pub(crate) struct MethodCalls {
    codes: [AtomicU64; CODES],
    latency: Latency,
}

impl MethodCalls {
    /// A call ended.
    pub(crate) fn ended(&self, code: Code, begun: Instant) {
        self.codes[(code as usize).min(CODES - 1)].fetch_add(1, Ordering::Relaxed);
        self.latency.observe(begun.elapsed());
    }

    /// How many ended with each code, those with none left out.
    pub(super) fn by_code(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = self.codes.iter().enumerate().map(|(code, count)| (code, count.load(Ordering::Relaxed)));
        counted.filter(|(_, count)| *count > 0).map(|(code, count)| (name(Code::from_i32(code as i32)), count))
    }

    /// How long they took.
    pub(crate) fn latency(&self) -> &Latency {
        &self.latency
    }
}

/// By method name, for Temporal's own service, and by service and method for the others.
static CALLS: LazyLock<HashMap<&'static str, MethodCalls>> = LazyLock::new(|| {
    let own = OWN.iter().copied();
    BUILT.iter().copied().chain(own).chain([OTHER]).map(|name| (name, MethodCalls::default())).collect()
});

/// Methods of Segno's own services.
const OWN: &[&str] = &[
    "segno.access.v1.AccessService/CreateKey",
    "segno.access.v1.AccessService/ListKeys",
    "segno.access.v1.AccessService/RevokeKey",
    "segno.access.v1.AccessService/WhoAmI",
    "segno.cluster.v1.ClusterService/Describe",
    "segno.cluster.v1.ClusterService/Drain",
    "segno.cluster.v1.ClusterService/Fence",
    "segno.flow.v1.FlowService/Activate",
    "segno.flow.v1.FlowService/Check",
    "segno.flow.v1.FlowService/Delete",
    "segno.flow.v1.FlowService/Deploy",
    "segno.flow.v1.FlowService/Describe",
    "segno.flow.v1.FlowService/DescribeRun",
    "segno.flow.v1.FlowService/GetSource",
    "segno.flow.v1.FlowService/List",
    "segno.flow.v1.FlowService/Migrate",
    "segno.flow.v1.FlowService/Rollback",
    "segno.worker.v1.WorkerService/DescribeWorker",
    "segno.worker.v1.WorkerService/Heartbeat",
    "segno.worker.v1.WorkerService/ListWorkers",
    "segno.workflow.v1.WorkflowService/DescribeQueue",
    "segno.workflow.v1.WorkflowService/Explain",
];

/// The calls of a method, by its path.
pub(crate) fn of_path(path: &str) -> &'static MethodCalls {
    let path = path.strip_prefix('/').unwrap_or(path);
    let name = match path.split_once('/') {
        Some((WORKFLOW_SERVICE | "temporal.api.operatorservice.v1.OperatorService", method)) => method,
        _ => path,
    };
    CALLS.get(name).unwrap_or_else(|| &CALLS[OTHER])
}

/// How a call of the general path ended, by its headers; the trailers of a response with a message come later, and say OK.
pub(crate) fn code_of(headers: &HeaderMap) -> Code {
    let status = headers.get("grpc-status").and_then(|value| value.to_str().ok()?.parse().ok());
    Code::from_i32(status.unwrap_or(0))
}

/// All methods that were called, sorted.
pub(crate) fn read() -> Vec<(&'static str, &'static MethodCalls)> {
    let called = CALLS.iter().filter(|(_, calls)| calls.latency.count() > 0);
    let mut all: Vec<_> = called.map(|(name, calls)| (*name, calls)).collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

/// Calls that wait for an event, besides polls.
const WAITING: [&str; 3] = ["GetWorkflowExecutionHistory", "UpdateWorkflowExecution", "QueryWorkflow"];

/// How long calls took, those left out that wait for an event.
pub(crate) fn times() -> Vec<&'static Latency> {
    let called = read().into_iter().filter(|(name, _)| !name.contains("Poll") && !WAITING.contains(name));
    called.map(|(_, calls)| calls.latency()).collect()
}

/// A code as gRPC writes it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_found_by_their_paths() {
        let start = of_path("/temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution");
        assert!(std::ptr::eq(start, &CALLS["StartWorkflowExecution"]));
        let explain = of_path("/segno.workflow.v1.WorkflowService/Explain");
        assert!(!std::ptr::eq(explain, &CALLS[OTHER]));
        assert!(std::ptr::eq(of_path("/a/B"), &CALLS[OTHER]));
    }

    #[test]
    fn codes_are_counted() {
        let calls = MethodCalls::default();
        calls.ended(Code::NotFound, Instant::now());
        calls.ended(Code::Ok, Instant::now());
        assert_eq!(calls.by_code().collect::<Vec<_>>(), [("OK", 1), ("NOT_FOUND", 1)]);
        assert_eq!(calls.latency().count(), 2);
    }

    /// Methods of our own are those of the protocol.
    #[test]
    fn own_methods_are_complete() {
        use prost::Message;
        let set = prost_types::FileDescriptorSet::decode(segno_proto::DESCRIPTORS).expect("descriptors");
        let mut known = Vec::new();
        for file in set.file.iter().filter(|file| file.package().starts_with("segno.")) {
            for service in &file.service {
                let methods = service.method.iter();
                known.extend(methods.map(|method| format!("{}.{}/{}", file.package(), service.name(), method.name())));
            }
        }
        known.sort_unstable();
        assert_eq!(known, OWN);
    }
}
