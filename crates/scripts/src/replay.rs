//! Computes a state from history: executes the turns of a run up to an event again.
//!
//! A run never needs this to go on. It serves resets, states of the past, and the test that history and state agree.

use std::collections::VecDeque;

use bytes::Bytes;
use segno_engine::{
    Rejection, Run, Shared,
    reset::ScriptPast,
    script::{OperationKind, WAKES},
    state::{Script, ScriptOperation, ScriptWakeSet},
};
use segno_flow::interface::{Command, Event, EventKind, Limits, Pace, TurnError, TurnResult, Unpaced};
use segno_proto::{
    events::{HistoryEvent, history_event::Attributes as A},
    timestamp_nanos,
};
use segno_runs::{error::CallError, namespaces::Namespace, ports::ScriptAt, slots::Current};
use segno_store::NamespaceKey;

use super::{
    checkpoint::Checkpoint,
    commands,
    events::{self, attribute_types},
    host::Scripts,
    turn,
    values::payloads,
    versions::{LoadedVersion, RunVersions},
};

impl Scripts {
    /// How far a script had come before an event, with its state; `None` if the run is not a script. `past` is its history
    /// up to that event.
    pub(super) async fn script_at(
        &self,
        base: &Current,
        past: &[Vec<HistoryEvent>],
        until: i64,
    ) -> Result<Option<ScriptAt>, CallError> {
        let run = &base.run;
        let Some(script) = &run.state().script else { return Ok(None) };
        let Some(namespace) = self.runs.namespaces.by_key(NamespaceKey(run.info.namespace_key)) else {
            return Ok(None);
        };
        let versions = self.run_versions(&namespace, run, until).await?;
        let history: Vec<HistoryEvent> = past.iter().flatten().cloned().collect();
        let begin = self.checkpoint_for(run, past, until).await?;
        let kept = begin.as_ref().map(|begin| (begin.record.event_id, begin.run.clone()));
        let checkpoint = begin.as_ref().map(|begin| (begin.record.slot, begin.content.clone()));
        let at = |script, state| Ok(Some(ScriptAt { past: ScriptPast { script, kept }, state, checkpoint }));
        let fresh = Script {
            version: Bytes::copy_from_slice(&versions.last().version),
            awake: true,
            moves: script.moves.iter().filter(|known| known.event_id < until).cloned().collect(),
            checkpoints: begin.iter().map(|begin| begin.record.clone()).collect(),
            compacted_until: begin.as_ref().map_or(0, |_| script.compacted_until),
            ..begin.as_ref().map(|begin| begin.script.clone()).unwrap_or_default()
        };
        let (settings, base, state) =
            (ReplaySettings::of(&namespace), run.clone(), begin.as_ref().map(|begin| begin.state.clone()));
        let replay = move || replay(&versions, &base, &history, until, &settings, begin.as_ref(), &mut Unpaced);
        let Some(replayed) = self.host.threads.run(namespace.key, replay).await?? else {
            return at(fresh, state);
        };
        let mut turned = replayed.last;
        let turn = commands::task_answer(run, &mut turned, 0).turn;
        let event_of = |wanted: &ScriptOperation| {
            let found = replayed.operations.iter().rev().find(|o| o.kind == wanted.kind && o.id == wanted.id)?;
            Some(ScriptOperation { event_id: found.event_id, name: found.name.clone(), ..wanted.clone() })
        };
        let mut operations: Vec<_> = turn.operations.iter().filter_map(event_of).collect();
        operations.sort_unstable_by_key(|operation| operation.event_id);
        let wake = ScriptWakeSet {
            signals: turn.signals,
            operations,
            groups: turn.groups.iter().map(|(group, _)| group.clone()).collect(),
        };
        let script = Script {
            taken_event_id: replayed.taken_event_id,
            awake: true,
            missing: turn.groups.iter().map(|(_, missing)| *missing).collect(),
            wake: Shared::from(wake),
            turns: replayed.turns,
            ..fresh
        };
        at(script, Some(replayed.state))
    }
}

/// The state after the last turn that was completed before `until`, with what that turn gave.
pub(super) struct ReplayResult {
    pub state: Bytes,
    /// Turns that were executed.
    pub turns: u64,
    /// The result of the last turn, without its commands.
    pub last: TurnResult,
    /// The completed event of the last turn. What follows it and was not caused by the turn itself is not taken yet.
    pub taken_event_id: i64,
    /// The operations that have begun, by their events.
    pub operations: Vec<ScriptOperation>,
}

