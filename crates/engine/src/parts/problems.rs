//! What keeps a run from going on, as a search attribute: set when its workflow tasks failed several times in a row,
//! taken away by the first success. No event speaks of it.

use segno_proto::enums::{TimeoutType, WorkflowTaskFailedCause};

use crate::{payload::keyword_list, state::RunState, validate::text};

/// The attribute.
pub const ATTRIBUTE: &str = "TemporalReportedProblems";
/// Failures in a row from which on they are a problem.
const FAILURES_MIN: i32 = 5;

/// How a workflow task ended without success.
#[derive(Clone, Copy, Debug)]
pub enum Problem {
    /// The worker, or the server, failed it.
    Failed(WorkflowTaskFailedCause),
    /// Its time was up.
    TimedOut(TimeoutType),
}

/// Notes one more failure, which is counted already.
pub fn note(state: &mut RunState, problem: Problem) {
    if state.failures_since_success < FAILURES_MIN {
        return;
    }
    let (category, cause) = match problem {
        Problem::Failed(cause) => {
            ("WorkflowTaskFailed", text::short_name(cause.as_str_name(), "WORKFLOW_TASK_FAILED_CAUSE_"))
        }
        Problem::TimedOut(kind) => ("WorkflowTaskTimedOut", text::short_name(kind.as_str_name(), "TIMEOUT_TYPE_")),
    };
    let problems = keyword_list(&[format!("category={category}"), format!("cause={category}Cause{cause}")]);
    state.search_attributes.insert(ATTRIBUTE.to_owned(), problems);
}

/// A workflow task succeeded.
pub fn clear(state: &mut RunState) {
    state.search_attributes.remove(ATTRIBUTE);
}
