//! Completion callbacks of a run: which it has, and what became of them.
//!
//! The only addresses that are accepted mean the server itself, where a callback reports the end of a workflow to a Nexus
//! operation that a token in its header names. There are no Nexus operations here, so no client was ever given such a token, and
//! what the server answers follows from the run alone: nothing is sent, and nothing is stored beside the run.

use segno_proto::{
    Nanos,
    common::{Callback, callback},
    enums::WorkflowExecutionStatus,
};

use crate::state::{RegisteredCallback, RunState, run::Run};

/// The address that reports to a Nexus operation.
pub const SYSTEM: &str = "temporal://system";
/// The address that reports to a part of the server.
pub const INTERNAL: &str = "temporal://internal";

/// A callback and when it was registered.
#[derive(Clone, Debug, PartialEq)]
pub struct RunCallback {
    /// Where the end is reported.
    pub callback: Callback,
    /// Since when.
    pub since: Nanos,
}

/// The delivery of a run's callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The run is open, or another one has its callbacks now.
    Standby,
    /// They failed at that time, for good.
    Failed(Nanos),
}

/// Notes callbacks that the start of a run brought, or a later start that was attached to it.
pub(crate) fn register(state: &mut RunState, callbacks: &[Callback], now: Nanos) {
    let callbacks = callbacks.iter().cloned();
    state.callbacks.extend(callbacks.map(|callback| RegisteredCallback { callback: Some(callback), time: now }));
}

/// The callbacks of a run, in the order in which they were registered.
pub fn of(run: &Run) -> Vec<RunCallback> {
    let registered = run.state.callbacks.iter();
    registered.filter_map(|noted| Some(RunCallback { callback: noted.callback.clone()?, since: noted.time })).collect()
}

/// The callbacks that a run hands on to the next one of its chain.
pub(crate) fn handed_on(run: &Run) -> Vec<Callback> {
    of(run).into_iter().map(|registered| registered.callback).collect()
}

/// The delivery of the callbacks of a run.
pub fn delivery(run: &Run) -> Delivery {
    let state = &run.state;
    // A repetition by a cron schedule does not take them along.
    let is_retried = !state.successor_run_id.is_empty() && run.info.cron_schedule.is_empty();
    let goes_on = state.status == WorkflowExecutionStatus::ContinuedAsNew as i32 || is_retried;
    let is_reset = !state.reset_run_id.is_empty();
    if run.is_running() || goes_on || is_reset { Delivery::Standby } else { Delivery::Failed(state.close_time) }
}

/// Why a callback was refused.
pub fn refusal(callback: &Callback, run_id: &str) -> String {
    match &callback.variant {
        Some(callback::Variant::Nexus(nexus)) if nexus.url == INTERNAL => {
            format!("internal error, reference-id: {run_id}")
        }
        _ => "handler error (BAD_REQUEST): invalid callback token".to_owned(),
    }
}
