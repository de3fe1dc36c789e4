//! Which builds of the worker took part in a run: as points to reset to, and as search attributes.
//!
//! No event speaks of either; both follow from the completed workflow tasks, when they happen and when state is made
//! from history.

use segno_proto::{
    Nanos,
    common::{Payload, WorkerVersionStamp},
    events::WorkflowExecutionOptionsUpdatedEventAttributes,
    nanos_timestamp,
    workflow::{ResetPointInfo, VersioningOverride, versioning_override::Override},
};

use crate::{
    limits::RESET_POINTS_MAX,
    payload::{keyword, keyword_list},
    search_attributes::{self, VALUE_SIZE_MAX},
    state::RunState,
};

const BUILD_IDS: &str = "BuildIds";
const DEPLOYMENT: &str = "TemporalWorkerDeployment";
const DEPLOYMENT_VERSION: &str = "TemporalWorkerDeploymentVersion";
const BEHAVIOR: &str = "TemporalWorkflowVersioningBehavior";

/// The build that completed a workflow task, as far as its worker says.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The worker's binary.
    pub binary_checksum: &'a str,
    /// The worker's version.
    pub worker_version: Option<&'a WorkerVersionStamp>,
}

/// Remembers a build that completed a workflow task.
pub fn note(state: &mut RunState, run_id: &str, build: Build<'_>, completed_event_id: i64, now: Nanos) {
    let build_id = build.worker_version.map(|version| version.build_id.clone()).unwrap_or_default();
    state.worker_version = build.worker_version.cloned();
    let mut points = state.reset_points.iter();
    let known = points.any(|point| point.binary_checksum == build.binary_checksum && point.build_id == build_id);
    if !known {
        if state.reset_points.len() >= RESET_POINTS_MAX {
            state.reset_points.remove(0);
        }
        state.reset_points.push(ResetPointInfo {
            build_id: build_id.clone(),
            binary_checksum: build.binary_checksum.to_owned(),
            run_id: run_id.to_owned(),
            first_workflow_task_completed_id: completed_event_id,
            create_time: Some(nanos_timestamp(now)),
            resettable: true,
            ..Default::default()
        });
    }
    if !build.binary_checksum.is_empty() {
        let checksums = state.reset_points.iter().map(|point| point.binary_checksum.clone());
        let checksums: Vec<_> = checksums.filter(|checksum| !checksum.is_empty()).collect();
        state.search_attributes.insert("BinaryChecksums".to_owned(), keyword_list(&checksums));
    }
    note_build_id(state, &build_id);
}

/// Adds a build to the search attribute that lists them, behind the word for workers without versioning. If the list
/// becomes too long for a search attribute, the oldest builds go.
fn note_build_id(state: &mut RunState, build_id: &str) {
    let known = state.search_attributes.get(BUILD_IDS);
    if known.is_some_and(|known| build_id.is_empty() || is_listed(known, build_id)) {
        return;
    }
    let known = known.and_then(search_attributes::json);
    let known =
        known.as_ref().and_then(|list| list.as_array()).into_iter().flatten().filter_map(|value| value.as_str());
    let mut builds: Vec<String> = known.filter(|value| *value != UNVERSIONED).map(str::to_owned).collect();
    let named = format!("{UNVERSIONED}:{build_id}");
    if !build_id.is_empty() && !builds.contains(&named) {
        builds.push(named);
    }
    builds.insert(0, UNVERSIONED.to_owned());
    let mut payload = keyword_list(&builds);
    while payload.data.len() > VALUE_SIZE_MAX && builds.len() > 1 {
        builds.remove(1);
        payload = keyword_list(&builds);
    }
    state.search_attributes.insert(BUILD_IDS.to_owned(), payload);
}

/// The first entry of the list: worker versioning is not used.
const UNVERSIONED: &str = "unversioned";

/// Whether a build is in the list already. A build whose name JSON escapes is not recognised, which costs time only.
fn is_listed(list: &Payload, build_id: &str) -> bool {
    let entry = |text: &str| text.strip_prefix(UNVERSIONED).and_then(|rest| rest.strip_prefix(':')) == Some(build_id);
    str::from_utf8(&list.data).is_ok_and(|list| list.split('"').any(entry))
}

/// Remembers the deployment that the worker says it belongs to.
pub fn note_deployment(state: &mut RunState, name: &str) {
    if !name.is_empty() {
        state.search_attributes.insert(DEPLOYMENT.to_owned(), keyword(name));
    }
    name.clone_into(&mut state.worker_deployment_name);
}

/// The same for an event that may set an override or take it back.
pub fn note_override_event(state: &mut RunState, event: &WorkflowExecutionOptionsUpdatedEventAttributes) {
    let taken_back = event.unset_versioning_override && state.search_attributes.contains_key(BEHAVIOR);
    if event.versioning_override.is_some() || taken_back {
        note_override(state, event.versioning_override.as_ref());
    }
}

/// Says by which versioning override a run goes, in search attributes.
pub fn note_override(state: &mut RunState, versioning_override: Option<&VersioningOverride>) {
    let attributes = &mut state.search_attributes;
    attributes.remove(BUILD_IDS);
    attributes.remove(DEPLOYMENT_VERSION);
    match versioning_override.and_then(|known| known.r#override.as_ref()) {
        Some(Override::Pinned(pinned)) => {
            let version = pinned.version.clone().unwrap_or_default();
            let told = format!("{}:{}", version.deployment_name, version.build_id);
            attributes.insert(BUILD_IDS.to_owned(), keyword_list(&[format!("pinned:{told}")]));
            attributes.insert(DEPLOYMENT.to_owned(), keyword(&version.deployment_name));
            attributes.insert(DEPLOYMENT_VERSION.to_owned(), keyword(&told));
            attributes.insert(BEHAVIOR.to_owned(), keyword("Pinned"));
        }
        Some(_) => drop(attributes.insert(BEHAVIOR.to_owned(), keyword("AutoUpgrade"))),
        None => {
            attributes.remove(DEPLOYMENT);
            attributes.remove(BEHAVIOR);
            attributes.insert(BUILD_IDS.to_owned(), keyword_list(&[UNVERSIONED.to_owned()]));
        }
    }
}
