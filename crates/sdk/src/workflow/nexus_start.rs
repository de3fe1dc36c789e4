//! The start of a Nexus operation, and the futures that wait for it.

use super::{
    core::Core,
    operation::{OpId, OpKind, Outcome},
};
use crate::{converter, failure::Failure};

/// The start of an operation as the outcome of what waits for it.
pub(super) fn outcome(started: &Result<Option<String>, Failure>) -> Outcome {
    let token = started.as_ref().map_err(Failure::clone)?;
    Ok(token.iter().filter_map(|token| converter::encode_json(token).ok()).collect())
}

/// The futures that wait for the start of an operation.
pub(super) fn resolve_started(core: &mut Core, of: OpId, started: &Result<Option<String>, Failure>) {
    let is_waiting = |kind: &OpKind| matches!(kind, OpKind::NexusStarted { operation } if *operation == of);
    let waiting: Vec<OpId> = core.ops.iter().filter(|(_, op)| is_waiting(&op.kind)).map(|(id, _)| *id).collect();
    for id in waiting {
        core.resolve(id, outcome(started));
    }
}
