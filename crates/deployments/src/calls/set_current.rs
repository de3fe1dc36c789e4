//! SetWorkerDeploymentCurrentVersion.

use segno_proto::Nanos;

use super::RoutingChange;
use crate::{
    deployment::Deployment,
    error::{DeploymentError, invalid},
    limits::DeploymentLimits,
    names,
    routing::MemberQueue,
};

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CurrentSet {
    /// The deployment from now on.
    pub deployment: Deployment,
    /// The version that was the current one.
    pub previous: Option<String>,
}

/// Reads which version is to become the current one. `build` and `version` are what the request says of it.
pub fn current_request(change: RoutingChange, build: &str, version: &str) -> Result<RoutingChange, DeploymentError> {
    if change.name.is_empty() {
        return Err(invalid("deployment name cannot be empty"));
    }
    let build = names::requested_build(&change.name, build, version)?;
    let change = RoutingChange { build, ..change };
    change.check_names()?;
    Ok(change)
}

/// Makes a version the current one. `is_used` says whether a queue has tasks that another version should not lose.
pub fn set_current(
    existing: Option<&Deployment>,
    change: &RoutingChange,
    limits: &DeploymentLimits,
    now: Nanos,
    is_used: &dyn Fn(&MemberQueue) -> bool,
) -> Result<CurrentSet, DeploymentError> {
    let mut deployment = change.deployment(existing, now)?;
    let build = change.build.as_deref();
    let is_same = existing.is_some() && deployment.record.current.as_deref() == build;
    let previous = deployment.record.current.clone();
    if is_same && deployment.record.last_modifier == change.identity {
        return Ok(CurrentSet { deployment, previous });
    }
    change.check_token(&deployment)?;
    change.find_version(&mut deployment, limits, now)?;
    deployment.check_manager(&change.identity)?;
    change.check_queues(&deployment, "current", is_used)?;
    deployment.touch(&change.identity, now);
    if is_same {
        return Ok(CurrentSet { deployment, previous });
    }
    deployment.deactivate(previous.as_deref(), now);
    deployment.activate(build, true, now);
    let record = &mut deployment.record;
    record.revision += 1;
    record.current.clone_from(&change.build);
    record.current_changed = now;
    if record.ramping.as_ref().is_some_and(|ramping| ramping.build == change.build) {
        record.ramping = None;
        record.percentage = 0.0;
        record.ramping_changed = now;
        record.percentage_changed = now;
    }
    Ok(CurrentSet { deployment, previous })
}
