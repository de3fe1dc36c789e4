//! Schedule an activity.

use segno_proto::{
    Nanos,
    command::ScheduleActivityTaskCommandAttributes,
    duration_nanos,
    enums::{TaskQueueKind, WorkflowTaskFailedCause as Cause},
    events::{ActivityTaskScheduledEventAttributes, history_event::Attributes},
};

use super::{CommandError, CommandScope, limit_pending, limit_size, size_of};
use crate::{draft::Draft, error::TaskFailure, run::Effect, state::Activity, validate};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    attributes: Option<ScheduleActivityTaskCommandAttributes>,
) -> Result<(), CommandError> {
    let mut attributes = attributes;
    let info = draft.run.info.clone();
    validate::commands::schedule_activity_task(attributes.as_mut(), info.run_timeout, &info.task_queue)?;
    let Some(attributes) = attributes else { return Ok(()) };
    limit_size(
        draft,
        size_of(attributes.input.as_ref()),
        Cause::BadScheduleActivityAttributes,
        "ScheduleActivityTaskCommandAttributes.Input exceeds size limit.",
    )?;
    let known = &draft.run.state.activities;
    limit_pending(known.len(), "pending activities", Cause::PendingActivitiesLimitExceeded)?;
    if known.values().any(|activity| activity.activity_id == attributes.activity_id) {
        return Err(CommandError::Task(TaskFailure::new(
            Cause::ScheduleActivityDuplicateId,
            format!(
                "invalid history builder state for action: add-activitytask-scheduled-event, ActivityID: {}",
                attributes.activity_id
            ),
        )));
    }
    let now = draft.now();
    let eager = attributes.request_eager_execution;
    let activity = pending(&attributes, now);
    let id = draft.add(scheduled(attributes, scope.completed_event_id));
    draft.add_activity(Activity { scheduled_event_id: id, ..activity });
    if eager {
        scope.eager.push(id);
    } else {
        draft.effect(Effect::OfferActivity(id));
    }
    Ok(())
}

/// The activity that these attributes ask for, as it is at first.
pub(crate) fn pending(attributes: &ScheduleActivityTaskCommandAttributes, now: Nanos) -> Activity {
    Activity {
        activity_id: attributes.activity_id.clone(),
        activity_type: attributes.activity_type.as_ref().map(|t| t.name.clone()).unwrap_or_default(),
        queue: attributes.task_queue.as_ref().map(|queue| queue.name.clone()).unwrap_or_default(),
        first_scheduled_time: now,
        scheduled_time: now,
        attempt: 1,
        schedule_to_start: duration_nanos(attributes.schedule_to_start_timeout.as_ref()),
        start_to_close: duration_nanos(attributes.start_to_close_timeout.as_ref()),
        schedule_to_close: duration_nanos(attributes.schedule_to_close_timeout.as_ref()),
        heartbeat: duration_nanos(attributes.heartbeat_timeout.as_ref()),
        retry_policy: attributes.retry_policy.clone(),
        priority: attributes.priority.clone(),
        stamp: 1,
        ..Default::default()
    }
}

/// The event that schedules it.
pub(crate) fn scheduled(attributes: ScheduleActivityTaskCommandAttributes, completed_event_id: i64) -> Attributes {
    let mut queue = attributes.task_queue.unwrap_or_default();
    if queue.kind == TaskQueueKind::Unspecified as i32 {
        queue.kind = TaskQueueKind::Normal as i32;
    }
    Attributes::ActivityTaskScheduledEventAttributes(ActivityTaskScheduledEventAttributes {
        activity_id: attributes.activity_id,
        activity_type: attributes.activity_type,
        task_queue: Some(queue),
        header: attributes.header,
        input: attributes.input,
        schedule_to_close_timeout: attributes.schedule_to_close_timeout,
        schedule_to_start_timeout: attributes.schedule_to_start_timeout,
        start_to_close_timeout: attributes.start_to_close_timeout,
        heartbeat_timeout: attributes.heartbeat_timeout,
        workflow_task_completed_event_id: completed_event_id,
        retry_policy: attributes.retry_policy,
        use_workflow_build_id: attributes.use_workflow_build_id,
        priority: attributes.priority,
    })
}
