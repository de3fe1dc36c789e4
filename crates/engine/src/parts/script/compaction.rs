//! Checkpoints of a script, and which of its history can be removed.

use crate::{
    limits::Limits,
    state::{RunState, run::Run, script::ScriptCheckpoint},
    transition::draft::Draft,
};

/// Checkpoints that are kept.
const CHECKPOINTS_MAX: usize = 2;

/// Keeps the state of this turn as a checkpoint if it is time. Events that wait in the buffer would become part of its
/// batch, so that history could not be cut after it.
pub(crate) fn keep_checkpoint(draft: &mut Draft) {
    let waits = !draft.run.state.buffered.is_empty();
    let interval = draft.context.limits.script_events_kept;
    let needed_event_id = first_pending(&draft.run.state).unwrap_or(0);
    let Some(script) = draft.run.state.script.as_mut().filter(|_| !waits) else { return };
    let last = script.checkpoints.last().map_or(0, |checkpoint| checkpoint.event_id);
    if script.taken_event_id - last < interval {
        return;
    }
    let slot = match script.checkpoints.len() {
        CHECKPOINTS_MAX => script.checkpoints.remove(0).slot,
        kept => kept as u32 + 1,
    };
    let event_id = script.taken_event_id;
    script.checkpoints.push(ScriptCheckpoint { event_id, slot, has_run: true, needed_event_id });
    draft.keep_script_state(slot);
}

/// The first scheduled event of what is pending and has its input there: an activity or a Nexus operation.
fn first_pending(state: &RunState) -> Option<i64> {
    state.activities.keys().next().into_iter().chain(state.operations.keys().next()).min().copied()
}

/// The last event that history can do without, if it has become long: whole batches up to it can be removed. What activities and Nexus
/// operations were scheduled with stays that are pending now, or were at the checkpoint to which the run can be reset.
pub fn compactable(run: &Run, limits: &Limits) -> Option<i64> {
    let script = run.state.script.as_ref()?;
    if run.state.next_event_id - 1 - script.compacted_until <= 2 * limits.script_events_kept {
        return None;
    }
    let oldest = script.checkpoints.first().filter(|_| script.checkpoints.len() == CHECKPOINTS_MAX)?;
    let pending = first_pending(&run.state).into_iter();
    let needed = pending.chain([oldest.needed_event_id]).filter(|id| *id > 0).min().unwrap_or(i64::MAX);
    let last = oldest.event_id.min(needed - 1);
    // While something old stays pending it is not worth it: a run whose history was removed cannot be reset to before its checkpoints.
    (last - script.compacted_until >= limits.script_events_kept).then_some(last)
}

/// History up to this event was removed.
pub fn compacted(run: &mut Run, until: i64) {
    if let Some(script) = &mut run.state.script {
        script.compacted_until = until;
    }
}
