//! Closes the run and starts a successor with an empty history.

use segno_proto::{
    command::ContinueAsNewWorkflowExecutionCommandAttributes,
    duration_nanos,
    enums::WorkflowTaskFailedCause as Cause,
    events::{WorkflowExecutionContinuedAsNewEventAttributes, history_event::Attributes},
    nanos_duration,
};

use crate::{
    commands::scope::{CommandScope, limit_size, refuse_if_buffered, size_of},
    error::CommandError,
    parts::{chain, close},
    transition::draft::Draft,
    validate::{self, workflow_commands::InheritedOptions},
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<ContinueAsNewWorkflowExecutionCommandAttributes>,
) -> Result<(), CommandError> {
    refuse_if_buffered(draft, scope)?;
    let info = draft.run.info.clone();
    let inherited = InheritedOptions {
        workflow_type: &info.workflow_type,
        task_queue: &info.task_queue,
        run_timeout: info.run_timeout,
        execution_timeout: info.execution_timeout,
        task_timeout: info.task_timeout,
    };
    validate::workflow_commands::continue_as_new(attributes.as_mut(), inherited, scope.surroundings.search_attributes)?;
    let Some(mut attributes) = attributes else { return Ok(()) };
    if let Some(search_attributes) = attributes.search_attributes.as_mut() {
        scope.surroundings.search_attributes.apply_types(search_attributes);
    }
    limit_size(
        draft,
        size_of(attributes.input.as_ref()),
        Cause::BadContinueAsNewAttributes,
        "ContinueAsNewWorkflowExecutionCommandAttributes. Input exceeds size limit.",
    )?;
    limit_size(
        draft,
        size_of(attributes.memo.as_ref()),
        Cause::BadContinueAsNewAttributes,
        "ContinueAsNewWorkflowExecutionCommandAttributes. Memo exceeds size limit.",
    )?;
    let carried = std::mem::take(&mut scope.carried);
    let next = chain::continue_as_new(draft, &attributes, carried, scope.surroundings.is_member);
    let new_execution_run_id = next.run.info.run_id.clone();
    draft.succeed_by(next);
    let timeout = |given: Option<prost_types::Duration>| Some(nanos_duration(duration_nanos(given.as_ref())));
    let continued = WorkflowExecutionContinuedAsNewEventAttributes {
        new_execution_run_id,
        workflow_type: attributes.workflow_type,
        task_queue: attributes.task_queue,
        input: attributes.input,
        workflow_run_timeout: timeout(attributes.workflow_run_timeout),
        workflow_task_timeout: timeout(attributes.workflow_task_timeout),
        workflow_task_completed_event_id: scope.completed_event_id,
        backoff_start_interval: attributes.backoff_start_interval,
        initiator: attributes.initiator,
        failure: attributes.failure,
        last_completion_result: attributes.last_completion_result,
        header: attributes.header,
        memo: attributes.memo,
        search_attributes: attributes.search_attributes,
        inherit_build_id: attributes.inherit_build_id,
        initial_versioning_behavior: attributes.initial_versioning_behavior,
    };
    close::close(draft, Attributes::WorkflowExecutionContinuedAsNewEventAttributes(Box::new(continued)), Vec::new());
    Ok(())
}
