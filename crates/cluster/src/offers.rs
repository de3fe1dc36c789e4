//! Tasks and polls of all nodes, matched at the home of a queue.
//!
//! The owner of a run offers its tasks at the queue's home, unless a worker of the same node waits for one
//! ([`super::local_matching`]). A worker polls at the node that it is connected to; that node takes a task from the
//! home and lets the task's owner start it. An offer stays at the home until the owner has answered, so no task is lost
//! if a node fails in between.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use segno_deployments::{MemberQueue, Version};
use segno_dispatch::{Delivery, ForwardedCall, Poll, RemoteQueues};
use segno_environment::connection::ConnectionId;
use segno_matching::{
    Command, Fairness, QueueKey, QueueKind, QueuePlace, RemoteTask, TaskKind, TaskOffer, WorkerCommandTask,
};
use segno_runs::{
    error::CallError,
    ports::{PortFuture, owner::Place, queue_use::QueueUse},
};
use segno_store::{NamespaceKey, RunKey, cluster::NodeId};
use segno_workers::{Caller, HomeOffer, OtherNodes, Party};
use tokio::time::Instant;

use super::{
    Cluster,
    calls::ForwardError,
    wire::{Offer, Queue, RequestBody, ResponseBody, Take},
};

/// Between two attempts to reach a home or an owner.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Offers under way from which on readers of stored tasks wait.
const OFFERS_MAX: usize = 4096;
const OFFER_MAX: Duration = Duration::from_secs(5);
const START_MAX: Duration = Duration::from_secs(10);

pub(super) fn queue_of(queue: Queue) -> Option<QueueKey> {
    let kind = match queue.kind {
        1 => QueueKind::Workflow,
        2 => QueueKind::Activity,
        3 => QueueKind::WorkerCommand,
        4 => QueueKind::Sticky,
        5 => QueueKind::Nexus,
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
        QueueKind::Nexus => 5,
    };
    Queue { namespace: key.namespace.0, kind, name: key.name.clone() }
}

/// A task as other nodes know it.
pub(super) fn wire_task(task: &TaskOffer, me: NodeId) -> RemoteTask {
    let mine = RemoteTask { owner: me.0, ..Default::default() };
    match task {
        TaskOffer::Workflow { run, stamp, speculative } => {
            RemoteTask { run: run.0, stamp: *stamp, speculative: *speculative, kind: TaskKind::Workflow as i32, ..mine }
        }
        TaskOffer::Activity { run, scheduled_event_id, stamp } => RemoteTask {
            run: run.0,
            stamp: *stamp,
            scheduled_event_id: *scheduled_event_id,
            kind: TaskKind::Activity as i32,
            ..mine
        },
        TaskOffer::Nexus { run, scheduled_event_id, stamp, cancel } => RemoteTask {
            run: run.0,
            stamp: *stamp,
            scheduled_event_id: *scheduled_event_id,
            cancel: *cancel,
            kind: TaskKind::Nexus as i32,
            ..mine
        },
        TaskOffer::Call { id } => RemoteTask { query: *id, kind: TaskKind::Call as i32, ..mine },
        TaskOffer::Query(query) => {
            RemoteTask { run: query.run.0, query: query.id, kind: TaskKind::Query as i32, ..mine }
        }
        TaskOffer::Command(command) => {
            let WorkerCommandTask { id, stop, given } = (**command).clone();
            RemoteTask { kind: TaskKind::Command as i32, command: Some(Command { id, stop, given }), ..mine }
        }
        TaskOffer::Remote(task) => (**task).clone(),
    }
}

/// The outcome of an offer that was sent to the home of its queue.
enum OfferResult {
    Taken,
    /// No worker serves the queue, which is one worker's own.
    Unserved,
    /// It was not taken, or that is unknown: it is offered again, which does no harm.
    Retry,
}

/// Counts an offer that looks for the home of its queue.
struct OfferUnderWay(Arc<AtomicUsize>);

impl OfferUnderWay {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count.clone())
    }
}

impl Drop for OfferUnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Cluster {
    /// A task as other nodes know it, with the revision of the documents by which this node found its version. Without worker deployments
    /// there is no need to agree about it.
    fn wire_task_of(&self, key: &QueueKey, task: &TaskOffer) -> RemoteTask {
        let task = wire_task(task, self.topology.me);
        match self.runs.deployments.namespace(key.namespace) {
            Some(_) => {
                let revision = task.revision.max(self.topology.membership.loaded_revision());
                RemoteTask { revision, ..task }
            }
            None => task,
        }
    }

