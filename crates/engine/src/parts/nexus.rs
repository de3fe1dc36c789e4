//! A Nexus operation of a workflow: its requests to the handler, its time-outs, its end.
//!
//! An operation has at most one open request: the one that starts it, and then the one that cancels it. Which worker has the request is
//! known in memory alone: after a crash it is offered again, and the handler recognises the repetition by the request id.

use segno_proto::{
    Nanos,
    common::{Link, Payload},
    enums::{NexusHandlerErrorRetryBehavior, TimeoutType},
    events::{
        HistoryEvent, NexusOperationCancelRequestCompletedEventAttributes,
        NexusOperationCancelRequestFailedEventAttributes, NexusOperationFailedEventAttributes,
        NexusOperationStartedEventAttributes, NexusOperationTimedOutEventAttributes, history_event::Attributes,
    },
    failure::{
        ApplicationFailureInfo, Failure, NexusHandlerFailureInfo, NexusOperationFailureInfo, TimeoutFailureInfo,
        failure::FailureInfo,
    },
};

use crate::{
    events::event,
    limits::{ACTIVITY_FAILURE_BYTES_MAX, SECOND},
    machine::{nexus_cancellation, nexus_operation},
    parts::standalone_nexus,
    retry,
    state::nexus::{CancellationResult, HandlerRequest, Operation},
    transition::{
        Context, Effect,
        draft::Draft,
        steps::{CancellationMachine, OperationMachine},
    },
};

/// How long a worker has for one request.
pub const REQUEST_TIMEOUT: Nanos = 10 * SECOND;
/// The first pause after an attempt that failed.
const BACKOFF_MIN: Nanos = SECOND;
/// How many requests are remembered that were settled before they were answered.
const OVERTAKEN_MAX: usize = 64;
/// The longest pause.
const BACKOFF_MAX: Nanos = 3600 * SECOND;

/// How an operation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationEnd {
    /// With a result.
    Completed(Option<Payload>),
    /// With a failure.
    Failed(Failure),
    /// It was cancelled.
    Canceled(Failure),
}

/// The time-out of an operation that comes first.
pub(crate) fn earliest_timeout(operation: &Operation) -> Option<(Nanos, TimeoutType)> {
    let at = |since: Nanos, timeout: Nanos, kind| (timeout > 0).then(|| (since.saturating_add(timeout), kind));
    let scheduled = operation.scheduled_time;
    let part = match operation.is_started() {
        true => at(operation.started_time, operation.start_to_close, TimeoutType::StartToClose),
        false => at(scheduled, operation.schedule_to_start, TimeoutType::ScheduleToStart),
    };
    let whole = at(scheduled, operation.schedule_to_close, TimeoutType::ScheduleToClose);
    [part, whole].into_iter().flatten().min_by_key(|(at, _)| *at)
}

/// When an operation wants attention next: a time-out, the end of the time of the worker that has its request, or the end of a back-off,
/// which changes nothing before the end of a pause.
pub(crate) fn wake_at(operation: &Operation, woken: Nanos, is_paused: bool) -> Option<Nanos> {
    let timeout = earliest_timeout(operation).map(|(at, _)| at);
    let request = operation.open_request().and_then(|(request, _)| match request.taken_time {
        0 => (!is_paused && request.due_time > woken).then_some(request.due_time),
        taken => Some(taken.saturating_add(REQUEST_TIMEOUT)),
    });
    [timeout, request].into_iter().flatten().min()
}

/// How long the worker that takes a request now has for it.
pub fn request_time(operation: &Operation, now: Nanos) -> Nanos {
    earliest_timeout(operation).map_or(REQUEST_TIMEOUT, |(at, _)| (at - now).clamp(0, REQUEST_TIMEOUT))
}

/// The time that a handler has for the operation as a whole, if it is limited.
pub fn operation_time(operation: &Operation, now: Nanos) -> Option<Nanos> {
    let left = operation.scheduled_time.saturating_add(operation.schedule_to_close) - now;
    let left = (operation.schedule_to_close > 0).then_some(left.max(0));
    let own = (operation.start_to_close > 0).then_some(operation.start_to_close);
    [left, own].into_iter().flatten().min()
}

/// Lets what is due of an operation happen. Returns whether the workflow has something new to see.
pub(crate) fn wake(draft: &mut Draft, id: i64) -> bool {
    let now = draft.now();
    let Some(operation) = draft.run.state.operations.get(&id) else { return false };
    if let Some((_, kind)) = earliest_timeout(operation).filter(|(at, _)| *at <= now) {
        time_out(draft, id, kind);
        return true;
    }
    let Some((request, _)) = operation.open_request() else { return false };
    if request.taken_time != 0 && request.taken_time.saturating_add(REQUEST_TIMEOUT) <= now {
        let failure = handler_failure("UPSTREAM_TIMEOUT", "upstream timeout", Default::default());
        fail_attempt(draft, id, failure, 0);
    } else if request.due_time != 0 && request.is_waiting(now) {
        draft.effect(Effect::OfferNexusRequest(id));
    }
    false
}

