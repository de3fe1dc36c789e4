//! One turn of a script: from the started workflow task to its completion.

use std::sync::Arc;

use bytes::Bytes;
use segno_engine::{
    Applied, Context, Rejection, Run, Transition,
    complete_task::{self, CompleteTask, Completed, Surroundings},
    limits::TRANSACTION_BYTES_MAX,
    script::{self, hex},
    search_attributes::Rules,
    task_calls::TaskRef,
    workflow_task::TaskStart,
};
use segno_flow::{
    Code,
    interface::{Command, Event, Failure, Limits, Pace, TurnError, TurnResult},
    pure::error,
    value::{Kind, LanguageError},
};
use segno_proto::{
    History, common::WorkerVersionStamp, enums::VersioningBehavior, events::HistoryEvent, protocol::Message,
    sdk::WorkflowTaskCompletedMetadata,
};
use segno_runs::{
    error::CallError,
    namespaces::{FlowLimits, Namespace},
    slots::Current,
};

use super::{
    checkpoint, commands,
    error::damaged,
    events::{self, attribute_types},
    host::Scripts,
    log::ScriptLines,
};

/// Batches of history read at a time.
const BATCHES: usize = 256;
/// Bytes of history that one turn takes. The state of a run has to be far smaller.
const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How much of a script's version its build id shows.
const BUILD_ID_BYTES: usize = 6;

/// The limits of a turn in a namespace with these settings.
pub(super) fn limits_of(flows: &FlowLimits) -> Limits {
    Limits { steps: flows.steps, state_bytes: flows.state_bytes as usize, ..Limits::default() }
}

/// The input of a turn, gathered while the run is locked.
pub(super) struct TurnInput {
    pub code: Arc<Code>,
    /// The state after the last turn; `None` for the first one.
    pub state: Option<Bytes>,
    pub events: Vec<Event>,
    pub limits: Limits,
    /// Whether more happened since the last turn than a turn takes: the run fails.
    pub overflows: bool,
}

impl TurnInput {
    pub fn execute(&self, pace: &mut dyn Pace) -> Result<TurnResult, TurnError> {
        if self.overflows {
            let message = format!("limit of {EVENT_BYTES_MAX} bytes of events in one turn reached");
            return Ok(TurnResult {
                state: self.state.as_deref().unwrap_or_default().to_vec(),
                commands: vec![Command::Fail { failure: limit_failure(message) }],
                log: Vec::new(),
                log_dropped: 0,
                wake: Default::default(),
                steps: 0,
                details: None,
            });
        }
        segno_flow::turn(&self.code, self.state.as_deref(), &self.events, &self.limits, pace)
    }
}

/// The effect of a turn on its run.
pub(super) struct TurnTransition {
    pub run: Run,
    pub transition: Transition,
    pub log: ScriptLines,
    pub steps: u64,
}

/// Where a turn finds its events and its state.
pub(super) struct TurnSources<'a> {
    /// The run as it is stored, unless it is new.
    pub stored: Option<&'a Current>,
    /// Events that are to be stored with the turn.
    pub unstored: &'a [Vec<HistoryEvent>],
    /// The state of the script, if memory has it.
    pub state: Option<Bytes>,
}

impl Scripts {
    /// Gathers what a turn of a run needs whose workflow task was just started with these messages.
    pub(super) async fn prepare_turn(
        &self,
        namespace: &Namespace,
        run: &Run,
        sources: TurnSources<'_>,
        messages: &[Message],
    ) -> Result<TurnInput, CallError> {
        let Some(script) = &run.state().script else {
            return Err(CallError::Unavailable("the run is not a script".to_owned()));
        };
        let version = script::version(run).ok_or_else(|| damaged(run, "its version is not readable"))?;
        let code = self.code(namespace.key, &run.info.workflow_type, version).await?;
        let state = match sources.state {
            Some(state) => Some(state),
            None if script.turns == 0 => None,
            None => Some(self.script_state(run).await?),
        };
        let mut history = Vec::new();
        let from = script.taken_event_id + 1;
        if let Some(current) = sources.stored
            && !self.append_stored(current, from, &mut history).await?
        {
            let limits = limits_of(&namespace.settings.flows);
            return Ok(TurnInput { code, state, events: Vec::new(), limits, overflows: true });
        }
        history.extend(sources.unstored.iter().flatten().filter(|event| event.event_id >= from).cloned());
        history.extend(run.tail().iter().filter(|event| event.event_id >= from).cloned());
        let mut events = events::events_of(run, script, &history, &|| attribute_types(namespace));
        let time = run.state().task.as_ref().map_or(0, |task| task.started_time) / 1_000_000;
        events.extend(messages.iter().filter_map(|message| events::update_of(message, time)));
        Ok(TurnInput { code, state, events, limits: limits_of(&namespace.settings.flows), overflows: false })
    }

    /// The state of a script after its last turn, from storage.
    pub(super) async fn script_state(&self, run: &Run) -> Result<Bytes, CallError> {
        let key = segno_store::RunKey(run.info.run_key);
        let state = self.runs.store.script_state(key, 0).await?;
        state.ok_or_else(|| damaged(run, "the state of its script is missing"))
    }

    /// Adds stored events from `from` on; `false` if they are more than a turn takes.
    pub(super) async fn append_stored(
        &self,
        current: &Current,
        from: i64,
        into: &mut Vec<HistoryEvent>,
    ) -> Result<bool, CallError> {
        let mut from = Some(from);
        let mut bytes = 0;
        while let Some(next) = from {
            let view = self.runs.stored_history(current, next, BATCHES).await?;
            for batch in &view.batches {
                bytes += batch.len();
                if bytes > EVENT_BYTES_MAX {
                    return Ok(false);
                }
                History::decode_batch(batch, into)
                    .map_err(|error| CallError::DataLoss(format!("history of run {}: {error}", current.key().0)))?;
            }
            from = view.next_event_id;
        }
        Ok(true)
    }

