//! Schedule an activity.

use segno_proto::{
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
    let pending = &draft.run.state.activities;
    limit_pending(pending.len(), "pending activities", Cause::PendingActivitiesLimitExceeded)?;
    if pending.values().any(|activity| activity.activity_id == attributes.activity_id) {
        return Err(CommandError::Task(TaskFailure::new(
            Cause::ScheduleActivityDuplicateId,
            format!(
                "invalid history builder state for action: add-activitytask-scheduled-event, ActivityID: {}",
                attributes.activity_id
            ),
        )));
    }
    let now = draft.now();
    let mut queue = attributes.task_queue.clone().unwrap_or_default();
    if queue.kind == TaskQueueKind::Unspecified as i32 {
        queue.kind = TaskQueueKind::Normal as i32;
    }
    let activity = Activity {
        activity_id: attributes.activity_id.clone(),
        activity_type: attributes.activity_type.as_ref().map(|t| t.name.clone()).unwrap_or_default(),
        queue: queue.name.clone(),
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
    };
    let id = draft.add(Attributes::ActivityTaskScheduledEventAttributes(ActivityTaskScheduledEventAttributes {
        activity_id: attributes.activity_id,
        activity_type: attributes.activity_type,
        task_queue: Some(queue),
        header: attributes.header,
        input: attributes.input,
        schedule_to_close_timeout: attributes.schedule_to_close_timeout,
        schedule_to_start_timeout: attributes.schedule_to_start_timeout,
        start_to_close_timeout: attributes.start_to_close_timeout,
        heartbeat_timeout: attributes.heartbeat_timeout,
        workflow_task_completed_event_id: scope.completed_event_id,
        retry_policy: attributes.retry_policy,
        use_workflow_build_id: attributes.use_workflow_build_id,
        priority: attributes.priority,
    }));
    draft.add_activity(Activity { scheduled_event_id: id, ..activity });
    if attributes.request_eager_execution {
        scope.eager.push(id);
    } else {
        draft.effect(Effect::OfferActivity(id));
    }
    Ok(())
}
