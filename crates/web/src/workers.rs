//! Workers: their leases and tasks.

use maud::{Markup, html};
use segno_proto::segno_worker::{DescribeWorkerRequest, ListWorkersRequest, Worker, WorkerState};

use super::{
    Answer, PageError, Web,
    forms::encode,
    layout::{Page, facts, run_address},
    times,
    workflow_now::queue_address,
};

impl Web {
    pub(super) async fn workers_page(&self, namespace: &str) -> Result<Answer, PageError> {
        let request = ListWorkersRequest { namespace: namespace.to_owned() };
        let mut workers = self.call(request).await?.workers;
        workers.sort_by_key(|worker| (worker.state() != WorkerState::Active, worker.identity.clone()));
        let content = html! {
            h1 { "Workers" }
            div #rows data-live {
                @if workers.is_empty() {
                    div.empty { p { "No worker has sent a heartbeat." } p { "Recent SDKs send heartbeats; workers of older ones are listed on the page of their task queue." } }
                } @else {
                    table.list {
                        caption.hidden { "Workers" }
                        thead { tr {
                            th scope="col" { "Worker" } th scope="col" { "State" } th scope="col" { "Task queue" } th scope="col" { "SDK" }
                            th scope="col" { "Heartbeat" } th.number scope="col" { "Activities" } th.number scope="col" { "Workflow tasks" }
                        } }
                        tbody { @for worker in &workers {
                            tr {
                                th scope="row" { a href={ "/ui/" (encode(namespace)) "/workers/" (encode(&worker.worker_instance_key)) } { (name(worker)) } }
                                td { (state(worker)) }
                                td data-label="Queue" { a href=(queue_address(namespace, &worker.task_queue)) { (worker.task_queue) } }
                                td data-label="SDK" { (worker.sdk_name) " " (worker.sdk_version) }
                                td data-label="Heartbeat" { (times::relative(worker.heartbeat_time.as_ref())) }
                                td.number data-label="Activities" { (worker.activity_count) }
                                td.number data-label="Workflow tasks" { (worker.workflow_task_count) }
                            }
                        } }
                    }
                }
            }
        };
        Ok(Answer::Page(Page { title: "Workers".to_owned(), area: "workers", content, is_live: true }))
    }

    pub(super) async fn worker_page(&self, namespace: &str, key: &str) -> Result<Answer, PageError> {
        let request = DescribeWorkerRequest { namespace: namespace.to_owned(), worker_instance_key: key.to_owned() };
        let worker = self.call(request).await?.worker.unwrap_or_default();
        let content = html! {
            nav.crumbs aria-label="Breadcrumb" { a href={ "/ui/" (encode(namespace)) "/workers" } { "Workers" } " / " span { (name(&worker)) } }
            div.title { h1 { (name(&worker)) } div #status data-live { (state(&worker)) } }
            div #facts data-live {
                (facts(&[
                    ("Task queue", html! { a href=(queue_address(namespace, &worker.task_queue)) { (worker.task_queue) } }),
                    ("Host", html! { (worker.host_name) }),
                    ("Process", html! { (worker.process_id) }),
                    ("SDK", html! { (worker.sdk_name) " " (worker.sdk_version) }),
                    ("Connections", html! { (worker.connections) }),
                    ("Heartbeat", times::relative(worker.heartbeat_time.as_ref())),
                    ("Key", html! { code { (worker.worker_instance_key) } }),
                ]))
                h2 { "Activities that it holds" }
                @if worker.activities.is_empty() { p.faint { "none" } }
                ul { @for held in &worker.activities {
                    li {
                        strong { (held.activity_type) } " " span.faint { (held.activity_id) } " of "
                        a href=(run_address(namespace, &held.workflow_id, &held.run_id)) { (held.workflow_id) }
                        ", attempt " (held.attempt) ", since " (times::relative(held.started_time.as_ref()))
                    }
                } }
                h2 { "Workflow tasks that it holds" }
                @if worker.workflow_tasks.is_empty() { p.faint { "none" } }
                ul { @for held in &worker.workflow_tasks {
                    li { a href=(run_address(namespace, &held.workflow_id, &held.run_id)) { (held.workflow_id) } }
                } }
            }
        };
        Ok(Answer::Page(Page { title: name(&worker).to_owned(), area: "workers", content, is_live: true }))
    }
}

fn name(worker: &Worker) -> &str {
    if worker.identity.is_empty() { &worker.worker_instance_key } else { &worker.identity }
}

/// The remaining time of a lease changes all the time and is left out, so that the page does not.
fn state(worker: &Worker) -> Markup {
    match worker.state() {
        WorkerState::Active => html! { span.badge.good { "Active" } },
        WorkerState::Detached => html! { span.badge.warn { "Detached" } },
        WorkerState::Gone => html! { span.badge.plain { "Gone" } },
        WorkerState::Unspecified => html! { span.badge.plain { "Unknown" } },
    }
}
