//! Handing tasks to workers: from the queue to the run and back to the poll.
//!
//! From the queue on, a task is held by a [`Delivery`]: whoever leaves half-way neither loses it nor leaves it started.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc, time::Duration};

use segno_engine::{
    Applied, Context, Rejection, Run,
    activity::{self, Taker},
    activity_pause,
    state::{Activity, WorkflowTask},
    task_calls, workflow_task,
    workflow_task::TaskStart,
};
use segno_proto::{
    History, Nanos,
    common::WorkerVersionStamp,
    events::{ActivityTaskScheduledEventAttributes, HistoryEvent, history_event::Attributes},
    protocol::Message,
    query::WorkflowQuery,
};
use segno_store::RunKey;

use crate::{
    cluster::{ForwardedCall, Polled, RemoteTask},
    combine::Call,
    delivery::{Delivery, Held},
    error::CallError,
    finish::finish,
    history::HistoryView,
    metrics::count,
    polls::Poll,
    queries::{QueryAnswer, QueryTask},
    queues::TaskOffer,
    rules,
    runs::Runs,
    slots::{Current, SlotState, WorkflowKey},
    transact::RunSelector,
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
    /// Questions that ride along.
    pub queries: BTreeMap<String, WorkflowQuery>,
    /// Updates that ride along.
    pub messages: Vec<Message>,
    /// A question instead of a task.
    pub query: Option<QueryTask>,
    /// Gives it back unless it is delivered.
    pub delivery: Delivery,
}

/// A workflow task, or a question, that is on its way to a worker.
#[derive(Clone, Debug)]
pub(crate) struct HeldTask {
    run: Arc<Run>,
    started_time: Nanos,
    query: Option<QueryTask>,
}

impl HeldTask {
    /// The started workflow task of a run.
    pub(crate) fn of(run: &Arc<Run>) -> Self {
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
    /// What it was scheduled with.
    pub scheduled: ActivityTaskScheduledEventAttributes,
    /// Gives it back unless it is delivered.
    pub delivery: Delivery,
}

/// An activity that is on its way to a worker.
#[derive(Clone, Debug)]
pub(crate) struct HeldActivity {
    run: Arc<Run>,
    scheduled_event_id: i64,
    started_time: Nanos,
}

impl HeldActivity {
    pub(crate) fn of(run: &Arc<Run>, activity: &Activity) -> Self {
        let (scheduled_event_id, started_time) = (activity.scheduled_event_id, activity.started_time);
        Self { run: run.clone(), scheduled_event_id, started_time }
    }
}

impl Runs {
    /// Waits for a workflow task or a query on a node without others.
    pub async fn poll_workflow_task(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
    ) -> Result<Option<StartedTask>, CallError> {
        Ok(self.poll_workflow_task_anywhere(poll, worker_version, None).await?.and_then(Polled::here))
    }

    /// Waits for a workflow task or a query, wherever its run is. `call` is what its owner needs to answer the poll.
    pub async fn poll_workflow_task_anywhere(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        call: Option<&ForwardedCall>,
    ) -> Result<Option<Polled<StartedTask>>, CallError> {
        loop {
            let Some((offer, delivery)) = self.wait_for_task(poll).await else { return Ok(None) };
            if let TaskOffer::Remote(task) = offer {
                match Box::pin(self.begin_elsewhere(*task, delivery, call)).await {
                    // A worker that shut down meanwhile would not look at it: dropping it gives it back.
                    Some(_) if self.is_dismissed(&poll.caller.worker) => return Ok(None),
                    Some(begun) => return Ok(Some(begun)),
                    None => continue,
                }
            }
            // Answered, replaced or gone meanwhile: wait for another one.
            if let Some(started) = self.begin_workflow_task(poll, worker_version.clone(), offer, delivery).await? {
                return Ok(Some(Polled::Here(started)));
            }
        }
    }

    /// Starts a workflow task or a query for a poll that another node made.
    pub async fn begin_for(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        task: &RemoteTask,
    ) -> Result<Option<StartedTask>, CallError> {
        let Some(offer) = self.own_task(task) else { return Ok(None) };
        // Until it is started the queue's home holds it.
        self.begin_workflow_task(poll, worker_version, offer, Delivery::new(self, Held::Nothing)).await
    }

