//! The timeline, drawn as SVG.
//!
//! Spans of one kind and name share a row; those that overlap are put below each other. Spans narrower than a pixel are
//! merged with their neighbour, and rows beyond a limit are only counted, so that the drawing of ten thousand events is
//! not larger than a screen needs. Zooming requests a part of the time (`from`, `to`, in milliseconds since the
//! beginning): links do that without scripts.

use std::{collections::BTreeMap, fmt::Write};

use maud::{Markup, html};
use segno_proto::{Nanos, enums::PendingActivityState, events::HistoryEvent, workflow::PendingActivityInfo};

use super::{
    fields::event_time,
    forms::Form,
    times,
    workflow::RunSnapshot,
    workflow_spans::{Span, SpanEnd, SpanKind, spans},
};

/// The width of the drawing in its own units.
const WIDTH: f64 = 1000.0;
/// The part on the left with the names.
const NAMES: f64 = 190.0;
const ROW: f64 = 22.0;
const BAR: f64 = 12.0;
/// The narrowest bar that has room for the sign of a failure.
const CROSS: f64 = 7.0;
const AXIS: f64 = 26.0;
/// Most rows that are drawn.
const ROWS_MAX: usize = 120;
/// Bars nearer to each other than this become one.
const MERGE: f64 = 0.6;
/// Spans up to this number have explanations of their own.
const TITLES_MAX: usize = 1500;
const MILLI: Nanos = 1_000_000;

/// The time that is drawn.
#[derive(Clone, Copy, Debug)]
struct Window {
    begin: Nanos,
    end: Nanos,
    from: Nanos,
    to: Nanos,
}

impl Window {
    fn x(&self, at: Nanos) -> f64 {
        let part = (at - self.from) as f64 / (self.to - self.from).max(1) as f64;
        NAMES + part.clamp(0.0, 1.0) * (WIDTH - NAMES - 8.0)
    }

    /// A part of the time as a query.
    fn link(&self, from: Nanos, to: Nanos) -> String {
        let (from, to) = (from.max(self.begin), to.min(self.end));
        if from <= self.begin && to >= self.end {
            return "?#timeline".to_owned();
        }
        format!("?from={}&to={}#timeline", (from - self.begin) / MILLI, (to - self.begin + MILLI - 1) / MILLI)
    }
}

/// The section with the drawing.
pub(super) fn section(seen: &RunSnapshot, events: &[HistoryEvent], query: &Form) -> Markup {
    let Some((first, last)) = events.first().zip(events.last()) else { return html! {} };
    let begin = event_time(first);
    let end = if seen.is_running() { times::now() } else { event_time(last) }.max(begin + MILLI);
    let ask = |name: &str| query.number::<i64>(name).map(|millis| begin.saturating_add(millis.saturating_mul(MILLI)));
    let from = ask("from").unwrap_or(begin).clamp(begin, end - 1);
    let to = ask("to").unwrap_or(end).clamp(from + 1, end);
    let window = Window { begin, end, from, to: to.max(from + MILLI) };
    let mut all = spans(events);
    seen.described.pending_activities.iter().for_each(|pending| add_attempts(&mut all, pending));
    let quarter = (window.to - window.from) / 4;
    let is_whole = window.from == begin && to == end;
    html! {
        section.timeline #timeline data-live aria-labelledby="timeline-title" {
            div.title {
                h2 #timeline-title { "Timeline" }
                nav.zoom aria-label="Zoom" {
                    a.button href=(window.link(window.from + quarter, window.to - quarter)) { "Zoom in" }
                    a.button href=(window.link(window.from - quarter * 2, window.to + quarter * 2)) { "Zoom out" }
                    a.button href=(window.link(window.from - quarter, window.to - quarter)) { "Earlier" }
                    a.button href=(window.link(window.from + quarter, window.to + quarter)) { "Later" }
                    @if !is_whole { a.button href="?#timeline" { "Whole run" } }
                }
            }
            (draw(seen, &all, window))
            (legend())
        }
    }
}

