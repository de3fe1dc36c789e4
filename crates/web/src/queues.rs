//! Task queues: pollers, waiting tasks, rates.

use std::collections::BTreeSet;

use maud::{Markup, html};
use segno_engine::script;
use segno_proto::{
    enums::TaskQueueType,
    segno_worker::ListWorkersRequest,
    taskqueue::TaskQueue,
    workflowservice::{DescribeTaskQueueRequest, DescribeTaskQueueResponse, ListWorkflowExecutionsRequest},
};

use super::{
    Answer, PageError, PageRequest, Web,
    layout::Page,
    times,
    verification::address_of_queue,
    workflow_now::queue_address,
    workflows::{grouped, note},
};

/// Open runs whose queues are listed.
const RUNS_MAX: i32 = 500;
/// Queues with waiting tasks, of all namespaces, that are looked at.
const WAITING_MAX: usize = 200;
const QUEUES_MAX: usize = 100;

impl Web {
    pub(super) async fn queues_page(&self, namespace: &str, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let name = asked.query.trimmed("name");
        let names = if name.is_empty() { self.queue_names(namespace).await } else { BTreeSet::from([name.clone()]) };
        let mut rows = Vec::new();
        for queue in names.into_iter().take(QUEUES_MAX) {
            let workflow = self.queue(namespace, &queue, TaskQueueType::Workflow).await;
            let activity = self.queue(namespace, &queue, TaskQueueType::Activity).await;
            // Most queues have no handlers of operations.
            let nexus = self.queue(namespace, &queue, TaskQueueType::Nexus).await;
            let nexus = Some(nexus).filter(|nexus| nexus.as_ref().is_ok_and(is_used));
            rows.push((queue, workflow, activity, nexus));
        }
        let content = html! {
            h1 { "Task queues" }
            form.filter role="search" method="get" {
                label for="name" { "Name" }
                div.field { input #name name="name" value=(name) autocomplete="off" placeholder="any queue, also one that is empty"; }
                button.primary { "Show" }
                @if !name.is_empty() { a.button href="?" { "All known" } }
            }
            div #rows data-live {
                @if rows.is_empty() {
                    div.empty { p { "No worker and no open workflow names a task queue." } }
                }
                @for (queue, workflow, activity, nexus) in &rows {
                    section.card aria-label={ "Queue " (queue) } {
                        h2 { a href=(queue_address(namespace, queue)) { (queue) } }
                        div.columns {
                            (half("Workflow tasks", workflow, queue == script::QUEUE))
                            (half("Activities", activity, false))
                            @if let Some(nexus) = nexus { (half("Nexus tasks", nexus, false)) }
                        }
                        p { a href=(address_of_queue(namespace, queue)) { "Verify new code" } " with the open runs of this queue." }
                    }
                }
            }
            p.faint { "Listed are the queues of workers, of the newest open workflows, and of tasks that wait." }
        };
        Ok(Answer::Page(Page { title: "Task queues".to_owned(), area: "task-queues", content, is_live: true }))
    }

    /// The queues of workers, of open runs and of tasks that wait: queues themselves are not listed anywhere.
    async fn queue_names(&self, namespace: &str) -> BTreeSet<String> {
        let workers = self.call(ListWorkersRequest { namespace: namespace.to_owned() }).await;
        let workers = workers.map(|found| found.workers).unwrap_or_default();
        let request = ListWorkflowExecutionsRequest {
            namespace: namespace.to_owned(),
            page_size: RUNS_MAX,
            query: "CloseTime IS NULL".to_owned(),
            ..Default::default()
        };
        let runs = self.call(request).await;
        let runs = runs.map(|found| found.executions).unwrap_or_default();
        let waiting = self.node.dispatch.queue_gauges(WAITING_MAX).into_iter();
        let waiting = waiting.filter(|queue| queue.namespace == namespace && queue.backlog > 0).map(|queue| queue.name);
        let named = workers.into_iter().map(|worker| worker.task_queue).chain(waiting);
        named.chain(runs.into_iter().map(|run| run.task_queue)).filter(|name| !name.is_empty()).collect()
    }

    async fn queue(
        &self,
        namespace: &str,
        name: &str,
        kind: TaskQueueType,
    ) -> Result<DescribeTaskQueueResponse, tonic::Status> {
        let request = DescribeTaskQueueRequest {
            namespace: namespace.to_owned(),
            task_queue: Some(TaskQueue { name: name.to_owned(), ..Default::default() }),
            task_queue_type: kind as i32,
            report_stats: true,
            ..Default::default()
        };
        self.call(request).await
    }
}

/// Whether tasks of a kind wait on a queue, or workers poll for them.
fn is_used(found: &DescribeTaskQueueResponse) -> bool {
    !found.pollers.is_empty() || found.stats.is_some_and(|stats| stats.approximate_backlog_count > 0)
}

/// One kind of tasks of a queue. `is_own`: the server itself serves it.
fn half(title: &str, found: &Result<DescribeTaskQueueResponse, tonic::Status>, is_own: bool) -> Markup {
    let found = match found {
        Ok(found) => found,
        Err(status) => return html! { div { h3 { (title) } (note(status)) } },
    };
    let stats = found.stats.unwrap_or_default();
    let waits = stats.approximate_backlog_count > 0;
    html! {
        div {
            h3 { (title) }
            p {
                span.figure.warn[waits] { (grouped(stats.approximate_backlog_count)) } " waiting"
                @if waits { ", the oldest for " (times::span_of(stats.approximate_backlog_age.as_ref())) }
                ". In " (format!("{:.1}", stats.tasks_add_rate)) "/s, out " (format!("{:.1}", stats.tasks_dispatch_rate)) "/s."
            }
            @if found.pollers.is_empty() && is_own {
                p { span.faint { "The server itself executes scripts; no worker polls this queue." } }
            } @else if found.pollers.is_empty() {
                p { @if waits { strong.bad { "No worker polls it." } } @else { span.faint { "no worker polls it" } } }
            } @else {
                ul.pollers { @for poller in &found.pollers {
                    li { (poller.identity) " " span.faint { "polled " (times::relative(poller.last_access_time.as_ref())) } }
                } }
            }
        }
    }
}
