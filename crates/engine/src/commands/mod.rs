//! What a worker may ask for: one file per command.
//!
//! A command either becomes exactly one event (plus what follows from it) or refuses: the whole answer
//! ([`CommandError::Call`]) or the workflow task ([`CommandError::Task`]).

use std::collections::BTreeSet;

use prost::Message;
use segno_proto::{
    command::{Command, command::Attributes},
    enums::{CommandType, WorkflowTaskFailedCause},
};

use crate::{
    complete_task::Surroundings,
    draft::Draft,
    error::{Rejection, TaskFailure},
    limits::PENDING_MAX,
    signal::Signal,
    update::messages::Inbox,
    validate,
};

mod cancel_activity;
mod cancel_external;
mod cancel_timer;
mod cancel_workflow;
mod complete_workflow;
mod continue_as_new;
mod fail_workflow;
mod modify_memo;
mod record_marker;
pub(crate) mod schedule_activity;
mod signal_external;
mod start_child;
mod start_timer;
mod upsert_search_attributes;

/// What the commands of one completed workflow task share.
pub struct CommandScope<'a> {
    /// The completed event all of them refer to.
    pub completed_event_id: i64,
    /// The worker.
    pub identity: &'a str,
    /// Namespaces and search attributes.
    pub surroundings: &'a Surroundings<'a>,
    /// Whether events wait that the workflow has not seen.
    pub buffered: bool,
    /// Workflow ids of children asked for in this answer.
    pub initiated_children: BTreeSet<String>,
    /// Activities the worker wants to run itself.
    pub eager: Vec<i64>,
    /// Whether an activity was canceled that no worker had taken: the workflow must hear of it.
    pub canceled_unstarted: bool,
    /// What the worker says about updates.
    pub inbox: &'a mut Inbox,
    /// Signals that go over to the run that follows.
    pub carried: Vec<Signal>,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandError {
    /// The call is answered with an error; nothing happens.
    Call(Rejection),
    /// The workflow task fails.
    Task(TaskFailure),
}

impl From<(WorkflowTaskFailedCause, validate::Invalid)> for CommandError {
    fn from((cause, invalid): (WorkflowTaskFailedCause, validate::Invalid)) -> Self {
        Self::Task(TaskFailure::new(cause, invalid.0))
    }
}

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
        Type::ScheduleNexusOperation | Type::RequestCancelNexusOperation => {
            return Err(CommandError::Task(TaskFailure::new(
                WorkflowTaskFailedCause::FeatureDisabled,
                "Nexus operations are not built yet",
            )));
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

/// A closing command must have seen everything that happened, and closes no paused run.
fn refuse_if_buffered(draft: &Draft, scope: &CommandScope<'_>) -> Result<(), CommandError> {
    if scope.buffered || draft.run.is_paused() {
        return Err(CommandError::Task(TaskFailure::new(WorkflowTaskFailedCause::UnhandledCommand, "")));
    }
    Ok(())
}

/// A payload too big to keep ends the workflow: trying again would send it again.
fn limit_size(draft: &Draft, bytes: usize, cause: WorkflowTaskFailedCause, message: &str) -> Result<(), CommandError> {
    if bytes > draft.context.limits.blob_bytes {
        return Err(CommandError::Task(TaskFailure::terminating(cause, message)));
    }
    Ok(())
}

fn size_of(message: Option<&impl Message>) -> usize {
    message.map_or(0, Message::encoded_len)
}

/// Refuses one more pending thing when there are too many.
fn limit_pending(count: usize, what: &str, cause: WorkflowTaskFailedCause) -> Result<(), CommandError> {
    if count >= PENDING_MAX {
        let message = format!("the number of {what}, {count}, has reached the per-workflow limit of {PENDING_MAX}");
        return Err(CommandError::Task(TaskFailure::new(cause, message)));
    }
    Ok(())
}

/// Resolves a namespace a command names; an empty name is the workflow's own.
fn namespace(draft: &Draft, scope: &CommandScope<'_>, name: &str) -> Result<(String, String), CommandError> {
    let info = &draft.run.info;
    if name.is_empty() || name == info.namespace {
        return Ok((info.namespace.clone(), info.namespace_id.clone()));
    }
    match (scope.surroundings.namespace)(name) {
        Some((_, id)) => Ok((name.to_owned(), id)),
        None => Err(CommandError::Call(Rejection::NamespaceNotFound(name.to_owned()))),
    }
}
