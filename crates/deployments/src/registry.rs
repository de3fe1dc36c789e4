//! The deployments of all namespaces, in memory. Every poll and every offer of a task reads the routing that follows from them.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use segno_environment::hash::{HashMap, HashSet};
use segno_store::{NamespaceKey, sabotage};

use crate::{
    deployment::Deployment,
    derive::{RoutingSource, source_of},
    routing::{MemberQueue, QueueRouting, Version},
};

/// The routing of one namespace, derived from its deployments.
#[derive(Debug, Default)]
pub struct NamespaceRouting {
    /// Where tasks go, of queues that are members of a version.
    pub queues: HashMap<MemberQueue, Arc<QueueRouting>>,
    /// The queues of each version.
    pub members: HashMap<Version, HashSet<MemberQueue>>,
}

#[derive(Debug, Default)]
struct NamespaceEntry {
    deployments: BTreeMap<String, Arc<Deployment>>,
    routing: Arc<NamespaceRouting>,
}

type Namespaces = HashMap<NamespaceKey, NamespaceEntry>;

/// The deployments of all namespaces.
#[derive(Debug, Default)]
pub struct Registry {
    namespaces: RwLock<Namespaces>,
    /// Deployments whose documents cannot be read. They are left as they are.
    unreadable: RwLock<HashMap<NamespaceKey, BTreeMap<String, String>>>,
    /// Whether any namespace has deployments: without them a task costs no lock.
    any: AtomicBool,
}

impl Registry {
    fn read(&self) -> Option<RwLockReadGuard<'_, Namespaces>> {
        let any = self.any.load(Ordering::Acquire);
        any.then(|| self.namespaces.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The routing of a namespace; `None` if it has no deployments.
    pub fn namespace(&self, namespace: NamespaceKey) -> Option<Arc<NamespaceRouting>> {
        Some(self.read()?.get(&namespace)?.routing.clone())
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

    /// A deployment.
    pub fn deployment(&self, namespace: NamespaceKey, name: &str) -> Option<Arc<Deployment>> {
        self.read()?.get(&namespace)?.deployments.get(name).cloned()
    }

    /// At most so many deployments whose names follow `after`, in the order of their names.
    pub fn page(&self, namespace: NamespaceKey, after: &str, limit: usize) -> Vec<Arc<Deployment>> {
        let Some(namespaces) = self.read() else { return Vec::new() };
        let Some(entry) = namespaces.get(&namespace) else { return Vec::new() };
        let range = (Bound::Excluded(after), Bound::Unbounded);
        entry.deployments.range::<str, _>(range).take(limit).map(|(_, deployment)| deployment.clone()).collect()
    }

    /// How many deployments a namespace has.
    pub fn count(&self, namespace: NamespaceKey) -> usize {
        self.read().and_then(|namespaces| Some(namespaces.get(&namespace)?.deployments.len())).unwrap_or_default()
    }

    /// How many versions have a queue.
    pub fn versions_of_queue(&self, namespace: NamespaceKey, queue: &MemberQueue) -> usize {
        let Some(routing) = self.namespace(namespace) else { return 0 };
        routing.members.values().filter(|queues| queues.contains(queue)).count()
    }

    /// The routing of a queue, and when it changed.
    pub fn source(&self, namespace: NamespaceKey, queue: &MemberQueue) -> Option<RoutingSource> {
        let namespaces = self.read()?;
        let deployments = namespaces.get(&namespace)?.deployments.values().map(AsRef::as_ref);
        let has = |deployment: &&Deployment| deployment.versions.values().any(|version| version.has(queue));
        let having: Vec<&Deployment> = deployments.filter(has).collect();
        (!having.is_empty()).then(|| source_of(queue, &having))
    }

    /// Replaces a deployment, or removes it, and derives the routing anew.
    pub fn put(&self, namespace: NamespaceKey, name: &str, deployment: Option<Arc<Deployment>>) {
        let mut namespaces = self.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        let mut deployments =
            namespaces.get_mut(&namespace).map(|entry| std::mem::take(&mut entry.deployments)).unwrap_or_default();
        match deployment {
            Some(deployment) => deployments.insert(name.to_owned(), deployment),
            None => deployments.remove(name),
        };
        self.store(&mut namespaces, namespace, deployments);
    }

    /// Replaces all deployments of a namespace. Says whether that changed any.
    pub fn replace(&self, namespace: NamespaceKey, deployments: Vec<Deployment>) -> bool {
        let mut namespaces = self.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        let deployments: BTreeMap<String, Arc<Deployment>> =
            deployments.into_iter().map(|deployment| (deployment.name.clone(), Arc::new(deployment))).collect();
        let is_same = match namespaces.get(&namespace) {
            Some(entry) => entry.deployments == deployments || sabotage::is_on("old-routing"),
            None => deployments.is_empty(),
        };
        if !is_same {
            self.store(&mut namespaces, namespace, deployments);
        }
        !is_same
    }

    fn store(
        &self,
        namespaces: &mut Namespaces,
        namespace: NamespaceKey,
        deployments: BTreeMap<String, Arc<Deployment>>,
    ) {
        if deployments.is_empty() {
            namespaces.remove(&namespace);
        } else {
            let routing = Arc::new(NamespaceRouting::of(deployments.values().map(AsRef::as_ref)));
            namespaces.insert(namespace, NamespaceEntry { deployments, routing });
        }
        self.any.store(!namespaces.is_empty(), Ordering::Release);
    }

    /// Sets which deployments of a namespace cannot be read, and why. Says which of them could be read before, or were not there.
    pub fn set_unreadable(
        &self,
        namespace: NamespaceKey,
        unreadable: BTreeMap<String, String>,
    ) -> Vec<(String, String)> {
        let mut all = self.unreadable.write().unwrap_or_else(PoisonError::into_inner);
        let before = all.remove(&namespace).unwrap_or_default();
        let new = unreadable.iter().filter(|(name, _)| !before.contains_key(*name));
        let new = new.map(|(name, why)| (name.clone(), why.clone())).collect();
        if !unreadable.is_empty() {
            all.insert(namespace, unreadable);
        }
        new
    }

    /// Why a deployment cannot be read, if it cannot.
    pub fn unreadable(&self, namespace: NamespaceKey, name: &str) -> Option<String> {
        self.unreadable.read().unwrap_or_else(PoisonError::into_inner).get(&namespace)?.get(name).cloned()
    }

    /// Forgets the deployments of namespaces that are gone.
    pub fn retain(&self, is_there: impl Fn(NamespaceKey) -> bool) {
        let mut namespaces = self.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        namespaces.retain(|namespace, _| is_there(*namespace));
        self.any.store(!namespaces.is_empty(), Ordering::Release);
        drop(namespaces);
        self.unreadable.write().unwrap_or_else(PoisonError::into_inner).retain(|namespace, _| is_there(*namespace));
    }

    /// Replaces the routing of a namespace.
    pub fn set(&self, namespace: NamespaceKey, routing: NamespaceRouting) {
        let mut namespaces = self.namespaces.write().unwrap_or_else(PoisonError::into_inner);
        match routing.members.is_empty() && routing.queues.is_empty() {
            true => drop(namespaces.remove(&namespace)),
            false => namespaces.entry(namespace).or_default().routing = Arc::new(routing),
        }
        self.any.store(!namespaces.is_empty(), Ordering::Release);
    }
}
