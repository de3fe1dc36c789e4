//! The script of a run: its source with the line at which it stands, variables and what is pending, after each of its turns.
//!
//! The turns come from history. The state after a turn is computed by the server ([`DescribeRunRequest`]), which begins with
//! the checkpoint before it. Without JavaScript the slider is a form.

use std::collections::BTreeMap;

use maud::{Markup, html};
use segno_proto::{
    Nanos,
    events::{HistoryEvent, history_event::Attributes},
    failure::Failure,
    segno_flow::{DescribeRunRequest, DescribeRunResponse},
};
use serde_json::Value;
use tonic::Status;

use super::{
    Answer, PageError, PageRequest, Web,
    forms::Form,
    layout::problem,
    payloads,
    script::{LineMarks, lines, lines_of, list, text},
    script_turns::{Turn, stack, turn_of, turns},
    times, workflow,
    workflow::RunSnapshot,
    workflow_history::{attributes, class_of, kind_of, summary},
};

/// Events of a turn that are listed, of each kind.
const EVENTS_MAX: usize = 20;
/// Pending promises that are listed.
const PENDING_MAX: usize = 100;
/// The longest value of a variable that is shown.
const VALUE_CHARACTERS_MAX: usize = 300;

/// A turn as the page shows it.
struct Shown<'a> {
    turns: &'a [Turn<'a>],
    /// The place of the turn; nothing while there is none.
    place: usize,
    /// The error with which the run failed in this turn.
    failure: Option<&'a Failure>,
    /// The state after the turn; before it, if the run failed in it.
    state: Result<DescribeRunResponse, Status>,
}

impl Web {
    pub(super) async fn run_script_page(
        &self,
        namespace: &str,
        workflow_id: &str,
        run_id: &str,
        asked: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let seen = self.see(namespace, workflow_id, run_id).await?;
        if !seen.is_script() {
            return Err(PageError::Missing);
        }
        let events = self.events(&seen).await?;
        let turns = turns(&events);
        let place = asked_place(&turns, &asked.query);
        let failure = failure_in(turns.get(place));
        // What stands when it fails is gone when it has failed: the state before tells it.
        let before = failure.and_then(|_| place.checked_sub(1));
        let at = match (before.or(Some(place)).and_then(|place| turns.get(place)), failure) {
            (None, _) => 0,
            (Some(_), None) if place + 1 == turns.len() && seen.is_running() => 0,
            (Some(turn), _) => turn.last,
        };
        let request = DescribeRunRequest {
            namespace: seen.namespace.clone(),
            workflow_id: seen.workflow_id.clone(),
            run_id: seen.run_id.clone(),
            at_event: at,
        };
        let shown = Shown { turns: &turns, place, failure, state: self.call(request).await };
        let content = html! {
            (workflow::head(&seen, "script"))
            (slider(&shown))
            section #script.script data-live aria-labelledby="script-title" { (view(&seen, &shown)) }
        };
        Ok(Answer::Page(workflow::page(&seen, content)))
    }
}

/// The place of the turn that was asked for: by its number, or by one of its events. Otherwise the last one.
fn asked_place(turns: &[Turn<'_>], query: &Form) -> usize {
    let last = turns.len().saturating_sub(1);
    let by_event = query.number("event").and_then(|event| turn_of(turns, event));
    let by_number = || query.number::<usize>("turn").map(|number| number.saturating_sub(1));
    by_event.or_else(by_number).unwrap_or(last).min(last)
}

/// The error with which the run failed in a turn.
fn failure_in<'a>(turn: Option<&Turn<'a>>) -> Option<&'a Failure> {
    match &turn?.commanded.last()?.attributes {
        Some(Attributes::WorkflowExecutionFailedEventAttributes(failed)) => failed.failure.as_ref(),
        _ => None,
    }
}

/// The address of a turn, which stays right when earlier events are removed.
fn address(turn: &Turn<'_>) -> String {
    format!("?event={}", turn.completed)
}

