//! Signal another workflow.

use segno_proto::{
    command::SignalExternalWorkflowExecutionCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{SignalExternalWorkflowExecutionInitiatedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, limit_pending, limit_size, namespace, size_of},
    error::CommandError,
    state::{
        External,
        outbox::{Content, SignalExternal},
    },
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<SignalExternalWorkflowExecutionCommandAttributes>,
) -> Result<(), CommandError> {
    let named = attributes.as_ref().map(|a| a.namespace.clone()).unwrap_or_default();
    let (target, target_id) = namespace(draft, scope, &named)?;
    validate::commands::signal_external(attributes.as_mut(), &draft.run.info.namespace, &target)?;
    let Some(attributes) = attributes else { return Ok(()) };
    limit_pending(
        draft.run.state.external_signals.len(),
        "pending signals to external workflows",
        Cause::PendingSignalsLimitExceeded,
    )?;
    limit_size(
        draft,
        size_of(attributes.input.as_ref()),
        Cause::BadSignalWorkflowExecutionAttributes,
        "SignalExternalWorkflowExecutionCommandAttributes.Input exceeds size limit.",
    )?;
    let execution = attributes.execution.clone().unwrap_or_default();
    let id = draft.add(Attributes::SignalExternalWorkflowExecutionInitiatedEventAttributes(
        SignalExternalWorkflowExecutionInitiatedEventAttributes {
            workflow_task_completed_event_id: scope.completed_event_id,
            namespace: attributes.namespace,
            namespace_id: target_id.clone(),
            workflow_execution: Some(execution.clone()),
            signal_name: attributes.signal_name.clone(),
            input: attributes.input.clone(),
            control: attributes.control.clone(),
            child_workflow_only: attributes.child_workflow_only,
            header: attributes.header.clone(),
        },
    ));
    let external = External {
        namespace: target.clone(),
        namespace_id: target_id,
        execution: execution.clone(),
        control: attributes.control,
    };
    draft.run.state.external_signals.insert(id, external);
    draft.send(Content::Signal(SignalExternal {
        initiated_event_id: id,
        namespace: target,
        target: execution,
        name: attributes.signal_name,
        input: attributes.input,
        header: attributes.header,
        child_only: attributes.child_workflow_only,
    }));
    Ok(())
}
