//! Standalone Nexus operations as their description and lists show them.

use segno_engine::{
    Run,
    schedule::DIVISION_ATTRIBUTE,
    standalone_nexus::{id_of, operation_of},
    state::nexus::Operation,
};
use segno_node::HttpSender;
use segno_proto::{
    Nanos,
    common::SearchAttributes,
    enums::{NexusOperationExecutionStatus, PendingNexusOperationState, WorkflowExecutionStatus},
    events::NexusOperationScheduledEventAttributes,
    nanos_duration, nanos_timestamp,
    nexus::{NexusOperationExecutionCancellationInfo, NexusOperationExecutionInfo, NexusOperationExecutionListInfo},
};

use super::describe::{blocked_reason, cancellation, is_blocked, next_attempt, state_of, timeout};
use crate::grpc::describe::time;

fn status_of(run: &Run) -> NexusOperationExecutionStatus {
    use WorkflowExecutionStatus as Of;
    match run.status() {
        Of::Running | Of::Paused => NexusOperationExecutionStatus::Running,
        Of::Completed => NexusOperationExecutionStatus::Completed,
        Of::Failed => NexusOperationExecutionStatus::Failed,
        Of::Canceled => NexusOperationExecutionStatus::Canceled,
        Of::Terminated => NexusOperationExecutionStatus::Terminated,
        Of::TimedOut => NexusOperationExecutionStatus::TimedOut,
        Of::Unspecified | Of::ContinuedAsNew => NexusOperationExecutionStatus::Unspecified,
    }
}

/// The attempt that is under way, or was the last one.
fn attempt(run: &Run, operation: &Operation, now: Nanos) -> i32 {
    let is_under_way = run.is_running() && !operation.is_started() && !operation.start.is_backing_off(now);
    operation.start.attempts + i32::from(is_under_way)
}

/// The description of an operation; `None` if the run is something else.
pub(super) fn described(
    run: &Run,
    scheduled: &NexusOperationScheduledEventAttributes,
    now: Nanos,
    sender: &HttpSender,
) -> Option<NexusOperationExecutionInfo> {
    let (info, state) = (&run.info, run.state());
    let (alone, operation) = (state.standalone_nexus.as_ref()?, operation_of(state)?);
    let closed = !run.is_running();
    let is_blocked = !closed && is_blocked(run, operation, now, sender);
    let pending = state_of(operation, now, is_blocked);
    let expires = operation.scheduled_time.saturating_add(operation.schedule_to_close);
    let mut attributes = state.search_attributes.clone();
    attributes.remove(DIVISION_ATTRIBUTE);
    let reason = alone.cancel.as_ref().map(|cancel| cancel.reason.clone()).unwrap_or_default();
    Some(NexusOperationExecutionInfo {
        operation_id: id_of(run).unwrap_or_default().to_owned(),
        run_id: info.run_id.clone(),
        endpoint: operation.endpoint.clone(),
        service: operation.service.clone(),
        operation: operation.operation.clone(),
        status: status_of(run) as i32,
        state: if closed { PendingNexusOperationState::Unspecified } else { pending } as i32,
        schedule_to_close_timeout: timeout(operation.schedule_to_close),
        schedule_to_start_timeout: timeout(operation.schedule_to_start),
        start_to_close_timeout: timeout(operation.start_to_close),
        attempt: attempt(run, operation, now),
        schedule_time: time(operation.scheduled_time),
        expiration_time: (operation.schedule_to_close > 0).then(|| nanos_timestamp(expires)),
        close_time: time(state.close_time).filter(|_| closed),
        last_attempt_complete_time: time(operation.start.last_attempt_end),
        last_attempt_failure: operation.start.last_failure.clone(),
        next_attempt_schedule_time: next_attempt(&operation.start, now).filter(|_| !closed),
        execution_duration: closed.then(|| nanos_duration(state.close_time - info.start_time)),
        cancellation_info: operation.cancellation.as_ref().map(|known| {
            let known = cancellation(operation, known, now, is_blocked);
            NexusOperationExecutionCancellationInfo {
                // As with Temporal, which does not say when it was requested.
                requested_time: None,
                state: known.state,
                attempt: known.attempt,
                last_attempt_complete_time: known.last_attempt_complete_time,
                last_attempt_failure: known.last_attempt_failure,
                next_attempt_schedule_time: known.next_attempt_schedule_time,
                blocked_reason: known.blocked_reason,
                reason,
            }
        }),
        blocked_reason: blocked_reason(pending == PendingNexusOperationState::Blocked),
        request_id: operation.request_id.clone(),
        operation_token: operation.token.clone(),
        state_transition_count: state.transitions,
        search_attributes: Some(SearchAttributes { indexed_fields: attributes }),
        nexus_header: scheduled.nexus_header.clone(),
        user_metadata: info.user_metadata.clone(),
        links: alone.links.clone(),
        identity: alone.identity.clone(),
        state_size_bytes: run.encode().len() as i64,
    })
}

/// An operation on a page of a list.
pub(super) fn listed(run: &Run) -> NexusOperationExecutionListInfo {
    let (info, state) = (&run.info, run.state());
    let operation = operation_of(state).cloned().unwrap_or_default();
    let closed = !run.is_running();
    NexusOperationExecutionListInfo {
        operation_id: id_of(run).unwrap_or_default().to_owned(),
        run_id: info.run_id.clone(),
        endpoint: operation.endpoint,
        service: operation.service,
        operation: operation.operation,
        schedule_time: time(info.start_time),
        close_time: time(state.close_time).filter(|_| closed),
        status: status_of(run) as i32,
        search_attributes: Some(SearchAttributes { indexed_fields: state.search_attributes.clone() }),
        state_transition_count: if closed { state.transitions } else { 0 },
        execution_duration: closed.then(|| nanos_duration(state.close_time - info.start_time)),
        state_size_bytes: 0,
    }
}
