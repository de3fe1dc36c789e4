//! Request the cancellation of another workflow.

use segno_proto::{
    command::RequestCancelExternalWorkflowExecutionCommandAttributes,
    common::WorkflowExecution,
    enums::WorkflowTaskFailedCause as Cause,
    events::{RequestCancelExternalWorkflowExecutionInitiatedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, limit_pending, namespace},
    error::CommandError,
    state::{
        External,
        outbox::{CancelExternal, Content},
    },
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<RequestCancelExternalWorkflowExecutionCommandAttributes>,
) -> Result<(), CommandError> {
    let named = attributes.as_ref().map(|a| a.namespace.clone()).unwrap_or_default();
    let (target, target_id) = namespace(draft, scope, &named)?;
    validate::commands::request_cancel_external(
        attributes.as_mut(),
        &draft.run.info.namespace,
        &target,
        &scope.initiated_children,
    )?;
    let Some(attributes) = attributes else { return Ok(()) };
    limit_pending(
        draft.run.state.external_cancels.len(),
        "pending requests to cancel external workflows",
        Cause::PendingRequestCancelLimitExceeded,
    )?;
    let execution = WorkflowExecution { workflow_id: attributes.workflow_id, run_id: attributes.run_id };
    let id = draft.add(Attributes::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(
        RequestCancelExternalWorkflowExecutionInitiatedEventAttributes {
            workflow_task_completed_event_id: scope.completed_event_id,
            namespace: attributes.namespace,
            namespace_id: target_id.clone(),
            workflow_execution: Some(execution.clone()),
            control: attributes.control.clone(),
            child_workflow_only: attributes.child_workflow_only,
            reason: attributes.reason.clone(),
        },
    ));
    let external = External {
        namespace: target.clone(),
        namespace_id: target_id,
        execution: execution.clone(),
        control: attributes.control,
    };
    draft.run.state.external_cancels.insert(id, external);
    draft.send(Content::Cancel(CancelExternal {
        initiated_event_id: id,
        namespace: target,
        target: execution,
        child_only: attributes.child_workflow_only,
        reason: attributes.reason,
    }));
    Ok(())
}
