//! Handing tasks to workers: from the queue to the run and back to the poll.

use std::{collections::BTreeMap, sync::Arc};

use segno_engine::{
    Rejection, Run,
    activity::{self, Taker},
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
    error::CallError,
    finish::finish_or,
    history::HistoryView,
    metrics::count,
    node::Node,
    polls::{Poll, PollResult},
    queries::QueryTask,
    queues::{QUERY_PRIORITY, TaskOffer},
    slots::{Current, WorkflowKey},
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
}

impl StartedTask {
    /// What it takes to give it back.
    pub fn held(&self) -> HeldTask {
        HeldTask { run: self.run.clone(), started_time: self.task.started_time, query: self.query.clone() }
    }
}

/// A workflow task, or a question, that is on its way to a worker.
#[derive(Clone, Debug)]
pub struct HeldTask {
    run: Arc<Run>,
    started_time: Nanos,
    query: Option<QueryTask>,
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
}

impl StartedActivity {
    /// What it takes to give it back.
    pub fn held(&self) -> HeldActivity {
        HeldActivity::of(&self.run, &self.activity)
    }
}

/// An activity that is on its way to a worker.
#[derive(Clone, Debug)]
pub struct HeldActivity {
    run: Arc<Run>,
    scheduled_event_id: i64,
    started_time: Nanos,
}

impl HeldActivity {
    fn of(run: &Arc<Run>, activity: &Activity) -> Self {
        let (scheduled_event_id, started_time) = (activity.scheduled_event_id, activity.started_time);
        Self { run: run.clone(), scheduled_event_id, started_time }
    }
}

impl Node {
    /// Waits for a workflow task or a query.
    pub async fn poll_workflow_task(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
    ) -> Result<Option<StartedTask>, CallError> {
        loop {
            let offer = match self.wait_for_task(poll).await {
                PollResult::Task(offer) => offer,
                PollResult::Empty => return Ok(None),
            };
            let (node, asked, version) = (self.clone(), poll.clone(), worker_version.clone());
            let started = self.hand_over(
                poll,
                offer.clone(),
                async move {
                    match offer {
                        TaskOffer::Workflow { run, stamp } => {
                            node.start_workflow_task(run, stamp, &asked, version).await
                        }
                        TaskOffer::Query(query) => node.start_query(*query).await,
                        TaskOffer::Activity { .. } | TaskOffer::Command(_) => Ok(None),
                    }
                },
                |node, started| async move { node.give_back_workflow_task(&started.held()).await },
            );
            // Answered, replaced or gone meanwhile: wait for another one.
            if let Some(started) = started.await? {
                return Ok(Some(started));
            }
        }
    }

    /// Starts an offered task. A worker that leaves half-way neither swallows it nor leaves it started, and one that
    /// cannot be started for now goes back to its queue.
    async fn hand_over<T, B>(
        self: &Arc<Self>,
        poll: &Poll,
        offer: TaskOffer,
        start: impl Future<Output = Result<Option<T>, CallError>> + Send + 'static,
        give_back: impl FnOnce(Arc<Self>, T) -> B + Send + 'static,
    ) -> Result<Option<T>, CallError>
    where
        T: Send + 'static,
        B: Future<Output = ()> + Send + 'static,
    {
        let (node, queue) = (self.clone(), poll.queue.clone());
        let work = async move {
            let result = start.await;
            if result.is_err() {
                node.queues.take_back(&queue, offer, node.clock.now());
            }
            result
        };
        let node = self.clone();
        let unclaimed = move |result| {
            if let Ok(Some(undelivered)) = result {
                tokio::spawn(give_back(node, undelivered));
            }
        };
        finish_or(work, unclaimed).await
    }

