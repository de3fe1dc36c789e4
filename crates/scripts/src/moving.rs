//! Moves a run of a script to another version: in place, or from an event.
//!
//! [`segno_flow::migrate`] translates the state; this module loads it, and stores it in one commit with the marker of
//! the move. In place the state is that of the last turn. From an event it is the one before the turn of that event, in
//! a run that a reset makes. Then the new version takes the events since that state.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use segno_engine::{
    Applied, Context, Rejection, Run,
    reset::Reset,
    script::{self, Version, hex},
    script_move::{self, Move},
};
use segno_environment::finish::finish;
use segno_flow::interface::{Command, TurnResult};
use segno_proto::events::{HistoryEvent, history_event::Attributes as A};
use segno_runs::{
    error::CallError,
    namespaces::Namespace,
    ports::Pending,
    reset::{check_compaction, cut},
    slots::{Current, WorkflowKey},
};
use segno_store::NamespaceKey;
use tokio::time::Instant;

use super::{error::ScriptError, events::attribute_types, host::Scripts, versions::LoadedVersion};

/// How long a move waits for a turn that is under way.
const TURN_WAIT: Duration = Duration::from_secs(15);
/// How often a move looks whether the turn is over: one that fails leaves no progress to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A call that moves a run.
#[derive(Clone, Debug, Default)]
pub struct MoveCall {
    /// The run; the newest one if empty.
    pub run_id: String,
    /// Digits of the version; the current one if empty.
    pub version: String,
    /// The run is reset to the turn of this event first; 0 moves it in place.
    pub from_event: i64,
    /// Only says whether it is possible.
    pub check_only: bool,
}

/// The outcome of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRun {
    /// The run that goes on.
    pub run_id: String,
    /// The version before, all digits.
    pub from: String,
    /// The version after, all digits.
    pub to: String,
}

impl Scripts {
    /// Moves a run of a script to another version.
    pub async fn migrate_run(
        &self,
        namespace: Arc<Namespace>,
        key: &WorkflowKey,
        call: MoveCall,
    ) -> Result<MovedRun, ScriptError> {
        self.runs.refuse_overload()?;
        let (scripts, key) = (self.clone(), key.clone());
        finish(async move {
            match call.from_event {
                0 => scripts.move_in_place(&namespace, &key, &call).await,
                event => scripts.move_from(&namespace, &key, &call, event).await,
            }
        })
        .await
    }

    async fn move_in_place(
        &self,
        namespace: &Namespace,
        key: &WorkflowKey,
        call: &MoveCall,
    ) -> Result<MovedRun, ScriptError> {
        let deadline = Instant::now() + TURN_WAIT;
        loop {
            self.wait_until_idle(key, &call.run_id, deadline).await?;
            // No version is deleted meanwhile.
            let _changing = self.host.registry.hold_versions().await;
            let mut locked = self.runs.lock(key).await?;
            let current = locked.state.current.clone();
            let meant = |current: &&Arc<Current>| call.run_id.is_empty() || current.run.info.run_id == call.run_id;
            let Some(current) = current.as_ref().filter(meant) else {
                drop(locked);
                // Says that there is no such run, or that it is over.
                let older = self.runs.snapshot(key, &call.run_id).await?;
                version_of(&older.run)?;
                self.host.registry.find_version(namespace, &older.run.info.workflow_type, &call.version)?;
                return Err(closed());
            };
            let from = version_of(&current.run)?;
            let name = &current.run.info.workflow_type;
            let to = self.host.registry.find_version(namespace, name, &call.version)?;
            if !current.run.is_running() {
                return Err(closed());
            }
            if current.run.state().task_started() {
                continue;
            }
            let moved = MovedRun { run_id: current.run.info.run_id.clone(), from: hex(&from), to: hex(&to) };
            if from == to {
                if script::waits_for_operator(&current.run) && !call.check_only {
                    // The operator wants one more attempt with the same version.
                    self.host.held_back.retry(current.key());
                    self.runs.offer_workflow_task(&current.run);
                }
                return Ok(moved);
            }
            let new = self.loaded_version(namespace, name, to).await?;
            let turned = if current.run.state().script.as_ref().is_some_and(|script| script.turns == 0) {
                // Nothing is translated, so the old code may be unusable.
                None
            } else {
                let old = self.loaded_version(namespace, name, from).await?;
                let state = match &current.script_state {
                    Some(state) => state.clone(),
                    None => self.script_state(&current.run).await?,
                };
                self.translated(&old, &new, Some(state), namespace).await?
            };
            if call.check_only {
                return Ok(moved);
            }
            let context = self.runs.context(key.namespace);
            let applied = applied(&current.run, context, to, turned)?;
            // A turn that kept failing may succeed now.
            self.host.held_back.release(current.key());
            self.runs.commit(&mut locked, applied, Vec::new()).await?;
            return Ok(moved);
        }
    }

