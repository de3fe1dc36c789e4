//! Starting workflows: alone, with a signal, with a task for the starter, in place of one that runs.

use std::{collections::BTreeMap, sync::Arc};

use segno_engine::{
    Applied, Context, Durability, Rejection, Run, close,
    draft::Draft,
    signal::{self, Signal},
    start::{self, Conflict, Start},
    task_calls,
    update::admit::{self, Admit},
    workflow_task::{SERVER_IDENTITY, TaskStart},
};
use segno_proto::{
    common::{Payload, Payloads},
    enums::{WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy},
    events::{WorkflowExecutionOptionsUpdatedEventAttributes, history_event::Attributes},
    workflow::OnConflictOptions,
};
use segno_store::{NamespaceKey, OutboxKey};

use crate::{
    delivery::{Delivery, Held},
    error::CallError,
    finish::finish,
    metrics::count,
    node::Node,
    slots::{Current, WorkflowKey},
    tasks::{HeldTask, StartedTask},
    transact::Locked,
    update_with_start::WithStartError,
};

/// What became of a start.
#[derive(Clone, Debug)]
pub struct StartOutcome {
    /// The run that now is, or was, started.
    pub run: Arc<Run>,
    /// Whether this request (or an earlier copy of it) started it.
    pub started: bool,
    /// Its status.
    pub status: WorkflowExecutionStatus,
    /// A first task for the starter.
    pub eager_task: Option<StartedTask>,
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

impl Node {
    /// Starts a workflow, or answers with the one that is there, as the policies say.
    pub async fn start_workflow(self: &Arc<Self>, start: Start) -> Result<StartOutcome, CallError> {
        self.refuse_overload()?;
        self.start_child_workflow(start).await
    }

    /// Starts what a run asked for; that it asked is stored already.
    pub(crate) async fn start_child_workflow(self: &Arc<Self>, start: Start) -> Result<StartOutcome, CallError> {
        let node = self.clone();
        finish(async move { node.start_under_lock(start, Vec::new()).await }).await
    }

    pub(crate) async fn start_under_lock(
        self: &Arc<Self>,
        start: Start,
        delivered: Vec<OutboxKey>,
    ) -> Result<StartOutcome, CallError> {
        let request = &start.request;
        let key = WorkflowKey::new(NamespaceKey(start.namespace_key), &request.workflow_id);
        let mut locked = self.lock(&key).await?;
        let decision = match &locked.state.current {
            None => Conflict::Create,
            Some(current) => resolve(&current.run, &start)?,
        };
        match decision {
            Conflict::SameRequest | Conflict::UseExisting => {
                if !delivered.is_empty() {
                    let commit = segno_store::Commit { outbox_remove: delivered, ..Default::default() };
                    self.committer.commit(commit).await?;
                }
                self.use_existing(&mut locked, start, decision == Conflict::SameRequest).await
            }
            Conflict::Create | Conflict::TerminateExisting => {
                self.create(&mut locked, start, None, None, delivered).await
            }
        }
    }

    async fn use_existing(
        self: &Arc<Self>,
        locked: &mut Locked,
        start: Start,
        same_request: bool,
    ) -> Result<StartOutcome, CallError> {
        let Some(current) = locked.state.current.as_ref() else {
            return Err(CallError::WorkflowNotFound { workflow_id: start.request.workflow_id });
        };
        let run = current.run.clone();
        let mut attached = false;
        if !same_request && let Some(options) = &start.request.on_conflict_options {
            let applied = attach(&run, self.context(locked.slot.key.namespace), options, &start);
            attached = applied.transition.durability == Durability::Durable;
            self.commit(locked, applied, Vec::new()).await?;
        }
        let run = locked.state.current.as_ref().map_or(run, |current| current.run.clone());
        let created_it = same_request && run.info.create_request_id == start.request.request_id;
        let attached = attached || run.state.attached_request_ids.contains_key(&start.request.request_id);
        // Repeating a start that asked for its first task repeats the answer, as long as nothing happened since.
        let eager_task = match created_it && start.request.request_eager_execution {
            true => self.eager_again(locked).await?,
            false => None,
        };
        Ok(StartOutcome { status: run.status(), run, started: created_it, eager_task, attached, finished: false })
    }

