//! Which builds and versions of the worker took part in a run: as points to reset to, and as search attributes.
//!
//! No event speaks of either; both follow from the completed workflow tasks, when they happen and when state is made
//! from history. Nothing follows from a transition under way: attributes change when a workflow task completes.

use segno_proto::{
    Nanos,
    common::{Payload, WorkerVersionStamp},
    deployment::WorkerDeploymentVersion,
    enums::VersioningBehavior,
    nanos_timestamp,
    workflow::ResetPointInfo,
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
const USED_VERSIONS: &str = "TemporalUsedWorkerDeploymentVersions";
const BEHAVIOR: &str = "TemporalWorkflowVersioningBehavior";

/// In a list of builds: worker versioning is not used.
const UNVERSIONED: &str = "unversioned";
/// In a list of builds: begins the version to which the run is pinned.
const PINNED: &str = "pinned:";

/// The build that completed a workflow task, as far as its worker says.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The worker's binary.
    pub binary_checksum: &'a str,
    /// The worker's version of the older kind.
    pub worker_version: Option<&'a WorkerVersionStamp>,
    /// The deployment it says it belongs to, or empty.
    pub deployment_name: &'a str,
    /// Its version in that deployment, if it uses versioning.
    pub version: Option<&'a WorkerDeploymentVersion>,
}

/// Remembers a build that completed a workflow task, after [`RunState::versioning`] has been updated.
pub fn note(state: &mut RunState, run_id: &str, build: Build<'_>, completed_event_id: i64, now: Nanos) {
    let stamp_id = build.worker_version.map(|version| version.build_id.clone()).unwrap_or_default();
    let build_id = build.version.map_or(&stamp_id, |version| &version.build_id);
    state.worker_version = build.worker_version.cloned();
    let mut points = state.reset_points.iter();
    let known = points.any(|point| point.binary_checksum == build.binary_checksum && point.build_id == *build_id);
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
    build.deployment_name.clone_into(&mut state.worker_deployment_name);
    if let Some(version) = build.version {
        note_used(state, &spelled_version(version));
    }
    match state.versioning {
        None => {
            note_build_id(state, &stamp_id);
            match build.deployment_name.is_empty() {
                true => drop(state.search_attributes.remove(DEPLOYMENT)),
                false => drop(state.search_attributes.insert(DEPLOYMENT.to_owned(), keyword(build.deployment_name))),
            }
        }
        Some(_) => tell_versioning(state, if build.version.is_some() { "" } else { &stamp_id }),
    }
}

/// A version as search attributes and error texts spell it.
pub(crate) fn spelled_version(version: &WorkerDeploymentVersion) -> String {
    format!("{}:{}", version.deployment_name, version.build_id)
}

/// The deployment that a run belongs to: of the version where its tasks go, or else the one that its last worker named.
pub fn deployment_name(state: &RunState) -> &str {
    let version = state.versioning.as_deref().and_then(|versioning| versioning.settled_version());
    version.map_or(&state.worker_deployment_name, |version| &version.deployment_name)
}

/// Writes search attributes anew after what a run knows of versions has changed. `stamp_id` is the build of a worker of the older
/// kind, or empty.
pub(crate) fn tell_versioning(state: &mut RunState, stamp_id: &str) {
    let Some(versioning) = &state.versioning else { return };
    let behavior = match versioning.settled_behavior() {
        VersioningBehavior::Pinned => Some("Pinned"),
        VersioningBehavior::AutoUpgrade => Some("AutoUpgrade"),
        VersioningBehavior::Unspecified => None,
    };
    let version = versioning.settled_version().map(|version| keyword(&spelled_version(version)));
    let deployment = Some(deployment_name(state)).filter(|name| !name.is_empty()).map(keyword);
    let mut set = |name: &str, value: Option<Payload>| match value {
        Some(value) => drop(state.search_attributes.insert(name.to_owned(), value)),
        None => drop(state.search_attributes.remove(name)),
    };
    set(DEPLOYMENT, deployment);
    set(DEPLOYMENT_VERSION, version);
    set(BEHAVIOR, behavior.map(keyword));
    write_build_ids(state, stamp_id);
}

/// Adds a version to the search attribute that lists all that completed a workflow task.
fn note_used(state: &mut RunState, version: &str) {
    let mut used = list(state, USED_VERSIONS);
    if !used.iter().any(|known| known == version) {
        used.push(version.to_owned());
        write_list(state, USED_VERSIONS, used, 0);
    }
}

/// Adds a build to the search attribute that lists them, behind the word for workers without versioning.
fn note_build_id(state: &mut RunState, stamp_id: &str) {
    let known = state.search_attributes.get(BUILD_IDS);
    if !known.is_some_and(|known| stamp_id.is_empty() || is_listed(known, stamp_id)) {
        write_build_ids(state, stamp_id);
    }
}

/// Writes the list of builds: first how the run stands, then the builds of workers of the older kind.
fn write_build_ids(state: &mut RunState, stamp_id: &str) {
    let versioning = state.versioning.as_deref();
    let behavior = versioning.map_or(VersioningBehavior::Unspecified, |versioning| versioning.settled_behavior());
    let first = match behavior {
        VersioningBehavior::Unspecified => Some(UNVERSIONED.to_owned()),
        VersioningBehavior::AutoUpgrade => None,
        VersioningBehavior::Pinned => {
            let version = versioning.and_then(|versioning| versioning.settled_version()).cloned().unwrap_or_default();
            Some(format!("{PINNED}{}", spelled_version(&version)))
        }
    };
    let kept = usize::from(first.is_some());
    let older = list(state, BUILD_IDS).into_iter().filter(|known| known != UNVERSIONED && !known.starts_with(PINNED));
    let mut builds: Vec<String> = first.into_iter().chain(older).collect();
    let named = format!("{UNVERSIONED}:{stamp_id}");
    if !stamp_id.is_empty() && !builds.contains(&named) {
        builds.push(named);
    }
    write_list(state, BUILD_IDS, builds, kept);
}

/// The values of a search attribute that is a list.
fn list(state: &RunState, name: &str) -> Vec<String> {
    let known = state.search_attributes.get(name).and_then(search_attributes::json);
    let values = known.as_ref().and_then(|list| list.as_array()).into_iter().flatten();
    values.filter_map(|value| value.as_str()).map(str::to_owned).collect()
}

/// Writes a search attribute that is a list. If it becomes too long for one, the oldest values go, but for the first `kept`.
fn write_list(state: &mut RunState, name: &str, mut values: Vec<String>, kept: usize) {
    let mut payload = keyword_list(&values);
    while payload.data.len() > VALUE_SIZE_MAX && values.len() > kept.max(1) {
        values.remove(kept);
        payload = keyword_list(&values);
    }
    match values.is_empty() {
        true => drop(state.search_attributes.remove(name)),
        false => drop(state.search_attributes.insert(name.to_owned(), payload)),
    }
}

/// Whether a build is in the list already. A build whose name JSON escapes is not recognised, which costs time only.
fn is_listed(list: &Payload, stamp_id: &str) -> bool {
    let entry = |text: &str| text.strip_prefix(UNVERSIONED).and_then(|rest| rest.strip_prefix(':')) == Some(stamp_id);
    str::from_utf8(&list.data).is_ok_and(|list| list.split('"').any(entry))
}
