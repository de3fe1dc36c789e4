//! Errors of calls.

use prost::Message;
use segno_proto::{errordetails, google};
use tonic::{Code, Status};

use crate::{converter::ConversionError, failure::Failure};

/// Errors of calls.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no such workflow, run, task or namespace.
    #[error("not found: {0}")]
    NotFound(String),
    /// A workflow with this id runs, or ran and its id may not be used again.
    #[error("workflow {workflow_id} is started already (run {run_id})")]
    AlreadyStarted {
        /// Its id.
        workflow_id: String,
        /// The run that is in the way.
        run_id: String,
    },
    /// A task with this id, without a workflow, is open, or was and its id may not be used again.
    #[error("task {task_id} is started already (run {run_id})")]
    TaskAlreadyStarted {
        /// Its id.
        task_id: String,
        /// The run that is in the way.
        run_id: String,
    },
    /// The task without a workflow failed for good, or was cancelled or terminated, or took too long.
    #[error("{0}")]
    TaskFailed(Failure),
    /// The workflow failed, or was cancelled or terminated, or took too long.
    #[error("{0}")]
    WorkflowFailed(Failure),
    /// The update was accepted, and then failed.
    #[error("{0}")]
    UpdateFailed(Failure),
    /// The update was refused by its validator, or there is none of this name.
    #[error("{0}")]
    UpdateRejected(Failure),
    /// The query failed.
    #[error("{0}")]
    QueryFailed(Failure),
    /// The server could not be reached, or refused the call.
    #[error("{message} ({code:?})")]
    Rpc {
        /// gRPC's code.
        code: Code,
        /// The server's message.
        message: String,
    },
    /// A value that cannot be sent, or that is not what was expected.
    #[error("{0}")]
    Conversion(ConversionError),
    /// The client or the worker cannot be made like this.
    #[error("{0}")]
    Configuration(String),
}

impl ClientError {
    /// The failure in it.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::WorkflowFailed(failure)
            | Self::TaskFailed(failure)
            | Self::UpdateFailed(failure)
            | Self::UpdateRejected(failure)
            | Self::QueryFailed(failure) => Some(failure),
            _ => None,
        }
    }
}

impl From<ConversionError> for ClientError {
    fn from(error: ConversionError) -> Self {
        Self::Conversion(error)
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::NotFound => Self::NotFound(message),
            Code::InvalidArgument => match detail::<errordetails::QueryFailedFailure>(&status, "QueryFailedFailure") {
                Some(failed) => {
                    let fallback = || Failure::new(message.clone()).into();
                    Self::QueryFailed(failed.failure.map_or_else(fallback, Failure::from_wire))
                }
                None => Self::Rpc { code: Code::InvalidArgument, message },
            },
            code => Self::Rpc { code, message },
        }
    }
}

/// The same for a call that starts a workflow.
pub(super) fn of_start(status: Status, workflow_id: &str) -> ClientError {
    let name = "WorkflowExecutionAlreadyStartedFailure";
    match detail::<errordetails::WorkflowExecutionAlreadyStartedFailure>(&status, name) {
        Some(started) => ClientError::AlreadyStarted { workflow_id: workflow_id.to_owned(), run_id: started.run_id },
        None => of_multiple(status, workflow_id),
    }
}

/// The same for a call that starts a task without a workflow.
pub(super) fn of_task_start(status: Status, task_id: &str) -> ClientError {
    let name = "ActivityExecutionAlreadyStartedFailure";
    match detail::<errordetails::ActivityExecutionAlreadyStartedFailure>(&status, name) {
        Some(started) => ClientError::TaskAlreadyStarted { task_id: task_id.to_owned(), run_id: started.run_id },
        None => status.into(),
    }
}

/// The same for a call with several operations: the first of them that failed by itself.
fn of_multiple(status: Status, workflow_id: &str) -> ClientError {
    let name = "MultiOperationExecutionFailure";
    let Some(failure) = detail::<errordetails::MultiOperationExecutionFailure>(&status, name) else {
        return status.into();
    };
    let aborted = "MultiOperationExecutionAborted";
    let own = failure.statuses.into_iter().find(|operation| {
        let code = Code::from(operation.code);
        code != Code::Ok && !operation.details.iter().any(|any| any.type_url.ends_with(aborted))
    });
    let Some(operation) = own else { return status.into() };
    let code = Code::from(operation.code);
    let details =
        google::rpc::Status { code: operation.code, message: operation.message.clone(), details: operation.details };
    let status = Status::with_details(code, operation.message, details.encode_to_vec().into());
    let name = "WorkflowExecutionAlreadyStartedFailure";
    match detail::<errordetails::WorkflowExecutionAlreadyStartedFailure>(&status, name) {
        Some(started) => ClientError::AlreadyStarted { workflow_id: workflow_id.to_owned(), run_id: started.run_id },
        None => status.into(),
    }
}

/// The detail that the server adds to an error, if it is of this type.
pub(crate) fn detail<T: Message + Default>(status: &Status, name: &str) -> Option<T> {
    let status = google::rpc::Status::decode(status.details()).ok()?;
    let any = status.details.into_iter().find(|any| any.type_url.rsplit('.').next() == Some(name))?;
    T::decode(any.value.as_slice()).ok()
}

/// A history that does not decode.
pub(super) fn unreadable(error: prost::DecodeError) -> ClientError {
    ClientError::Conversion(ConversionError(format!("a history cannot be read: {error}")))
}
