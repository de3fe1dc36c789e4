//! Completion callbacks of a run: which it has, and how far their delivery is.
//!
//! A callback reports the end of a workflow, an update or an activity to a Nexus operation, which a token in its header names. Then each
//! is sent through the outbox. A run that another one continues hands its callbacks on, and calls none.

use segno_proto::{
    Nanos,
    activity::activity_execution_outcome::Value as Ended,
    common::{Callback, Payload, Payloads, callback},
    enums::WorkflowExecutionStatus,
    events::{
        HistoryEvent, NexusOperationCanceledEventAttributes, NexusOperationCompletedEventAttributes,
        NexusOperationFailedEventAttributes, WorkflowExecutionUpdateCompletedEventAttributes,
        history_event::Attributes, workflow_execution_options_updated_event_attributes::WorkflowUpdateOptionsUpdate,
    },
    failure::{
        ApplicationFailureInfo, CanceledFailureInfo, Failure, TerminatedFailureInfo, TimeoutFailureInfo,
        failure::FailureInfo,
    },
    update::{Outcome, outcome},
};

use crate::{
    events::event,
    parts::{
        nexus::OperationEnd,
        update::status::{self, Status},
    },
    payload,
    state::{
        CallbackState, RegisteredCallback, RunState,
        outbox::{CallbackDue, CallbackReport, Content, ReportedOutcome},
        run::Run,
    },
    transition::draft::Draft,
};

/// The address that reports to a Nexus operation.
pub const SYSTEM: &str = "temporal://system";
/// The address that reports to a part of the server.
pub const INTERNAL: &str = "temporal://internal";
/// The header that has the token of the operation.
pub const TOKEN_HEADER: &str = "temporal-callback-token";
/// The header by which a handler names the operation that it started.
pub const OPERATION_TOKEN_HEADER: &str = "nexus-operation-token";

/// Notes callbacks that the start of a run brought, or a later start that was attached to it.
pub(crate) fn register(state: &mut RunState, callbacks: &[Callback], request_id: &str, now: Nanos) {
    let callbacks = callbacks.iter().cloned();
    state.callbacks.extend(callbacks.map(|callback| RegisteredCallback {
        callback: Some(callback),
        time: now,
        request_id: request_id.to_owned(),
        ..Default::default()
    }));
}

/// Notes the callbacks of an update: those of its request, or of a later request that is attached to it.
pub(crate) fn register_of_update(
    state: &mut RunState,
    update_id: &str,
    callbacks: &[Callback],
    request_id: &str,
    now: Nanos,
) {
    let before = state.callbacks.len();
    register(state, callbacks, request_id, now);
    state.callbacks[before..].iter_mut().for_each(|registered| update_id.clone_into(&mut registered.update_id));
}

/// Notes callbacks that later requests attached to updates.
pub(crate) fn register_attached(state: &mut RunState, attached: &[WorkflowUpdateOptionsUpdate], now: Nanos) {
    for to in attached {
        let (callbacks, request_id) = (&to.attached_completion_callbacks, &to.attached_request_id);
        register_of_update(state, &to.update_id, callbacks, request_id, now);
    }
}

/// The callbacks that a run hands on to the next one of its chain. Those of updates stay.
pub(crate) fn handed_on(run: &Run) -> Vec<Callback> {
    let of_run = run.state.callbacks.iter().filter(|registered| registered.update_id.is_empty());
    of_run.filter_map(|registered| registered.callback.clone()).collect()
}

/// Whether another run has the callbacks of a closed run now.
fn are_handed_on(run: &Run) -> bool {
    let state = &run.state;
    // A repetition by a cron schedule does not take them along.
    let is_retried = !state.successor_run_id.is_empty() && run.info.cron_schedule.is_empty();
    state.status == WorkflowExecutionStatus::ContinuedAsNew as i32 || is_retried || !state.reset_run_id.is_empty()
}

