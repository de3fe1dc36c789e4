//! StartWorkflowExecution and SignalWithStartWorkflowExecution.
//!
//! The two check nearly the same things in different order and words; so do they here.

use prost_types::Duration;
use segno_engine::cron;
use segno_engine::search_attributes::Rules;
use segno_engine::validate::{
    ID_LENGTH_MAX, Invalid, duration, effective_run_timeout, effective_task_timeout, priority, retry_policy,
    task_queue_user_defined,
};
use segno_node::AllowedTargets;
use segno_proto::common::{SearchAttributes, TimeSkippingConfig};
use segno_proto::enums::{WorkflowIdConflictPolicy as Conflict, WorkflowIdReusePolicy as Reuse};
use segno_proto::workflowservice::{SignalWithStartWorkflowExecutionRequest, StartWorkflowExecutionRequest};
use segno_proto::{duration_nanos, nanos_duration};

use super::{
    RequestError, at_most, links,
    size::{self, Sizes},
};

/// `new_id` makes the request id of a request that has none. `callbacks` are the URLs that callbacks may have.
pub fn start_workflow(
    request: &mut StartWorkflowExecutionRequest,
    rules: &Rules<'_>,
    sizes: Sizes,
    callbacks: &AllowedTargets,
    new_id: &dyn Fn() -> String,
) -> Result<(), RequestError> {
    id_policies(&mut request.workflow_id_reuse_policy, &mut request.workflow_id_conflict_policy, Conflict::Fail);
    workflow_id(&request.workflow_id)?;
    if let Some(policy) = &mut request.retry_policy {
        retry_policy(policy)?;
    }
    start_delay(&request.cron_schedule, request.workflow_start_delay.as_mut())?;
    cron::validate(&request.cron_schedule).map_err(RequestError::invalid)?;
    let kind = request.workflow_type.as_ref().map_or("", |kind| &kind.name);
    if kind.is_empty() {
        return Err(RequestError::invalid("WorkflowType is not set on request."));
    }
    at_most(kind, "WorkflowType length exceeds limit.")?;
    task_queue_user_defined(request.task_queue.as_mut(), "", "")?;
    timeouts(
        request.workflow_execution_timeout.as_mut(),
        request.workflow_run_timeout.as_mut(),
        request.workflow_task_timeout.as_mut(),
    )?;
    if request.request_id.is_empty() {
        request.request_id = new_id();
    }
    at_most(&request.request_id, "RequestId length exceeds limit.")?;
    id_policies_together(request.workflow_id_reuse_policy, request.workflow_id_conflict_policy)?;
    if request.on_conflict_options.as_ref().is_some_and(|o| o.attach_completion_callbacks && !o.attach_request_id) {
        return Err(RequestError::invalid("attaching request ID is required for attaching completion callbacks"));
    }
    search_attributes(request.search_attributes.as_ref(), rules)?;
    priority(request.priority.as_ref())?;
    links::callbacks(&mut request.completion_callbacks, callbacks)?;
    links::without_those_of_callbacks(&mut request.links, &request.completion_callbacks);
    let of_callbacks = request.completion_callbacks.iter().flat_map(|callback| &callback.links);
    links::check(request.links.iter().chain(of_callbacks))?;
    time_skipping(request.time_skipping_config.as_ref())?;

    timeouts_in_effect(
        request.workflow_execution_timeout.as_ref(),
        &mut request.workflow_run_timeout,
        &mut request.workflow_task_timeout,
    );
    sizes.check(request.input.as_ref())?;
    size::memo(request.memo.as_ref())
}

/// `new_id` makes the request id of a request that has none.
pub fn signal_with_start(
    request: &mut SignalWithStartWorkflowExecutionRequest,
    rules: &Rules<'_>,
    sizes: Sizes,
    new_id: &dyn Fn() -> String,
) -> Result<(), RequestError> {
    cron::validate(&request.cron_schedule).map_err(RequestError::invalid)?;
    workflow_id(&request.workflow_id)?;
    if request.signal_name.is_empty() {
        return Err(RequestError::invalid("signal not set"));
    }
    counted("signal name exceeds maximum allowed length", &request.signal_name)?;
    let kind = request.workflow_type.as_ref().map_or("", |kind| &kind.name);
    if kind.is_empty() {
        return Err(RequestError::invalid("workflow type not set"));
    }
    counted("workflow type name exceeds maximum allowed length", kind)?;
    task_queue_user_defined(request.task_queue.as_mut(), "", "")?;
    if request.request_id.is_empty() {
        request.request_id = new_id();
    }
    counted("Request ID exceeds maximum allowed length", &request.request_id)?;
    timeouts(
        request.workflow_execution_timeout.as_mut(),
        request.workflow_run_timeout.as_mut(),
        request.workflow_task_timeout.as_mut(),
    )?;
    if let Some(policy) = &mut request.retry_policy {
        retry_policy(policy)?;
    }
    start_delay(&request.cron_schedule, request.workflow_start_delay.as_mut())?;
    id_policies_together(request.workflow_id_reuse_policy, request.workflow_id_conflict_policy)?;
    if request.workflow_id_conflict_policy == Conflict::Fail as i32 {
        return Err(RequestError::invalid(
            "Invalid WorkflowIDConflictPolicy: WORKFLOW_ID_CONFLICT_POLICY_FAIL is not supported for this operation.",
        ));
    }
    id_policies(&mut request.workflow_id_reuse_policy, &mut request.workflow_id_conflict_policy, Conflict::UseExisting);
    search_attributes(request.search_attributes.as_ref(), rules)?;
    priority(request.priority.as_ref())?;
    links::check(&request.links)?;
    time_skipping(request.time_skipping_config.as_ref())?;

    timeouts_in_effect(
        request.workflow_execution_timeout.as_ref(),
        &mut request.workflow_run_timeout,
        &mut request.workflow_task_timeout,
    );
    sizes.check(request.input.as_ref())?;
    size::memo(request.memo.as_ref())?;
    sizes.check(request.signal_input.as_ref())
}