    async fn start_workflow_task(
        self: &Arc<Self>,
        run: RunKey,
        stamp: u32,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
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
        let result = self
            .transact_and(
                &key,
                &RunSelector::default(),
                Vec::new(),
                move |current, context| {
                    if current.info.run_key != run.0 {
                        return Err(Rejection::TaskObsolete);
                    }
                    task_calls::start(current, context, call)
                },
                |state, _| (state.current.clone(), state.queries.outgoing()),
            )
            .await;
        let (messages, (current, queries)) = match result {
            Err(CallError::Rejected(_)) => return Ok(None),
            other => other?,
        };
        // A speculative task that had nothing to carry any more is gone.
        let Some(current) = current.filter(|current| current.run.state.task_started()) else { return Ok(None) };
        count(&self.metrics.workflow_tasks_started);
        let sticky = current.run.state.sticky.is_some();
        let run = current.run.clone();
        match self.started_task(current, queries, sticky).await {
            Ok(started) => Ok(Some(StartedTask { messages, ..started })),
            Err(error) => {
                // The worker cannot be told what happened so far: nobody has the task yet.
                let started_time = run.state.task.as_ref().map_or(0, |task| task.started_time);
                let call = move |run: &Run, context| task_calls::give_back(run, context, started_time);
                let _ = self.transact(&key, &RunSelector::run(run.info.run_id.clone()), call).await;
                Err(error)
            }
        }
    }

    /// Puts together what the worker of a started task needs to see.
    pub async fn started_task(
        &self,
        current: Arc<Current>,
        queries: BTreeMap<String, WorkflowQuery>,
        partial: bool,
    ) -> Result<StartedTask, CallError> {
        let run = current.run.clone();
        let task = run.state.task.clone().unwrap_or_default();
        let previous_started_event_id = run.state.last_completed_started_id;
        let from = if partial { previous_started_event_id + 1 } else { 1 };
        let history = self.history_for_worker(&current, from).await?;
        Ok(StartedTask { run, task, previous_started_event_id, history, queries, messages: Vec::new(), query: None })
    }

    async fn start_query(&self, query: QueryTask) -> Result<Option<StartedTask>, CallError> {
        if !query.take() {
            return Ok(None);
        }
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
        let mut started = self.started_task(current, BTreeMap::new(), query.sticky).await?;
        started.task = WorkflowTask { attempt: 1, ..Default::default() };
        started.query = Some(query);
        Ok(Some(started))
    }

    async fn load_run(&self, key: RunKey) -> Result<Option<Arc<Current>>, CallError> {
        let Some(record) = self.read(move |store| store.load(key)).await? else { return Ok(None) };
        let version = record.version;
        let run = self.decode(record.state, key).await?;
        Ok(Some(Arc::new(Current::new(Arc::new(run), version))))
    }

    /// The worker's connection was gone before it got the task: somebody else may have it, at once.
    pub async fn give_back_workflow_task(self: &Arc<Self>, held: &HeldTask) {
        count(&self.metrics.tasks_given_back);
        if let Some(query) = &held.query {
            let again = self.direct_queries.again(query, false);
            let key = self.query_queue(&held.run, false);
            self.queues.offer(key, TaskOffer::Query(Box::new(again)), QUERY_PRIORITY, self.clock.now());
            return;
        }
        let info = &held.run.info;
        let key = WorkflowKey::new(segno_store::NamespaceKey(info.namespace_key), &info.workflow_id);
        let (run_id, started_time) = (info.run_id.clone(), held.started_time);
        let call = move |run: &Run, context| task_calls::give_back(run, context, started_time);
        // If it cannot be given back its own timeout will.
        let _ = self.transact(&key, &RunSelector::run(run_id), call).await;
    }

