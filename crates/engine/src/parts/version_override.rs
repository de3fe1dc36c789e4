//! Versioning overrides as callers give them: which are right, and the form in which history has them.

use segno_proto::{
    deployment::WorkerDeploymentVersion,
    enums::VersioningBehavior,
    workflow::{
        VersioningOverride,
        versioning_override::{Override, PinnedOverride, PinnedOverrideBehavior},
    },
};

use crate::{
    error::Rejection,
    parts::{builds::spelled_version, inherit::Membership},
    validate::Invalid,
};

/// Refuses an override that cannot be: one that is malformed, or that names a version that does not have the workflow's queue.
pub fn check_override(queue: &str, wanted: &VersioningOverride, is_member: Membership<'_>) -> Result<(), Rejection> {
    match named_version(wanted).map_err(|why| Rejection::InvalidArgument(why.0))? {
        Some(version) if !is_member(&version, queue) => Err(Rejection::Precondition(format!(
            "Pinned version '{}' is not present in task queue '{queue}' of type 'Workflow'",
            spelled_version(&version)
        ))),
        _ => Ok(()),
    }
}

/// The version that must have the workflow's queue, of an override that is well formed. The oldest form is not looked at.
#[allow(deprecated)]
pub fn named_version(wanted: &VersioningOverride) -> Result<Option<WorkerDeploymentVersion>, Invalid> {
    let invalid = |text: &str| Err(Invalid(text.to_owned()));
    match &wanted.r#override {
        Some(Override::AutoUpgrade(true)) => return Ok(None),
        Some(Override::AutoUpgrade(false)) => return invalid("auto-upgrade override must be true"),
        Some(Override::Pinned(pinned)) => {
            return match &pinned.version {
                None => invalid("must provide version if override is pinned."),
                Some(_) if pinned.behavior == PinnedOverrideBehavior::Unspecified as i32 => {
                    invalid("must specify pinned override behavior if override is pinned.")
                }
                version => Ok(version.clone()),
            };
        }
        Some(Override::OneTime(one_time)) => {
            return match &one_time.target_deployment_version {
                None => invalid("must provide target deployment version if override is one-time."),
                version => Ok(version.clone()),
            };
        }
        None => {}
    }
    match VersioningBehavior::try_from(wanted.behavior) {
        Ok(VersioningBehavior::Pinned) => match &wanted.deployment {
            Some(deployment) if deployment.series_name.is_empty() => invalid("deployment name cannot be empty"),
            Some(deployment) if deployment.series_name.contains(['.', ':']) => {
                invalid("deployment name cannot contain '.' or ':'")
            }
            Some(deployment) if deployment.build_id.is_empty() => invalid("deployment build ID cannot be empty"),
            Some(_) => Ok(None),
            None if wanted.pinned_version.is_empty() => {
                invalid("must provide deployment (deprecated) or pinned version if behavior is 'PINNED'")
            }
            None => match version_of(&wanted.pinned_version) {
                Some(version) => Ok(Some(version)),
                None => invalid(&format!(
                    "invalid version string {:?}, expected format is \"<deployment_name>.<build_id>\"",
                    wanted.pinned_version
                )),
            },
        },
        Ok(VersioningBehavior::AutoUpgrade) if wanted.deployment.is_some() => {
            invalid("only provide deployment if behavior is 'PINNED'")
        }
        Ok(VersioningBehavior::AutoUpgrade) if !wanted.pinned_version.is_empty() => {
            invalid("only provide pinned version if behavior is 'PINNED'")
        }
        Ok(VersioningBehavior::AutoUpgrade) => Ok(None),
        Ok(VersioningBehavior::Unspecified) => invalid("override behavior is required"),
        Err(_) => invalid(&format!("override behavior {} not recognized", wanted.behavior)),
    }
}

/// A version by the text that older clients send.
fn version_of(text: &str) -> Option<WorkerDeploymentVersion> {
    let (deployment_name, build_id) = text.split_once(['.', ':'])?;
    (!deployment_name.is_empty() && !build_id.is_empty())
        .then(|| WorkerDeploymentVersion { deployment_name: deployment_name.to_owned(), build_id: build_id.to_owned() })
}

/// An override in the form that history has, without its older spelling.
#[allow(deprecated)]
pub fn newer_form(given: VersioningOverride) -> VersioningOverride {
    let newer = match (&given.r#override, VersioningBehavior::try_from(given.behavior)) {
        (Some(known), _) => Some(known.clone()),
        (None, Ok(VersioningBehavior::AutoUpgrade)) => Some(Override::AutoUpgrade(true)),
        (None, Ok(VersioningBehavior::Pinned)) => {
            let of_deployment = given.deployment.map(|deployment| WorkerDeploymentVersion {
                deployment_name: deployment.series_name,
                build_id: deployment.build_id,
            });
            Some(Override::Pinned(PinnedOverride {
                behavior: PinnedOverrideBehavior::Pinned as i32,
                version: of_deployment.or_else(|| version_of(&given.pinned_version)),
            }))
        }
        (None, _) => None,
    };
    VersioningOverride { r#override: newer, ..Default::default() }
}
