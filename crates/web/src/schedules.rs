//! The list of schedules.

use maud::{Markup, html};
use segno_proto::{
    schedule::{IntervalSpec, ScheduleListEntry, ScheduleSpec, StructuredCalendarSpec},
    segno_flow::{Flow, ListRequest, ScheduledRun},
    workflowservice::ListSchedulesRequest,
};

use super::{
    Answer, PageError, PageRequest, Web,
    forms::{encode, hex, unhex},
    layout::{Page, action, badge, pager},
    schedule_form, times,
};

/// Schedules on a page.
const PAGE_SIZE: i32 = 100;

impl Web {
    pub(super) async fn schedules_page(&self, namespace: &str, asked: &PageRequest<'_>) -> Result<Answer, PageError> {
        let request = ListSchedulesRequest {
            namespace: namespace.to_owned(),
            maximum_page_size: PAGE_SIZE,
            next_page_token: unhex(asked.query.get("page")).into(),
            query: String::new(),
        };
        let listed = self.call(request).await?;
        // Those in scripts follow the last page of the others.
        let scripts = match listed.next_page_token.is_empty() {
            true => self.scheduled_scripts(namespace).await?,
            false => Vec::new(),
        };
        let content = html! {
            div.title {
                h1 { "Schedules" }
                (action("Create schedule", "primary", schedule_form::fields(None)))
            }
            div #rows data-live {
                @if listed.schedules.is_empty() && scripts.is_empty() {
                    div.empty { p { "There are no schedules in this namespace." } p { "Create one with the button above, with an SDK, with " code { "segno schedule create" } " or with " code { "schedule(…)" } " in a script." } }
                } @else {
                    table.list {
                        caption.hidden { "Schedules" }
                        thead { tr {
                            th scope="col" { "Schedule" } th scope="col" { "State" } th scope="col" { "Starts" }
                            th scope="col" { "When" } th scope="col" { "Next" } th scope="col" { "Last" }
                        } }
                        tbody { @for entry in &listed.schedules { (row(namespace, entry)) } @for script in &scripts { (script_row(namespace, script)) } }
                    }
                }
                (pager(None, (!listed.next_page_token.is_empty()).then(|| asked.query.with(&[("page", &hex(&listed.next_page_token))]))))
            }
        };
        Ok(Answer::Page(Page { title: "Schedules".to_owned(), area: "schedules", content, is_live: true }))
    }

    /// The scripts with a schedule, with the run that waits for its time.
    async fn scheduled_scripts(&self, namespace: &str) -> Result<Vec<(Flow, ScheduledRun)>, PageError> {
        let mut found = Vec::new();
        let mut request = ListRequest { namespace: namespace.to_owned(), ..Default::default() };
        loop {
            let listed = self.call(request.clone()).await?;
            found.extend(listed.flows.into_iter().filter_map(|flow| flow.scheduled_run.clone().map(|run| (flow, run))));
            if listed.next_page_token.is_empty() {
                return Ok(found);
            }
            request.next_page_token = listed.next_page_token;
        }
    }
}

/// The schedule in a script: its id is that of the workflow whose runs it starts.
fn script_row(namespace: &str, (script, run): &(Flow, ScheduledRun)) -> Markup {
    html! {
        tr.paused[run.paused] {
            th scope="row" { a href={ "/ui/" (encode(namespace)) "/workflows/" (encode(&run.workflow_id)) } { (run.workflow_id) } }
            td { @if run.paused { span.badge.warn { "Paused" } } @else { span.badge.running { "Active" } } }
            td data-label="Starts" { "script " a href={ "/ui/" (encode(namespace)) "/scripts/" (encode(&script.name)) } { (script.name) } }
            td data-label="When" { code.when { (script.schedule) } }
            td data-label="Next" { @match &run.next { _ if run.paused => { span.faint { "none while paused" } } Some(next) => { (times::relative(Some(next))) } None => "runs now" } }
            td data-label="Last" { @match &run.last { Some(last) => { (times::relative(Some(last))) } None => span.faint { "–" } } }
        }
    }
}

fn row(namespace: &str, entry: &ScheduleListEntry) -> Markup {
    let info = entry.info.clone().unwrap_or_default();
    let last = info.recent_actions.last();
    html! {
        tr.paused[info.paused] {
            th scope="row" { a href={ "/ui/" (encode(namespace)) "/schedules/" (encode(&entry.schedule_id)) } { (entry.schedule_id) } }
            td { @if info.paused { span.badge.warn { "Paused" } } @else { span.badge.running { "Active" } } }
            td data-label="Starts" { (info.workflow_type.clone().unwrap_or_default().name) }
            td data-label="When" { (when(&info.spec.clone().unwrap_or_default())) }
            td data-label="Next" {
                @if info.paused { span.faint { "none while paused" } } @else { (times::relative(info.future_action_times.first())) }
            }
            td data-label="Last" {
                @match last { Some(last) => { (times::relative(last.actual_time.as_ref())) " " (badge(last.start_workflow_status)) } None => span.faint { "–" } }
            }
        }
    }
}

/// The fields of a calendar as a cron string has them: minute, hour, day of the month, month, day of the week.
fn cron_string(calendar: &StructuredCalendarSpec) -> String {
    let ranges = |ranges: &[segno_proto::schedule::Range], all: (i32, i32)| {
        let texts: Vec<_> = ranges
            .iter()
            .map(|range| match (range.start, range.end.max(range.start), range.step.max(1)) {
                (start, end, 1) if (start, end) == all => "*".to_owned(),
                (start, end, step) if (start, end) == all => format!("*/{step}"),
                (start, end, _) if start == end => start.to_string(),
                (start, end, 1) => format!("{start}-{end}"),
                (start, end, step) => format!("{start}-{end}/{step}"),
            })
            .collect();
        if texts.is_empty() { "*".to_owned() } else { texts.join(",") }
    };
    [
        ranges(&calendar.minute, (0, 59)),
        ranges(&calendar.hour, (0, 23)),
        ranges(&calendar.day_of_month, (1, 31)),
        ranges(&calendar.month, (1, 12)),
        ranges(&calendar.day_of_week, (0, 6)),
    ]
    .join(" ")
}

/// The times of a schedule, a line each, as the form has them.
pub(super) fn cron_lines(spec: &ScheduleSpec) -> Vec<String> {
    let intervals = spec.interval.iter().map(|interval| format!("every {}", interval_text(interval)));
    intervals.chain(spec.structured_calendar.iter().map(cron_string)).chain(spec.cron_string.iter().cloned()).collect()
}

/// An interval in whole units, as the form reads it.
fn interval_text(interval: &IntervalSpec) -> String {
    let seconds = interval.interval.as_ref().map_or(0, |span| span.seconds);
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    match units.iter().find(|(size, _)| seconds > 0 && seconds % size == 0) {
        Some((size, unit)) => format!("{}{unit}", seconds / size),
        None => format!("{seconds}s"),
    }
}

/// A schedule's times in few words.
pub(super) fn when(spec: &ScheduleSpec) -> Markup {
    html! {
        @for interval in &spec.interval { span.when { "every " (times::span_of(interval.interval.as_ref())) } " " }
        @for calendar in &spec.structured_calendar {
            code.when title="minute hour day month weekday" { (cron_string(calendar)) } " "
        }
        @for cron in &spec.cron_string { code.when { (cron) } " " }
        @if !spec.timezone_name.is_empty() { span.faint { (spec.timezone_name) } }
    }
}
