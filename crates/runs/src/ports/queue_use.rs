//! What deployments need to know of queues, which may be at other nodes.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock, Weak},
};

use segno_deployments::{MemberQueue, Version};
use segno_proto::taskqueue::TaskQueueStats;

use super::PortFuture;
use crate::namespaces::Namespace;

/// Who uses a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueUse {
    /// Tasks that wait in the queue, and the rates at which they come and go.
    pub stats: TaskQueueStats,
    /// The same by priorities.
    pub stats_by_priority: BTreeMap<i32, TaskQueueStats>,
    /// The versions of workers that polled it lately.
    pub pollers: Vec<Version>,
}

impl QueueUse {
    /// Whether tasks wait in it, or came lately.
    pub fn has_tasks(&self) -> bool {
        self.stats.approximate_backlog_count > 0 || self.stats.tasks_add_rate > 0.0
    }
}

/// The queues of all nodes.
pub trait QueueUses: Send + Sync + 'static {
    /// Who uses a queue.
    fn queue_use<'a>(&'a self, namespace: &'a Namespace, queue: &'a MemberQueue) -> PortFuture<'a, QueueUse>;
}

/// The part that knows the queues, set once when the node serves. It holds the runs, so that these hold it weakly.
#[derive(Default)]
pub struct QueueUsesPort(OnceLock<Weak<dyn QueueUses>>);

impl QueueUsesPort {
    /// Sets the part that knows the queues.
    pub fn set(&self, queues: Weak<dyn QueueUses>) {
        let set = self.0.set(queues);
        debug_assert!(set.is_ok(), "it is set once");
    }

    /// The part that knows the queues; `None` while nothing is served.
    pub fn get(&self) -> Option<Arc<dyn QueueUses>> {
        self.0.get()?.upgrade()
    }
}
