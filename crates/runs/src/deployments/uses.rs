//! What uses the versions and the queues of a deployment, found out for a change while no other call changes the deployment.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use segno_deployments::{Deployment, MemberQueue, VersionUse};
use segno_environment::lock::lock;
use segno_store::NamespaceKey;

use crate::{error::CallError, list_limits::ListCaller, runs::Runs};

/// The uses that are known. A use that is not is noted, and answered as if there were none; its answer counts for nothing, because the
/// change is made again with the right one.
#[derive(Debug, Default)]
pub struct Uses {
    queues: BTreeMap<MemberQueue, bool>,
    versions: BTreeMap<String, VersionUse>,
    asked: Mutex<Asked>,
}

/// Uses that a change asked for and that were not known.
#[derive(Debug, Default)]
pub(super) struct Asked {
    queues: BTreeSet<MemberQueue>,
    versions: BTreeSet<String>,
}

impl Asked {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.versions.is_empty()
    }
}

impl Uses {
    /// Whether a queue of the current version has tasks for it, or had some lately.
    pub fn has_tasks(&self, queue: &MemberQueue) -> bool {
        self.queues.get(queue).copied().unwrap_or_else(|| {
            lock(&self.asked).queues.insert(queue.clone());
            false
        })
    }

    /// The use of a version.
    pub fn of_version(&self, build: &str) -> VersionUse {
        self.versions.get(build).copied().unwrap_or_else(|| {
            lock(&self.asked).versions.insert(build.to_owned());
            VersionUse::default()
        })
    }

    pub(super) fn take_asked(&self) -> Asked {
        std::mem::take(&mut lock(&self.asked))
    }
}

impl Runs {
    /// Finds out what a change asked for.
    pub(super) async fn find_uses(
        &self,
        namespace: NamespaceKey,
        deployment: &Arc<Deployment>,
        asked: Asked,
        uses: &mut Uses,
    ) -> Result<(), CallError> {
        for queue in asked.queues {
            let has_tasks = self.has_tasks_of_current(namespace, deployment, &queue).await?;
            uses.queues.insert(queue, has_tasks);
        }
        if asked.versions.is_empty() {
            return Ok(());
        }
        let known =
            self.namespaces.by_key(namespace).ok_or_else(|| CallError::NamespaceNotFound(namespace.0.to_string()))?;
        let pinned = self.pinned_counts(ListCaller::default(), &known, deployment).await?;
        for build in asked.versions {
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
        Ok(self.queue_use(namespace, queue, &version).await?.has_tasks())
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
        let asked = uses.take_asked();
        assert_eq!((asked.queues.len(), asked.versions.len()), (1, 1));
        uses.queues.insert(queue.clone(), true);
        let known = VersionUse { pinned: Pins::of(3), has_pollers: true };
        uses.versions.insert("b1".to_owned(), known);
        assert!(uses.has_tasks(&queue));
        assert_eq!(uses.of_version("b1"), known);
        assert!(uses.take_asked().is_empty());
    }
}
