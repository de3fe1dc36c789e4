//! Turns that were not executed in the commit of their event: long ones, those found after a restart, failed ones.
//!
//! An executor takes [resumes](super::resumes), as a worker takes workflow tasks. Meanwhile the run is not locked, and
//! events are buffered as for any worker. If some arrive and the turn would close the run, the turn is executed again
//! with them. Turns are executed on [threads of their own](super::threads), where a long one yields to others every
//! [`YIELD_STEPS`] steps.

use std::{sync::Arc, time::Duration};

use segno_engine::{
    Rejection, Run, pause, script,
    state::WorkflowTask,
    task_calls::{self, FailTask, TaskRef},
};
use segno_environment::{
    finish::finish,
    metrics::{add, count},
};
use segno_flow::interface::{Command, Pace, TurnError, TurnResult};
use segno_proto::{Nanos, enums::WorkflowTaskFailedCause, failure::Failure, protocol::Message};
use segno_runs::{
    error::CallError,
    namespaces::Namespace,
    slots::{Current, RunSelector, WorkflowKey},
};
use segno_store::{NamespaceKey, RunKey};
use tokio::time::Instant;

use super::{
    events,
    host::Scripts,
    threads::TimeSlice,
    turn::{TurnInput, TurnRejected, TurnSources, TurnTransition},
};

/// Steps after which a turn lets others go first.
const YIELD_STEPS: u64 = 50_000;
/// The pause before a failed turn is tried again; doubled each time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Of the time of a workflow task this much is left to say that the turn takes too long.
const REPLY_RESERVE: Duration = Duration::from_secs(1);
/// How often one turn is executed, because events came meanwhile.
const ATTEMPTS_MAX: usize = 100;

/// Takes resumes until the node stops.
pub(super) async fn run(scripts: Scripts) {
    let Scripts { host, runs } = &scripts;
    loop {
        // Created before the checks: a notification between a check and the wait is not missed.
        let (changed, stopped) = (host.resumes.changed.notified(), runs.lifecycle.stop.notified());
        if runs.is_stopping() {
            return;
        }
        let Some((namespace, run)) = host.resumes.take(runs.committer.is_shared()) else {
            tokio::select! {
                biased;
                () = changed => continue,
                () = stopped => return,
            }
        };
        let running = RunningTurn { scripts: scripts.clone(), namespace };
        tokio::spawn(async move { running.scripts.resume(run).await });
    }
}

/// A turn under way, until it has ended or panicked.
struct RunningTurn {
    scripts: Scripts,
    namespace: NamespaceKey,
}

impl Drop for RunningTurn {
    fn drop(&mut self) {
        self.scripts.host.resumes.end(self.namespace);
    }
}

/// Lets others go first now and then, and ends a turn when the time of its workflow task is up.
struct TurnPace<'a> {
    slice: &'a mut TimeSlice,
    next: u64,
    deadline: Instant,
}

impl Pace for TurnPace<'_> {
    fn go_on(&mut self, steps: u64) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        if steps >= self.next {
            self.next = steps + YIELD_STEPS;
            self.slice.give_way();
        }
        true
    }
}

/// A workflow task that an executor has.
struct ClaimedTurn {
    key: WorkflowKey,
    namespace: Arc<Namespace>,
    run: Arc<Run>,
    task: WorkflowTask,
    messages: Vec<Message>,
    prepared: Result<TurnInput, CallError>,
}

impl Scripts {
    /// Executes the pending turn of a script.
    async fn resume(&self, run: RunKey) {
        let claimed = match self.take_resume(run).await {
            Ok(Some(claimed)) => claimed,
            Ok(None) => return,
            Err(CallError::DataLoss(why)) => return self.runs.set_aside(run, &why),
            Err(error) => {
                tracing::warn!(run = run.0, %error, "a resume could not be taken; trying again");
                return self.offer_later(run, RETRY_FIRST);
            }
        };
        let (key, info, task) = (claimed.key.clone(), claimed.run.info.clone(), claimed.task.clone());
        let failed = match self.execute(claimed).await {
            Ok(()) => return,
            Err(why) => why,
        };
        count(&self.runs.metrics.flow_failed_turns);
        tracing::warn!(workflow = %key.workflow_id, run = info.run_id, attempt = task.attempt, error = failed, "a turn failed");
        let fail = FailTask {
            token: TaskRef {
                scheduled_event_id: task.scheduled_event_id,
                started_event_id: task.started_event_id,
                attempt: task.attempt,
                started_time: task.started_time,
            },
            cause: WorkflowTaskFailedCause::WorkflowWorkerUnhandledFailure,
            failure: Some(Failure { message: failed, source: script::IDENTITY.to_owned(), ..Default::default() }),
            identity: script::IDENTITY.to_owned(),
            binary_checksum: String::new(),
            worker_version: None,
        };
        let selector = RunSelector::run(info.run_id.clone());
        // The next attempt waits: it would fail the same way.
        self.host.held_back.hold_back(run, pause(task.attempt));
        let call = move |run: &Run, context| task_calls::fail(run, context, fail);
        if let Err(error) = self.runs.apply(&key, &selector, call).await {
            tracing::debug!(run = info.run_id, %error, "a failed turn was not recorded");
        }
        self.offer_later(run, pause(task.attempt));
    }

