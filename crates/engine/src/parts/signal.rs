//! Signals as a part of other transitions.

use segno_proto::{
    common::{Header, Link, Payloads, WorkflowExecution},
    events::{WorkflowExecutionSignaledEventAttributes, history_event::Attributes},
};

use crate::{events::event, state::signal_ids, transition::draft::Draft};

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
