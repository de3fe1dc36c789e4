//! Starting tasks for workers: workflow tasks, queries and activities.
//!
//! From the queue on, a task is held by a [`Delivery`]: a worker that leaves half-way neither loses it nor leaves it started.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc, time::Duration};

use segno_engine::{
    Applied, Context, Rejection, Run,
    activity::{self, Sdk, Taker},
    activity_pause,
    state::{Activity, WorkflowTask},
    task_calls, workflow_task,
    workflow_task::TaskStart,
};
use segno_environment::{finish::finish, metrics::count};
use segno_matching::{QueryTask, TaskOffer};
use segno_proto::{
    Nanos, common::WorkerVersionStamp, events::ActivityTaskScheduledEventAttributes, protocol::Message,
    query::WorkflowQuery,
};
use segno_runs::{
    error::CallError,
    history::HistoryView,
    queries::QueryAnswer,
    rules,
    slots::{Call, Current, RunSelector, SlotState, WorkflowKey},
};
use segno_store::RunKey;

use super::{
    Dispatch,
    delivery::{Delivery, HeldWork},
    polls::{Poll, WorkerTask},
    trials::{trial_task, trial_task_events},
};

/// A workflow task that a worker may have.
#[derive(Clone, Debug)]
pub struct StartedTask {
    /// The run with the task started.
    pub run: Arc<Run>,
    /// The task.
    pub task: WorkflowTask,
    /// Started event of the last completed task.
    pub previous_started_event_id: i64,
    /// History for the worker, from its beginning or from what the worker has not seen.
    pub history: HistoryView,
    /// Queries that ride along.
    pub queries: BTreeMap<String, WorkflowQuery>,
    /// Updates that ride along.
    pub messages: Vec<Message>,
    /// A query instead of a task.
    pub query: Option<QueryTask>,
    /// Gives it back unless it is delivered.
    pub delivery: Delivery,
}

/// A workflow task, or a query, that is on its way to a worker.
#[derive(Clone, Debug)]
pub struct HeldTask {
    run: Arc<Run>,
    started_time: Nanos,
    query: Option<QueryTask>,
}

impl HeldTask {
    /// The started workflow task of a run.
    pub fn of(run: &Arc<Run>) -> Self {
        let started_time = run.state().task.as_ref().map_or(0, |task| task.started_time);
        Self { run: run.clone(), started_time, query: None }
    }
}

/// An activity that a worker may have.
#[derive(Clone, Debug)]
pub struct StartedActivity {
    /// The run.
    pub run: Arc<Run>,
    /// The activity, started.
    pub activity: Activity,
    /// The attributes with which the activity was scheduled.
    pub scheduled: ActivityTaskScheduledEventAttributes,
    /// Gives it back unless it is delivered.
    pub delivery: Delivery,
}

/// An activity that is on its way to a worker.
#[derive(Clone, Debug)]
pub struct HeldActivity {
    run: Arc<Run>,
    scheduled_event_id: i64,
    started_time: Nanos,
}

impl HeldActivity {
    pub fn of(run: &Arc<Run>, activity: &Activity) -> Self {
        let (scheduled_event_id, started_time) = (activity.scheduled_event_id, activity.started_time);
        Self { run: run.clone(), scheduled_event_id, started_time }
    }
}

impl WorkerTask for StartedTask {
    async fn begin(
        dispatch: &Arc<Dispatch>,
        poll: &Poll,
        version: Option<WorkerVersionStamp>,
        offer: TaskOffer,
        delivery: Delivery,
    ) -> Result<Option<Self>, CallError> {
        let (dispatch, poll) = (dispatch.clone(), poll.clone());
        finish(async move {
            match offer {
                TaskOffer::Workflow { run, stamp, .. } => {
                    let started = dispatch.start_workflow_task(run, stamp, &poll, version, &delivery).await;
                    dispatch.unless_over(run, started, &delivery).await
                }
                TaskOffer::Query(query) => {
                    let run = query.run;
                    let started = Box::pin(dispatch.start_query(*query, &poll.sdk, &delivery)).await;
                    dispatch.unless_over(run, started, &delivery).await
                }
                TaskOffer::Activity { .. }
                | TaskOffer::Nexus { .. }
                | TaskOffer::Call { .. }
                | TaskOffer::Command(_)
                | TaskOffer::Remote(_) => Ok(None),
            }
        })
        .await
    }
}

