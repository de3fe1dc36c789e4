//! Runs that have grown past what the server keeps are ended, with the reason in their last event.

use prost::Message;

use crate::{
    limits::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, Limits, STATE_BYTES_MAX},
    parts::{close, workflow_task::SERVER_IDENTITY},
    state::run::Run,
    transition::{Applied, Context, Transition, draft::Draft},
};

/// Largest request, and so the most that one call can add to a run's state.
const CALL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a run may not go on, if it may not: for what its history weighed before a call, or for what the call makes of
/// it. The history of a script has no limit. `stored_bytes` is the size of its state before.
pub fn reason(before: &Run, after: &Run, stored_bytes: usize) -> Option<&'static str> {
    let limited = before.state.script.is_none();
    if !before.is_running() {
        None
    } else if limited && before.state.history_bytes > HISTORY_BYTES_MAX {
        Some("Workflow history size exceeds limit.")
    } else if limited && after.state.next_event_id - 1 > HISTORY_EVENTS_MAX {
        Some("Workflow history count exceeds limit.")
    } else if stored_bytes + CALL_BYTES_MAX > STATE_BYTES_MAX && after.state.encoded_len() > STATE_BYTES_MAX {
        Some("Workflow mutable state size exceeds limit.")
    } else {
        None
    }
}

/// Whether one transition adds more than may be stored at once.
pub fn is_too_large(transition: &Transition, limits: &Limits) -> bool {
    transition.bytes > limits.transaction_bytes
}

/// Ends a run for such a reason.
pub fn end(run: &Run, context: Context, reason: &str) -> Applied<()> {
    let mut draft = Draft::new(run, context);
    close::terminate(&mut draft, reason.to_owned(), None, SERVER_IDENTITY.to_owned(), Vec::new());
    draft.finish(())
}