/// Inputs of turns that are not in history: they are taken as they are now.
pub(super) struct ReplaySettings {
    /// Types of search attributes.
    pub types: Vec<(String, String)>,
    /// The limits of a turn.
    pub limits: Limits,
}

impl ReplaySettings {
    pub fn of(namespace: &Namespace) -> Self {
        Self { types: attribute_types(namespace), limits: turn::limits_of(&namespace.settings.flows) }
    }
}

/// Executes the turns of a run again, from its first event or a checkpoint on. `history` is all of it; events from `until`
/// on are left out. `None` if no turn was completed by then.
pub(super) fn replay(
    versions: &RunVersions,
    run: &Run,
    history: &[HistoryEvent],
    until: i64,
    settings: &ReplaySettings,
    begin: Option<&Checkpoint>,
    pace: &mut impl Pace,
) -> Result<Option<ReplayResult>, CallError> {
    let ReplaySettings { types, limits } = settings;
    let begun_after = begin.map_or(0, |begin| begin.record.event_id);
    let history: Vec<&HistoryEvent> =
        history.iter().filter(|event| (begun_after + 1..until).contains(&event.event_id)).collect();
    let mut version = &versions.first;
    let mut moves = versions.later.iter().peekable();
    while let Some((_, next)) = moves.next_if(|(at, _)| *at <= begun_after) {
        version = next;
    }
    let mut known = Script::default();
    let mut kept = begin.map(|begin| begin.state.clone());
    let mut turns = 0;
    if let Some(begin) = begin {
        known.wake.operations.clone_from(&begin.script.wake.operations);
        turns = begin.script.turns;
    }
    let mut replayed: Option<TurnResult> = None;
    let mut taken = 0;
    let mut called = VecDeque::new();
    for (place, event) in history.iter().enumerate() {
        if let Some(operation) = begun(event, &mut called) {
            known.wake.operations.push(operation);
        }
        let Some(A::WorkflowTaskCompletedEventAttributes(completed)) = &event.attributes else { continue };
        // The state was moved before the turn that took the marker.
        while let Some((_, next)) = moves.next_if(|(at, _)| *at < event.event_id) {
            replayed = moved(run, version, next, replayed.map(|turned| turned.state.into()).or(kept.take()), types)?;
            version = next;
        }
        known.version = Bytes::copy_from_slice(&version.version);
        let input: Vec<HistoryEvent> = history[taken..place].iter().copied().cloned().collect();
        let mut input = events::events_of(run, &known, &input, &|| types.clone());
        let started = history[..place].iter().rev().find(|event| event.event_id == completed.started_event_id);
        let time = started.and_then(|event| event.event_time.as_ref()).map_or(0, timestamp_nanos) / 1_000_000;
        input.extend(accepted(&history[place..], time));
        let state = replayed.as_ref().map(|turned| &*turned.state).or(kept.as_deref());
        let turned = segno_flow::turn(&version.code, state, &input, limits, pace).map_err(|error| match error {
            TurnError::GivenUp => Rejection::Precondition(format!(
                "the turns from event {begun_after} to event {} take more than {SHOWN_STEPS_MAX} steps, which are not repeated to show a \
                 state of the past",
                until - 1
            ))
            .into(),
            error => CallError::DataLoss(format!("run {}: a turn cannot be repeated: {error:?}", run.info.run_key)),
        })?;
        called.extend(turned.commands.iter().filter_map(|command| match command {
            Command::ScheduleNexus(order) => Some(order.id.clone()),
            _ => None,
        }));
        turns += 1;
        taken = place;
        replayed = Some(turned);
    }
    for (_, next) in moves {
        replayed = moved(run, version, next, replayed.map(|turned| turned.state.into()).or(kept.take()), types)?;
        version = next;
    }
    let taken_event_id = history.get(taken).map_or(0, |event| event.event_id);
    Ok(replayed.map(|last| ReplayResult {
        state: last.state.clone().into(),
        turns,
        last,
        taken_event_id,
        operations: known.wake.operations.clone(),
    }))
}

