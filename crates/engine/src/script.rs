//! Runs that are scripts: the server executes their workflow tasks itself.
//!
//! The engine knows which version a run has, how far its events were taken, and its *wake set*: which events make a turn
//! necessary. Every event of such a run passes [`note`], and a workflow task is scheduled only if one of them did. What a
//! script computes is none of the engine's business: the runtime executes a turn and completes the workflow task with
//! the commands that come out of it, like any worker.

use std::collections::BTreeMap;

use bytes::Bytes;
use segno_proto::{
    common::Payload,
    events::{HistoryEvent, history_event::Attributes},
};

use crate::{
    Shared,
    draft::Draft,
    limits::Limits,
    run::Run,
    signal::Signal,
    state::{RunState, Script, ScriptCheckpoint, ScriptGroup, ScriptOperation, ScriptWakeSet},
};

/// The queue of workflow tasks that the server executes itself.
pub const QUEUE: &str = "segno-flow";
/// What executes them, as events name it.
pub const IDENTITY: &str = "segno-flow";
/// The search attribute with the version of a script.
pub const VERSION_ATTRIBUTE: &str = "SegnoFlowVersion";
/// Most signals that no code of a script has taken.
pub const SIGNALS_WAITING_MAX: u32 = 10_000;

/// Checkpoints that are kept.
const CHECKPOINTS_MAX: usize = 2;

/// SHA-256 of a script's source.
pub type Version = [u8; 32];

/// The value of [`ScriptOperation::wake`] for an operation whose end is recorded only.
pub const IGNORED: u32 = 0;
/// The value of [`ScriptOperation::wake`] for an operation whose end makes a turn necessary.
pub const WAKES: u32 = 1;
/// Values from here on name a group, by its place.
pub const FIRST_GROUP: u32 = 2;

/// What kind of operation a script waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum OperationKind {
    /// An activity.
    Task = 0,
    /// A timer.
    Timer = 1,
    /// A child.
    Child = 2,
    /// A signal or cancel request to another workflow.
    Send = 3,
}

/// What a turn leaves besides its commands.
#[derive(Clone, Debug, Default)]
pub struct AfterTurn {
    /// Names of signals that somebody waits for or handles.
    pub signals: Vec<String>,
    /// Pending operations, by kind and id, with what their end does; the event is found by the engine.
    pub operations: Vec<ScriptOperation>,
    /// Groups that [`ScriptOperation::wake`] names, and how many ends each misses.
    pub groups: Vec<(ScriptGroup, u32)>,
    /// Signals that nobody has taken.
    pub signals_waiting: u32,
    /// Signals that go over to the next run, if this turn continues as new.
    pub carried: Vec<Signal>,
    /// Whether the turn has taken the events that wait in the buffer: they become history before its end.
    pub took_buffered: bool,
}

/// A script of this version, as a run begins.
pub fn new(version: Version) -> Script {
    Script { version: Bytes::copy_from_slice(&version), ..Default::default() }
}

/// The version of a run, if it is a script.
pub fn version(run: &Run) -> Option<Version> {
    run.state.script.as_ref().and_then(|script| script.version.as_ref().try_into().ok())
}

/// A version in hexadecimal digits.
pub fn hex(version: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = version.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let mut text = String::with_capacity(2 * version.len());
    text.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
    text
}

/// The search attribute that names a version.
pub(crate) fn attribute(version: &[u8]) -> Payload {
    let metadata = [("encoding", "json/plain"), ("type", "Keyword")];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.into()));
    Payload { metadata: metadata.into(), data: format!("\"{}\"", hex(version)).into(), ..Default::default() }
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

/// Whether an open run has no use for a workflow task now.
pub(crate) fn sleeps(state: &RunState) -> bool {
    state.script.as_ref().is_some_and(|script| !script.awake)
}

/// A workflow task was placed or has failed: until one completes, the run needs one.
pub(crate) fn wake(state: &mut RunState) {
    if let Some(script) = &mut state.script {
        script.awake = true;
    }
}

/// Looks at an event that becomes history: does it make a turn necessary?
pub(crate) fn note(state: &mut RunState, event: &HistoryEvent) {
    use Attributes as A;
    let Some(script) = &mut state.script else { return };
    let Some(attributes) = &event.attributes else { return };
    match attributes {
        A::WorkflowExecutionSignaledEventAttributes(signaled) => {
            if script.wake.signals.binary_search(&signaled.signal_name).is_ok() {
                script.awake = true;
            } else {
                script.signals_waiting += 1;
            }
        }
        A::WorkflowExecutionStartedEventAttributes(_)
        | A::WorkflowExecutionCancelRequestedEventAttributes(_)
        | A::WorkflowExecutionUpdateAdmittedEventAttributes(_) => script.awake = true,
        A::ChildWorkflowExecutionStartedEventAttributes(started) => {
            let operation = find(&script.wake, started.initiated_event_id);
            if operation.is_some_and(|operation| operation.wakes_on_start) {
                script.awake = true;
            }
        }
        other => {
            if let Some((begun, completed)) = ended(other) {
                note_end(script, begun, completed);
            }
        }
    }
}