/// The history learns of the attempts of an activity when it ends; until then its description has them.
fn add_attempts(spans: &mut [Span], pending: &PendingActivityInfo) {
    let is_it = |span: &&mut Span| {
        span.kind == SpanKind::Activity && span.end == SpanEnd::Open && span.id == pending.activity_id
    };
    let Some(span) = spans.iter_mut().rev().find(is_it) else { return };
    span.attempt = pending.attempt;
    match pending.state() {
        PendingActivityState::Started | PendingActivityState::CancelRequested => {
            span.started = times::nanos(pending.last_started_time.as_ref());
        }
        _ => span.due = times::nanos(pending.next_attempt_schedule_time.as_ref()),
    }
}

fn legend() -> Markup {
    html! {
        ul.legend aria-label="Legend" {
            @for (class, name) in [
                ("activity done", "activity"), ("waiting", "waiting for a worker, or for the next attempt"), ("timer done", "timer"),
                ("child done", "child"), ("operation done", "Nexus operation"), ("update done", "update"), ("task done", "workflow task"),
                ("signal done", "signal"), ("activity failed", "failed"), ("activity open", "open"),
            ] {
                li {
                    svg width="14" height="12" aria-hidden="true" {
                        rect class={ "bar " (class) } x="0" y="0" width="14" height="12" rx="2" {}
                        @if class.ends_with("failed") { (cross(7.0, 6.0)) }
                    }
                    (name)
                }
            }
        }
    }
}

/// The sign of a failure, which does not depend on colours.
fn cross(x: f64, y: f64) -> Markup {
    let (left, right) = (tenth(x - 2.5), tenth(x + 2.5));
    html! { path.cross d={ "M" (left) " " (y - 2.5) "L" (right) " " (y + 2.5) "M" (left) " " (y + 2.5) "L" (right) " " (y - 2.5) } {} }
}

/// Several spans in a row, as one bar.
struct Bar<'a> {
    first: &'a Span,
    count: usize,
    from: f64,
    work: f64,
    to: f64,
    end: SpanEnd,
    /// Failed attempts before the last one.
    attempts: Vec<(f64, f64)>,
}

/// A row: a name, and bars that do not overlap.
struct Row<'a> {
    kind: SpanKind,
    name: &'a str,
    bars: Vec<Bar<'a>>,
    until: Nanos,
}

/// Puts spans into rows.
fn rows(spans: &[Span], window: Window) -> (Vec<Row<'_>>, usize) {
    let mut by_name: BTreeMap<(SpanKind, &str), Vec<&Span>> = BTreeMap::new();
    let mut order: Vec<(SpanKind, &str)> = Vec::new();
    for span in spans {
        let until = span.to.unwrap_or(window.end);
        if until < window.from || span.from > window.to {
            continue;
        }
        let key = (span.kind, span.name.as_str());
        let group = by_name.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        group.push(span);
    }
    // Workflow tasks first, then in the order of the first span of each name.
    order.sort_by_key(|(kind, _)| *kind != SpanKind::WorkflowTask);
    let (mut drawn, mut left_out): (Vec<Row<'_>>, usize) = (Vec::new(), 0);
    // A name with many overlapping spans leaves room for the others.
    let share = (ROWS_MAX / order.len().max(1)).max(3);
    for key in order {
        let mut group: Vec<Row<'_>> = Vec::new();
        for span in by_name.get(&key).into_iter().flatten() {
            let bar = bar(span, window);
            // What is not drawn side by side needs no row of its own.
            let free = group.iter().position(|row| row.until <= span.from);
            let place = match free {
                Some(place) => place,
                None if group.len() < share && drawn.len() + group.len() < ROWS_MAX => {
                    let name = if group.is_empty() { key.1 } else { "" };
                    group.push(Row { kind: key.0, name, bars: Vec::new(), until: Nanos::MIN });
                    group.len() - 1
                }
                None => {
                    left_out += 1;
                    continue;
                }
            };
            let row = &mut group[place];
            row.until = span.to.unwrap_or(Nanos::MAX);
            match row.bars.last_mut() {
                Some(last) if bar.from - last.to < MERGE && last.to - last.from < 3.0 && bar.to - bar.from < 3.0 => {
                    last.to = bar.to.max(last.to);
                    last.count += 1;
                    if bar.end == SpanEnd::Bad {
                        last.end = SpanEnd::Bad;
                    }
                }
                _ => row.bars.push(bar),
            }
        }
        drawn.extend(group);
    }
    (drawn, left_out)
}

fn bar(span: &Span, window: Window) -> Bar<'_> {
    let from = window.x(span.from);
    let to = window.x(span.to.unwrap_or(window.end)).max(from);
    let waits = span.end == SpanEnd::Open && matches!(span.kind, SpanKind::Activity | SpanKind::Operation);
    let work = span.started.map_or(if waits { to } else { from }, |at| window.x(at));
    let last_began = span.started.or(span.due).or(span.to).unwrap_or(window.end);
    let is_drawn = |(from, to): &(Nanos, Nanos)| *to >= window.from && *from <= window.to;
    let attempts = span.failed_attempts(last_began).into_iter().filter(is_drawn);
    let attempts = attempts.map(|(from, to)| (window.x(from), window.x(to))).collect();
    Bar { first: span, count: 1, from, work: work.clamp(from, to), to, end: span.end, attempts }
}

