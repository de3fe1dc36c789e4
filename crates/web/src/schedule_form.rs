//! The form that creates and edits a schedule.
//!
//! What the form does not show, such as memo and time-outs of the workflows, stays as it is when a schedule is edited. So do its
//! times, unless the reader changes them.

use maud::{Markup, html};
use segno_proto::{
    Nanos,
    common::WorkflowType,
    enums::ScheduleOverlapPolicy as Overlap,
    nanos_duration,
    schedule::{
        IntervalSpec, Schedule, ScheduleAction, SchedulePolicies, ScheduleSpec, ScheduleState, schedule_action::Action,
    },
    taskqueue::TaskQueue,
    workflow::NewWorkflowExecutionInfo,
    workflowservice::{CreateScheduleRequest, DescribeScheduleRequest, UpdateScheduleRequest},
};
use tonic::Status;

use super::{
    Answer, IDENTITY, Outcome, PageError, Web,
    forms::{Form, encode},
    payloads,
    schedules::cron_lines,
    workflows_actions::new_id,
};

/// Policies for an action that is due while the workflow of the one before is open: value, and what happens.
pub(super) const OVERLAPS: [(Overlap, &str, &str); 6] = [
    (Overlap::Skip, "Skip", "skip it"),
    (Overlap::BufferOne, "BufferOne", "one waits, further ones are skipped"),
    (Overlap::BufferAll, "BufferAll", "all wait"),
    (Overlap::CancelOther, "CancelOther", "cancel the open workflow first"),
    (Overlap::TerminateOther, "TerminateOther", "terminate the open workflow first"),
    (Overlap::AllowAll, "AllowAll", "start it beside the open workflow"),
];

/// The fields, with the values of a schedule. A new one has an id to fill in.
pub(super) fn fields(of: Option<&Schedule>) -> Markup {
    let schedule = of.cloned().unwrap_or_default();
    let (spec, state) = (schedule.spec.unwrap_or_default(), schedule.state.unwrap_or_default());
    let start = workflow_of(schedule.action);
    let overlap = schedule.policies.map_or(Overlap::Skip, |policies| policies.overlap_policy());
    let times = cron_lines(&spec).join("\n");
    let input = start.input.as_ref().map(|input| input.payloads.iter().map(one_line).collect::<Vec<_>>().join("\n"));
    html! {
        input type="hidden" name="do" value=(if of.is_some() { "edit" } else { "create" });
        @if of.is_none() { label { "Schedule id" input name="id" required autocomplete="off"; } }
        label { "Workflow type" input name="type" required value=(start.workflow_type.unwrap_or_default().name); }
        label { "Task queue" input name="queue" required value=(start.task_queue.unwrap_or_default().name); }
        label { "Workflow id " small { "(the time is appended; the id of the schedule if empty)" } input name="workflow" value=(start.workflow_id); }
        label {
            "Times " small { "(one per line: a cron string such as 0 6 * * 1-5, or every 45m)" }
            textarea name="times" rows="3" spellcheck="false" required { (times) }
        }
        input type="hidden" name="times-before" value=(times);
        label { "Time zone" input name="zone" placeholder="UTC" value=(spec.timezone_name); }
        label { "If the workflow before is still open" select name="overlap" {
            @for (policy, value, what) in OVERLAPS {
                option value=(value) selected[policy == overlap || (policy == Overlap::Skip && overlap == Overlap::Unspecified)] { (what) }
            }
        } }
        label { "Input " small { "(JSON; one value per line for several arguments)" } textarea name="input" rows="2" spellcheck="false" { (input.clone().unwrap_or_default()) } }
        input type="hidden" name="input-before" value=(input.unwrap_or_default());
        label { "Notes" input name="notes" value=(state.notes); }
        @if of.is_none() { label.check { input type="checkbox" name="paused" value="yes"; " Begin paused" } }
        button.primary { @if of.is_some() { "Save" } @else { "Create" } }
    }
}

