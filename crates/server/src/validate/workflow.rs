//! Requests about an existing workflow: signal, query, cancel, terminate, delete, describe, read its history.

use segno_proto::enums::{HistoryEventFilterType, QueryRejectCondition};
use segno_proto::workflowservice::{
    DeleteWorkflowExecutionRequest, DescribeWorkflowExecutionRequest, GetWorkflowExecutionHistoryRequest,
    GetWorkflowExecutionHistoryReverseRequest, QueryWorkflowRequest, RequestCancelWorkflowExecutionRequest,
    ResetStickyTaskQueueRequest, ResetWorkflowExecutionRequest, SignalWorkflowExecutionRequest,
    TerminateWorkflowExecutionRequest,
};

use super::{RequestError, at_most, execution, links, size::Sizes};

/// How many events a page of history holds, at most and unless the request asks for fewer.
pub const HISTORY_PAGE_MAX: i32 = 256;

/// SignalWorkflowExecution.
pub fn signal(request: &mut SignalWorkflowExecutionRequest, sizes: Sizes) -> Result<(), RequestError> {
    execution(request.workflow_execution.as_ref())?;
    if request.signal_name.is_empty() {
        return Err(RequestError::invalid("SignalName is not set on request."));
    }
    at_most(&request.signal_name, "SignalName length exceeds limit.")?;
    at_most(&request.request_id, "RequestId length exceeds limit.")?;
    links::check(&request.links)?;
    sizes.check(request.input.as_ref())
}

/// QueryWorkflow.
pub fn query(request: &mut QueryWorkflowRequest, sizes: Sizes) -> Result<(), RequestError> {
    execution(request.execution.as_ref())?;
    let Some(query) = &request.query else { return Err(RequestError::invalid("WorkflowQuery is not set on request.")) };
    if query.query_type.is_empty() {
        return Err(RequestError::invalid("QueryType is not set on request."));
    }
    if request.query_reject_condition == QueryRejectCondition::Unspecified as i32 {
        request.query_reject_condition = QueryRejectCondition::None as i32;
    }
    sizes.check(query.query_args.as_ref())
}

/// RequestCancelWorkflowExecution.
pub fn request_cancel(request: &mut RequestCancelWorkflowExecutionRequest) -> Result<(), RequestError> {
    execution(request.workflow_execution.as_ref())?;
    links::check(&request.links)
}

/// TerminateWorkflowExecution. Reason and identity get defaults that tell a user's doing from the server's.
pub fn terminate(request: &mut TerminateWorkflowExecutionRequest) -> Result<(), RequestError> {
    execution(request.workflow_execution.as_ref())?;
    links::check(&request.links)?;
    if request.reason.is_empty() {
        request.reason = "terminated by user via frontend".into();
    }
    if request.identity.is_empty() {
        request.identity = "frontend-service".into();
    }
    Ok(())
}

/// DeleteWorkflowExecution.
pub fn delete(request: &mut DeleteWorkflowExecutionRequest) -> Result<(), RequestError> {
    execution(request.workflow_execution.as_ref())
}

/// ResetWorkflowExecution.
pub fn reset(request: &ResetWorkflowExecutionRequest) -> Result<(), RequestError> {
    if request.request_id.is_empty() {
        return Err(RequestError::invalid("RequestId is not set on request."));
    }
    at_most(&request.request_id, "RequestId length exceeds limit.")?;
    execution(request.workflow_execution.as_ref())
}

/// DescribeWorkflowExecution.
pub fn describe(request: &mut DescribeWorkflowExecutionRequest) -> Result<(), RequestError> {
    execution(request.execution.as_ref())
}

/// GetWorkflowExecutionHistory.
pub fn history(request: &mut GetWorkflowExecutionHistoryRequest) -> Result<(), RequestError> {
    execution(request.execution.as_ref())?;
    request.maximum_page_size = page_size(request.maximum_page_size);
    if request.history_event_filter_type == HistoryEventFilterType::Unspecified as i32 {
        request.history_event_filter_type = HistoryEventFilterType::AllEvent as i32;
    }
    Ok(())
}

/// GetWorkflowExecutionHistoryReverse.
pub fn history_reverse(request: &mut GetWorkflowExecutionHistoryReverseRequest) -> Result<(), RequestError> {
    execution(request.execution.as_ref())?;
    request.maximum_page_size = page_size(request.maximum_page_size);
    Ok(())
}

/// ResetStickyTaskQueue.
pub fn reset_sticky(request: &mut ResetStickyTaskQueueRequest) -> Result<(), RequestError> {
    execution(request.execution.as_ref())
}

fn page_size(asked: i32) -> i32 {
    if asked <= 0 { HISTORY_PAGE_MAX } else { asked.min(HISTORY_PAGE_MAX) }
}
