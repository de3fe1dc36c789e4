//! The beginning of a Nexus operation, and of its cancellation. [`crate::parts::nexus`] has what follows.

use segno_proto::{
    command::ScheduleNexusOperationCommandAttributes,
    duration_nanos,
    events::{NexusOperationScheduledEventAttributes, history_event::Attributes},
};

use crate::{
    machine::nexus_cancellation::Event,
    state::nexus::{Cancellation, HandlerRequest, Operation},
    transition::{Effect, draft::Draft, steps::CancellationMachine},
};

/// Adds an operation, and the event that schedules it; returns the event's id. The request to the handler is not offered yet.
pub(crate) fn schedule(
    draft: &mut Draft,
    attributes: ScheduleNexusOperationCommandAttributes,
    endpoint_id: String,
    workflow_task_completed_event_id: i64,
) -> i64 {
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
    let headers = attributes.nexus_header.into_iter().map(|(key, value)| (key.to_lowercase(), value));
    draft.add(Attributes::NexusOperationScheduledEventAttributes(NexusOperationScheduledEventAttributes {
        endpoint: attributes.endpoint,
        service: attributes.service,
        operation: attributes.operation,
        input: attributes.input,
        schedule_to_close_timeout: attributes.schedule_to_close_timeout,
        nexus_header: headers.collect(),
        workflow_task_completed_event_id,
        request_id,
        endpoint_id,
        schedule_to_start_timeout: attributes.schedule_to_start_timeout,
        start_to_close_timeout: attributes.start_to_close_timeout,
    }));
    draft.run.state.operations.insert(id, operation.into());
    id
}

/// Adds the cancellation of a pending operation. It is offered to the handler, or waits until the handler has started the operation.
pub(crate) fn request_cancellation(draft: &mut Draft, id: i64, requested_event_id: i64) {
    let requested_time = draft.now();
    let started = draft.run.state.operations.get(&id).is_some_and(|operation| operation.is_started());
    draft.step(CancellationMachine(id), if started { Event::Send } else { Event::Keep }, |draft| {
        let Some(operation) = draft.run.state.operations.get_mut(&id) else { return };
        let request = HandlerRequest::new();
        operation.cancellation =
            Some(Cancellation { requested_event_id, requested_time, request, ..Default::default() });
    });
    if started {
        draft.effect(Effect::OfferNexusRequest(id));
    }
}
