//! Moving a run of a script to another version: in place, or from an event.
//!
//! [`segno_flow::migrate`] translates the state; here it is found, and stored in one commit with the marker of the move. In
//! place the state is that of the last turn. From an event it is the one before the turn of that event, in a run that a
//! reset makes. Either way the new version takes what happened since as the first thing it does.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use segno_engine::{
    Applied, Context, Rejection, Run,
    reset::Reset,
    script::{self, Version, hex},
    script_move::{self, Move},
};
use segno_flow::{
    Code, MigrateError, ScriptVersion,
    interface::{Command, Limits, Turned},
};
use segno_proto::events::{HistoryEvent, history_event::Attributes as A};

use super::{deployed::FlowError, turn::attribute_types};
use crate::{
    error::CallError,
    finish::finish,
    namespaces::Namespace,
    runs::Runs,
    slots::{Current, WorkflowKey},
};

/// How long a move waits for a turn that is under way.
const TURN_WAIT: Duration = Duration::from_secs(15);
/// A turn that fails leaves no progress to wait for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A version of a script: its code, and the source of which it was made.
#[derive(Clone)]
pub(super) struct Edition {
    pub version: Version,
    pub code: Arc<Code>,
    pub source: Bytes,
}

impl Edition {
    fn script(&self) -> ScriptVersion<'_> {
        ScriptVersion { code: &self.code, source: &self.source }
    }

    /// Moves a state of this version to another one.
    pub fn translate(&self, to: &Self, state: &[u8], types: &[(String, String)]) -> Result<Turned, MigrateError> {
        segno_flow::migrate(self.script(), to.script(), state, types, &Limits::default())
    }
}

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

/// What a move did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRun {
    /// The run that goes on.
    pub run_id: String,
    /// The version before, all digits.
    pub from: String,
    /// The version after, all digits.
    pub to: String,
}

impl Runs {
    /// Moves a run of a script to another version.
    pub async fn migrate_flow_run(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        key: &WorkflowKey,
        call: MoveCall,
    ) -> Result<MovedRun, FlowError> {
        self.refuse_overload()?;
        let (node, key) = (self.clone(), key.clone());
        finish(async move {
            match call.from_event {
                0 => node.move_in_place(&namespace, &key, &call).await,
                event => node.move_from(&namespace, &key, &call, event).await,
            }
        })
        .await
    }