    /// A task that another node named, as this node knows it if it is its own.
    pub(super) fn task_of(&self, task: RemoteTask) -> Option<TaskOffer> {
        let is_own = self.topology.me.0 == task.owner;
        let run = RunKey(task.run);
        match task.kind() {
            TaskKind::Command => {
                let Command { id, stop, given } = task.command?;
                Some(TaskOffer::Command(Box::new(WorkerCommandTask { id, stop, given })))
            }
            _ if !is_own => Some(TaskOffer::Remote(Box::new(task))),
            TaskKind::Workflow => Some(TaskOffer::Workflow { run, stamp: task.stamp, speculative: task.speculative }),
            TaskKind::Activity => {
                let (scheduled_event_id, stamp) = (task.scheduled_event_id, task.stamp);
                Some(TaskOffer::Activity { run, scheduled_event_id, stamp })
            }
            TaskKind::Nexus => {
                let (scheduled_event_id, stamp, cancel) = (task.scheduled_event_id, task.stamp, task.cancel);
                Some(TaskOffer::Nexus { run, scheduled_event_id, stamp, cancel })
            }
            TaskKind::Call => Some(TaskOffer::Call { id: task.query }),
            TaskKind::Query => {
                self.dispatch.direct_queries.offered(task.query).map(|query| TaskOffer::Query(Box::new(query)))
            }
            TaskKind::Unknown => None,
        }
    }

    /// Sends an offer to the home of its queue.
    async fn send_offer(&self, home: NodeId, offer: Offer) -> OfferResult {
        let deadline = Instant::now() + OFFER_MAX;
        let sticky = offer.sticky;
        match self.peers.request(home, RequestBody::Offer(offer), deadline).await.map(|response| response.body) {
            Ok(ResponseBody::Done(_)) => OfferResult::Taken,
            // A node of an older version does not know sticky queues.
            Ok(ResponseBody::Unserved(_) | ResponseBody::Failed(_)) if sticky => OfferResult::Unserved,
            Ok(_) | Err(_) => OfferResult::Retry,
        }
    }

