//! The routing of all namespaces, in memory. Every poll and every offer of a task reads it.

use std::{
    collections::HashSet,
    sync::{Arc, RwLock},
};

use segno_environment::hash::HashMap;
use segno_store::NamespaceKey;

use crate::routing::{MemberQueue, QueueRouting, Version};

/// The routing of one namespace, derived from its deployments.
#[derive(Debug, Default)]
pub struct NamespaceRouting {
    /// Where tasks go, of queues that are members of a version.
    pub queues: HashMap<MemberQueue, Arc<QueueRouting>>,
    /// The queues of each version.
    pub members: HashMap<Version, HashSet<MemberQueue>>,
}

/// The routing of all namespaces.
#[derive(Debug, Default)]
pub struct Registry {
    namespaces: RwLock<HashMap<NamespaceKey, Arc<NamespaceRouting>>>,
}

impl Registry {
    /// The routing of a namespace; `None` if it has no deployments.
    pub fn namespace(&self, namespace: NamespaceKey) -> Option<Arc<NamespaceRouting>> {
        self.namespaces.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(&namespace).cloned()
    }

    /// The routing of a queue; `None` if no version has it, so that its tasks go to workers without a version.
    pub fn routing(&self, namespace: NamespaceKey, queue: &MemberQueue) -> Option<Arc<QueueRouting>> {
        self.namespace(namespace)?.queues.get(queue).cloned()
    }

    /// Whether workers of a version have polled a queue.
    pub fn is_member(&self, namespace: NamespaceKey, version: &Version, queue: &MemberQueue) -> bool {
        self.namespace(namespace)
            .is_some_and(|routing| routing.members.get(version).is_some_and(|queues| queues.contains(queue)))
    }

    /// Replaces the routing of a namespace.
    pub fn set(&self, namespace: NamespaceKey, routing: NamespaceRouting) {
        let mut namespaces = self.namespaces.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        match routing.members.is_empty() && routing.queues.is_empty() {
            true => drop(namespaces.remove(&namespace)),
            false => drop(namespaces.insert(namespace, Arc::new(routing))),
        }
    }
}
