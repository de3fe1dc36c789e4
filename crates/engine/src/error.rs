//! Why the engine refuses a call. Each fact is one variant; the edge maps them to statuses in one table.

use segno_proto::enums::WorkflowTaskFailedCause;

use crate::{machine::IllegalStep, validate};

/// A call that was refused. The run is exactly as it was before.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// The request itself is wrong.
    #[error("{0}")]
    InvalidArgument(String),
    /// The run is closed.
    #[error("workflow execution already completed")]
    Closed,
    /// There is no such run.
    #[error("workflow execution not found")]
    RunNotFound,
    /// The workflow task in the token is not the one that is running.
    #[error("Workflow task not found.")]
    TaskNotFound,
    /// A chain of workflow task heartbeats went on for too long.
    #[error("workflow task heartbeat timeout")]
    TaskHeartbeatTimeout,
    /// The offered task was started or replaced already.
    #[error("Duplicate task, completing it")]
    TaskObsolete,
    /// The activity in the token is not running.
    #[error("invalid activityID or activity already timed out or invoking workflow is completed")]
    ActivityNotFound,
    /// There is no activity with that id.
    #[error("cannot find pending activity with ActivityID {0}, check workflow execution history for more details")]
    ActivityIdNotFound(String),
    /// No activity is meant by the call.
    #[error("Can't find pending activity with such ID. Invalid activityID or activity already completed")]
    ActivityNotPending,
    /// Another call paused it.
    #[error("activity is already paused")]
    ActivityAlreadyPaused,
    /// An activity cannot report cancellation that was not requested.
    #[error("unable to mark activity as canceled without activity being request canceled first")]
    ActivityCancelNotRequested,
    /// Too many signals.
    #[error("exceeded workflow execution limit for signal events")]
    SignalLimit,
    /// The run tried to close; what arrives now must wait for the outcome.
    #[error("workflow operation can not be applied because workflow is closing")]
    Closing,
    /// The run cannot take this call while its workflow tasks keep failing.
    #[error("{0}")]
    NotReady(String),
    /// Too many updates are under way.
    #[error("{0}")]
    UpdateLimit(String),
    /// The run has had as many updates as it may have.
    #[error("{0}")]
    UpdateTotal(String),
    /// The worker's answer was taken, but made the workflow task fail.
    #[error("{0}")]
    TaskFailed(String),
    /// Not possible as things are.
    #[error("{0}")]
    Precondition(String),
    /// A start was refused because the workflow id is in use.
    #[error("{message}")]
    AlreadyStarted {
        /// The message for the caller.
        message: String,
        /// Request id of the run in the way.
        start_request_id: String,
        /// The run in the way.
        run_id: String,
        /// First run of its chain.
        first_run_id: String,
    },
    /// A message from another run no longer concerns this run.
    #[error("Pending child execution not found.")]
    ChildNotFound,
    /// The request of a Nexus operation in the token is answered, replaced or over.
    #[error("Nexus task not found or already expired")]
    NexusTaskNotFound,
    /// A Nexus operation that is reported as ended is not pending.
    #[error("operation not found")]
    OperationNotFound,
    /// The engine tried an impossible step: a defect, which is refused instead of stored.
    #[error("defect: {0}")]
    Defect(IllegalStep),
    /// A namespace named by a command does not exist.
    #[error("Namespace {0} is not found.")]
    NamespaceNotFound(String),
}

/// A workflow task that the server fails although the worker completed it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFailure {
    /// The cause recorded in history.
    pub cause: WorkflowTaskFailedCause,
    /// The mistake; empty if the cause says it all.
    pub message: String,
    /// Whether the workflow is terminated as well.
    pub terminate: bool,
}

impl TaskFailure {
    /// A failure that lets the workflow go on.
    pub fn new(cause: WorkflowTaskFailedCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), terminate: false }
    }

    /// A failure that ends the workflow.
    pub fn terminating(cause: WorkflowTaskFailedCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), terminate: true }
    }

    /// The answer to the worker: the cause in pascal case and the text.
    pub fn worker_message(&self) -> String {
        let name = pascal_case(self.cause.as_str_name().trim_start_matches("WORKFLOW_TASK_FAILED_CAUSE_"));
        if self.message.is_empty() { name } else { format!("{name}: {}", self.message) }
    }
}

/// `BAD_BINARY` to `BadBinary`, as Temporal prints enum values.
pub fn pascal_case(upper: &str) -> String {
    let mut result = String::with_capacity(upper.len());
    for word in upper.split('_') {
        let mut characters = word.chars();
        result.extend(characters.next());
        result.extend(characters.map(|c| c.to_ascii_lowercase()));
    }
    result
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandError {
    /// The call is answered with an error; nothing happens.
    Call(Rejection),
    /// The workflow task fails.
    Task(TaskFailure),
}

impl From<(WorkflowTaskFailedCause, validate::Invalid)> for CommandError {
    fn from((cause, invalid): (WorkflowTaskFailedCause, validate::Invalid)) -> Self {
        Self::Task(TaskFailure::new(cause, invalid.0))
    }
}
