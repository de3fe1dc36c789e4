//! The thread of a test's workflows: without a runtime, as in a worker.

use std::{
    collections::HashMap,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use segno_proto::{
    command::Command, common::Payload, enums::WorkflowTaskFailedCause, events::HistoryEvent, protocol::Message,
};

use super::server::run::NAMESPACE;
use crate::{
    failure::Failure,
    workflow::{
        WorkflowRegistry,
        execution::{Execution, Step, TaskFailed, WorkflowTaskAnswer},
        local::LocalResult,
        sabotage,
    },
};

/// What the code of a workflow depends on if it differs from itself.
const NOT_REPEATED: &str = "It follows from something that a replay does not repeat: a clock (instead of `SystemTime::now` write \
                            `ctx.now()`), random values (instead of `rand` write `ctx.random()`), the order of a `HashMap`, a static";

type Job = Box<dyn FnOnce(&mut Instances) + Send>;

/// The instances in memory, by run.
pub(crate) struct Instances {
    registry: Arc<WorkflowRegistry>,
    cached: HashMap<usize, Execution>,
}

/// One workflow task as it was answered: enough to do it again.
#[derive(Clone)]
pub(crate) struct RecordedTask {
    /// How much of the history it began with.
    pub(crate) length: usize,
    pub(crate) messages: Vec<Message>,
    /// Results of local operations that it saw, in order.
    pub(crate) locals: Vec<(String, u32, Result<Vec<Payload>, Failure>)>,
    pub(crate) commands: Vec<Command>,
    pub(crate) replies: Vec<Message>,
}

/// The thread.
pub(crate) struct WorkflowThread {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl WorkflowThread {
    pub(crate) fn start(registry: WorkflowRegistry, sabotage: Option<&'static str>) -> std::io::Result<Self> {
        let (jobs, receiver) = mpsc::channel::<Job>();
        let registry = Arc::new(registry);
        let thread = std::thread::Builder::new().name("segno-workflow-test".to_owned()).spawn(move || {
            sabotage::set(sabotage.and_then(sabotage::named));
            let mut instances = Instances { registry, cached: HashMap::new() };
            while let Ok(job) = receiver.recv() {
                job(&mut instances);
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Executes a closure on the thread and waits for it. The caller's runtime stands still meanwhile, and with it the clock.
    pub(crate) fn call<T: Send + 'static>(&self, job: impl FnOnce(&mut Instances) -> T + Send + 'static) -> T {
        let (sender, receiver) = mpsc::sync_channel(1);
        let job: Job = Box::new(move |instances| {
            // The receiver is gone only if the caller panicked.
            let _ = sender.send(job(instances));
        });
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
        match receiver.recv() {
            Ok(value) => value,
            Err(_) => panic!("the executor of workflows panicked: this is a defect of segno-sdk"),
        }
    }
}

impl Drop for WorkflowThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic on it has been reported to the caller.
            let _ = thread.join();
        }
    }
}

impl Instances {
    /// Whether an instance of the run is in memory.
    pub(crate) fn has(&self, run: usize) -> bool {
        self.cached.contains_key(&run)
    }

    /// Throws the instance of a run away.
    pub(crate) fn evict(&mut self, run: usize) {
        self.cached.remove(&run);
    }

    /// Begins a workflow task of a run, with its whole history if it is not in memory.
    pub(crate) fn begin(
        &mut self,
        run: usize,
        events: Vec<HistoryEvent>,
        messages: Vec<Message>,
    ) -> Result<Step, TaskFailed> {
        let registry = &self.registry;
        let execution = self.cached.entry(run).or_insert_with(|| Execution::new(registry.clone(), NAMESPACE, ""));
        execution.begin(events, messages)
    }

    /// A local operation of a run ended.
    pub(crate) fn local_done(&mut self, run: usize, result: LocalResult) -> Option<Result<Step, TaskFailed>> {
        Some(self.cached.get_mut(&run)?.local_done(result))
    }

    /// Ends the workflow task.
    pub(crate) fn finish(&mut self, run: usize) -> Option<WorkflowTaskAnswer> {
        Some(self.cached.get_mut(&run)?.finish())
    }

    /// The server dropped the workflow task: the history ends with this event again.
    pub(crate) fn reset_to(&mut self, run: usize, event_id: i64) {
        if let Some(execution) = self.cached.get_mut(&run) {
            execution.reset_to(event_id);
        }
    }

    /// Asks a query; with the whole history, if the run is not in memory.
    pub(crate) fn query(
        &mut self,
        run: usize,
        history: Vec<HistoryEvent>,
        kind: &str,
        input: Vec<Payload>,
    ) -> Result<Vec<Payload>, Failure> {
        if let Some(execution) = self.cached.get_mut(&run) {
            return execution.query(kind, &input, None);
        }
        let mut execution = Execution::new(self.registry.clone(), NAMESPACE, "");
        execution.replay(history).map_err(|failed| failed.failure)?;
        execution.query(kind, &input, None)
    }

    /// Does a workflow task again in a fresh instance, which has only the history. Says what differs.
    pub(crate) fn repeat(&mut self, events: Vec<HistoryEvent>, task: RecordedTask) -> Result<(), TaskFailed> {
        let mut execution = Execution::new(self.registry.clone(), NAMESPACE, "");
        execution.begin(events, task.messages)?;
        for (id, attempt, outcome) in task.locals {
            execution.local_done(LocalResult { id, attempt, outcome })?;
        }
        let finished = execution.finish();
        match difference(&task.commands, &finished.commands) {
            Some(position) => {
                let text = |command: Option<&Command>| match command {
                    Some(command) => format!("{:?}", command.attributes),
                    None => "nothing".to_owned(),
                };
                let place = execution.place_of_command(position).map(|place| format!(", asked for at {place},"));
                Err(differs(format!(
                    "command {} of the workflow task{} differs when the history is replayed: first {}, then {}. {NOT_REPEATED}",
                    position + 1,
                    place.unwrap_or_default(),
                    text(task.commands.get(position)),
                    text(finished.commands.get(position))
                )))
            }
            None if task.replies != finished.messages => {
                Err(differs(format!("the answers to updates differ when the history is replayed. {NOT_REPEATED}")))
            }
            None => Ok(()),
        }
    }
}

fn differs(text: String) -> TaskFailed {
    TaskFailed {
        cause: WorkflowTaskFailedCause::NonDeterministicError,
        failure: Failure::application("DeterminismViolation", text).non_retryable().into(),
        violation: None,
        stale: false,
    }
}

/// The position of the first command that differs.
fn difference(first: &[Command], again: &[Command]) -> Option<usize> {
    (0..first.len().max(again.len())).find(|at| first.get(*at) != again.get(*at))
}
