//! Request that a Nexus operation is cancelled.

use segno_proto::{
    command::RequestCancelNexusOperationCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{NexusOperationCancelRequestedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::CommandScope,
    error::{CommandError, TaskFailure},
    parts::nexus_begin,
    transition::draft::Draft,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    attributes: Option<RequestCancelNexusOperationCommandAttributes>,
) -> Result<(), CommandError> {
    let Some(attributes) = attributes else { return refuse("empty CancelNexusOperationCommandAttributes".to_owned()) };
    let id = attributes.scheduled_event_id;
    let known = draft.run.state.operations.get(&id);
    if known.is_none() && !end_is_buffered(draft, id) {
        return refuse(format!(
            "requested cancelation for a non-existing or already completed operation with scheduled event ID of {id}"
        ));
    }
    if known.is_some_and(|operation| operation.cancellation.is_some()) {
        return refuse(format!("cancelation was already requested for an operation with scheduled event ID {id}"));
    }
    // An operation that has ended meanwhile is left alone.
    let is_pending = known.is_some();
    let requested_event_id = draft.add(Attributes::NexusOperationCancelRequestedEventAttributes(
        NexusOperationCancelRequestedEventAttributes {
            scheduled_event_id: id,
            workflow_task_completed_event_id: scope.completed_event_id,
        },
    ));
    if is_pending {
        nexus_begin::request_cancellation(draft, id, requested_event_id);
    }
    Ok(())
}

fn refuse(text: String) -> Result<(), CommandError> {
    Err(CommandError::Task(TaskFailure::new(Cause::BadRequestCancelNexusOperationAttributes, text)))
}

/// Whether the end of an operation waits among the events that the workflow has not seen.
fn end_is_buffered(draft: &Draft, id: i64) -> bool {
    draft.run.state.buffered.iter().any(|event| match &event.attributes {
        Some(Attributes::NexusOperationCompletedEventAttributes(a)) => a.scheduled_event_id == id,
        Some(Attributes::NexusOperationFailedEventAttributes(a)) => a.scheduled_event_id == id,
        Some(Attributes::NexusOperationCanceledEventAttributes(a)) => a.scheduled_event_id == id,
        Some(Attributes::NexusOperationTimedOutEventAttributes(a)) => a.scheduled_event_id == id,
        _ => false,
    })
}