    /// Offers the resume of a run after a while.
    fn offer_later(&self, run: RunKey, pause: Duration) {
        self.host.held_back.hold_back(run, pause);
        let scripts = self.clone();
        tokio::spawn(async move {
            let runs = &scripts.runs;
            tokio::time::sleep(pause).await;
            scripts.host.held_back.release(run);
            let found = async {
                let Some(key) = runs.workflow_of(run).await? else { return Ok(None) };
                let locked = runs.lock(&key).await?;
                Ok::<_, CallError>(locked.state.current.as_ref().map(|current| current.run.clone()))
            };
            match found.await {
                Ok(Some(current)) if current.info.run_key == run.0 && script::wants_turn(&current) => {
                    runs.offer_workflow_task(&current);
                }
                Ok(_) => {}
                Err(CallError::DataLoss(why)) => runs.set_aside(run, &why),
                Err(_) if runs.is_stopping() => {}
                Err(_) => scripts.offer_later(run, RETRY_MAX),
            }
        });
    }

    async fn take_resume(&self, run: RunKey) -> Result<Option<ClaimedTurn>, CallError> {
        let Some(key) = self.runs.workflow_of(run).await? else { return Ok(None) };
        let mut locked = self.runs.lock(&key).await?;
        let Some(current) = locked.state.current.clone().filter(|current| current.key() == run) else {
            return Ok(None);
        };
        if !script::wants_turn(&current.run) || !self.host.held_back.begin_turn(&current.run) {
            return Ok(None);
        }
        let Some(namespace) = self.runs.namespaces.by_key(key.namespace) else { return Ok(None) };
        let started = task_calls::start(&current.run, self.runs.context(key.namespace), self.task_start(&current.run))?;
        let messages = self.runs.commit(&mut locked, started, Vec::new()).await?;
        let Some(current) = locked.state.current.clone() else { return Ok(None) };
        let Some(task) = current.run.state().task.clone().filter(|task| task.started_event_id != 0) else {
            return Ok(None);
        };
        let prepared = self.prepare(&namespace, &current, &messages).await;
        let run = current.run.clone();
        Ok(Some(ClaimedTurn { key, namespace, run, task, messages, prepared }))
    }

    async fn prepare(
        &self,
        namespace: &Namespace,
        current: &Current,
        messages: &[Message],
    ) -> Result<TurnInput, CallError> {
        let sources = TurnSources { stored: Some(current), unstored: &[], state: current.script_state.clone() };
        self.prepare_turn(namespace, &current.run, sources, messages).await
    }

    /// Executes and completes a turn; gives back why it failed, if it did.
    async fn execute(&self, claimed: ClaimedTurn) -> Result<(), String> {
        let ClaimedTurn { key, namespace, run, task, messages, prepared } = claimed;
        let mut prepared = prepared.map_err(|error| error.to_string())?;
        let mut flushed = 0;
        for _ in 0..ATTEMPTS_MAX {
            let allowed = run.info.task_timeout.min(task.start_to_close);
            let (turned, same) = self.execute_on_thread(prepared, allowed, key.namespace).await;
            prepared = same;
            let turned = turned?;
            let work = {
                let (scripts, key, namespace, task) = (self.clone(), key.clone(), namespace.clone(), task.clone());
                let (run_key, messages) = (RunKey(run.info.run_key), messages.clone());
                finish(async move {
                    scripts.complete_turn(&key, run_key, &namespace, &task, turned, flushed, &messages).await
                })
            };
            match work.await.map_err(|error| error.to_string())? {
                TurnOutcome::Done => return Ok(()),
                TurnOutcome::Failed(why) => return Err(why),
                TurnOutcome::Again(events, buffered) => {
                    prepared.events = events;
                    flushed = buffered;
                }
            }
        }
        Err("events arrive faster than the turn can take them".to_owned())
    }

