//! Tasks of runs, put on queues and waited for.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use segno_engine::{
    Run,
    activity::{Sdk, is_waiting},
    priority,
};
use segno_proto::{Nanos, common::Priority};
use segno_store::{NamespaceKey, RunKey, cluster::Shard};
use tokio::time::Instant;

use crate::{
    cluster::Place,
    delivery::{Delivery, Held},
    matching::{
        Fairness, LimitSource, PRIORITY_DEFAULT, Poller, PollerVersion, QueueKey, QueueKind, QueuePlace, QueuePoll,
        QueueService, QueueStats, TaskOffer,
    },
    runs::Runs,
    workers::{CONTROL_QUEUES, Caller, PollGuard},
};

/// A worker's wish for work.
#[derive(Clone, Debug)]
pub struct Poll {
    /// Where.
    pub queue: QueueKey,
    /// Who.
    pub identity: String,
    /// The worker process, and how it is reached.
    pub caller: Caller,
    /// Whether only this worker serves the queue.
    pub sticky: bool,
    /// Until when.
    pub deadline: Instant,
    /// How many tasks per second the worker wants handed out on this queue, to all workers together.
    pub tasks_per_second: Option<f64>,
    /// What the worker says of its version.
    pub version: PollerVersion,
    /// The worker's SDK, where it is kept.
    pub sdk: Sdk,
}

impl Poll {
    /// What its queue needs to know of it. `elsewhere` if the worker is connected to another node.
    fn at_queue(&self, elsewhere: bool) -> QueuePoll<'_> {
        QueuePoll {
            queue: &self.queue,
            identity: &self.identity,
            worker: &self.caller.worker,
            version: &self.version,
            tasks_per_second: self.tasks_per_second,
            deadline: self.deadline,
            elsewhere,
        }
    }
}

/// A queue as metrics show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueGauge {
    /// The namespace's name.
    pub namespace: String,
    /// The queue's name.
    pub name: String,
    /// `workflow` or `activity`.
    pub kind: &'static str,
    /// Tasks that wait.
    pub backlog: usize,
    /// How long the oldest has waited.
    pub oldest: Nanos,
    /// Polls that wait.
    pub polls_waiting: usize,
}

fn shard_of(run: &Run) -> Shard {
    Shard::of(NamespaceKey(run.info.namespace_key), &run.info.workflow_id)
}

/// Priority and fairness of a task, by what its run and it itself say.
fn place_of(workflow: Option<&Priority>, own: Option<&Priority>) -> (i32, Option<Box<Fairness>>) {
    let key = priority::merged_key(workflow, own);
    let (fairness_key, weight) = priority::merged_fairness(workflow, own);
    let fairness = (!fairness_key.is_empty()).then(|| Box::new(Fairness { key: fairness_key.into(), weight }));
    (if key > 0 { key } else { PRIORITY_DEFAULT }, fairness)
}

impl Runs {
    /// Waits for a task of a node without others, unless the worker shut down or the node stops.
    pub(crate) async fn wait_with_guard(self: &Arc<Self>, poll: &Poll) -> Option<(TaskOffer, Delivery)> {
        if self.is_stopping() || self.is_dismissed(&poll.caller.worker) {
            return None;
        }
        let guard = self.poll_begins(poll);
        let taken = self.wait_here(poll, false).await;
        if let Some(guard) = guard {
            guard.answered();
        }
        taken
    }

    /// Waits for a task in a queue whose home is here; for a worker at another node if `elsewhere`. Whoever drops the delivery
    /// returns the task.
    pub(crate) async fn wait_here(self: &Arc<Self>, poll: &Poll, elsewhere: bool) -> Option<(TaskOffer, Delivery)> {
        if self.is_stopping() || self.is_dismissed(&poll.caller.worker) {
            return None;
        }
        let is_over = || {
            let moved = self.queue_home(&poll.queue) != Place::Here;
            moved || self.is_stopping() || self.is_dismissed(&poll.caller.worker)
        };
        let queued = self.queues.poll(&poll.at_queue(elsewhere), is_over).await?;
        let task = queued.task.clone();
        Some((task, Delivery::new(self, Held::Queued(poll.queue.clone(), queued))))
    }