fn draw(seen: &RunSnapshot, spans: &[Span], window: Window) -> Markup {
    let (rows, left_out) = rows(spans, window);
    let height = AXIS + rows.len() as f64 * ROW + 8.0;
    let bars: usize = rows.iter().map(|row| row.bars.len()).sum();
    let history = format!("{}/history", seen.address());
    let (from, to) = ((window.from - window.begin) / MILLI, (window.to - window.begin) / MILLI);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Timeline drawing" {
            svg.drawing viewBox={ "0 0 " (WIDTH) " " (height) } role="group" aria-labelledby="timeline-title timeline-text" data-timeline data-from=(from) data-to=(to) data-names=(NAMES) data-width=(WIDTH) {
                desc #timeline-text { (rows.len()) " rows with " (spans.len()) " activities, timers, children, Nexus operations, updates, signals and workflow tasks" }
                (axis(window, height))
                @for (place, row) in rows.iter().enumerate() {
                    @let y = AXIS + place as f64 * ROW;
                    g class={ "row " (row.kind.word()) } {
                        @if place % 2 == 0 { rect.stripe x="0" y=(y) width=(WIDTH) height=(ROW) {} }
                        @if !row.name.is_empty() { text.name x="8" y=(y + 15.0) { title { (row.name) } (super::payloads::short(row.name, 26)) } }
                        @for bar in &row.bars { (draw_bar(bar, y + (ROW - BAR) / 2.0, &history, bars <= TITLES_MAX)) }
                    }
                }
                rect.brush data-brush x="0" y=(AXIS) width="0" height=(height - AXIS) {}
            }
        }
        @if left_out > 0 { p.faint { (left_out) " more overlap with these and are not drawn: zoom in to see them." } }
    }
}

fn title(bar: &Bar<'_>) -> String {
    let span = bar.first;
    let mut text = span.name.clone();
    if bar.count > 1 {
        let _ = write!(text, ": {} of them", bar.count);
        return text;
    }
    if !span.id.is_empty() {
        let _ = write!(text, " ({})", span.id);
    }
    let _ = write!(text, ", {}", bar.end.word());
    if let Some(to) = span.to.filter(|to| *to > span.from) {
        let _ = write!(text, " after {}", times::span(to - span.from));
    }
    if span.attempt > 1 {
        let _ = write!(text, ", attempt {}", span.attempt);
        if span.retry.is_some() {
            text.push_str("; the times of the attempts that failed follow from the retry policy");
        }
    }
    let _ = write!(text, ", event {}", span.event_id);
    text
}

/// A number with one digit behind the point: drawings of thousands of bars stay small.
fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn draw_bar(bar: &Bar<'_>, y: f64, history: &str, with_title: bool) -> Markup {
    let class = format!("bar {} {}", bar.first.kind.word(), bar.end.word());
    let is_point = matches!(bar.first.kind, SpanKind::Signal | SpanKind::Marker);
    let width = (bar.to - bar.work).max(if is_point { 4.0 } else { 2.0 });
    let event_id = bar.first.event_id;
    let shape = html! {
        @if bar.work - bar.from > 0.5 {
            rect.bar.waiting x=(tenth(bar.from)) y=(y + 3.0) width=(tenth(bar.work - bar.from)) height=(BAR - 6.0) rx="2" {}
        }
        @if bar.count == 1 {
            @for (from, to) in &bar.attempts {
                @let width = (to - from).max(2.0);
                rect.bar.activity.failed.attempt-bar x=(tenth(*from)) y=(y) width=(tenth(width)) height=(BAR) rx="2" {}
                @if width >= CROSS { (cross(from + width / 2.0, y + BAR / 2.0)) }
            }
        }
        rect class=(class) x=(tenth(bar.work)) y=(y) width=(tenth(width)) height=(BAR) rx="2" {}
        @if bar.end == SpanEnd::Bad && width >= CROSS { (cross(bar.work + width / 2.0, y + BAR / 2.0)) }
        @if bar.first.attempt > 1 && bar.count == 1 && bar.first.kind == SpanKind::Activity && bar.to + 30.0 < WIDTH {
            text.attempt x=(tenth(bar.to + 4.0)) y=(y + 10.0) { "×" (bar.first.attempt) }
        }
    };
    match with_title {
        true => html! {
            a href={ (history) "?at=" (event_id) "#event-" (event_id) } tabindex="-1" { title { (title(bar)) } (shape) }
        },
        false => shape,
    }
}

