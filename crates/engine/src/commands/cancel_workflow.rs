//! The workflow ends as canceled.

use segno_proto::{
    command::CancelWorkflowExecutionCommandAttributes,
    events::{WorkflowExecutionCanceledEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, refuse_if_buffered},
    error::CommandError,
    parts::close,
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<CancelWorkflowExecutionCommandAttributes>,
) -> Result<(), CommandError> {
    refuse_if_buffered(draft, scope)?;
    validate::workflow_commands::cancel_workflow(attributes.as_mut())?;
    close::close(
        draft,
        Attributes::WorkflowExecutionCanceledEventAttributes(WorkflowExecutionCanceledEventAttributes {
            workflow_task_completed_event_id: scope.completed_event_id,
            details: attributes.and_then(|a| a.details),
        }),
        Vec::new(),
    );
    Ok(())
}
