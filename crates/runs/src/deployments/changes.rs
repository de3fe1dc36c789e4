//! Changing deployments.

use std::sync::Arc;

use segno_deployments::{
    BuildRecord, Deployment, DeploymentError,
    calls::{create_version, is_removable},
};
use segno_environment::{
    finish::finish,
    metrics::{Metrics, add, count},
};
use segno_proto::Nanos;
use segno_store::{Commit, DocumentWrite, NamespaceKey};

use super::uses::Uses;
use crate::{error::CallError, list_limits::ListCaller, namespaces::Namespace, runs::Runs};

/// A deployment after a change, `None` if it is gone, and the reply to the call.
pub type DeploymentChange<T> = Result<(Option<Deployment>, T), DeploymentError>;

/// Counts what a change of a deployment did.
fn count_changes(metrics: &Metrics, before: Option<&Deployment>, after: Option<&Deployment>) {
    let Some(after) = after else { return };
    if after.record.revision != before.map_or(0, |before| before.record.revision) {
        count(&metrics.routing_changes);
    }
    let was_drained = |build: &str| before.and_then(|before| before.build(build)).is_some_and(BuildRecord::is_drained);
    let drained = after.record.builds.iter().filter(|build| build.is_drained() && !was_drained(&build.build));
    add(&metrics.versions_drained, drained.count() as u64);
}

impl Runs {
    /// Changes a deployment. `change` gets what it is now, if it exists, the time, and what uses its versions and queues. It is called
    /// again when it has asked for a use that was not known yet, and when an unused version was removed to make room for one that it
    /// adds; what it gave before is dropped. Once this returns the change is stored, and tasks go by it.
    pub async fn change_deployment<T, F>(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        name: &str,
        change: F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: Fn(Option<&Deployment>, Nanos, &Uses) -> DeploymentChange<T> + Send + Sync + 'static,
    {
        self.refuse_overload()?;
        let (runs, name) = (self.clone(), name.to_owned());
        let reply = finish(async move {
            let _reading = runs.deployment_locks.reading.read().await;
            let _changing = runs.deployment_locks.hold(namespace, &name).await;
            if let Some(why) = runs.deployments.unreadable(namespace, &name) {
                return Err(CallError::DataLoss(format!("worker deployment {name:?} cannot be read: {why}")));
            }
            let before = runs.deployments.deployment(namespace, &name);
            let _creating = match before {
                None => Some(runs.deployment_locks.creating.lock().await),
                Some(_) => None,
            };
            let (after, reply) = runs.decide_change(namespace, before.as_ref(), &change).await?;
            if before.is_none() && after.is_some() {
                runs.deployment_limits.check_deployments(runs.deployments.count(namespace))?;
            }
            runs.store_deployment(namespace, &name, before.as_deref(), after).await?;
            Ok(reply)
        })
        .await;
        self.deployment_locks.forget_unused();
        reply
    }

    /// Decides a change of a deployment, while no other call changes it.
    async fn decide_change<T>(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        before: Option<&Arc<Deployment>>,
        change: &(impl Fn(Option<&Deployment>, Nanos, &Uses) -> DeploymentChange<T> + Sync),
    ) -> Result<(Option<Deployment>, T), CallError> {
        let mut uses = Uses::default();
        let mut base = before.cloned();
        let mut has_made_room = false;
        loop {
            let changed = change(base.as_deref(), self.now(), &uses);
            let unknown = uses.take_unknown();
            if let Some(base) = base.as_ref().filter(|_| !unknown.is_empty()) {
                self.find_uses(namespace, base, unknown, &mut uses).await?;
                continue;
            }
            match (changed, &base) {
                (Err(full @ DeploymentError::VersionsFull { .. }), Some(full_one)) if !has_made_room => {
                    base = Some(self.without_unused_version(namespace, full_one).await?.ok_or(full)?);
                    has_made_room = true;
                }
                (changed, _) => return Ok(changed?),
            }
        }
    }

    async fn store_deployment(
        &self,
        namespace: NamespaceKey,
        name: &str,
        before: Option<&Deployment>,
        after: Option<Deployment>,
    ) -> Result<(), CallError> {
        let changed = Deployment::changed_documents(before, after.as_ref());
        if changed.is_empty() {
            return Ok(());
        }
        let documents = changed.into_iter().map(|(name, content)| DocumentWrite { namespace, name, content }).collect();
        self.committer.commit_of(namespace, Commit { documents, ..Default::default() }).await?;
        count_changes(&self.metrics, before, after.as_ref());
        if let Some(after) = &after {
            self.watch_grace(namespace, before, after);
        }
        self.deployments.put(namespace, name, after.map(Arc::new));
        if let Some(effects) = self.effects() {
            effects.routing_changed(namespace);
        }
        Ok(())
    }

    /// Creates a version that no worker has polled for.
    pub async fn create_deployment_version(
        self: &Arc<Self>,
        namespace: &Arc<Namespace>,
        (name, build): (String, String),
        identity: String,
        request_id: String,
    ) -> Result<(), CallError> {
        let limits = self.deployment_limits;
        let of = name.clone();
        self.change_deployment(namespace.key, &name, move |before, now, _| {
            let mut deployment = before.cloned().ok_or_else(|| DeploymentError::unknown_deployment(&of))?;
            create_version(&mut deployment, &build, (&identity, &request_id), &limits, now)?;
            Ok((Some(deployment), ()))
        })
        .await
    }

    /// A deployment without the oldest of its versions that is not used; `None` if all are.
    async fn without_unused_version(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        deployment: &Arc<Deployment>,
    ) -> Result<Option<Arc<Deployment>>, CallError> {
        let Some(known) = self.namespaces.by_key(namespace) else { return Ok(None) };
        let pinned = self.pinned_counts(ListCaller::default(), &known, deployment).await?;
        let at = self.drainage_view();
        let (mut routed, mut draining, mut polled) = (Vec::new(), Vec::new(), Vec::new());
        for build in deployment.record.builds.iter().map(|build| &build.build) {
            if deployment.is_routed(build) {
                routed.push(build.as_str());
                continue;
            }
            // Without a look at its queues, which may be at other nodes.
            let unpolled =
                segno_deployments::VersionUse { pinned: pinned.of(&deployment.name, build), has_pollers: false };
            if !is_removable(deployment, build, unpolled, at) {
                draining.push(build.as_str());
                continue;
            }
            if self.version_use(namespace, deployment, build, &pinned).await?.has_pollers {
                polled.push(build.as_str());
                continue;
            }
            tracing::info!(deployment = deployment.name, build, "an unused version makes room for another one");
            let mut smaller = Deployment::clone(deployment);
            smaller.remove_build(build);
            return Ok(Some(Arc::new(smaller)));
        }
        tracing::warn!(
            deployment = deployment.name,
            ?routed,
            ?draining,
            ?polled,
            "a version is refused: the deployment has as many as it may, and each is routed to, draining or polled"
        );
        Ok(None)
    }
}
