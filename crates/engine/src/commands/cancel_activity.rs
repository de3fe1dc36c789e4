//! Requests that a running activity stops; cancels one that no worker runs at once.

use segno_proto::{
    command::RequestCancelActivityTaskCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{ActivityTaskCancelRequestedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::CommandScope,
    error::{CommandError, TaskFailure},
    parts::activity,
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<RequestCancelActivityTaskCommandAttributes>,
) -> Result<(), CommandError> {
    validate::commands::request_cancel_activity(attributes.as_mut())?;
    let id = attributes.map(|a| a.scheduled_event_id).unwrap_or_default();
    let known = draft.run.state.activities.get(&id);
    // An activity whose end the workflow has not seen yet is fine; one that is over, or asked before, is not.
    let asked_before = known.is_some_and(|activity| activity.cancel_requested);
    if asked_before || (known.is_none() && !end_is_buffered(draft, id)) {
        return Err(CommandError::Task(TaskFailure::new(
            Cause::BadRequestCancelActivityAttributes,
            format!(
                "invalid history builder state for action: add-activitytask-cancel-requested-event, ScheduledEventID: {id}"
            ),
        )));
    }
    let never_started = known.is_some_and(|activity| activity.started_time == 0);
    let event_id =
        draft.add(Attributes::ActivityTaskCancelRequestedEventAttributes(ActivityTaskCancelRequestedEventAttributes {
            scheduled_event_id: id,
            workflow_task_completed_event_id: scope.completed_event_id,
        }));
    if let Some(activity) = draft.activity_mut(id) {
        activity.cancel_requested = true;
        activity.cancel_requested_event_id = event_id;
    }
    scope.eager.retain(|eager| *eager != id);
    activity::stop_at_worker(draft, id);
    if never_started {
        activity::end_canceled(draft, id, Some(activity::not_started_details()), scope.identity, None);
        scope.has_ended_at_once = true;
    }
    Ok(())
}

/// Whether the end of an activity waits among the events the workflow has not seen.
fn end_is_buffered(draft: &Draft, id: i64) -> bool {
    draft.run.state.buffered.iter().any(|event| match &event.attributes {
        Some(Attributes::ActivityTaskCompletedEventAttributes(a)) => a.scheduled_event_id == id,
        Some(Attributes::ActivityTaskFailedEventAttributes(a)) => a.scheduled_event_id == id,
        Some(Attributes::ActivityTaskTimedOutEventAttributes(a)) => a.scheduled_event_id == id,
        Some(Attributes::ActivityTaskCanceledEventAttributes(a)) => a.scheduled_event_id == id,
        _ => false,
    })
}
