//! Options of a run that can be changed while it runs: its priority and its versioning override.

use segno_proto::{
    common::Priority,
    deployment::WorkerDeploymentVersion,
    enums::VersioningBehavior,
    events::{WorkflowExecutionOptionsUpdatedEventAttributes, history_event::Attributes},
    workflow::{
        VersioningOverride, WorkflowExecutionOptions,
        versioning_override::{Override, PinnedOverride, PinnedOverrideBehavior},
    },
};

use crate::{
    error::{Rejection, pascal_case},
    events::event,
    parts::builds,
    state::run::Run,
    transition::{Applied, Context, draft::Draft},
};

/// A change of options.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// The new values.
    pub options: WorkflowExecutionOptions,
    /// Which of them count, as paths (see [`crate::parts::activity::options::field_path`]).
    pub paths: Vec<String>,
    /// Who changes them.
    pub identity: String,
}

/// Changes options of a run. Replies with all of them. A change that changes nothing leaves no trace.
pub fn update(
    run: &Run,
    context: Context,
    call: &UpdateOptions,
) -> Result<Applied<WorkflowExecutionOptions>, Rejection> {
    if !run.is_running() {
        return Err(Rejection::Closed);
    }
    let mut draft = Draft::new(run, context);
    let merged = change(&mut draft, call)?;
    Ok(draft.finish(merged))
}

/// Changes options of a run that is being changed.
pub(crate) fn change(draft: &mut Draft, call: &UpdateOptions) -> Result<WorkflowExecutionOptions, Rejection> {
    let run = &draft.run;
    if let Some(wanted) = &call.options.versioning_override {
        if let Some(Override::Pinned(pinned)) = &wanted.r#override
            && pinned.version.is_none()
            && pinned.behavior != PinnedOverrideBehavior::Unspecified as i32
        {
            return Err(Rejection::Precondition(format!(
                "must specify a specific pinned override version because workflow with id {} has behavior {} and is not \
                 yet pinned to any version",
                run.info.workflow_id,
                effective_behavior(run),
            )));
        }
        check_override(&run.info.task_queue, wanted)?;
    }
    let current = WorkflowExecutionOptions {
        versioning_override: run.info.versioning_override.clone(),
        priority: run.info.priority.clone(),
        time_skipping_config: None,
    };
    let merged = merge(current.clone(), call)?;
    if merged == current {
        return Ok(merged);
    }
    let versioning_override = merged.versioning_override.clone().map(newer_form);
    let attributes = WorkflowExecutionOptionsUpdatedEventAttributes {
        unset_versioning_override: versioning_override.is_none(),
        versioning_override: versioning_override.clone(),
        identity: call.identity.clone(),
        priority: merged.priority.clone(),
        ..Default::default()
    };
    // A priority that is taken away stays in effect, as in Temporal: the event cannot say it.
    let priority = merged.priority.clone().or(current.priority);
    let mut updated = event(draft.now(), Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(attributes));
    updated.worker_may_ignore = true;
    draft.add_external_event(updated);
    if versioning_override != current.versioning_override {
        builds::note_override(&mut draft.run.state, versioning_override.as_ref());
    }
    draft.run.set_options(priority, versioning_override);
    Ok(merged)
}

/// What a change makes of options.
fn merge(mut into: WorkflowExecutionOptions, call: &UpdateOptions) -> Result<WorkflowExecutionOptions, Rejection> {
    let refuse = |why: &str| Err(Rejection::InvalidArgument(format!("error applying update_options: {why}")));
    let has = |path: &str| call.paths.iter().any(|given| given == path);
    let given = &call.options;
    if has("versioningOverride") {
        into.versioning_override.clone_from(&given.versioning_override);
    }
    let (deployment, behavior) = (has("versioningOverride.deployment"), has("versioningOverride.behavior"));
    if deployment != behavior {
        return refuse("versioning_override fields must be updated together");
    }
    if deployment {
        into.versioning_override.clone_from(&given.versioning_override);
    }
    let part = |path: &&String| {
        path.strip_prefix("versioningOverride.").is_some_and(|part| part != "deployment" && part != "behavior")
    };
    if call.paths.iter().find(part).is_some() {
        return refuse("versioning_override doesn't support partial updates");
    }
    if has("priority") {
        into.priority.clone_from(&given.priority);
    }
    let priority = given.priority.clone().unwrap_or_default();
    let of =
        |into: &mut WorkflowExecutionOptions, set: &dyn Fn(&mut Priority)| set(into.priority.get_or_insert_default());
    if has("priority.priorityKey") {
        of(&mut into, &|own| own.priority_key = priority.priority_key);
    }
    if has("priority.fairnessKey") {
        of(&mut into, &|own| own.fairness_key.clone_from(&priority.fairness_key));
    }
    if has("priority.fairnessWeight") {
        of(&mut into, &|own| own.fairness_weight = priority.fairness_weight);
    }
    Ok(into)
}