    async fn eager_again(self: &Arc<Self>, locked: &Locked) -> Result<Option<StartedTask>, CallError> {
        let Some(current) = locked.state.current.clone() else { return Ok(None) };
        let first = current.run.state.task.as_ref();
        let untouched = first.is_some_and(|task| task.started_event_id == 3 && task.attempt == 1)
            && current.run.state.next_event_id == 4;
        if untouched { self.first_task(current).await.map(Some) } else { Ok(None) }
    }

    /// The first task of a run, for its starter.
    async fn first_task(self: &Arc<Self>, current: Arc<Current>) -> Result<StartedTask, CallError> {
        let delivery = Delivery::new(self, Held::Task(HeldTask::of(&current.run)));
        self.started_task(current, BTreeMap::new(), false, delivery).await
    }

    /// Creates a run, ending the one in its way if there is one, with a signal if there is one.
    async fn create(
        self: &Arc<Self>,
        locked: &mut Locked,
        mut start: Start,
        signal: Option<Signal>,
        update: Option<Admit>,
        delivered: Vec<OutboxKey>,
    ) -> Result<StartOutcome, CallError> {
        let context = self.context_for(locked.slot.key.namespace, true).await?;
        let delayed = start.request.workflow_start_delay.is_some_and(|delay| delay.seconds > 0 || delay.nanos > 0);
        let eager = start.request.request_eager_execution && !delayed && start.request.cron_schedule.is_empty();
        start.request.request_eager_execution = eager;
        let (identity, request_id) = (start.request.identity.clone(), start.request.request_id.clone());
        let mut draft = start::begin(start, signal, context);
        if let Some(update) = update {
            admit::admit_into(&mut draft, update)?;
        }
        let created = draft.finish(());
        let existing = locked.state.current.as_ref().filter(|current| current.run.is_running());
        let applied = match existing {
            None => created,
            Some(current) => self.replace(&current.run, created)?,
        };
        self.commit(locked, applied, delivered).await?;
        count(&self.metrics.runs_started);
        if eager {
            self.start_eagerly(locked, identity, request_id).await?;
        }
        let Some(current) = locked.state.current.clone() else {
            return Err(CallError::Unavailable("the run was stored but is not in memory".to_owned()));
        };
        let run = current.run.clone();
        let eager_task = match eager {
            true => Some(self.first_task(current).await?),
            false => None,
        };
        Ok(StartOutcome { status: run.status(), run, started: true, eager_task, attached: false, finished: false })
    }

    /// Creates a run that has an update from its first moment on, if the policies allow it.
    pub(crate) async fn create_with_update(
        self: &Arc<Self>,
        locked: &mut Locked,
        start: Start,
        update: Admit,
    ) -> Result<StartOutcome, WithStartError> {
        let decision = match &locked.state.current {
            None => Conflict::Create,
            Some(current) => resolve(&current.run, &start).map_err(|refused| WithStartError::Start(refused.into()))?,
        };
        match decision {
            Conflict::Create | Conflict::TerminateExisting => {
                let created = self.create(locked, start, None, Some(update), Vec::new()).await;
                created.map_err(|error| match error {
                    CallError::Rejected(_) => WithStartError::Update(error),
                    other => WithStartError::Start(other),
                })
            }
            Conflict::SameRequest | Conflict::UseExisting => {
                let text = "Workflow was not started: it is there already and is closed";
                Err(WithStartError::Start(CallError::Unavailable(text.to_owned())))
            }
        }
    }

    /// Hands the first task of a new run to its starter. Like every start it stays in memory, so that it can be given
    /// back if the starter never gets it.
    async fn start_eagerly(
        self: &Arc<Self>,
        locked: &mut Locked,
        identity: String,
        request_id: String,
    ) -> Result<(), CallError> {
        let Some(run) = locked.state.current.as_ref().map(|current| current.run.clone()) else { return Ok(()) };
        let stamp = run.state.task.as_ref().map_or(0, |task| task.stamp);
        let call = TaskStart { stamp, request_id, identity, eager: true, ..Default::default() };
        let started = task_calls::start(&run, self.context(locked.slot.key.namespace), call)?;
        self.commit(locked, started, Vec::new()).await.map(|_| ())
    }

