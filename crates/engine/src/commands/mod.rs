//! Commands of workers, one file each.
//!
//! A command either becomes exactly one event, with its consequences, or refuses: the whole answer
//! ([`CommandError::Call`]) or the workflow task ([`CommandError::Task`]).

use segno_proto::{
    command::{Command, command::Attributes},
    enums::CommandType,
};

use crate::{
    commands::scope::CommandScope,
    error::{CommandError, Rejection},
    transition::draft::Draft,
    validate,
};

mod cancel_activity;
mod cancel_external;
mod cancel_nexus_operation;
mod cancel_timer;
mod cancel_workflow;
mod complete_workflow;
mod continue_as_new;
mod fail_workflow;
mod modify_memo;
mod record_marker;
mod schedule_activity;
mod schedule_nexus_operation;
pub mod scope;
mod signal_external;
mod start_child;
mod start_timer;
mod upsert_search_attributes;

/// Carries out one command.
pub fn apply(draft: &mut Draft, scope: &mut CommandScope<'_>, command: &Command) -> Result<(), CommandError> {
    use CommandType as Type;
    let given = command.attributes.clone();
    macro_rules! attributes {
        ($variant:ident) => {
            match given {
                Some(Attributes::$variant(attributes)) => Some(attributes),
                _ => None,
            }
        };
    }
    let before = draft.run.state.next_event_id;
    let kind = CommandType::try_from(command.command_type).unwrap_or(Type::Unspecified);
    match kind {
        Type::ScheduleActivityTask => {
            schedule_activity::apply(draft, scope, attributes!(ScheduleActivityTaskCommandAttributes))?
        }
        Type::RequestCancelActivityTask => {
            cancel_activity::apply(draft, scope, attributes!(RequestCancelActivityTaskCommandAttributes))?
        }
        Type::StartTimer => start_timer::apply(draft, scope, attributes!(StartTimerCommandAttributes))?,
        Type::CancelTimer => cancel_timer::apply(draft, scope, attributes!(CancelTimerCommandAttributes))?,
        Type::CompleteWorkflowExecution => {
            complete_workflow::apply(draft, scope, attributes!(CompleteWorkflowExecutionCommandAttributes))?
        }
        Type::FailWorkflowExecution => {
            fail_workflow::apply(draft, scope, attributes!(FailWorkflowExecutionCommandAttributes))?
        }
        Type::CancelWorkflowExecution => {
            cancel_workflow::apply(draft, scope, attributes!(CancelWorkflowExecutionCommandAttributes))?
        }
        Type::ContinueAsNewWorkflowExecution => {
            continue_as_new::apply(draft, scope, attributes!(ContinueAsNewWorkflowExecutionCommandAttributes))?
        }
        Type::StartChildWorkflowExecution => start_child::apply(
            draft,
            scope,
            attributes!(StartChildWorkflowExecutionCommandAttributes),
            command.user_metadata.clone(),
        )?,
        Type::SignalExternalWorkflowExecution => {
            signal_external::apply(draft, scope, attributes!(SignalExternalWorkflowExecutionCommandAttributes))?
        }
        Type::RequestCancelExternalWorkflowExecution => {
            cancel_external::apply(draft, scope, attributes!(RequestCancelExternalWorkflowExecutionCommandAttributes))?
        }
        Type::RecordMarker => record_marker::apply(draft, scope, attributes!(RecordMarkerCommandAttributes))?,
        Type::UpsertWorkflowSearchAttributes => {
            upsert_search_attributes::apply(draft, scope, attributes!(UpsertWorkflowSearchAttributesCommandAttributes))?
        }
        Type::ModifyWorkflowProperties => {
            modify_memo::apply(draft, scope, attributes!(ModifyWorkflowPropertiesCommandAttributes))?
        }
        Type::ProtocolMessage => {
            let mut attributes = attributes!(ProtocolMessageCommandAttributes);
            validate::commands::protocol_message(attributes.as_mut())?;
            let id = attributes.map(|a| a.message_id).unwrap_or_default();
            scope.inbox.handle_named(draft, &id)?;
        }
        Type::ScheduleNexusOperation => {
            schedule_nexus_operation::apply(draft, scope, attributes!(ScheduleNexusOperationCommandAttributes))?
        }
        Type::RequestCancelNexusOperation => {
            cancel_nexus_operation::apply(draft, scope, attributes!(RequestCancelNexusOperationCommandAttributes))?
        }
        Type::Unspecified => {
            return Err(CommandError::Call(Rejection::InvalidArgument(format!(
                "Unknown command type: {}",
                validate::text::command_type(command.command_type)
            ))));
        }
    }
    if draft.run.state.next_event_id > before
        && (command.user_metadata.is_some() || !command.event_group_markers.is_empty())
        && let Some(event) = draft.event_mut(before)
    {
        event.user_metadata.clone_from(&command.user_metadata);
        event.event_group_markers.clone_from(&command.event_group_markers);
    }
    Ok(())
}
