//! One run: its head with status and actions, its current state, its timeline, its input and result.

use maud::{Markup, html};
use segno_engine::script::VERSION_ATTRIBUTE;
use segno_proto::{
    common::WorkflowExecution,
    enums::{EventType, WorkflowExecutionStatus},
    events::{HistoryEvent, history_event::Attributes},
    workflow::WorkflowExecutionInfo,
    workflowservice::{
        DescribeWorkflowExecutionRequest, DescribeWorkflowExecutionResponse, GetWorkflowExecutionHistoryRequest,
    },
};
use tonic::Status;

use super::{
    Answer, PageError, PageRequest, Web, codec, forms,
    layout::{Page, badge, facts, run_address},
    payloads, times, workflow_actions, workflow_names, workflow_now, workflow_timeline,
    workflows::grouped,
};

/// Most events that a page reads. A run may have some fifty thousand.
const EVENTS_MAX: usize = 200_000;

/// A run as pages show it.
pub(super) struct RunSnapshot {
    pub(super) namespace: String,
    pub(super) workflow_id: String,
    pub(super) run_id: String,
    pub(super) described: DescribeWorkflowExecutionResponse,
    /// Whether the server lets workflows be paused.
    pub(super) may_pause: bool,
}

impl RunSnapshot {
    pub(super) fn info(&self) -> WorkflowExecutionInfo {
        self.described.workflow_execution_info.clone().unwrap_or_default()
    }

    pub(super) fn is_running(&self) -> bool {
        let status = self.described.workflow_execution_info.as_ref().map(|info| info.status());
        matches!(status, Some(WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Paused))
    }

    pub(super) fn execution(&self) -> WorkflowExecution {
        WorkflowExecution { workflow_id: self.workflow_id.clone(), run_id: self.run_id.clone() }
    }

    pub(super) fn address(&self) -> String {
        run_address(&self.namespace, &self.workflow_id, &self.run_id)
    }

    /// Whether a script executes it: it has the search attribute of a script's version.
    pub(super) fn is_script(&self) -> bool {
        let info = self.described.workflow_execution_info.as_ref();
        let attributes = info.and_then(|info| info.search_attributes.as_ref());
        attributes.is_some_and(|all| all.indexed_fields.contains_key(VERSION_ATTRIBUTE))
    }

    /// The name of its type.
    pub(super) fn kind(&self) -> String {
        self.info().r#type.unwrap_or_default().name
    }
}

impl Web {
    pub(super) async fn see(&self, namespace: &str, workflow_id: &str, run_id: &str) -> Result<RunSnapshot, Status> {
        let execution = WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id: run_id.to_owned() };
        let request = DescribeWorkflowExecutionRequest { namespace: namespace.to_owned(), execution: Some(execution) };
        let described = self.call(request).await?;
        let info = described.workflow_execution_info.as_ref();
        let run_id = info.and_then(|info| info.execution.as_ref()).map(|found| found.run_id.clone());
        Ok(RunSnapshot {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.to_owned(),
            run_id: run_id.unwrap_or_default(),
            described,
            may_pause: self.node.runs.options.workflow_pause,
        })
    }

    /// The whole history.
    pub(super) async fn events(&self, seen: &RunSnapshot) -> Result<Vec<HistoryEvent>, Status> {
        let mut events = Vec::new();
        let mut token = bytes::Bytes::new();
        loop {
            let request = GetWorkflowExecutionHistoryRequest {
                namespace: seen.namespace.clone(),
                execution: Some(seen.execution()),
                next_page_token: token,
                ..Default::default()
            };
            let page = self.call(request).await?;
            let read = page.history.unwrap_or_default().events();
            events.extend(read.map_err(|error| Status::data_loss(error.to_string()))?);
            token = page.next_page_token;
            if token.is_empty() || events.len() >= EVENTS_MAX {
                return Ok(events);
            }
        }
    }

    /// An address without a run leads to the newest one.
    pub(super) async fn newest_run(&self, namespace: &str, workflow_id: &str) -> Result<Answer, PageError> {
        let seen = self.see(namespace, workflow_id, "").await?;
        Ok(Answer::Elsewhere(seen.address()))
    }

    pub(super) async fn workflow_page(
        &self,
        namespace: &str,
        workflow_id: &str,
        run_id: &str,
        asked: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let seen = self.see(namespace, workflow_id, run_id).await?;
        let events = self.events(&seen).await?;
        let content = html! {
            (head(&seen, "summary"))
            (workflow_now::section(self, &seen).await)
            (workflow_timeline::section(&seen, &events, &asked.query))
            (in_and_out(&seen, &events))
            (details(&seen))
        };
        Ok(Answer::Page(page(&seen, content)))
    }
}

/// A page of this run.
pub(super) fn page(seen: &RunSnapshot, content: Markup) -> Page {
    Page { title: seen.workflow_id.clone(), area: "workflows", content, is_live: true }
}