    /// Ends a run in favour of a new one, both in one transition.
    fn replace(&self, existing: &Run, created: Applied<()>) -> Result<Applied<()>, CallError> {
        let context =
            Context { now: created.run.info.start_time, new_run_key: 0, new_run_seed: 0, limits: self.limits };
        let mut draft = Draft::new(existing, context);
        let details = format!("\"terminated by new runID: {}\"", created.run.info.run_id);
        close::terminate(
            &mut draft,
            "TerminateIfRunning WorkflowIdReusePolicy".to_owned(),
            Some(json_payloads(details)),
            SERVER_IDENTITY.to_owned(),
            Vec::new(),
        );
        draft.replace_by(created);
        Ok(draft.finish(()))
    }

    /// Signals the workflow, starting it first if it does not run.
    pub async fn signal_with_start(self: &Arc<Self>, call: SignalWithStart) -> Result<StartOutcome, CallError> {
        self.refuse_overload()?;
        let node = self.clone();
        let work = async move { node.signal_with_start_under_lock(call).await };
        finish(work).await
    }

    async fn signal_with_start_under_lock(self: &Arc<Self>, call: SignalWithStart) -> Result<StartOutcome, CallError> {
        let SignalWithStart { start, signal } = call;
        let key = WorkflowKey::new(NamespaceKey(start.namespace_key), &start.request.workflow_id);
        let mut locked = self.lock(&key).await?;
        let current = locked.state.current.as_ref().map(|current| current.run.clone());
        if let Some(run) = current {
            let terminate = start.request.workflow_id_conflict_policy() == WorkflowIdConflictPolicy::TerminateExisting;
            if run.is_running() && !terminate {
                let applied = signal::signal(&run, self.context(locked.slot.key.namespace), signal)?;
                self.commit(&mut locked, applied, Vec::new()).await?;
                return Ok(StartOutcome {
                    status: run.status(),
                    run,
                    started: false,
                    eager_task: None,
                    attached: false,
                    finished: false,
                });
            }
            // Refused or not, it does not matter who started the run that is there.
            start::resolve_policies(&run, reuse_policy(&start), start.request.workflow_id_conflict_policy())?;
        }
        self.create(&mut locked, start, Some(signal), None, Vec::new()).await
    }
}

fn resolve(run: &Run, start: &Start) -> Result<Conflict, Rejection> {
    let request = &start.request;
    start::resolve(run, &request.request_id, reuse_policy(start), request.workflow_id_conflict_policy())
}

fn reuse_policy(start: &Start) -> WorkflowIdReusePolicy {
    WorkflowIdReusePolicy::try_from(start.request.workflow_id_reuse_policy)
        .unwrap_or(WorkflowIdReusePolicy::AllowDuplicate)
}

/// Attaches a request (its id, links and callbacks) to a run that exists.
fn attach(run: &Run, context: Context, options: &OnConflictOptions, start: &Start) -> Applied<()> {
    let mut draft = Draft::new(run, context);
    let request = &start.request;
    if !run.is_running() || !(options.attach_request_id || options.attach_completion_callbacks || options.attach_links)
    {
        return draft.finish(());
    }
    let attributes = WorkflowExecutionOptionsUpdatedEventAttributes {
        attached_request_id: if options.attach_request_id { request.request_id.clone() } else { String::new() },
        attached_completion_callbacks: match options.attach_completion_callbacks {
            true => request.completion_callbacks.clone(),
            false => Vec::new(),
        },
        ..Default::default()
    };
    let mut updated =
        segno_engine::draft::event(context.now, Attributes::WorkflowExecutionOptionsUpdatedEventAttributes(attributes));
    updated.worker_may_ignore = true;
    if options.attach_links {
        updated.links.clone_from(&request.links);
    }
    let id = draft.add_external_event(updated);
    if options.attach_request_id {
        draft.run.state.attached_request_ids.insert(request.request_id.clone(), id.max(0));
    }
    draft.finish(())
}

fn json_payloads(json: String) -> Payloads {
    let metadata = BTreeMap::from([("encoding".to_owned(), "json/plain".into())]);
    Payloads { payloads: vec![Payload { metadata, data: json.into(), ..Default::default() }] }
}
