//! What keeps a version: open workflows that are pinned to it, and workers that poll as it.
//!
//! Pinned workflows are counted when a call asks for them, by what lists find: that is written in the commit that pins a workflow, and
//! all nodes read the same.

use std::{collections::BTreeSet, sync::Arc};

use segno_deployments::{Deployment, DrainageView, MemberQueue, PinnedCounts, VersionUse};
use segno_store::visibility::{Value, parse_count};

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
        namespace: &Arc<Namespace>,
        deployment: &Deployment,
    ) -> Result<PinnedCounts, CallError> {
        let is_routed = |build: &str| deployment.is_current(build) || deployment.is_ramping(build);
        if deployment.record.builds.iter().all(|build| is_routed(&build.build)) {
            return Ok(PinnedCounts::default());
        }
        let filter = format!(
            "TemporalWorkerDeployment = '{}' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'",
            deployment.name.replace('\\', "\\\\").replace('\'', "\\'")
        );
        let (filter, _) = parse_count(&filter, &**namespace)
            .map_err(|error| CallError::Unavailable(format!("pinned workflows cannot be counted: {error}")))?;
        let by_version = namespace.attribute(VERSION);
        let counts = self.count_matching(ListCaller::default(), namespace.key, filter, by_version).await?;
        let count = |count: segno_store::visibility::Count| match count.group {
            Some(Value::Text(version)) => Some((version, count.runs)),
            _ => None,
        };
        Ok(PinnedCounts(counts.into_iter().filter_map(count).collect()))
    }

    /// A deployment, and how many workflows are pinned to its versions. Versions that were found to be drained, or no longer are, are
    /// noted.
    pub async fn look_at_deployment(
        self: &Arc<Self>,
        namespace: &Arc<Namespace>,
        deployment: Arc<Deployment>,
    ) -> Result<(Arc<Deployment>, PinnedCounts), CallError> {
        let pinned = self.pinned_counts(namespace, &deployment).await?;
        let at = self.drainage_view();
        let mut noted = Deployment::clone(&deployment);
        noted.note_drainages(&pinned, at);
        if noted == *deployment || !self.leads() {
            return Ok((deployment, pinned));
        }
        let found = pinned.clone();
        let note = move |before: Option<&Deployment>, _| {
            let mut after = before.cloned();
            if let Some(after) = &mut after {
                after.note_drainages(&found, at);
            }
            Ok((after, ()))
        };
        self.change_deployment(namespace.key, &deployment.name, note).await?;
        Ok((self.deployments.deployment(namespace.key, &deployment.name).unwrap_or(deployment), pinned))
    }

    /// The use of a version: open workflows that are pinned to it, and polls.
    pub async fn version_use(
        &self,
        namespace: &Namespace,
        deployment: &Deployment,
        build: &str,
        pinned: &PinnedCounts,
    ) -> VersionUse {
        let version = deployment.version(build);
        let mut has_pollers = false;
        for queue in deployment.versions.get(build).into_iter().flat_map(|version| version.members()) {
            let pollers = self.queue_use(namespace, &queue).await.pollers;
            has_pollers |= pollers.iter().any(|poller| **poller == version);
            if has_pollers {
                break;
            }
        }
        VersionUse { pinned: pinned.of(&deployment.name, build), has_pollers }
    }

    /// Those of some queues that have tasks, or had lately.
    pub async fn queues_with_tasks(&self, namespace: &Namespace, queues: Vec<MemberQueue>) -> BTreeSet<MemberQueue> {
        let mut used = BTreeSet::new();
        for queue in queues {
            if self.queue_use(namespace, &queue).await.has_tasks() {
                used.insert(queue);
            }
        }
        used
    }

    /// Who uses a queue, wherever its home is.
    pub async fn queue_use(&self, namespace: &Namespace, queue: &MemberQueue) -> QueueUse {
        match self.queue_uses.get() {
            Some(queues) => queues.queue_use(namespace, queue).await,
            None => QueueUse::default(),
        }
    }
}