    /// Waits for an activity.
    pub async fn poll_activity(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
    ) -> Result<Option<StartedActivity>, CallError> {
        loop {
            let offer = match self.wait_for_task(poll).await {
                PollResult::Task(offer) => offer,
                PollResult::Empty => return Ok(None),
            };
            let TaskOffer::Activity { run, scheduled_event_id, stamp } = offer else { continue };
            let node = self.clone();
            let taker = Taker {
                identity: poll.identity.clone(),
                request_id: self.ids.uuid(),
                worker_version: worker_version.clone(),
                worker: poll.caller.worker.clone(),
                control_queue: poll.caller.control_queue.clone(),
                reports: self.leases.reports(poll.queue.namespace, &poll.caller.worker),
            };
            let started = self.hand_over(
                poll,
                offer,
                async move { node.start_activity(run, scheduled_event_id, stamp, taker).await },
                |node, started| async move { node.give_back_activity(&started.held()).await },
            );
            if let Some(started) = started.await? {
                return Ok(Some(started));
            }
        }
    }

    async fn start_activity(
        self: &Arc<Self>,
        run: RunKey,
        scheduled_event_id: i64,
        stamp: u32,
        taker: Taker,
    ) -> Result<Option<StartedActivity>, CallError> {
        let Some(key) = self.workflow_of(run).await? else { return Ok(None) };
        let start = move |current: &Run, context| {
            if current.info.run_key != run.0 {
                return Err(Rejection::TaskObsolete);
            }
            activity::start(current, context, scheduled_event_id, stamp, taker)
        };
        let result =
            self.transact_and(&key, &RunSelector::default(), Vec::new(), start, |state, _| state.current.clone()).await;
        let (activity, current) = match result {
            Err(CallError::Rejected(_)) => return Ok(None),
            other => other?,
        };
        let Some(current) = current else { return Ok(None) };
        count(&self.metrics.activity_tasks_started);
        match self.scheduled_attributes(&current, scheduled_event_id).await {
            Ok(scheduled) => Ok(Some(StartedActivity { run: current.run.clone(), activity, scheduled })),
            Err(error) => {
                self.give_back_activity(&HeldActivity::of(&current.run, &activity)).await;
                Err(error)
            }
        }
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
        let batches = self.read(move |store| store.history(run, id, id + 1, 1, usize::MAX)).await?;
        let mut events = Vec::new();
        for batch in &batches {
            History::decode_batch(&batch.events, &mut events)
                .map_err(|error| CallError::DataLoss(format!("history of run {}: {error}", run.0)))?;
        }
        let event = events.iter().find(|event| event.event_id == id);
        event.map_or_else(|| Err(CallError::DataLoss(format!("event {id} of run {} is missing", run.0))), attributes_of)
    }

    /// The worker's connection was gone before it got the activity.
    pub async fn give_back_activity(self: &Arc<Self>, held: &HeldActivity) {
        count(&self.metrics.tasks_given_back);
        let info = &held.run.info;
        let key = WorkflowKey::new(segno_store::NamespaceKey(info.namespace_key), &info.workflow_id);
        let (id, started_time) = (held.scheduled_event_id, held.started_time);
        let call = move |run: &Run, context| activity::give_back(run, context, id, started_time);
        let _ = self.transact(&key, &RunSelector::run(info.run_id.clone()), call).await;
    }

    /// History as the worker of a pending task must see it: stored events, the tail, and what is not written yet.
    async fn history_for_worker(&self, current: &Current, from: i64) -> Result<HistoryView, CallError> {
        let mut view = self.stored_history(current, from, WORKER_BATCHES_MAX).await?;
        if view.next_event_id.is_none() {
            view.push_events(&current.run.tail, from);
            view.push_events(&workflow_task::unwritten_events(&current.run, true), from);
        }
        Ok(view)
    }

    /// Nanoseconds since the epoch, as the node's clock has it.
    pub fn clock_now(&self) -> Nanos {
        self.clock.now()
    }
}

/// Batches a worker gets with its task; more are fetched page by page.
const WORKER_BATCHES_MAX: usize = 256;

fn attributes_of(event: &HistoryEvent) -> Result<ActivityTaskScheduledEventAttributes, CallError> {
    match event.attributes.clone() {
        Some(Attributes::ActivityTaskScheduledEventAttributes(attributes)) => Ok(attributes),
        _ => Err(CallError::DataLoss(format!("event {} does not schedule an activity", event.event_id))),
    }
}
