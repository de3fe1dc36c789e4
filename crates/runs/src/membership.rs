//! Which versions of workers poll the queue of a workflow, as calls about versioning ask.

use std::sync::Arc;

use segno_deployments::{MemberQueue, QueueType};
use segno_proto::deployment::WorkerDeploymentVersion;
use segno_store::NamespaceKey;

use crate::runs::Runs;

impl Runs {
    /// Whether workers of a version have polled a queue for workflow tasks.
    pub fn polls_workflow_queue(
        &self,
        namespace: NamespaceKey,
        version: &WorkerDeploymentVersion,
        queue: &str,
    ) -> bool {
        let queue = MemberQueue { name: queue.to_owned(), kind: QueueType::Workflow };
        self.deployments.is_member(namespace, &Arc::new(version.clone()), &queue)
    }
}