/// Lines at round times.
fn axis(window: Window, height: f64) -> Markup {
    let span = window.to - window.from;
    let steps: [Nanos; 21] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000,
        3_600_000, 21_600_000, 86_400_000,
    ];
    let wanted = span / MILLI / 8;
    let step = steps
        .iter()
        .copied()
        .find(|step| *step >= wanted)
        .unwrap_or_else(|| wanted.div_euclid(86_400_000).max(1) * 86_400_000);
    let first = ((window.from - window.begin) / MILLI).div_euclid(step) * step;
    let ticks: Vec<(f64, String)> = (0..12)
        .map(|place| first + place * step)
        .map(|millis| (window.begin + millis * MILLI, millis))
        .filter(|(at, _)| *at >= window.from && *at <= window.to)
        .map(|(at, millis)| (window.x(at), if millis == 0 { "0".to_owned() } else { times::span(millis * MILLI) }))
        .collect();
    html! {
        g.axis aria-hidden="true" {
            @for (x, text) in &ticks {
                line x1=(tenth(*x)) x2=(tenth(*x)) y1=(AXIS - 6.0) y2=(height) {}
                text x=(tenth(x + 3.0)) y="14" { (text) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: Nanos, to: Option<Nanos>) -> Span {
        Span {
            kind: SpanKind::Activity,
            name: "pay".to_owned(),
            id: "1".to_owned(),
            event_id: 5,
            last_event_id: 6,
            from: from * MILLI,
            started: None,
            to: to.map(|to| to * MILLI),
            due: None,
            end: SpanEnd::Good,
            attempt: 1,
            retry: None,
        }
    }

    fn window(millis: Nanos) -> Window {
        Window { begin: 0, end: millis * MILLI, from: 0, to: millis * MILLI }
    }

    #[test]
    fn spans_that_overlap_have_rows_of_their_own() {
        let spans = [span(0, Some(50)), span(10, Some(60)), span(70, Some(90))];
        let (rows, left_out) = rows(&spans, window(100));
        assert_eq!((rows.len(), left_out), (2, 0));
        assert_eq!((rows[0].bars.len(), rows[1].bars.len()), (2, 1));
    }

    #[test]
    fn many_spans_make_a_small_drawing() {
        let sequence: Vec<_> = (0..5000).map(|at| span(at * 10, Some(at * 10 + 9))).collect();
        let (drawn, _) = rows(&sequence, window(50_000));
        assert_eq!(drawn.len(), 1);
        assert!(drawn[0].bars.len() < 1200, "{}", drawn[0].bars.len());
        assert_eq!(drawn[0].bars.iter().map(|bar| bar.count).sum::<usize>(), 5000);
        let parallel: Vec<_> = (0..5000).map(|_| span(0, Some(50))).collect();
        let (drawn, left_out) = rows(&parallel, window(100));
        assert_eq!((drawn.len(), left_out), (ROWS_MAX, 5000 - ROWS_MAX));
    }

    #[test]
    fn links_stay_inside_the_run() {
        let window = Window { begin: 0, end: 100 * MILLI, from: 20 * MILLI, to: 60 * MILLI };
        assert_eq!(window.link(30 * MILLI, 50 * MILLI), "?from=30&to=50#timeline");
        assert_eq!(window.link(-10 * MILLI, 200 * MILLI), "?#timeline");
    }
}