impl WorkerTask for StartedActivity {
    async fn begin(
        dispatch: &Arc<Dispatch>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        offer: TaskOffer,
        delivery: Delivery,
    ) -> Result<Option<Self>, CallError> {
        let TaskOffer::Activity { run, scheduled_event_id, stamp } = offer else { return Ok(None) };
        let taker = Taker {
            identity: poll.identity.clone(),
            request_id: dispatch.runs.ids.uuid(),
            worker_version,
            worker: poll.caller.worker.clone(),
            control_queue: poll.caller.control_queue.clone(),
            reports: dispatch.workers.leases.reports(poll.queue.namespace, &poll.caller.worker),
            sdk: poll.sdk.clone(),
            poller: poll.version.deployment_version().as_deref().cloned(),
            target: None,
        };
        let dispatch = dispatch.clone();
        finish(async move {
            let started = dispatch.start_activity(run, scheduled_event_id, stamp, taker, &delivery).await;
            dispatch.unless_over(run, started, &delivery).await
        })
        .await
    }
}

impl Dispatch {
    /// A task that no longer exists, or whose run is damaged, is not returned to its queue: the next one is tried.
    pub(super) async fn unless_over<T>(
        self: &Arc<Self>,
        run: RunKey,
        started: Result<Option<T>, CallError>,
        delivery: &Delivery,
    ) -> Result<Option<T>, CallError> {
        match started {
            Ok(Some(started)) => Ok(Some(started)),
            Ok(None) => {
                delivery.delivered();
                Ok(None)
            }
            Err(error) if Box::pin(self.runs.is_task_over(run, &error)).await => {
                delivery.delivered();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn start_workflow_task(
        self: &Arc<Self>,
        run: RunKey,
        stamp: u32,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        delivery: &Delivery,
    ) -> Result<Option<StartedTask>, CallError> {
        let Some(key) = self.runs.workflow_of(run).await? else { return Ok(None) };
        let call = TaskStart {
            stamp,
            request_id: self.runs.ids.uuid(),
            identity: poll.identity.clone(),
            polled_queue: poll.queue.name.clone(),
            worker_version,
            eager: false,
            worker: poll.caller.worker.clone(),
            poller: poll.version.deployment_version().as_deref().cloned(),
            target: None,
        };
        let runs = self.runs.clone();
        let start = Call {
            selector: RunSelector::default(),
            delivered: Vec::new(),
            creates: false,
            lazy: true,
            decide: move |current: &Run, context| {
                if current.info.run_key != run.0 {
                    return Err(Rejection::TaskObsolete);
                }
                let target = runs.target_of(current, call.poller.as_ref());
                task_calls::start(current, context, TaskStart { target, ..call })
            },
            after: |state: &mut SlotState, _: &_| (state.current.clone(), state.queries.outgoing()),
            types: PhantomData,
        };
        let (messages, (current, queries)) = self.runs.call(&key, start).await?;
        // A speculative task that has nothing left to carry is gone; one for another version is offered again.
        let Some(current) = current.filter(|current| current.run.state().task_started()) else { return Ok(None) };
        delivery.hold(HeldWork::Task(HeldTask::of(&current.run)));
        self.runs.metrics.workflow_task_started(&current.run.info);
        let sticky = current.run.state().sticky.is_some();
        // If the history cannot be read, dropping the delivery gives the task back.
        let started = self.started_task(current, queries, sticky, delivery.clone()).await?;
        Ok(Some(StartedTask { messages, ..started }))
    }

    /// Puts together what the worker of a started task needs to see.
    pub async fn started_task(
        &self,
        current: Arc<Current>,
        queries: BTreeMap<String, WorkflowQuery>,
        partial: bool,
        delivery: Delivery,
    ) -> Result<StartedTask, CallError> {
        let run = current.run.clone();
        let task = run.state().task.clone().unwrap_or_default();
        let previous_started_event_id = run.state().last_completed_started_id;
        let from = if partial { previous_started_event_id + 1 } else { 1 };
        let history = self.history_for_worker(&current, from).await?;
        let (messages, query) = (Vec::new(), None);
        Ok(StartedTask { run, task, previous_started_event_id, history, queries, messages, query, delivery })
    }

    async fn start_query(
        &self,
        query: QueryTask,
        sdk: &Sdk,
        delivery: &Delivery,
    ) -> Result<Option<StartedTask>, CallError> {
        // A query of another node is known there.
        let is_ours = self.runs.is_alone() || query.node == self.runs.node_number;
        if !query.take() || is_ours && !self.direct_queries.is_awaited(query.id) {
            return Ok(None);
        }
        let taken = query.clone();
        let started = self.start_taken_query(query, sdk, delivery).await;
        match &started {
            // The caller offers it where the run is now.
            Err(CallError::Moved) => {
                self.direct_queries.answer(taken.id, QueryAnswer::Unblocked);
            }
            // It returns to its queue.
            Err(_) => taken.release(),
            Ok(_) => {}
        }
        started
    }

    async fn start_taken_query(
        &self,
        query: QueryTask,
        sdk: &Sdk,
        delivery: &Delivery,
    ) -> Result<Option<StartedTask>, CallError> {
        let Some(key) = self.runs.workflow_of(query.run).await? else { return Ok(None) };
        let run_id = {
            let locked = self.runs.lock(&key).await?;
            locked.state.current.as_ref().filter(|c| c.key() == query.run).map(|c| c.run.info.run_id.clone())
        };
        let current = match run_id {
            Some(run_id) => self.runs.snapshot(&key, &run_id).await?,
            None => match self.runs.load_run(query.run).await? {
                Some(current) => current,
                None => return Ok(None),
            },
        };
        if current.run.is_paused() && query.trial.is_none() {
            // The caller reads the run again, and is rejected.
            self.direct_queries.answer(query.id, QueryAnswer::Unblocked);
            return Ok(None);
        }
        let held = HeldTask { query: Some(query.clone()), ..HeldTask::of(&current.run) };
        delivery.hold(HeldWork::Task(held));
        Ok(Some(self.query_task(&current, query, sdk, delivery.clone()).await?))
    }

    /// Puts together what the worker needs to answer a query. On a sticky queue it gets no events: it answers from its cached
    /// workflow, and would apply events that no workflow task has delivered as a replay, without their commands.
    async fn query_task(
        &self,
        current: &Current,
        query: QueryTask,
        sdk: &Sdk,
        delivery: Delivery,
    ) -> Result<StartedTask, CallError> {
        let mut task = WorkflowTask { attempt: 1, ..Default::default() };
        let mut previous_started_event_id = current.run.state().last_completed_started_id;
        let history = match &query.trial {
            Some(trial) => {
                previous_started_event_id = trial.previous_started_event_id;
                task = trial_task(trial, sdk, self.runs.clock.now());
                let last = trial.last_event_id;
                let mut view = self.runs.history_until(current, 1, last, WORKER_BATCHES_MAX).await?;
                if task.started_event_id > 0 && view.next_event_id.is_none() {
                    let queue = &current.run.info.task_queue;
                    view.push_events(&trial_task_events(last, queue, task.started_time), 1);
                }
                view
            }
            None if query.sticky => HistoryView::default(),
            None => self.history_for_worker(current, 1).await?,
        };
        Ok(StartedTask {
            run: current.run.clone(),
            task,
            previous_started_event_id,
            history,
            queries: BTreeMap::new(),
            messages: Vec::new(),
            query: Some(query),
            delivery,
        })
    }

    /// The worker's connection was gone before it got the task: another worker may have it, at once.
    pub async fn give_back_workflow_task(self: &Arc<Self>, held: &HeldTask) {
        count(&self.runs.metrics.tasks_given_back);
        if let Some(query) = &held.query {
            let again = query.again(false);
            let queue = again.trial.as_ref().map(|trial| trial.queue.clone());
            let queue = queue.unwrap_or_else(|| self.query_queue(&held.run, false));
            self.offer_query(&held.run, queue, again, false).await;
            return;
        }
        let info = &held.run.info;
        let key = WorkflowKey::new(segno_store::NamespaceKey(info.namespace_key), &info.workflow_id);
        let (selector, started_time) = (RunSelector::run(info.run_id.clone()), held.started_time);
        let call = move |run: &Run, context| task_calls::give_back(run, context, started_time);
        self.repeat(|| self.runs.apply(&key, &selector, call)).await;
    }

    async fn start_activity(
        self: &Arc<Self>,
        run: RunKey,
        scheduled_event_id: i64,
        stamp: u32,
        taker: Taker,
        delivery: &Delivery,
    ) -> Result<Option<StartedActivity>, CallError> {
        let Some(key) = self.runs.workflow_of(run).await? else { return Ok(None) };
        let runs = self.runs.clone();
        let rules = if self.runs.options.workflow_rules { self.runs.namespaces.by_key(key.namespace) } else { None };
        let start = move |current: &Run, context: Context| {
            if current.info.run_key != run.0 {
                return Err(Rejection::TaskObsolete);
            }
            let meant = current.state().activities.get(&scheduled_event_id);
            let rule = rules
                .as_ref()
                .zip(meant)
                .and_then(|(namespace, activity)| rules::matching(namespace, current, activity, context.now));
            match rule {
                Some(rule) => activity_pause::pause_by_rule(current, context, scheduled_event_id, stamp, rule)
                    .map(|Applied { run, transition, .. }| Applied { run, transition, reply: None }),
                None => {
                    let target = runs.target_of(current, taker.poller.as_ref());
                    activity::start(current, context, scheduled_event_id, stamp, Taker { target, ..taker })
                }
            }
        };
        let result = self
            .runs
            .transact_and(&key, &RunSelector::default(), Vec::new(), start, |state, _| state.current.clone())
            .await;
        let (activity, current) = result?;
        // Paused by a rule; or the run moves to the version of the worker first, and offers the activity again after that.
        let Some(activity) = activity else { return Ok(None) };
        // Another run may have taken its place within the same commit.
        let Some(current) = current.filter(|current| current.key() == run) else { return Ok(None) };
        delivery.hold(HeldWork::Activity(HeldActivity::of(&current.run, &activity)));
        self.runs.metrics.activity_task_started(&current.run.info, &activity);
        let scheduled = self.runs.scheduled_attributes(&current, scheduled_event_id).await?;
        Ok(Some(StartedActivity { run: current.run.clone(), activity, scheduled, delivery: delivery.clone() }))
    }

    /// The worker's connection was gone before it got the activity.
    pub async fn give_back_activity(self: &Arc<Self>, held: &HeldActivity) {
        count(&self.runs.metrics.tasks_given_back);
        let info = &held.run.info;
        let key = WorkflowKey::new(segno_store::NamespaceKey(info.namespace_key), &info.workflow_id);
        let (id, started_time) = (held.scheduled_event_id, held.started_time);
        let call = move |run: &Run, context| activity::give_back(run, context, id, started_time);
        let selector = RunSelector::run(info.run_id.clone());
        self.repeat(|| self.runs.apply(&key, &selector, call)).await;
    }

    /// Makes a call again until it is done, refused, or the node stops.
    pub(super) async fn repeat<F: Future<Output = Result<(), CallError>>>(&self, call: impl Fn() -> F) {
        while let Err(error) = call().await {
            if !error.is_temporary() || self.runs.is_stopping() || error == CallError::Moved {
                tracing::debug!(%error, "what a worker never got was not given back");
                return;
            }
            tokio::time::sleep(GIVE_BACK_RETRY).await;
        }
    }

    /// History as the worker of a pending task must see it: stored events, the tail, and what is not written yet.
    async fn history_for_worker(&self, current: &Current, from: i64) -> Result<HistoryView, CallError> {
        let mut view = self.runs.stored_history(current, from, WORKER_BATCHES_MAX).await?;
        if view.next_event_id.is_none() {
            view.push_events(current.run.tail(), from);
            view.push_events(&workflow_task::unwritten_events(&current.run, true), from);
        }
        Ok(view)
    }
}

/// The pause before a task that was not delivered is given back again.
const GIVE_BACK_RETRY: Duration = Duration::from_secs(1);
/// Batches a worker gets with its task; more are fetched page by page.
const WORKER_BATCHES_MAX: usize = 256;
