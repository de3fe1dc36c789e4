//! Runs that are over: how, with what, and what follows.

use segno_engine::callbacks::{CallbackState, RegisteredCallback, SYSTEM};
use segno_proto::{
    Nanos,
    common::callback::Variant,
    enums::{RetryState, WorkflowExecutionStatus as Status},
    events::history_event::Attributes,
    segno_workflow::Reason,
};

use super::{RunSnapshot, SHOWN_MAX, command, failure, pending, reason, time, words};

/// How the run closed, and what goes on nevertheless.
pub(super) fn reasons(seen: &RunSnapshot<'_>) -> Vec<Reason> {
    let (info, state) = (&seen.run.info, seen.run.state());
    let when = words::moment(state.close_time, seen.now);
    let lasted = words::span(state.close_time - info.start_time);
    let mut closed = match seen.run.status() {
        Status::Completed => reason("COMPLETED", format!("It completed {when}, after {lasted}.")),
        Status::Failed => reason("FAILED", format!("It failed {when}, after {lasted}")),
        Status::Canceled => {
            let by = seen
                .cancel
                .as_ref()
                .map_or_else(String::new, |cancel| format!("; {}", pending::canceler(cancel, seen.now)));
            reason("CANCELED", format!("It was canceled {when}, after {lasted}{by}."))
        }
        Status::Terminated => reason("TERMINATED", format!("It was terminated {when}, after {lasted}")),
        Status::TimedOut => reason("TIMED_OUT", format!("It timed out {when}, after {lasted}")),
        Status::ContinuedAsNew => {
            reason("CONTINUED_AS_NEW", format!("It continued as a new run {when}, after {lasted}."))
        }
        other => reason("CLOSED", format!("It is {} {when}.", other.as_str_name())),
    };
    closed.since = time(state.close_time);
    match seen.close_event.as_ref().and_then(|event| event.attributes.as_ref()) {
        Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => {
            let said = failed.failure.as_ref().map_or_else(|| "(no failure)".to_owned(), failure::line);
            closed.text.push_str(&format!(", with: {said}.{}", not_retried(failed.retry_state())));
            closed.details = failed.failure.as_ref().map(failure::details).unwrap_or_default();
        }
        Some(Attributes::WorkflowExecutionTerminatedEventAttributes(terminated)) => {
            let who = words::text(&terminated.identity);
            let by = if who.is_empty() { String::new() } else { format!(", by {who}") };
            let why = match terminated.reason.as_str() {
                "" => String::new(),
                why => format!(", because: {}", words::text(why)),
            };
            closed.text.push_str(&format!("{by}{why}."));
        }
        Some(Attributes::WorkflowExecutionTimedOutEventAttributes(timed_out)) => {
            let limit = match (info.run_timeout, info.execution_timeout) {
                (0, 0) => "its time limit".to_owned(),
                (0, execution) => format!("the execution timeout of {}", words::span(execution)),
                (run, _) => format!("the run timeout of {}", words::span(run)),
            };
            let state = not_retried(timed_out.retry_state());
            closed.text.push_str(&format!(": it was still open when {limit} had passed.{state}"));
        }
        _ if closed.text.ends_with(&lasted) => closed.text.push('.'),
        _ => {}
    }
    let mut found = vec![closed];
    if !state.successor_run_id.is_empty() {
        let text = format!("Another run of the workflow follows it: {}.", state.successor_run_id);
        let hint = format!("{} tells of the newest run.", command::of_workflow(info, "workflow why", &[]));
        found.push(Reason { hint, ..reason("SUCCESSOR", text) });
    }
    if !state.reset_run_id.is_empty() {
        found.push(reason("RESET", format!("It was reset: run {} goes on from an earlier event.", state.reset_run_id)));
    }
    if state.script.as_ref().is_some_and(|script| script.lingers) && !state.activities.is_empty() {
        super::activities::add(seen, &mut found);
    }
    found.extend(state.callbacks.iter().filter_map(|callback| undelivered(callback, seen.now)).take(SHOWN_MAX));
    found
}

/// A callback that does not know of the end although a report was attempted.
fn undelivered(registered: &RegisteredCallback, now: Nanos) -> Option<Reason> {
    let last = registered.last_failure.as_ref()?;
    let place = match registered.callback.as_ref().and_then(|callback| callback.variant.as_ref())? {
        Variant::Nexus(nexus) if nexus.url == SYSTEM => "the Nexus operation that waits for it".to_owned(),
        Variant::Nexus(nexus) => words::quoted(&nexus.url).to_string(),
        _ => return None,
    };
    let times = words::count(registered.attempts as usize, "attempt", "attempts");
    let failed = format!("Its end could not be reported to {place} in {times}, last with: {}", failure::line(last));
    let details = failure::details(last);
    Some(match registered.state() {
        CallbackState::Failed => {
            let text = format!("{failed}; it is not tried again.");
            Reason { since: time(registered.last_attempt_end), details, ..reason("CALLBACK_FAILED", text) }
        }
        _ => {
            let text = format!("{failed}; it is tried again {}.", words::moment(registered.due_time, now));
            let (since, until) = (time(registered.last_attempt_end), time(registered.due_time));
            Reason { since, until, details, ..reason("CALLBACK_FAILING", text) }
        }
    })
}

/// Why a run with a retry policy was not tried again.
fn not_retried(state: RetryState) -> &'static str {
    match state {
        RetryState::MaximumAttemptsReached => " No attempt of its retry policy was left.",
        RetryState::NonRetryableFailure => " The failure is of a kind that is not retried.",
        RetryState::Timeout => " There was no time left for another attempt.",
        _ => "",
    }
}
