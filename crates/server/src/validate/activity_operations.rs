//! Calls about activities of a workflow: pause, resume, reset, change options.
//!
//! The older calls take a workflow and an id, a type or all; the newer ones name an activity by other fields and have
//! more checks. Without a workflow the newer ones mean standalone activities.

use prost_types::Duration;
use segno_engine::{
    activity_options::{FIELDS, field_path},
    validate as engine,
    validate::{ID_LENGTH_MAX, Invalid},
};
use segno_proto::{
    activity::ActivityOptions,
    common::{Priority, WorkflowExecution},
    workflowservice::{
        PauseActivityExecutionRequest, ResetActivityExecutionRequest, UnpauseActivityExecutionRequest,
        UpdateActivityExecutionOptionsRequest, UpdateActivityOptionsRequest,
    },
};

use super::{RequestError, size::Sizes};

const BOTH: &str = "Both UpdateMask and RestoreOriginal are provided";

/// The target that all older calls have in common. `named` says whether activities are named in any way.
pub fn target(execution: Option<&WorkflowExecution>, named: bool) -> Result<(), RequestError> {
    let execution = execution.cloned().unwrap_or_default();
    if execution.workflow_id.is_empty() {
        return Err(RequestError::invalid("WorkflowId is not set on request."));
    }
    if !named {
        return Err(RequestError::invalid("Either Activity.Id or Activity.Type should be set on request."));
    }
    if !execution.run_id.is_empty() && !engine::is_uuid(&execution.run_id) {
        return Err(RequestError::invalid("RunId is not valid UUID."));
    }
    Ok(())
}

/// A random delay; Temporal checks it in the newer calls and breaks on a negative one in the older.
pub fn jitter(jitter: &mut Option<Duration>) -> Result<(), RequestError> {
    engine::duration(jitter.as_mut()).map_err(|why| RequestError::invalid(format!("invalid jitter: {why}")))
}

/// UpdateActivityOptions.
pub fn update(request: &UpdateActivityOptionsRequest) -> Result<(), RequestError> {
    target(request.execution.as_ref(), request.activity.is_some())?;
    engine::priority(request.activity_options.as_ref().and_then(|options| options.priority.as_ref()))?;
    if request.restore_original && request.update_mask.as_ref().is_some_and(|mask| !mask.paths.is_empty()) {
        return Err(RequestError::invalid(BOTH));
    }
    Ok(())
}

/// PauseActivityExecution.
pub fn pause_execution(request: &PauseActivityExecutionRequest, sizes: Sizes) -> Result<(), RequestError> {
    let PauseActivityExecutionRequest { request_id, activity_id, identity, run_id, .. } = request;
    execution(request_id, activity_id, identity, run_id)?;
    if request.reason.len() > sizes.blob {
        return Err(RequestError::invalid("reason exceeds length limit"));
    }
    Ok(())
}

/// UnpauseActivityExecution.
pub fn unpause_execution(request: &mut UnpauseActivityExecutionRequest) -> Result<(), RequestError> {
    let UnpauseActivityExecutionRequest { request_id, activity_id, identity, run_id, .. } = request;
    execution(request_id, activity_id, identity, run_id)?;
    jitter(&mut request.jitter)
}

/// ResetActivityExecution.
pub fn reset_execution(request: &mut ResetActivityExecutionRequest) -> Result<(), RequestError> {
    let ResetActivityExecutionRequest { request_id, activity_id, identity, run_id, .. } = request;
    execution(request_id, activity_id, identity, run_id)?;
    jitter(&mut request.jitter)
}

