//! Nexus operations and completion callbacks of a run, as its description shows them.

use segno_engine::{
    Run,
    callbacks::{self, CallbackState as Stored, RegisteredCallback},
    state::nexus::{Cancellation, CancellationResult, HandlerRequest, Operation},
};
use segno_node::{BLOCKED_REASON, HttpSender};
use segno_proto::{
    Nanos,
    enums::{CallbackState, NexusOperationCancellationState, PendingNexusOperationState},
    nanos_duration,
    workflow::{
        CallbackInfo, NexusOperationCancellationInfo, PendingNexusOperationInfo,
        callback_info::{Trigger, UpdateWorkflowExecutionCompleted, WorkflowClosed, trigger},
    },
};

use segno_store::NamespaceKey;

use crate::grpc::describe::time;

/// The pending operations of a run.
pub(crate) fn operations_of(run: &Run, now: Nanos, sender: &HttpSender) -> Vec<PendingNexusOperationInfo> {
    let is_blocked = |operation: &Operation| is_blocked(run, operation, now, sender);
    run.state().operations.values().map(|operation| described(operation, now, is_blocked(operation))).collect()
}

/// Whether the breaker of its endpoint holds the request of an operation back.
pub(super) fn is_blocked(run: &Run, operation: &Operation, now: Nanos, sender: &HttpSender) -> bool {
    let namespace = NamespaceKey(run.info.namespace_key);
    operation.is_waiting(now) && sender.blocks_endpoint(namespace, &operation.endpoint_id, &operation.endpoint)
}

fn described(operation: &Operation, now: Nanos, is_blocked: bool) -> PendingNexusOperationInfo {
    let start = &operation.start;
    let state = state_of(operation, now, is_blocked);
    PendingNexusOperationInfo {
        endpoint: operation.endpoint.clone(),
        service: operation.service.clone(),
        operation: operation.operation.clone(),
        operation_id: operation.token.clone(),
        schedule_to_close_timeout: timeout(operation.schedule_to_close),
        scheduled_time: time(operation.scheduled_time),
        state: state as i32,
        attempt: start.attempts,
        last_attempt_complete_time: time(start.last_attempt_end),
        last_attempt_failure: start.last_failure.clone(),
        next_attempt_schedule_time: next_attempt(start, now),
        cancellation_info: operation.cancellation.as_ref().map(|known| cancellation(operation, known, now, is_blocked)),
        scheduled_event_id: operation.scheduled_event_id,
        blocked_reason: blocked_reason(state == PendingNexusOperationState::Blocked),
        operation_token: operation.token.clone(),
        schedule_to_start_timeout: timeout(operation.schedule_to_start),
        start_to_close_timeout: timeout(operation.start_to_close),
    }
}

/// How a pending operation stands. `is_blocked` by the breaker of its endpoint.
pub(super) fn state_of(operation: &Operation, now: Nanos, is_blocked: bool) -> PendingNexusOperationState {
    match operation {
        started if started.is_started() => PendingNexusOperationState::Started,
        waiting if waiting.start.is_backing_off(now) => PendingNexusOperationState::BackingOff,
        _ if is_blocked => PendingNexusOperationState::Blocked,
        _ => PendingNexusOperationState::Scheduled,
    }
}

/// The reason of a state, if it is that of an open breaker.
pub(super) fn blocked_reason(is_blocked: bool) -> String {
    if is_blocked { BLOCKED_REASON.to_owned() } else { String::new() }
}

/// How far the request to cancel an operation is.
pub(super) fn cancellation(
    operation: &Operation,
    known: &Cancellation,
    now: Nanos,
    is_blocked: bool,
) -> NexusOperationCancellationInfo {
    if !operation.is_started() {
        return NexusOperationCancellationInfo::default();
    }
    let state = match known.result() {
        CancellationResult::Succeeded => NexusOperationCancellationState::Succeeded,
        CancellationResult::Failed => NexusOperationCancellationState::Failed,
        CancellationResult::Pending if known.request.is_backing_off(now) => NexusOperationCancellationState::BackingOff,
        CancellationResult::Pending if is_blocked => NexusOperationCancellationState::Blocked,
        CancellationResult::Pending => NexusOperationCancellationState::Scheduled,
    };
    NexusOperationCancellationInfo {
        requested_time: time(known.requested_time),
        state: state as i32,
        attempt: known.request.attempts,
        last_attempt_complete_time: time(known.request.last_attempt_end),
        last_attempt_failure: known.request.last_failure.clone(),
        next_attempt_schedule_time: next_attempt(&known.request, now),
        blocked_reason: blocked_reason(state == NexusOperationCancellationState::Blocked),
    }
}

/// A time-out that is not set is absent.
pub(super) fn timeout(duration: Nanos) -> Option<prost_types::Duration> {
    (duration != 0).then(|| nanos_duration(duration))
}

/// When a request is repeated, if it waits for that.
pub(super) fn next_attempt(request: &HandlerRequest, now: Nanos) -> Option<prost_types::Timestamp> {
    time(request.due_time).filter(|_| request.is_backing_off(now))
}

/// The completion callbacks of a run.
pub(crate) fn callbacks_of(run: &Run, now: Nanos, sender: &HttpSender) -> Vec<CallbackInfo> {
    let namespace = NamespaceKey(run.info.namespace_key);
    let is_blocked = |registered: &RegisteredCallback| {
        let url = registered.callback.as_ref().and_then(callbacks::http_url);
        url.is_some_and(|url| sender.blocks_url(namespace, url))
    };
    run.state().callbacks.iter().map(|registered| callback(run, registered, now, is_blocked(registered))).collect()
}

/// The end that a callback reports.
fn trigger_of(registered: &RegisteredCallback) -> trigger::Variant {
    match registered.update_id.as_str() {
        "" => trigger::Variant::WorkflowClosed(WorkflowClosed {}),
        id => trigger::Variant::UpdateWorkflowExecutionCompleted(UpdateWorkflowExecutionCompleted {
            update_id: id.to_owned(),
        }),
    }
}

fn callback(run: &Run, registered: &RegisteredCallback, now: Nanos, is_blocked: bool) -> CallbackInfo {
    let state = match callbacks::state_of(run, registered) {
        Stored::Standby => CallbackState::Standby,
        Stored::BackingOff if registered.due_time > now => CallbackState::BackingOff,
        Stored::Scheduled | Stored::BackingOff if is_blocked => CallbackState::Blocked,
        Stored::Scheduled | Stored::BackingOff => CallbackState::Scheduled,
        Stored::Failed => CallbackState::Failed,
        Stored::Succeeded => CallbackState::Succeeded,
    };
    let info = CallbackInfo {
        callback: registered.callback.clone(),
        trigger: Some(Trigger { variant: Some(trigger_of(registered)) }),
        registration_time: time(registered.time),
        state: state as i32,
        attempt: registered.attempts,
        last_attempt_complete_time: time(registered.last_attempt_end),
        last_attempt_failure: registered.last_failure.clone(),
        next_attempt_schedule_time: time(registered.due_time).filter(|_| state == CallbackState::BackingOff),
        blocked_reason: blocked_reason(state == CallbackState::Blocked),
        ..Default::default()
    };
    if state == CallbackState::Failed && registered.attempts == 0 {
        // An older version closed the run, and could deliver none.
        let text = registered.callback.as_ref().map(|callback| callbacks::refused_token(callback, &run.info.run_id));
        return CallbackInfo {
            attempt: 1,
            last_attempt_complete_time: time(run.state().close_time),
            last_attempt_failure: text.map(callbacks::refusal),
            ..info
        };
    }
    info
}
