//! Start a timer.

use segno_proto::{
    command::StartTimerCommandAttributes,
    duration_nanos,
    enums::WorkflowTaskFailedCause as Cause,
    events::{TimerStartedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::CommandScope,
    error::{CommandError, TaskFailure},
    state::Timer,
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<StartTimerCommandAttributes>,
) -> Result<(), CommandError> {
    validate::commands::start_timer(attributes.as_mut())?;
    let Some(attributes) = attributes else { return Ok(()) };
    if draft.run.state.timers.contains_key(&attributes.timer_id) {
        return Err(CommandError::Task(TaskFailure::new(
            Cause::StartTimerDuplicateId,
            format!(
                "invalid history builder state for action: add-timer-started-event, TimerID: {}",
                attributes.timer_id
            ),
        )));
    }
    let delay = duration_nanos(attributes.start_to_fire_timeout.as_ref());
    let id = draft.add(Attributes::TimerStartedEventAttributes(TimerStartedEventAttributes {
        timer_id: attributes.timer_id.clone(),
        start_to_fire_timeout: attributes.start_to_fire_timeout,
        workflow_task_completed_event_id: scope.completed_event_id,
    }));
    let fire_at = draft.now().saturating_add(delay);
    draft.run.state.timers.insert(attributes.timer_id, Timer { started_event_id: id, fire_at });
    Ok(())
}
