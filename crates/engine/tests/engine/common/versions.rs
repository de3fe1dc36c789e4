//! Versions of workers in scenario files: `version=b1` is the version of the worker, `target=b2/5` where routing sends the run and the
//! revision of the routing, with `-` for workers without versions. `override pinned=b1`, `override once=b1`, `override auto` and
//! `override none` change the override; `override older=b1` pins in the older form, as a string.

use segno_engine::{
    Rejection, Run, Transition,
    complete_task::CompleteTask,
    options::{self, UpdateOptions},
    outbox::StartChild,
    start::StartOptions,
    versioning::{self, Target},
};
use segno_proto::{
    common::Payload,
    deployment::WorkerDeploymentVersion,
    enums::VersioningBehavior,
    events::WorkflowExecutionStartedEventAttributes,
    workflow::{
        VersioningOverride, WorkflowExecutionOptions,
        versioning_override::{OneTimeOverride, Override, PinnedOverride, PinnedOverrideBehavior},
    },
};

use super::{
    words::Words,
    world::{World, is_member},
};

/// A version of the deployment of all tests; none for `-`.
pub fn version(build: &str) -> Option<WorkerDeploymentVersion> {
    (build != "-").then(|| WorkerDeploymentVersion { deployment_name: "d".to_owned(), build_id: build.to_owned() })
}

/// The version of the worker that a step names.
pub fn poller(words: &Words<'_>) -> Option<WorkerDeploymentVersion> {
    words.get("version").and_then(version)
}

/// The target that a step names.
pub fn target(words: &Words<'_>) -> Option<Target> {
    let (build, revision) = words.get("target")?.split_once('/').expect("a target has a revision");
    Some(Target { version: version(build), revision: revision.parse().expect("a revision is a number") })
}

/// What a worker says of itself with its answer.
pub fn answer(call: &mut CompleteTask, words: &Words<'_>) {
    call.version = poller(words);
    call.target = target(words);
    call.deployment_name = if words.get("version").is_some() { "d".to_owned() } else { String::new() };
    call.versioning_behavior = match words.get("behavior") {
        Some("pinned") => VersioningBehavior::Pinned,
        Some("auto") => VersioningBehavior::AutoUpgrade,
        _ => VersioningBehavior::Unspecified,
    };
}

/// An override that pins to a version.
pub fn pinned(build: &str) -> VersioningOverride {
    let behavior = PinnedOverrideBehavior::Pinned as i32;
    of(Override::Pinned(PinnedOverride { behavior, version: version(build) }))
}