    async fn begin_workflow_task(
        self: &Arc<Self>,
        poll: &Poll,
        version: Option<WorkerVersionStamp>,
        offer: TaskOffer,
        delivery: Delivery,
    ) -> Result<Option<StartedTask>, CallError> {
        let (node, asked) = (self.clone(), poll.clone());
        finish(async move {
            match offer {
                TaskOffer::Workflow { run, stamp, .. } => {
                    let started = node.start_workflow_task(run, stamp, &asked, version, &delivery).await;
                    node.unless_over(run, started, &delivery).await
                }
                TaskOffer::Query(query) => {
                    let run = query.run;
                    let started = Box::pin(node.start_query(*query, &delivery)).await;
                    node.unless_over(run, started, &delivery).await
                }
                TaskOffer::Activity { .. } | TaskOffer::Command(_) | TaskOffer::Remote(_) => Ok(None),
            }
        })
        .await
    }

    /// A task that does not exist any more, or whose run is damaged, is not returned to its queue: the next one is tried.
    async fn unless_over<T>(
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
            Err(error) if Box::pin(self.is_task_over(run, &error)).await => {
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
        let Some(key) = self.workflow_of(run).await? else { return Ok(None) };
        let call = TaskStart {
            stamp,
            request_id: self.ids.uuid(),
            identity: poll.identity.clone(),
            polled_queue: poll.queue.name.clone(),
            worker_version,
            eager: false,
            worker: poll.caller.worker.clone(),
        };
        let start = Call {
            selector: RunSelector::default(),
            delivered: Vec::new(),
            creates: false,
            lazy: true,
            decide: move |current: &Run, context| {
                if current.info.run_key != run.0 {
                    return Err(Rejection::TaskObsolete);
                }
                task_calls::start(current, context, call)
            },
            after: |state: &mut SlotState, _: &_| (state.current.clone(), state.queries.outgoing()),
            types: PhantomData,
        };
        let (messages, (current, queries)) = self.call(&key, start).await?;
        // A speculative task that had nothing to carry any more is gone.
        let Some(current) = current.filter(|current| current.run.state().task_started()) else { return Ok(None) };
        delivery.hold(Held::Task(HeldTask::of(&current.run)));
        self.metrics.workflow_task_started(&current.run.info);
        let sticky = current.run.state().sticky.is_some();
        // If the worker cannot be told what happened so far, dropping the delivery gives the task back.
        let started = self.started_task(current, queries, sticky, delivery.clone()).await?;
        Ok(Some(StartedTask { messages, ..started }))
    }

    /// Puts together what the worker of a started task needs to see.
    pub(crate) async fn started_task(
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

    async fn start_query(&self, query: QueryTask, delivery: &Delivery) -> Result<Option<StartedTask>, CallError> {
        // What another node asks is known there.
        let is_ours = self.cluster.as_ref().is_none_or(|cluster| cluster.me.0 == query.node);
        if !query.take() || is_ours && !self.direct_queries.is_asked(query.id) {
            return Ok(None);
        }
        let taken = query.clone();
        let started = self.start_taken_query(query, delivery).await;
        match &started {
            // The asker asks where the run is now.
            Err(CallError::Moved) => {
                self.direct_queries.answer(taken.id, QueryAnswer::Unblocked);
            }
            // It returns to its queue.
            Err(_) => taken.release(),
            Ok(_) => {}
        }
        started
    }

    async fn start_taken_query(&self, query: QueryTask, delivery: &Delivery) -> Result<Option<StartedTask>, CallError> {
        let Some(key) = self.workflow_of(query.run).await? else { return Ok(None) };
        let run_id = {
            let locked = self.lock(&key).await?;
            locked.state.current.as_ref().filter(|c| c.key() == query.run).map(|c| c.run.info.run_id.clone())
        };
        let current = match run_id {
            Some(run_id) => self.snapshot(&key, &run_id).await?,
            None => match self.load_run(query.run).await? {
                Some(current) => current,
                None => return Ok(None),
            },
        };
        if current.run.is_paused() {
            // The asker looks again, and is rejected.
            self.direct_queries.answer(query.id, QueryAnswer::Unblocked);
            return Ok(None);
        }
        let held = HeldTask { query: Some(query.clone()), ..HeldTask::of(&current.run) };
        delivery.hold(Held::Task(held));
        Ok(Some(self.query_task(&current, query, delivery.clone()).await?))
    }

    /// Puts together what the worker needs to answer a query. On a sticky queue it gets no events: it answers from its cached
    /// workflow, and would apply events that no workflow task has delivered as a replay, without their commands.
    async fn query_task(
        &self,
        current: &Current,
        query: QueryTask,
        delivery: Delivery,
    ) -> Result<StartedTask, CallError> {
        let history = if query.sticky { HistoryView::default() } else { self.history_for_worker(current, 1).await? };
        Ok(StartedTask {
            run: current.run.clone(),
            task: WorkflowTask { attempt: 1, ..Default::default() },
            previous_started_event_id: current.run.state().last_completed_started_id,
            history,
            queries: BTreeMap::new(),
            messages: Vec::new(),
            query: Some(query),
            delivery,
        })
    }

    pub(crate) async fn load_run(&self, key: RunKey) -> Result<Option<Arc<Current>>, CallError> {
        let Some(record) = self.store.load(key).await? else { return Ok(None) };
        let version = record.version;
        let run = self.decode(record.state, key).await?;
        Ok(Some(Arc::new(Current::new(Arc::new(run), version))))
    }

    /// The worker's connection was gone before it got the task: somebody else may have it, at once.
    pub(crate) async fn give_back_workflow_task(self: &Arc<Self>, held: &HeldTask) {
        count(&self.metrics.tasks_given_back);
        if let Some(query) = &held.query {
            let again = self.direct_queries.again(query, false);
            self.offer_query(self.query_queue(&held.run, false), again, false).await;
            return;
        }
        let info = &held.run.info;
        let key = WorkflowKey::new(segno_store::NamespaceKey(info.namespace_key), &info.workflow_id);
        let (selector, started_time) = (RunSelector::run(info.run_id.clone()), held.started_time);
        let call = move |run: &Run, context| task_calls::give_back(run, context, started_time);
        self.repeat(|| self.apply(&key, &selector, call)).await;
    }

    /// Waits for an activity on a node without others.
    pub async fn poll_activity(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
    ) -> Result<Option<StartedActivity>, CallError> {
        Ok(self.poll_activity_anywhere(poll, worker_version, None).await?.and_then(Polled::here))
    }

    /// Waits for an activity, wherever its run is.
    pub async fn poll_activity_anywhere(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        call: Option<&ForwardedCall>,
    ) -> Result<Option<Polled<StartedActivity>>, CallError> {
        loop {
            let Some((offer, delivery)) = self.wait_for_task(poll).await else { return Ok(None) };
            if let TaskOffer::Remote(task) = offer {
                match Box::pin(self.begin_elsewhere(*task, delivery, call)).await {
                    // A worker that shut down meanwhile would not look at it: dropping it gives it back.
                    Some(_) if self.is_dismissed(&poll.caller.worker) => return Ok(None),
                    Some(begun) => return Ok(Some(begun)),
                    None => continue,
                }
            }
            if let Some(started) = self.begin_activity(poll, worker_version.clone(), offer, delivery).await? {
                return Ok(Some(Polled::Here(started)));
            }
        }
    }

    /// Starts an activity for a poll that another node made.
    pub async fn begin_activity_for(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        task: &RemoteTask,
    ) -> Result<Option<StartedActivity>, CallError> {
        let Some(offer) = self.own_task(task) else { return Ok(None) };
        self.begin_activity(poll, worker_version, offer, Delivery::new(self, Held::Nothing)).await
    }

    async fn begin_activity(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        offer: TaskOffer,
        delivery: Delivery,
    ) -> Result<Option<StartedActivity>, CallError> {
        let TaskOffer::Activity { run, scheduled_event_id, stamp } = offer else { return Ok(None) };
        let node = self.clone();
        let taker = Taker {
            identity: poll.identity.clone(),
            request_id: self.ids.uuid(),
            worker_version,
            worker: poll.caller.worker.clone(),
            control_queue: poll.caller.control_queue.clone(),
            reports: self.leases.reports(poll.queue.namespace, &poll.caller.worker),
            sdk: poll.sdk.clone(),
        };
        finish(async move {
            let started = node.start_activity(run, scheduled_event_id, stamp, taker, &delivery).await;
            node.unless_over(run, started, &delivery).await
        })
        .await
    }

    async fn start_activity(
        self: &Arc<Self>,
        run: RunKey,
        scheduled_event_id: i64,
        stamp: u32,
        taker: Taker,
        delivery: &Delivery,
    ) -> Result<Option<StartedActivity>, CallError> {
        let Some(key) = self.workflow_of(run).await? else { return Ok(None) };
        let rules = if self.workflow_rules { self.namespaces.by_key(key.namespace) } else { None };
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
                None => activity::start(current, context, scheduled_event_id, stamp, taker)
                    .map(|Applied { run, transition, reply }| Applied { run, transition, reply: Some(reply) }),
            }
        };
        let result =
            self.transact_and(&key, &RunSelector::default(), Vec::new(), start, |state, _| state.current.clone()).await;
        let (activity, current) = result?;
        let Some(activity) = activity else { return Ok(None) };
        // Another run may have taken its place within the same commit.
        let Some(current) = current.filter(|current| current.key() == run) else { return Ok(None) };
        delivery.hold(Held::Activity(HeldActivity::of(&current.run, &activity)));
        self.metrics.activity_task_started(&current.run.info, &activity);
        let scheduled = self.scheduled_attributes(&current, scheduled_event_id).await?;
        Ok(Some(StartedActivity { run: current.run.clone(), activity, scheduled, delivery: delivery.clone() }))
    }

