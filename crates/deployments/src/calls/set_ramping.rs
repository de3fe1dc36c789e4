//! SetWorkerDeploymentRampingVersion.

use segno_proto::Nanos;

use super::RoutingChange;
use crate::{
    deployment::Deployment,
    error::{DeploymentError, invalid, precondition},
    limits::DeploymentLimits,
    names,
    records::RampingRecord,
    routing::MemberQueue,
};

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RampingSet {
    /// The deployment from now on.
    pub deployment: Deployment,
    /// What ramped before: a version or workers without one.
    pub previous: Option<Option<String>>,
    /// With which percentage.
    pub previous_percentage: f32,
}

/// Reads which version is to ramp. `build` and `version` are what the request says of it.
pub fn ramping_request(
    change: RoutingChange,
    (build, version): (&str, &str),
    percentage: f32,
) -> Result<RoutingChange, DeploymentError> {
    // Not a number is not within it.
    if !(0.0..=100.0).contains(&percentage) {
        return Err(invalid("Percentage must be between 0 and 100 (inclusive)"));
    }
    let build = names::requested_build(&change.name, build, version)?;
    let change = RoutingChange { build, ..change };
    change.check_names()?;
    Ok(change)
}

/// Lets a share of workflows go to a version. Workers without a version and no share: nothing ramps.
pub fn set_ramping(
    existing: Option<&Deployment>,
    change: &RoutingChange,
    percentage: f32,
    limits: &DeploymentLimits,
    now: Nanos,
    is_used: &dyn Fn(&MemberQueue) -> bool,
) -> Result<RampingSet, DeploymentError> {
    let mut deployment = change.deployment(existing, now)?;
    let build = change.build.as_deref();
    let is_removal = build.is_none() && percentage == 0.0;
    let wanted = (!is_removal).then(|| RampingRecord::of(build));
    let is_same_version = deployment.record.ramping == wanted;
    let is_same = is_same_version && deployment.record.percentage == percentage;
    let previous = deployment.record.ramping.clone().map(|ramping| ramping.build);
    let previous_percentage = deployment.record.percentage;
    if existing.is_some() && is_same && deployment.record.last_modifier == change.identity {
        return Ok(RampingSet { deployment, previous, previous_percentage });
    }
    change.check_token(&deployment)?;
    if !is_removal && deployment.record.current.as_deref() == build {
        let version = names::dotted(&deployment.name, build);
        return Err(precondition(format!("requested ramping version {version} is already current")));
    }
    change.find_version(&mut deployment, limits, now)?;
    deployment.check_manager(&change.identity)?;
    if !is_same_version {
        change.check_queues(&deployment, "ramping", is_used)?;
    }
    deployment.touch(&change.identity, now);
    if is_same {
        return Ok(RampingSet { deployment, previous, previous_percentage });
    }
    if is_same_version {
        if let Some(known) = build.and_then(|build| deployment.build_mut(build)) {
            known.routing_changed = now;
        }
    } else {
        deployment.deactivate(previous.as_ref().and_then(Option::as_deref), now);
        deployment.activate(build, false, now);
        deployment.record.ramping_changed = now;
    }
    let record = &mut deployment.record;
    record.revision += 1;
    record.ramping = wanted;
    record.percentage = percentage;
    record.percentage_changed = now;
    Ok(RampingSet { deployment, previous, previous_percentage })
}
