//! Tasks and workers that meet at the home of a queue, wherever they come from.
//!
//! The owner of a run offers its tasks at the queue's home, unless a worker of the same node waits for one
//! ([`super::meeting`]). A worker's poll ends at the node that it is connected to; that node takes a task from the home and lets
//! the task's owner start it. What is offered stays with the home until the owner has answered, so that a node which fails in
//! between loses nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use segno_store::{
    NamespaceKey, RunKey,
    cluster::{NodeId, Shard},
};
use tokio::time::Instant;

use super::{
    Place,
    calls::{ForwardError, ForwardedCall, RemoteTask},
    wire::{Command, Offer, Question, Queue, Reply, Take, Task, TaskKind},
};
use crate::{
    dispatch::{Delivery, Dispatch, Poll},
    matching::{Fairness, QueueKey, QueueKind, QueuePlace, TaskOffer, WorkerCommandTask},
    runs::Runs,
    workers::Caller,
};

/// Between two attempts to reach a home or an owner.
const AGAIN: Duration = Duration::from_millis(50);
/// Offers under way from which on scans wait.
const OFFERS_MAX: usize = 4096;
const OFFER_MAX: Duration = Duration::from_secs(5);
const BEGIN_MAX: Duration = Duration::from_secs(10);

/// What a poll came to.
#[derive(Debug)]
pub enum Polled<T> {
    /// A task of a run that is here.
    Here(T),
    /// The whole answer, made by the owner of the run.
    There {
        /// The answer's message.
        body: Bytes,
        /// Gives the task back unless it is delivered.
        delivery: Option<Delivery>,
    },
}

impl<T> Polled<T> {
    /// The task, if its run is here.
    pub fn here(self) -> Option<T> {
        match self {
            Self::Here(task) => Some(task),
            Self::There { .. } => None,
        }
    }
}

pub(super) fn queue_of(queue: Queue) -> Option<QueueKey> {
    let kind = match queue.kind {
        1 => QueueKind::Workflow,
        2 => QueueKind::Activity,
        3 => QueueKind::WorkerCommand,
        4 => QueueKind::Sticky,
        _ => return None,
    };
    Some(QueueKey { namespace: NamespaceKey(queue.namespace), kind, name: queue.name })
}

pub(super) fn wire_queue(key: &QueueKey) -> Queue {
    let kind = match key.kind {
        QueueKind::Workflow => 1,
        QueueKind::Activity => 2,
        QueueKind::WorkerCommand => 3,
        QueueKind::Sticky => 4,
    };
    Queue { namespace: key.namespace.0, kind, name: key.name.clone() }
}

/// A task as other nodes know it.
pub(super) fn wire_task(task: &TaskOffer, me: NodeId) -> Task {
    let mine = Task { owner: me.0, ..Default::default() };
    match task {
        TaskOffer::Workflow { run, stamp, speculative } => {
            Task { run: run.0, stamp: *stamp, speculative: *speculative, kind: TaskKind::Workflow as i32, ..mine }
        }
        TaskOffer::Activity { run, scheduled_event_id, stamp } => Task {
            run: run.0,
            stamp: *stamp,
            scheduled_event_id: *scheduled_event_id,
            kind: TaskKind::Activity as i32,
            ..mine
        },
        TaskOffer::Query(query) => Task { run: query.run.0, query: query.id, kind: TaskKind::Query as i32, ..mine },
        TaskOffer::Command(command) => {
            let WorkerCommandTask { id, stop, given } = (**command).clone();
            Task { kind: TaskKind::Command as i32, command: Some(Command { id, stop, given }), ..mine }
        }
        TaskOffer::Remote(task) => (**task).clone(),
    }
}

/// Counts an offer that looks for the home of its queue.
struct Offering(Arc<AtomicUsize>);

impl Offering {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count.clone())
    }
}

