//! Maps errors to gRPC statuses, in one table. SDKs evaluate the first detail message, users read the text; both are
//! Temporal's.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use segno_engine::{Rejection, update::abort::Abort};
use segno_node::{CallError, DeploymentError, EndpointError};
use segno_proto::{
    enums::{NamespaceState, ResourceExhaustedCause, ResourceExhaustedScope},
    errordetails::{
        MultiOperationExecutionFailure, NamespaceAlreadyExistsFailure, NamespaceInvalidStateFailure,
        NamespaceNotFoundFailure, NotFoundFailure, PermissionDeniedFailure, QueryFailedFailure,
        ResourceExhaustedFailure, WorkflowExecutionAlreadyStartedFailure, WorkflowNotReadyFailure,
        WorkflowTaskCompletionBufferLostFailure, multi_operation_execution_failure::OperationStatus,
    },
    failure::MultiOperationExecutionAborted,
    google::rpc,
};
use tonic::{Code, Status};

/// A status with one detail message.
fn detailed(code: Code, text: impl Into<String>, kind: &str, detail: &impl Message) -> Status {
    named(code, text, &format!("temporal.api.errordetails.v1.{kind}"), detail)
}

/// A status with one detail message of any type.
pub fn named(code: Code, text: impl Into<String>, kind: &str, detail: &impl Message) -> Status {
    let message = text.into();
    let any = prost_types::Any { type_url: format!("type.googleapis.com/{kind}"), value: detail.encode_to_vec() };
    let status = rpc::Status { code: code as i32, message: message.clone(), details: vec![any] };
    Status::with_details(code, message, Bytes::from(status.encode_to_vec()))
}

/// The subject of a call does not exist.
pub fn not_found(text: impl Into<String>) -> Status {
    detailed(Code::NotFound, text, "NotFoundFailure", &NotFoundFailure::default())
}

/// A namespace is not there.
pub fn namespace_not_found(namespace: &str) -> Status {
    let detail = NamespaceNotFoundFailure { namespace: namespace.to_owned() };
    detailed(Code::NotFound, format!("Namespace {namespace} is not found."), "NamespaceNotFoundFailure", &detail)
}

/// A name belongs to a namespace that is there.
fn namespace_exists(text: impl Into<String>) -> Status {
    detailed(Code::AlreadyExists, text, "NamespaceAlreadyExistsFailure", &NamespaceAlreadyExistsFailure::default())
}

/// A namespace is not in a state for this call.
pub fn namespace_invalid_state(name: &str, state: NamespaceState, allowed: &[NamespaceState]) -> Status {
    let names: Vec<_> = allowed.iter().map(|state| format!("{state:?}")).collect();
    let text = format!("Namespace has invalid state: {state:?}. Must be {}.", names.join(" or "));
    let detail = NamespaceInvalidStateFailure {
        namespace: name.to_owned(),
        state: state as i32,
        allowed_states: allowed.iter().map(|state| *state as i32).collect(),
    };
    detailed(Code::FailedPrecondition, text, "NamespaceInvalidStateFailure", &detail)
}

fn not_ready(text: impl Into<String>) -> Status {
    detailed(Code::FailedPrecondition, text, "WorkflowNotReadyFailure", &WorkflowNotReadyFailure::default())
}

fn resource_exhausted(text: impl Into<String>, cause: ResourceExhaustedCause, scope: ResourceExhaustedScope) -> Status {
    let detail = ResourceExhaustedFailure { cause: cause as i32, scope: scope as i32 };
    detailed(Code::ResourceExhausted, text, "ResourceExhaustedFailure", &detail)
}

fn busy(text: impl Into<String>) -> Status {
    resource_exhausted(text, ResourceExhaustedCause::BusyWorkflow, ResourceExhaustedScope::Namespace)
}

/// Too much at the same time.
fn limited(text: impl Into<String>) -> Status {
    resource_exhausted(text, ResourceExhaustedCause::ConcurrentLimit, ResourceExhaustedScope::Namespace)
}

/// A limit that the operator set was reached; says when to try again.
pub fn exhausted(
    text: impl Into<String>,
    cause: ResourceExhaustedCause,
    scope: ResourceExhaustedScope,
    after: Duration,
) -> Status {
    let text = text.into();
    let detail = ResourceExhaustedFailure { cause: cause as i32, scope: scope as i32 };
    let retry_delay = prost_types::Duration::try_from(after).ok();
    let any = |kind: &str, value: Vec<u8>| prost_types::Any { type_url: format!("type.googleapis.com/{kind}"), value };
    let details = vec![
        any("temporal.api.errordetails.v1.ResourceExhaustedFailure", detail.encode_to_vec()),
        any("google.rpc.RetryInfo", RetryInfo { retry_delay }.encode_to_vec()),
    ];
    let status = rpc::Status { code: Code::ResourceExhausted as i32, message: text.clone(), details };
    Status::with_details(Code::ResourceExhausted, text, Bytes::from(status.encode_to_vec()))
}

