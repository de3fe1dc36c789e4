//! Polls say to which version a worker belongs. The first one of a version on a queue registers both.

use segno_node::{MemberQueue, Poll, QueueKind, QueueType};
use tonic::Status;

use crate::grpc::{Workflows, failed};

impl Workflows {
    /// Makes the queue of a poll a member of the worker's version before the poll waits.
    pub(crate) async fn register_poll(&self, poll: &Poll) -> Result<(), Status> {
        self.register_worker(poll.queue.namespace, &poll.caller.worker)?;
        let kind = match poll.queue.kind {
            QueueKind::Workflow => QueueType::Workflow,
            QueueKind::Activity => QueueType::Activity,
            // The queue of one worker is no member.
            _ => return Ok(()),
        };
        self.register_member(poll, kind).await
    }

    /// Makes a queue a member of the worker's version. Where worker deployments are switched off, the poll waits and gets nothing.
    pub(crate) async fn register_member(&self, poll: &Poll, kind: QueueType) -> Result<(), Status> {
        let enabled = self.node.runs.deployment_limits.enabled;
        let Some(version) = poll.version.deployment_version().filter(|_| enabled) else { return Ok(()) };
        let queue = MemberQueue { name: poll.queue.name.clone(), kind };
        self.node.runs.register_poller(poll.queue.namespace, &version, queue).await.map_err(failed)
    }
}