    /// What an activity was scheduled with: from memory, else from history.
    pub async fn scheduled_attributes(
        &self,
        current: &Current,
        id: i64,
    ) -> Result<ActivityTaskScheduledEventAttributes, CallError> {
        if let Some(event) = current.activity_events.get(&id) {
            return attributes_of(event);
        }
        let run = current.key();
        let batches = self.store.history(run, id, id + 1, 1, usize::MAX).await?;
        let mut events = Vec::new();
        for batch in &batches {
            History::decode_batch(&batch.events, &mut events)
                .map_err(|error| CallError::DataLoss(format!("history of run {}: {error}", run.0)))?;
        }
        let event = events.iter().find(|event| event.event_id == id);
        event.map_or_else(|| Err(CallError::DataLoss(format!("event {id} of run {} is missing", run.0))), attributes_of)
    }

    /// The worker's connection was gone before it got the activity.
    pub(crate) async fn give_back_activity(self: &Arc<Self>, held: &HeldActivity) {
        count(&self.metrics.tasks_given_back);
        let info = &held.run.info;
        let key = WorkflowKey::new(segno_store::NamespaceKey(info.namespace_key), &info.workflow_id);
        let (id, started_time) = (held.scheduled_event_id, held.started_time);
        let call = move |run: &Run, context| activity::give_back(run, context, id, started_time);
        let selector = RunSelector::run(info.run_id.clone());
        self.repeat(|| self.apply(&key, &selector, call)).await;
    }

