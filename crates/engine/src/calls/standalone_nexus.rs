//! Calls of clients on the run of a standalone Nexus operation: cancel, terminate.

use segno_proto::enums::WorkflowExecutionStatus;

use crate::{
    calls::standalone::{Terminate, is_repeated_termination, precondition},
    error::Rejection,
    parts::{close, nexus_begin, standalone_nexus::SCHEDULED_EVENT_ID},
    state::{run::Run, standalone::CancelRequest},
    transition::{Applied, Context, draft::Draft},
};

/// Requests that the handler cancels the operation.
pub fn request_cancel(run: &Run, context: Context, call: CancelRequest) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let Some(alone) = &mut draft.run.state.standalone_nexus else { return Err(Rejection::RunNotFound) };
    let before = alone.cancel.as_ref().map(|cancel| cancel.request_id.as_str());
    if before == Some(call.request_id.as_str()) {
        return Ok(draft.finish(()));
    }
    if !run.is_running() {
        return precondition("operation already completed".to_owned());
    }
    if let Some(before) = before {
        return precondition(format!("cancellation already requested with request ID {before}"));
    }
    alone.cancel = Some(call);
    nexus_begin::request_cancellation(&mut draft, SCHEDULED_EVENT_ID, 0);
    draft.touch();
    Ok(draft.finish(()))
}

/// Ends the operation at once. Its handler is not told.
pub fn terminate(run: &Run, context: Context, call: Terminate) -> Result<Applied<()>, Rejection> {
    let mut draft = Draft::new(run, context);
    let Some(alone) = &mut draft.run.state.standalone_nexus else { return Err(Rejection::RunNotFound) };
    // As Temporal names the states of operations.
    let name = |status| match status {
        WorkflowExecutionStatus::Completed => "Succeeded".to_owned(),
        other => format!("{other:?}"),
    };
    if is_repeated_termination(run, &alone.terminate_request_id, &call, name)? {
        return Ok(draft.finish(()));
    }
    alone.terminate_request_id = call.request_id;
    close::terminate(&mut draft, call.reason, None, call.identity, Vec::new());
    Ok(draft.finish(()))
}
