//! A state from history: the turns of a run up to an event, executed again.
//!
//! A script never needs this to go on. It serves resets, looks into the past, and the test that history explains state.

use bytes::Bytes;
use segno_engine::{
    Run, Shared,
    script::{OperationKind, WAKES},
    script_move,
    state::{Script, ScriptOperation, ScriptWakeSet},
};
use segno_flow::interface::{Event, EventKind, Limits, Turned, Unpaced};
use segno_proto::{
    events::{HistoryEvent, history_event::Attributes as A},
    timestamp_nanos,
};

use segno_store::NamespaceKey;

use super::{checkpoint::Checkpoint, commands, events, moving::Edition, turn::attribute_types, values::payloads};
use crate::{error::CallError, namespaces::Namespace, runs::Runs, slots::Current};

impl Runs {
    /// How far a script had come before an event, with its state; `None` if the run is no script. `past` is its history
    /// up to that event.
    pub(crate) async fn script_at(
        &self,
        base: &Current,
        past: &[Vec<HistoryEvent>],
        until: i64,
    ) -> Result<Option<(Script, Option<Bytes>)>, CallError> {
        let run = &base.run;
        let Some(script) = &run.state().script else { return Ok(None) };
        let Some(namespace) = self.namespaces.by_key(NamespaceKey(run.info.namespace_key)) else { return Ok(None) };
        let editions = self.editions(&namespace, run, until).await?;
        let history: Vec<HistoryEvent> = past.iter().flatten().cloned().collect();
        let begin = self.checkpoint_for(run, past, until).await?;
        let fresh = Script {
            version: Bytes::copy_from_slice(&editions.last().version),
            awake: true,
            moves: script.moves.iter().filter(|known| known.event_id < until).cloned().collect(),
            checkpoints: begin.iter().map(|begin| begin.record.clone()).collect(),
            compacted_until: begin.as_ref().map_or(0, |_| script.compacted_until),
            ..begin.as_ref().map(|begin| begin.script.clone()).unwrap_or_default()
        };
        let (setting, base, state) =
            (Setting::of(&namespace), run.clone(), begin.as_ref().map(|begin| begin.state.clone()));
        let replay = move || replay(&editions, &base, &history, until, &setting, begin.as_ref());
        let Some(replayed) = self.flows.cores.run(namespace.key, replay).await?? else {
            return Ok(Some((fresh, state)));
        };
        let mut turned = replayed.last;
        let turn = commands::answer(run, &mut turned, 0).turn;
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
        Ok(Some((script, Some(replayed.state))))
    }

    /// The versions that a run had before an event.
    pub(super) async fn editions(&self, namespace: &Namespace, run: &Run, until: i64) -> Result<Editions, CallError> {
        let moves = run.state().script.as_ref().map(|script| script.moves.as_slice()).unwrap_or_default();
        let damaged = || super::turn::damaged(run, "its version is not readable");
        let mut version = script_move::version_at(run, 0).ok_or_else(damaged)?;
        let name = &run.info.workflow_type;
        let first = self.edition(namespace, name, version).await?;
        let mut later = Vec::new();
        for known in moves.iter().filter(|known| known.event_id < until) {
            version = script_move::version_at(run, known.event_id).ok_or_else(damaged)?;
            later.push((known.event_id, self.edition(namespace, name, version).await?));
        }
        Ok(Editions { first, later })
    }
}

/// The versions of a run.
pub(super) struct Editions {
    first: Edition,
    /// Those it moved to, with the events of the moves.
    later: Vec<(i64, Edition)>,
}

impl Editions {
    /// The last one.
    pub fn last(&self) -> &Edition {
        self.later.last().map_or(&self.first, |(_, edition)| edition)
    }
}

/// The state after the last turn that was completed before `until`, with what that turn gave.
pub(super) struct Replayed {
    pub state: Bytes,
    /// Turns that were executed.
    pub turns: u64,
    /// What the last turn gave, without its commands.
    pub last: Turned,
    /// The completed event of the last turn. What follows it and was not caused by the turn itself is not taken yet.
    pub taken_event_id: i64,
    /// The operations that have begun, by their events.
    pub operations: Vec<ScriptOperation>,
}