    /// Completes the workflow task of a turn. `flushed` of the buffered events were taken by it.
    pub(super) fn decide_turn(
        &self,
        namespace: &Namespace,
        run: &Run,
        context: Context,
        mut turned: TurnResult,
        flushed: usize,
    ) -> Result<TurnTransition, TurnRejected> {
        let answer = commands::task_answer(run, &mut turned, flushed);
        let call = self.complete_call(namespace, run, answer)?;
        let rules = Rules { namespace: &namespace.name, custom: &namespace.search_attributes };
        let surroundings = Surroundings {
            endpoint: &|name| self.runs.endpoints.by_name(name).map(|endpoint| endpoint.id.clone()),
            // Its operations take messages of the protocol, which scripts do not make.
            system_operation: &|attributes| Err(format!("endpoint {:?} not found", attributes.endpoint)),
            namespace: &|name| self.runs.namespaces.live(name).map(|found| (found.key.0, found.detail.id.clone())),
            search_attributes: &rules,
            is_member: &|_, _| false,
        };
        let mut applied = complete_task::complete(run, context, call, &surroundings)?;
        if applied.reply.failure.as_ref().is_some_and(|failure| failure.terminate) {
            // It would end a run of code. The next attempt would be no smaller.
            let message = format!("limit of {TRANSACTION_BYTES_MAX} bytes of history in one turn reached");
            turned.commands = vec![Command::Fail { failure: limit_failure(message) }];
            turned.wake = Default::default();
            let answer = commands::task_answer(run, &mut turned, flushed);
            let call = self.complete_call(namespace, run, answer)?;
            applied = complete_task::complete(run, context, call, &surroundings)?;
        }
        let Applied { run, mut transition, reply } = applied;
        let Completed { failure, reset_history_event_id, .. } = reply;
        if let Some(failure) = failure {
            return Err(TurnRejected::Task(failure.worker_message()));
        }
        if reset_history_event_id == 0 {
            // Otherwise every update was rejected, and the turn leaves no trace.
            self.runs.metrics.flow_state_bytes.observe(turned.state.len() as u64);
            let state = Bytes::from(turned.state);
            if let Some((_, content)) = &mut transition.script_checkpoint {
                *content = checkpoint::content(&run, &state);
            }
            transition.script_state = Some(state);
        }
        let log = ScriptLines { lines: turned.log, dropped: turned.log_dropped };
        Ok(TurnTransition { run, transition, log, steps: turned.steps })
    }

    fn complete_call(
        &self,
        namespace: &Namespace,
        run: &Run,
        answer: commands::TaskAnswer,
    ) -> Result<CompleteTask, Rejection> {
        let task = run.state().task.as_ref().ok_or(Rejection::TaskNotFound)?;
        Ok(CompleteTask {
            token: TaskRef {
                scheduled_event_id: task.scheduled_event_id,
                started_event_id: task.started_event_id,
                attempt: task.attempt,
                started_time: task.started_time,
            },
            commands: answer.commands,
            identity: script::IDENTITY.to_owned(),
            sticky: None,
            return_new_task: false,
            force_new_task: false,
            binary_checksum: String::new(),
            worker_version: worker_version(run),
            sdk_metadata: Some(WorkflowTaskCompletedMetadata {
                sdk_name: script::IDENTITY.to_owned(),
                sdk_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Default::default()
            }),
            metering_metadata: None,
            versioning_behavior: VersioningBehavior::Unspecified,
            deployment_name: String::new(),
            version: None,
            target: None,
            messages: answer.messages,
            discards_with_events: true,
            update_limits: namespace.settings.updates,
            eager_request_ids: Vec::new(),
            worker: String::new(),
            control_queue: String::new(),
            worker_reports: false,
            script: Some(answer.turn),
            digest: Default::default(),
        })
    }

    /// The start of the workflow task of a script by this node.
    pub(super) fn task_start(&self, run: &Run) -> TaskStart {
        TaskStart {
            stamp: run.state().task.as_ref().map_or(0, |task| task.stamp),
            request_id: self.runs.ids.uuid(),
            identity: script::IDENTITY.to_owned(),
            polled_queue: script::QUEUE.to_owned(),
            worker_version: worker_version(run),
            eager: false,
            worker: String::new(),
            poller: None,
            target: None,
        }
    }
}

/// A LimitError as the failure of a run.
fn limit_failure(message: String) -> Failure {
    error::to_failure(&error::from_raised(&LanguageError::new(Kind::Limit, message), ""))
}

/// Why a turn was not taken.
#[derive(Debug)]
pub(super) enum TurnRejected {
    /// The workflow task is no longer there.
    Call(Rejection),
    /// The engine does not take a command.
    Task(String),
}

impl From<Rejection> for TurnRejected {
    fn from(rejection: Rejection) -> Self {
        Self::Call(rejection)
    }
}

fn worker_version(run: &Run) -> Option<WorkerVersionStamp> {
    let script = run.state().script.as_ref()?;
    let begin = script.version.len().min(BUILD_ID_BYTES);
    let build_id = hex(&script.version[..begin]);
    Some(WorkerVersionStamp { build_id, use_versioning: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_sets_the_limits_of_turns_and_has_those_of_the_language_by_default() {
        assert_eq!(limits_of(&FlowLimits::default()), Limits::default());
        let flows = FlowLimits { steps: 1000, state_bytes: 2000, ..Default::default() };
        assert_eq!(limits_of(&flows), Limits { steps: 1000, state_bytes: 2000, ..Limits::default() });
    }
}
