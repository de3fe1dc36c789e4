//! Requests about updates.

use segno_engine::limits::ID_LENGTH_MAX;
use segno_proto::workflowservice::{PollWorkflowExecutionUpdateRequest, UpdateWorkflowExecutionRequest};

use super::{Refused, execution, size};

/// An update, in the order in which Temporal looks at it. Without an id it gets one.
pub fn update(request: &mut UpdateWorkflowExecutionRequest, new_id: impl FnOnce() -> String) -> Result<(), Refused> {
    execution(request.workflow_execution.as_ref())?;
    content(request, new_id)
}

/// What an update asks, without whom it asks.
pub fn content(request: &mut UpdateWorkflowExecutionRequest, new_id: impl FnOnce() -> String) -> Result<(), Refused> {
    let meta = request.request.as_mut().and_then(|request| request.meta.as_mut());
    let Some(meta) = meta else { return Err(Refused::invalid("Update meta is not set on request.")) };
    if meta.update_id.len() > ID_LENGTH_MAX {
        return Err(Refused::invalid("UpdateId length exceeds limit."));
    }
    if meta.update_id.is_empty() {
        meta.update_id = new_id();
    }
    let Some(input) = request.request.as_ref().and_then(|request| request.input.as_ref()) else {
        return Err(Refused::invalid("Update input is not set on request."));
    };
    if input.name.is_empty() {
        return Err(Refused::invalid("Update name is not set on request."));
    }
    size::blob(input.args.as_ref())
}

/// A question about an update.
pub fn poll(request: &PollWorkflowExecutionUpdateRequest) -> Result<(), Refused> {
    if request.update_ref.is_none() {
        return Err(Refused::invalid("UpdateRef is not set on request."));
    }
    execution(request.update_ref.as_ref().and_then(|update| update.workflow_execution.as_ref()))
}