fn of(kind: Override) -> VersioningOverride {
    VersioningOverride { r#override: Some(kind), ..Default::default() }
}

#[allow(deprecated)]
fn older(build: &str) -> VersioningOverride {
    VersioningOverride {
        behavior: VersioningBehavior::Pinned as i32,
        pinned_version: format!("d.{build}"),
        ..Default::default()
    }
}

/// The override that a step or command names.
pub fn wanted(words: &Words<'_>) -> Option<VersioningOverride> {
    if let Some(build) = words.get("pinned") {
        return Some(pinned(build));
    }
    if let Some(build) = words.get("once") {
        return Some(of(Override::OneTime(OneTimeOverride { target_deployment_version: version(build) })));
    }
    if let Some(build) = words.get("older") {
        return Some(older(build));
    }
    words.flag("auto").then(|| of(Override::AutoUpgrade(true)))
}

/// A change of the override alone.
pub fn update(wanted: Option<VersioningOverride>) -> UpdateOptions {
    UpdateOptions {
        options: WorkflowExecutionOptions { versioning_override: wanted, ..Default::default() },
        paths: vec!["versioningOverride".to_owned()],
        identity: "operator".to_owned(),
    }
}

/// A change that pins a run.
pub fn pin(build: &str) -> UpdateOptions {
    update(Some(pinned(build)))
}

/// The step `override`.
pub fn change(world: &mut World, words: &Words<'_>) -> Result<(String, Transition), Rejection> {
    let call = update(wanted(words));
    let taken = world.call(|run, context| options::update(run, context, &call, &is_member))?;
    Ok((String::new(), taken.transition))
}

/// What a start brings.
pub fn begin(options: &mut StartOptions, words: &Words<'_>) {
    options.versioning_override = wanted(words);
}

/// A version in one word.
pub fn name(version: Option<&WorkerDeploymentVersion>) -> String {
    version.map_or("-".to_owned(), |version| version.build_id.clone())
}

/// An override in one word.
pub fn override_name(given: Option<&VersioningOverride>) -> String {
    match given.and_then(|given| given.r#override.as_ref()) {
        None => String::new(),
        Some(Override::AutoUpgrade(_)) => "override=auto".to_owned(),
        Some(Override::Pinned(pinned)) => format!("override=pinned:{}", name(pinned.version.as_ref())),
        Some(Override::OneTime(once)) => format!("override=once:{}", name(once.target_deployment_version.as_ref())),
    }
}

/// What the first event says of versions.
pub fn inheritance(first: &WorkflowExecutionStartedEventAttributes) -> String {
    let mut parts = Vec::new();
    if let Some(version) = &first.inherited_pinned_version {
        parts.push(format!("inherits=pinned:{}", name(Some(version))));
    }
    if let Some(from) = &first.inherited_auto_upgrade_info {
        let initial = from.continue_as_new_initial_versioning_behavior;
        let initial = if initial == 0 { String::new() } else { format!(" initial={initial}") };
        let version = name(from.source_deployment_version.as_ref());
        parts.push(format!("inherits=auto:{version}/{}{initial}", from.source_deployment_revision_number));
    }
    if let Some(declined) = &first.declined_target_version_upgrade {
        parts.push(format!("declined={}/{}", name(declined.deployment_version.as_ref()), declined.revision_number));
    }
    let given = override_name(first.versioning_override.as_ref());
    parts.extend(Some(given).filter(|given| !given.is_empty()));
    parts.join(" ")
}

/// What a child has of its parent's version.
pub fn child_inheritance(message: &StartChild) -> String {
    let inherited = message.inherited.clone().unwrap_or_default();
    let first = WorkflowExecutionStartedEventAttributes {
        versioning_override: message.attributes.versioning_override.clone().or(inherited.versioning_override),
        inherited_pinned_version: inherited.pinned,
        inherited_auto_upgrade_info: inherited.auto_upgrade,
        ..Default::default()
    };
    Some(inheritance(&first)).filter(|told| !told.is_empty()).map_or(String::new(), |told| format!(", {told}"))
}

/// What a run knows of versions, with the search attributes that say so.
pub fn show(run: &Run) -> String {
    let Some(known) = &run.state().versioning else { return String::new() };
    let behavior = |behavior: VersioningBehavior| match behavior {
        VersioningBehavior::Unspecified => "unversioned",
        VersioningBehavior::Pinned => "pinned",
        VersioningBehavior::AutoUpgrade => "auto",
    };
    let mut text = format!("  versioning {}", behavior(known.behavior()));
    if known.version.is_some() {
        text.push_str(&format!(" version={}", name(known.version.as_ref())));
    }
    if known.versioning_override.is_some() {
        text.push_str(&format!(" {}", override_name(known.versioning_override.as_ref())));
    }
    if let Some(transition) = &known.transition {
        let holds = if transition.holds_activities { " holding activities" } else { "" };
        text.push_str(&format!(" moving to {}{holds}", name(transition.version.as_ref())));
    }
    text.push_str(&format!(
        " revision={}, effective {} at {}\n",
        known.revision,
        behavior(versioning::effective_behavior(run)),
        name(versioning::effective_version(run))
    ));
    if versioning::uses_ramp(run) {
        text.push_str("  first task by the ramp\n");
    }
    let told = run.state().search_attributes.iter().filter(|(name, _)| is_told(name));
    for (name, value) in told {
        text.push_str(&format!("  {name} {}\n", json(value)));
    }
    text
}

fn is_told(name: &str) -> bool {
    name == "BuildIds"
        || name.starts_with("TemporalWorker")
        || name.starts_with("TemporalUsed")
        || name.contains("Versioning")
}

fn json(payload: &Payload) -> String {
    String::from_utf8_lossy(&payload.data).into_owned()
}
