//! Completion callbacks of a run: which it has, and how far their delivery is.
//!
//! A callback reports the end of a workflow to a Nexus operation, which a token in its header names. When the run closes for good, each
//! is sent through the outbox. A run that another one continues hands its callbacks on, and calls none.

use segno_proto::{
    Nanos,
    common::{Callback, callback},
    enums::WorkflowExecutionStatus,
    events::{HistoryEvent, history_event::Attributes},
    failure::{
        ApplicationFailureInfo, CanceledFailureInfo, Failure, TerminatedFailureInfo, TimeoutFailureInfo,
        failure::FailureInfo,
    },
};

use crate::{
    parts::nexus::OperationEnd,
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

/// The callbacks that a run hands on to the next one of its chain.
pub(crate) fn handed_on(run: &Run) -> Vec<Callback> {
    run.state.callbacks.iter().filter_map(|registered| registered.callback.clone()).collect()
}

/// Whether another run has the callbacks of a closed run now.
fn are_handed_on(run: &Run) -> bool {
    let state = &run.state;
    // A repetition by a cron schedule does not take them along.
    let is_retried = !state.successor_run_id.is_empty() && run.info.cron_schedule.is_empty();
    state.status == WorkflowExecutionStatus::ContinuedAsNew as i32 || is_retried || !state.reset_run_id.is_empty()
}

/// The run has closed: its callbacks are sent, unless another run has them now.
pub(crate) fn send(draft: &mut Draft) {
    if are_handed_on(&draft.run) {
        return;
    }
    let now = draft.now();
    for index in 0..draft.run.state.callbacks.len() {
        draft.run.state.callbacks[index].set_state(CallbackState::Scheduled);
        draft.run.state.callbacks[index].due_time = now;
        draft.send(Content::Callback(CallbackDue { index: index as u32, ..Default::default() }));
    }
}

/// Another run takes the place of one that was about to close: its callbacks are that one's.
pub(crate) fn keep(state: &mut RunState) {
    for registered in &mut state.callbacks {
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
        None => end_of_workflow(&report.closing_event),
    }
}

/// How the operation ended that a workflow stands for, by the event that closed it.
fn end_of_workflow(closing: &HistoryEvent) -> OperationEnd {
    let failed = |message: &str, info| {
        OperationEnd::Failed(Failure { message: message.to_owned(), failure_info: Some(info), ..Default::default() })
    };
    match closing.attributes.clone() {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(a)) => {
            let result = a.result.and_then(|result| result.payloads.into_iter().next());
            OperationEnd::Completed(Some(result.unwrap_or_else(payload::no_value)))
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
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(_)) => {
            let info = TimeoutFailureInfo::default();
            failed("operation exceeded internal timeout", FailureInfo::TimeoutFailureInfo(info))
        }
        _ => failed("operation terminated", FailureInfo::TerminatedFailureInfo(TerminatedFailureInfo::default())),
    }
}
