//! Record a marker: side effects, versions, local activities.

use segno_proto::{
    command::RecordMarkerCommandAttributes,
    enums::WorkflowTaskFailedCause as Cause,
    events::{MarkerRecordedEventAttributes, history_event::Attributes},
};

use crate::{
    commands::scope::{CommandScope, limit_size},
    error::CommandError,
    transition::draft::Draft,
    validate,
};

pub(super) fn apply(
    draft: &mut Draft,
    scope: &mut CommandScope<'_>,
    mut attributes: Option<RecordMarkerCommandAttributes>,
) -> Result<(), CommandError> {
    validate::commands::record_marker(attributes.as_mut())?;
    let Some(attributes) = attributes else { return Ok(()) };
    let bytes: usize =
        attributes.details.iter().map(|(name, value)| name.len() + prost::Message::encoded_len(value)).sum();
    limit_size(
        draft,
        bytes,
        Cause::BadRecordMarkerAttributes,
        "RecordMarkerCommandAttributes.Details exceeds size limit.",
    )?;
    draft.add(Attributes::MarkerRecordedEventAttributes(MarkerRecordedEventAttributes {
        marker_name: attributes.marker_name,
        details: attributes.details,
        workflow_task_completed_event_id: scope.completed_event_id,
        header: attributes.header,
        failure: attributes.failure,
    }));
    Ok(())
}