impl Drop for Offering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Runs {
    /// Waits until not too many offers look for their homes: whoever offers many at once waits for them.
    pub(crate) async fn offers_settle(&self) {
        let Some(cluster) = &self.cluster else { return };
        while cluster.offering.load(Ordering::Acquire) > OFFERS_MAX && !self.is_stopping() {
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// A task that another node named, as this node knows it if it is its own.
    pub(super) fn task_of(&self, task: Task) -> Option<TaskOffer> {
        let mine = self.cluster.as_ref().is_some_and(|cluster| cluster.me.0 == task.owner);
        let run = RunKey(task.run);
        match task.kind() {
            TaskKind::Command => {
                let Command { id, stop, given } = task.command?;
                Some(TaskOffer::Command(Box::new(WorkerCommandTask { id, stop, given })))
            }
            _ if !mine => Some(TaskOffer::Remote(Box::new(task))),
            TaskKind::Workflow => Some(TaskOffer::Workflow { run, stamp: task.stamp, speculative: task.speculative }),
            TaskKind::Activity => {
                let (scheduled_event_id, stamp) = (task.scheduled_event_id, task.stamp);
                Some(TaskOffer::Activity { run, scheduled_event_id, stamp })
            }
            TaskKind::Query => {
                self.dispatch()?.direct_queries.offered(task.query).map(|query| TaskOffer::Query(Box::new(query)))
            }
            TaskKind::Unknown => None,
        }
    }

    /// The task that a poll of another node gets here.
    pub fn own_task(&self, task: &RemoteTask) -> Option<TaskOffer> {
        self.task_of(task.0.clone()).filter(|task| !matches!(task, TaskOffer::Remote(_)))
    }

    /// Offers a task at the home of its queue. A sticky queue that nobody serves sends it to `otherwise`.
    pub(crate) fn offer_at_home(
        &self,
        key: QueueKey,
        task: TaskOffer,
        place: QueuePlace,
        shard: Shard,
        otherwise: Option<QueueKey>,
    ) {
        let Some(cluster) = self.cluster.clone() else { return };
        let (Some(node), Some(dispatch)) = (cluster.local(), cluster.dispatch()) else { return };
        let under_way = Offering::begin(&cluster.offering);
        tokio::spawn(async move {
            let _under_way = under_way;
            let (mut key, mut otherwise) = (key, otherwise);
            let task_on_wire = wire_task(&task, cluster.me);
            let (fairness_key, fairness_weight) =
                place.fairness.as_ref().map_or_else(Default::default, |fair| (fair.key.to_string(), fair.weight));
            while !node.is_stopping() && cluster.serves(shard) {
                match node.queue_home(&key) {
                    Place::Here if otherwise.is_some() && !dispatch.matching.is_served(&key) => {
                        let Some(next) = otherwise.take() else { return };
                        key = next;
                        continue;
                    }
                    Place::Here => {
                        dispatch.matching.offer(&key, task, place);
                        return;
                    }
                    Place::There(home) => {
                        let offer = Offer {
                            queue: wire_queue(&key),
                            task: task_on_wire.clone(),
                            priority: place.priority,
                            sticky: otherwise.is_some(),
                            fairness_key: fairness_key.clone(),
                            fairness_weight,
                            quiet: false,
                        };
                        let deadline = Instant::now() + OFFER_MAX;
                        match cluster.ask(home, Question::Offer(offer), deadline).await.map(|answered| answered.reply) {
                            Ok(Reply::Done(_)) => return,
                            // A node of an older version does not know sticky queues.
                            Ok(Reply::Unserved(_) | Reply::Failed(_)) if otherwise.is_some() => {
                                let Some(next) = otherwise.take() else { return };
                                key = next;
                                continue;
                            }
                            Ok(_) | Err(_) => {}
                        }
                    }
                    Place::Nowhere => {}
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
    }

    /// Offers a query at the home of its queue. False if it is one worker's own queue and that worker is not there.
    pub(crate) async fn offer_query_at_home(
        &self,
        key: &QueueKey,
        task: TaskOffer,
        priority: i32,
        sticky: bool,
    ) -> bool {
        let Some(cluster) = &self.cluster else { return false };
        let Some(dispatch) = cluster.dispatch() else { return false };
        let task_on_wire = wire_task(&task, cluster.me);
        while !self.is_stopping() {
            match self.queue_home(key) {
                Place::Here => {
                    if sticky && !dispatch.matching.is_served(key) {
                        return false;
                    }
                    dispatch.matching.offer(key, task, QueuePlace::of(priority));
                    return true;
                }
                Place::There(home) => {
                    let offer = Offer {
                        queue: wire_queue(key),
                        task: task_on_wire.clone(),
                        priority,
                        sticky,
                        ..Default::default()
                    };
                    let deadline = Instant::now() + OFFER_MAX;
                    match cluster.ask(home, Question::Offer(offer), deadline).await.map(|answered| answered.reply) {
                        Ok(Reply::Done(_)) => return true,
                        // A node of an older version does not know sticky queues.
                        Ok(Reply::Unserved(_) | Reply::Failed(_)) if sticky => return false,
                        Ok(_) | Err(_) => {}
                    }
                }
                Place::Nowhere => {}
            }
            tokio::time::sleep(AGAIN).await;
        }
        false
    }

    /// Another node offers a task for a queue whose home is here. Gives the answer, and whether nobody waits for it.
    pub(super) fn take_offer(&self, offer: Offer) -> (Reply, bool) {
        let Some(key) = queue_of(offer.queue) else {
            return (Reply::Failed("unknown kind of queue".to_owned()), false);
        };
        let Some(dispatch) = self.dispatch().filter(|_| self.queue_home(&key) == Place::Here) else {
            return (Reply::Moved(Default::default()), false);
        };
        if offer.sticky && !dispatch.matching.is_served(&key) {
            return (Reply::Unserved(Default::default()), false);
        }
        let asks = offer.task.kind() == TaskKind::Query;
        let Some(task) = self.task_of(offer.task) else { return (Reply::Done(Default::default()), false) };
        match task {
            TaskOffer::Command(command) => dispatch.workers.offer_command_here(key, *command),
            task => {
                let (fairness_key, weight) = (offer.fairness_key, offer.fairness_weight);
                let fairness =
                    (!fairness_key.is_empty()).then(|| Box::new(Fairness { key: fairness_key.into(), weight }));
                dispatch.matching.offer(&key, task, QueuePlace { priority: offer.priority, fairness });
            }
        }
        // Whoever asks a workflow waits until the query is on its way.
        (Reply::Done(Default::default()), !asks)
    }

    /// Another node takes a task for a worker of its own.
    pub(super) async fn give_task(self: &Arc<Self>, from: NodeId, take: Take) -> (Reply, Option<Delivery>) {
        let Some(queue) = queue_of(take.queue) else {
            return (Reply::Failed("unknown kind of queue".to_owned()), None);
        };
        let poll = Poll {
            queue,
            identity: take.identity,
            caller: Caller { worker: take.worker, ..Default::default() },
            sticky: take.sticky,
            tasks_per_second: take.tasks_per_second,
            version: take.version.unwrap_or_default(),
            sdk: Default::default(),
            deadline: Instant::now() + Duration::from_millis(take.wait_ms),
        };
        if self.queue_home(&poll.queue) != Place::Here {
            return (Reply::Moved(Default::default()), None);
        }
        let (Some(cluster), Some(dispatch)) = (&self.cluster, self.dispatch()) else {
            return (Reply::Moved(Default::default()), None);
        };
        if poll.queue.kind == QueueKind::WorkerCommand {
            dispatch.workers.claim_commands(&poll.queue);
        }
        self.tell_if_limited(from, &poll.queue);
        match self.wait_at_home(&dispatch, &poll, true).await {
            Some((task, delivery)) => {
                let (task, quiet) = (wire_task(&task, cluster.me), dispatch.matching.is_quiet(&poll.queue));
                let offer = Offer { queue: wire_queue(&poll.queue), task, quiet, ..Default::default() };
                (Reply::Task(offer), Some(delivery))
            }
            None if self.queue_home(&poll.queue) != Place::Here => (Reply::Moved(Default::default()), None),
            None => (Reply::Done(Default::default()), None),
        }
    }

    /// Waits at the home of a queue, which is this node, for a worker of this node or of another one.
    async fn wait_at_home(
        &self,
        dispatch: &Arc<Dispatch>,
        poll: &Poll,
        elsewhere: bool,
    ) -> Option<(TaskOffer, Delivery)> {
        self.tell_limited(poll);
        dispatch.wait_here(poll, elsewhere).await
    }

    /// Waits for a task of a queue, wherever its home is. Dropping the delivery returns the task.
    pub(crate) async fn wait_among_nodes(
        self: &Arc<Self>,
        dispatch: &Arc<Dispatch>,
        poll: &Poll,
    ) -> Option<(TaskOffer, Delivery)> {
        let cluster = self.cluster.clone()?;
        let is_over = || self.is_stopping() || dispatch.workers.has_shut_down(&poll.caller.worker);
        if is_over() {
            return None;
        }
        let guard = dispatch.poll_begins(poll);
        let taken = loop {
            let homes = cluster.homes();
            if Instant::now() >= poll.deadline || is_over() {
                break None;
            }
            match self.queue_home(&poll.queue) {
                Place::Here => match self.wait_at_home(dispatch, poll, false).await {
                    Some(taken) => break Some(taken),
                    None if cluster.homes() == homes => break None,
                    None => {}
                },
                Place::There(home) => match self.wait_at_edge(&cluster, poll, home, homes).await {
                    Ok(taken) => break taken,
                    // Everything is looked at again.
                    Err(()) => tokio::task::yield_now().await,
                },
                Place::Nowhere => tokio::time::sleep(AGAIN).await,
            }
        };
        if let Some(guard) = guard {
            guard.answered();
        }
        taken
    }

    /// Lets the owner of a task start it for a poll. `None` if it is over: the next one is to be tried.
    pub(crate) async fn begin_elsewhere<T>(
        self: &Arc<Self>,
        task: Task,
        delivery: Delivery,
        call: Option<&ForwardedCall>,
    ) -> Option<Polled<T>> {
        let cluster = self.cluster.clone()?;
        let call = ForwardedCall { task: Some(RemoteTask(task.clone())), ..call?.clone() };
        let deadline = Instant::now() + BEGIN_MAX;
        // A workflow task that is given back although its worker has it is done twice and counts once; an activity is not.
        let lazy = task.kind() == TaskKind::Workflow;
        match cluster.forward_held(NodeId(task.owner), call, Some(deadline), lazy).await {
            Ok(forwarded) if forwarded.code == 0 && forwarded.delivery.is_some() => {
                delivery.delivered();
                Some(Polled::There { body: forwarded.body, delivery: forwarded.delivery })
            }
            // It is over.
            Ok(forwarded) if forwarded.code == 0 => {
                delivery.delivered();
                None
            }
            // Whoever owns the run now offers it again.
            Err(ForwardError::Moved) => {
                delivery.delivered();
                None
            }
            Err(ForwardError::NotSent) if cluster.is_gone(NodeId(task.owner)) => {
                delivery.delivered();
                None
            }
            // The home offers it again, also if the owner has just come and the home has heard of it before this node.
            Ok(_) | Err(_) => {
                drop(delivery);
                tokio::time::sleep(AGAIN).await;
                None
            }
        }
    }
}
