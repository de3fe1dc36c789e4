//! What deployments need to know of queues, which may be at other nodes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak},
};

use segno_deployments::{MemberQueue, Version};
use segno_environment::lock::lock;
use segno_proto::taskqueue::TaskQueueStats;
use segno_store::NamespaceKey;

use super::PortFuture;
use crate::error::CallError;

/// How workers of one version, or of all, use a queue.
#[derive(Clone, PartialEq, prost::Message)]
pub struct QueueUse {
    /// The tasks that wait for them now, and the rates at which tasks come and go.
    #[prost(message, required, tag = "1")]
    pub stats: TaskQueueStats,
    /// The same by priorities.
    #[prost(btree_map = "int32, message", tag = "2")]
    pub stats_by_priority: BTreeMap<i32, TaskQueueStats>,
    /// Whether one of them polls, or polled lately and did not shut down.
    #[prost(bool, tag = "3")]
    pub has_pollers: bool,
}

impl QueueUse {
    /// Whether tasks wait for them, or came lately.
    pub fn has_tasks(&self) -> bool {
        self.stats.approximate_backlog_count > 0 || self.stats.tasks_add_rate > 0.0
    }
}

/// The queues of all nodes.
pub trait QueueUses: Send + Sync + 'static {
    /// How workers of a version use a queue; of all versions and of none, if none is named. An error if the queue's home cannot
    /// be reached.
    fn queue_use<'a>(
        &'a self,
        namespace: NamespaceKey,
        queue: &'a MemberQueue,
        version: Option<&'a Version>,
    ) -> PortFuture<'a, Result<QueueUse, CallError>>;
}

/// The part that knows the queues, set whenever the node begins to serve. It holds the runs, so that these hold it weakly.
#[derive(Default)]
pub struct QueueUsesPort(Mutex<Option<Weak<dyn QueueUses>>>);

impl QueueUsesPort {
    /// Sets the part that knows the queues.
    pub fn set(&self, queues: Weak<dyn QueueUses>) {
        *lock(&self.0) = Some(queues);
    }

    /// The part that knows the queues; `None` while nothing is served.
    pub fn get(&self) -> Option<Arc<dyn QueueUses>> {
        lock(&self.0).as_ref()?.upgrade()
    }
}
