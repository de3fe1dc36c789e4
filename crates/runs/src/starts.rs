//! Starts workflows: alone, with a signal, with an eager task, in place of a running one.

use std::sync::Arc;

use segno_engine::{
    Run,
    signal::{self, Signal},
    start::Start,
    start_conflict::{self, Conflict, SignalOrStart},
    task_calls,
    update::admit::Admit,
    workflow_task::TaskStart,
};
use segno_environment::finish::{Finish, finish};
use segno_proto::enums::WorkflowExecutionStatus;
use segno_store::{Commit, NamespaceKey, OutboxKey, RunKey};

use crate::{
    error::CallError,
    runs::Runs,
    slots::{Current, WorkflowKey},
    transact::LockedSlot,
};

/// The outcome of a start.
#[derive(Clone, Debug)]
pub struct StartOutcome {
    /// The run that now is, or was, started.
    pub run: Arc<Run>,
    /// Whether this request (or an earlier copy of it) started it.
    pub started: bool,
    /// Its status.
    pub status: WorkflowExecutionStatus,
    /// The run whose first task was started for the starter, which asked for it.
    pub first_task: Option<Arc<Current>>,
    /// Whether a request id was attached to a run that existed.
    pub attached: bool,
    /// Whether nothing was left to do: the update that came along had been answered before.
    pub finished: bool,
}

/// A start that comes with a signal.
#[derive(Clone, Debug)]
pub struct SignalWithStart {
    /// The start.
    pub start: Start,
    /// The signal.
    pub signal: Signal,
}

impl Runs {
    /// Starts a workflow, or answers with the one that is there, as the policies say. A starter that takes the first task calls
    /// `Dispatch::start_workflow`, which gives the task back if it does not arrive.
    pub async fn start_workflow(self: &Arc<Self>, start: Start) -> Result<StartOutcome, CallError> {
        self.refuse_overload()?;
        self.start_child_workflow(start).await
    }

    /// Starts what a run asked for; that it asked is stored already.
    pub(crate) fn start_child_workflow(self: &Arc<Self>, start: Start) -> Finish<Result<StartOutcome, CallError>> {
        let (runs, start) = (self.clone(), Box::new(start));
        finish(async move { runs.start_under_lock(start, Vec::new()).await })
    }

    /// Starts a workflow whose slot is locked.
    async fn start_under_lock(
        self: &Arc<Self>,
        start: Box<Start>,
        delivered: Vec<OutboxKey>,
    ) -> Result<StartOutcome, CallError> {
        let start = Box::new(self.pin_script(*start).await?);
        let key = WorkflowKey::new(NamespaceKey(start.namespace_key), &start.options.workflow_id);
        let mut locked = self.lock(&key).await?;
        let decision = start_conflict::resolve(current_run(&locked), &start.options)?;
        match decision {
            Conflict::SameRequest | Conflict::UseExisting => {
                if !delivered.is_empty() {
                    let removed = Commit { outbox_remove: delivered, ..Default::default() };
                    self.committer.commit_of(key.namespace, removed).await?;
                }
                Box::pin(self.use_existing(&mut locked, start, decision == Conflict::SameRequest)).await
            }
            Conflict::Create | Conflict::TerminateExisting => {
                self.create(&mut locked, start, None, None, delivered).await
            }
        }
    }

    async fn use_existing(
        self: &Arc<Self>,
        locked: &mut LockedSlot,
        start: Box<Start>,
        same_request: bool,
    ) -> Result<StartOutcome, CallError> {
        let Some(current) = locked.state.current.as_ref() else {
            return Err(CallError::WorkflowNotFound { workflow_id: start.options.workflow_id });
        };
        let run = current.run.clone();
        if !same_request {
            let applied = start_conflict::attach(&run, self.context(locked.slot.key.namespace), &start.options)?;
            self.commit(locked, applied, Vec::new()).await?;
        }
        let run = locked.state.current.as_ref().map_or(run, |current| current.run.clone());
        let created_it = same_request && run.info.create_request_id == start.options.request_id;
        let attached = run.state().attached_request_ids.contains_key(&start.options.request_id);
        // Repeating a start that asked for its first task repeats the answer, as long as nothing happened since.
        let untouched = |current: &&Arc<Current>| start_conflict::has_untouched_first_task(&current.run);
        let first_task = match created_it && start.options.eager {
            true => locked.state.current.as_ref().filter(untouched).cloned(),
            false => None,
        };
        // Of an activity or an operation only the call that created it says that it did.
        let started = created_it && !run.state().is_standalone();
        Ok(StartOutcome { status: run.status(), run, started, first_task, attached, finished: false })
    }

