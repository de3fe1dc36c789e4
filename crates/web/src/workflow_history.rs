//! The history of a run: in groups, event by event, and as a file.

use maud::{Markup, html};
use segno_proto::{enums::EventType, events::HistoryEvent};
use serde_json::{Value, json};

use super::{
    Answer, PageError, PageRequest, Web,
    fields::{self, View},
    forms::Form,
    payloads, times,
    workflow::{self, RunSnapshot},
    workflow_spans::{Span, SpanKind, spans},
};

const EVENT: &str = "temporal.api.history.v1.HistoryEvent";
/// Events or groups on a page.
const PAGE_SIZE: usize = 100;

impl Web {
    pub(super) async fn history_page(
        &self,
        namespace: &str,
        workflow_id: &str,
        run_id: &str,
        asked: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let seen = self.see(namespace, workflow_id, run_id).await?;
        let events = self.events(&seen).await?;
        let is_compact = asked.query.get("view") == "compact";
        let content = html! {
            (workflow::head(&seen, "history"))
            div.title {
                h2 { "History" }
                nav.zoom aria-label="Form of the history" {
                    a.button href="?" aria-current=[(!is_compact).then_some("true")] { "Full" }
                    a.button href="?view=compact" aria-current=[is_compact.then_some("true")] { "Compact" }
                    a.button href={ (seen.address()) "/history.json" } download { "JSON" }
                }
            }
            div #events data-live {
                @if is_compact { (compact(&seen, &events, &asked.query)) } @else { (full(&seen, &events, &asked.query)) }
            }
        };
        Ok(Answer::Page(workflow::page(&seen, content)))
    }

    /// As SDKs read it to replay.
    pub(super) async fn history_file(
        &self,
        namespace: &str,
        workflow_id: &str,
        run_id: &str,
    ) -> Result<Answer, PageError> {
        let seen = self.see(namespace, workflow_id, run_id).await?;
        let events = self.events(&seen).await?;
        let events: Vec<Value> = events.iter().map(|event| fields::json(EVENT, event, View::Exact)).collect();
        let content = json!({ "events": events }).to_string().into_bytes();
        Ok(Answer::File { kind: "application/json", name: format!("{workflow_id}.json"), content })
    }
}

/// The range of a page: by its number, or with a given event on it.
fn range(length: usize, query: &Form) -> (usize, usize, usize) {
    let pages = length.div_ceil(PAGE_SIZE).max(1);
    let by_event = query.number::<usize>("at").map(|event| event.saturating_sub(1) / PAGE_SIZE);
    let page = by_event.or_else(|| query.number("part").map(|part: usize| part.saturating_sub(1))).unwrap_or(0);
    let page = page.min(pages - 1);
    (page, page * PAGE_SIZE, ((page + 1) * PAGE_SIZE).min(length))
}

fn parts(length: usize, page: usize, query: &Form) -> Markup {
    let pages = length.div_ceil(PAGE_SIZE).max(1);
    let link = |page: usize| query.with(&[("at", ""), ("part", &(page + 1).to_string())]);
    html! {
        @if pages > 1 {
            nav.pager aria-label="Parts of the history" {
                @if page > 0 {
                    a.button href=(link(0)) { "First" }
                    a.button href=(link(page - 1)) rel="prev" { "Earlier" }
                }
                span { "part " (page + 1) " of " (pages) }
                @if page + 1 < pages {
                    a.button href=(link(page + 1)) rel="next" { "Later" }
                    a.button href=(link(pages - 1)) { "Last" }
                }
            }
        }
    }
}

pub(super) fn kind_of(event: &HistoryEvent) -> String {
    fields::words(event.event_type().as_str_name(), "EVENT_TYPE_")
}

/// The class that colours an event.
pub(super) fn class_of(event: &HistoryEvent) -> &'static str {
    let name = event.event_type().as_str_name();
    match () {
        () if name.ends_with("FAILED") || name.ends_with("TIMED_OUT") || name.ends_with("TERMINATED") => "bad",
        () if name.contains("WORKFLOW_TASK") => "task",
        () if name.contains("ACTIVITY") => "activity",
        () if name.contains("TIMER") => "timer",
        () if name.contains("CHILD") => "child",
        () if name.contains("NEXUS") => "operation",
        () if name.contains("UPDATE") => "update",
        () if name.contains("SIGNAL") => "signal",
        () => "plain",
    }
}

/// Whether a run can be reset to an event.
fn can_reset(event: &HistoryEvent) -> bool {
    matches!(
        event.event_type(),
        EventType::WorkflowTaskCompleted | EventType::WorkflowTaskFailed | EventType::WorkflowTaskTimedOut
    )
}

