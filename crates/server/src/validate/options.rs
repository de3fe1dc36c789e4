//! Changing options of a run.

use segno_engine::{options::named_version, validate as engine};
use segno_proto::{
    workflow::post_reset_operation::UpdateWorkflowOptions, workflowservice::UpdateWorkflowExecutionOptionsRequest,
};

use super::RequestError;

/// Every path that a mask may have.
const PATHS: [&str; 17] = [
    "priority",
    "priority.fairness_key",
    "priority.fairness_weight",
    "priority.priority_key",
    "time_skipping_config",
    "versioning_override",
    "versioning_override.auto_upgrade",
    "versioning_override.behavior",
    "versioning_override.deployment",
    "versioning_override.deployment.build_id",
    "versioning_override.deployment.series_name",
    "versioning_override.one_time",
    "versioning_override.one_time.target_deployment_version",
    "versioning_override.pinned",
    "versioning_override.pinned.behavior",
    "versioning_override.pinned.version",
    "versioning_override.pinned_version",
];

/// UpdateWorkflowExecutionOptions.
pub fn update(request: &UpdateWorkflowExecutionOptionsRequest) -> Result<(), RequestError> {
    let execution = request.workflow_execution.clone().unwrap_or_default();
    if execution.workflow_id.is_empty() {
        return Err(RequestError::invalid("WorkflowId is not set on request."));
    }
    let Some(mask) = &request.update_mask else { return Err(RequestError::invalid("UpdateMask is required")) };
    let Some(options) = &request.workflow_execution_options else {
        return Err(RequestError::invalid("WorkflowExecutionOptions is required"));
    };
    paths(&mask.paths, "error parsing UpdateMask")?;
    engine::priority(options.priority.as_ref())?;
    if options.time_skipping_config.is_some() {
        return Err(RequestError::unimplemented("The Time-Skipping feature is not enabled for namespace."));
    }
    run_id(&execution.run_id)
}

/// Options that a reset gives its new run. Temporal breaks on what is missing, and takes any priority.
pub fn after_reset(update: &UpdateWorkflowOptions) -> Result<(), RequestError> {
    let Some(mask) = &update.update_mask else { return Err(RequestError::invalid("UpdateMask is required")) };
    if update.workflow_execution_options.as_ref().is_some_and(|options| options.time_skipping_config.is_some()) {
        return Err(RequestError::unimplemented("The Time-Skipping feature is not enabled for namespace."));
    }
    paths(&mask.paths, "error applying update_options")?;
    let Some(options) = &update.workflow_execution_options else {
        return Err(RequestError::invalid("WorkflowExecutionOptions is required"));
    };
    // The new run is pinned to nothing yet, so that an override has to say where.
    if let Some(wanted) = &options.versioning_override {
        named_version(wanted)?;
    }
    Ok(())
}

fn paths(paths: &[String], what: &str) -> Result<(), RequestError> {
    match paths.iter().find(|path| !PATHS.contains(&path.as_str())) {
        // The space is one that does not break, as Go's library writes it.
        Some(unknown) => Err(RequestError::invalid(format!(
            "{what}: proto:\u{a0}invalid path \"{unknown}\" for message \
             \"temporal.api.workflow.v1.WorkflowExecutionOptions\""
        ))),
        None => Ok(()),
    }
}

pub(super) fn run_id(run_id: &str) -> Result<(), RequestError> {
    match run_id.is_empty() || engine::is_uuid(run_id) {
        true => Ok(()),
        false => Err(RequestError::invalid("RunId is not valid UUID.")),
    }
}
