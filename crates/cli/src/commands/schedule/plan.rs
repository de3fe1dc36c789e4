//! What a schedule does and when: flags of `create` and `update`.

use clap::Args;
use prost_types::Timestamp;
use segno_proto::{
    Nanos,
    common::{Memo, SearchAttributes, WorkflowType},
    enums::{ScheduleOverlapPolicy, TaskQueueKind},
    nanos_duration,
    schedule::{
        CalendarSpec, IntervalSpec, Schedule, ScheduleAction, SchedulePolicies, ScheduleSpec, ScheduleState,
        schedule_action::Action,
    },
    taskqueue::TaskQueue,
    workflow::NewWorkflowExecutionInfo,
};

use super::{Overlap, moment};
use crate::{
    args,
    commands::{Input, payload_map},
};

#[derive(Args, Clone, Debug)]
pub struct Plan {
    /// Workflow type: the name workers know it by, or the name of a script.
    #[arg(long, value_name = "NAME")]
    r#type: String,
    /// Task queue of the workers.
    #[arg(short, long, value_name = "NAME")]
    task_queue: String,
    /// Prefix of workflow ids; the time is appended. [default: the id of the schedule]
    #[arg(short, long, value_name = "ID")]
    workflow_id: Option<String>,
    #[command(flatten)]
    input: Input,
    /// Act at this interval, with an optional offset: 45m, 6h/5h; may be repeated.
    #[arg(long, value_name = "INTERVAL", value_parser = interval)]
    interval: Vec<IntervalSpec>,
    /// Act at these times of the calendar: '{"hour": "3", "dayOfWeek": "Fri"}'; may be repeated.
    #[arg(long, value_name = "JSON", value_parser = calendar)]
    calendar: Vec<CalendarSpec>,
    /// Act by this cron string: "30 12 * * Fri", "CRON_TZ=Europe/Berlin 0 9 * * *", "@daily"; may be repeated.
    #[arg(long, value_name = "CRON")]
    cron: Vec<String>,
    /// Time zone of calendars and cron strings. [default: UTC]
    #[arg(long, value_name = "ZONE", default_value = "", hide_default_value = true)]
    time_zone: String,
    /// Not before this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    start_time: Option<Timestamp>,
    /// Not after this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    end_time: Option<Timestamp>,
    /// Delay each action by up to this time (jitter).
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    jitter: Option<Nanos>,
    /// What to do if the last workflow still runs.
    #[arg(long, value_enum, ignore_case = true, default_value_t = Overlap::Skip, value_name = "POLICY")]
    overlap_policy: Overlap,
    /// Catch-up window: how old actions that were missed while the server was down may be. [default: a year]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    catchup_window: Option<Nanos>,
    /// Pause when a workflow fails.
    #[arg(long)]
    pause_on_failure: bool,
    /// Begin paused.
    #[arg(long)]
    paused: bool,
    /// A note about the schedule.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    notes: String,
    /// Stop after this many actions. [default: no limit]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    remaining_actions: Option<u32>,
    /// Longest time for a workflow, over all its runs.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    execution_timeout: Option<Nanos>,
    /// Longest time for one run.
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    run_timeout: Option<Nanos>,
    /// Time-out of a workflow task. [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = args::duration)]
    task_timeout: Option<Nanos>,
    /// A memo field of each workflow, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    memo: Vec<(String, String)>,
    /// A search attribute of each workflow, as KEY=JSON; may be repeated.
    #[arg(long, value_name = "KEY=JSON", value_parser = args::key_json)]
    search_attribute: Vec<(String, String)>,
}

impl Plan {
    /// Says on standard error that nothing will happen by itself, if no flag says when.
    pub fn warn_if_never(&self) {
        if self.interval.is_empty() && self.calendar.is_empty() && self.cron.is_empty() {
            eprintln!(
                "segno: the schedule has no times (--interval, --cron, --calendar): it acts only when it is triggered or backfilled"
            );
        }
    }

