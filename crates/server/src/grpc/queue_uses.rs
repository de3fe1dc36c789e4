//! Who uses queues, asked where their homes are, as any caller would ask: the port [`QueueUses`] of the runs.

use std::sync::Arc;

use prost_types::Timestamp;
use segno_node::{MemberQueue, Namespace, PollerVersion, PortFuture, QueueUse, QueueUses, WorkerVersion};
use segno_proto::{
    taskqueue::{PollerInfo, TaskQueue},
    timestamp_nanos,
    workflowservice::DescribeTaskQueueRequest,
};

use crate::calls::Handlers;

/// Asks the homes of queues.
pub(crate) struct QueueHomes(Arc<Handlers>);

impl QueueHomes {
    /// Asks by calls to these handlers.
    pub(crate) fn new(handlers: Arc<Handlers>) -> Self {
        Self(handlers)
    }
}

impl QueueUses for QueueHomes {
    fn queue_use<'a>(&'a self, namespace: &'a Namespace, queue: &'a MemberQueue) -> PortFuture<'a, QueueUse> {
        Box::pin(async move {
            let request = DescribeTaskQueueRequest {
                namespace: namespace.name.clone(),
                task_queue: Some(TaskQueue { name: queue.name.clone(), ..Default::default() }),
                task_queue_type: queue.kind.wire() as i32,
                report_stats: true,
                ..Default::default()
            };
            let described = match self.0.make(&request).await {
                Ok(described) => described,
                Err(error) => {
                    tracing::warn!(queue = queue.name, %error, "who uses a queue is not known");
                    return QueueUse::default();
                }
            };
            let since = self.0.poller_horizon();
            let is_recent = |at: &Timestamp| timestamp_nanos(at) >= since;
            let recent = |poller: &PollerInfo| poller.last_access_time.as_ref().is_some_and(is_recent);
            let pollers = described.pollers.iter().filter(|poller| recent(poller)).filter_map(version_of);
            QueueUse {
                pollers: pollers.collect(),
                stats: described.stats.unwrap_or_default(),
                stats_by_priority: described.stats_by_priority_key,
            }
        })
    }
}

/// The version of a poller.
fn version_of(poller: &PollerInfo) -> Option<WorkerVersion> {
    let capabilities = poller.worker_version_capabilities.clone();
    PollerVersion { capabilities, deployment: poller.deployment_options.clone() }.deployment_version()
}
