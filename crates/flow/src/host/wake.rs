//! When a turn is due: the part of the server that evaluates wake sets.

use crate::interface::{EventKind, GroupEffect, OperationKind, Wake, WakeSet};

/// Notes an event and says whether a turn must follow.
pub(super) fn wakes(set: &mut WakeSet, event: &EventKind) -> bool {
    let (kind, id, is_failure) = match event {
        EventKind::Started(_)
        | EventKind::CancelRequested { .. }
        | EventKind::Update { .. }
        | EventKind::Migrated
        | EventKind::Reset { .. } => return true,
        EventKind::Signaled { name, .. } => return set.signals.binary_search(name).is_ok(),
        EventKind::ChildStarted { workflow_id, .. } => {
            return set.operations.iter().any(|operation| {
                operation.kind == OperationKind::Child && operation.id == *workflow_id && operation.wakes_on_start
            });
        }
        EventKind::TaskEnded { id, end } => (OperationKind::Task, id, end.is_err()),
        EventKind::NexusEnded { id, end } => (OperationKind::Nexus, id, end.is_err()),
        EventKind::TimerFired { id } => (OperationKind::Timer, id, false),
        EventKind::ChildNotStarted { workflow_id, .. } => (OperationKind::Child, workflow_id, true),
        EventKind::ChildEnded { workflow_id, end } => (OperationKind::Child, workflow_id, end.is_err()),
        EventKind::SendEnded { id, failed } => (OperationKind::Send, id, failed.is_some()),
    };
    let Some(operation) = set.operations.iter().find(|operation| operation.kind == kind && operation.id == *id) else {
        return false;
    };
    match operation.wake {
        Wake::Wakes => true,
        Wake::Ignored => false,
        Wake::Group(number) => {
            let Some(group) = set.groups.get_mut(number as usize) else { return true };
            match if is_failure { group.failure } else { group.completion } {
                GroupEffect::Satisfies => true,
                GroupEffect::Counts => {
                    group.missing = group.missing.saturating_sub(1);
                    group.missing == 0
                }
            }
        }
    }
}
