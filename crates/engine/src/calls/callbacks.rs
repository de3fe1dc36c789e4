//! What became of a completion callback of a closed run.

use segno_proto::{Nanos, failure::Failure};

use crate::{
    error::Rejection,
    limits::{ACTIVITY_FAILURE_BYTES_MAX, SECOND},
    parts::{callbacks::refusal, nexus::backoff},
    retry,
    state::{CallbackState, RegisteredCallback, run::Run},
    transition::{Applied, Context, draft::Draft},
};

/// How long after the end of its run a callback is tried.
const TRIED_MAX: Nanos = 7 * 24 * 3600 * SECOND;

/// A callback was delivered, or refused for good.
pub fn settle(run: &Run, context: Context, index: u32, result: Result<(), Failure>) -> Result<Applied<()>, Rejection> {
    change(run, context, index, |registered| {
        registered.due_time = 0;
        match result {
            Ok(()) => {
                registered.set_state(CallbackState::Succeeded);
                registered.last_failure = None;
            }
            Err(failure) => fail(registered, CallbackState::Failed, &failure),
        }
    })
}

/// An attempt to deliver a callback failed. Answers when the next one is due, after this pause at least; `None` if it was the last.
pub fn fail_attempt(
    run: &Run,
    context: Context,
    index: u32,
    failure: &Failure,
    pause_min: Nanos,
) -> Result<Applied<Option<Nanos>>, Rejection> {
    let is_over = context.now - run.state.close_time >= TRIED_MAX;
    change(run, context, index, |registered| {
        if is_over {
            registered.due_time = 0;
            fail(registered, CallbackState::Failed, &refusal(format!("gave up: {}", failure.message)));
            return None;
        }
        let pause = backoff(registered.attempts, context, i64::from(index)).max(pause_min);
        registered.due_time = context.now.saturating_add(pause);
        fail(registered, CallbackState::BackingOff, failure);
        Some(registered.due_time)
    })
}

fn fail(registered: &mut RegisteredCallback, state: CallbackState, failure: &Failure) {
    registered.set_state(state);
    registered.last_failure = Some(retry::kept(failure, ACTIVITY_FAILURE_BYTES_MAX));
}

/// Ends an attempt.
fn change<T>(
    run: &Run,
    context: Context,
    index: u32,
    change: impl FnOnce(&mut RegisteredCallback) -> T,
) -> Result<Applied<T>, Rejection> {
    let mut draft = Draft::new(run, context);
    let registered = draft.run.state.callbacks.get_mut(index as usize).ok_or(Rejection::OperationNotFound)?;
    registered.attempts += 1;
    registered.last_attempt_end = context.now;
    let changed = change(registered);
    draft.touch();
    Ok(draft.finish(changed))
}

#[cfg(test)]
mod tests {
    use segno_proto::common::Callback;

    use super::*;
    use crate::state::{RunInfo, RunState};

    fn context(now: Nanos) -> Context {
        Context { now, new_run_key: 0, new_run_seed: 7, limits: Default::default(), script: None }
    }

    #[test]
    fn attempts_follow_each_other_for_a_week() {
        let callback = RegisteredCallback { callback: Some(Callback::default()), ..Default::default() };
        let state = RunState { close_time: SECOND, callbacks: vec![callback], ..Default::default() };
        let mut run = Run::new(RunInfo::default(), state);
        let failure = refusal("away".to_owned());
        let mut pauses = Vec::new();
        let mut now = SECOND;
        loop {
            let applied = fail_attempt(&run, context(now), 0, &failure, 0).expect("there is a callback");
            run = applied.run;
            let Some(due) = applied.reply else { break };
            assert_eq!(run.state.callbacks[0].state(), CallbackState::BackingOff);
            pauses.push((due - now) as f64 / SECOND as f64);
            now = due;
        }
        for (number, pause) in pauses.iter().enumerate() {
            let whole = 2_f64.powi(number as i32).min(3600.0);
            assert!((0.8 * whole..=whole).contains(pause), "{number}: {pause}");
        }
        assert!((TRIED_MAX + SECOND..TRIED_MAX + 3601 * SECOND).contains(&now));
        let over = &run.state.callbacks[0];
        assert_eq!((over.state(), over.due_time), (CallbackState::Failed, 0));
        assert_eq!(over.last_failure.as_ref().map(|failure| failure.message.as_str()), Some("gave up: away"));
        let late = fail_attempt(&run, context(now), 0, &failure, 0).expect("there is a callback");
        assert_eq!(late.run.state.callbacks[0].attempts as usize, pauses.len() + 2);
        assert!(fail_attempt(&run, context(now), 1, &failure, 0).is_err());
    }
}