    /// Offers a task until the home of its queue has it, or its run is served elsewhere.
    async fn offer_until_taken(&self, offer: HomeOffer) {
        let HomeOffer { queue: mut key, task, place, shard, mut fallback } = offer;
        let task_on_wire = self.wire_task_of(&key, &task);
        let (fairness_key, fairness_weight) =
            place.fairness.as_ref().map_or_else(Default::default, |fair| (fair.key.to_string(), fair.weight));
        let runs = &self.runs;
        while !runs.is_stopping() && self.topology.serves(shard) {
            match runs.home(key.namespace, key.client_name()) {
                Place::Here if fallback.is_some() && !self.dispatch.matching.is_served(&key) => {
                    let Some(next) = fallback.take() else { return };
                    key = next;
                    continue;
                }
                Place::Here => {
                    self.dispatch.matching.offer(&key, task, place);
                    return;
                }
                Place::There(home) => {
                    let offer = Offer {
                        queue: wire_queue(&key),
                        task: task_on_wire.clone(),
                        priority: place.priority,
                        sticky: fallback.is_some(),
                        fairness_key: fairness_key.clone(),
                        fairness_weight,
                        quiet: false,
                        route: Some((&place.route).into()),
                    };
                    match self.send_offer(home, offer).await {
                        OfferResult::Taken => return,
                        OfferResult::Unserved => {
                            let Some(next) = fallback.take() else { return };
                            key = next;
                            continue;
                        }
                        OfferResult::Retry => {}
                    }
                }
                Place::Nowhere => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    /// Offers what only memory knows until the home of its queue has it. False if no worker serves the queue, which is one worker's own.
    async fn offer_unstored_until_taken(
        &self,
        key: &QueueKey,
        task: TaskOffer,
        place: QueuePlace,
        sticky: bool,
    ) -> bool {
        let task_on_wire = self.wire_task_of(key, &task);
        let runs = &self.runs;
        while !runs.is_stopping() {
            match runs.home(key.namespace, key.client_name()) {
                Place::Here => {
                    if sticky && !self.dispatch.matching.is_served(key) {
                        return false;
                    }
                    self.dispatch.matching.offer(key, task, place);
                    return true;
                }
                Place::There(home) => {
                    let offer = Offer {
                        queue: wire_queue(key),
                        task: task_on_wire.clone(),
                        priority: place.priority,
                        sticky,
                        route: Some((&place.route).into()),
                        ..Default::default()
                    };
                    match self.send_offer(home, offer).await {
                        OfferResult::Taken => return true,
                        OfferResult::Unserved => return false,
                        OfferResult::Retry => {}
                    }
                }
                Place::Nowhere => {}
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        false
    }

    /// Another node offers a task for a queue whose home is here. Gives the response, and whether it may be sent lazily.
    pub(super) fn accept_offer(&self, offer: Offer) -> (ResponseBody, bool) {
        let runs = &self.runs;
        let Some(key) = queue_of(offer.queue) else {
            return (ResponseBody::Failed("unknown kind of queue".to_owned()), false);
        };
        if runs.home(key.namespace, key.client_name()) != Place::Here {
            return (ResponseBody::Moved(Default::default()), false);
        }
        let membership = &self.topology.membership;
        if offer.task.revision > membership.loaded_revision() {
            // Offered again once this node has read the routing by which its owner will decide.
            membership.check_map();
            return (ResponseBody::Moved(Default::default()), false);
        }
        if offer.sticky && !self.dispatch.matching.is_served(&key) {
            return (ResponseBody::Unserved(Default::default()), false);
        }
        let is_awaited = matches!(offer.task.kind(), TaskKind::Query | TaskKind::Call);
        let Some(task) = self.task_of(offer.task) else { return (ResponseBody::Done(Default::default()), false) };
        match task {
            TaskOffer::Command(command) => self.dispatch.workers.offer_command_here(key, *command),
            task => {
                let (fairness_key, weight) = (offer.fairness_key, offer.fairness_weight);
                let fairness =
                    (!fairness_key.is_empty()).then(|| Box::new(Fairness { key: fairness_key.into(), weight }));
                let route = offer.route.map(Into::into).unwrap_or_default();
                self.dispatch.matching.offer(&key, task, QueuePlace { priority: offer.priority, fairness, route });
            }
        }
        // A caller that queries a workflow, or calls a handler, waits until that is offered.
        (ResponseBody::Done(Default::default()), !is_awaited)
    }

    /// Another node takes a task for a worker of its own.
    pub(super) async fn give_task(&self, from: NodeId, take: Take) -> (ResponseBody, Option<Delivery>) {
        let Some(queue) = queue_of(take.queue) else {
            return (ResponseBody::Failed("unknown kind of queue".to_owned()), None);
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
        let runs = &self.runs;
        if runs.home(poll.queue.namespace, poll.queue.client_name()) != Place::Here {
            return (ResponseBody::Moved(Default::default()), None);
        }
        if poll.queue.kind == QueueKind::WorkerCommand {
            self.dispatch.workers.claim_commands(&poll.queue);
        }
        self.announce_limit_to(from, &poll.queue);
        match self.wait_at_home(&poll, true).await {
            Some((task, delivery)) => {
                let lane = poll.version.lane(poll.queue.kind);
                let quiet = self.dispatch.matching.is_quiet(&poll.queue, lane.as_ref());
                let task = self.wire_task_of(&poll.queue, &task);
                let offer = Offer { queue: wire_queue(&poll.queue), task, quiet, ..Default::default() };
                (ResponseBody::Task(offer), Some(delivery))
            }
            None if runs.home(poll.queue.namespace, poll.queue.client_name()) != Place::Here => {
                (ResponseBody::Moved(Default::default()), None)
            }
            None => (ResponseBody::Done(Default::default()), None),
        }
    }

    /// Waits at the home of a queue, which is this node, for a worker of this node or of another one.
    async fn wait_at_home(&self, poll: &Poll, elsewhere: bool) -> Option<(TaskOffer, Delivery)> {
        self.announce_limit(poll);
        self.dispatch.wait_here(poll, elsewhere).await
    }

    /// Waits for a task of a queue, wherever its home is.
    async fn wait_anywhere(self: &Arc<Self>, poll: &Poll) -> Option<(TaskOffer, Delivery)> {
        let runs = &self.runs;
        let is_over = || runs.is_stopping() || self.dispatch.workers.has_shut_down(&poll.caller.worker);
        if is_over() {
            return None;
        }
        let guard = self.dispatch.poll_begins(poll);
        let taken = loop {
            let homes = self.topology.homes();
            if Instant::now() >= poll.deadline || is_over() {
                break None;
            }
            match runs.home(poll.queue.namespace, poll.queue.client_name()) {
                Place::Here => match self.wait_at_home(poll, false).await {
                    Some(taken) => break Some(taken),
                    None if self.topology.homes() == homes => break None,
                    None => {}
                },
                Place::There(home) => match self.wait_at_edge(poll, home, homes).await {
                    Ok(taken) => break taken,
                    // The home is looked up again.
                    Err(()) => tokio::task::yield_now().await,
                },
                Place::Nowhere => tokio::time::sleep(RETRY_DELAY).await,
            }
        };
        if let Some(guard) = guard {
            guard.answered();
        }
        taken
    }

    /// Lets the owner of a task start it for a poll. `None` if it is over: the next one is to be tried.
    async fn start_at_owner(
        &self,
        task: RemoteTask,
        delivery: Delivery,
        call: &ForwardedCall,
    ) -> Option<(Bytes, Option<Delivery>)> {
        let call = ForwardedCall { task: Some(task.clone()), ..call.clone() };
        let deadline = Instant::now() + START_MAX;
        // A workflow task that is given back although its worker has it is done twice and counts once; an activity is not.
        let lazy = matches!(task.kind(), TaskKind::Workflow | TaskKind::Nexus);
        match self.forward_held(NodeId(task.owner), call, Some(deadline), lazy).await {
            Ok(forwarded) if forwarded.code == 0 && forwarded.delivery.is_some() => {
                delivery.delivered();
                Some((forwarded.body, forwarded.delivery))
            }
            // It is over.
            Ok(forwarded) if forwarded.code == 0 => {
                delivery.delivered();
                None
            }
            // The node that owns the run now offers it again.
            Err(ForwardError::Moved) => {
                delivery.delivered();
                None
            }
            Err(ForwardError::NotSent) if self.topology.is_gone(NodeId(task.owner)) => {
                delivery.delivered();
                None
            }
            // The home offers it again, also if the owner has just come and the home has heard of it before this node.
            Ok(_) | Err(_) => {
                drop(delivery);
                tokio::time::sleep(RETRY_DELAY).await;
                None
            }
        }
    }
}

impl RemoteQueues for Cluster {
    fn match_or_offer(self: Arc<Self>, offer: HomeOffer) {
        if !self.match_here(&offer) {
            self.offer_at_home(offer);
        }
    }

    fn offer_unstored<'a>(
        &'a self,
        queue: &'a QueueKey,
        task: TaskOffer,
        place: QueuePlace,
        sticky: bool,
    ) -> PortFuture<'a, bool> {
        Box::pin(self.offer_unstored_until_taken(queue, task, place, sticky))
    }

    fn offers_settle(&self) -> PortFuture<'_, ()> {
        Box::pin(async {
            while self.offers_under_way.load(Ordering::Acquire) > OFFERS_MAX && !self.runs.is_stopping() {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        })
    }

    fn request_offers<'a>(&'a self, queue: &'a QueueKey) -> PortFuture<'a, ()> {
        Box::pin(async move {
            let deadline = Instant::now() + OFFER_MAX;
            for node in self.peers.nodes() {
                let _ = self.peers.request(node, RequestBody::OfferAgain(wire_queue(queue)), deadline).await;
            }
        })
    }

    fn wait_for_task<'a>(self: Arc<Self>, poll: &'a Poll) -> PortFuture<'a, Option<(TaskOffer, Delivery)>> {
        Box::pin(async move { self.wait_anywhere(poll).await })
    }

    fn queue_use<'a>(
        &'a self,
        home: NodeId,
        namespace: NamespaceKey,
        queue: &'a MemberQueue,
        version: Option<&'a Version>,
    ) -> PortFuture<'a, Result<QueueUse, CallError>> {
        Box::pin(self.queue_use_at(home, namespace, queue, version))
    }

