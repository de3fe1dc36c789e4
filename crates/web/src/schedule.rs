//! One schedule, with its next times on a calendar.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use maud::{Markup, html};
use segno_proto::{
    Nanos, nanos_timestamp,
    schedule::{SchedulePatch, TriggerImmediatelyRequest, schedule_action::Action},
    workflowservice::{
        DeleteScheduleRequest, DescribeScheduleRequest, ListScheduleMatchingTimesRequest, PatchScheduleRequest,
    },
};

use super::{
    Answer, IDENTITY, Outcome, PageError, PageRequest, Web,
    fields::words,
    forms::{Form, encode},
    layout::{Page, action, badge, button, facts, run_address},
    payloads, schedule_form,
    schedules::when,
    times,
    workflows_actions::new_id,
};

/// Weeks on the calendar.
const WEEKS: i64 = 5;
/// The meaning of the numbers.
const SKIPPED: &str = "times: the workflow of the action before was still open";
const MISSED: &str = "times: the server was down for longer than the catch-up window";
const CELL: i64 = 58;
const HEAD: i64 = 22;
const DAY: Nanos = 86_400_000_000_000;

impl Web {
    pub(super) async fn schedule_page(
        &self,
        namespace: &str,
        id: &str,
        _: &PageRequest<'_>,
    ) -> Result<Answer, PageError> {
        let request = DescribeScheduleRequest { namespace: namespace.to_owned(), schedule_id: id.to_owned() };
        let found = self.call(request).await?;
        let (schedule, info) = (found.schedule.unwrap_or_default(), found.info.unwrap_or_default());
        let form = schedule_form::fields(Some(&schedule));
        let (spec, state) = (schedule.spec.unwrap_or_default(), schedule.state.unwrap_or_default());
        let policies = schedule.policies.unwrap_or_default();
        let start = schedule
            .action
            .and_then(|action| action.action)
            .map(|Action::StartWorkflow(start)| start)
            .unwrap_or_default();
        let zone = TimeZone::get(&spec.timezone_name).unwrap_or(TimeZone::UTC);
        let now = times::now();
        let request = ListScheduleMatchingTimesRequest {
            namespace: namespace.to_owned(),
            schedule_id: id.to_owned(),
            start_time: Some(nanos_timestamp(now)),
            end_time: Some(nanos_timestamp(now + WEEKS * 7 * DAY)),
        };
        let times_found = self.call(request).await;
        let times_found = times_found.map(|found| found.start_time).unwrap_or_default();
        let times_found: Vec<Nanos> = times_found.iter().filter_map(|time| times::nanos(Some(time))).collect();
        let content = html! {
            nav.crumbs aria-label="Breadcrumb" { a href={ "/ui/" (encode(namespace)) "/schedules" } { "Schedules" } " / " span { (id) } }
            div.title {
                h1 { (id) }
                div #status data-live aria-live="polite" { @if state.paused { span.badge.warn { "Paused" } } @else { span.badge.running { "Active" } } }
            }
            div #facts data-live {
                (facts(&[
                    ("Starts", html! { (start.workflow_type.clone().unwrap_or_default().name) " on " (start.task_queue.clone().unwrap_or_default().name) }),
                    ("When", when(&spec)),
                    ("Overlap", html! { (words(policies.overlap_policy().as_str_name(), "SCHEDULE_OVERLAP_POLICY_")) }),
                    ("Actions", html! { (info.action_count) }),
                    ("Skipped", html! { (info.overlap_skipped) @if info.overlap_skipped > 0 { " " small { (SKIPPED) } } }),
                    ("Missed", html! { (info.missed_catchup_window) @if info.missed_catchup_window > 0 { " " small { (MISSED) } } }),
                    ("Notes", html! { @if state.notes.is_empty() { "–" } @else { (state.notes) } }),
                ]))
                @if !info.invalid_schedule_error.is_empty() { div.notice.bad role="alert" { (info.invalid_schedule_error) } }
                div.actions role="group" aria-label="Actions" {
                    (button("Trigger now", "primary", &[("do", "trigger")]))
                    @if state.paused { (button("Unpause", "", &[("do", "unpause")])) } @else { (button("Pause", "", &[("do", "pause")])) }
                    (action("Edit", "", form))
                    (action("Delete", "danger", html! {
                        input type="hidden" name="do" value="delete";
                        p { "The schedule is removed; workflows that it started stay." }
                        button.danger { "Delete" }
                    }))
                }
            }
            section aria-labelledby="calendar-title" {
                h2 #calendar-title { "Next times" }
                div #calendar .paused[state.paused] data-live {
                    @if state.paused { p { span.badge.warn { "Paused" } " The schedule does not act at these times until it is unpaused." } }
                    (calendar(&times_found, now, &zone))
                    @if !info.future_action_times.is_empty() {
                        ol.times { @for time in &info.future_action_times { li { (times::shown(Some(time))) } } }
                    }
                }
            }
            section aria-labelledby="recent-title" {
                h2 #recent-title { "Recent actions" }
                div #recent data-live {
                    @if info.recent_actions.is_empty() { p.faint { "none yet" } } @else {
                        table.list {
                            caption.hidden { "Recent actions" }
                            thead { tr { th scope="col" { "Workflow" } th scope="col" { "Status" } th scope="col" { "Due" } th scope="col" { "Started" } } }
                            tbody { @for done in info.recent_actions.iter().rev() {
                                @let execution = done.start_workflow_result.clone().unwrap_or_default();
                                tr {
                                    th scope="row" { a href=(run_address(namespace, &execution.workflow_id, &execution.run_id)) { (execution.workflow_id) } }
                                    td { (badge(done.start_workflow_status)) }
                                    td data-label="Due" { (times::shown(done.schedule_time.as_ref())) }
                                    td data-label="Started" { (times::shown(done.actual_time.as_ref())) }
                                }
                            } }
                        }
                    }
                }
            }
            section aria-labelledby="input-title" { h2 #input-title { "Input" } (payloads::blocks(start.input.as_ref())) }
        };
        Ok(Answer::Page(Page { title: id.to_owned(), area: "schedules", content, is_live: true }))
    }

    pub(super) async fn schedule_action(&self, namespace: &str, id: &str, form: &Form) -> Result<Answer, PageError> {
        let (patch, said) = match form.get("do") {
            "edit" => return self.edit_schedule(namespace, id, form).await,
            "trigger" => (
                SchedulePatch { trigger_immediately: Some(TriggerImmediatelyRequest::default()), ..Default::default() },
                "It is triggered",
            ),
            "pause" => (SchedulePatch { pause: "from the web pages".to_owned(), ..Default::default() }, "It is paused"),
            "unpause" => {
                (SchedulePatch { unpause: "from the web pages".to_owned(), ..Default::default() }, "It goes on")
            }
            "delete" => {
                let (namespace, schedule_id) = (namespace.to_owned(), id.to_owned());
                let next = format!("/ui/{}/schedules", encode(&namespace));
                let request = DeleteScheduleRequest { namespace, schedule_id, identity: IDENTITY.to_owned() };
                self.call(request).await?;
                return Ok(Outcome::then(html! { "It is deleted" }, next));
            }
            _ => return Err(PageError::Missing),
        };
        let request = PatchScheduleRequest {
            namespace: namespace.to_owned(),
            schedule_id: id.to_owned(),
            patch: Some(patch),
            identity: IDENTITY.to_owned(),
            request_id: new_id(),
        };
        self.call(request).await?;
        Ok(Outcome::done(html! { (said) }))
    }
}

