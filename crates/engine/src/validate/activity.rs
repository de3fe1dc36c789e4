//! Checks of an activity that a workflow schedules.
//!
//! Besides refusing nonsense this fills in the timeouts left open, so that the rest of the engine reads four durations
//! and never has to ask what an absent one means.

use prost_types::Duration;
use segno_proto::{Nanos, command, duration_nanos, nanos_duration};

use super::{ID_LENGTH_MAX, Invalid, duration, priority, retry_policy, task_queue_user_defined};

/// Checks the attributes of an activity and fills in retry policy and timeouts.
///
/// `run_timeout` caps every timeout (zero: no cap); `workflow_task_queue` is the queue of the scheduling workflow.
pub fn schedule_activity(
    attributes: &mut command::ScheduleActivityTaskCommandAttributes,
    run_timeout: Nanos,
    workflow_task_queue: &str,
) -> Result<(), Invalid> {
    let policy = attributes.retry_policy.get_or_insert_default();
    task_queue_user_defined(attributes.task_queue.as_mut(), "", workflow_task_queue)?;

    let kind = attributes.activity_type.as_ref().map_or("", |kind| &kind.name);
    if attributes.activity_id.is_empty() {
        return Err(Invalid::new("activityId is not set"));
    }
    if kind.is_empty() {
        return Err(Invalid::new("activityType is not set"));
    }
    retry_policy(policy)?;
    length("activityId", &attributes.activity_id)?;
    length("activityType", kind)?;
    priority(attributes.priority.as_ref()).map_err(|why| Invalid(format!("invalid priorities: {why}")))?;
    timeouts(attributes, run_timeout)
}

fn length(what: &str, id: &str) -> Result<(), Invalid> {
    if id.len() <= ID_LENGTH_MAX {
        return Ok(());
    }
    Err(Invalid(format!("{what} exceeds length limit. Length={} Limit={ID_LENGTH_MAX}", id.len())))
}

fn timeouts(
    attributes: &mut command::ScheduleActivityTaskCommandAttributes,
    run_timeout: Nanos,
) -> Result<(), Invalid> {
    let checked = |what: &str, timeout: &mut Option<Duration>| match duration(timeout.as_mut()) {
        Ok(()) => Ok(duration_nanos(timeout.as_ref())),
        Err(why) => Err(Invalid(format!("invalid {what}: {why}"))),
    };
    let mut schedule_to_close = checked("ScheduleToCloseTimeout", &mut attributes.schedule_to_close_timeout)?;
    let mut schedule_to_start = checked("ScheduleToStartTimeout", &mut attributes.schedule_to_start_timeout)?;
    let mut start_to_close = checked("StartToCloseTimeout", &mut attributes.start_to_close_timeout)?;
    let mut heartbeat = checked("HeartbeatTimeout", &mut attributes.heartbeat_timeout)?;

    if schedule_to_close > 0 {
        // The whole bounds its parts, and stands in for those left open.
        for part in [&mut schedule_to_start, &mut start_to_close] {
            *part = if *part > 0 { schedule_to_close.min(*part) } else { schedule_to_close };
        }
    } else if start_to_close > 0 {
        schedule_to_close = run_timeout;
        if schedule_to_start == 0 {
            schedule_to_start = run_timeout;
        }
    } else {
        return Err(Invalid(format!(
            "a valid StartToCloseTimeout or ScheduleToCloseTimeout must be set on the activity. \
             ActivityId={} ActivityType={}",
            attributes.activity_id,
            attributes.activity_type.as_ref().map_or("", |kind| &kind.name)
        )));
    }
    if run_timeout > 0 {
        for timeout in [&mut schedule_to_close, &mut schedule_to_start, &mut start_to_close, &mut heartbeat] {
            *timeout = run_timeout.min(*timeout);
        }
    }
    heartbeat = heartbeat.min(start_to_close);

    attributes.schedule_to_close_timeout = Some(nanos_duration(schedule_to_close));
    attributes.schedule_to_start_timeout = Some(nanos_duration(schedule_to_start));
    attributes.start_to_close_timeout = Some(nanos_duration(start_to_close));
    attributes.heartbeat_timeout = Some(nanos_duration(heartbeat));
    Ok(())
}
