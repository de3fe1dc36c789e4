//! What became of a completion callback of a closed run.

use segno_proto::failure::Failure;

use crate::{
    error::Rejection,
    limits::ACTIVITY_FAILURE_BYTES_MAX,
    retry,
    state::{CallbackState, run::Run},
    transition::{Applied, Context, draft::Draft},
};

/// A callback was delivered, or refused for good.
pub fn settle(run: &Run, context: Context, index: u32, result: Result<(), Failure>) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let Some(registered) = draft.run.state.callbacks.get_mut(index as usize) else {
        return Err(Rejection::OperationNotFound);
    };
    registered.attempts += 1;
    registered.last_attempt_end = context.now;
    registered.due_time = 0;
    let (state, failure) = match result {
        Ok(()) => (CallbackState::Succeeded, None),
        Err(failure) => (CallbackState::Failed, Some(retry::kept(&failure, ACTIVITY_FAILURE_BYTES_MAX))),
    };
    registered.set_state(state);
    registered.last_failure = failure;
    draft.touch();
    Ok(draft.finish(()))
}