    async fn move_from(
        &self,
        namespace: &Namespace,
        key: &WorkflowKey,
        call: &MoveCall,
        event: i64,
    ) -> Result<MovedRun, ScriptError> {
        let base = self.runs.snapshot(key, &call.run_id).await?;
        version_of(&base.run)?;
        let is_new = base.run.state().script.as_ref().is_some_and(|script| script.turns == 0);
        if event == 1 && is_new && base.run.is_running() {
            // No code of it has run yet.
            return self.move_in_place(namespace, key, call).await;
        }
        let _changing = self.host.registry.hold_versions().await;
        let to = self.host.registry.find_version(namespace, &base.run.info.workflow_type, &call.version)?;
        let mut past = self.runs.all_events(&base).await?;
        let finish_event_id = {
            let history: Vec<&HistoryEvent> = past.iter().flatten().collect();
            let compacted = base.run.state().script.as_ref().map_or(0, |script| script.compacted_until);
            let found = match event {
                1 if compacted > 0 => beginning(&history),
                // Its turn was removed.
                2.. if event <= compacted => Some(event),
                _ => turn_of(&history, event),
            };
            match found {
                Some(found) => found,
                None if event < 1 || event >= base.run.state().next_event_id => {
                    let text = format!("the run has no event {event}");
                    return Err(CallError::from(Rejection::InvalidArgument(text)).into());
                }
                None => return Err(ScriptError::Precondition(format!("no turn has taken event {event} yet"))),
            }
        };
        check_compaction(&base.run, &past, finish_event_id)?;
        cut(&mut past, finish_event_id)?;
        let found = self.script_at(&base, &past, finish_event_id).await?;
        let Some(found) = found else { return Err(no_script(&base.run)) };
        let from: Version = found.past.script.version.as_ref().try_into().unwrap_or_default();
        let name = &base.run.info.workflow_type;
        let (old, new) =
            (self.loaded_version(namespace, name, from).await?, self.loaded_version(namespace, name, to).await?);
        self.translated(&old, &new, found.state, namespace).await?;
        let mut moved = MovedRun { run_id: base.run.info.run_id.clone(), from: hex(&from), to: hex(&to) };
        if call.check_only {
            return Ok(moved);
        }
        let reset = Reset {
            without_operations: false,
            finish_event_id,
            reason: format!("moved to version {}", hex(&to).get(..12).unwrap_or_default()),
            request_id: self.runs.ids.uuid(),
            without_signals: false,
            without_updates: false,
            options: Vec::new(),
        };
        let run_id = base.run.info.run_id.clone();
        let scripts = self.clone();
        let change = move |made: Applied<()>, context: Context| -> Pending<'static, _> {
            Box::pin(async move { scripts.move_made(made, context, to).await })
        };
        moved.run_id = self.runs.reset_and_change(key, &run_id, reset, Box::new(change)).await?;
        Ok(moved)
    }

    /// Moves a run that a reset has made, before it is stored.
    async fn move_made(&self, mut made: Applied<()>, context: Context, to: Version) -> Result<Applied<()>, CallError> {
        let key = NamespaceKey(made.run.info.namespace_key);
        let (Some(from), Some(namespace)) = (script::version(&made.run), self.runs.namespaces.by_key(key)) else {
            return Ok(made);
        };
        if from == to {
            return Ok(made);
        }
        let name = &made.run.info.workflow_type;
        let old = self.loaded_version(&namespace, name, from).await?;
        let new = self.loaded_version(&namespace, name, to).await?;
        let turned = self.translated(&old, &new, made.transition.script_state.clone(), &namespace).await;
        let turned = turned.map_err(|error| CallError::NotReady(error.to_string()))?;
        let moved = applied(&made.run, context, to, turned)?;
        made.run = moved.run;
        made.transition.then(moved.transition);
        Ok(made)
    }

    /// Waits until no turn of a run is under way. One that waits to be executed is in order.
    async fn wait_until_idle(&self, key: &WorkflowKey, run_id: &str, deadline: Instant) -> Result<(), CallError> {
        while self.runs.snapshot(key, run_id).await?.run.state().task_started() {
            if Instant::now() >= deadline {
                return Err(CallError::DeadlineExceeded);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// The state in the new version; `None` if no turn was taken yet.
    async fn translated(
        &self,
        old: &LoadedVersion,
        new: &LoadedVersion,
        state: Option<Bytes>,
        namespace: &Namespace,
    ) -> Result<Option<TurnResult>, ScriptError> {
        let Some(state) = state.filter(|_| old.version != new.version) else { return Ok(None) };
        let (old, new, types) = (old.clone(), new.clone(), attribute_types(namespace));
        let turned = self.host.threads.run(namespace.key, move || old.translate(&new, &state, &types)).await?;
        turned.map(Some).map_err(|error| ScriptError::Precondition(error.to_string()))
    }
}

fn version_of(run: &Run) -> Result<Version, ScriptError> {
    script::version(run).ok_or_else(|| no_script(run))
}

fn no_script(run: &Run) -> ScriptError {
    CallError::NoScript(format!("workflow \"{}\" is not a script", run.info.workflow_id)).into()
}

fn closed() -> ScriptError {
    ScriptError::Precondition("the run is closed; it can be moved from an event".to_owned())
}

/// The transition of a run to its new version.
fn applied(run: &Run, context: Context, to: Version, turned: Option<TurnResult>) -> Result<Applied<()>, CallError> {
    let (state, commands) = turned.map_or((None, Vec::new()), |turned| (Some(turned.state), turned.commands));
    let timer = |command| match command {
        Command::CancelTimer { id } => Ok(id),
        other => Err(CallError::Unavailable(format!("a move cannot do this: {other:?}"))),
    };
    let timers = commands.into_iter().map(timer).collect::<Result<_, _>>()?;
    let mut applied = script_move::apply(run, context, Move { version: to, timers })?;
    applied.transition.script_state = state.map(Into::into);
    Ok(applied)
}

/// The end of the turn to which an event belongs: the one that wrote it or, if it came from outside, took it.
fn turn_of(history: &[&HistoryEvent], event_id: i64) -> Option<i64> {
    let event = history.iter().find(|event| event.event_id == event_id)?;
    let completed =
        |event: &&&HistoryEvent| matches!(event.attributes, Some(A::WorkflowTaskCompletedEventAttributes(_)));
    if let Some(turn) = event.attributes.as_ref().and_then(written_by) {
        return Some(turn);
    }
    let later = || history.iter().filter(|event| event.event_id >= event_id);
    if let Some(turn) = later().find(completed) {
        return Some(turn.event_id);
    }
    (event_id == 1).then(|| beginning(history)).flatten()
}

/// Where a run can begin again of which no turn is known: what follows when its first task was scheduled or, if it never
/// had one, after its first event.
fn beginning(history: &[&HistoryEvent]) -> Option<i64> {
    let is_scheduled =
        |event: &&&HistoryEvent| matches!(event.attributes, Some(A::WorkflowTaskScheduledEventAttributes(_)));
    let scheduled = history.iter().take(2).find(is_scheduled);
    let last = scheduled.map_or(1, |event| event.event_id);
    history.iter().any(|event| event.event_id > last).then_some(last + 1)
}

/// The turn that wrote an event.
fn written_by(attributes: &A) -> Option<i64> {
    let turn = match attributes {
        A::ActivityTaskScheduledEventAttributes(a) => a.workflow_task_completed_event_id,
        A::ActivityTaskCancelRequestedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::TimerStartedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::TimerCanceledEventAttributes(a) => a.workflow_task_completed_event_id,
        A::StartChildWorkflowExecutionInitiatedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::SignalExternalWorkflowExecutionInitiatedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::UpsertWorkflowSearchAttributesEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowPropertiesModifiedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionCompletedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionFailedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionCanceledEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionContinuedAsNewEventAttributes(a) => a.workflow_task_completed_event_id,
        _ => 0,
    };
    (turn > 0).then_some(turn)
}