    /// As the wire has it.
    pub fn schedule(self, schedule_id: &str) -> anyhow::Result<Schedule> {
        let duration = |nanos: Option<Nanos>| nanos.map(nanos_duration);
        let queue = TaskQueue { name: self.task_queue, kind: TaskQueueKind::Normal as i32, ..Default::default() };
        let start = NewWorkflowExecutionInfo {
            workflow_id: self.workflow_id.unwrap_or_else(|| schedule_id.to_owned()),
            workflow_type: Some(WorkflowType { name: self.r#type }),
            task_queue: Some(queue),
            input: self.input.payloads()?,
            workflow_execution_timeout: duration(self.execution_timeout),
            workflow_run_timeout: duration(self.run_timeout),
            workflow_task_timeout: duration(self.task_timeout),
            memo: payload_map(&self.memo).map(|fields| Memo { fields }),
            search_attributes: payload_map(&self.search_attribute)
                .map(|indexed_fields| SearchAttributes { indexed_fields }),
            ..Default::default()
        };
        Ok(Schedule {
            spec: Some(ScheduleSpec {
                interval: self.interval,
                calendar: self.calendar,
                cron_string: self.cron,
                timezone_name: self.time_zone,
                start_time: self.start_time,
                end_time: self.end_time,
                jitter: duration(self.jitter),
                ..Default::default()
            }),
            action: Some(ScheduleAction { action: Some(Action::StartWorkflow(start)) }),
            policies: Some(SchedulePolicies {
                overlap_policy: ScheduleOverlapPolicy::from(self.overlap_policy) as i32,
                catchup_window: duration(self.catchup_window),
                pause_on_failure: self.pause_on_failure,
                ..Default::default()
            }),
            state: Some(ScheduleState {
                notes: self.notes,
                paused: self.paused,
                limited_actions: self.remaining_actions.is_some(),
                remaining_actions: self.remaining_actions.unwrap_or(0).into(),
            }),
        })
    }
}

fn interval(text: &str) -> Result<IntervalSpec, String> {
    let (interval, phase) = text.split_once('/').map_or((text, None), |(interval, phase)| (interval, Some(phase)));
    let span = |text: &str| args::duration(text).map(nanos_duration);
    Ok(IntervalSpec { interval: Some(span(interval)?), phase: phase.map(span).transpose()? })
}

fn calendar(text: &str) -> Result<CalendarSpec, String> {
    use serde_json::Value;
    let wrong = |what: &str| format!("{what}; expected JSON such as '{{\"hour\": \"3\", \"dayOfWeek\": \"Fri\"}}'");
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return Err(wrong("not a JSON object")) };
    let mut calendar = CalendarSpec::default();
    for (name, value) in fields {
        let value = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => return Err(wrong(&format!("{name} is neither a text nor a number"))),
        };
        let field = match name.as_str() {
            "second" => &mut calendar.second,
            "minute" => &mut calendar.minute,
            "hour" => &mut calendar.hour,
            "dayOfMonth" => &mut calendar.day_of_month,
            "month" => &mut calendar.month,
            "year" => &mut calendar.year,
            "dayOfWeek" => &mut calendar.day_of_week,
            "comment" => &mut calendar.comment,
            _ => return Err(wrong(&format!("there is no field {name}"))),
        };
        *field = value;
    }
    Ok(calendar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_calendars_are_read() {
        let spec = interval("6h/5h").expect("an interval");
        assert_eq!(
            (spec.interval.map(|span| span.seconds), spec.phase.map(|span| span.seconds)),
            (Some(21_600), Some(18_000))
        );
        assert!(interval("6h/").is_err() && interval("often").is_err());
        let spec = calendar(r#"{"hour": 3, "dayOfWeek": "Fri"}"#).expect("a calendar");
        assert_eq!((spec.hour.as_str(), spec.day_of_week.as_str()), ("3", "Fri"));
        assert!(calendar(r#"{"hours": 3}"#).is_err() && calendar("3").is_err());
    }
}
