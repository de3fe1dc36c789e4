//! Options of a run that can be changed while it runs: its priority and its versioning override.

use segno_proto::{
    common::Priority,
    events::{WorkflowExecutionOptionsUpdatedEventAttributes, history_event::Attributes},
    workflow::{
        VersioningOverride, WorkflowExecutionOptions,
        versioning_override::{Override, PinnedOverrideBehavior},
    },
};

use crate::{
    error::{Rejection, pascal_case},
    events::event,
    parts::{inherit::Membership, versioning},
    state::run::Run,
    transition::{Applied, Context, draft::Draft},
};

pub use crate::parts::version_override::{check_override, named_version, newer_form};

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
    is_member: Membership<'_>,
) -> Result<Applied<WorkflowExecutionOptions>, Rejection> {
    run.check_open()?;
    let mut draft = Draft::new(run, context);
    let merged = change(&mut draft, call, is_member)?;
    Ok(draft.finish(merged))
}

/// Changes options of a run that is being changed.
pub(crate) fn change(
    draft: &mut Draft,
    call: &UpdateOptions,
    is_member: Membership<'_>,
) -> Result<WorkflowExecutionOptions, Rejection> {
    let run = &draft.run;
    let mut given = call.options.clone();
    if let Some(wanted) = &mut given.versioning_override {
        pin_where_it_is(run, wanted)?;
        check_override(&run.info.task_queue, wanted, is_member)?;
    }
    let current = WorkflowExecutionOptions {
        versioning_override: run.state.versioning.as_ref().and_then(|known| known.versioning_override.clone()),
        priority: run.info.priority.clone(),
        time_skipping_config: None,
    };
    let merged = merge(current.clone(), &given, &call.paths)?;
    // The older form of an override is another one here, and changes nothing below.
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
        versioning::change_override(draft, versioning_override);
    }
    draft.run.set_priority(priority);
    Ok(merged)
}

/// An override that pins without saying where: to the version to which the run is pinned already.
fn pin_where_it_is(run: &Run, wanted: &mut VersioningOverride) -> Result<(), Rejection> {
    let Some(Override::Pinned(pinned)) = &mut wanted.r#override else { return Ok(()) };
    if pinned.version.is_some() || pinned.behavior == PinnedOverrideBehavior::Unspecified as i32 {
        return Ok(());
    }
    pinned.version = versioning::pinned_version(run).cloned();
    if pinned.version.is_some() {
        return Ok(());
    }
    let behavior = versioning::effective_behavior(run).as_str_name().trim_start_matches("VERSIONING_BEHAVIOR_");
    Err(Rejection::Precondition(format!(
        "must specify a specific pinned override version because workflow with id {} has behavior {} and is not yet pinned to any \
         version",
        run.info.workflow_id,
        pascal_case(behavior),
    )))
}

/// The options after a change.
fn merge(
    mut into: WorkflowExecutionOptions,
    given: &WorkflowExecutionOptions,
    paths: &[String],
) -> Result<WorkflowExecutionOptions, Rejection> {
    let refuse = |why: &str| Err(Rejection::InvalidArgument(format!("error applying update_options: {why}")));
    let has = |path: &str| paths.iter().any(|known| known == path);
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
    if paths.iter().find(part).is_some() {
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
