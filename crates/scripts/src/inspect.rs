//! Queries of scripts, and the state of a run for users.

use std::sync::Arc;

use bytes::Bytes;
use segno_engine::{Rejection, Run, script};
use segno_flow::interface::Limits;
use segno_proto::{
    common::Payloads,
    events::{HistoryEvent, history_event::Attributes},
    query::WorkflowQuery,
};
use segno_runs::{
    error::CallError,
    namespaces::Namespace,
    slots::{Current, WorkflowKey},
};
use tokio::time::Instant;

use super::{
    error::damaged,
    host::Scripts,
    replay::{self, ReplaySettings, StepBudget},
    values::{payloads, wire_payload},
};

/// The query that shows the state of any script.
const STATE_QUERY: &str = "__segno_flow_state";

/// The state of a script's run, as people see it.
#[derive(Clone, Debug)]
pub struct ScriptRunView {
    /// Frames, variables, what is pending: JSON.
    pub state: String,
    /// The run.
    pub run_id: String,
    /// `RUNNING` and so on.
    pub status: String,
    /// The source of its version.
    pub source: Vec<u8>,
    /// The name of its file.
    pub file_name: String,
    /// Who executes it, in words.
    pub executed_by: String,
}

impl Scripts {
    /// Answers a query from the state of a script. A pending turn is carried out first.
    pub(super) async fn query(
        &self,
        key: &WorkflowKey,
        current: Arc<Current>,
        query: WorkflowQuery,
        deadline: Instant,
    ) -> Result<Payloads, CallError> {
        let current = self.wait_until_current(key, current, deadline).await?;
        let (code, state) = self.code_and_state(&current).await?;
        let now = self.runs.clock.now() / 1_000_000;
        let (input, name) = (payloads(query.query_args), query.query_type.clone());
        let answer = move || segno_flow::query(&code, &state, &name, &input, now, &Limits::default());
        let answer = self.host.threads.run(key.namespace, answer);
        let answer = match tokio::time::timeout_at(deadline, answer).await {
            Ok(answer) => answer?,
            Err(_) => return Err(CallError::DeadlineExceeded),
        };
        let answer = answer.map_err(|error| CallError::QueryFailed(error.to_string(), None))?;
        let mut result: Vec<_> = answer.into_iter().map(wire_payload).collect();
        if query.query_type == STATE_QUERY
            && let [payload] = result.as_mut_slice()
        {
            let text = String::from_utf8_lossy(&payload.data).into_owned();
            payload.data = with_signals(text, &self.untaken(&current).await?).into();
        }
        Ok(Payloads { payloads: result })
    }

    /// The state of a script, now or at the time when an event was its last.
    pub async fn describe_run(
        &self,
        namespace: &Namespace,
        key: &WorkflowKey,
        run_id: &str,
        at_event: i64,
    ) -> Result<ScriptRunView, CallError> {
        let current = self.runs.snapshot(key, run_id).await?;
        let run = &current.run;
        let Some(script) = &run.state().script else {
            return Err(CallError::NoScript(format!("workflow \"{}\" is not a script", key.workflow_id)));
        };
        let (mut code, mut state) = self.code_and_state(&current).await?;
        let mut version = script::hex(&script.version);
        let mut waiting = Vec::new();
        if at_event == 0 {
            waiting = self.untaken(&current).await?;
        }
        if at_event > 0 {
            let history: Vec<_> = self.runs.all_events(&current).await?.into_iter().flatten().collect();
            let versions = self.run_versions(namespace, run, at_event + 1).await?;
            let begin = self.checkpoint_before(run, at_event + 1).await?;
            (code, version) = (versions.last().code.clone(), script::hex(&versions.last().version));
            let (settings, base) = (ReplaySettings::of(namespace), run.clone());
            let replay = move || {
                let (until, begun) = (at_event + 1, begin.as_ref());
                let pace = &mut StepBudget::default();
                let replayed = replay::replay(&versions, &base, &history, until, &settings, begun, pace)?;
                Ok::<_, CallError>(replayed.map(|replayed| replayed.state).or(begin.map(|begin| begin.state)))
            };
            let replayed = self.host.threads.run(namespace.key, replay).await??;
            let none = || {
                let text = format!("no turn was completed by event {at_event}");
                Rejection::InvalidArgument(text)
            };
            state = replayed.ok_or_else(none)?;
        }
        let inspect = move || segno_flow::inspect(&code, &state).map(|seen| seen.to_json());
        let seen = self.host.threads.run(namespace.key, inspect).await?;
        let seen = seen.map_err(|why| damaged(run, &why))?;
        let (source, _, file_name) = self
            .source(namespace, &run.info.workflow_type, &version)
            .await
            .map_err(|error| CallError::NoScript(error.to_string()))?;
        Ok(ScriptRunView {
            state: with_signals(seen, &waiting),
            run_id: run.info.run_id.clone(),
            status: run.status().as_str_name().trim_start_matches("WORKFLOW_EXECUTION_STATUS_").to_owned(),
            source,
            file_name,
            executed_by: script::executor(run).unwrap_or_default(),
        })
    }