/// UpdateActivityExecutionOptions. A retry policy given as a whole gets defaults.
pub fn update_execution(request: &mut UpdateActivityExecutionOptionsRequest) -> Result<(), RequestError> {
    let UpdateActivityExecutionOptionsRequest { request_id, activity_id, identity, run_id, .. } = request;
    execution(request_id, activity_id, identity, run_id)?;
    let paths = request.update_mask.as_ref().map(|mask| mask.paths.as_slice());
    if request.restore_original {
        return if paths.is_some_and(|paths| !paths.is_empty()) { Err(RequestError::invalid(BOTH)) } else { Ok(()) };
    }
    let Some(options) = &mut request.activity_options else {
        return Err(RequestError::invalid("ActivityOptions are not provided"));
    };
    let Some(paths) = paths else { return Err(RequestError::invalid("UpdateMask is not provided")) };
    if paths.is_empty() {
        return Err(RequestError::invalid("UpdateMask must specify at least one path"));
    }
    if let Some(path) = paths.iter().find(|path| !FIELDS.contains(&field_path(path).as_str())) {
        return Err(RequestError::invalid(format!("unsupported update_mask path: {path:?}")));
    }
    let paths: Vec<String> = paths.iter().map(|path| field_path(path)).collect();
    for field in FIELDS.iter().filter(|field| paths.iter().any(|path| path == *field)) {
        value(options, field)?;
    }
    Ok(())
}

fn execution(request_id: &str, activity_id: &str, identity: &str, run_id: &str) -> Result<(), RequestError> {
    length("request ID", request_id)?;
    if activity_id.is_empty() {
        return Err(RequestError::invalid("activity ID is required"));
    }
    length("activity ID", activity_id)?;
    length("identity", identity)?;
    if !run_id.is_empty() && !engine::is_uuid(run_id) {
        return Err(RequestError::invalid("invalid run id: must be a valid UUID"));
    }
    Ok(())
}

fn length(what: &str, text: &str) -> Result<(), RequestError> {
    if text.len() <= ID_LENGTH_MAX {
        return Ok(());
    }
    Err(RequestError::invalid(format!("{what} exceeds length limit. Length={} Limit={ID_LENGTH_MAX}", text.len())))
}

/// One value that is to be changed.
fn value(options: &mut ActivityOptions, field: &str) -> Result<(), RequestError> {
    let timeout = |name: &str, timeout: &mut Option<Duration>| {
        engine::duration(timeout.as_mut()).map_err(|why| Invalid(format!("invalid {name}: {why}")))
    };
    let interval = |name: &str, interval: &mut Option<Duration>| {
        engine::duration(interval.as_mut()).map_err(|why| Invalid(format!("invalid {name} set on retry policy: {why}")))
    };
    let mut policy = options.retry_policy.clone().unwrap_or_default();
    let priority = options.priority.clone().unwrap_or_default();
    match field {
        "taskQueue.name" => engine::task_queue_user_defined(options.task_queue.as_mut(), "", "")?,
        "scheduleToCloseTimeout" => timeout("ScheduleToCloseTimeout", &mut options.schedule_to_close_timeout)?,
        "scheduleToStartTimeout" => timeout("ScheduleToStartTimeout", &mut options.schedule_to_start_timeout)?,
        "startToCloseTimeout" => timeout("StartToCloseTimeout", &mut options.start_to_close_timeout)?,
        "heartbeatTimeout" => timeout("HeartbeatTimeout", &mut options.heartbeat_timeout)?,
        "startDelay" => timeout("StartDelay", &mut options.start_delay)?,
        "retryPolicy" => engine::retry_policy(options.retry_policy.get_or_insert_default())?,
        "retryPolicy.initialInterval" => interval("InitialInterval", &mut policy.initial_interval)?,
        "retryPolicy.maximumInterval" => interval("MaximumInterval", &mut policy.maximum_interval)?,
        "retryPolicy.backoffCoefficient" if policy.backoff_coefficient < 1.0 => {
            return Err(RequestError::invalid("BackoffCoefficient cannot be less than 1 on retry policy."));
        }
        "retryPolicy.maximumAttempts" if policy.maximum_attempts < 0 => {
            return Err(RequestError::invalid("MaximumAttempts cannot be negative on retry policy."));
        }
        // A part of a priority is looked at by itself.
        "priority" => engine::priority(Some(&priority))?,
        "priority.priorityKey" => {
            engine::priority(Some(&Priority { priority_key: priority.priority_key, ..Default::default() }))?;
        }
        "priority.fairnessKey" => {
            engine::priority(Some(&Priority { fairness_key: priority.fairness_key, ..Default::default() }))?;
        }
        "priority.fairnessWeight" => {
            engine::priority(Some(&Priority { fairness_weight: priority.fairness_weight, ..Default::default() }))?;
        }
        _ => {}
    }
    Ok(())
}
