//! The two halves of an update-with-start.

use segno_engine::search_attributes::Rules;
use segno_node::AllowedTargets;
use segno_proto::{
    duration_nanos,
    workflowservice::{StartWorkflowExecutionRequest, UpdateWorkflowExecutionRequest},
};

use super::{RequestError, execution, size::Sizes, start, update};

fn same_namespace(namespace: &str, named: &str) -> Result<(), RequestError> {
    match named.is_empty() || named == namespace {
        true => Ok(()),
        false => Err(RequestError::invalid("Operation namespace did not match request's namespace.")),
    }
}

/// The start.
pub fn start(
    namespace: &str,
    request: &mut StartWorkflowExecutionRequest,
    rules: &Rules<'_>,
    sizes: Sizes,
    callbacks: &AllowedTargets,
    new_id: &dyn Fn() -> String,
) -> Result<(), RequestError> {
    same_namespace(namespace, &request.namespace)?;
    namespace.clone_into(&mut request.namespace);
    start::start_workflow(request, rules, sizes, callbacks, new_id)?;
    if !request.cron_schedule.is_empty() {
        return Err(RequestError::invalid("CronSchedule is not allowed."));
    }
    if request.request_eager_execution {
        return Err(RequestError::invalid("RequestEagerExecution is not supported."));
    }
    if duration_nanos(request.workflow_start_delay.as_ref()) > 0 {
        return Err(RequestError::invalid("WorkflowStartDelay is not supported."));
    }
    Ok(())
}

/// The update.
pub fn update(
    namespace: &str,
    workflow_id: Option<&str>,
    request: &mut UpdateWorkflowExecutionRequest,
    callbacks: Option<&AllowedTargets>,
    new_id: impl FnOnce() -> String,
) -> Result<(), RequestError> {
    same_namespace(namespace, &request.namespace)?;
    execution(request.workflow_execution.as_ref())?;
    update::content(request, callbacks, new_id)?;
    let named = request.workflow_execution.clone().unwrap_or_default();
    if workflow_id.is_some_and(|workflow_id| named.workflow_id != workflow_id) {
        return Err(RequestError::invalid("WorkflowId is not consistent with previous operation(s)."));
    }
    if !request.first_execution_run_id.is_empty() {
        return Err(RequestError::invalid("FirstExecutionRunId is not allowed."));
    }
    if !named.run_id.is_empty() {
        return Err(RequestError::invalid("RunId is not allowed."));
    }
    Ok(())
}