/// Steps that are repeated at most to show a state of the past: about a second.
const SHOWN_STEPS_MAX: u64 = 20_000_000;

/// Ends a replay after a number of steps.
pub(super) struct StepBudget {
    left: u64,
    /// Steps of the turn under way that are counted already.
    counted: u64,
}

impl Default for StepBudget {
    fn default() -> Self {
        Self { left: SHOWN_STEPS_MAX, counted: 0 }
    }
}

impl Pace for StepBudget {
    fn go_on(&mut self, steps: u64) -> bool {
        // Fewer steps than before are those of another turn.
        let more = steps.checked_sub(self.counted).unwrap_or(steps);
        self.counted = steps;
        self.left = self.left.saturating_sub(more);
        self.left > 0
    }
}

/// The state after a turn, in the version to which the run moved after it.
fn moved(
    run: &Run,
    from: &LoadedVersion,
    to: &LoadedVersion,
    state: Option<Bytes>,
    types: &[(String, String)],
) -> Result<Option<TurnResult>, CallError> {
    let moved = state.map(|state| from.translate(to, &state, types)).transpose();
    moved.map_err(|error| CallError::DataLoss(format!("run {}: a move cannot be repeated: {error}", run.info.run_key)))
}

/// Updates that the turn accepted whose completed event is the first of these: those before the next workflow task.
fn accepted(after: &[&HistoryEvent], time: i64) -> Vec<Event> {
    let of_turn = after.iter().skip(1).take_while(|event| {
        !matches!(
            event.attributes,
            Some(A::WorkflowTaskScheduledEventAttributes(_) | A::WorkflowTaskCompletedEventAttributes(_))
        )
    });
    let mut updates = Vec::new();
    for event in of_turn {
        let Some(A::WorkflowExecutionUpdateAcceptedEventAttributes(accepted)) = &event.attributes else { continue };
        let Some(request) = &accepted.accepted_request else { continue };
        let (Some(meta), Some(input)) = (&request.meta, &request.input) else { continue };
        let kind = EventKind::Update {
            id: meta.update_id.clone(),
            name: input.name.clone(),
            input: payloads(input.args.clone()),
        };
        updates.push(Event { time, kind });
    }
    updates
}

/// The operation that an event begins. `called` are the ids of Nexus operations whose events come next, in their order:
/// history does not have them.
fn begun(event: &HistoryEvent, called: &mut VecDeque<String>) -> Option<ScriptOperation> {
    let (kind, id, name) = match event.attributes.as_ref()? {
        A::ActivityTaskScheduledEventAttributes(a) => {
            let name = a.activity_type.as_ref().map(|kind| kind.name.clone());
            (OperationKind::Task, a.activity_id.clone(), name.unwrap_or_default())
        }
        A::NexusOperationScheduledEventAttributes(a) => {
            (OperationKind::Nexus, called.pop_front()?, format!("{}.{}", a.service, a.operation))
        }
        A::TimerStartedEventAttributes(a) => (OperationKind::Timer, a.timer_id.clone(), String::new()),
        A::StartChildWorkflowExecutionInitiatedEventAttributes(a) => {
            let name = a.workflow_type.as_ref().map(|kind| kind.name.clone());
            (OperationKind::Child, a.workflow_id.clone(), name.unwrap_or_default())
        }
        #[expect(deprecated, reason = "it carries the id by which the script knows what it sent")]
        A::SignalExternalWorkflowExecutionInitiatedEventAttributes(a) => {
            (OperationKind::Send, a.control.clone(), String::new())
        }
        #[expect(deprecated, reason = "it carries the id by which the script knows what it sent")]
        A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(a) => {
            (OperationKind::Send, a.control.clone(), String::new())
        }
        _ => return None,
    };
    Some(ScriptOperation { event_id: event.event_id, kind: kind as i32, id, name, wake: WAKES, wakes_on_start: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_all_turns_count() {
        let mut budget = StepBudget { left: 10_000, counted: 0 };
        assert!([1000, 2000, 3000].into_iter().all(|steps| budget.go_on(steps)));
        assert!([1000, 5000, 6000].into_iter().all(|steps| budget.go_on(steps)), "9,000 in two turns");
        assert!(!budget.go_on(1000), "10,000 in three");
    }
}
