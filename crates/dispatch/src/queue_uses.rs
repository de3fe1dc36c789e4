//! How workers of a version use a queue, found at the queue's home: the port [`QueueUses`] of the runs.

use std::{collections::BTreeMap, time::Duration};

use segno_deployments::{MemberQueue, QueueType, Version};
use segno_matching::{PRIORITY_DEFAULT, QueueKey, QueueKind, QueueStats};
use segno_proto::{nanos_duration, taskqueue::TaskQueueStats};
use segno_runs::{
    error::CallError,
    ports::{
        PortFuture,
        owner::Place,
        queue_use::{QueueUse, QueueUses},
    },
};
use segno_store::NamespaceKey;
use tokio::time::Instant;

use super::Dispatch;

/// How long the home of a queue is looked for.
const WAIT_MAX: Duration = Duration::from_secs(5);
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The queue in which tasks of a type wait.
fn key_of(namespace: NamespaceKey, queue: &MemberQueue) -> QueueKey {
    let kind = match queue.kind {
        QueueType::Workflow => QueueKind::Workflow,
        QueueType::Activity => QueueKind::Activity,
        QueueType::Nexus => QueueKind::Nexus,
    };
    QueueKey { namespace, kind, name: queue.name.clone() }
}

impl Dispatch {
    /// How workers of a version use a queue whose home is this node; of all versions and of none, if none is named.
    pub fn queue_use_here(&self, namespace: NamespaceKey, queue: &MemberQueue, version: Option<&Version>) -> QueueUse {
        let key = key_of(namespace, queue);
        let (mut by_priority, has_pollers) = match version {
            Some(_) => (self.matching.stats_of(&key, version), self.matching.is_polled_by(&key, version)),
            None => (self.matching.stats(&key), self.matching.is_polled(&key)),
        };
        let rate_limiting_active = self.matching.limit_of(&key).1;
        let wire = |stats: &QueueStats| TaskQueueStats {
            approximate_backlog_count: stats.backlog as i64,
            approximate_backlog_age: Some(nanos_duration(stats.oldest)),
            tasks_add_rate: stats.add_rate,
            tasks_dispatch_rate: stats.dispatch_rate,
            rate_limiting_active,
        };
        let mut total = QueueStats::default();
        by_priority.values().for_each(|stats| total.add(*stats));
        by_priority.entry(PRIORITY_DEFAULT).or_default();
        QueueUse {
            stats: wire(&total),
            stats_by_priority: by_priority
                .iter()
                .map(|(priority, stats)| (*priority, wire(stats)))
                .collect::<BTreeMap<_, _>>(),
            has_pollers,
        }
    }

    async fn find_queue_use(
        &self,
        namespace: NamespaceKey,
        queue: &MemberQueue,
        version: Option<&Version>,
    ) -> Result<QueueUse, CallError> {
        let deadline = Instant::now() + WAIT_MAX;
        let unreachable = || {
            CallError::Unavailable(format!(
                "who uses task queue {:?} cannot be found out now, please retry",
                queue.name
            ))
        };
        loop {
            match self.runs.home(namespace, &queue.name) {
                Place::Here => return Ok(self.queue_use_here(namespace, queue, version)),
                Place::There(home) => {
                    let elsewhere = self.remote_queues().ok_or_else(unreachable)?;
                    match elsewhere.queue_use(home, namespace, queue, version).await {
                        Ok(found) => return Ok(found),
                        // The home is looked up again.
                        Err(CallError::Moved) => {}
                        Err(error) => {
                            tracing::warn!(queue = queue.name, %error, "who uses a queue is not known");
                            return Err(unreachable());
                        }
                    }
                }
                Place::Nowhere => {}
            }
            if Instant::now() >= deadline || self.runs.is_stopping() {
                return Err(unreachable());
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

impl QueueUses for Dispatch {
    fn queue_use<'a>(
        &'a self,
        namespace: NamespaceKey,
        queue: &'a MemberQueue,
        version: Option<&'a Version>,
    ) -> PortFuture<'a, Result<QueueUse, CallError>> {
        Box::pin(self.find_queue_use(namespace, queue, version))
    }
}
