//! Operations: what a workflow waits for.

use std::{pin::Pin, sync::Arc, task::Waker};

use segno_proto::common::Payload;

use super::{last_call::Place, local::LocalWork, nexus_target::NexusTarget};
use crate::{
    failure::Failure,
    options::{CancellationType, NexusCancellationType},
};

/// An operation, by age.
pub(crate) type OpId = u64;
/// The outcome of an operation.
pub(crate) type Outcome = Result<Vec<Payload>, Failure>;
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type Check = Arc<dyn Fn() -> bool + Send + Sync>;

/// An operation that a workflow waits for.
pub(crate) struct Op {
    pub kind: OpKind,
    pub scope: u64,
    /// Where the code began it.
    pub place: Option<Place>,
    pub waker: Option<Waker>,
    /// When it was resolved, counted in history's order, and with what.
    pub outcome: Option<(u64, Outcome)>,
    /// The event that its command became; 0 as long as there is none.
    pub event_id: i64,
    /// Where its command stands in this workflow task; `None` once it is sent.
    pub command: Option<usize>,
    /// Its future was dropped; the result is discarded.
    pub detached: bool,
    pub cancel_sent: bool,
}

pub(crate) enum OpKind {
    Task {
        id: String,
        kind: String,
        cancellation: CancellationType,
    },
    /// The result of a task that was scheduled before with the same id.
    SameTask {
        id: String,
    },
    Timer {
        id: String,
    },
    Child {
        workflow_id: String,
        kind: String,
        run_id: String,
        cancellation: CancellationType,
        abandon: bool,
    },
    /// The start of a child, which the operation named here waits for.
    ChildStarted {
        child: OpId,
    },
    /// A Nexus operation.
    Nexus {
        target: Box<NexusTarget>,
        /// It is there once the operation was started and goes on by itself.
        token: Option<String>,
        cancellation: NexusCancellationType,
    },
    /// The start of the Nexus operation that is named here.
    NexusStarted {
        operation: OpId,
    },
    /// A signal to, or a cancellation of, another workflow.
    External {
        what: &'static str,
        workflow_id: String,
    },
    Local {
        id: String,
        name: String,
        index: u64,
        is_task: bool,
        work: Option<Box<LocalWork>>,
        running: bool,
    },
    Promise {
        name: String,
    },
    Receive {
        name: String,
    },
    Condition {
        check: Check,
    },
    /// The cancellation of a scope.
    Cancelled,
    /// The end of a spawned future.
    Join,
}

impl OpKind {
    /// For people: what is it?
    pub fn describe(&self) -> String {
        match self {
            Self::Task { id, kind, .. } => format!("task {kind} ({id})"),
            Self::SameTask { id } => format!("task ({id})"),
            Self::Timer { id } => format!("timer ({id})"),
            Self::Child { workflow_id, kind, .. } => format!("child {kind} ({workflow_id})"),
            Self::ChildStarted { .. } => "start of a child".to_owned(),
            Self::Nexus { target, .. } => target.to_string(),
            Self::NexusStarted { .. } => "start of a Nexus operation".to_owned(),
            Self::External { what, workflow_id } => format!("{what} of workflow {workflow_id}"),
            Self::Local { name, .. } => format!("local operation {name}"),
            Self::Promise { name } => format!("promise {name}"),
            Self::Receive { name } => format!("signal {name}"),
            Self::Condition { .. } => "condition".to_owned(),
            Self::Cancelled => "cancellation".to_owned(),
            Self::Join => "spawned future".to_owned(),
        }
    }
}
