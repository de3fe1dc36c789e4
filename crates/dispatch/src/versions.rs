//! Versions of workers: where the tasks of a run go, and whether workers are there for them.

use std::sync::Arc;

use segno_deployments::{MemberQueue, QueueType, hash_of};
use segno_engine::{
    Run,
    standalone::WORKFLOW_ID_PREFIX,
    versioning::{effective_version, pinned_version, uses_ramp},
};
use segno_matching::TaskRoute;
use segno_proto::{deployment::WorkerDeploymentVersion, enums::WorkerDeploymentVersionStatus};
use segno_runs::{ListCaller, error::CallError};
use segno_store::NamespaceKey;
use tokio::time::Instant;

use super::Dispatch;

/// By what the lane of a task of a run is found. A standalone activity ramps by its own id.
pub fn route_of(run: &Run) -> TaskRoute {
    let pinned = pinned_version(run).map(|version| Arc::new(version.clone()));
    let id = run.info.workflow_id.as_str();
    let id = match run.state().is_standalone() {
        true => id.strip_prefix(WORKFLOW_ID_PREFIX).unwrap_or(id),
        false => id,
    };
    TaskRoute { pinned, hash: hash_of(id), uses_ramp: uses_ramp(run) }
}

impl Dispatch {
    /// Whether a run goes on at the worker that has it in its cache, if that one is there: it is pinned, or its target is still the
    /// version that it is at.
    pub(super) fn stays_sticky(&self, run: &Run) -> bool {
        let version = effective_version(run);
        pinned_version(run).is_some()
            || self.runs.target_of(run, None).is_none_or(|target| target.version.as_ref() == version)
    }

    /// Whether workers of a version have polled the queue of a run lately.
    pub(super) async fn is_polled_by(&self, run: &Run, version: &WorkerDeploymentVersion) -> Result<bool, CallError> {
        let queue = MemberQueue { name: run.info.task_queue.clone(), kind: QueueType::Workflow };
        let (namespace, version) = (NamespaceKey(run.info.namespace_key), Arc::new(version.clone()));
        Ok(self.runs.queue_use(namespace, &queue, Some(&version)).await?.has_pollers)
    }

    /// Refuses to ask workers about a run whose version is drained and has none. Costs a look at memory while the version is current or
    /// ramping.
    pub(super) async fn refuse_drained(
        &self,
        run: &Run,
        version: &WorkerDeploymentVersion,
        deadline: Instant,
    ) -> Result<(), CallError> {
        let key = NamespaceKey(run.info.namespace_key);
        let Some(namespace) = self.runs.namespaces.by_key(key) else { return Ok(()) };
        let Some(deployment) = self.runs.deployments.deployment(key, &version.deployment_name) else { return Ok(()) };
        let Some(build) = deployment.build(&version.build_id) else { return Ok(()) };
        if deployment.is_routed(&build.build) || self.is_polled_by(run, version).await? {
            return Ok(());
        }
        let caller = ListCaller { connection: None, deadline: Some(deadline) };
        let counts = self.runs.pinned_counts(caller, &namespace, &deployment).await?;
        let pinned = counts.of(&deployment.name, &build.build);
        if deployment.status(build, pinned, self.runs.drainage_view()) != WorkerDeploymentVersionStatus::Drained {
            return Ok(());
        }
        let version = format!("{}:{}", version.deployment_name, version.build_id);
        Err(CallError::NotReady(format!(
            "You are trying to query a closed Workflow that is PINNED to Worker Deployment Version {version}, but {version} is \
             drained and has no pollers to answer the query. Either start workers of that version, or set a versioning override \
             that moves the workflow to a version with workers."
        )))
    }
}