/// How many times fall on each day, and the first of them.
fn by_day(times_found: &[Nanos], zone: &TimeZone) -> BTreeMap<Date, (usize, String)> {
    let mut days: BTreeMap<Date, (usize, String)> = BTreeMap::new();
    for nanos in times_found {
        let Ok(time) = Timestamp::from_nanosecond(i128::from(*nanos)) else { continue };
        let local = zone.to_datetime(time);
        let day = days.entry(local.date()).or_insert_with(|| (0, local.time().strftime("%H:%M").to_string()));
        day.0 += 1;
    }
    days
}

/// Weeks from this one on, a row each.
fn calendar(times_found: &[Nanos], now: Nanos, zone: &TimeZone) -> Markup {
    let days = by_day(times_found, zone);
    let Ok(time) = Timestamp::from_nanosecond(i128::from(now)) else { return html! {} };
    let today = zone.to_datetime(time).date();
    let monday = today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).unwrap_or(today);
    let most = days.values().map(|(count, _)| *count).max().unwrap_or(1).max(1);
    let cells = (0..WEEKS * 7).filter_map(|place| Some((place, monday.checked_add(place.days()).ok()?)));
    let (width, height) = (7 * CELL, HEAD + WEEKS * CELL);
    let total: usize = days.values().map(|(count, _)| count).sum();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Calendar" {
            svg.calendar viewBox={ "0 0 " (width) " " (height) } role="img" aria-label={ "Calendar: " (total) " times in the next " (WEEKS) " weeks" } {
                @for (place, name) in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].iter().enumerate() {
                    text.weekday x=(place as i64 * CELL + 6) y="14" { (name) }
                }
                @for (place, date) in cells {
                    @let (x, y) = (place % 7 * CELL, HEAD + place / 7 * CELL);
                    @let found = days.get(&date);
                    // Four shades, by the number of times.
                    @let shade = found.map_or(0, |(count, _)| 1 + (count * 4 - 1).min(most * 4 - 1) / most);
                    g class={ "day shade-" (shade.min(4)) @if date == today { " today" } @if date < today { " past" } } {
                        @if let Some((count, first)) = found { title { (date) ": " (count) " times, first at " (first) } }
                        rect x=(x + 1) y=(y + 1) width=(CELL - 2) height=(CELL - 2) rx="6" {}
                        text.date x=(x + 7) y=(y + 17) { @if date.day() == 1 { (date.strftime("%-d %b").to_string()) } @else { (date.day()) } }
                        @if let Some((count, first)) = found {
                            text.count x=(x + 7) y=(y + 35) { (first) }
                            @if *count > 1 { text.more x=(x + 7) y=(y + 49) { "×" (count) } }
                        }
                    }
                }
            }
        }
        p.faint { "Times are in the schedule's zone" @if let Some(name) = zone.iana_name() { ", " (name) } "." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_on_days_of_the_zone() {
        let zone = TimeZone::get("Pacific/Auckland").expect("a zone");
        // 2026-01-01T23:00Z is the second of January there.
        let at: Timestamp = "2026-01-01T23:00:00Z".parse().expect("a time");
        let nanos = i64::try_from(at.as_nanosecond()).expect("in range");
        let days = by_day(&[nanos, nanos + 1], &zone);
        let (date, (count, first)) = days.first_key_value().expect("a day");
        assert_eq!((date.to_string().as_str(), *count, first.as_str()), ("2026-01-02", 2, "12:00"));
        let drawn = calendar(&[nanos], nanos - DAY, &zone).0;
        assert!(drawn.contains("12:00") && drawn.contains("today"), "{drawn}");
    }
}
