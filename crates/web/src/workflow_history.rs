//! The history of a run: in groups, event by event, and as a file.

use std::collections::BTreeMap;

use maud::{Markup, html};
use prost::Message;
use segno_proto::{enums::EventType, events::HistoryEvent};
use serde_json::{Value, json};

use super::{
    Answer, PageError, PageRequest, Web,
    fields::{self, View},
    forms::Form,
    payloads, times,
    workflow::{self, RunSnapshot},
    workflow_spans::{Span, SpanKind, spans},
    workflows::grouped,
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
            @if !is_compact { (search(&events, &asked.query)) }
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

/// The events that a text and a type select.
fn selected<'a>(events: &'a [HistoryEvent], query: &Form) -> Vec<&'a HistoryEvent> {
    let (text, kind) = (query.trimmed("find").to_lowercase(), query.get("kind"));
    let fits = |event: &&HistoryEvent| {
        (kind.is_empty() || kind_of(event) == kind) && (text.is_empty() || contains(event, &text))
    };
    events.iter().filter(fits).collect()
}

/// Whether the type or the content of an event has a text, which is in small letters. The encoded form is searched: it has every
/// name, text and JSON payload as it is, and thousands of events are searched in no time.
fn contains(event: &HistoryEvent, text: &str) -> bool {
    let bytes = event.encode_to_vec().to_ascii_lowercase();
    kind_of(event).to_lowercase().contains(text) || bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// The form that searches in the history, and leads to an event.
fn search(events: &[HistoryEvent], query: &Form) -> Markup {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    events.iter().for_each(|event| *kinds.entry(kind_of(event)).or_default() += 1);
    html! {
        form.search role="search" aria-label="History" method="get" {
            label { "Text " input name="find" value=(query.get("find")) autocomplete="off" spellcheck="false" placeholder="a name, an id, a value"; }
            label { "Type " select name="kind" {
                option value="" { "all types" }
                @for (kind, count) in &kinds {
                    option value=(kind) selected[query.get("kind") == kind] { (kind) " (" (count) ")" }
                }
            } }
            label { "Event " input name="at" type="number" min="1" max=(events.len()) value=(query.get("at")) placeholder="number"; }
            button.primary { "Show" }
            @if !query.with(&[("part", "")]).is_empty() { a.button href="?" { "All events" } }
        }
    }
}

/// The range of a page: by its number, or with a given event on it, whose place `place_of` knows.
fn range(length: usize, query: &Form, place_of: impl Fn(usize) -> usize) -> (usize, usize, usize) {
    let pages = length.div_ceil(PAGE_SIZE).max(1);
    let by_event = query.number::<usize>("at").map(|event| place_of(event) / PAGE_SIZE);
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
    let all = events.len();
    let events = selected(events, query);
    let number = |event: &HistoryEvent| usize::try_from(event.event_id).unwrap_or(0);
    let (page, from, to) = range(events.len(), query, |at| events.partition_point(|event| number(event) < at));
    let at = query.number::<i64>("at");
    html! {
        @if events.len() < all { p.faint role="status" { (grouped(events.len() as i64)) " of " (grouped(all as i64)) " events" } }
        @if events.is_empty() { div.empty { p { "No event matches." } } }
        (parts(events.len(), page, query))
        ol.events {
            @for event in events[from..to].iter().copied() {
                @let attributes = attributes(event);
                @let is_found = at == Some(event.event_id);
                li id={ "event-" (event.event_id) } class=(class_of(event)) aria-current=[is_found.then_some("true")] {
                    details open[is_found] {
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
    let (page, from, to) = range(all.len(), query, |place| place.saturating_sub(1));
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

#[cfg(test)]
mod tests {
    use segno_proto::events::{
        WorkflowExecutionSignaledEventAttributes, WorkflowTaskScheduledEventAttributes, history_event::Attributes,
    };

    use super::*;

    /// Every tenth event is a signal whose name has its number.
    fn history(length: i64) -> Vec<HistoryEvent> {
        let event = |event_id: i64| {
            let (event_type, attributes) = match event_id % 10 {
                0 => {
                    let signal_name = format!("Approve-{event_id}");
                    let signal = WorkflowExecutionSignaledEventAttributes { signal_name, ..Default::default() };
                    let attributes = Attributes::WorkflowExecutionSignaledEventAttributes(signal);
                    (EventType::WorkflowExecutionSignaled, attributes)
                }
                _ => {
                    let task = WorkflowTaskScheduledEventAttributes::default();
                    (EventType::WorkflowTaskScheduled, Attributes::WorkflowTaskScheduledEventAttributes(task))
                }
            };
            HistoryEvent { event_id, event_type: event_type as i32, attributes: Some(attributes), ..Default::default() }
        };
        (1..=length).map(event).collect()
    }

    fn found(events: &[HistoryEvent], query: &str) -> Vec<i64> {
        let query = Form::parse(query).expect("a query");
        selected(events, &query).iter().map(|event| event.event_id).collect()
    }

    #[test]
    fn fifty_thousand_events_are_searched() {
        let events = history(50_000);
        assert_eq!(found(&events, "find=approve-49990"), [49_990]);
        assert_eq!(found(&events, "find=SIGNALED").len(), 5000);
        let kind = kind_of(&events[9]).replace(' ', "+");
        assert_eq!(found(&events, &format!("kind={kind}&find=-1230")), [1230, 12_300]);
        assert!(found(&events, "kind=no+such+type").is_empty());
        assert!(found(&events, "find=nothing+like+it").is_empty());
        assert_eq!(found(&events, "").len(), 50_000);
    }

    #[test]
    fn the_page_has_the_event() {
        let query = |text: &str| Form::parse(text).expect("a query");
        let place = |at: usize| at - 1;
        assert_eq!(range(50_000, &query("at=9000"), place), (89, 8900, 9000));
        assert_eq!(range(50_000, &query("part=3"), place), (2, 200, 300));
        assert_eq!(range(250, &query("at=100000"), place), (2, 200, 250));
    }
}
