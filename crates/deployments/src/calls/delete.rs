//! DeleteWorkerDeploymentVersion and DeleteWorkerDeployment, and which versions go by themselves where a deployment has too many.

use crate::{
    deployment::{Deployment, DrainageView, VersionUse},
    error::{DeploymentError, precondition},
    names,
};

/// Deletes a version. One that is not there is deleted already. `usage` is read once nothing else forbids it.
pub fn delete_version(
    deployment: &mut Deployment,
    build: &str,
    (identity, skip_drainage): (&str, bool),
    usage: &dyn Fn() -> VersionUse,
    at: DrainageView,
) -> Result<(), DeploymentError> {
    let Some(known) = deployment.build(build) else { return Ok(()) };
    let version = names::colon(&deployment.name, Some(build));
    let refused = |why: &str| Err(precondition(format!("version '{version}' cannot be deleted since it {why}")));
    if deployment.is_routed(build) {
        return refused("is current or ramping");
    }
    deployment.check_manager(identity)?;
    let usage = usage();
    if !skip_drainage && is_draining(deployment, known, usage, at) {
        return refused("is draining");
    }
    if usage.has_pollers {
        return refused("has active pollers");
    }
    deployment.remove_build(build);
    identity.clone_into(&mut deployment.record.last_modifier);
    Ok(())
}

/// Refuses to delete a deployment with versions.
pub fn check_deletable(deployment: &Deployment) -> Result<(), DeploymentError> {
    match deployment.record.builds.is_empty() {
        true => Ok(()),
        false => Err(precondition("deployment has versions, can't be deleted")),
    }
}

/// Whether a version may make room for another one.
pub fn is_removable(deployment: &Deployment, build: &str, usage: VersionUse, at: DrainageView) -> bool {
    let is_draining = |known| is_draining(deployment, known, usage, at);
    deployment.build(build).is_some_and(|known| !deployment.is_routed(build) && !is_draining(known))
        && !usage.has_pollers
}

fn is_draining(
    deployment: &Deployment,
    known: &crate::records::BuildRecord,
    usage: VersionUse,
    at: DrainageView,
) -> bool {
    deployment.drainage(known, usage.pinned, at).is_some_and(|drainage| !drainage.drained)
}
