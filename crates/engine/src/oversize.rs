//! Runs that have grown past what the server keeps are ended, with the reason in their last event.

use prost::Message;

use crate::{
    close,
    draft::Draft,
    limits::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, STATE_BYTES_MAX, TRANSACTION_BYTES_MAX},
    run::{Applied, Context, Run, Transition},
    workflow_task::SERVER_IDENTITY,
};

/// Why a run may not go on, if it may not. Looks at what is stored already, before a call adds to it.
pub fn reason(run: &Run) -> Option<&'static str> {
    if !run.is_running() {
        None
    } else if run.state.history_bytes > HISTORY_BYTES_MAX {
        Some("Workflow history size exceeds limit.")
    } else if run.state.next_event_id - 1 > HISTORY_EVENTS_MAX {
        Some("Workflow history count exceeds limit.")
    } else if run.state.buffered.len() + run.state.activities.len() + run.state.children.len() > 0
        && run.state.encoded_len() > STATE_BYTES_MAX
    {
        Some("Workflow mutable state size exceeds limit.")
    } else {
        None
    }
}

/// Whether one transition adds more than may be stored at once.
pub fn is_too_large(transition: &Transition) -> bool {
    let bytes: usize = transition.batches.iter().flatten().map(Message::encoded_len).sum();
    bytes > TRANSACTION_BYTES_MAX
}

/// Ends a run for such a reason.
pub fn end(run: &Run, context: Context, reason: &str) -> Applied<()> {
    let mut draft = Draft::new(run, context);
    close::terminate(&mut draft, reason.to_owned(), None, SERVER_IDENTITY.to_owned(), Vec::new());
    draft.finish(())
}
