//! Schedule a Nexus operation.

use segno_proto::{
    command::ScheduleNexusOperationCommandAttributes,
    duration_nanos,
    enums::WorkflowTaskFailedCause as Cause,
    events::{NexusOperationScheduledEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, limit_size, size_of},
    error::{CommandError, TaskFailure},
    parts::nexus,
    state::nexus::{HandlerRequest, Operation},
    transition::{Effect, draft::Draft},
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    attributes: Option<ScheduleNexusOperationCommandAttributes>,
) -> Result<(), CommandError> {
    let mut attributes = attributes;
    let endpoint = attributes.as_ref().and_then(|attributes| (scope.surroundings.endpoint)(&attributes.endpoint));
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
    let id = draft.run.state.next_event_id;
    let request_id = draft.context.derived_uuid_of(id);
    let operation = Operation {
        scheduled_event_id: id,
        endpoint: attributes.endpoint.clone(),
        endpoint_id: endpoint_id.clone(),
        service: attributes.service.clone(),
        operation: attributes.operation.clone(),
        request_id: request_id.clone(),
        schedule_to_close: duration_nanos(attributes.schedule_to_close_timeout.as_ref()),
        schedule_to_start: duration_nanos(attributes.schedule_to_start_timeout.as_ref()),
        start_to_close: duration_nanos(attributes.start_to_close_timeout.as_ref()),
        scheduled_time: draft.now(),
        start: HandlerRequest::new(),
        ..Default::default()
    };
    let is_named = !operation.service.is_empty() && !operation.operation.is_empty();
    let headers = attributes.nexus_header.into_iter().map(|(key, value)| (key.to_lowercase(), value));
    draft.add(Attributes::NexusOperationScheduledEventAttributes(NexusOperationScheduledEventAttributes {
        endpoint: attributes.endpoint,
        service: attributes.service,
        operation: attributes.operation,
        input: attributes.input,
        schedule_to_close_timeout: attributes.schedule_to_close_timeout,
        nexus_header: headers.collect(),
        workflow_task_completed_event_id: scope.completed_event_id,
        request_id,
        endpoint_id,
        schedule_to_start_timeout: attributes.schedule_to_start_timeout,
        start_to_close_timeout: attributes.start_to_close_timeout,
    }));
    draft.run.state.operations.insert(id, operation.into());
    if is_named {
        draft.effect(Effect::OfferNexusRequest(id));
    } else {
        // No handler has an operation without a name.
        nexus::fail(draft, id, nexus::handler_failure("NOT_FOUND", "not found", Default::default()));
        scope.has_ended_at_once = true;
    }
    Ok(())
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
