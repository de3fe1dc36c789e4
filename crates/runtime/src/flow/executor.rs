//! Turns that were not executed in the commit of their event: long ones, those found after a restart, failed ones.
//!
//! An executor takes [resumes](super::resumes), as a worker would take workflow tasks. While it works the run is
//! not locked, and events are buffered as for any worker. If some arrive and the turn wants to close the run, the turn is
//! executed again with them. Turns are executed on [threads of their own](super::cores), where a long one gives way to
//! others every [`GIVE_WAY`] steps.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use segno_engine::{
    Rejection, Run, pause, script,
    state::WorkflowTask,
    task_calls::{self, FailTask, TaskRef},
};
use segno_flow::interface::{Command, Pace, TurnError, Turned};
use segno_proto::{Nanos, enums::WorkflowTaskFailedCause, failure::Failure, protocol::Message};
use segno_store::{NamespaceKey, RunKey};

use super::{
    cores::Slice,
    turn::{Decided, Past, Prepared, TurnRejected},
};
use crate::{
    error::CallError,
    finish::finish,
    metrics::{add, count},
    namespaces::Namespace,
    runs::Runs,
    slots::{Current, WorkflowKey},
    transact::RunSelector,
};

/// Steps after which a turn lets others go first.
const GIVE_WAY: u64 = 50_000;
/// The pause before a failed turn is tried again; doubled each time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// Of the time of a workflow task this much is left to say that the turn takes too long.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// Attempts with events that came meanwhile.
const AGAIN_MAX: usize = 100;

/// Takes resumes until the node stops.
pub(crate) async fn run(node: Arc<Runs>) {
    while !node.is_stopping() {
        // Taken before the look, so that nothing that changes after it is missed.
        let changed = node.flows.resumes.changed.notified();
        let Some((namespace, run)) = node.flows.resumes.take(node.committer.is_shared()) else {
            changed.await;
            continue;
        };
        let under_way = UnderWay { node: node.clone(), namespace };
        tokio::spawn(async move { under_way.node.resume(run).await });
    }
}

/// A turn under way, until it has ended or panicked.
struct UnderWay {
    node: Arc<Runs>,
    namespace: NamespaceKey,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.node.flows.resumes.end(self.namespace);
    }
}

/// Lets others go first now and then, and ends a turn when the time of its workflow task is up.
struct TurnPace<'a> {
    slice: &'a mut Slice,
    next: u64,
    deadline: Instant,
}

impl Pace for TurnPace<'_> {
    fn go_on(&mut self, steps: u64) -> bool {
        if Instant::now() >= self.deadline {
            return false;
        }
        if steps >= self.next {
            self.next = steps + GIVE_WAY;
            self.slice.give_way();
        }
        true
    }
}

/// A workflow task that an executor has.
struct Taken {
    key: WorkflowKey,
    namespace: Arc<Namespace>,
    run: Arc<Run>,
    task: WorkflowTask,
    messages: Vec<Message>,
    prepared: Result<Prepared, CallError>,
}

impl Runs {
    /// Executes the pending turn of a script.
    async fn resume(self: &Arc<Self>, run: RunKey) {
        let taken = match self.take_resume(run).await {
            Ok(Some(taken)) => taken,
            Ok(None) => return,
            Err(CallError::DataLoss(why)) => return self.set_aside(run, &why),
            Err(error) => {
                tracing::warn!(run = run.0, %error, "a resume could not be taken; trying again");
                return self.offer_later(run, RETRY_FIRST);
            }
        };
        let (key, info, task) = (taken.key.clone(), taken.run.info.clone(), taken.task.clone());
        let failed = match self.execute(taken).await {
            Ok(()) => return,
            Err(why) => why,
        };
        count(&self.metrics.flow_failed_turns);
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
        self.flows.hold_back(run, pause(task.attempt));
        let call = move |run: &Run, context| task_calls::fail(run, context, fail);
        if let Err(error) = self.apply(&key, &selector, call).await {
            tracing::debug!(run = info.run_id, %error, "a failed turn was not recorded");
        }
        self.offer_later(run, pause(task.attempt));
    }

