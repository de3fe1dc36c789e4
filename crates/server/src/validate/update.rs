//! Requests about updates.

use segno_engine::{limits::ID_LENGTH_MAX, validate::is_uuid};
use segno_node::AllowedTargets;
use segno_proto::workflowservice::{PollWorkflowExecutionUpdateRequest, UpdateWorkflowExecutionRequest};

use super::{RequestError, execution, links};

/// An update, in the order in which Temporal looks at it. Without an id it gets one. Its callbacks are removed if they are not allowed.
pub fn update(
    request: &mut UpdateWorkflowExecutionRequest,
    callbacks: Option<&AllowedTargets>,
    new_id: impl FnOnce() -> String,
) -> Result<(), RequestError> {
    execution(request.workflow_execution.as_ref())?;
    content(request, callbacks, new_id)
}

/// The content of an update, without its caller.
pub fn content(
    request: &mut UpdateWorkflowExecutionRequest,
    callbacks: Option<&AllowedTargets>,
    new_id: impl FnOnce() -> String,
) -> Result<(), RequestError> {
    let meta = request.request.as_mut().and_then(|request| request.meta.as_mut());
    let Some(meta) = meta else { return Err(RequestError::invalid("Update meta is not set on request.")) };
    if meta.update_id.len() > ID_LENGTH_MAX {
        return Err(RequestError::invalid("UpdateId length exceeds limit."));
    }
    if meta.update_id.is_empty() {
        meta.update_id = new_id();
    }
    let Some(input) = request.request.as_ref().and_then(|request| request.input.as_ref()) else {
        return Err(RequestError::invalid("Update input is not set on request."));
    };
    if input.name.is_empty() {
        return Err(RequestError::invalid("Update name is not set on request."));
    }
    let Some(update) = request.request.as_mut() else { return Ok(()) };
    if !update.completion_callbacks.is_empty() && update.request_id.is_empty() {
        let text = "invalid *update.Request: request_id is required when completion_callbacks are set";
        return Err(RequestError::invalid(text));
    }
    match callbacks {
        Some(allowed) => links::callbacks(&mut update.completion_callbacks, allowed),
        None => {
            update.completion_callbacks.clear();
            Ok(())
        }
    }
}

/// A question about an update. Its words are others than those of an update.
pub fn poll(request: &PollWorkflowExecutionUpdateRequest) -> Result<(), RequestError> {
    let Some(update) = &request.update_ref else {
        return Err(RequestError::invalid("UpdateRef is not set on request."));
    };
    let execution = update.workflow_execution.as_ref();
    if execution.is_none_or(|execution| execution.workflow_id.is_empty()) {
        return Err(RequestError::invalid("Can't load workflow execution.  WorkflowId not set."));
    }
    if execution.is_some_and(|execution| !execution.run_id.is_empty() && !is_uuid(&execution.run_id)) {
        return Err(RequestError::invalid("RunId is not valid UUID."));
    }
    Ok(())
}
