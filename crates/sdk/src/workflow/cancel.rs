//! Cancels and drops operations.

use super::{
    commands::{CommandRequest, ExpectedEvent},
    core::Core,
    nexus_start,
    operation::{OpId, OpKind},
    sabotage::{self, Sabotage},
};
use crate::{
    failure::Failure,
    options::{CancellationType, NexusCancellationType},
};

/// Cancels a scope, and what is in it, by age.
pub(crate) fn cancel_scope(core: &mut Core, scope: u64, reason: &str) {
    let scopes = core.scopes.cancel(scope, reason);
    if scopes.is_empty() {
        return;
    }
    let inside: Vec<OpId> = core
        .ops
        .iter()
        .filter(|(_, op)| scopes.contains(&op.scope) && op.outcome.is_none())
        .map(|(id, _)| *id)
        .collect();
    for id in inside {
        if matches!(core.ops.get(&id).map(|op| &op.kind), Some(OpKind::Cancelled)) {
            core.resolve(id, Ok(Vec::new()));
        } else {
            cancel(core, id);
        }
    }
}

/// Cancels an operation that the code waits for.
pub(crate) fn cancel(core: &mut Core, id: OpId) {
    let Some(op) = core.ops.get(&id) else { return };
    if op.outcome.is_some() {
        return;
    }
    let waits = match &op.kind {
        OpKind::Task { cancellation, .. } | OpKind::Child { cancellation, .. } => {
            *cancellation == CancellationType::WaitCompleted && op.command.is_none()
        }
        OpKind::Nexus { cancellation, .. } => cancellation.waits() && op.command.is_none(),
        _ => false,
    };
    if let Some((ask, expected)) = request(core, id) {
        core.push(ask, expected);
    }
    if !waits {
        if let Some(OpKind::Receive { name }) = core.ops.get(&id).map(|op| &op.kind) {
            let name = name.clone();
            core.unreceive(&name, id, None);
        }
        let is_nexus = matches!(core.ops.get(&id).map(|op| &op.kind), Some(OpKind::Nexus { .. }));
        core.resolve(id, Err(Failure::cancelled()));
        if is_nexus {
            nexus_start::resolve_started(core, id, &Err(Failure::cancelled()));
        }
    }
}

/// The future of an operation was dropped.
pub(crate) fn drop_operation(core: &mut Core, id: OpId) {
    let Some(op) = core.ops.get(&id) else { return };
    if op.outcome.is_none()
        && let Some((ask, expected)) = request(core, id)
        && !sabotage::is_on(Sabotage::DropWithoutCancel)
    {
        core.push_dropped(id, ask, expected);
    }
    let Some(op) = core.forget(id) else { return };
    if matches!(op.kind, OpKind::Nexus { .. }) {
        nexus_start::resolve_started(core, id, &Err(Failure::cancelled()));
    }
    if let OpKind::Task { id: task, .. } = &op.kind {
        core.drop_chosen_task(id, task);
    }
    if let OpKind::Receive { name } = op.kind {
        let given = op.outcome.and_then(|(at, outcome)| outcome.ok().map(|payloads| (at, payloads)));
        core.unreceive(&name, id, given);
    }
}

/// An operation ended in the workflow task in which its end was requested: history has its end before the request, which the
/// server would refuse, and with it the whole workflow task.
pub(crate) fn withdraw(core: &mut Core, is_request: impl Fn(&ExpectedEvent) -> bool) {
    for pending in &mut core.commands {
        if is_request(&pending.expected) {
            pending.withdrawn = true;
        }
    }
}

/// The command that asks for the end of an operation. What was not sent yet is withdrawn instead.
fn request(core: &mut Core, id: OpId) -> Option<(CommandRequest, ExpectedEvent)> {
    let op = core.ops.get_mut(&id)?;
    if let Some(index) = op.command.take() {
        if let Some(pending) = core.commands.get_mut(index) {
            pending.withdrawn = true;
        }
        match &op.kind {
            OpKind::Child { workflow_id, .. } => {
                core.open_children.remove(workflow_id);
            }
            OpKind::Task { id: task, .. } => {
                let task = task.clone();
                core.withdraw_chosen_task(id, &task);
            }
            _ => {}
        }
        return None;
    }
    if op.cancel_sent {
        return None;
    }
    op.cancel_sent = true;
    match &mut op.kind {
        OpKind::Task { cancellation, .. } if *cancellation != CancellationType::Abandon && op.event_id != 0 => {
            let scheduled_event_id = op.event_id;
            Some((CommandRequest::CancelTask { scheduled_event_id }, ExpectedEvent::CancelTask { scheduled_event_id }))
        }
        OpKind::Timer { id } if op.event_id != 0 => {
            let id = id.clone();
            Some((CommandRequest::CancelTimer { id: id.clone() }, ExpectedEvent::CancelTimer { id }))
        }
        OpKind::Child { workflow_id, run_id, cancellation, abandon, .. }
            if *cancellation != CancellationType::Abandon && !*abandon && op.event_id != 0 =>
        {
            let (workflow_id, run_id) = (workflow_id.clone(), run_id.clone());
            let expected = ExpectedEvent::CancelExternal { op: 0, workflow_id: workflow_id.clone() };
            Some((CommandRequest::CancelExternal { workflow_id, run_id, child_only: true }, expected))
        }
        OpKind::Nexus { cancellation, .. } if *cancellation != NexusCancellationType::Abandon && op.event_id != 0 => {
            let scheduled_event_id = op.event_id;
            Some((
                CommandRequest::CancelNexus { scheduled_event_id },
                ExpectedEvent::CancelNexus { scheduled_event_id },
            ))
        }
        OpKind::Local { id, running, work, .. } => {
            *work = None;
            if *running {
                let id = id.clone();
                core.cancelled_locals.push(id);
            }
            None
        }
        _ => None,
    }
}
