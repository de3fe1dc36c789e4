//! Schedule a Nexus operation.

use segno_proto::{command::ScheduleNexusOperationCommandAttributes, enums::WorkflowTaskFailedCause as Cause};

use crate::{
    commands::scope::{CommandScope, limit_size, size_of},
    error::{CommandError, TaskFailure},
    parts::{nexus, nexus_begin},
    state::nexus::SYSTEM_ENDPOINT,
    transition::{Effect, draft::Draft},
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<ScheduleNexusOperationCommandAttributes>,
) -> Result<(), CommandError> {
    let endpoint = match &attributes {
        Some(attributes) => endpoint_id(scope, attributes)?,
        None => None,
    };
    validate::nexus_commands::schedule(attributes.as_mut(), endpoint.is_some(), draft.run.info.run_timeout)?;
    let (Some(attributes), Some(endpoint_id)) = (attributes, endpoint) else { return Ok(()) };
    limit_size(
        draft,
        size_of(attributes.input.as_ref()),
        Cause::BadScheduleNexusOperationAttributes,
        "ScheduleNexusOperationCommandAttributes.Input exceeds size limit",
    )?;
    validate::nexus_commands::headers(&attributes.nexus_header)?;
    limit_operations(draft)?;
    let is_named = !attributes.service.is_empty() && !attributes.operation.is_empty();
    let id = nexus_begin::schedule(draft, attributes, endpoint_id, scope.completed_event_id);
    if is_named {
        draft.effect(Effect::OfferNexusRequest(id));
    } else {
        // No handler has an operation without a name.
        nexus::fail(draft, id, nexus::handler_failure("NOT_FOUND", "not found", Default::default()));
        scope.has_ended_at_once = true;
    }
    Ok(())
}

/// The id of the endpoint that a command names, if there is one; empty for the server's own.
fn endpoint_id(
    scope: &CommandScope<'_>,
    attributes: &ScheduleNexusOperationCommandAttributes,
) -> Result<Option<String>, CommandError> {
    if attributes.endpoint != SYSTEM_ENDPOINT {
        return Ok((scope.surroundings.endpoint)(&attributes.endpoint));
    }
    validate::nexus_commands::no_headers(&attributes.nexus_header)?;
    match (scope.surroundings.system_operation)(attributes) {
        Ok(()) => Ok(Some(String::new())),
        Err(why) => Err(CommandError::Task(TaskFailure::new(Cause::BadScheduleNexusOperationAttributes, why))),
    }
}

fn limit_operations(draft: &Draft) -> Result<(), CommandError> {
    let most = draft.context.limits.pending_operations;
    if draft.run.state.operations.len() < most {
        return Ok(());
    }
    Err(CommandError::Task(TaskFailure::new(
        Cause::PendingNexusOperationsLimitExceeded,
        format!("workflow has reached the pending nexus operation limit of {most} for this namespace"),
    )))
}