    /// Events that no turn has taken: signals that the script does not wait for are recorded only, the next turn takes them.
    async fn untaken(&self, current: &Current) -> Result<Vec<HistoryEvent>, CallError> {
        let mut history = Vec::new();
        if let Some(script) = &current.run.state().script {
            // Of too many, the first ones are counted.
            let _ = self.append_stored(current, script.taken_event_id + 1, &mut history).await?;
        }
        history.extend(current.run.tail().iter().cloned());
        Ok(history)
    }

    /// Waits until no turn of a script is pending.
    async fn wait_until_current(
        &self,
        key: &WorkflowKey,
        current: Arc<Current>,
        deadline: Instant,
    ) -> Result<Arc<Current>, CallError> {
        let run_id = current.run.info.run_id.clone();
        let slot = self.runs.slots.get(key);
        let mut progress = slot.progress.subscribe();
        let mut current = current;
        while is_behind(&current.run) {
            let attempt = current.run.state().task.as_ref().map_or(1, |task| task.attempt);
            if attempt >= 3 {
                let why = &current.run.state().last_task_failure;
                return Err(CallError::NotReady(format!("the script cannot go on: {why}")));
            }
            if tokio::time::timeout_at(deadline, progress.changed()).await.is_err() {
                return Err(CallError::DeadlineExceeded);
            }
            progress.mark_unchanged();
            current = self.runs.snapshot(key, &run_id).await?;
        }
        Ok(current)
    }

    async fn code_and_state(&self, current: &Current) -> Result<(Arc<segno_flow::Code>, Bytes), CallError> {
        let run = &current.run;
        let version = script::version(run).ok_or_else(|| damaged(run, "its version is not readable"))?;
        let namespace = segno_store::NamespaceKey(run.info.namespace_key);
        let code = self.code(namespace, &run.info.workflow_type, version).await?;
        if run.state().script.as_ref().is_some_and(|script| script.turns == 0) {
            return Err(CallError::NotReady("the script has not taken its first turn yet".to_owned()));
        }
        let state = match &current.script_state {
            Some(state) => state.clone(),
            None => self.script_state(run).await?,
        };
        Ok((code, state))
    }
}

/// Adds signals that no turn has taken to the number of those that wait.
fn with_signals(state: String, history: &[HistoryEvent]) -> String {
    let names: Vec<_> = history
        .iter()
        .filter_map(|event| match &event.attributes {
            Some(Attributes::WorkflowExecutionSignaledEventAttributes(signaled)) => Some(&signaled.signal_name),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return state;
    }
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_str(&state) else { return state };
    let signals = fields.entry("signals").or_insert_with(|| serde_json::json!({}));
    for name in names {
        let known = signals.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        signals[name] = (known + 1).into();
    }
    serde_json::Value::Object(fields).to_string()
}

/// Whether events wait that a turn must take. The update of a speculative task is no such event.
fn is_behind(run: &Run) -> bool {
    run.is_running() && run.state().task.is_some() && !run.is_speculating()
}
