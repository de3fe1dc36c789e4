//! What waits in task queues: workflow tasks, activities, queries and commands for workers.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use bytes::Bytes;
use segno_proto::{Nanos, query::WorkflowQuery};
use segno_store::{RunKey, cluster::NodeId};

use super::{
    key::QueueKey,
    remote::{self, TaskKind},
    route::TaskRoute,
};

/// A task that waits for a worker. It names the work; whether it still exists is seen when it starts.
#[derive(Clone, Debug)]
pub enum TaskOffer {
    /// A run's pending workflow task.
    Workflow {
        /// The run.
        run: RunKey,
        /// Recognises the very task.
        stamp: u32,
        /// Whether it exists in memory alone.
        speculative: bool,
    },
    /// A pending activity.
    Activity {
        /// The run.
        run: RunKey,
        /// Its scheduled event.
        scheduled_event_id: i64,
        /// Recognises the very attempt.
        stamp: u32,
    },
    /// The open request of a Nexus operation. The queue is of the namespace of its handler.
    Nexus {
        /// The run.
        run: RunKey,
        /// The operation, by its scheduled event.
        scheduled_event_id: i64,
        /// Recognises the very attempt.
        stamp: u32,
        /// Whether it is the request to cancel it.
        cancel: bool,
    },
    /// A direct call to a handler; it exists in memory alone.
    Call {
        /// Which call.
        id: u64,
    },
    /// A query; it exists in memory alone.
    Query(Box<QueryTask>),
    /// A command for a worker; it exists in memory alone.
    Command(Box<WorkerCommandTask>),
    /// A task of a run that another node owns.
    Remote(Box<remote::RemoteTask>),
}

impl TaskOffer {
    /// Whether storage knows the task, so that a queue may forget it and find it again.
    pub(super) fn is_stored(&self) -> bool {
        match self {
            Self::Workflow { speculative, .. } => !speculative,
            Self::Activity { .. } | Self::Nexus { .. } => true,
            Self::Call { .. } | Self::Query(_) | Self::Command(_) => false,
            // Queries and what is speculative are gone if the queue forgets them.
            Self::Remote(task) => task.query == 0 && !task.speculative,
        }
    }

    /// The run that storage knows to have the task, and the node that serves it, if it is another one.
    pub(super) fn stored_run(&self) -> Option<(RunKey, Option<NodeId>)> {
        match self {
            Self::Workflow { run, speculative: false, .. } | Self::Activity { run, .. } => Some((*run, None)),
            Self::Remote(task)
                if self.is_stored() && matches!(task.kind(), TaskKind::Workflow | TaskKind::Activity) =>
            {
                Some((RunKey(task.run), Some(NodeId(task.owner))))
            }
            _ => None,
        }
    }

    /// Whether it is a direct call to a handler, of this node or of another one.
    pub(super) fn is_call(&self) -> bool {
        match self {
            Self::Call { .. } => true,
            Self::Remote(task) => task.kind() == TaskKind::Call,
            _ => false,
        }
    }
}

/// A task with its place in a queue.
#[derive(Clone, Debug)]
pub struct QueuedTask {
    /// The task.
    pub task: TaskOffer,
    /// Lower first.
    pub priority: i32,
    /// Since when it waits.
    pub since: Nanos,
    /// The share of its fairness key, if it has one.
    pub fairness: Option<Box<Fairness>>,
    /// By what its lane is found.
    pub route: TaskRoute,
}

impl QueuedTask {
    /// Its fairness key and weight.
    pub(super) fn fairness_share(&self) -> (&str, f32) {
        self.fairness.as_ref().map_or(("", 1.0), |fairness| (&*fairness.key, fairness.weight))
    }
}

/// The fairness key of a task and its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Fairness {
    /// The user's key.
    pub key: Arc<str>,
    /// How often compared to others.
    pub weight: f32,
}

const WAITING: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Where a query goes that tries a run at workers of a candidate, and how much of the history they replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The queue that these workers poll.
    pub queue: QueueKey,
    /// How their lane is found.
    pub route: TaskRoute,
    /// The last event that they get.
    pub last_event_id: i64,
    /// The started event of the last completed workflow task up to there.
    pub previous_started_event_id: i64,
}

impl Trial {
    /// The started event of the workflow task that follows the history for workers that compare nothing for a query.
    pub fn task_started_event_id(&self) -> i64 {
        self.last_event_id + 2
    }
}

/// A query on its way to a worker by itself.
#[derive(Clone, Debug)]
pub struct QueryTask {
    /// Which query.
    pub id: u64,
    /// Which run.
    pub run: RunKey,
    /// The query itself.
    pub query: WorkflowQuery,
    /// The node of the caller; 0 if there is only one.
    pub node: u64,
    /// Whether it went to a sticky queue (the worker has the history).
    pub sticky: bool,
    /// Set if it tries whether workers of a candidate can replay the run.
    pub trial: Option<Arc<Trial>>,
    state: Arc<AtomicU8>,
}

impl QueryTask {
    /// A query that waits for a worker.
    pub fn new(id: u64, run: RunKey, query: WorkflowQuery) -> Self {
        Self { id, run, query, node: 0, sticky: false, trial: None, state: Arc::default() }
    }

    /// The same query again, for another queue.
    pub fn again(&self, sticky: bool) -> Self {
        Self { sticky, state: Arc::default(), ..self.clone() }
    }

    /// A worker takes it. False if it was withdrawn.
    pub fn take(&self) -> bool {
        self.state.compare_exchange(WAITING, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The worker that took it will not get it.
    pub fn release(&self) {
        let _ = self.state.compare_exchange(TAKEN, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether it was withdrawn.
    pub fn is_withdrawn(&self) -> bool {
        self.state.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Withdraws it from a queue. False if a worker has it already.
    pub fn withdraw(&self) -> bool {
        self.state.compare_exchange(WAITING, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A command for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCommandTask {
    /// Recognises it.
    pub id: String,
    /// The token of the attempt that is to stop.
    pub stop: Bytes,
    /// When it was given.
    pub given: Nanos,
}