/// Offers the requests of operations that wait for a worker.
pub(crate) fn offer_pending(draft: &mut Draft) {
    let now = draft.now();
    let waiting = draft.run.state.operations.values().filter(|operation| operation.is_waiting(now));
    let waiting: Vec<i64> = waiting.map(|operation| operation.scheduled_event_id).collect();
    waiting.into_iter().for_each(|id| draft.effect(Effect::OfferNexusRequest(id)));
}

/// An error of a handler, or one that the server reports in its place.
pub fn handler_failure(kind: &str, message: &str, retry_behavior: NexusHandlerErrorRetryBehavior) -> Failure {
    let info = NexusHandlerFailureInfo { r#type: kind.to_owned(), retry_behavior: retry_behavior as i32 };
    Failure {
        message: message.to_owned(),
        failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
        ..Default::default()
    }
}

/// A call that failed without an answer of a handler, and whether the server repeats it.
pub fn call_error(message: String, retryable: bool) -> Failure {
    let non_retryable = !retryable;
    let info = ApplicationFailureInfo { r#type: "CallError".to_owned(), non_retryable, ..Default::default() };
    Failure { message, failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Default::default() }
}

/// The attempt under way failed; the next one follows after a pause, which is at least this long.
pub(crate) fn fail_attempt(draft: &mut Draft, id: i64, failure: Failure, pause_min: Nanos) {
    let context = draft.context;
    let fail = |draft: &mut Draft| {
        let operation = draft.run.state.operations.get_mut(&id);
        let Some((request, _)) = operation.and_then(|operation| operation.open_request_mut()) else { return };
        request.attempts += 1;
        request.stamp += 1;
        request.taken_time = 0;
        request.last_attempt_end = context.now;
        request.last_failure = Some(retry::kept(&failure, ACTIVITY_FAILURE_BYTES_MAX));
        let pause = backoff(request.attempts, context, id).max(pause_min);
        request.due_time = context.now.saturating_add(pause);
    };
    match draft.run.state.operations.get(&id).is_some_and(|operation| operation.is_started()) {
        true => draft.step(CancellationMachine(id), nexus_cancellation::Event::AttemptFailed, fail),
        false => draft.step(OperationMachine(id), nexus_operation::Event::AttemptFailed, fail),
    };
    draft.touch();
}

/// The pause after so many attempts, shortened by up to a fifth so that operations which failed together are not repeated together.
pub(crate) fn backoff(attempts: i32, context: Context, id: i64) -> Nanos {
    let doubled = 1_i64.checked_shl(attempts.saturating_sub(1).clamp(0, 32) as u32).unwrap_or(i64::MAX);
    let interval = BACKOFF_MIN.saturating_mul(doubled).min(BACKOFF_MAX);
    let mixed = (context.new_run_seed ^ id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    interval - (mixed >> 16) as Nanos % (interval / 5)
}

/// The handler has started the operation. A cancellation that waited for this goes to the handler.
pub(crate) fn start(draft: &mut Draft, id: i64, token: String, time: Nanos, links: Vec<Link>) {
    let Some(operation) = draft.run.state.operations.get(&id) else { return };
    let attributes = NexusOperationStartedEventAttributes {
        scheduled_event_id: id,
        operation_id: token.clone(),
        request_id: operation.request_id.clone(),
        operation_token: token.clone(),
    };
    let (cancels, now) = (operation.cancellation.is_some(), draft.now());
    let started = event(time, Attributes::NexusOperationStartedEventAttributes(attributes));
    tell(draft, HistoryEvent { links, ..started });
    draft.step(OperationMachine(id), nexus_operation::Event::Start, |draft| {
        let Some(operation) = draft.run.state.operations.get_mut(&id) else { return };
        operation.start(token, time, now);
    });
    if cancels {
        draft.effect(Effect::OfferNexusRequest(id));
    }
}

/// Writes into history what has happened to an operation. Of one without a workflow, links alone are kept.
fn tell(draft: &mut Draft, news: HistoryEvent) {
    match &mut draft.run.state.standalone_nexus {
        Some(alone) => {
            alone.links.extend(news.links);
            draft.touch();
        }
        None => drop(draft.add_external_event(news)),
    }
}

/// The request that a worker has is settled without its answer, which is accepted once and changes nothing.
pub(crate) fn overtake(draft: &mut Draft, id: i64) {
    let overtaken = &mut draft.run.state.overtaken_requests;
    overtaken.push(id);
    let surplus = overtaken.len().saturating_sub(OVERTAKEN_MAX);
    overtaken.drain(..surplus);
}

/// The operation is over: `ending` is the event that says how.
pub(crate) fn end(draft: &mut Draft, id: i64, links: Vec<Link>, ending: impl FnOnce(&Operation) -> Attributes) {
    let mut ended = None;
    draft.step(OperationMachine(id), nexus_operation::Event::End, |draft| {
        ended = draft.run.state.operations.remove(&id);
    });
    let Some(operation) = ended else { return };
    draft.withdraw(&Effect::OfferNexusRequest(id));
    let ending = ending(&operation);
    if let Some(alone) = &mut draft.run.state.standalone_nexus {
        alone.links.extend(links);
        return standalone_nexus::end::end(draft, operation.into_inner(), ending);
    }
    let told = event(draft.now(), ending);
    draft.add_external_event(HistoryEvent { links, ..told });
}

/// The operation has failed with this cause.
pub(crate) fn fail(draft: &mut Draft, id: i64, cause: Failure) {
    end(draft, id, Vec::new(), |operation| {
        Attributes::NexusOperationFailedEventAttributes(NexusOperationFailedEventAttributes {
            scheduled_event_id: id,
            failure: Some(failure_of(operation, cause)),
            request_id: operation.request_id.clone(),
        })
    });
}

fn time_out(draft: &mut Draft, id: i64, kind: TimeoutType) {
    let info = TimeoutFailureInfo { timeout_type: kind as i32, last_heartbeat_details: None };
    let cause = Failure {
        message: "operation timed out".to_owned(),
        failure_info: Some(FailureInfo::TimeoutFailureInfo(info)),
        ..Default::default()
    };
    end(draft, id, Vec::new(), |operation| {
        Attributes::NexusOperationTimedOutEventAttributes(NexusOperationTimedOutEventAttributes {
            scheduled_event_id: id,
            failure: Some(failure_of(operation, cause)),
            request_id: operation.request_id.clone(),
        })
    });
}

/// The failure that a workflow gets for an operation.
pub(crate) fn failure_of(operation: &Operation, cause: Failure) -> Failure {
    let info = NexusOperationFailureInfo {
        scheduled_event_id: operation.scheduled_event_id,
        endpoint: operation.endpoint.clone(),
        service: operation.service.clone(),
        operation: operation.operation.clone(),
        operation_id: operation.token.clone(),
        operation_token: operation.token.clone(),
    };
    Failure {
        message: "nexus operation completed unsuccessfully".to_owned(),
        failure_info: Some(FailureInfo::NexusOperationExecutionFailureInfo(info)),
        cause: Some(Box::new(cause)),
        ..Default::default()
    }
}

/// The handler has accepted the request to cancel, or refused it for good.
pub(crate) fn end_cancellation(draft: &mut Draft, id: i64, refusal: Option<Failure>) {
    let operation = draft.run.state.operations.get(&id);
    let Some(cancellation) = operation.and_then(|operation| operation.cancellation.as_ref()) else { return };
    let requested_event_id = cancellation.requested_event_id;
    let now = draft.now();
    let (step, result) = match refusal {
        None => (nexus_cancellation::Event::Succeed, CancellationResult::Succeeded),
        Some(_) => (nexus_cancellation::Event::Fail, CancellationResult::Failed),
    };
    let last_failure = refusal.as_ref().map(|failure| retry::kept(failure, ACTIVITY_FAILURE_BYTES_MAX));
    draft.step(CancellationMachine(id), step, |draft| {
        let operation = draft.run.state.operations.get_mut(&id);
        let Some(cancellation) = operation.and_then(|operation| operation.cancellation.as_mut()) else { return };
        cancellation.result = result as i32;
        let attempts = cancellation.request.attempts + 1;
        cancellation.request = HandlerRequest { attempts, last_attempt_end: now, last_failure, ..Default::default() };
    });
    let attributes = match refusal {
        None => Attributes::NexusOperationCancelRequestCompletedEventAttributes(
            NexusOperationCancelRequestCompletedEventAttributes {
                requested_event_id,
                workflow_task_completed_event_id: 0,
                scheduled_event_id: id,
            },
        ),
        Some(cause) => Attributes::NexusOperationCancelRequestFailedEventAttributes(
            NexusOperationCancelRequestFailedEventAttributes {
                requested_event_id,
                workflow_task_completed_event_id: 0,
                failure: Some(cause),
                scheduled_event_id: id,
            },
        ),
    };
    let told = event(now, attributes);
    tell(draft, HistoryEvent { worker_may_ignore: true, ..told });
}
