//! Requests about schedules.

use prost::Message;
use prost_types::Duration;
use segno_engine::options::named_version;
use segno_engine::schedule::{WORKFLOW_ID_PREFIX, spec};
use segno_engine::search_attributes::Rules;
use segno_engine::validate::task_queue_user_defined;
use segno_proto::common::SearchAttributes;
use segno_proto::enums::WorkflowIdReusePolicy as Reuse;
use segno_proto::schedule::{Schedule, ScheduleSpec, schedule_action::Action};
use segno_proto::workflow::NewWorkflowExecutionInfo;
use segno_proto::workflowservice::{CreateScheduleRequest, PatchScheduleRequest, UpdateScheduleRequest};

use super::{
    RequestError, at_most,
    size::{self, Sizes},
    start,
};

/// Most bytes of a note.
const NOTES_BYTES_MAX: usize = 1000;
/// A suffix as long as that of the workflow ids of a schedule.
const APPENDED: &str = "-2009-11-10T23:00:00Z";
/// Most seconds of a duration (10,000 years).
const SECONDS_MAX: i64 = 315_576_000_000;

/// Every request about one schedule names it.
pub fn schedule_id(id: &str) -> Result<(), RequestError> {
    match id.is_empty() {
        true => Err(RequestError::invalid("Can't load workflow execution.  WorkflowId not set.")),
        false => Ok(()),
    }
}

/// CreateSchedule. Writes the specification in its canonical form.
pub fn create(request: &mut CreateScheduleRequest, rules: &Rules<'_>, sizes: Sizes) -> Result<(), RequestError> {
    schedule_id(&request.schedule_id)?;
    start::workflow_id(&format!("{WORKFLOW_ID_PREFIX}{}", request.schedule_id))?;
    if request.request_id.is_empty() {
        return Err(RequestError::invalid("RequestId is not set on request."));
    }
    at_most(&request.request_id, "RequestId length exceeds limit.")?;
    let schedule = request.schedule.get_or_insert_default();
    canonical(schedule)?;
    action(schedule, rules)?;
    search_attributes(request.search_attributes.as_mut(), rules)?;
    size::memo(request.memo.as_ref())?;
    let patch = request.initial_patch.as_ref().map_or(0, Message::encoded_len);
    total(schedule.encoded_len() + patch, sizes)
}

/// UpdateSchedule. Writes the specification in its canonical form.
pub fn update(request: &mut UpdateScheduleRequest, rules: &Rules<'_>, sizes: Sizes) -> Result<(), RequestError> {
    schedule_id(&request.schedule_id)?;
    at_most(&request.request_id, "RequestId length exceeds limit.")?;
    let schedule = request.schedule.get_or_insert_default();
    action(schedule, rules)?;
    canonical(schedule)?;
    search_attributes(request.search_attributes.as_mut(), rules)?;
    let Some(start) = started(schedule) else {
        return Err(RequestError::invalid("Only StartWorkflow action is supported for schedules"));
    };
    let memo = request.memo.as_ref().map_or(0, Message::encoded_len);
    total(memo + start.input.as_ref().map_or(0, Message::encoded_len), sizes)?;
    total(schedule.encoded_len(), sizes)
}

/// PatchSchedule.
pub fn patch(request: &PatchScheduleRequest, sizes: Sizes) -> Result<(), RequestError> {
    schedule_id(&request.schedule_id)?;
    let Some(patch) = &request.patch else { return Err(RequestError::invalid("Patch is not set on request.")) };
    at_most(&request.request_id, "RequestId length exceeds limit.")?;
    if patch.pause.len() > NOTES_BYTES_MAX || patch.unpause.len() > NOTES_BYTES_MAX {
        return Err(RequestError::invalid("Schedule notes exceeds limit."));
    }
    sizes.check(Some(patch))
}

fn total(bytes: usize, sizes: Sizes) -> Result<(), RequestError> {
    if bytes > sizes.blob { Err(RequestError::invalid(size::BLOB_TOO_LARGE)) } else { Ok(()) }
}

fn started(schedule: &mut Schedule) -> Option<&mut NewWorkflowExecutionInfo> {
    let Action::StartWorkflow(start) = schedule.action.as_mut()?.action.as_mut()?;
    Some(start)
}

fn canonical(schedule: &mut Schedule) -> Result<(), RequestError> {
    let given = schedule.spec.take().unwrap_or_default();
    let refuse = |why: String| RequestError::invalid(format!("Invalid schedule spec: {why}"));
    durations(&given).map_err(refuse)?;
    schedule.spec = Some(spec::canonical(&given).map_err(refuse)?);
    Ok(())
}

fn durations(spec: &ScheduleSpec) -> Result<(), String> {
    for interval in &spec.interval {
        for (name, duration) in [("interval", &interval.interval), ("phase", &interval.phase)] {
            let Some(duration) = duration else { continue };
            valid(duration).map_err(|why| format!("{name} is not a valid duration: {why}"))?;
        }
    }
    Ok(())
}

/// Refuses a duration that protobuf does not allow, in the words of its Go implementation.
fn valid(duration: &Duration) -> Result<(), String> {
    let Duration { seconds, nanos } = *duration;
    let why = match () {
        () if seconds < -SECONDS_MAX => "exceeds -10000 years",
        () if seconds > SECONDS_MAX => "exceeds +10000 years",
        () if nanos <= -1_000_000_000 || nanos >= 1_000_000_000 => "has out-of-range nanos",
        () if seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 => "has seconds and nanos with different signs",
        () => return Ok(()),
    };
    Err(format!("proto:\u{a0}duration (seconds:{seconds}  nanos:{nanos}) {why}"))
}

/// The workflow that is to be started: what StartWorkflowExecution checks, as far as it can be checked now.
fn action(schedule: &mut Schedule, rules: &Rules<'_>) -> Result<(), RequestError> {
    let Some(start) = started(schedule) else { return Ok(()) };
    start::workflow_id(&format!("{}{APPENDED}", start.workflow_id))?;
    let kind = start.workflow_type.as_ref().map_or("", |kind| &kind.name);
    if kind.is_empty() {
        return Err(RequestError::invalid("WorkflowType is not set on request."));
    }
    at_most(kind, "WorkflowType length exceeds limit.")?;
    task_queue_user_defined(start.task_queue.as_mut(), "", "")?;
    start::timeouts(
        start.workflow_execution_timeout.as_mut(),
        start.workflow_run_timeout.as_mut(),
        start.workflow_task_timeout.as_mut(),
    )?;
    if !start.cron_schedule.is_empty() {
        return Err(RequestError::invalid("Scheduled workflow must not contain CronSchedule"));
    }
    if ![Reuse::Unspecified as i32, Reuse::AllowDuplicate as i32].contains(&start.workflow_id_reuse_policy) {
        return Err(RequestError::invalid("Scheduled workflow must not contain WorkflowIDReusePolicy"));
    }
    if let Some(wanted) = &start.versioning_override {
        named_version(wanted)?;
    }
    search_attributes(start.search_attributes.as_mut(), rules)
}

fn search_attributes(attributes: Option<&mut SearchAttributes>, rules: &Rules<'_>) -> Result<(), RequestError> {
    let Some(attributes) = attributes else { return Ok(()) };
    rules.check(attributes)?;
    rules.apply_types(attributes);
    Ok(())
}
