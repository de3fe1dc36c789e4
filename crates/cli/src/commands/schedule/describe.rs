//! `segno schedule describe`.

use clap::Args;
use jiff::Timestamp;
use segno_proto::{
    schedule::{Schedule, ScheduleInfo, ScheduleSpec, schedule_action::Action},
    workflowservice::{DescribeScheduleRequest, DescribeScheduleResponse},
};

use super::Target;
use crate::{
    client::Client,
    output::{
        dynamic::{decoded, short_name},
        fields::Fields,
        payload, status,
        table::Table,
        time,
    },
};

const DESCRIPTION: &str = "temporal.api.workflowservice.v1.DescribeScheduleResponse";
const OVERLAP: &str = "ScheduleOverlapPolicy";

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  segno schedule describe --schedule-id nightly")]
pub struct Describe {
    #[command(flatten)]
    target: Target,
}

impl Describe {
    /// Prints what the server knows.
    pub async fn run(self, client: &mut Client) -> anyhow::Result<()> {
        let id = self.target.schedule_id;
        let message = DescribeScheduleRequest { namespace: client.namespace.clone(), schedule_id: id.clone() };
        let answer = client.call("describe the schedule", message).await?;
        client.print(|| text(&id, &answer, client.colors), || decoded(DESCRIPTION, &answer))
    }
}

fn text(id: &str, answer: &DescribeScheduleResponse, colors: bool) -> String {
    let schedule = answer.schedule.clone().unwrap_or_default();
    let info = answer.info.clone().unwrap_or_default();
    let mut fields = Fields::new(colors);
    fields.section("Schedule");
    fields.add("ScheduleId", id);
    state(&mut fields, &schedule);
    let memo = answer.memo.iter().flat_map(|memo| &memo.fields);
    let attributes = answer.search_attributes.iter().flat_map(|attributes| &attributes.indexed_fields);
    fields.add("Memo", pairs(memo));
    fields.add("SearchAttributes", pairs(attributes));
    if let Some(Action::StartWorkflow(start)) = schedule.action.and_then(|action| action.action) {
        fields.section("Workflow");
        fields.add("Type", start.workflow_type.map(|kind| kind.name).unwrap_or_default());
        fields.add("TaskQueue", start.task_queue.map(|queue| queue.name).unwrap_or_default());
        fields.add("WorkflowId", &start.workflow_id);
        fields.add("Input", payload::texts(start.input.as_ref()).join(", "));
    }
    fields.section("Times");
    times(&mut fields, &schedule.spec.unwrap_or_default());
    fields.section("Actions");
    actions(&mut fields, &info, colors);
    fields.finish()
}

fn state(fields: &mut Fields, schedule: &Schedule) {
    let state = schedule.state.clone().unwrap_or_default();
    fields.add("Paused", if state.paused { "yes" } else { "no" });
    fields.add("Notes", &state.notes);
    if state.limited_actions {
        fields.add("RemainingActions", state.remaining_actions.to_string());
    }
    let policies = schedule.policies.unwrap_or_default();
    fields.add("OverlapPolicy", short_name(OVERLAP, policies.overlap_policy().as_str_name()));
    fields.add("CatchupWindow", time::span(policies.catchup_window.as_ref()));
    fields.add("PauseOnFailure", if policies.pause_on_failure { "yes" } else { "" });
}

fn times(fields: &mut Fields, spec: &ScheduleSpec) {
    for interval in &spec.interval {
        let phase = time::span(interval.phase.as_ref().filter(|phase| phase.seconds > 0));
        let offset = if phase.is_empty() { String::new() } else { format!(", offset {phase}") };
        fields.add("Every", format!("{}{offset}", time::span(interval.interval.as_ref())));
    }
    for calendar in &spec.structured_calendar {
        fields.add("Calendar", calendar_text(calendar));
    }
    for calendar in &spec.exclude_structured_calendar {
        fields.add("Except", calendar_text(calendar));
    }
    fields.add("TimeZone", &spec.timezone_name);
    fields.add("Start", time::short(spec.start_time.as_ref()));
    fields.add("End", time::short(spec.end_time.as_ref()));
    fields.add("Jitter", time::span(spec.jitter.as_ref().filter(|jitter| jitter.seconds > 0 || jitter.nanos > 0)));
}

fn calendar_text(calendar: &segno_proto::schedule::StructuredCalendarSpec) -> String {
    let ranges = |ranges: &[segno_proto::schedule::Range]| {
        let range = |range: &segno_proto::schedule::Range| {
            let step = if range.step > 1 { format!("/{}", range.step) } else { String::new() };
            match range.end > range.start {
                true => format!("{}-{}{step}", range.start, range.end),
                false => format!("{}{step}", range.start),
            }
        };
        ranges.iter().map(range).collect::<Vec<_>>().join(",")
    };
    let parts = [
        ("second", &calendar.second),
        ("minute", &calendar.minute),
        ("hour", &calendar.hour),
        ("dayOfMonth", &calendar.day_of_month),
        ("month", &calendar.month),
        ("year", &calendar.year),
        ("dayOfWeek", &calendar.day_of_week),
    ];
    let parts = parts.iter().filter(|(_, values)| !values.is_empty());
    let mut text = parts.map(|(name, values)| format!("{name} {}", ranges(values))).collect::<Vec<_>>().join(", ");
    if !calendar.comment.is_empty() {
        text = format!("{text} ({})", calendar.comment);
    }
    text
}

fn actions(fields: &mut Fields, info: &ScheduleInfo, colors: bool) {
    let now = Timestamp::now();
    let count = |number: i64| if number == 0 { String::new() } else { number.to_string() };
    fields.add("Created", time::both(info.create_time.as_ref(), now));
    fields.add("Updated", time::both(info.update_time.as_ref(), now));
    fields.add("Next", time::both(info.future_action_times.first(), now));
    fields.add("Taken", info.action_count.to_string());
    fields.add("Skipped", count(info.overlap_skipped));
    fields.add("MissedCatchupWindow", count(info.missed_catchup_window));
    fields.add("Waiting", count(info.buffer_size));
    fields.add("Dropped", count(info.buffer_dropped));
    if info.recent_actions.is_empty() {
        return;
    }
    let row = |action: &segno_proto::schedule::ScheduleActionResult| {
        let execution = action.start_workflow_result.clone().unwrap_or_default();
        let when = time::short(action.schedule_time.as_ref());
        vec![
            status::cell(action.start_workflow_status()),
            when.into(),
            execution.workflow_id.into(),
            execution.run_id.into(),
        ]
    };
    let rows: Vec<_> = info.recent_actions.iter().map(row).collect();
    fields.block(&Table::new(&["Status", "Time", "WorkflowId", "RunId"], colors).optional(&[3, 1]).render(&rows));
}

fn pairs<'a>(fields: impl Iterator<Item = (&'a String, &'a segno_proto::common::Payload)>) -> String {
    fields.map(|(name, value)| format!("{name}={}", payload::text(value))).collect::<Vec<_>>().join(", ")
}
