//! Schedule an activity.

use segno_proto::{command::ScheduleActivityTaskCommandAttributes, enums::WorkflowTaskFailedCause as Cause};

use crate::{
    commands::scope::{CommandScope, limit_pending, limit_size, size_of},
    error::{CommandError, TaskFailure},
    parts::activity::attempt::{pending, scheduled},
    state::activity::Activity,
    transition::{Effect, draft::Draft},
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<ScheduleActivityTaskCommandAttributes>,
) -> Result<(), CommandError> {
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