/// The run has closed: its callbacks are sent, unless another run has them now, and those of its updates, which have failed with it
/// unless the next run has them.
pub(crate) fn send(draft: &mut Draft) {
    let handed_on = are_handed_on(&draft.run);
    let next = draft.successor().map(|next| next.state.updates.clone()).unwrap_or_default();
    send_those(draft, |registered| match registered.update_id.as_str() {
        "" => !handed_on,
        update_id => !next.contains_key(update_id),
    });
}

/// An update has ended: its callbacks are sent.
pub(crate) fn send_of_update(draft: &mut Draft, id: &str) {
    send_those(draft, |registered| registered.update_id == id);
}

fn send_those(draft: &mut Draft, are_due: impl Fn(&RegisteredCallback) -> bool) {
    let now = draft.now();
    for index in 0..draft.run.state.callbacks.len() {
        let registered = &mut draft.run.state.callbacks[index];
        if registered.state() != CallbackState::Standby || !are_due(registered) {
            continue;
        }
        registered.set_state(CallbackState::Scheduled);
        registered.due_time = now;
        draft.send(Content::Callback(CallbackDue { index: index as u32, ..Default::default() }));
    }
}

/// Another run takes the place of one that was about to close: what its end would have sent is that one's.
pub(crate) fn keep(state: &mut RunState) {
    let closed = state.close_time;
    let by_the_end = |registered: &&mut RegisteredCallback| {
        registered.state() == CallbackState::Scheduled && registered.due_time == closed
    };
    for registered in state.callbacks.iter_mut().filter(by_the_end) {
        registered.set_state(CallbackState::Standby);
        registered.due_time = 0;
    }
}

/// Where the delivery of a callback is. Runs that an older version closed could deliver none.
pub fn state_of(run: &Run, registered: &RegisteredCallback) -> CallbackState {
    match registered.state() {
        CallbackState::Standby if !run.is_running() && !are_handed_on(run) => CallbackState::Failed,
        state => state,
    }
}

/// The failure of a callback that cannot be delivered.
pub fn refusal(text: String) -> Failure {
    let info = ApplicationFailureInfo { non_retryable: true, ..Default::default() };
    Failure { message: text, failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Default::default() }
}

/// Why a callback was refused whose token the server did not make.
pub fn refused_token(callback: &Callback, run_id: &str) -> String {
    match &callback.variant {
        Some(callback::Variant::Nexus(nexus)) if nexus.url == INTERNAL => {
            format!("internal error, reference-id: {run_id}")
        }
        _ => "handler error (BAD_REQUEST): invalid callback token".to_owned(),
    }
}

/// A header of a callback.
pub fn header<'a>(callback: &'a Callback, name: &str) -> Option<&'a str> {
    let Some(callback::Variant::Nexus(nexus)) = &callback.variant else { return None };
    nexus.header.get(name).map(String::as_str)
}

/// The URL to which a callback goes over HTTP; `None` if it reports to this server.
pub fn http_url(callback: &Callback) -> Option<&str> {
    let Some(callback::Variant::Nexus(nexus)) = &callback.variant else { return None };
    let scheme = nexus.url.split_once(':').map_or("", |(scheme, _)| scheme);
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")).then_some(nexus.url.as_str())
}

/// How an operation ended, by the report of its callback.
pub fn end_of(report: &CallbackReport) -> OperationEnd {
    match report.reported.as_ref().and_then(|end| end.outcome.clone()) {
        Some(ReportedOutcome::Completed(result)) => OperationEnd::Completed(Some(result)),
        Some(ReportedOutcome::Failed(failure)) => OperationEnd::Failed(failure),
        Some(ReportedOutcome::Canceled(failure)) => OperationEnd::Canceled(failure),
        None => end_by(&report.closing_event),
    }
}

/// The end of an update, as the event that says how it ended.
pub enum UpdateReport {
    /// An event of history.
    Stored(i64),
    /// History has none: it was rejected, or its workflow closed first.
    Made(Box<HistoryEvent>),
}

