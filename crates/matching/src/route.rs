//! How a task finds its lane: the version to which it is pinned, or the routing of its queue.

use std::sync::Arc;

use segno_deployments::{MemberQueue, NamespaceRouting, QueueRouting, QueueType, Registry, Version};

use super::key::{QueueKey, QueueKind};

/// By what the lane of a task is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskRoute {
    /// The version to which the run is pinned.
    pub pinned: Option<Version>,
    /// The hash of the workflow id: tasks of one workflow are on the same side of a ramp.
    pub hash: u32,
    /// Whether it goes to the ramping version, if there is one, at any percentage.
    pub uses_ramp: bool,
}

/// The routing of a queue by versions.
#[derive(Debug)]
pub enum LaneRouting {
    /// The queue has one lane, for all workers.
    SingleLane,
    /// It has a lane for each version.
    Versions {
        /// The kind of tasks.
        kind: QueueType,
        /// The routing, if the namespace has deployments.
        deployed: Option<Box<DeployedQueue>>,
    },
}

/// A queue of a namespace with deployments.
#[derive(Debug)]
pub struct DeployedQueue {
    namespace: Arc<NamespaceRouting>,
    queue: MemberQueue,
    routing: Option<Arc<QueueRouting>>,
}

/// The kind of tasks of queues that have lanes.
pub fn type_of(kind: QueueKind) -> Option<QueueType> {
    match kind {
        QueueKind::Workflow => Some(QueueType::Workflow),
        QueueKind::Activity => Some(QueueType::Activity),
        QueueKind::Nexus => Some(QueueType::Nexus),
        // One worker's own; commands of Segno to workers.
        QueueKind::Sticky | QueueKind::WorkerCommand => None,
    }
}

impl LaneRouting {
    /// The routing of a queue as it is now.
    pub fn read(registry: &Registry, key: &QueueKey) -> Self {
        let Some(kind) = type_of(key.kind) else { return Self::SingleLane };
        let deployed = registry.namespace(key.namespace).map(|namespace| {
            let queue = MemberQueue { name: key.name.clone(), kind };
            let routing = namespace.queues.get(&queue).cloned();
            Box::new(DeployedQueue { namespace, queue, routing })
        });
        Self::Versions { kind, deployed }
    }

    /// The current version, if no task goes to workers without a version.
    pub fn only_versions(&self) -> Option<Version> {
        let Self::Versions { deployed: Some(deployed), .. } = self else { return None };
        let routing = deployed.routing.as_ref()?;
        let is_ramp_versioned = routing.ramp.as_ref().is_none_or(|ramp| ramp.target.version.is_some());
        routing.current.version.clone().filter(|_| is_ramp_versioned)
    }

    /// The version whose workers get a task; `None` for those without a version.
    pub fn version_for<'a>(&'a self, route: &'a TaskRoute) -> Option<&'a Version> {
        let Self::Versions { kind, deployed } = self else { return None };
        let deployed = deployed.as_deref();
        if let Some(version) = &route.pinned {
            // An activity whose queue the version does not poll goes by the routing of its own queue.
            let is_member = |deployed: &DeployedQueue| {
                deployed.namespace.members.get(version).is_some_and(|queues| queues.contains(&deployed.queue))
            };
            if *kind == QueueType::Workflow || deployed.is_some_and(is_member) {
                return Some(version);
            }
        }
        let routing = deployed?.routing.as_ref()?;
        let ramp = routing.ramp.as_ref().filter(|_| route.uses_ramp);
        ramp.map_or_else(|| routing.target(route.hash), |ramp| &ramp.target).version.as_ref()
    }
}