/// When to try again, as Google's error model has it.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

/// Storage is full: a limit of the whole system, not of a namespace.
fn storage_full(text: impl Into<String>) -> Status {
    resource_exhausted(text, ResourceExhaustedCause::PersistenceStorageLimit, ResourceExhaustedScope::System)
}

/// More comes than the system can write.
fn overloaded(text: impl Into<String>) -> Status {
    resource_exhausted(text, ResourceExhaustedCause::SystemOverloaded, ResourceExhaustedScope::System)
}

/// Pages of a completion are not there: the worker sends all of them again.
pub fn pages_lost(text: String) -> Status {
    let detail = WorkflowTaskCompletionBufferLostFailure::default();
    detailed(Code::Aborted, text, "WorkflowTaskCompletionBufferLostFailure", &detail)
}

/// The table.
pub fn from_call(error: CallError) -> Status {
    let text = error.to_string();
    match error {
        CallError::Rejected(rejection) => from_rejection(rejection),
        CallError::Deployment(error) => from_deployment(error),
        CallError::Endpoint(error) => from_endpoint(error),
        CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. } => not_found(text),
        CallError::NoScript(text) => Status::not_found(text),
        CallError::NamespaceNotFound(name) => namespace_not_found(&name),
        CallError::NamespaceExists(_) => namespace_exists(text),
        CallError::Unavailable(_) | CallError::OutcomeUnknown(_) | CallError::ShuttingDown | CallError::UpdateLost => {
            Status::unavailable(text)
        }
        CallError::Moved => moved(text),
        CallError::StorageFull(_) => storage_full(text),
        CallError::DataLoss(_) => Status::data_loss(text),
        CallError::DeadlineExceeded => Status::deadline_exceeded(text),
        CallError::QueryBufferFull | CallError::Busy => busy(text),
        CallError::Overloaded => overloaded(text),
        CallError::TooManyLists(_) | CallError::TooManyBatches | CallError::TooManyScriptCalls => limited(text),
        CallError::StartRefused(refusal) => {
            let cause = match refusal.is_rate() {
                true => ResourceExhaustedCause::RpsLimit,
                false => ResourceExhaustedCause::ConcurrentLimit,
            };
            exhausted(text, cause, ResourceExhaustedScope::Namespace, refusal.after)
        }
        CallError::Aborted(_) => Status::aborted(text),
        CallError::UpdateNotFound { .. } | CallError::UpdateAborted(Abort::Closed) => not_found(text),
        CallError::UpdateAborted(Abort::Continuing) => busy(text),
        CallError::UpdateAborted(Abort::TaskFailed) => not_ready(text),
        CallError::UpdateAborted(Abort::Paused) => Status::failed_precondition(text),
        CallError::NotReady(_) => not_ready(text),
        CallError::QueryFailed(_, failure) => {
            let detail = QueryFailedFailure { failure: failure.map(|failure| *failure) };
            detailed(Code::InvalidArgument, text, "QueryFailedFailure", &detail)
        }
    }
}

/// Two operations of which at least one failed. `None` for one that was not tried because of the other.
pub fn multi_operation(operations: Vec<Option<Status>>) -> Status {
    let aborted = || {
        let detail = MultiOperationExecutionAborted::default();
        let kind = "temporal.api.failure.v1.MultiOperationExecutionAborted";
        named(Code::Aborted, "Operation was aborted.", kind, &detail)
    };
    let code = operations.iter().flatten().map(Status::code).find(|code| *code != Code::Ok).unwrap_or(Code::Aborted);
    let told = |status: Status| OperationStatus {
        code: status.code() as i32,
        message: status.message().to_owned(),
        details: rpc::Status::decode(status.details()).map(|status| status.details).unwrap_or_default(),
    };
    let statuses = operations.into_iter().map(|status| told(status.unwrap_or_else(aborted))).collect();
    let detail = MultiOperationExecutionFailure { statuses };
    detailed(code, "Update-with-Start could not be executed.", "MultiOperationExecutionFailure", &detail)
}

fn from_endpoint(error: EndpointError) -> Status {
    let text = error.to_string();
    match error {
        EndpointError::NameTaken { .. } => Status::already_exists(text),
        EndpointError::NotFound(_) => not_found(text),
        EndpointError::Version { .. } => Status::failed_precondition(text),
    }
}

