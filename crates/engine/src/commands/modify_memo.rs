//! Change the run's memo; a null value removes a field.

use segno_proto::{
    command::ModifyWorkflowPropertiesCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{WorkflowPropertiesModifiedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, limit_size},
    error::{CommandError, TaskFailure},
    limits::MEMO_BYTES_MAX,
    payload::is_null,
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<ModifyWorkflowPropertiesCommandAttributes>,
) -> Result<(), CommandError> {
    validate::workflow_commands::modify_properties(attributes.as_mut())?;
    let memo = attributes.and_then(|a| a.upserted_memo).unwrap_or_default();
    let bytes: usize = memo.fields.iter().map(|(name, value)| name.len() + value.data.len()).sum();
    limit_size(
        draft,
        bytes,
        Cause::BadModifyWorkflowPropertiesAttributes,
        "ModifyWorkflowPropertiesCommandAttributes exceeds size limit.",
    )?;
    let current = &mut draft.run.state.memo;
    for (name, value) in &memo.fields {
        if is_null(value) {
            current.remove(name);
        } else {
            current.insert(name.clone(), value.clone());
        }
    }
    let total: usize = current.iter().map(|(name, value)| name.len() + prost::Message::encoded_len(value)).sum();
    if total > MEMO_BYTES_MAX {
        return Err(CommandError::Task(TaskFailure::terminating(
            Cause::BadModifyWorkflowPropertiesAttributes,
            "ModifyWorkflowPropertiesCommandAttributes. Memo exceeds size limit.",
        )));
    }
    draft.add(Attributes::WorkflowPropertiesModifiedEventAttributes(WorkflowPropertiesModifiedEventAttributes {
        workflow_task_completed_event_id: scope.completed_event_id,
        upserted_memo: Some(memo),
    }));
    Ok(())
}