    /// Makes a call again until it is done, refused, or the node stops.
    async fn repeat<F: Future<Output = Result<(), CallError>>>(&self, call: impl Fn() -> F) {
        while let Err(error) = call().await {
            if !error.is_temporary() || self.is_stopping() || error == CallError::Moved {
                tracing::debug!(%error, "what a worker never got was not given back");
                return;
            }
            tokio::time::sleep(GIVE_BACK_RETRY).await;
        }
    }

    /// History as the worker of a pending task must see it: stored events, the tail, and what is not written yet.
    async fn history_for_worker(&self, current: &Current, from: i64) -> Result<HistoryView, CallError> {
        let mut view = self.stored_history(current, from, WORKER_BATCHES_MAX).await?;
        if view.next_event_id.is_none() {
            view.push_events(current.run.tail(), from);
            view.push_events(&workflow_task::unwritten_events(&current.run, true), from);
        }
        Ok(view)
    }

    /// Nanoseconds since the epoch, as the node's clock has it.
    pub fn clock_now(&self) -> Nanos {
        self.clock.now()
    }
}

/// The pause before something that was not delivered is given back again.
const GIVE_BACK_RETRY: Duration = Duration::from_secs(1);
/// Batches a worker gets with its task; more are fetched page by page.
const WORKER_BATCHES_MAX: usize = 256;

fn attributes_of(event: &HistoryEvent) -> Result<ActivityTaskScheduledEventAttributes, CallError> {
    match event.attributes.clone() {
        Some(Attributes::ActivityTaskScheduledEventAttributes(attributes)) => Ok(attributes),
        _ => Err(CallError::DataLoss(format!("event {} does not schedule an activity", event.event_id))),
    }
}