    /// Executes on a thread of scripts.
    async fn execute_on_thread(
        &self,
        prepared: TurnInput,
        allowed: Nanos,
        namespace: NamespaceKey,
    ) -> (Result<TurnResult, String>, TurnInput) {
        // Later attempts of a workflow task have more time, so that workers find out; a turn would only take that, too.
        let allowed = Duration::from_nanos(allowed.max(0).unsigned_abs());
        // Before the engine lets the workflow task time out and the next attempt begins.
        let deadline = Instant::now() + allowed.saturating_sub(REPLY_RESERVE.min(allowed / 4));
        let fallback = TurnInput {
            code: prepared.code.clone(),
            state: prepared.state.clone(),
            events: Vec::new(),
            limits: prepared.limits,
            overflows: prepared.overflows,
        };
        let work = self.host.threads.run_in_slices(namespace, move |slice| {
            let turned = prepared.execute(&mut TurnPace { slice, next: YIELD_STEPS, deadline });
            (turned, prepared)
        });
        match work.await {
            Ok((turned, prepared)) => (turned.map_err(|error| explain(&error)), prepared),
            Err(error) => (Err(error.to_string()), fallback),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one caller")]
    async fn complete_turn(
        &self,
        key: &WorkflowKey,
        run: RunKey,
        namespace: &Namespace,
        task: &WorkflowTask,
        turned: TurnResult,
        flushed: usize,
        messages: &[Message],
    ) -> Result<TurnOutcome, CallError> {
        let mut locked = self.runs.lock(key).await?;
        let Some(current) = locked.state.current.clone().filter(|current| current.key() == run) else {
            return Ok(TurnOutcome::Done);
        };
        let pending = current.run.state().task.as_ref();
        if pending.is_none_or(|pending| pending.started_time != task.started_time || pending.started_event_id == 0) {
            // It timed out, or the run was closed: what follows was done with that.
            return Ok(TurnOutcome::Done);
        }
        if current.run.is_paused() && turned.commands.iter().any(Command::closes) {
            let context = self.runs.context_on(&current.run, false).await?;
            let given_up = pause::give_up_turn(&current.run, context);
            drop(current);
            self.runs.commit(&mut locked, given_up, Vec::new()).await?;
            return Ok(TurnOutcome::Done);
        }
        let buffered = current.run.state().buffered.len();
        if buffered > flushed && turned.commands.iter().any(Command::closes) {
            let mut prepared = self.prepare(namespace, &current, messages).await?;
            let Some(script) = &current.run.state().script else { return Ok(TurnOutcome::Done) };
            let late = events::events_of(&current.run, script, &current.run.state().buffered, &Vec::new);
            // Updates that came as messages follow the events.
            let updates = messages.iter().filter(|message| events::update_of(message, 0).is_some()).count();
            let place = prepared.events.len() - updates.min(prepared.events.len());
            prepared.events.splice(place..place, late);
            return Ok(TurnOutcome::Again(prepared.events, buffered));
        }
        let closes = turned.commands.iter().any(Command::closes);
        let context = self.runs.context_on(&current.run, closes).await?;
        match self.decide_turn(namespace, &current.run, context, turned, flushed) {
            Ok(TurnTransition { run: mut after, mut transition, log, steps }) => {
                self.compact(&mut after, &mut transition).await;
                let info = after.info.clone();
                drop(current);
                let applied = segno_engine::Applied { run: after, transition, reply: () };
                self.runs.commit(&mut locked, applied, Vec::new()).await?;
                self.host.log.write(&self.runs.metrics, &info, log);
                count(&self.runs.metrics.flow_turns);
                add(&self.runs.metrics.flow_steps, steps);
                Ok(TurnOutcome::Done)
            }
            Err(TurnRejected::Call(Rejection::TaskNotFound)) => Ok(TurnOutcome::Done),
            Err(TurnRejected::Call(rejection)) => Ok(TurnOutcome::Failed(rejection.to_string())),
            Err(TurnRejected::Task(why)) => Ok(TurnOutcome::Failed(why)),
        }
    }
}

/// The outcome of a turn.
enum TurnOutcome {
    /// It is stored, or was overtaken.
    Done,
    /// It must be executed again with these events, of which so many are buffered.
    Again(Vec<segno_flow::interface::Event>, usize),
    Failed(String),
}

/// Twice as long after each attempt.
fn pause(attempt: i32) -> Duration {
    let doublings = attempt.saturating_sub(1).clamp(0, 10).unsigned_abs();
    (RETRY_FIRST * (1 << doublings)).min(RETRY_MAX)
}

fn explain(error: &TurnError) -> String {
    match error {
        TurnError::GivenUp => script::OVERTIME.to_owned(),
        TurnError::DamagedState(why) => format!("the stored state cannot be read: {why}"),
        TurnError::Defect(why) => format!("defect of the machine: {why}"),
    }
}
