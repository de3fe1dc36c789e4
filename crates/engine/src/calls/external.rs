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
    state::{External, RunState, run::Run},
    transition::{Applied, Context, draft::Draft},
};

/// A signal arrived, or could not be delivered.
pub fn signal_result(
    run: &Run,
    context: Context,
    initiated_event_id: i64,
    result: Result<(), SignalExternalWorkflowExecutionFailedCause>,
) -> Result<Applied<()>, Rejection> {
    let take = |state: &mut RunState| state.external_signals.remove(&initiated_event_id);
    resolve(run, context, take, |external| match result {
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
    })
}

/// A cancel request arrived, or could not be delivered.
pub fn cancel_result(
    run: &Run,
    context: Context,
    initiated_event_id: i64,
    result: Result<(), CancelExternalWorkflowExecutionFailedCause>,
) -> Result<Applied<()>, Rejection> {
    let take = |state: &mut RunState| state.external_cancels.remove(&initiated_event_id);
    resolve(run, context, take, |external| match result {
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
    })
}

/// Takes a pending request out of the state and adds the event of its result; a workflow task follows.
fn resolve(
    run: &Run,
    context: Context,
    take: impl FnOnce(&mut RunState) -> Option<External>,
    event: impl FnOnce(External) -> Attributes,
) -> Result<Applied<()>, Rejection> {
    run.check_open()?;
    let mut draft = Draft::new(run, context);
    let external = take(&mut draft.run.state).ok_or(Rejection::ChildNotFound)?;
    draft.add_external(event(external));
    workflow_task::schedule_if_none(&mut draft);
    Ok(draft.finish(()))
}
