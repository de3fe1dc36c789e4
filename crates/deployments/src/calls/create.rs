//! CreateWorkerDeployment and CreateWorkerDeploymentVersion.

use segno_proto::Nanos;

use crate::{deployment::Deployment, error::DeploymentError, limits::DeploymentLimits, names};

/// Creates a deployment, of which the caller knows `existing`. The same request again changes nothing.
pub fn create(
    existing: Option<&Deployment>,
    name: &str,
    identity: &str,
    request_id: &str,
    now: Nanos,
) -> Result<Deployment, DeploymentError> {
    match existing {
        Some(existing) if existing.record.create_request_id == request_id => Ok(existing.clone()),
        Some(existing) => {
            let polled = existing.record.create_request_id.is_empty();
            let who = if polled { " (auto-created from worker polls)" } else { "" };
            Err(DeploymentError::AlreadyExists(format!("Worker Deployment with name \"{name}\" already exists{who}")))
        }
        None => {
            let mut deployment = Deployment::new(name, now);
            identity.clone_into(&mut deployment.record.last_modifier);
            request_id.clone_into(&mut deployment.record.create_request_id);
            Ok(deployment)
        }
    }
}

/// Creates a version that no worker has polled for. The same request again changes nothing.
pub fn create_version(
    deployment: &mut Deployment,
    build: &str,
    (identity, request_id): (&str, &str),
    limits: &DeploymentLimits,
    now: Nanos,
) -> Result<(), DeploymentError> {
    let dotted = names::dotted(&deployment.name, Some(build));
    if let Some(known) = deployment.build(build) {
        if known.create_request_id == request_id {
            return Ok(());
        }
        return Err(DeploymentError::AlreadyExists(format!("Worker Deployment Version \"{dotted}\" already exists")));
    }
    limits.check_versions(deployment.record.builds.len(), &dotted)?;
    request_id.clone_into(&mut deployment.add_build(build, now).create_request_id);
    identity.clone_into(&mut deployment.version_mut(build).last_modifier);
    Ok(())
}