/// How an update ended whose callbacks are due.
pub fn end_of_update(run: &Run, id: &str) -> UpdateReport {
    let outcome = match status::of(run, id) {
        Some(Status::CompletedIn(event_id)) => return UpdateReport::Stored(event_id),
        Some(Status::Completed(outcome)) => Outcome::clone(&outcome),
        _ => status::failed(status::closed_before_completion()),
    };
    let attributes = WorkflowExecutionUpdateCompletedEventAttributes { outcome: Some(outcome), ..Default::default() };
    let attributes = Attributes::WorkflowExecutionUpdateCompletedEventAttributes(attributes);
    UpdateReport::Made(Box::new(event(run.state.close_time, attributes)))
}

/// The end of a standalone activity, as that of the operation for which it stands: it has no event that says how it ended.
pub fn end_of_activity(run: &Run) -> Option<HistoryEvent> {
    let outcome = run.state.standalone.as_ref()?.outcome.clone()?;
    let is_canceled = run.status() == WorkflowExecutionStatus::Canceled;
    let attributes = match outcome.value {
        Some(Ended::Failure(failure)) if is_canceled => {
            let failure = Some(failure);
            Attributes::NexusOperationCanceledEventAttributes(NexusOperationCanceledEventAttributes {
                failure,
                ..Default::default()
            })
        }
        Some(Ended::Failure(failure)) => failed_operation(failure),
        Some(Ended::Result(result)) => completed_operation(Some(result)),
        None => completed_operation(None),
    };
    Some(event(run.state.close_time, attributes))
}

/// The result of an operation is one payload.
fn first_of(result: Payloads) -> Payload {
    result.payloads.into_iter().next().unwrap_or_else(payload::no_value)
}

fn completed_operation(result: Option<Payloads>) -> Attributes {
    let result = Some(first_of(result.unwrap_or_default()));
    let completed = NexusOperationCompletedEventAttributes { result, ..Default::default() };
    Attributes::NexusOperationCompletedEventAttributes(completed)
}

fn failed_operation(failure: Failure) -> Attributes {
    let failed = NexusOperationFailedEventAttributes { failure: Some(failure), ..Default::default() };
    Attributes::NexusOperationFailedEventAttributes(failed)
}

/// How the operation ended that a workflow, an update or an activity stands for, by the event that says how that ended.
fn end_by(closing: &HistoryEvent) -> OperationEnd {
    let failed = |message: &str, info| {
        OperationEnd::Failed(Failure { message: message.to_owned(), failure_info: Some(info), ..Default::default() })
    };
    match closing.attributes.clone() {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(a)) => {
            OperationEnd::Completed(Some(first_of(a.result.unwrap_or_default())))
        }
        Some(Attributes::WorkflowExecutionFailedEventAttributes(a)) => {
            OperationEnd::Failed(a.failure.unwrap_or_default())
        }
        Some(Attributes::WorkflowExecutionCanceledEventAttributes(a)) => OperationEnd::Canceled(Failure {
            message: "operation canceled".to_owned(),
            failure_info: Some(FailureInfo::CanceledFailureInfo(CanceledFailureInfo {
                details: a.details,
                ..Default::default()
            })),
            ..Default::default()
        }),
        Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(a)) => {
            match a.outcome.and_then(|outcome| outcome.value) {
                Some(outcome::Value::Failure(failure)) => OperationEnd::Failed(failure),
                Some(outcome::Value::Success(result)) => OperationEnd::Completed(Some(first_of(result))),
                None => OperationEnd::Completed(Some(payload::no_value())),
            }
        }
        Some(Attributes::NexusOperationCompletedEventAttributes(a)) => {
            OperationEnd::Completed(Some(a.result.unwrap_or_else(payload::no_value)))
        }
        Some(Attributes::NexusOperationFailedEventAttributes(a)) => OperationEnd::Failed(a.failure.unwrap_or_default()),
        Some(Attributes::NexusOperationCanceledEventAttributes(a)) => {
            OperationEnd::Canceled(a.failure.unwrap_or_default())
        }
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(_)) => {
            let info = TimeoutFailureInfo::default();
            failed("operation exceeded internal timeout", FailureInfo::TimeoutFailureInfo(info))
        }
        _ => failed("operation terminated", FailureInfo::TerminatedFailureInfo(TerminatedFailureInfo::default())),
    }
}