/// The form with the slider. It is no live part: the reader may hold it.
fn slider(shown: &Shown<'_>) -> Markup {
    let count = shown.turns.len();
    html! {
        @if count > 1 {
            form.turns method="get" {
                label for="turn" { "Turn" }
                input #turn type="range" name="turn" min="1" max=(count) value=(shown.place + 1);
                noscript { button { "Show" } }
            }
        }
    }
}

fn view(seen: &RunSnapshot, shown: &Shown<'_>) -> Markup {
    let Some(turn) = shown.turns.get(shown.place) else {
        return html! { h2 #script-title { "Script" } p.faint { "The script has not taken a turn yet." } };
    };
    let count = shown.turns.len();
    html! {
        div.title {
            h2 #script-title data-place=(shown.place + 1) data-count=(count) { "Turn " (shown.place + 1) " of " (count) }
            span.faint { (times::shown(turn.time)) }
            (steps(shown))
        }
        div.turn {
            div { (source(shown)) }
            div.told {
                @if let Some(failure) = shown.failure { div { h3 { "Failed" } (payloads::failure_block(failure)) } }
                div {
                    h3 { "Woken by" }
                    (event_list(seen, &turn.woken_by.into_iter().collect::<Vec<_>>()))
                    @if !turn.also_taken.is_empty() { h3 { "Also taken" } (event_list(seen, &turn.also_taken)) }
                }
                div { h3 { "Commanded" } (event_list(seen, &turn.commanded)) }
                @match &shown.state {
                    Ok(found) => (state(shown, found)),
                    Err(status) => div.notice.bad { (problem(status)) },
                }
            }
        }
    }
}

/// The links to other turns.
fn steps(shown: &Shown<'_>) -> Markup {
    let last = shown.turns.len().saturating_sub(1);
    let link = |name: &str, place: Option<usize>| {
        let turn = place.filter(|place| *place != shown.place).and_then(|place| shown.turns.get(place));
        html! {
            @match turn {
                Some(turn) => a.button data-turn href=(address(turn)) { (name) },
                None => span.button aria-disabled="true" { (name) },
            }
        }
    };
    html! {
        nav.zoom aria-label="Turns" {
            (link("First", Some(0))) (link("Previous", shown.place.checked_sub(1)))
            (link("Next", Some(shown.place + 1).filter(|place| *place <= last))) (link("Last", Some(last)))
        }
    }
}

/// The source, with the lines at which code waits after the turn, or at which it failed.
fn source(shown: &Shown<'_>) -> Markup {
    let Ok(found) = &shown.state else { return html! {} };
    let source = String::from_utf8_lossy(&found.source);
    let note = |text: String| html! { (text) };
    let marks: LineMarks = match shown.failure {
        Some(failure) => {
            let mut marks = LineMarks::new();
            for (place, line) in stack(&failure.stack_trace).iter().enumerate() {
                let said = match place {
                    0 => format!("failed: {}", payloads::short(message_of(failure), 120)),
                    _ => format!("{} called from here", line.function),
                };
                marks.entry(line.line).or_default().push(note(said));
            }
            marks
        }
        None => {
            let state: Value = serde_json::from_str(&found.state_json).unwrap_or_default();
            let noted = lines_of(&state).into_iter();
            noted.map(|(line, notes)| (line, notes.into_iter().map(note).collect())).collect()
        }
    };
    html! {
        h3 { (found.file_name) }
        div.failed[shown.failure.is_some()] { (lines(&source, &marks)) }
    }
}

/// The message of the innermost cause, which says more than that a task failed.
fn message_of(failure: &Failure) -> &str {
    let mut failure = failure;
    while let Some(cause) = failure.cause.as_deref() {
        failure = cause;
    }
    &failure.message
}

/// Events of a turn, each with a link to history.
fn event_list(seen: &RunSnapshot, events: &[&HistoryEvent]) -> Markup {
    html! {
        @if events.is_empty() { p.faint { "nothing" } } @else {
            ul.marks {
                @for event in events.iter().take(EVENTS_MAX) {
                    li class=(class_of(event)) {
                        a href={ (seen.address()) "/history?at=" (event.event_id) "#event-" (event.event_id) } { (kind_of(event)) }
                        " " span.faint { (summary(&attributes(event))) }
                    }
                }
                @if events.len() > EVENTS_MAX { li.faint { "and " (events.len() - EVENTS_MAX) " more" } }
            }
        }
    }
}

/// Variables, pending promises, signals and log.
fn state(shown: &Shown<'_>, found: &DescribeRunResponse) -> Markup {
    let Ok(state) = serde_json::from_str::<Value>(&found.state_json) else { return html! {} };
    let before = if shown.failure.is_some() { " before this turn" } else { "" };
    let signals = state.get("signals").and_then(Value::as_object).filter(|signals| !signals.is_empty());
    html! {
        div { h3 { "Variables" (before) } (variables(&state)) }
        div { h3 { "Pending" (before) } (pending(list(&state, "pending"))) }
        @if let Some(signals) = signals {
            div { h3 { "Signals that wait" } ul { @for (name, count) in signals { li { (name) " " span.faint { (count) } } } } }
        }
        @let log = list(&state, "log");
        @if !log.is_empty() {
            div { h3 { "Log" } ul.log { @for line in log { li { span.faint { "line " (line["line"]) } " " (text(line, "message")) " " (data(&line["data"])) } } } }
        }
    }
}

fn data(value: &Value) -> Markup {
    html! { @if !value.is_null() { code { (payloads::short(&value.to_string(), VALUE_CHARACTERS_MAX)) } } }
}

/// The variables of all code that waits, with the function where it is not the only one.
fn variables(state: &Value) -> Markup {
    let frames = list(state, "code").iter().flat_map(|piece| list(piece, "frames"));
    let mut by_function: BTreeMap<&str, BTreeMap<&String, &Value>> = BTreeMap::new();
    for frame in frames {
        let variables = frame.get("variables").and_then(Value::as_object).into_iter().flatten();
        by_function.entry(text(frame, "function")).or_default().extend(variables);
    }
    by_function.retain(|_, variables| !variables.is_empty());
    let alone = by_function.len() == 1;
    html! {
        @if by_function.is_empty() { p.faint { "none" } }
        @for (function, variables) in &by_function {
            @if !alone { h4 { (function) } }
            dl.variables { @for (name, value) in variables { div { dt { code { (name) } } dd { code { (payloads::short(&value.to_string(), VALUE_CHARACTERS_MAX)) } } } } }
        }
    }
}

fn pending(pending: &[Value]) -> Markup {
    html! {
        @if pending.is_empty() { p.faint { "nothing" } } @else {
            ul.marks {
                @for item in pending.iter().take(PENDING_MAX) {
                    li class=(kind_class(text(item, "kind"))) {
                        code { (text(item, "item_id")) } " " (text(item, "kind")) " " strong { (text(item, "name")) }
                        @if let Some(due) = moment(item, "due") { " " span.faint { "due " (times::shown_nanos(due)) } }
                        @else if let Some(since) = moment(item, "since") { " " span.faint { "since " (times::shown_nanos(since)) } }
                    }
                }
                @if pending.len() > PENDING_MAX { li.faint { "and " (pending.len() - PENDING_MAX) " more" } }
            }
        }
    }
}

fn kind_class(kind: &str) -> &'static str {
    match kind {
        "task" => "activity",
        "timer" => "timer",
        "workflow" => "child",
        "signal" => "signal",
        "nexus" => "operation",
        _ => "plain",
    }
}

fn moment(item: &Value, name: &str) -> Option<Nanos> {
    let time: jiff::Timestamp = text(item, name).parse().ok()?;
    Nanos::try_from(time.as_nanosecond()).ok()
}
