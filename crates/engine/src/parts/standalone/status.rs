//! How a standalone activity stands.

use segno_proto::{Nanos, enums::WorkflowExecutionStatus};

use crate::state::{RunState, activity::Activity, run::Run};

/// Workflow ids of standalone activities begin so; the id of the activity follows.
pub const WORKFLOW_ID_PREFIX: &str = "temporal-sys-activity:";
/// The division in which standalone activities are listed, as Temporal calls it.
pub const DIVISION: &str = "3332429922";
/// The scheduled event of the one activity: it follows the start of the run.
pub const SCHEDULED_EVENT_ID: i64 = 2;

/// The activity of such a run: as it is, or as it was at its end.
pub fn activity_of(state: &RunState) -> Option<&Activity> {
    let ended = state.standalone.as_ref().and_then(|standalone| standalone.ended.as_deref());
    state.activities.get(&SCHEDULED_EVENT_ID).map(|pending| &**pending).or(ended)
}

/// How a standalone activity stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandaloneStatus {
    /// It waits for a worker, or for its next attempt.
    Scheduled,
    /// A worker has it.
    Started,
    /// A worker has it and is to stop.
    CancelRequested,
    /// No worker has it, and none gets it.
    Paused,
    /// A worker has it; no worker gets the next attempt.
    PauseRequested,
    /// A worker has it; the next attempt is the first again.
    ResetRequested,
    /// It is over.
    Over(WorkflowExecutionStatus),
}

impl std::fmt::Display for StandaloneStatus {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Variants are named as Temporal names them.
            Self::Over(status) => write!(to, "{status:?}"),
            other => write!(to, "{other:?}"),
        }
    }
}

/// How the activity of a run stands.
pub fn status_of(run: &Run) -> StandaloneStatus {
    let Some(activity) = run.state.activities.get(&SCHEDULED_EVENT_ID).filter(|_| run.is_running()) else {
        return StandaloneStatus::Over(run.status());
    };
    match (activity.started_time != 0, activity.pause.is_some()) {
        (true, _) if activity.cancel_requested => StandaloneStatus::CancelRequested,
        (true, _) if activity.reset => StandaloneStatus::ResetRequested,
        (true, true) => StandaloneStatus::PauseRequested,
        (true, false) => StandaloneStatus::Started,
        (false, true) => StandaloneStatus::Paused,
        (false, false) => StandaloneStatus::Scheduled,
    }
}

/// The status that lists show and filters compare with: that of the run, or paused.
pub fn listed_status(run: &Run) -> WorkflowExecutionStatus {
    let paused = run.state.is_standalone() && status_of(run) == StandaloneStatus::Paused;
    if paused { WorkflowExecutionStatus::Paused } else { run.status() }
}

/// When the first attempt is, or was, due.
pub fn first_due(run: &Run) -> Nanos {
    let delay = run.state.standalone.as_ref().map_or(0, |standalone| standalone.start_delay);
    run.info.start_time.saturating_add(delay)
}
