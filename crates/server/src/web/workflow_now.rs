//! What a run does now, and why it waits.

use maud::{Markup, html};
use segno_proto::{
    enums::{PendingActivityState, PendingWorkflowTaskState, TaskQueueType},
    events::HistoryEvent,
    taskqueue::TaskQueue,
    workflow::PendingActivityInfo,
    workflowservice::{DescribeTaskQueueRequest, workflow_service_server::WorkflowService},
};

use super::{
    Web, call,
    fields::words,
    forms::encode,
    layout::{button, run_address},
    payloads, times,
    workflow::Seen,
    workflow_spans::{SpanEnd, SpanKind, spans},
};

/// Most pending things of a kind that are listed.
const LISTED_MAX: usize = 100;
/// Most activities with a sentence each.
const SENTENCES_MAX: usize = 3;

/// The section, for a run that is open.
pub(super) async fn section(web: &Web, seen: &Seen, events: &[HistoryEvent]) -> Markup {
    let content = if seen.is_running() {
        now(web, seen, events).await
    } else {
        html! {}
    };
    html! { div #now data-live aria-live="off" { (content) } }
}

/// Why the run does not go on, in sentences.
///
/// This is the one place for them: where `segno workflow why` has its sentences in the server, they are called here in
/// place of those below.
async fn sentences(web: &Web, seen: &Seen, events: &[HistoryEvent]) -> Vec<Markup> {
    let described = &seen.described;
    let mut said = Vec::new();
    if let Some(task) = &described.pending_workflow_task {
        let queue = seen.info().task_queue;
        said.push(match task.state() {
            PendingWorkflowTaskState::Started => html! {
                "A worker executes its code since " (times::relative(task.started_time.as_ref())) "."
            },
            _ => html! {
                "Its code waits for a worker of the queue " strong { (queue) } " since "
                (times::relative(task.scheduled_time.as_ref())) "."
            },
        });
        if task.attempt > 1 {
            said.push(html! { "This is attempt " strong { (task.attempt) } " of the workflow task: the code failed or the worker did not answer." });
        }
        if task.state() != PendingWorkflowTaskState::Started
            && !web.is_polled(seen, &queue, TaskQueueType::Workflow).await
        {
            said.push(html! { strong.bad { "Nobody polls the queue " (queue) " for workflow tasks." } " Start a worker for it." });
        }
    }
    for activity in described.pending_activities.iter().take(SENTENCES_MAX) {
        said.push(of_activity(activity));
    }
    if described.pending_activities.len() > SENTENCES_MAX {
        said.push(html! { "It waits for " (described.pending_activities.len() - SENTENCES_MAX) " more activities." });
    }
    let mut silent: Vec<String> = Vec::new();
    for activity in described.pending_activities.iter().take(LISTED_MAX) {
        let queue = queue_of(activity);
        if activity.state() == PendingActivityState::Scheduled && !silent.contains(&queue) {
            if !web.is_polled(seen, &queue, TaskQueueType::Activity).await {
                said.push(html! { strong.bad { "Nobody polls the queue " (queue) " for activities." } " Start a worker for it." });
            }
            silent.push(queue);
        }
    }
    let open = spans(events).into_iter().filter(|span| span.end == SpanEnd::Open);
    let mut timers: Vec<_> = open.filter(|span| span.kind == SpanKind::Timer).collect();
    timers.sort_by_key(|timer| timer.due);
    if let Some(next) = timers.first().and_then(|timer| timer.due) {
        said.push(html! {
            @if timers.len() == 1 { "It waits for a timer, due " } @else { "It waits for " (timers.len()) " timers, the next due " }
            time datetime=(times::exact(next)) data-relative { (times::exact(next)) } "."
        });
    }
    if !described.pending_children.is_empty() {
        said.push(html! { "It waits for " strong { (described.pending_children.len()) } " child workflows." });
    }
    if said.is_empty() && described.pending_activities.is_empty() {
        said.push(html! { "Nothing is pending: it waits for a signal or an update." });
    }
    said
}

/// How often, in words.
fn times_of(count: i32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}

/// What an activity does.
fn of_activity(activity: &PendingActivityInfo) -> Markup {
    let name = html! { "activity " strong { (activity.activity_type.clone().unwrap_or_default().name) } };
    match activity.state() {
        PendingActivityState::Started => html! {
            "It waits for " (name) ", which " (activity.last_worker_identity) " executes since "
            (times::relative(activity.last_started_time.as_ref())) "."
        },
        PendingActivityState::Paused => html! { "It waits for " (name) ", which is paused." },
        _ if activity.next_attempt_schedule_time.is_some() => html! {
            "It waits for " (name) ", which failed " (times_of(activity.attempt - 1)) ". It is tried again "
            (times::relative(activity.next_attempt_schedule_time.as_ref())) "."
        },
        _ => {
            html! { "It waits for " (name) ", which waits for a worker of the queue " strong { (queue_of(activity)) } "." }
        }
    }
}

async fn now(web: &Web, seen: &Seen, events: &[HistoryEvent]) -> Markup {
    let described = &seen.described;
    html! {
        section.now aria-labelledby="now-title" {
            h2 #now-title { "Now" }
            @for sentence in sentences(web, seen, events).await { p.sentence { (sentence) } }
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
            @if !described.pending_children.is_empty() {
                h3 { "Pending children" }
                ul { @for child in described.pending_children.iter().take(LISTED_MAX) {
                    li { a href=(run_address(&seen.namespace, &child.workflow_id, &child.run_id)) { (child.workflow_id) } " " span.faint { (child.workflow_type_name) } }
                } }
            }
        }
    }
}

fn queue_of(activity: &PendingActivityInfo) -> String {
    let options = activity.activity_options.clone().unwrap_or_default();
    options.task_queue.unwrap_or_default().name
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
            td data-label="State" { span class={ "badge " (class) } { (state) } }
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

impl Web {
    /// Whether somebody polls a queue. If that cannot be found out, nothing is claimed.
    async fn is_polled(&self, seen: &Seen, queue: &str, kind: TaskQueueType) -> bool {
        let request = DescribeTaskQueueRequest {
            namespace: seen.namespace.clone(),
            task_queue: Some(TaskQueue { name: queue.to_owned(), ..Default::default() }),
            task_queue_type: kind as i32,
            ..Default::default()
        };
        let described = self.workflows.describe_task_queue(call(request)).await;
        described.map_or(true, |described| !described.into_inner().pollers.is_empty())
    }
}

/// The address of a queue.
pub(super) fn queue_address(namespace: &str, queue: &str) -> String {
    format!("/ui/{}/task-queues?name={}", encode(namespace), encode(queue))
}
