//! A signal arrives.

use crate::{
    error::Rejection,
    limits::SIGNALS_MAX,
    parts::{script, signal::add, workflow_task},
    state::{run::Run, signal_ids},
    transition::{Applied, Context, draft::Draft},
};

pub use crate::parts::signal::Signal;

/// Records a signal and wakes the workflow. A first task that is held back stays held back.
pub fn signal(run: &Run, context: Context, call: Signal) -> Result<Applied<()>, Rejection> {
    record(run, context, call, workflow_task::schedule_if_none)
}

/// Records the signal of a signal-with-start whose workflow runs. It does not wait for a first task that is held back: that
/// one is scheduled now, as in Temporal.
pub fn signal_with_start(run: &Run, context: Context, call: Signal) -> Result<Applied<()>, Rejection> {
    record(run, context, call, workflow_task::schedule_first_now)
}

fn record(run: &Run, context: Context, call: Signal, wake: fn(&mut Draft)) -> Result<Applied<()>, Rejection> {
    let known = signal_ids::contains(&run.state, &call.request_id);
    // Between workflows a signal that arrived counts as arrived, even if its receiver has closed since.
    if known && (run.is_running() || call.sender.is_some()) {
        return Ok(Draft::new(run, context).finish(()));
    }
    run.check_open()?;
    let full = match &run.state.script {
        None => run.state.signal_count >= SIGNALS_MAX,
        Some(script) => script.signals_waiting >= script::SIGNALS_WAITING_MAX,
    };
    if full {
        return Err(Rejection::SignalLimit);
    }
    if run.state.close_attempted && run.state.task_started() {
        return Err(Rejection::Closing);
    }
    let mut draft = Draft::new(run, context);
    add(&mut draft, call);
    wake(&mut draft);
    Ok(draft.finish(()))
}