    /// Creates a run, ending the one in its way if there is one, with a signal if there is one.
    pub(crate) async fn create(
        self: &Arc<Self>,
        locked: &mut LockedSlot,
        start: Box<Start>,
        signal: Option<Signal>,
        update: Option<Admit>,
        delivered: Vec<OutboxKey>,
    ) -> Result<StartOutcome, CallError> {
        let replaces = current_run(locked).is_some_and(Run::is_running);
        let _counted = Box::pin(self.count_start(&start, replaces)).await?;
        let context = self.context_for(locked.slot.key.namespace, true).await?;
        let applied = start_conflict::create(current_run(locked), *start, signal, update, context)?;
        let created = applied.transition.successor.as_ref().map_or(&applied.run, |successor| &successor.run);
        let info = created.info.clone();
        let created = RunKey(created.info.run_key);
        let first_task = self.commit(locked, applied, delivered).await?;
        self.metrics.run_started(&info);
        let wants_task = first_task.is_some();
        if let Some(call) = first_task {
            Box::pin(self.start_eagerly(locked, call)).await?;
        }
        let current = match locked.state.current.clone().filter(|current| current.key() == created) {
            Some(current) => Some(current),
            // A script whose first turn continued as new: another run is the current one already.
            None => Box::pin(self.load_run(created)).await?,
        };
        let Some(current) = current else {
            return Err(CallError::OutcomeUnknown("the run was stored but is not there".to_owned()));
        };
        let run = current.run.clone();
        // It is not started for a starter of another version.
        let eager = wants_task && run.state().task_started();
        if eager {
            self.metrics.workflow_task_started(&run.info);
        }
        let first_task = eager.then_some(current);
        Ok(StartOutcome { status: run.status(), run, started: true, first_task, attached: false, finished: false })
    }

    /// Hands the first task of a new run to its starter. Like every start it stays in memory, so that it can be given
    /// back if the starter never gets it.
    async fn start_eagerly(self: &Arc<Self>, locked: &mut LockedSlot, call: TaskStart) -> Result<(), CallError> {
        let Some(run) = locked.state.current.as_ref().map(|current| current.run.clone()) else { return Ok(()) };
        let target = self.target_of(&run, call.poller.as_ref());
        let started = task_calls::start(&run, self.context(locked.slot.key.namespace), TaskStart { target, ..call })?;
        self.commit(locked, started, Vec::new()).await.map(|_| ())
    }

    /// Signals the workflow, starting it first if it does not run.
    pub async fn signal_with_start(self: &Arc<Self>, call: SignalWithStart) -> Result<StartOutcome, CallError> {
        self.refuse_overload()?;
        let runs = self.clone();
        let work = async move { runs.signal_with_start_under_lock(call).await };
        finish(work).await
    }

    async fn signal_with_start_under_lock(self: &Arc<Self>, call: SignalWithStart) -> Result<StartOutcome, CallError> {
        let SignalWithStart { start, signal } = call;
        let start = self.pin_script(start).await?;
        let key = WorkflowKey::new(NamespaceKey(start.namespace_key), &start.options.workflow_id);
        let mut locked = self.lock(&key).await?;
        let current = locked.state.current.as_ref().map(|current| current.run.clone());
        match (current, start_conflict::resolve_signal(current_run(&locked), &start.options)?) {
            (Some(run), SignalOrStart::Signal) => {
                let applied = signal::signal_with_start(&run, self.context(locked.slot.key.namespace), signal)?;
                self.commit(&mut locked, applied, Vec::new()).await?;
                let (status, started) = (run.status(), false);
                Ok(StartOutcome { status, run, started, first_task: None, attached: false, finished: false })
            }
            _ => self.create(&mut locked, Box::new(start), Some(signal), None, Vec::new()).await,
        }
    }
}

/// The current run of a workflow.
pub fn current_run(locked: &LockedSlot) -> Option<&Run> {
    locked.state.current.as_ref().map(|current| &*current.run)
}
