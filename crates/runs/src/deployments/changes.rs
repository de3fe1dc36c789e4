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

use crate::{error::CallError, namespaces::Namespace, runs::Runs};

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
    /// Changes a deployment. `change` gets what it is now, if it exists, and the time. Once this returns the change is stored, and
    /// tasks go by it.
    pub async fn change_deployment<T, F>(
        self: &Arc<Self>,
        namespace: NamespaceKey,
        name: &str,
        change: F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: FnOnce(Option<&Deployment>, Nanos) -> DeploymentChange<T> + Send + 'static,
    {
        self.refuse_overload()?;
        let (runs, name) = (self.clone(), name.to_owned());
        let reply = finish(async move {
            let _reading = runs.deployment_locks.reading.read().await;
            let _changing = runs.deployment_locks.hold(namespace, &name).await;
            let before = runs.deployments.deployment(namespace, &name);
            let _creating = match before {
                None => Some(runs.deployment_locks.creating.lock().await),
                Some(_) => None,
            };
            let (after, reply) = change(before.as_deref(), runs.now())?;
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
        self.make_room(namespace, &name, &build).await?;
        let limits = self.deployment_limits;
        let of = name.clone();
        self.change_deployment(namespace.key, &name, move |before, now| {
            let mut deployment = before.cloned().ok_or_else(|| DeploymentError::unknown_deployment(&of))?;
            create_version(&mut deployment, &build, (&identity, &request_id), &limits, now)?;
            Ok((Some(deployment), ()))
        })
        .await
    }

    /// Removes the oldest version that is not used, if a deployment has as many as it may and is to get a further one.
    pub async fn make_room(
        self: &Arc<Self>,
        namespace: &Arc<Namespace>,
        name: &str,
        build: &str,
    ) -> Result<(), CallError> {
        let Some(deployment) = self.deployments.deployment(namespace.key, name) else { return Ok(()) };
        let is_full = deployment.record.builds.len() >= self.deployment_limits.versions_max;
        if !is_full || deployment.build(build).is_some() {
            return Ok(());
        }
        let pinned = self.pinned_counts(namespace, &deployment).await?;
        let at = self.drainage_view();
        for known in &deployment.record.builds {
            let usage = self.version_use(namespace, &deployment, &known.build, &pinned).await;
            if is_removable(&deployment, &known.build, usage, at) {
                let oldest = known.build.clone();
                tracing::info!(deployment = name, build = oldest, "an unused version makes room for another one");
                return self
                    .change_deployment(namespace.key, name, move |before, _| {
                        let mut after = before.cloned();
                        if let Some(after) = &mut after {
                            after.remove_build(&oldest);
                        }
                        Ok((after, ()))
                    })
                    .await;
            }
        }
        Ok(())
    }
}
