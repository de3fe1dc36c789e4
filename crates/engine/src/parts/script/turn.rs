//! Turns of a script: what one leaves behind, and when the next one begins.

use std::collections::BTreeMap;

use crate::{
    parts::signal::Signal,
    shared::Shared,
    state::{
        RunState,
        run::Run,
        script::{OperationKind, ScriptGroup, ScriptOperation, ScriptWakeSet},
    },
    transition::draft::Draft,
};

/// The result of a turn besides its commands.
#[derive(Clone, Debug, Default)]
pub struct AfterTurn {
    /// Names of signals that code of the script waits for or handles.
    pub signals: Vec<String>,
    /// Pending operations, by kind and id, with what their end does. The event is found by the engine, except that of a Nexus
    /// operation which this turn began: nothing in it has the id.
    pub operations: Vec<ScriptOperation>,
    /// Groups that [`ScriptOperation::wake`] names, and how many ends each misses.
    pub groups: Vec<(ScriptGroup, u32)>,
    /// Signals that no code has taken.
    pub signals_waiting: u32,
    /// Signals that go over to the next run, if this turn continues as new.
    pub carried: Vec<Signal>,
    /// Whether the turn has taken the events that wait in the buffer: they become history before its end.
    pub took_buffered: bool,
}

/// Whether a turn of this run can begin: its workflow task waits.
pub fn wants_turn(run: &Run) -> bool {
    run.state.script.is_some()
        && run.is_running()
        && run.state.task.as_ref().is_some_and(|task| task.started_event_id == 0)
}

/// How the failure of a turn begins that took longer than its workflow task may.
pub const OVERTIME: &str = "the turn takes longer than the workflow task time-out";

/// Attempts of a turn that takes too long. The next one would take as long; an operator has to do something first.
pub const OVERTIME_ATTEMPTS_MAX: i32 = 5;

/// Whether the turn of a run took too long so often that it is not tried again by itself. Events that arrive meanwhile begin a
/// new workflow task, so failures are counted and not attempts.
pub fn waits_for_operator(run: &Run) -> bool {
    let failed = run.state.reported_failure.as_deref().and_then(|reported| reported.failure.as_ref());
    wants_turn(run)
        && run.state.failures_since_success >= OVERTIME_ATTEMPTS_MAX
        && failed.is_some_and(|failure| failure.message.starts_with(OVERTIME))
}

/// A turn has ended: its events are taken, and this is what the run waits for now.
pub(crate) fn turned(draft: &mut Draft, turn: &AfterTurn) {
    let taken_event_id = draft.run.state.next_event_id - 1;
    let operations = locate(&draft.run.state, &turn.operations);
    let Some(script) = &mut draft.run.state.script else { return };
    script.taken_event_id = taken_event_id;
    script.awake = false;
    script.turns += 1;
    script.signals_waiting = turn.signals_waiting;
    let mut signals = turn.signals.clone();
    signals.sort_unstable();
    let groups = turn.groups.iter().map(|(group, _)| group.clone()).collect();
    script.missing = turn.groups.iter().map(|(_, missing)| *missing).collect();
    script.wake = Shared::from(ScriptWakeSet { signals, operations, groups });
}

/// Finds the events with which operations began, and their types. Those that have ended meanwhile are found in the wake
/// set before.
fn locate(state: &RunState, operations: &[ScriptOperation]) -> Vec<ScriptOperation> {
    let mut known: BTreeMap<(OperationKind, &str), (i64, &str)> = BTreeMap::new();
    if let Some(script) = &state.script {
        for operation in &script.wake.operations {
            known.insert((operation.kind(), &operation.id), (operation.event_id, &operation.name));
        }
    }
    for (id, activity) in &state.activities {
        known.insert((OperationKind::Task, &activity.activity_id), (*id, &activity.activity_type));
    }
    for (id, timer) in &state.timers {
        known.insert((OperationKind::Timer, id), (timer.started_event_id, ""));
    }
    for (id, child) in &state.children {
        known.insert((OperationKind::Child, &child.workflow_id), (*id, &child.workflow_type));
    }
    for operation in operations.iter().filter(|operation| operation.kind() == OperationKind::Nexus) {
        if state.operations.contains_key(&operation.event_id) {
            known.insert((OperationKind::Nexus, &operation.id), (operation.event_id, &operation.name));
        }
    }
    for (id, external) in state.external_signals.iter().chain(&state.external_cancels) {
        known.insert((OperationKind::Send, &external.control), (*id, ""));
    }
    let mut located: Vec<_> = operations
        .iter()
        .filter_map(|operation| {
            let (event_id, name) = *known.get(&(operation.kind(), operation.id.as_str()))?;
            Some(ScriptOperation { event_id, name: name.to_owned(), ..operation.clone() })
        })
        .collect();
    located.sort_unstable_by_key(|operation| operation.event_id);
    located
}
