//! The current state of a run, and why it waits.

use maud::{Markup, html};
use segno_proto::{
    common::callback::Variant,
    enums::{NexusOperationCancellationState, PendingActivityState, PendingNexusOperationState},
    segno_workflow::{ExplainRequest, Reason},
    workflow::{
        CallbackInfo, PendingActivityInfo, PendingNexusOperationInfo, pending_activity_info::pause_info::PausedBy,
    },
};

use super::{
    Web,
    fields::words,
    forms::encode,
    layout::{button, run_address},
    payloads, severity, times,
    workflow::RunSnapshot,
};

/// Most pending things of a kind that are listed.
const LISTED_MAX: usize = 100;
/// Most reasons with a sentence each.
const SENTENCES_MAX: usize = 10;

/// The section, for a run that is open.
pub(super) async fn section(web: &Web, seen: &RunSnapshot) -> Markup {
    let content = if seen.is_running() {
        now(web, seen).await
    } else {
        html! {}
    };
    html! { div #now data-live aria-live="off" { (content) (callbacks(&seen.described.callbacks)) } }
}

/// The callbacks of a run, which are delivered after its end.
fn callbacks(callbacks: &[CallbackInfo]) -> Markup {
    html! {
        @if !callbacks.is_empty() {
            section.now aria-labelledby="callbacks-title" {
                h2 #callbacks-title { "Callbacks" }
                ul { @for callback in callbacks.iter().take(LISTED_MAX) { li { (callback_line(callback)) } } }
            }
        }
    }
}

/// Why the run does not go on: the sentences of `segno workflow why`, and the class of the most serious one.
async fn sentences(web: &Web, seen: &RunSnapshot) -> (&'static str, Vec<Markup>) {
    let info = seen.info();
    let execution = info.execution.unwrap_or_default();
    let request = ExplainRequest {
        namespace: seen.namespace.clone(),
        workflow_id: execution.workflow_id,
        run_id: execution.run_id,
        ..Default::default()
    };
    let reasons = match web.call(request).await {
        Ok(explained) => explained.reasons,
        Err(status) => return ("", vec![html! { span.bad { "It is not known why: " (status.message()) } }]),
    };
    let more = reasons.len().saturating_sub(SENTENCES_MAX);
    let told = reasons.iter().take(SENTENCES_MAX).enumerate();
    let mut said: Vec<_> = told.map(|(place, reason)| sentence(&place.to_string(), reason)).collect();
    if more > 0 {
        said.push(html! { "And " (more) " more." });
    }
    (severity::worst(&reasons), said)
}

fn sentence(place: &str, reason: &Reason) -> Markup {
    html! {
        (severity::mark(&reason.severity)) " "
        span data-kind=(reason.kind) { (reason.text) }
        @if !reason.hint.is_empty() { " " span.faint { (with_commands(&reason.hint)) } }
        @if !reason.details.is_empty() {
            details.failure id={ "failure-" (place) } {
                summary { (summary(&reason.kind)) }
                pre tabindex="0" role="group" aria-label="Details" { (reason.details.join("\n")) }
            }
        }
        @if !reason.because.is_empty() {
            ul.because {
                @for (below, reason) in reason.because.iter().take(SENTENCES_MAX).enumerate() {
                    li { (sentence(&format!("{place}-{below}"), reason)) }
                }
            }
        }
    }
}

/// The summary above the details of a reason.
fn summary(kind: &str) -> &'static str {
    match kind {
        "SCRIPT_WAITS" | "WAITS_FOR_SIGNAL" => "The line of the script",
        _ => "Failure and stack trace",
    }
}