    fn note_version_waits<'a>(
        &'a self,
        owner: NodeId,
        runs: &'a [RunKey],
        version: &'a Version,
    ) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(self.note_waits_at(owner, runs, version))
    }

    fn reach_revision(&self, revision: i64) -> PortFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            match revision > self.topology.membership.loaded_revision() {
                true => self.catch_up().await,
                false => Ok(()),
            }
        })
    }

    fn start_task<'a>(
        &'a self,
        task: RemoteTask,
        delivery: Delivery,
        call: &'a ForwardedCall,
    ) -> PortFuture<'a, Option<(Bytes, Option<Delivery>)>> {
        Box::pin(self.start_at_owner(task, delivery, call))
    }

    fn own_task(&self, task: &RemoteTask) -> Option<TaskOffer> {
        self.task_of(task.clone()).filter(|task| !matches!(task, TaskOffer::Remote(_)))
    }

    fn limits_changed(&self) {
        self.edge.configured(|key| self.dispatch.matching.is_configured_with_limits(key));
    }

    fn worker_polls(&self, poll: &Poll, is_control: bool) {
        self.announce_poll(poll, is_control);
    }
}

impl OtherNodes for Cluster {
    fn offer_at_home(self: Arc<Self>, offer: HomeOffer) {
        let under_way = OfferUnderWay::begin(&self.offers_under_way);
        tokio::spawn(async move {
            let _under_way = under_way;
            self.offer_until_taken(offer).await;
        });
    }

    fn end_polls(&self, of: &dyn Fn(&QueueKey) -> bool) {
        self.edge.end_polls(of);
    }

    fn worker_called(&self, namespace: NamespaceKey, caller: &Caller) {
        self.announce_call(namespace, caller);
    }

    fn connection_closed(&self, connection: ConnectionId, cut: Vec<Party>) {
        self.announce_closed(connection, cut);
    }
}