/// Refuses an override that cannot be. There are no worker deployments, so that nothing can be pinned to a version of one.
#[allow(deprecated)]
pub fn check_override(queue: &str, wanted: &VersioningOverride) -> Result<(), Rejection> {
    let invalid = |text: &str| Err(Rejection::InvalidArgument(text.to_owned()));
    match &wanted.r#override {
        Some(Override::AutoUpgrade(true)) => return Ok(()),
        Some(Override::AutoUpgrade(false)) => return invalid("auto-upgrade override must be true"),
        Some(Override::Pinned(pinned)) => {
            return match &pinned.version {
                None => invalid("must provide version if override is pinned."),
                Some(_) if pinned.behavior == PinnedOverrideBehavior::Unspecified as i32 => {
                    invalid("must specify pinned override behavior if override is pinned.")
                }
                Some(version) => Err(not_present(queue, &version.deployment_name, &version.build_id)),
            };
        }
        Some(Override::OneTime(one_time)) => {
            return match &one_time.target_deployment_version {
                None => invalid("must provide target deployment version if override is one-time."),
                Some(version) => Err(not_present(queue, &version.deployment_name, &version.build_id)),
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
            Some(_) => Ok(()),
            None if wanted.pinned_version.is_empty() => {
                invalid("must provide deployment (deprecated) or pinned version if behavior is 'PINNED'")
            }
            None => match wanted.pinned_version.split_once('.') {
                Some((deployment, build_id)) => Err(not_present(queue, deployment, build_id)),
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
        Ok(VersioningBehavior::AutoUpgrade) => Ok(()),
        Ok(VersioningBehavior::Unspecified) => invalid("override behavior is required"),
        Err(_) => invalid(&format!("override behavior {} not recognized", wanted.behavior)),
    }
}

fn not_present(queue: &str, deployment: &str, build_id: &str) -> Rejection {
    Rejection::Precondition(format!(
        "Pinned version '{deployment}:{build_id}' is not present in task queue '{queue}' of type 'Workflow'"
    ))
}

/// The behaviour that an override gives a run, as Temporal writes it.
fn effective_behavior(run: &Run) -> String {
    let behavior = match run.info.versioning_override.as_ref().and_then(|known| known.r#override.as_ref()) {
        Some(Override::AutoUpgrade(_)) => VersioningBehavior::AutoUpgrade,
        Some(Override::Pinned(_)) => VersioningBehavior::Pinned,
        _ => VersioningBehavior::Unspecified,
    };
    pascal_case(behavior.as_str_name().trim_start_matches("VERSIONING_BEHAVIOR_"))
}

/// An override in the way history has it: without its older spelling.
#[allow(deprecated)]
pub fn newer_form(given: VersioningOverride) -> VersioningOverride {
    let newer = match (&given.r#override, VersioningBehavior::try_from(given.behavior)) {
        (Some(known), _) => Some(known.clone()),
        (None, Ok(VersioningBehavior::AutoUpgrade)) => Some(Override::AutoUpgrade(true)),
        (None, Ok(VersioningBehavior::Pinned)) => {
            let deployment = given.deployment.unwrap_or_default();
            Some(Override::Pinned(PinnedOverride {
                behavior: PinnedOverrideBehavior::Pinned as i32,
                version: Some(WorkerDeploymentVersion {
                    deployment_name: deployment.series_name,
                    build_id: deployment.build_id,
                }),
            }))
        }
        (None, _) => None,
    };
    VersioningOverride { r#override: newer, ..Default::default() }
}
