//! A client asks a workflow to cancel itself.

use segno_proto::{
    common::{Link, WorkflowExecution},
    events::{WorkflowExecutionCancelRequestedEventAttributes, history_event::Attributes},
};

use crate::{
    error::Rejection,
    events::event,
    parts::workflow_task,
    state::run::Run,
    transition::{Applied, Context, draft::Draft},
};

/// A cancellation request, checked.
#[derive(Clone, Debug, Default)]
pub struct CancelRequest {
    /// Why.
    pub reason: String,
    /// Who asks.
    pub identity: String,
    /// Recognises a repeated call.
    pub request_id: String,
    /// Carried.
    pub links: Vec<Link>,
    /// The workflow that asks and its event, if it is one.
    pub sender: Option<(WorkflowExecution, i64)>,
    /// The first run of the chain that is meant; empty is any.
    pub first_run_id: String,
}

/// Records the request. Asking twice is the same as asking once.
pub fn request_cancel(run: &Run, context: Context, call: CancelRequest) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    if !call.first_run_id.is_empty() && call.first_run_id != run.info.first_run_id {
        return Err(Rejection::RunNotFound);
    }
    let mut draft = Draft::new(run, context);
    if run.state.cancel_requested {
        return Ok(draft.finish(()));
    }
    draft.run.state.cancel_requested = true;
    draft.run.state.cancel_request_id = call.request_id;
    let (external_workflow_execution, external_initiated_event_id) = match call.sender {
        Some((execution, id)) => (Some(execution), id),
        None => (None, 0),
    };
    let mut requested = event(
        draft.now(),
        Attributes::WorkflowExecutionCancelRequestedEventAttributes(WorkflowExecutionCancelRequestedEventAttributes {
            cause: call.reason,
            external_initiated_event_id,
            external_workflow_execution,
            identity: call.identity,
        }),
    );
    requested.links = call.links;
    draft.add_external_event(requested);
    // Unlike a signal, a cancellation does not wait for a delayed start.
    workflow_task::schedule_first_now(&mut draft);
    Ok(draft.finish(()))
}
