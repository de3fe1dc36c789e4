//! What becomes of signals and cancel requests sent to other workflows.

use segno_proto::{
    enums::{CancelExternalWorkflowExecutionFailedCause, SignalExternalWorkflowExecutionFailedCause},
    events::{
        ExternalWorkflowExecutionCancelRequestedEventAttributes, ExternalWorkflowExecutionSignaledEventAttributes,
        RequestCancelExternalWorkflowExecutionFailedEventAttributes,
        SignalExternalWorkflowExecutionFailedEventAttributes, history_event::Attributes,
    },
};

use crate::{
    error::Rejection,
    parts::workflow_task,
    state::run::Run,
    transition::{Applied, Context, draft::Draft},
};

/// A signal arrived, or could not be delivered.
pub fn signal_result(
    run: &Run,
    context: Context,
    initiated_event_id: i64,
    result: Result<(), SignalExternalWorkflowExecutionFailedCause>,
) -> Result<Applied<()>, Rejection> {
    if !run.is_running() {
        return Err(Rejection::Closed);
    }
    let mut draft = Draft::new(run, context);
    let Some(external) = draft.run.state.external_signals.remove(&initiated_event_id) else {
        return Err(Rejection::ChildNotFound);
    };
    draft.add_external(match result {
        Ok(()) => Attributes::ExternalWorkflowExecutionSignaledEventAttributes(
            ExternalWorkflowExecutionSignaledEventAttributes {
                initiated_event_id,
                namespace: external.namespace,
                namespace_id: external.namespace_id,
                workflow_execution: Some(external.execution),
                control: external.control,
            },
        ),
        Err(cause) => Attributes::SignalExternalWorkflowExecutionFailedEventAttributes(
            SignalExternalWorkflowExecutionFailedEventAttributes {
                cause: cause as i32,
                workflow_task_completed_event_id: 0,
                namespace: external.namespace,
                namespace_id: external.namespace_id,
                workflow_execution: Some(external.execution),
                initiated_event_id,
                control: external.control,
            },
        ),
    });
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}

/// A cancel request arrived, or could not be delivered.
pub fn cancel_result(
    run: &Run,
    context: Context,
    initiated_event_id: i64,
    result: Result<(), CancelExternalWorkflowExecutionFailedCause>,
) -> Result<Applied<()>, Rejection> {
    if !run.is_running() {
        return Err(Rejection::Closed);
    }
    let mut draft = Draft::new(run, context);
    let Some(external) = draft.run.state.external_cancels.remove(&initiated_event_id) else {
        return Err(Rejection::ChildNotFound);
    };
    draft.add_external(match result {
        Ok(()) => Attributes::ExternalWorkflowExecutionCancelRequestedEventAttributes(
            ExternalWorkflowExecutionCancelRequestedEventAttributes {
                initiated_event_id,
                namespace: external.namespace,
                namespace_id: external.namespace_id,
                workflow_execution: Some(external.execution),
            },
        ),
        Err(cause) => Attributes::RequestCancelExternalWorkflowExecutionFailedEventAttributes(
            RequestCancelExternalWorkflowExecutionFailedEventAttributes {
                cause: cause as i32,
                workflow_task_completed_event_id: 0,
                namespace: external.namespace,
                namespace_id: external.namespace_id,
                workflow_execution: Some(external.execution),
                initiated_event_id,
                control: external.control,
            },
        ),
    });
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}