    /// A poll is a sign of life. On a queue for commands it stands for all workers of its process.
    pub(crate) fn poll_begins(&self, poll: &Poll) -> Option<PollGuard<'_>> {
        let (namespace, now) = (poll.queue.namespace, self.clock.monotonic());
        let is_control = poll.queue.kind == QueueKind::WorkerCommand && poll.queue.name.starts_with(CONTROL_QUEUES);
        self.tell_poll(poll, is_control);
        if is_control {
            return self.leases.control_poll_begins(namespace, &poll.queue.name, poll.caller.connection, now);
        }
        self.leases.poll_begins(poll, now)
    }

    /// Sends a task of an abandoned sticky queue to where it belongs.
    pub(crate) async fn redirect(&self, task: TaskOffer) {
        match task {
            TaskOffer::Workflow { run, .. } => {
                let Ok(Some(key)) = self.workflow_of(run).await else { return };
                let Ok(locked) = self.lock(&key).await else { return };
                if let Some(current) = locked.state.current.as_ref().filter(|current| current.key() == run) {
                    self.offer_workflow_task(&current.run);
                }
            }
            TaskOffer::Activity { .. } => {}
            TaskOffer::Command(_) => {}
            // Its owner hears by the time-out of the sticky queue.
            TaskOffer::Remote(_) => {}
            // The asker notices that its query was withdrawn and asks on the normal queue.
            TaskOffer::Query(query) => {
                query.withdraw();
            }
        }
    }

    /// Puts the pending workflow task of a run on its queue.
    pub(crate) fn offer_workflow_task(&self, run: &Run) {
        let Some(task) = &run.state().task else { return };
        let (namespace, run_key) = (NamespaceKey(run.info.namespace_key), RunKey(run.info.run_key));
        if run.state().script.is_some() {
            if !self.flows.is_held_back(run) {
                self.flows.resumes.offer(namespace, run_key);
            }
            return;
        }
        let normal = QueueKey { namespace, kind: QueueKind::Workflow, name: run.info.task_queue.clone() };
        let mut key = match task.sticky {
            true => QueueKey::sticky(namespace, &task.queue, &run.info.task_queue),
            false => QueueKey { name: task.queue.clone(), ..normal.clone() },
        };
        let offer = TaskOffer::Workflow { run: run_key, stamp: task.stamp, speculative: run.is_speculating() };
        let (priority, fairness) = place_of(run.info.priority.as_ref(), None);
        let place = QueuePlace { priority, fairness };
        let is_here = self.queue_home(&key) == Place::Here;
        if task.sticky && is_here && !self.queues.is_served(&key) {
            key = normal;
        } else if task.sticky && !is_here {
            if self.meet_here(&key, &offer, &place, shard_of(run), Some(&normal)) {
                return;
            }
            return self.offer_at_home(key, offer, place, shard_of(run), Some(normal));
        }
        self.offer(key, offer, place, run);
    }

    /// Offers a task at the home of its queue.
    fn offer(&self, key: QueueKey, task: TaskOffer, place: QueuePlace, run: &Run) {
        match self.queue_home(&key) {
            Place::Here => self.queues.offer(&key, task, place),
            Place::There(_) if self.meet_here(&key, &task, &place, shard_of(run), None) => {}
            _ => self.offer_at_home(key, task, place, shard_of(run), None),
        }
    }

    /// Puts a pending activity on its queue.
    pub(crate) fn offer_activity(&self, run: &Run, scheduled_event_id: i64) {
        let Some(activity) = run.state().activities.get(&scheduled_event_id) else { return };
        let namespace = NamespaceKey(run.info.namespace_key);
        let key = QueueKey { namespace, kind: QueueKind::Activity, name: activity.queue.clone() };
        let run_key = RunKey(run.info.run_key);
        let offer = TaskOffer::Activity { run: run_key, scheduled_event_id, stamp: activity.stamp };
        let (priority, fairness) = place_of(run.info.priority.as_ref(), activity.priority.as_ref());
        self.offer(key, offer, QueuePlace { priority, fairness }, run);
    }

    /// Offers everything of a run that waits for a worker.
    pub(crate) fn offer_all(&self, run: &Run) {
        if run.is_paused() {
            return;
        }
        let now = self.clock.now();
        if run.state().task.as_ref().is_some_and(|task| task.started_event_id == 0) {
            self.offer_workflow_task(run);
        }
        for (id, activity) in &run.state().activities {
            if is_waiting(activity, now) {
                self.offer_activity(run, *id);
            }
        }
    }

    /// Tasks waiting in a queue.
    pub fn backlog_of(&self, key: &QueueKey) -> usize {
        self.queues.backlog_of(key)
    }

    /// How many polls more or fewer a worker should make whose poll of a queue took so long to bring a task.
    pub fn poller_advice(&self, key: &QueueKey, waited: Duration) -> i32 {
        self.queues.advice(key, waited)
    }

    /// What a queue can say of its tasks, by priority.
    pub fn queue_stats(&self, key: &QueueKey) -> BTreeMap<i32, QueueStats> {
        self.queues.stats(key)
    }

    /// The queues with the most tasks, for metrics.
    pub fn queue_gauges(&self, most: usize) -> Vec<QueueGauge> {
        let gauge = |(key, service, oldest): (QueueKey, QueueService, Nanos)| {
            let namespace = self.namespaces.by_key(key.namespace).map(|namespace| namespace.name.clone());
            let kind = if key.kind == QueueKind::Workflow { "workflow" } else { "activity" };
            let QueueService { polls_waiting, backlog, .. } = service;
            QueueGauge {
                namespace: namespace.unwrap_or_default(),
                name: key.name,
                kind,
                backlog,
                oldest,
                polls_waiting,
            }
        };
        self.queues.largest(most).into_iter().map(gauge).collect()
    }

    /// Who serves a queue whose home is here.
    pub fn queue_service(&self, key: &QueueKey) -> QueueService {
        self.queues.service(key)
    }

    /// The rate at which a queue may hand out tasks, and whether some had to wait for it lately.
    pub fn queue_limit(&self, key: &QueueKey) -> (Option<(f64, LimitSource)>, bool) {
        self.queues.limit_of(key)
    }

    /// Workers that asked a queue lately.
    pub fn pollers(&self, key: &QueueKey) -> Vec<Poller> {
        self.queues.pollers(key)
    }
}
