//! Which builds of the worker took part in a run: as points to reset to, and as search attributes.
//!
//! No event speaks of either; both follow from the completed workflow tasks, when they happen and when state is made
//! from history.

use std::collections::BTreeMap;

use segno_proto::{
    Nanos,
    common::{Payload, WorkerVersionStamp},
    nanos_timestamp,
    workflow::ResetPointInfo,
};

use crate::{limits::RESET_POINTS_MAX, state::RunState};

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
        let checksums: Vec<_> = state.reset_points.iter().map(|point| point.binary_checksum.clone()).collect();
        state.search_attributes.insert("BinaryChecksums".to_owned(), keyword_list(&checksums));
    }
    if !state.search_attributes.contains_key("BuildIds") {
        let mut builds = vec!["unversioned".to_owned()];
        if !build_id.is_empty() {
            builds.push(format!("unversioned:{build_id}"));
        }
        state.search_attributes.insert("BuildIds".to_owned(), keyword_list(&builds));
    }
}

/// A search attribute of type KeywordList.
pub(crate) fn keyword_list(values: &[String]) -> Payload {
    let quoted: Vec<_> = values.iter().map(|value| format!("{value:?}")).collect();
    Payload {
        metadata: BTreeMap::from([
            ("encoding".to_owned(), "json/plain".into()),
            ("type".to_owned(), "KeywordList".into()),
        ]),
        data: format!("[{}]", quoted.join(",")).into(),
        ..Default::default()
    }
}

/// Remembers the deployment that the worker says it belongs to.
pub fn note_deployment(state: &mut RunState, name: &str) {
    if !name.is_empty() {
        let metadata = [("encoding", "json/plain"), ("type", "Keyword")];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.into()));
        let payload = Payload { metadata: metadata.into(), data: format!("{name:?}").into(), ..Default::default() };
        state.search_attributes.insert("TemporalWorkerDeployment".to_owned(), payload);
    }
    name.clone_into(&mut state.worker_deployment_name);
}