fn one_line(payload: &segno_proto::common::Payload) -> String {
    payloads::json_of(payload).map_or_else(|| payloads::text(payload), |json| json.to_string())
}

fn workflow_of(action: Option<ScheduleAction>) -> NewWorkflowExecutionInfo {
    let action = action.and_then(|action| action.action);
    action.map(|Action::StartWorkflow(start)| start).unwrap_or_default()
}

/// A schedule with what the form says.
fn with_form(mut schedule: Schedule, id: &str, form: &Form) -> Result<Schedule, Status> {
    let mut start = workflow_of(schedule.action.take());
    start.workflow_type = Some(WorkflowType { name: form.trimmed("type") });
    start.task_queue = Some(TaskQueue { name: form.trimmed("queue"), ..Default::default() });
    start.workflow_id = match form.trimmed("workflow") {
        given if given.is_empty() => id.to_owned(),
        given => given,
    };
    if lines(form.get("input")) != lines(form.get("input-before")) {
        start.input = payloads::typed(form.get("input"))?;
    }
    schedule.action = Some(ScheduleAction { action: Some(Action::StartWorkflow(start)) });
    let spec = schedule.spec.get_or_insert_default();
    if lines(form.get("times")) != lines(form.get("times-before")) {
        with_times(spec, form.get("times"))?;
    }
    spec.timezone_name = form.trimmed("zone");
    let overlap = OVERLAPS.iter().find(|(_, value, _)| *value == form.get("overlap"));
    let policies: &mut SchedulePolicies = schedule.policies.get_or_insert_default();
    policies.overlap_policy = overlap.map_or(Overlap::Unspecified, |(policy, ..)| *policy) as i32;
    let state: &mut ScheduleState = schedule.state.get_or_insert_default();
    state.notes = form.trimmed("notes");
    state.paused = state.paused || !form.get("paused").is_empty();
    Ok(schedule)
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Replaces the times of a specification.
fn with_times(spec: &mut ScheduleSpec, text: &str) -> Result<(), Status> {
    let mut intervals = Vec::new();
    let mut crons = Vec::new();
    for line in lines(text) {
        match line.strip_prefix("every ") {
            None => crons.push(line.to_owned()),
            Some(span) => {
                let nanos = span_of(span).ok_or_else(|| {
                    Status::invalid_argument(format!(
                        "{line:?} is no interval: write every 30s, every 45m, every 6h or every 2d"
                    ))
                })?;
                intervals.push(IntervalSpec { interval: Some(nanos_duration(nanos)), ..Default::default() });
            }
        }
    }
    spec.interval = intervals;
    spec.cron_string = crons;
    spec.structured_calendar.clear();
    spec.calendar.clear();
    Ok(())
}

/// A span such as `45m`, or `1h 30m`.
fn span_of(text: &str) -> Option<Nanos> {
    let part = |part: &str| {
        let unit = part.find(|c: char| !c.is_ascii_digit())?;
        let seconds = match &part[unit..] {
            "s" => 1,
            "m" | "min" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        part[..unit].parse::<i64>().ok()?.checked_mul(seconds * 1_000_000_000)
    };
    let joined = text.split_whitespace().collect::<Vec<_>>();
    let spans = joined.into_iter().map(part).collect::<Option<Vec<_>>>()?;
    Some(spans.into_iter().sum::<Nanos>()).filter(|nanos| *nanos > 0)
}

impl Web {
    pub(super) async fn schedules_action(&self, namespace: &str, form: &Form) -> Result<Answer, PageError> {
        if form.get("do") != "create" {
            return Err(PageError::Missing);
        }
        let schedule_id = form.trimmed("id");
        let next = format!("/ui/{}/schedules/{}", encode(namespace), encode(&schedule_id));
        let request = CreateScheduleRequest {
            namespace: namespace.to_owned(),
            schedule: Some(with_form(Schedule::default(), &schedule_id, form)?),
            schedule_id,
            identity: IDENTITY.to_owned(),
            request_id: new_id(),
            ..Default::default()
        };
        self.call(request).await?;
        Ok(Outcome::then(html! { "The schedule is created" }, next))
    }

    /// Changes a schedule, unless another client changes it meanwhile.
    pub(super) async fn edit_schedule(&self, namespace: &str, id: &str, form: &Form) -> Result<Answer, PageError> {
        let seen = DescribeScheduleRequest { namespace: namespace.to_owned(), schedule_id: id.to_owned() };
        let seen = self.call(seen).await?;
        let request = UpdateScheduleRequest {
            namespace: namespace.to_owned(),
            schedule_id: id.to_owned(),
            schedule: Some(with_form(seen.schedule.unwrap_or_default(), id, form)?),
            conflict_token: seen.conflict_token,
            identity: IDENTITY.to_owned(),
            request_id: new_id(),
            ..Default::default()
        };
        self.call(request).await?;
        Ok(Outcome::done(html! { "The schedule is changed" }))
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::{common::Memo, schedule::StructuredCalendarSpec};

    use super::*;

    fn form(fields: &[(&str, &str)]) -> Form {
        let pairs: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        Form::parse(&pairs.join("&")).expect("a form")
    }

    #[test]
    fn a_new_schedule_has_what_the_form_says() {
        let form = form(&[
            ("type", "Report"),
            ("queue", "reports"),
            ("times", "0 6 * * 1-5\r\nevery 1h 30m\r\n"),
            ("overlap", "BufferOne"),
            ("input", "1"),
            ("paused", "yes"),
        ]);
        let schedule = with_form(Schedule::default(), "nightly", &form).expect("a schedule");
        let spec = schedule.spec.expect("a specification");
        assert_eq!(spec.cron_string, ["0 6 * * 1-5"]);
        assert_eq!(spec.interval[0].interval.expect("an interval").seconds, 5400);
        assert_eq!(schedule.policies.expect("policies").overlap_policy(), Overlap::BufferOne);
        assert!(schedule.state.expect("a state").paused);
        let start = workflow_of(schedule.action);
        assert_eq!((start.workflow_id.as_str(), start.input.map(|input| input.payloads.len())), ("nightly", Some(1)));
    }

    #[test]
    fn what_the_form_does_not_change_stays() {
        let start = NewWorkflowExecutionInfo { memo: Some(Memo::default()), ..Default::default() };
        let calendar = StructuredCalendarSpec { comment: "quarterly".to_owned(), ..Default::default() };
        let before = Schedule {
            spec: Some(ScheduleSpec { structured_calendar: vec![calendar], ..Default::default() }),
            action: Some(ScheduleAction { action: Some(Action::StartWorkflow(start)) }),
            state: Some(ScheduleState { paused: true, ..Default::default() }),
            ..Default::default()
        };
        let same = form(&[("type", "R"), ("queue", "q"), ("times", "0 0 * * *"), ("times-before", "0 0 * * *\n")]);
        let after = with_form(before.clone(), "id", &same).expect("a schedule");
        assert_eq!(after.spec.expect("a specification").structured_calendar[0].comment, "quarterly");
        assert!(after.state.expect("a state").paused && workflow_of(after.action).memo.is_some());
        let other = form(&[("type", "R"), ("queue", "q"), ("times", "0 1 * * *"), ("times-before", "0 0 * * *")]);
        let spec = with_form(before, "id", &other).expect("a schedule").spec.expect("a specification");
        assert_eq!((spec.structured_calendar.len(), spec.cron_string.len()), (0, 1));
    }

    #[test]
    fn intervals_are_read() {
        assert_eq!(span_of("45m"), Some(2_700_000_000_000));
        for wrong in ["", "45", "m", "0s", "5 weeks"] {
            assert_eq!(span_of(wrong), None, "{wrong}");
        }
        let refused = with_times(&mut ScheduleSpec::default(), "every now and then").expect_err("refused");
        assert!(refused.message().contains("every 45m"), "{refused}");
    }
}
