//! The version of workers for which a run waits although no worker of it polls, as a search attribute. The home of a queue notices the
//! wait and the run notes it; its next completed workflow task, a change of its override and its end take the note away. No event
//! speaks of it.

use segno_proto::deployment::WorkerDeploymentVersion;

use crate::{payload::keyword, state::RunState};

/// The attribute.
pub const ATTRIBUTE: &str = "WaitsForVersion";

/// The value for a version.
pub fn value_of(version: &WorkerDeploymentVersion) -> String {
    format!("{}:{}", version.deployment_name, version.build_id)
}

/// Notes the wait for a version. Returns whether that is new.
pub(crate) fn note(state: &mut RunState, version: &WorkerDeploymentVersion) -> bool {
    let waits = keyword(&value_of(version));
    state.search_attributes.insert(ATTRIBUTE.to_owned(), waits.clone()).as_ref() != Some(&waits)
}

/// The run does not wait for that version any longer.
pub(crate) fn clear(state: &mut RunState) {
    state.search_attributes.remove(ATTRIBUTE);
}