/// A text whose commands stand between backticks.
fn with_commands(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

async fn now(web: &Web, seen: &RunSnapshot) -> Markup {
    let described = &seen.described;
    let (severity, sentences) = sentences(web, seen).await;
    html! {
        section class={ "now " (severity) } aria-labelledby="now-title" {
            h2 #now-title { "Now" }
            @for sentence in sentences { div.sentence { (sentence) } }
            @if !described.pending_activities.is_empty() {
                h3 { "Pending activities (" (described.pending_activities.len()) ")" }
                div.scroll tabindex="0" role="region" aria-label="Pending activities" {
                    table.list {
                        thead { tr {
                            th scope="col" { "Activity" } th scope="col" { "State" } th scope="col" { "Attempt" }
                            th scope="col" { "Next attempt" } th scope="col" { "Worker" } th scope="col" { "Last failure" } th scope="col" { "Actions" }
                        } }
                        tbody { @for activity in described.pending_activities.iter().take(LISTED_MAX) { (activity_row(activity)) } }
                    }
                }
            }
            @if !described.pending_nexus_operations.is_empty() {
                h3 { "Pending operations (" (described.pending_nexus_operations.len()) ")" }
                div.scroll tabindex="0" role="region" aria-label="Pending operations" {
                    table.list {
                        thead { tr {
                            th scope="col" { "Operation" } th scope="col" { "State" } th scope="col" { "Attempts" }
                            th scope="col" { "Next attempt" } th scope="col" { "Cancellation" } th scope="col" { "Last failure" }
                        } }
                        tbody { @for operation in described.pending_nexus_operations.iter().take(LISTED_MAX) { (operation_row(operation)) } }
                    }
                }
            }
            @if !described.pending_children.is_empty() {
                h3 { "Pending children" }
                ul { @for child in described.pending_children.iter().take(LISTED_MAX) {
                    li { a href=(run_address(&seen.namespace, &child.workflow_id, &child.run_id)) { (child.workflow_id) } " " span.faint { (child.workflow_type_name) } }
                } }
            }
        }
    }
}

fn operation_row(operation: &PendingNexusOperationInfo) -> Markup {
    let state = words(operation.state().as_str_name(), "PENDING_NEXUS_OPERATION_STATE_");
    let class = match operation.state() {
        PendingNexusOperationState::Started => "running",
        PendingNexusOperationState::BackingOff | PendingNexusOperationState::Blocked => "warn",
        _ => "plain",
    };
    let cancellation = operation.cancellation_info.as_ref().map(|info| match info.state() {
        NexusOperationCancellationState::Unspecified => "requested, waits for the start".to_owned(),
        state => words(state.as_str_name(), "NEXUS_OPERATION_CANCELLATION_STATE_"),
    });
    html! {
        tr {
            th scope="row" { (operation.service) "." (operation.operation) br; span.faint { "endpoint " (operation.endpoint) } }
            td data-label="State" { span class={ "badge " (class) } { (state) } }
            td data-label="Attempts" { (operation.attempt) }
            td data-label="Next attempt" { (times::relative(operation.next_attempt_schedule_time.as_ref())) }
            td data-label="Cancellation" { @match cancellation { Some(state) => (state), None => span.faint { "–" } } }
            td data-label="Last failure" {
                @match &operation.last_attempt_failure {
                    Some(failure) => span.bad { (payloads::failure_line(failure)) },
                    None => span.faint { "–" },
                }
            }
        }
    }
}

fn callback_line(info: &CallbackInfo) -> Markup {
    let url = match info.callback.as_ref().and_then(|callback| callback.variant.as_ref()) {
        Some(Variant::Nexus(nexus)) => nexus.url.as_str(),
        _ => "",
    };
    html! {
        (url) " " span.badge.plain { (words(info.state().as_str_name(), "CALLBACK_STATE_")) }
        @if let Some(failure) = &info.last_attempt_failure { " " span.bad { (payloads::failure_line(failure)) } }
    }
}

fn queue_of(activity: &PendingActivityInfo) -> String {
    let options = activity.activity_options.clone().unwrap_or_default();
    options.task_queue.unwrap_or_default().name
}

/// Who paused an activity, and why.
fn pauser(activity: &PendingActivityInfo) -> Option<String> {
    let (who, why) = match activity.pause_info.as_ref()?.paused_by.as_ref()? {
        PausedBy::Manual(by) => (by.identity.clone(), &by.reason),
        PausedBy::Rule(by) => (format!("rule {}", by.rule_id), &by.reason),
    };
    Some(if why.is_empty() { who } else { format!("{who}: {why}") })
}

fn activity_row(activity: &PendingActivityInfo) -> Markup {
    let name = activity.activity_type.clone().unwrap_or_default().name;
    let state = words(activity.state().as_str_name(), "PENDING_ACTIVITY_STATE_");
    let class = match activity.state() {
        PendingActivityState::Started => "running",
        PendingActivityState::Paused | PendingActivityState::PauseRequested => "warn",
        _ => "plain",
    };
    let id = activity.activity_id.as_str();
    html! {
        tr {
            th scope="row" { (name) " " span.faint { (id) } br; span.faint { "queue " (queue_of(activity)) } }
            td data-label="State" {
                span class={ "badge " (class) } { (state) }
                @if let Some(by) = pauser(activity) { br; span.faint { "by " (by) } }
            }
            td data-label="Attempt" { (activity.attempt) @if activity.maximum_attempts > 0 { " of " (activity.maximum_attempts) } }
            td data-label="Next attempt" { (times::relative(activity.next_attempt_schedule_time.as_ref())) }
            td data-label="Worker" {
                @if activity.last_worker_identity.is_empty() { span.faint { "–" } } @else { (activity.last_worker_identity) }
                @if activity.last_heartbeat_time.is_some() { br; span.faint { "heartbeat " (times::relative(activity.last_heartbeat_time.as_ref())) } }
            }
            td data-label="Last failure" {
                @match &activity.last_failure {
                    Some(failure) => span.bad { (payloads::failure_line(failure)) },
                    None => span.faint { "–" },
                }
            }
            td.buttons data-label="Actions" {
                @if activity.paused { (button("Unpause", "", &[("do", "unpause-activity"), ("activity", id)])) }
                @else { (button("Pause", "", &[("do", "pause-activity"), ("activity", id)])) }
                (button("Reset", "", &[("do", "reset-activity"), ("activity", id)]))
            }
        }
    }
}

/// The address of a queue.
pub(super) fn queue_address(namespace: &str, queue: &str) -> String {
    format!("/ui/{}/task-queues?name={}", encode(namespace), encode(queue))
}
