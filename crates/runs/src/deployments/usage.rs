//! What keeps a version: open workflows that are pinned to it, and workers that poll as it.
//!
//! Pinned workflows are counted when a call asks for them, by what lists find: that is written in the commit that pins a workflow, and
//! all nodes read the same.

use std::sync::Arc;

use segno_deployments::{Deployment, DrainageView, MemberQueue, PinnedCounts, Version, VersionUse};
use segno_store::{
    NamespaceKey,
    visibility::{Value, parse_count},
};

use crate::{error::CallError, list_limits::ListCaller, namespaces::Namespace, ports::queue_use::QueueUse, runs::Runs};

const VERSION: &str = "TemporalWorkerDeploymentVersion";

impl Runs {
    /// When drainage is looked at: now.
    pub fn drainage_view(&self) -> DrainageView {
        DrainageView { now: self.clock_now(), grace: self.deployment_limits.drainage_grace }
    }

    /// How many open workflows are pinned to the versions of a deployment.
    pub async fn pinned_counts(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        deployment: &Deployment,
    ) -> Result<PinnedCounts, CallError> {
        if deployment.record.builds.iter().all(|build| deployment.is_routed(&build.build)) {
            return Ok(PinnedCounts::default());
        }
        // A paused workflow is open.
        let filter = format!(
            "TemporalWorkerDeployment = '{}' AND TemporalWorkflowVersioningBehavior = 'Pinned' \
             AND ExecutionStatus IN ('Running', 'Paused')",
            deployment.name.replace('\\', "\\\\").replace('\'', "\\'")
        );
        let (filter, _) = parse_count(&filter, &**namespace)
            .map_err(|error| CallError::Unavailable(format!("pinned workflows cannot be counted: {error}")))?;
        let by_version = namespace.attribute(VERSION);
        let counts = self.count_matching(caller, namespace.key, filter, by_version).await?;
        let count = |count: segno_store::visibility::Count| match count.group {
            Some(Value::Text(version)) => Some((version, count.runs)),
            _ => None,
        };
        let open = counts.into_iter().filter_map(count).collect();
        let last_unpinned = self.pins.last_unpinned(namespace.key, &deployment.name);
        Ok(PinnedCounts { open, last_unpinned })
    }

    /// The use of a version: open workflows that are pinned to it, and polls.
    pub async fn version_use(
        &self,
        namespace: NamespaceKey,
        deployment: &Deployment,
        build: &str,
        pinned: &PinnedCounts,
    ) -> Result<VersionUse, CallError> {
        let version = Arc::new(deployment.version(build));
        let mut has_pollers = false;
        for queue in deployment.versions.get(build).into_iter().flat_map(|version| version.members()) {
            has_pollers = self.queue_use(namespace, &queue, Some(&version)).await?.has_pollers;
            if has_pollers {
                break;
            }
        }
        Ok(VersionUse { pinned: pinned.of(&deployment.name, build), has_pollers })
    }

    /// How workers of a version use a queue, wherever its home is; of all versions and of none, if none is named.
    pub async fn queue_use(
        &self,
        namespace: NamespaceKey,
        queue: &MemberQueue,
        version: Option<&Version>,
    ) -> Result<QueueUse, CallError> {
        match self.queue_uses.get() {
            Some(queues) => queues.queue_use(namespace, queue, version).await,
            None => Err(CallError::ShuttingDown),
        }
    }
}