fn note_end(script: &mut Script, begun: i64, completed: bool) {
    let Some(operation) = find(&script.wake, begun) else { return };
    match operation.wake {
        IGNORED => {}
        WAKES => script.awake = true,
        group => {
            let place = (group - FIRST_GROUP) as usize;
            let (Some(group), Some(missing)) = (script.wake.groups.get(place), script.missing.get_mut(place)) else {
                script.awake = true;
                return;
            };
            let satisfies = if completed { group.completion_satisfies } else { group.failure_satisfies };
            if !satisfies {
                *missing = missing.saturating_sub(1);
            }
            if satisfies || *missing == 0 {
                script.awake = true;
            }
        }
    }
}

/// The event that began what this one ends, and whether it completed.
pub fn ended(attributes: &Attributes) -> Option<(i64, bool)> {
    use Attributes as A;
    Some(match attributes {
        A::ActivityTaskCompletedEventAttributes(a) => (a.scheduled_event_id, true),
        A::ActivityTaskFailedEventAttributes(a) => (a.scheduled_event_id, false),
        A::ActivityTaskTimedOutEventAttributes(a) => (a.scheduled_event_id, false),
        A::ActivityTaskCanceledEventAttributes(a) => (a.scheduled_event_id, false),
        A::TimerFiredEventAttributes(a) => (a.started_event_id, true),
        A::StartChildWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionCompletedEventAttributes(a) => (a.initiated_event_id, true),
        A::ChildWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionCanceledEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionTimedOutEventAttributes(a) => (a.initiated_event_id, false),
        A::ChildWorkflowExecutionTerminatedEventAttributes(a) => (a.initiated_event_id, false),
        A::ExternalWorkflowExecutionSignaledEventAttributes(a) => (a.initiated_event_id, true),
        A::SignalExternalWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        A::ExternalWorkflowExecutionCancelRequestedEventAttributes(a) => (a.initiated_event_id, true),
        A::RequestCancelExternalWorkflowExecutionFailedEventAttributes(a) => (a.initiated_event_id, false),
        _ => return None,
    })
}

/// The operation that began with this event.
pub fn find(wake: &ScriptWakeSet, begun: i64) -> Option<&ScriptOperation> {
    let place = wake.operations.binary_search_by_key(&begun, |operation| operation.event_id).ok()?;
    wake.operations.get(place)
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

/// Keeps the state of this turn as a checkpoint if it is time. Events that wait in the buffer would become part of its
/// batch, so that history could not be cut after it.
pub(crate) fn keep_checkpoint(draft: &mut Draft) {
    let waits = !draft.run.state.buffered.is_empty();
    let interval = draft.context.limits.script_events_kept;
    let Some(script) = draft.run.state.script.as_mut().filter(|_| !waits) else { return };
    let last = script.checkpoints.last().map_or(0, |checkpoint| checkpoint.event_id);
    if script.taken_event_id - last < interval {
        return;
    }
    let slot = match script.checkpoints.len() {
        CHECKPOINTS_MAX => script.checkpoints.remove(0).slot,
        kept => kept as u32 + 1,
    };
    let needed_event_id = draft.run.state.activities.keys().next().copied().unwrap_or(0);
    let event_id = script.taken_event_id;
    script.checkpoints.push(ScriptCheckpoint { event_id, slot, has_run: true, needed_event_id });
    draft.keep_script_state(slot);
}

/// The last event that history can do without, if it has become long. What activities were scheduled with stays that are
/// pending now, or were at the checkpoint to which the run can be reset.
pub fn compactable(run: &Run, limits: &Limits) -> Option<i64> {
    let script = run.state.script.as_ref()?;
    if run.state.next_event_id - 1 - script.compacted_until <= 2 * limits.script_events_kept {
        return None;
    }
    let oldest = script.checkpoints.first().filter(|_| script.checkpoints.len() == CHECKPOINTS_MAX)?;
    let pending = run.state.activities.keys().next().copied().into_iter();
    let needed = pending.chain([oldest.needed_event_id]).filter(|id| *id > 0).min().unwrap_or(i64::MAX);
    let oldest = oldest.event_id;
    (oldest > script.compacted_until && oldest < needed).then_some(oldest)
}

/// History up to this event was removed.
pub fn compacted(run: &mut Run, until: i64) {
    if let Some(script) = &mut run.state.script {
        script.compacted_until = until;
    }
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
