//! A worker of a version polls a queue.

use segno_proto::Nanos;

use crate::{
    deployment::Deployment,
    error::DeploymentError,
    limits::DeploymentLimits,
    names,
    routing::{MemberQueue, Version},
};

/// A version and a queue that its workers poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The version.
    pub version: Version,
    /// The queue.
    pub queue: MemberQueue,
}

/// Adds a queue to a version. Both, and the deployment, come into being with the first poll.
pub fn register(
    existing: Option<&Deployment>,
    Registration { version, queue }: &Registration,
    limits: &DeploymentLimits,
    now: Nanos,
) -> Result<Deployment, DeploymentError> {
    let (name, build) = (&version.deployment_name, &version.build_id);
    names::check_name(name)?;
    names::check_build(build)?;
    let mut deployment = existing.cloned().unwrap_or_else(|| Deployment::new(name, now));
    if deployment.build(build).is_none() {
        limits.check_versions(deployment.record.builds.len(), &names::dotted(name, Some(build)))?;
        deployment.add_build(build, now);
    }
    if let Some(known) = deployment.build_mut(build) {
        known.polled = true;
    }
    if !deployment.has(build, queue) {
        let known = deployment.version_mut(build);
        if known.queues.iter().all(|known| known.name != queue.name) {
            limits.check_queues(known.queues.len(), &queue.name)?;
        }
        known.add(queue);
    }
    Ok(deployment)
}
