//! Completes the workflow; a cron workflow gets a successor.

use segno_proto::{
    command::CompleteWorkflowExecutionCommandAttributes,
    enums::{ContinueAsNewInitiator, WorkflowTaskFailedCause as Cause},
    events::{WorkflowExecutionCompletedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, limit_size, refuse_if_buffered, size_of},
    error::CommandError,
    parts::{chain, close},
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<CompleteWorkflowExecutionCommandAttributes>,
) -> Result<(), CommandError> {
    refuse_if_buffered(draft, scope)?;
    validate::workflow_commands::complete_workflow(attributes.as_mut())?;
    let result = attributes.and_then(|a| a.result);
    limit_size(
        draft,
        size_of(result.as_ref()),
        Cause::BadScheduleActivityAttributes,
        "CompleteWorkflowExecutionCommandAttributes.Result exceeds size limit.",
    )?;
    let mut new_execution_run_id = String::new();
    if let Some(backoff) = chain::cron_backoff(&draft.run, draft.now()) {
        let next = chain::repeat(draft, ContinueAsNewInitiator::CronSchedule, backoff, None, result.clone());
        new_execution_run_id.clone_from(&next.run.info.run_id);
        draft.succeed_by(next);
    }
    close::close(
        draft,
        Attributes::WorkflowExecutionCompletedEventAttributes(WorkflowExecutionCompletedEventAttributes {
            result,
            workflow_task_completed_event_id: scope.completed_event_id,
            new_execution_run_id,
        }),
        Vec::new(),
    );
    Ok(())
}