    /// Offers the resume of a run after a while.
    fn offer_later(self: &Arc<Self>, run: RunKey, pause: Duration) {
        self.flows.hold_back(run, pause);
        let node = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            node.flows.let_go(run);
            let found = async {
                let Some(key) = node.workflow_of(run).await? else { return Ok(None) };
                let locked = node.lock(&key).await?;
                Ok::<_, CallError>(locked.state.current.as_ref().map(|current| current.run.clone()))
            };
            match found.await {
                Ok(Some(current)) if current.info.run_key == run.0 && script::wants_turn(&current) => {
                    node.offer_workflow_task(&current);
                }
                Ok(_) => {}
                Err(CallError::DataLoss(why)) => node.set_aside(run, &why),
                Err(_) if node.is_stopping() => {}
                Err(_) => node.offer_later(run, RETRY_MAX),
            }
        });
    }

    async fn take_resume(self: &Arc<Self>, run: RunKey) -> Result<Option<Taken>, CallError> {
        let Some(key) = self.workflow_of(run).await? else { return Ok(None) };
        let mut locked = self.lock(&key).await?;
        let Some(current) = locked.state.current.clone().filter(|current| current.key() == run) else {
            return Ok(None);
        };
        if !script::wants_turn(&current.run) || !self.flows.begin_turn(&current.run) {
            return Ok(None);
        }
        let Some(namespace) = self.namespaces.by_key(key.namespace) else { return Ok(None) };
        let started = task_calls::start(&current.run, self.context(key.namespace), self.take_turn(&current.run))?;
        let messages = self.commit(&mut locked, started, Vec::new()).await?;
        let Some(current) = locked.state.current.clone() else { return Ok(None) };
        let Some(task) = current.run.state().task.clone().filter(|task| task.started_event_id != 0) else {
            return Ok(None);
        };
        let prepared = self.prepare(&namespace, &current, &messages).await;
        let run = current.run.clone();
        Ok(Some(Taken { key, namespace, run, task, messages, prepared }))
    }

    async fn prepare(
        &self,
        namespace: &Namespace,
        current: &Current,
        messages: &[Message],
    ) -> Result<Prepared, CallError> {
        let past = Past { stored: Some(current), unstored: &[], state: current.script_state.clone() };
        self.prepare_turn(namespace, &current.run, past, messages).await
    }

    /// Executes and completes a turn; gives back why it failed, if it did.
    async fn execute(self: &Arc<Self>, taken: Taken) -> Result<(), String> {
        let Taken { key, namespace, run, task, messages, prepared } = taken;
        let mut prepared = prepared.map_err(|error| error.to_string())?;
        let mut flushed = 0;
        for _ in 0..AGAIN_MAX {
            let allowed = run.info.task_timeout.min(task.start_to_close);
            let (turned, same) = self.execute_apart(prepared, allowed, key.namespace).await;
            prepared = same;
            let turned = turned?;
            let work = {
                let (node, key, namespace, task) = (self.clone(), key.clone(), namespace.clone(), task.clone());
                let (run_key, messages) = (RunKey(run.info.run_key), messages.clone());
                finish(
                    async move { node.complete_turn(&key, run_key, &namespace, &task, turned, flushed, &messages).await },
                )
            };
            match work.await.map_err(|error| error.to_string())? {
                Outcome::Done => return Ok(()),
                Outcome::Failed(why) => return Err(why),
                Outcome::Again(events, buffered) => {
                    prepared.events = events;
                    flushed = buffered;
                }
            }
        }
        Err("events arrive faster than the turn can take them".to_owned())
    }

    /// Executes on a thread of scripts.
    async fn execute_apart(
        &self,
        prepared: Prepared,
        allowed: Nanos,
        namespace: NamespaceKey,
    ) -> (Result<Turned, String>, Prepared) {
        // Later attempts of a workflow task have more time, so that workers find out; a turn would only take that, too.
        let allowed = Duration::from_nanos(allowed.max(0).unsigned_abs());
        // Before the engine lets the workflow task time out and the next attempt begins.
        let deadline = Instant::now() + allowed.saturating_sub(ANSWER_TIME.min(allowed / 4));
        let fallback = Prepared {
            code: prepared.code.clone(),
            state: prepared.state.clone(),
            events: Vec::new(),
            limits: prepared.limits,
            overflows: prepared.overflows,
        };
        let work = self.flows.cores.run_in_slices(namespace, move |slice| {
            let turned = prepared.execute(&mut TurnPace { slice, next: GIVE_WAY, deadline });
            (turned, prepared)
        });
        match work.await {
            Ok((turned, prepared)) => (turned.map_err(|error| explain(&error)), prepared),
            Err(error) => (Err(error.to_string()), fallback),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one caller")]
    async fn complete_turn(
        self: &Arc<Self>,
        key: &WorkflowKey,
        run: RunKey,
        namespace: &Namespace,
        task: &WorkflowTask,
        turned: Turned,
        flushed: usize,
        messages: &[Message],
    ) -> Result<Outcome, CallError> {
        let mut locked = self.lock(key).await?;
        let Some(current) = locked.state.current.clone().filter(|current| current.key() == run) else {
            return Ok(Outcome::Done);
        };
        let pending = current.run.state().task.as_ref();
        if pending.is_none_or(|pending| pending.started_time != task.started_time || pending.started_event_id == 0) {
            // It timed out, or the run was closed: whoever did that has seen to what follows.
            return Ok(Outcome::Done);
        }
        if current.run.is_paused() && turned.commands.iter().any(Command::closes) {
            let context = self.context_on(&current.run, false).await?;
            let given_up = pause::give_up_turn(&current.run, context);
            drop(current);
            self.commit(&mut locked, given_up, Vec::new()).await?;
            return Ok(Outcome::Done);
        }
        let buffered = current.run.state().buffered.len();
        if buffered > flushed && turned.commands.iter().any(Command::closes) {
            let mut prepared = self.prepare(namespace, &current, messages).await?;
            let Some(script) = &current.run.state().script else { return Ok(Outcome::Done) };
            let late = super::events::events_of(&current.run, script, &current.run.state().buffered, &Vec::new);
            // Updates that came as messages follow the events.
            let updates = messages.iter().filter(|message| super::events::update_of(message, 0).is_some()).count();
            let place = prepared.events.len() - updates.min(prepared.events.len());
            prepared.events.splice(place..place, late);
            return Ok(Outcome::Again(prepared.events, buffered));
        }
        let closes = turned.commands.iter().any(Command::closes);
        let context = self.context_on(&current.run, closes).await?;
        match self.decide_turn(namespace, &current.run, context, turned, flushed) {
            Ok(Decided { run: mut after, mut transition, log, steps }) => {
                self.compact(&mut after, &mut transition).await;
                let info = after.info.clone();
                drop(current);
                let applied = segno_engine::Applied { run: after, transition, reply: () };
                self.commit(&mut locked, applied, Vec::new()).await?;
                self.write_script_log(&info, log);
                count(&self.metrics.flow_turns);
                add(&self.metrics.flow_steps, steps);
                Ok(Outcome::Done)
            }
            Err(TurnRejected::Call(Rejection::TaskNotFound)) => Ok(Outcome::Done),
            Err(TurnRejected::Call(rejection)) => Ok(Outcome::Failed(rejection.to_string())),
            Err(TurnRejected::Task(why)) => Ok(Outcome::Failed(why)),
        }
    }
}

/// What became of a turn.
enum Outcome {
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