    async fn move_in_place(
        self: &Arc<Self>,
        namespace: &Namespace,
        key: &WorkflowKey,
        call: &MoveCall,
    ) -> Result<MovedRun, FlowError> {
        let deadline = Instant::now() + TURN_WAIT;
        loop {
            self.wait_until_idle(key, &call.run_id, deadline).await?;
            // No version is deleted meanwhile.
            let _changing = self.flows.hold_versions().await;
            let mut locked = self.lock(key).await?;
            let current = locked.state.current.clone();
            let meant = |current: &&Arc<Current>| call.run_id.is_empty() || current.run.info.run_id == call.run_id;
            let Some(current) = current.as_ref().filter(meant) else {
                drop(locked);
                // Says that there is no such run, or that it is over.
                let older = self.snapshot(key, &call.run_id).await?;
                version_of(&older.run)?;
                self.find_version(namespace, &older.run.info.workflow_type, &call.version)?;
                return Err(closed());
            };
            let from = version_of(&current.run)?;
            let name = &current.run.info.workflow_type;
            let to = self.find_version(namespace, name, &call.version)?;
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
                    self.flows.retry(current.key());
                    self.offer_workflow_task(&current.run);
                }
                return Ok(moved);
            }
            let new = self.edition(namespace, name, to).await?;
            let turned = if current.run.state().script.as_ref().is_some_and(|script| script.turns == 0) {
                // Nothing is translated, so the old code may be unusable.
                None
            } else {
                let old = self.edition(namespace, name, from).await?;
                let state = match &current.script_state {
                    Some(state) => state.clone(),
                    None => self.script_state(&current.run).await?,
                };
                self.translated(&old, &new, Some(state), namespace).await?
            };
            if call.check_only {
                return Ok(moved);
            }
            let context = self.context(key.namespace);
            let applied = applied(&current.run, context, to, turned)?;
            // A turn that kept failing may succeed now.
            self.flows.let_go(current.key());
            self.commit(&mut locked, applied, Vec::new()).await?;
            return Ok(moved);
        }
    }

    async fn move_from(
        self: &Arc<Self>,
        namespace: &Namespace,
        key: &WorkflowKey,
        call: &MoveCall,
        event: i64,
    ) -> Result<MovedRun, FlowError> {
        let base = self.snapshot(key, &call.run_id).await?;
        version_of(&base.run)?;
        let is_new = base.run.state().script.as_ref().is_some_and(|script| script.turns == 0);
        if event == 1 && is_new && base.run.is_running() {
            // No code of it has run yet.
            return self.move_in_place(namespace, key, call).await;
        }
        let _changing = self.flows.hold_versions().await;
        let to = self.find_version(namespace, &base.run.info.workflow_type, &call.version)?;
        let mut past = self.all_events(&base).await?;
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
                None => return Err(FlowError::Precondition(format!("no turn has taken event {event} yet"))),
            }
        };
        crate::reset::check_compaction(&base.run, &past, finish_event_id)?;
        crate::reset::cut(&mut past, finish_event_id)?;
        let found = self.script_at(&base, &past, finish_event_id).await?;
        let Some((script, state)) = found else { return Err(no_script(&base.run)) };
        let from: Version = script.version.as_ref().try_into().unwrap_or_default();
        let name = &base.run.info.workflow_type;
        let (old, new) = (self.edition(namespace, name, from).await?, self.edition(namespace, name, to).await?);
        self.translated(&old, &new, state, namespace).await?;
        let mut moved = MovedRun { run_id: base.run.info.run_id.clone(), from: hex(&from), to: hex(&to) };
        if call.check_only {
            return Ok(moved);
        }
        let reset = Reset {
            finish_event_id,
            reason: format!("moved to version {}", hex(&to).get(..12).unwrap_or_default()),
            request_id: self.ids.uuid(),
            without_signals: false,
            without_updates: false,
            options: Vec::new(),
        };
        let run_id = base.run.info.run_id.clone();
        moved.run_id = self.reset_and_move(key, &run_id, reset, Some(to)).await?;
        Ok(moved)
    }

    /// Moves a run that a reset has made, before it is stored.
    pub(crate) async fn move_made(
        &self,
        made: &mut Applied<()>,
        context: Context,
        to: Version,
    ) -> Result<(), CallError> {
        let key = segno_store::NamespaceKey(made.run.info.namespace_key);
        let (Some(from), Some(namespace)) = (script::version(&made.run), self.namespaces.by_key(key)) else {
            return Ok(());
        };
        if from == to {
            return Ok(());
        }
        let name = &made.run.info.workflow_type;
        let old = self.edition(&namespace, name, from).await?;
        let new = self.edition(&namespace, name, to).await?;
        let turned = self.translated(&old, &new, made.transition.script_state.clone(), &namespace).await;
        let turned = turned.map_err(|error| CallError::NotReady(error.to_string()))?;
        let moved = applied(&made.run, context, to, turned)?;
        made.run = moved.run;
        made.transition.then(moved.transition);
        Ok(())
    }

    /// Waits until no turn of a run is under way. One that waits to be executed is in order.
    async fn wait_until_idle(&self, key: &WorkflowKey, run_id: &str, deadline: Instant) -> Result<(), CallError> {
        while self.snapshot(key, run_id).await?.run.state().task_started() {
            if Instant::now() >= deadline {
                return Err(CallError::DeadlineExceeded);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// The state in the new version; `None` if no turn was taken yet.
    async fn translated(
        &self,
        old: &Edition,
        new: &Edition,
        state: Option<Bytes>,
        namespace: &Namespace,
    ) -> Result<Option<Turned>, FlowError> {
        let Some(state) = state.filter(|_| old.version != new.version) else { return Ok(None) };
        let (old, new, types) = (old.clone(), new.clone(), attribute_types(namespace));
        let turned = self.flows.cores.run(namespace.key, move || old.translate(&new, &state, &types)).await?;
        turned.map(Some).map_err(|error| FlowError::Precondition(error.to_string()))
    }

    /// A version with its source. One that a run had in its past may have been deleted.
    pub(super) async fn edition(
        &self,
        namespace: &Namespace,
        name: &str,
        version: Version,
    ) -> Result<Edition, CallError> {
        let digits = hex(&version);
        let code = self.flow_code(namespace.key, name, version);
        let (source, ..) = self.flow_source(namespace, name, &digits).await.map_err(|error| match error {
            FlowError::Call(error) => error,
            other => CallError::NotReady(other.to_string()),
        })?;
        Ok(Edition { version, code: code.await?, source: source.into() })
    }
}

fn version_of(run: &Run) -> Result<Version, FlowError> {
    script::version(run).ok_or_else(|| no_script(run))
}

fn no_script(run: &Run) -> FlowError {
    CallError::NoScript(format!("workflow \"{}\" is no script", run.info.workflow_id)).into()
}

fn closed() -> FlowError {
    FlowError::Precondition("the run is closed; it can be moved from an event".to_owned())
}

/// The transition of a run to its new version.
fn applied(run: &Run, context: Context, to: Version, turned: Option<Turned>) -> Result<Applied<()>, CallError> {
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
