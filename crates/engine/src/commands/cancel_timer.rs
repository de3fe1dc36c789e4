//! Cancels a timer. If it has fired but the event is still buffered, the event is removed.

use segno_proto::{
    command::CancelTimerCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{TimerCanceledEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::CommandScope,
    error::{CommandError, TaskFailure},
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<CancelTimerCommandAttributes>,
) -> Result<(), CommandError> {
    validate::commands::cancel_timer(attributes.as_mut())?;
    let timer_id = attributes.map(|a| a.timer_id).unwrap_or_default();
    let started_event_id = match draft.run.state.timers.remove(&timer_id) {
        Some(timer) => timer.started_event_id,
        None => take_buffered_firing(draft, &timer_id).ok_or_else(|| {
            CommandError::Task(TaskFailure::new(
                Cause::BadCancelTimerAttributes,
                format!("invalid history builder state for action: add-timer-canceled-event, TimerID: {timer_id}"),
            ))
        })?,
    };
    scope.buffered = scope.buffered && !draft.run.state.buffered.is_empty();
    draft.add(Attributes::TimerCanceledEventAttributes(TimerCanceledEventAttributes {
        timer_id,
        started_event_id,
        workflow_task_completed_event_id: scope.completed_event_id,
        identity: scope.identity.to_owned(),
    }));
    Ok(())
}

/// Removes the firing of this timer from what the workflow has not seen; returns the timer's started event.
fn take_buffered_firing(draft: &mut Draft, timer_id: &str) -> Option<i64> {
    let buffered = &mut draft.run.state.buffered;
    let position = buffered.iter().position(
        |event| matches!(&event.attributes, Some(Attributes::TimerFiredEventAttributes(a)) if a.timer_id == timer_id),
    )?;
    match buffered.remove(position).attributes {
        Some(Attributes::TimerFiredEventAttributes(a)) => Some(a.started_event_id),
        _ => None,
    }
}
