//! Fails the workflow; a retry policy or cron may give it a successor.

use segno_proto::{
    command::FailWorkflowExecutionCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{WorkflowExecutionFailedEventAttributes, history_event::Attributes},
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
    mut attributes: Option<FailWorkflowExecutionCommandAttributes>,
) -> Result<(), CommandError> {
    refuse_if_buffered(draft, scope)?;
    validate::workflow_commands::fail_workflow(attributes.as_mut())?;
    let failure = attributes.and_then(|a| a.failure);
    limit_size(
        draft,
        size_of(failure.as_ref()),
        Cause::BadFailWorkflowExecutionAttributes,
        "FailWorkflowExecutionCommandAttributes.Failure exceeds size limit.",
    )?;
    let next = chain::after_failure(&draft.run, draft.now(), failure.as_ref().unwrap_or(&Default::default()));
    let (retry_state, new_execution_run_id) = chain::follow(draft, next, failure.clone());
    close::close(
        draft,
        Attributes::WorkflowExecutionFailedEventAttributes(WorkflowExecutionFailedEventAttributes {
            failure,
            retry_state: retry_state as i32,
            workflow_task_completed_event_id: scope.completed_event_id,
            new_execution_run_id,
        }),
        Vec::new(),
    );
    Ok(())
}
