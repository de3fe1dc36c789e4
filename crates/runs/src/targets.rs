//! Where the routing of worker deployments sends a run. The engine decides by it who may have a task of the run.

use segno_deployments::{MemberQueue, QueueType, hash_of};
use segno_engine::{
    Run,
    start::Start,
    versioning::{Target, override_version, uses_ramp},
};
use segno_proto::deployment::WorkerDeploymentVersion;
use segno_store::NamespaceKey;

use crate::runs::Runs;

impl Runs {
    /// Where the routing of its own workflow queue sends a run now; `None` if neither the run nor its queue nor the worker in
    /// question has to do with versions.
    pub fn target_of(&self, run: &Run, worker: Option<&WorkerDeploymentVersion>) -> Option<Target> {
        let namespace = self.deployments.namespace(NamespaceKey(run.info.namespace_key));
        if namespace.is_none() && worker.is_none() && run.state().versioning.is_none() {
            return None;
        }
        let queue = MemberQueue { name: run.info.task_queue.clone(), kind: QueueType::Workflow };
        let Some(routing) = namespace.and_then(|namespace| namespace.queues.get(&queue).cloned()) else {
            return Some(Target::default());
        };
        let ramp = routing.ramp.as_ref().filter(|_| uses_ramp(run)).map(|ramp| &ramp.target);
        let target = ramp.unwrap_or_else(|| routing.target(hash_of(&run.info.workflow_id)));
        Some(Target { version: target.version.as_deref().cloned(), revision: target.revision })
    }
    /// Whether the first task of a new run may go to the worker of its starter: tasks of the run would go to that version.
    pub fn may_start_eagerly(&self, start: &Start) -> bool {
        let (options, namespace) = (&start.options, NamespaceKey(start.namespace_key));
        let version = options.eager_version.as_ref();
        if let Some(pinned) = options.versioning_override.as_ref().and_then(override_version) {
            return version == Some(pinned);
        }
        let name = options.task_queue.as_ref().map_or_else(String::new, |queue| queue.name.clone());
        let routing = self.deployments.routing(namespace, &MemberQueue { name, kind: QueueType::Workflow });
        let target =
            routing.as_ref().and_then(|routing| routing.target(hash_of(&options.workflow_id)).version.as_deref());
        version == target
    }
}
