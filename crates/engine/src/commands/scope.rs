//! What the commands of one completed workflow task share, and the limits that several of them check.

use std::collections::BTreeSet;

use prost::Message;
use segno_proto::{command::ScheduleNexusOperationCommandAttributes, enums::WorkflowTaskFailedCause};

use crate::{
    error::{CommandError, Rejection, TaskFailure},
    limits::PENDING_MAX,
    parts::{inherit::Membership, signal::Signal, update::messages::Inbox},
    search_attributes::Rules,
    transition::draft::Draft,
};

/// The facts outside of the run that commands may need.
pub struct Surroundings<'a> {
    /// Number and id of a namespace by its name.
    pub namespace: &'a dyn Fn(&str) -> Option<(u32, String)>,
    /// Whether search attributes are known and well formed.
    pub search_attributes: &'a Rules<'a>,
    /// The id of a Nexus endpoint by its name.
    pub endpoint: &'a dyn Fn(&str) -> Option<String>,
    /// Refuses a command for the server's own endpoint: the server does not have the operation, or does not take its input.
    pub system_operation: &'a dyn Fn(&ScheduleNexusOperationCommandAttributes) -> Result<(), String>,
    /// Whether workers of a version have polled a queue for workflow tasks.
    pub is_member: Membership<'a>,
}

/// The state that the commands of one completed workflow task share.
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
    /// Whether something ended with the command itself, such as an activity that no worker had taken: the workflow must hear of it.
    pub has_ended_at_once: bool,
    /// The messages of the worker about updates.
    pub inbox: &'a mut Inbox,
    /// Signals that go over to the run that follows.
    pub carried: Vec<Signal>,
}

/// A closing command must have seen everything that happened, and closes no paused run.
pub(super) fn refuse_if_buffered(draft: &Draft, scope: &CommandScope<'_>) -> Result<(), CommandError> {
    if scope.buffered || draft.run.is_paused() {
        return Err(CommandError::Task(TaskFailure::new(WorkflowTaskFailedCause::UnhandledCommand, "")));
    }
    Ok(())
}

/// A payload too big to keep ends the workflow: trying again would send it again.
pub(super) fn limit_size(
    draft: &Draft,
    bytes: usize,
    cause: WorkflowTaskFailedCause,
    message: &str,
) -> Result<(), CommandError> {
    if bytes > draft.context.limits.blob_bytes {
        return Err(CommandError::Task(TaskFailure::terminating(cause, message)));
    }
    Ok(())
}

pub(super) fn size_of(message: Option<&impl Message>) -> usize {
    message.map_or(0, Message::encoded_len)
}

/// Refuses one more pending thing when there are too many.
pub(super) fn limit_pending(count: usize, what: &str, cause: WorkflowTaskFailedCause) -> Result<(), CommandError> {
    if count >= PENDING_MAX {
        let message = format!("the number of {what}, {count}, has reached the per-workflow limit of {PENDING_MAX}");
        return Err(CommandError::Task(TaskFailure::new(cause, message)));
    }
    Ok(())
}

/// Resolves a namespace a command names; an empty name is the workflow's own.
pub(super) fn namespace(draft: &Draft, scope: &CommandScope<'_>, name: &str) -> Result<(String, String), CommandError> {
    let info = &draft.run.info;
    if name.is_empty() || name == info.namespace {
        return Ok((info.namespace.clone(), info.namespace_id.clone()));
    }
    match (scope.surroundings.namespace)(name) {
        Some((_, id)) => Ok((name.to_owned(), id)),
        None => Err(CommandError::Call(Rejection::NamespaceNotFound(name.to_owned()))),
    }
}