/// The attributes of an event, without what surrounds them.
pub(super) fn attributes(event: &HistoryEvent) -> Value {
    let Value::Object(mut all) = fields::json(EVENT, event, View::Readable) else { return Value::Null };
    let name = all.keys().find(|name| name.ends_with("Attributes")).cloned();
    name.and_then(|name| all.remove(&name)).unwrap_or(Value::Object(all))
}

/// The important parts of an event, on one line.
pub(super) fn summary(attributes: &Value) -> String {
    let text = |path: &str| attributes.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let list = |path: &str| attributes.pointer(path).map(Value::to_string);
    let parts = [
        text("/activityType/name"),
        text("/workflowType/name"),
        text("/signalName"),
        text("/timerId").map(|id| format!("timer {id}")),
        text("/startToFireTimeout"),
        text("/markerName"),
        text("/acceptedRequest/input/name"),
        text("/failure/message"),
        text("/reason"),
        list("/input/payloads"),
        list("/result/payloads"),
    ];
    payloads::short(&parts.into_iter().flatten().collect::<Vec<_>>().join("  "), 140)
}

fn full(seen: &RunSnapshot, events: &[HistoryEvent], query: &Form) -> Markup {
    let (page, from, to) = range(events.len(), query);
    html! {
        (parts(events.len(), page, query))
        ol.events start=(from + 1) {
            @for event in &events[from..to] {
                @let attributes = attributes(event);
                li id={ "event-" (event.event_id) } class=(class_of(event)) {
                    details {
                        summary {
                            span.number { (event.event_id) }
                            span.kind { (kind_of(event)) }
                            span.faint.grow { (summary(&attributes)) }
                            (times::shown(event.event_time.as_ref()))
                        }
                        pre.payload tabindex="0" data-encoded=[fields::encoded(EVENT, event)] { (serde_json::to_string_pretty(&attributes).unwrap_or_default()) }
                        @if can_reset(event) { (reset_form(seen, event.event_id)) }
                    }
                }
            }
        }
        (parts(events.len(), page, query))
    }
}

fn reset_form(seen: &RunSnapshot, event_id: i64) -> Markup {
    html! {
        form.inline method="post" action=(seen.address()) data-action {
            input type="hidden" name="do" value="reset";
            input type="hidden" name="event" value=(event_id);
            input type="hidden" name="reason" value="from the web pages";
            button data-confirm={ "Begin a new run from event " (event_id) "?" } { "Reset to this event" }
            div.outcome aria-live="polite" {}
        }
    }
}

/// A line for each activity, timer, child, Nexus operation, update, signal, without workflow tasks.
fn compact(seen: &RunSnapshot, events: &[HistoryEvent], query: &Form) -> Markup {
    let all: Vec<Span> = spans(events).into_iter().filter(|span| span.kind != SpanKind::WorkflowTask).collect();
    let (page, from, to) = range(all.len(), query);
    html! {
        (parts(all.len(), page, query))
        table.list {
            caption.hidden { "What the run did" }
            thead { tr {
                th scope="col" { "What" } th scope="col" { "Name" } th scope="col" { "Outcome" }
                th scope="col" { "Began" } th scope="col" { "Took" } th.number scope="col" { "Attempts" } th scope="col" { "Events" }
            } }
            tbody {
                @for span in &all[from..to] {
                    tr {
                        td { span class={ "badge kind-" (span.kind.word()) } { (span.kind.word()) } }
                        th scope="row" { (span.name) @if !span.id.is_empty() { " " span.faint { (span.id) } } }
                        td data-label="Outcome" { span class={ "badge end-" (span.end.word()) } { (span.end.word()) } }
                        td data-label="Began" { (times::shown_nanos(span.from)) }
                        td data-label="Took" {
                            @match span.to { Some(to) => (times::span(to - span.from)), None => span data-since=(times::exact(span.from)) { "…" } }
                        }
                        td.number data-label="Attempts" { (span.attempt) }
                        td data-label="Events" {
                            a href={ (seen.address()) "/history?at=" (span.event_id) "#event-" (span.event_id) } { (span.event_id) }
                            @if span.last_event_id != span.event_id {
                                "–" a href={ (seen.address()) "/history?at=" (span.last_event_id) "#event-" (span.last_event_id) } { (span.last_event_id) }
                            }
                        }
                    }
                }
            }
        }
        (parts(all.len(), page, query))
    }
}
