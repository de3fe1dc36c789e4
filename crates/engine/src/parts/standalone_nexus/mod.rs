//! Standalone Nexus operations: operations that clients start, without a workflow.
//!
//! Such an operation is a run of its own kind ([`state::StandaloneNexus`]), as a standalone activity is: no workflow tasks, and one
//! [`Operation`], which is pending from the first transition on. Requests to the handler, attempts, time-outs and completions are those
//! of [`crate::nexus`]. Where a workflow would get an event, the run keeps the links, or closes with the outcome (`end`).

mod begin;
pub(crate) mod end;

use crate::state::{RunState, nexus::Operation, run::Run};

pub use crate::state::standalone_nexus as state;
pub use begin::*;

/// Workflow ids of standalone operations begin so; the id of the operation follows.
pub const WORKFLOW_ID_PREFIX: &str = "temporal-sys-nexus-operation:";
/// The division in which standalone operations are listed, as Temporal calls it.
pub const DIVISION: &str = "131748067";
/// The scheduled event of the one operation: it follows the start of the run.
pub const SCHEDULED_EVENT_ID: i64 = 2;

/// The operation id of a run; `None` if it is something else.
pub fn id_of(run: &Run) -> Option<&str> {
    run.state.standalone_nexus.as_ref().and_then(|_| run.info.workflow_id.strip_prefix(WORKFLOW_ID_PREFIX))
}

/// The operation of such a run: as it is, or as it was at its end.
pub fn operation_of(state: &RunState) -> Option<&Operation> {
    let ended = state.standalone_nexus.as_ref().and_then(|alone| alone.ended.as_deref());
    state.operations.get(&SCHEDULED_EVENT_ID).map(|pending| &**pending).or(ended)
}
