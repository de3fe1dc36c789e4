//! Change search attributes of the run; a null value removes one.

use segno_proto::{
    command::UpsertWorkflowSearchAttributesCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{UpsertWorkflowSearchAttributesEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, limit_size},
    error::CommandError,
    payload::is_null,
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<UpsertWorkflowSearchAttributesCommandAttributes>,
) -> Result<(), CommandError> {
    validate::workflow_commands::upsert_search_attributes(attributes.as_mut(), scope.surroundings.search_attributes)?;
    let mut search_attributes = attributes.and_then(|a| a.search_attributes).unwrap_or_default();
    scope.surroundings.search_attributes.apply_types(&mut search_attributes);
    let fields = &search_attributes.indexed_fields;
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.data.len()).sum();
    limit_size(
        draft,
        bytes,
        Cause::BadSearchAttributes,
        "UpsertWorkflowSearchAttributesCommandAttributes exceeds size limit.",
    )?;
    for (name, value) in fields {
        if is_null(value) {
            draft.run.state.search_attributes.remove(name);
        } else {
            draft.run.state.search_attributes.insert(name.clone(), value.clone());
        }
    }
    draft.add(Attributes::UpsertWorkflowSearchAttributesEventAttributes(
        UpsertWorkflowSearchAttributesEventAttributes {
            workflow_task_completed_event_id: scope.completed_event_id,
            search_attributes: Some(search_attributes),
        },
    ));
    Ok(())
}
