//! Pausing and unpausing a run: the two calls have the same fields and the same rules.

use segno_engine::validate::ID_LENGTH_MAX;
use segno_proto::workflowservice::{PauseWorkflowExecutionRequest, UnpauseWorkflowExecutionRequest};

use super::{RequestError, options::run_id, size::Sizes};

/// The fields that both calls have.
#[derive(Clone, Copy, Debug)]
pub struct PauseRequest<'a> {
    workflow_id: &'a str,
    run_id: &'a str,
    identity: &'a str,
    reason: &'a str,
    request_id: &'a str,
}

impl<'a> From<&'a PauseWorkflowExecutionRequest> for PauseRequest<'a> {
    fn from(request: &'a PauseWorkflowExecutionRequest) -> Self {
        let PauseWorkflowExecutionRequest { namespace: _, workflow_id, run_id, identity, reason, request_id } = request;
        Self { workflow_id, run_id, identity, reason, request_id }
    }
}

impl<'a> From<&'a UnpauseWorkflowExecutionRequest> for PauseRequest<'a> {
    fn from(request: &'a UnpauseWorkflowExecutionRequest) -> Self {
        let UnpauseWorkflowExecutionRequest { namespace: _, workflow_id, run_id, identity, reason, request_id } =
            request;
        Self { workflow_id, run_id, identity, reason, request_id }
    }
}

/// Refuses what is too long or names no run.
pub fn check(call: PauseRequest<'_>, sizes: Sizes) -> Result<(), RequestError> {
    let invalid = |text: &str| Err(RequestError::invalid(text));
    if call.reason.len() > sizes.blob.min(ID_LENGTH_MAX) {
        return invalid("reason is too long.");
    }
    if call.identity.len() > ID_LENGTH_MAX {
        return invalid("identity is too long.");
    }
    if call.request_id.len() > ID_LENGTH_MAX {
        return invalid("request id is too long.");
    }
    if call.workflow_id.is_empty() {
        return invalid("Can't load workflow execution.  WorkflowId not set.");
    }
    run_id(call.run_id)
}
