//! A signal arrives.

use segno_proto::{
    common::{Header, Link, Payloads, WorkflowExecution},
    events::{WorkflowExecutionSignaledEventAttributes, history_event::Attributes},
};

use crate::{
    draft::{Draft, event},
    error::Rejection,
    limits::SIGNALS_MAX,
    run::{Applied, Context, Run},
    script, signal_ids, workflow_task,
};

/// A signal, checked.
#[derive(Clone, Debug, Default)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// Its input.
    pub input: Option<Payloads>,
    /// Who sends it.
    pub identity: String,
    /// Recognises a repeated call; may be empty.
    pub request_id: String,
    /// Carried.
    pub header: Option<Header>,
    /// Carried.
    pub links: Vec<Link>,
    /// The workflow that sends it, if it is one.
    pub sender: Option<WorkflowExecution>,
}

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
    // Between workflows a signal that arrived counts as arrived, whatever its receiver did since, even closing.
    if known && (run.is_running() || call.sender.is_some()) {
        return Ok(Draft::new(run, context).finish(()));
    }
    if !run.is_running() {
        return Err(Rejection::Closed);
    }
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

/// Records a signal within a larger transition (signal-with-start).
pub fn add(draft: &mut Draft, call: Signal) {
    let state = &mut draft.run.state;
    state.signal_count += 1;
    signal_ids::add(state, &call.request_id);
    let mut signaled = event(
        draft.now(),
        Attributes::WorkflowExecutionSignaledEventAttributes(WorkflowExecutionSignaledEventAttributes {
            signal_name: call.name,
            input: call.input,
            identity: call.identity,
            header: call.header,
            external_workflow_execution: call.sender,
            request_id: call.request_id,
            ..Default::default()
        }),
    );
    signaled.links = call.links;
    draft.add_external_event(signaled);
}