/// What turns are executed with that is not in history: it is taken as it is now.
pub(super) struct Setting {
    /// Types of search attributes.
    pub types: Vec<(String, String)>,
    /// What limits a turn.
    pub limits: Limits,
}

impl Setting {
    pub fn of(namespace: &Namespace) -> Self {
        Self { types: attribute_types(namespace), limits: namespace.settings.flows.of_turn() }
    }
}

/// Executes the turns of a run again, from its first event or a checkpoint on. `history` is all of it; events from `until`
/// on are left out. `None` if no turn was completed by then.
pub(super) fn replay(
    editions: &Editions,
    run: &Run,
    history: &[HistoryEvent],
    until: i64,
    setting: &Setting,
    begin: Option<&Checkpoint>,
) -> Result<Option<Replayed>, CallError> {
    let Setting { types, limits } = setting;
    let begun_after = begin.map_or(0, Checkpoint::event_id);
    let history: Vec<&HistoryEvent> =
        history.iter().filter(|event| (begun_after + 1..until).contains(&event.event_id)).collect();
    let mut edition = &editions.first;
    let mut moves = editions.later.iter().peekable();
    while let Some((_, next)) = moves.next_if(|(at, _)| *at <= begun_after) {
        edition = next;
    }
    let mut known = Script::default();
    let mut kept = begin.map(|begin| begin.state.clone());
    let mut turns = 0;
    if let Some(begin) = begin {
        known.wake.operations.clone_from(&begin.script.wake.operations);
        turns = begin.script.turns;
    }
    let mut replayed: Option<Turned> = None;
    let mut taken = 0;
    for (place, event) in history.iter().enumerate() {
        if let Some(operation) = begun(event) {
            known.wake.operations.push(operation);
        }
        let Some(A::WorkflowTaskCompletedEventAttributes(completed)) = &event.attributes else { continue };
        // The state was moved before the turn that took the marker.
        while let Some((_, next)) = moves.next_if(|(at, _)| *at < event.event_id) {
            replayed = moved(run, edition, next, replayed.map(|turned| turned.state.into()).or(kept.take()), types)?;
            edition = next;
        }
        known.version = Bytes::copy_from_slice(&edition.version);
        let input: Vec<HistoryEvent> = history[taken..place].iter().copied().cloned().collect();
        let mut input = events::events_of(run, &known, &input, &|| types.clone());
        let started = history[..place].iter().rev().find(|event| event.event_id == completed.started_event_id);
        let time = started.and_then(|event| event.event_time.as_ref()).map_or(0, timestamp_nanos) / 1_000_000;
        input.extend(accepted(&history[place..], time));
        let state = replayed.as_ref().map(|turned| &*turned.state).or(kept.as_deref());
        let turned = segno_flow::turn(&edition.code, state, &input, limits, &mut Unpaced).map_err(|error| {
            CallError::DataLoss(format!("run {}: a turn cannot be repeated: {error:?}", run.info.run_key))
        })?;
        turns += 1;
        taken = place;
        replayed = Some(turned);
    }
    for (_, next) in moves {
        replayed = moved(run, edition, next, replayed.map(|turned| turned.state.into()).or(kept.take()), types)?;
        edition = next;
    }
    let taken_event_id = history.get(taken).map_or(0, |event| event.event_id);
    Ok(replayed.map(|last| Replayed {
        state: last.state.clone().into(),
        turns,
        last,
        taken_event_id,
        operations: known.wake.operations.clone(),
    }))
}

/// The state after a turn, in the version to which the run moved after it.
fn moved(
    run: &Run,
    from: &Edition,
    to: &Edition,
    state: Option<Bytes>,
    types: &[(String, String)],
) -> Result<Option<Turned>, CallError> {
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

/// The operation that an event begins.
fn begun(event: &HistoryEvent) -> Option<ScriptOperation> {
    let (kind, id, name) = match event.attributes.as_ref()? {
        A::ActivityTaskScheduledEventAttributes(a) => {
            let name = a.activity_type.as_ref().map(|kind| kind.name.clone());
            (OperationKind::Task, a.activity_id.clone(), name.unwrap_or_default())
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