fn from_deployment(error: DeploymentError) -> Status {
    let text = error.to_string();
    match error {
        DeploymentError::InvalidArgument(_) => Status::invalid_argument(text),
        DeploymentError::NotFound(_) => not_found(text),
        DeploymentError::AlreadyExists(_) => Status::already_exists(text),
        DeploymentError::FailedPrecondition(_) => Status::failed_precondition(text),
        DeploymentError::LimitReached(_) | DeploymentError::VersionsFull { .. } => {
            let detail = ResourceExhaustedFailure {
                cause: ResourceExhaustedCause::WorkerDeploymentLimits as i32,
                scope: ResourceExhaustedScope::Namespace as i32,
            };
            detailed(Code::ResourceExhausted, text, "ResourceExhaustedFailure", &detail)
        }
        DeploymentError::Disabled => {
            detailed(Code::PermissionDenied, text, "PermissionDeniedFailure", &PermissionDeniedFailure::default())
        }
    }
}

fn from_rejection(rejection: Rejection) -> Status {
    let text = rejection.to_string();
    match rejection {
        Rejection::InvalidArgument(_)
        | Rejection::TaskFailed(_)
        | Rejection::ActivityCancelNotRequested
        | Rejection::SignalLimit => Status::invalid_argument(text),
        Rejection::Closed
        | Rejection::RunNotFound
        | Rejection::TaskNotFound
        | Rejection::TaskHeartbeatTimeout
        | Rejection::TaskObsolete
        | Rejection::ActivityNotFound
        | Rejection::ActivityIdNotFound(_)
        | Rejection::ActivityNotPending
        | Rejection::NexusTaskNotFound
        | Rejection::OperationNotFound
        | Rejection::ChildNotFound => not_found(text),
        Rejection::ActivityAlreadyPaused | Rejection::Precondition(_) => Status::failed_precondition(text),
        Rejection::Closing => busy(text),
        Rejection::NotReady(_) => not_ready(text),
        Rejection::UpdateLimit(_) => limited(text),
        Rejection::UpdateTotal(_) => Status::failed_precondition(text),
        Rejection::Defect(_) => Status::internal(text),
        Rejection::NamespaceNotFound(namespace) => namespace_not_found(&namespace),
        Rejection::AlreadyStarted { start_request_id, run_id, first_run_id, .. } => {
            let detail = WorkflowExecutionAlreadyStartedFailure {
                start_request_id,
                run_id,
                first_execution_run_id: first_run_id,
            };
            detailed(Code::AlreadyExists, text, "WorkflowExecutionAlreadyStartedFailure", &detail)
        }
    }
}

/// Tells a node that forwards calls that nothing was done here.
const MOVED: &str = "segno-moved";

fn moved(text: String) -> Status {
    let mut status = Status::unavailable(text);
    status.metadata_mut().insert(MOVED, tonic::metadata::MetadataValue::from_static("1"));
    status
}

/// Whether a call was refused because what it is about is on another node.
pub fn is_moved(status: &Status) -> bool {
    status.metadata().contains_key(MOVED)
}

#[cfg(test)]
mod tests {
    use segno_store::CommitError;

    use super::*;

    fn status_of(error: CommitError) -> (Code, String) {
        let status = from_call(error.into());
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn a_failed_commit_says_whether_the_change_was_made() {
        const NOT_MADE: &str = "the change was not made: ";
        let why = || "the connection broke".to_owned();
        let not_made = [
            (CommitError::Conflict, Code::Unavailable),
            (CommitError::NotDone(why()), Code::Unavailable),
            (CommitError::Fenced, Code::Unavailable),
            (CommitError::Full, Code::ResourceExhausted),
        ];
        for (error, expected) in not_made {
            let (code, text) = status_of(error.clone());
            assert_eq!(code, expected, "{error:?}");
            assert!(text.starts_with(NOT_MADE) && text.matches(NOT_MADE).count() == 1, "{error:?}: {text}");
        }
        for error in [CommitError::Unknown(why()), CommitError::Lost(why())] {
            let (code, text) = status_of(error.clone());
            assert_eq!(code, Code::Unavailable, "{error:?}");
            let expected = "whether the change was made is unknown, repeat it with the same request id: ";
            assert!(text.starts_with(expected) && text.ends_with(&why()), "{error:?}: {text}");
        }
    }

    #[test]
    fn only_a_call_that_another_node_serves_is_marked_as_moved() {
        assert!(is_moved(&from_call(CallError::Moved)));
        assert!(!is_moved(&from_call(CallError::Unavailable("the lease is over".to_owned()))));
        assert!(!is_moved(&from_call(CallError::OutcomeUnknown("the connection broke".to_owned()))));
    }
}
