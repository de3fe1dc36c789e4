//! Events of Nexus operations, delivered to the futures that wait for them.

use segno_proto::{
    common::Payload,
    events::history_event::Attributes,
    failure::{Failure as WireFailure, NexusOperationFailureInfo, failure::FailureInfo},
};

use super::{
    core::Core,
    events::resolve_event,
    nexus_start::resolve_started,
    operation::{OpKind, Outcome},
};
use crate::{failure::Failure, options::NexusCancellationType};

/// The scheduled event of the operation that this event ends.
pub(crate) fn ended(attributes: &Attributes) -> Option<i64> {
    use Attributes as A;
    Some(match attributes {
        A::NexusOperationCompletedEventAttributes(event) => event.scheduled_event_id,
        A::NexusOperationFailedEventAttributes(event) => event.scheduled_event_id,
        A::NexusOperationCanceledEventAttributes(event) => event.scheduled_event_id,
        A::NexusOperationTimedOutEventAttributes(event) => event.scheduled_event_id,
        _ => return None,
    })
}

/// Applies an event of an operation; other events change nothing.
pub(super) fn deliver(core: &mut Core, attributes: Attributes) {
    use Attributes as A;
    match attributes {
        A::NexusOperationStartedEventAttributes(event) => {
            let Some(id) = core.by_event.get(&event.scheduled_event_id).copied() else { return };
            if let Some(OpKind::Nexus { token, .. }) = core.ops.get_mut(&id).map(|op| &mut op.kind) {
                *token = Some(event.operation_token.clone());
            }
            resolve_started(core, id, &Ok(Some(event.operation_token)));
        }
        A::NexusOperationCompletedEventAttributes(event) => {
            // No value at all is how handlers in other languages say that there is none.
            let is_value = |value: &Payload| !value.metadata.is_empty() || !value.data.is_empty();
            let result = event.result.into_iter().filter(is_value).collect();
            end(core, event.scheduled_event_id, Ok(result));
        }
        A::NexusOperationFailedEventAttributes(event) => fail(core, event.scheduled_event_id, event.failure),
        A::NexusOperationCanceledEventAttributes(event) => fail(core, event.scheduled_event_id, event.failure),
        A::NexusOperationTimedOutEventAttributes(event) => fail(core, event.scheduled_event_id, event.failure),
        A::NexusOperationCancelRequestCompletedEventAttributes(event)
            if waits_for_request(core, event.scheduled_event_id) =>
        {
            end(core, event.scheduled_event_id, Err(Failure::cancelled()));
        }
        A::NexusOperationCancelRequestFailedEventAttributes(event)
            if waits_for_request(core, event.scheduled_event_id) =>
        {
            let failure = not_cancelled(core, event.scheduled_event_id, event.failure);
            end(core, event.scheduled_event_id, Err(failure));
        }
        _ => {}
    }
}

/// Whether the code waits until the handler has taken the request to cancel.
fn waits_for_request(core: &Core, scheduled_event_id: i64) -> bool {
    let op = core.by_event.get(&scheduled_event_id).and_then(|id| core.ops.get(id));
    op.is_some_and(|op| {
        matches!(op.kind, OpKind::Nexus { cancellation: NexusCancellationType::WaitRequested, .. }) && op.cancel_sent
    })
}

fn fail(core: &mut Core, scheduled_event_id: i64, failure: Option<WireFailure>) {
    end(core, scheduled_event_id, Err(Failure::from_wire(failure.unwrap_or_default())));
}

fn end(core: &mut Core, scheduled_event_id: i64, outcome: Outcome) {
    if let Some(id) = core.by_event.get(&scheduled_event_id).copied() {
        resolve_started(core, id, &outcome.as_ref().map(|_| None).map_err(Failure::clone));
        resolve_event(core, scheduled_event_id, outcome);
    }
}

/// The handler did not take the request to cancel: the operation goes on, and the code waits no longer.
fn not_cancelled(core: &Core, scheduled_event_id: i64, cause: Option<WireFailure>) -> Failure {
    let op = core.by_event.get(&scheduled_event_id).and_then(|id| core.ops.get(id)).map(|op| &op.kind);
    let mut info = NexusOperationFailureInfo { scheduled_event_id, ..Default::default() };
    if let Some(OpKind::Nexus { target, token, .. }) = op {
        info.endpoint.clone_from(&target.endpoint);
        info.service.clone_from(&target.service);
        info.operation.clone_from(&target.operation);
        info.operation_token = token.clone().unwrap_or_default();
    }
    let message = "the handler refused to cancel the operation".to_owned();
    let info = FailureInfo::NexusOperationExecutionFailureInfo(info);
    Failure::with_info(message, info, cause.map(Failure::from_wire))
}
