//! Removes versions that have been unused for longer than a setting says, at the node that leads.

use std::{sync::Arc, time::Duration};

use segno_deployments::{Deployment, DrainageView, Pins, VersionUse, calls::is_removable};
use segno_proto::{Nanos, enums::WorkerDeploymentVersionStatus as Status};
use segno_store::NamespaceKey;

use super::Uses;
use crate::{error::CallError, list_limits::ListCaller, runs::Runs};

const INTERVAL_MIN: Nanos = 1_000_000_000;
const INTERVAL_MAX: Nanos = 3600 * 1_000_000_000;
/// Deployments read at a time.
const PAGE: usize = 100;

/// Removes versions until the node stops.
pub(crate) async fn apply(runs: Arc<Runs>, retention: Nanos) {
    let interval = Duration::from_nanos((retention / 10).clamp(INTERVAL_MIN, INTERVAL_MAX) as u64);
    loop {
        let stopped = runs.lifecycle.stop.notified();
        if runs.is_stopping() || tokio::time::timeout(interval, stopped).await.is_ok() {
            return;
        }
        if !runs.leads() {
            continue;
        }
        for namespace in runs.namespaces.all() {
            if let Err(error) = runs.remove_unused_versions(namespace.key, retention).await {
                tracing::warn!(namespace = namespace.name, %error, "unused versions of workers were not removed");
            }
        }
    }
}

/// Whether a version has been inactive or drained for so long.
fn is_over(deployment: &Deployment, build: &str, pinned: Pins, at: DrainageView, retention: Nanos) -> bool {
    let Some(known) = deployment.build(build) else { return false };
    let since = match deployment.status(known, pinned, at) {
        Status::Inactive => known.created,
        Status::Drained => deployment.drainage(known, pinned, at).map_or(at.now, |drainage| drainage.changed),
        _ => return false,
    };
    at.now.saturating_sub(since) >= retention
}

impl Runs {
    async fn remove_unused_versions(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        retention: Nanos,
    ) -> Result<(), CallError> {
        let mut after = String::new();
        loop {
            let page = self.deployments.page(namespace, &after, PAGE);
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.name);
            for deployment in page {
                self.remove_unused_of(namespace, &deployment, retention).await?;
            }
        }
    }

    async fn remove_unused_of(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        deployment: &Arc<Deployment>,
        retention: Nanos,
    ) -> Result<(), CallError> {
        let Some(known) = self.namespaces.by_key(namespace) else { return Ok(()) };
        let at = self.drainage_view();
        let may_be_over = |build: &&str| is_over(deployment, build, Pins::default(), at, retention);
        let builds: Vec<&str> = deployment.record.builds.iter().map(|build| build.build.as_str()).collect();
        if !builds.iter().any(may_be_over) {
            return Ok(());
        }
        let pinned = self.pinned_counts(ListCaller::default(), &known, deployment).await?;
        for build in builds {
            if !is_over(deployment, build, pinned.of(&deployment.name, build), at, retention) {
                continue;
            }
            let build = build.to_owned();
            let remove = move |before: Option<&Deployment>, _: Nanos, uses: &Uses| {
                let mut after = before.cloned();
                if let Some(after) = &mut after {
                    let usage: VersionUse = uses.of_version(&build);
                    if is_over(after, &build, usage.pinned, at, retention) && is_removable(after, &build, usage, at) {
                        tracing::info!(deployment = after.name, build, "a version that was unused for long is removed");
                        after.remove_build(&build);
                    }
                }
                Ok((after, ()))
            };
            self.change_deployment(namespace, &deployment.name, remove).await?;
        }
        Ok(())
    }
}
