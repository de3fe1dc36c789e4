//! The uses of the versions and the queues of a deployment, looked up for a change while no other call changes the deployment.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use segno_deployments::{Deployment, MemberQueue, VersionUse};
use segno_environment::lock::lock;
use segno_store::NamespaceKey;

use crate::{error::CallError, list_limits::ListCaller, runs::Runs};

/// The uses that are known. A change that reads an unknown one gets the answer for no use; the use is noted and looked up, and the change
/// is computed again.
#[derive(Debug, Default)]
pub struct Uses {
    queues: BTreeMap<MemberQueue, bool>,
    versions: BTreeMap<String, VersionUse>,
    unknown: Mutex<UnknownUses>,
}

/// Uses that a change has read and that were not known.
#[derive(Debug, Default)]
pub(super) struct UnknownUses {
    queues: BTreeSet<MemberQueue>,
    versions: BTreeSet<String>,
}

impl UnknownUses {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.versions.is_empty()
    }
}

impl Uses {
    /// Whether a queue of the current version has tasks for it, or had some lately.
    pub fn has_tasks(&self, queue: &MemberQueue) -> bool {
        self.queues.get(queue).copied().unwrap_or_else(|| {
            lock(&self.unknown).queues.insert(queue.clone());
            false
        })
    }

    /// The use of a version.
    pub fn of_version(&self, build: &str) -> VersionUse {
        self.versions.get(build).copied().unwrap_or_else(|| {
            lock(&self.unknown).versions.insert(build.to_owned());
            VersionUse::default()
        })
    }

    pub(super) fn take_unknown(&self) -> UnknownUses {
        std::mem::take(&mut lock(&self.unknown))
    }
}

impl Runs {
    /// Looks up the uses that a change has read.
    pub(super) async fn find_uses(
        &self,
        namespace: NamespaceKey,
        deployment: &Arc<Deployment>,
        unknown: UnknownUses,
        uses: &mut Uses,
    ) -> Result<(), CallError> {
        for queue in unknown.queues {
            let has_tasks = self.has_tasks_of_current(namespace, deployment, &queue).await?;
            uses.queues.insert(queue, has_tasks);
        }
        if unknown.versions.is_empty() {
            return Ok(());
        }
        let known =
            self.namespaces.by_key(namespace).ok_or_else(|| CallError::NamespaceNotFound(namespace.0.to_string()))?;
        let pinned = self.pinned_counts(ListCaller::default(), &known, deployment).await?;
        for build in unknown.versions {
            let usage = self.version_use(namespace, deployment, &build, &pinned).await?;
            uses.versions.insert(build, usage);
        }
        Ok(())
    }

    /// Whether a queue has tasks for the current version of a deployment, or had some lately.
    async fn has_tasks_of_current(
        &self,
        namespace: NamespaceKey,
        deployment: &Deployment,
        queue: &MemberQueue,
    ) -> Result<bool, CallError> {
        let Some(current) = deployment.record.current.as_deref() else { return Ok(false) };
        let version = Arc::new(deployment.version(current));
        // A queue that has moved to another deployment loses nothing.
        let routing = self.deployments.routing(namespace, queue);
        let target = routing.as_ref().and_then(|routing| routing.current.version.as_ref());
        if target.is_some_and(|target| target.deployment_name != deployment.name) {
            return Ok(false);
        }
        Ok(self.queue_use(namespace, queue, Some(&version)).await?.has_tasks())
    }
}

#[cfg(test)]
mod tests {
    use segno_deployments::{Pins, QueueType};

    use super::*;

    #[test]
    fn what_is_not_known_is_noted_once() {
        let queue = MemberQueue { name: "q".to_owned(), kind: QueueType::Activity };
        let mut uses = Uses::default();
        assert!(!uses.has_tasks(&queue));
        assert_eq!(uses.of_version("b1"), VersionUse::default());
        let unknown = uses.take_unknown();
        assert_eq!((unknown.queues.len(), unknown.versions.len()), (1, 1));
        uses.queues.insert(queue.clone(), true);
        let known = VersionUse { pinned: Pins::of(3), has_pollers: true };
        uses.versions.insert("b1".to_owned(), known);
        assert!(uses.has_tasks(&queue));
        assert_eq!(uses.of_version("b1"), known);
        assert!(uses.take_unknown().is_empty());
    }
}
