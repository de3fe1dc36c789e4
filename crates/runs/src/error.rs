//! Errors of calls, in the terms of the node. The crate `segno-calls` maps them to statuses in one table.

use std::{sync::Mutex, time::Duration};

use segno_deployments::DeploymentError;
use segno_engine::{Rejection, update::abort::Abort};
use segno_store::{CommitError, ReadError};
use tokio::time::Instant;

use crate::{endpoints::EndpointError, start_limits::StartRefusal};
use segno_environment::lock::lock;

/// Says that a script does not exist.
pub fn no_script(name: &str, namespace: &str) -> String {
    format!("there is no script \"{name}\" in namespace \"{namespace}\"")
}

/// A call that did not succeed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The engine refused it; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A call about worker deployments was refused; nothing changed.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// A change of a Nexus endpoint was refused; nothing changed.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// No run under that workflow id, or not the run that was named.
    #[error("workflow not found for ID: {workflow_id}")]
    WorkflowNotFound {
        /// The id in the request.
        workflow_id: String,
    },
    /// A run id of a run that is not stored.
    #[error("workflow execution not found for workflow ID {workflow_id:?} and run ID {run_id:?}")]
    RunNotFound {
        /// The id in the request.
        workflow_id: String,
        /// The run id in the request.
        run_id: String,
    },
    /// No script of that name.
    #[error("{0}")]
    NoScript(String),
    /// No namespace of that name or id.
    #[error("Namespace {0} is not found.")]
    NamespaceNotFound(String),
    /// The name belongs to another namespace.
    #[error("Namespace {0:?} already exists")]
    NamespaceExists(String),
    /// It cannot be done now; nothing was changed. The same call may succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// It began, and whether the change was made is unknown. Repeating the call with the same request id is safe.
    #[error("whether the change was made is unknown, repeat it with the same request id: {0}")]
    OutcomeUnknown(String),
    /// There is no room left to store anything.
    #[error("{0}")]
    StorageFull(String),
    /// The workflow is on another node, or on its way there; nothing was done.
    #[error("the workflow is moving to another node of the cluster; nothing was done, please retry")]
    Moved,
    /// Too many calls wait for this workflow.
    #[error("Workflow is busy.")]
    Busy,
    /// Too much waits for the disk.
    #[error("the server is overloaded: too much waits for the disk; try again later")]
    Overloaded,
    /// Stored data cannot be read.
    #[error("{0}")]
    DataLoss(String),
    /// Too many lists and counts at the same time.
    #[error("{0}")]
    TooManyLists(&'static str),
    /// Too many queries and checks of scripts of this namespace wait.
    #[error("too many queries and checks of scripts wait in this namespace; try again later")]
    TooManyScriptCalls,
    /// The namespace has or starts too many workflows.
    #[error("{0}")]
    StartRefused(StartRefusal),
    /// As many batch operations as may be are open.
    #[error("Max concurrent batch operations is reached")]
    TooManyBatches,
    /// The caller's time is up.
    #[error("context deadline exceeded")]
    DeadlineExceeded,
    /// The node is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// Too many queries wait for this run's workflow task.
    #[error(
        "consistent query buffer is full, this may be caused by too many queries and workflow not able to process query fast enough"
    )]
    QueryBufferFull,
    /// The run is not able to answer queries now.
    #[error("{0}")]
    NotReady(String),
    /// The run knows no such update.
    #[error("update {update_id:?} not found")]
    UpdateNotFound {
        /// The id in the request.
        update_id: String,
    },
    /// An update that waited in memory was lost with it. The same call admits it again.
    #[error("workflow update was aborted")]
    UpdateLost,
    /// Another change came in between; the same call again may succeed.
    #[error("{0}")]
    Aborted(String),
    /// An update will not be answered.
    #[error("{}", aborted(*.0))]
    UpdateAborted(Abort),
    /// A worker answered a query with an error.
    #[error("{0}")]
    QueryFailed(String, Option<Box<segno_proto::failure::Failure>>),
}

impl CallError {
    /// Whether the same call may succeed later, without a change to the run it is for.
    pub fn is_temporary(&self) -> bool {
        use CallError::{Busy, Moved, OutcomeUnknown, Overloaded, ShuttingDown, StorageFull, Unavailable, UpdateLost};
        matches!(
            self,
            Unavailable(_) | OutcomeUnknown(_) | StorageFull(_) | Busy | Overloaded | ShuttingDown | Moved | UpdateLost
        )
    }
}

fn aborted(abort: Abort) -> &'static str {
    match abort {
        Abort::Closed => "workflow update was aborted by closing workflow",
        Abort::Continuing => "workflow operation can not be applied because workflow is closing",
        Abort::Paused => segno_engine::pause::NO_UPDATES,
        Abort::TaskFailed => "Unable to perform workflow execution update due to unexpected workflow task failure.",
    }
}

/// A damaged row may be asked for thousands of times a second.
const DAMAGE_LOGGED_EVERY: Duration = Duration::from_secs(1);

/// Logs that what is stored is damaged, for all callers together at most once in [`DAMAGE_LOGGED_EVERY`].
fn log_damage(error: &ReadError) {
    static LOGGED: Mutex<Option<Instant>> = Mutex::new(None);
    let mut logged = lock(&LOGGED);
    if logged.is_none_or(|logged| logged.elapsed() >= DAMAGE_LOGGED_EVERY) {
        *logged = Some(Instant::now());
        tracing::error!(%error, "what is stored does not match its checksum");
    }
}

impl From<StartRefusal> for CallError {
    fn from(refusal: StartRefusal) -> Self {
        Self::StartRefused(refusal)
    }
}

impl From<ReadError> for CallError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Damaged(_) => {
                log_damage(&error);
                Self::DataLoss(error.to_string())
            }
            ReadError::Failed(_) => Self::Unavailable(error.to_string()),
            // The caller of a read that was cancelled is gone.
            ReadError::DeadlineExceeded | ReadError::Cancelled => Self::DeadlineExceeded,
        }
    }
}

impl From<CommitError> for CallError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Full => Self::StorageFull(format!("the change was not made: {error}")),
            // Its text says that the change was not made.
            CommitError::NotDone(_) => Self::Unavailable(error.to_string()),
            CommitError::Conflict | CommitError::Fenced => {
                Self::Unavailable(format!("the change was not made: {error}"))
            }
            CommitError::Unknown(why) => Self::OutcomeUnknown(format!("the store failed: {why}")),
            CommitError::Lost(_) => Self::OutcomeUnknown(error.to_string()),
        }
    }
}
