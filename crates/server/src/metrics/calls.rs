//! Calls by method: how many, how they ended, how long they took.
//!
//! They are counted in the table of calls, so labels are bounded. Calls of anything else are
//! counted together.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use http::HeaderMap;
use segno_node::Latency;
use tokio::time::Instant;
use tonic::Code;

use crate::calls::{self as table, Method, Wait};

/// Codes of gRPC are numbered from 0.
const CODES: usize = 17;

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

/// Calls of methods that are not built.
static OTHER: LazyLock<MethodCalls> = LazyLock::new(MethodCalls::default);

/// The calls of a method, by its path.
pub(crate) fn of_path(path: &str) -> &'static MethodCalls {
    table::find(path.as_bytes()).map_or(&OTHER, |method| &method.calls)
}

/// The name of a method in metrics: its name, if it is one of Temporal's, and service and name otherwise.
fn label(method: &Method) -> &'static str {
    match method.names() {
        (service, name) if service.starts_with("temporal.") => name,
        _ => method.path.trim_start_matches('/'),
    }
}

/// How a call of the general path ended, by its headers; the trailers of a response with a message come later, and say OK.
pub(crate) fn code_of(headers: &HeaderMap) -> Code {
    let status = headers.get("grpc-status").and_then(|value| value.to_str().ok()?.parse().ok());
    Code::from_i32(status.unwrap_or(0))
}

/// All methods that were called, sorted.
pub(crate) fn read() -> Vec<(&'static str, &'static MethodCalls)> {
    let built = table::all().map(|method| (label(method), &method.calls));
    let mut all: Vec<_> = built.chain([("other", &*OTHER)]).filter(|(_, calls)| calls.latency.count() > 0).collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

/// How long calls took, those left out that may wait for an event.
pub(crate) fn times() -> Vec<&'static Latency> {
    let waits = |method: &Method| matches!(method.wait, Wait::Event | Wait::Poll);
    table::all().filter(|method| !waits(method)).map(|method| method.calls.latency()).collect()
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
        let start = "/temporal.api.workflowservice.v1.WorkflowService/StartWorkflowExecution";
        let explain = "/segno.workflow.v1.WorkflowService/Explain";
        let label_of = |path: &str| label(table::find(path.as_bytes()).expect("a method"));
        assert_eq!([label_of(start), label_of(explain)], ["StartWorkflowExecution", &explain[1..]]);
        assert!(!std::ptr::eq(of_path(start), of_path(explain)));
        assert!(std::ptr::eq(of_path("/a/B"), &*OTHER));
    }

    #[test]
    fn codes_are_counted() {
        let calls = MethodCalls::default();
        calls.ended(Code::NotFound, Instant::now());
        calls.ended(Code::Ok, Instant::now());
        assert_eq!(calls.by_code().collect::<Vec<_>>(), [("OK", 1), ("NOT_FOUND", 1)]);
        assert_eq!(calls.latency().count(), 2);
    }
}