/// Fills in both id policies. `TERMINATE_IF_RUNNING`, deprecated, was a reuse policy and is now a conflict policy.
#[expect(deprecated, reason = "clients may still send the old reuse policy")]
pub fn id_policies(reuse: &mut i32, conflict: &mut i32, default: Conflict) {
    if *conflict == Conflict::Unspecified as i32 {
        if *reuse == Reuse::TerminateIfRunning as i32 {
            *conflict = Conflict::TerminateExisting as i32;
            *reuse = Reuse::AllowDuplicate as i32;
        } else {
            *conflict = default as i32;
        }
    }
    if *reuse == Reuse::Unspecified as i32 {
        *reuse = Reuse::AllowDuplicate as i32;
    }
}

#[expect(deprecated, reason = "clients may still send the old reuse policy")]
fn id_policies_together(reuse: i32, conflict: i32) -> Result<(), RequestError> {
    if conflict != Conflict::Unspecified as i32 && reuse == Reuse::TerminateIfRunning as i32 {
        return Err(RequestError::invalid(
            "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING cannot be used together \
             with a WorkflowIDConflictPolicy",
        ));
    }
    if conflict == Conflict::TerminateExisting as i32 && reuse == Reuse::RejectDuplicate as i32 {
        return Err(RequestError::invalid(
            "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE cannot be used together with \
             WorkflowIdConflictPolicy WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING",
        ));
    }
    Ok(())
}

pub(super) fn workflow_id(id: &str) -> Result<(), RequestError> {
    if id.is_empty() {
        return Err(RequestError::invalid("WorkflowId is not set on request."));
    }
    counted("WorkflowId exceeds maximum allowed length", id)
}

fn counted(text: &str, id: &str) -> Result<(), RequestError> {
    if id.len() > ID_LENGTH_MAX {
        return Err(RequestError::invalid(format!("{text} ({}/{ID_LENGTH_MAX})", id.len())));
    }
    Ok(())
}

fn start_delay(cron_schedule: &str, delay: Option<&mut Duration>) -> Result<(), RequestError> {
    if !cron_schedule.is_empty() && delay.is_some() {
        return Err(RequestError::invalid("CronSchedule and WorkflowStartDelay may not be used together."));
    }
    timeout("WorkflowStartDelaySeconds", delay)
}

pub(super) fn timeouts(
    execution: Option<&mut Duration>,
    run: Option<&mut Duration>,
    task: Option<&mut Duration>,
) -> Result<(), RequestError> {
    timeout("WorkflowExecutionTimeoutSeconds", execution)?;
    timeout("WorkflowRunTimeoutSeconds", run)?;
    timeout("WorkflowTaskTimeoutSeconds", task)
}

fn timeout(what: &str, timeout: Option<&mut Duration>) -> Result<(), RequestError> {
    duration(timeout)
        .map_err(|why: Invalid| RequestError::invalid(format!("An invalid {what} is set on request. cause: {why}")))
}

/// Writes the run and task timeouts that will hold; what is already right is left as it came, absent included.
fn timeouts_in_effect(execution: Option<&Duration>, run: &mut Option<Duration>, task: &mut Option<Duration>) {
    let run_nanos = effective_run_timeout(duration_nanos(run.as_ref()), duration_nanos(execution));
    if run_nanos != duration_nanos(run.as_ref()) {
        *run = Some(nanos_duration(run_nanos));
    }
    let task_nanos = effective_task_timeout(duration_nanos(task.as_ref()), run_nanos);
    if task_nanos != duration_nanos(task.as_ref()) {
        *task = Some(nanos_duration(task_nanos));
    }
}

fn search_attributes(attributes: Option<&SearchAttributes>, rules: &Rules<'_>) -> Result<(), RequestError> {
    attributes.map_or(Ok(()), |attributes| rules.check(attributes)).map_err(RequestError::from)
}

fn time_skipping(config: Option<&TimeSkippingConfig>) -> Result<(), RequestError> {
    match config {
        None => Ok(()),
        Some(_) => Err(RequestError::unimplemented("The Time-Skipping feature is not enabled for namespace.")),
    }
}
