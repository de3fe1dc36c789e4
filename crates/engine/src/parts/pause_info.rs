//! What says that a run or its activities are paused: the status and a search attribute.

use std::collections::BTreeSet;

use segno_proto::enums::WorkflowExecutionStatus;

use crate::{
    payload::keyword_list,
    state::{RunState, activity::PauseInfo},
};

/// The search attribute by which paused runs, and runs with paused activities, are found.
pub const ATTRIBUTE: &str = "TemporalPauseInfo";
/// The answer to an update of a paused run.
pub const NO_UPDATES: &str = "Workflow is paused. Cannot update the workflow.";

/// Marks a run as paused.
pub(crate) fn set(state: &mut RunState, workflow_id: &str, pause: PauseInfo) {
    state.status = WorkflowExecutionStatus::Paused as i32;
    state.pause = Some(Box::new(pause));
    note(state, workflow_id);
}

/// Marks a run as not paused.
pub(crate) fn clear(state: &mut RunState, workflow_id: &str) {
    state.status = WorkflowExecutionStatus::Running as i32;
    state.pause = None;
    note(state, workflow_id);
}

/// Brings the search attribute in line with what is paused.
pub(crate) fn note(state: &mut RunState, workflow_id: &str) {
    let mut entries = Vec::new();
    if let Some(pause) = &state.pause {
        entries.push(format!("Workflow:{workflow_id}"));
        if !pause.reason.is_empty() {
            entries.push(format!("Reason:{}", pause.reason));
        }
    }
    let paused = state.activities.values().filter(|activity| activity.pause.is_some());
    let types: BTreeSet<&str> = paused.map(|activity| activity.activity_type.as_str()).collect();
    entries.extend(types.into_iter().map(|name| format!("property:activityType={name}")));
    match entries.is_empty() {
        true => drop(state.search_attributes.remove(ATTRIBUTE)),
        false => drop(state.search_attributes.insert(ATTRIBUTE.to_owned(), keyword_list(&entries))),
    }
}
