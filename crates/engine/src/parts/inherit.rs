//! What a run leaves of its version to children and to the run that follows it.

use segno_proto::{
    deployment::{InheritedAutoUpgradeInfo, WorkerDeploymentVersion},
    enums::{ContinueAsNewVersioningBehavior, VersioningBehavior},
    events::{
        DeclinedTargetVersionUpgrade, StartChildWorkflowExecutionInitiatedEventAttributes,
        WorkflowExecutionStartedEventAttributes,
    },
    workflow::{VersioningOverride, versioning_override::Override},
};

use crate::state::{
    run::Run,
    versioning::{InheritedVersioning, Versioning, override_version},
};

/// Whether workers of a version have polled a queue for workflow tasks.
pub type Membership<'a> = &'a dyn Fn(&WorkerDeploymentVersion, &str) -> bool;

/// For the run that a command asks for.
pub(crate) fn by_next_run(
    run: &Run,
    queue: &str,
    initial: ContinueAsNewVersioningBehavior,
    is_member: Membership<'_>,
) -> Option<Box<InheritedVersioning>> {
    let versioning = run.state.versioning.as_deref()?;
    let may_have = |version: &WorkerDeploymentVersion| queue == run.info.task_queue || is_member(version, queue);
    let version = versioning.effective_version().filter(|version| may_have(version));
    let stays = initial == ContinueAsNewVersioningBehavior::Unspecified;
    let pinned = version.filter(|_| stays && versioning.effective_behavior() == VersioningBehavior::Pinned);
    // A target that an earlier run was notified of already is still refused.
    let declined = versioning.notified.as_ref().or(versioning.declined.as_ref()).filter(|_| pinned.is_some());
    Some(Box::new(InheritedVersioning {
        pinned: pinned.cloned(),
        auto_upgrade: version.filter(|_| pinned.is_none()).and_then(|from| upgrade(versioning, from, initial)),
        versioning_override: pinned_override(versioning).filter(|given| override_version(given).is_some_and(may_have)),
        declined: declined.map(|target| DeclinedTargetVersionUpgrade {
            deployment_version: target.version.clone(),
            revision_number: target.revision,
        }),
    }))
}

/// For the next attempt of a run that failed, which began with `first`.
pub(crate) fn by_retry(run: &Run, first: &WorkflowExecutionStartedEventAttributes) -> Option<Box<InheritedVersioning>> {
    let versioning = run.state.versioning.as_deref()?;
    let behavior = versioning.effective_behavior();
    let source = versioning.effective_version().filter(|_| behavior == VersioningBehavior::AutoUpgrade);
    Some(Box::new(InheritedVersioning {
        pinned: first.inherited_pinned_version.clone().filter(|_| behavior == VersioningBehavior::Pinned),
        auto_upgrade: source.and_then(|from| upgrade(versioning, from, versioning.initial_behavior())),
        versioning_override: pinned_override(versioning),
        declined: versioning.declined.as_ref().map(|target| DeclinedTargetVersionUpgrade {
            deployment_version: target.version.clone(),
            revision_number: target.revision,
        }),
    }))
}

/// For the next run of a cron schedule.
pub(crate) fn by_schedule(run: &Run) -> Option<Box<InheritedVersioning>> {
    let versioning = run.state.versioning.as_deref()?;
    Some(Box::new(InheritedVersioning {
        versioning_override: pinned_override(versioning),
        ..InheritedVersioning::default()
    }))
}

/// For a child, unless it is in another namespace or the command brings an override of its own.
pub(crate) fn by_child(
    run: &Run,
    child: &StartChildWorkflowExecutionInitiatedEventAttributes,
    is_member: Membership<'_>,
) -> Option<InheritedVersioning> {
    let versioning = run.state.versioning.as_deref()?;
    if child.versioning_override.is_some() || child.namespace_id != run.info.namespace_id {
        return None;
    }
    let queue = child.task_queue.as_ref().map_or("", |queue| queue.name.as_str());
    let may_have = |version: &WorkerDeploymentVersion| queue == run.info.task_queue || is_member(version, queue);
    let version = versioning.effective_version().filter(|version| may_have(version));
    let behavior = versioning.effective_behavior();
    let source = version.filter(|_| behavior == VersioningBehavior::AutoUpgrade);
    let given = versioning.versioning_override.clone();
    Some(InheritedVersioning {
        pinned: version.filter(|_| behavior == VersioningBehavior::Pinned).cloned(),
        auto_upgrade: source.and_then(|from| upgrade(versioning, from, ContinueAsNewVersioningBehavior::Unspecified)),
        versioning_override: given.filter(|given| override_version(given).is_some_and(may_have)),
        declined: None,
    })
}

/// Tells from which version a run upgrades, if that is known.
fn upgrade(
    versioning: &Versioning,
    from: &WorkerDeploymentVersion,
    initial: ContinueAsNewVersioningBehavior,
) -> Option<InheritedAutoUpgradeInfo> {
    (versioning.revision != 0).then(|| InheritedAutoUpgradeInfo {
        source_deployment_version: Some(from.clone()),
        source_deployment_revision_number: versioning.revision,
        continue_as_new_initial_versioning_behavior: initial as i32,
    })
}

/// The override, if it pins for good: others end with the run.
fn pinned_override(versioning: &Versioning) -> Option<VersioningOverride> {
    let given = versioning.versioning_override.clone();
    given.filter(|given| matches!(given.r#override, Some(Override::Pinned(_))))
}
