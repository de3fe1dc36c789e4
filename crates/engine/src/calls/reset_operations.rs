//! Nexus operations of a run that is reset: what handlers reported about those that its new history has scheduled happens to the new
//! run as well.

use segno_proto::events::{HistoryEvent, history_event::Attributes as A};

use crate::{
    events::event,
    machine::nexus_operation::{self, Event},
    state::{machines, run::Run},
    transition::{Effect, draft::Draft, steps::OperationMachine},
};

/// Applies what a handler reported, if the new run waits for it. Operations are recognised by their request ids. Gives the attributes
/// back if they are of another event.
pub(crate) fn reapply(draft: &mut Draft, past: &HistoryEvent, attributes: A) -> Option<A> {
    let (id, request_id, step) = match &attributes {
        A::NexusOperationStartedEventAttributes(a) => (a.scheduled_event_id, &a.request_id, Event::Start),
        A::NexusOperationCompletedEventAttributes(a) => (a.scheduled_event_id, &a.request_id, Event::End),
        A::NexusOperationFailedEventAttributes(a) => (a.scheduled_event_id, &a.request_id, Event::End),
        A::NexusOperationCanceledEventAttributes(a) => (a.scheduled_event_id, &a.request_id, Event::End),
        A::NexusOperationTimedOutEventAttributes(a) => (a.scheduled_event_id, &a.request_id, Event::End),
        _ => return Some(attributes),
    };
    let now = draft.now();
    if !waits_for(&draft.run, id, request_id, step, now) {
        return None;
    }
    let token = match &attributes {
        A::NexusOperationStartedEventAttributes(a) => a.operation_token.clone(),
        _ => String::new(),
    };
    draft.add_external_event(HistoryEvent { links: past.links.clone(), ..event(now, attributes) });
    draft.step(OperationMachine(id), step, |draft| match step {
        Event::Start => {
            let Some(operation) = draft.run.state.operations.get_mut(&id) else { return };
            operation.start(token, now, now);
        }
        _ => drop(draft.run.state.operations.remove(&id)),
    });
    // A cancellation that waited for the start goes to the handler.
    if draft.run.state.operations.get(&id).is_some_and(|operation| operation.is_waiting(now)) {
        draft.effect(Effect::OfferNexusRequest(id));
    }
    None
}

/// Whether an operation is pending that this can happen to.
fn waits_for(run: &Run, id: i64, request_id: &str, step: Event, now: i64) -> bool {
    let operation = run.state.operations.get(&id).filter(|operation| operation.request_id == request_id);
    operation.is_some_and(|operation| nexus_operation::next(machines::nexus_operation(operation, now), step).is_ok())
}