/// Name, status, actions and the pages of a run.
pub(super) fn head(seen: &RunSnapshot, current: &str) -> Markup {
    let info = seen.info();
    let address = seen.address();
    let (started, closed) = (times::nanos(info.start_time.as_ref()), times::nanos(info.close_time.as_ref()));
    let tabs = [
        ("summary", "Summary", String::new()),
        ("script", "Script", "/script".to_owned()),
        ("history", "History", "/history".to_owned()),
        ("relations", "Relations", "/relations".to_owned()),
        ("calls", "Stack and queries", "/calls".to_owned()),
    ];
    let tabs = tabs.iter().filter(|(key, ..)| *key != "script" || seen.is_script());
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            a href={ "/ui/" (forms::encode(&seen.namespace)) "/workflows" } { "Workflows" } " / " span { (seen.kind()) }
        }
        div.title {
            h1 { (seen.workflow_id) }
            div #status data-live aria-live="polite" { (badge(info.status)) }
        }
        div #head-facts data-live {
            (facts(&[
                ("Type", html! { (seen.kind()) }),
                ("Executed by", executor(seen)),
                ("Task queue", html! {
                    a href={ "/ui/" (forms::encode(&seen.namespace)) "/task-queues?name=" (forms::encode(&info.task_queue)) } { (info.task_queue) }
                }),
                ("Started", times::shown(info.start_time.as_ref())),
                ("Closed", times::shown(info.close_time.as_ref())),
                ("Duration", match (started, closed) {
                    (Some(started), Some(closed)) => html! { (times::span(closed - started)) },
                    (Some(started), None) => html! { span data-since=(times::exact(started)) { "…" } },
                    _ => html! { "–" },
                }),
                ("Events", html! { (grouped(info.history_length)) }),
                ("Run", html! { code { (seen.run_id) } }),
            ]))
        }
        (workflow_actions::bar(seen))
        @if seen.is_running() || current == "calls" { (workflow_names::places(seen)) }
        nav.tabs aria-label="Pages of this run" {
            @for (key, name, end) in tabs {
                a href={ (address) (end) } aria-current=[(*key == current).then_some("page")] { (name) }
            }
        }
    }
}

/// Who executes a run: a script, or workers.
fn executor(seen: &RunSnapshot) -> Markup {
    let name = seen.kind();
    html! {
        @if seen.is_script() {
            "script " a href={ "/ui/" (forms::encode(&seen.namespace)) "/scripts/" (forms::encode(&name)) } { (name) }
        } @else { "workers" }
    }
}

/// The input and the result.
fn in_and_out(seen: &RunSnapshot, events: &[HistoryEvent]) -> Markup {
    let input = events.first().and_then(|event| match &event.attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => started.input.as_ref(),
        _ => None,
    });
    html! {
        div.columns #in-and-out data-live {
            section aria-labelledby="input-title" { h2 #input-title { "Input" } (payloads::blocks(input)) }
            section aria-labelledby="result-title" { h2 #result-title { "Result" } (result(seen, events.last())) }
        }
    }
}

fn result(seen: &RunSnapshot, last: Option<&HistoryEvent>) -> Markup {
    let next_run = |run_id: &str| {
        html! { a href=(run_address(&seen.namespace, &seen.workflow_id, run_id)) { "run " code { (run_id) } } }
    };
    match last.and_then(|event| event.attributes.as_ref()) {
        Some(Attributes::WorkflowExecutionCompletedEventAttributes(done)) => payloads::blocks(done.result.as_ref()),
        Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => {
            html! { @if let Some(failure) = &failed.failure { (payloads::failure_block(failure)) } }
        }
        Some(Attributes::WorkflowExecutionCanceledEventAttributes(canceled)) => {
            html! { p { "Canceled" } (payloads::blocks(canceled.details.as_ref())) }
        }
        Some(Attributes::WorkflowExecutionTerminatedEventAttributes(ended)) => html! {
            p { "Terminated by " strong { (ended.identity) } @if !ended.reason.is_empty() { ": " (ended.reason) } }
        },
        Some(Attributes::WorkflowExecutionContinuedAsNewEventAttributes(next)) => html! {
            p { "Continued as new: " (next_run(&next.new_execution_run_id)) }
            (payloads::blocks(next.input.as_ref()))
        },
        _ if last.is_some_and(|event| event.event_type() == EventType::WorkflowExecutionTimedOut) => {
            html! { p { "The run took longer than it was allowed to." } }
        }
        _ => html! { p.faint { "not yet" } },
    }
}

/// Settings, memo and search attributes.
fn details(seen: &RunSnapshot) -> Markup {
    let info = seen.info();
    let config = seen.described.execution_config.clone().unwrap_or_default();
    let memo = info.memo.unwrap_or_default().fields;
    let attributes = info.search_attributes.unwrap_or_default().indexed_fields;
    html! {
        section.details #details data-live aria-labelledby="details-title" {
            h2 #details-title { "Details" }
            (facts(&[
                ("Execution timeout", html! { (times::span_of(config.workflow_execution_timeout.as_ref())) }),
                ("Run timeout", html! { (times::span_of(config.workflow_run_timeout.as_ref())) }),
                ("Task timeout", html! { (times::span_of(config.default_workflow_task_timeout.as_ref())) }),
                ("History size", html! { (grouped(info.history_size_bytes)) " bytes" }),
                ("First run", html! { code { (info.first_run_id) } }),
            ]))
            @for (name, fields) in [("Search attributes", &attributes), ("Memo", &memo)] {
                @if !fields.is_empty() {
                    h3 { (name) }
                    dl.facts { @for (name, value) in fields { div { dt { (name) } dd { code data-encoded=[codec::attribute([value])] { (payloads::text(value)) } } } } }
                }
            }
        }
    }
}
