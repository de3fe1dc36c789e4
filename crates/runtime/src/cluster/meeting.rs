//! Tasks that meet workers at the node of both, and what the home of their queue hears of it.
//!
//! The home orders what has to wait. While nothing waits there and nothing limits the queue there is nothing to order: the
//! owner of a run hands a new task to a worker that waits at the same node ([`super::edge`]). Queries and commands always go
//! through the home.

use std::{sync::Arc, time::Duration};

use segno_store::cluster::{NodeId, Shard};
use tokio::{runtime::Handle, time::Instant};

use super::{
    Cluster, Place,
    edge::{Asker, Met},
    link::Answered,
    offers::{queue_of, wire_queue},
    wire::{News, Polls, Question, Queue, Reply, Take, Told},
};
use crate::{
    dispatch::{Delivery, HeldWork, Poll},
    matching::{QueueKey, QueuePlace, TaskOffer},
    metrics::count,
    runs::Runs,
    slots::lock,
};

/// Between two attempts to reach a home.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a take stands at a home before it is renewed.
const TAKE_MAX: Duration = Duration::from_secs(60);
/// A home may end a take so much before its time.
const MARGIN: Duration = Duration::from_secs(1);
/// How often takes that nobody needs are ended and homes are told what met elsewhere.
const LOOK: Duration = Duration::from_secs(1);
/// Other nodes are told this often that workers limit a queue.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// A task that met a worker of its own node, and where it goes if the worker does not get it.
#[derive(Debug)]
pub(crate) struct MetHere {
    queue: QueueKey,
    task: TaskOffer,
    place: QueuePlace,
    shard: Shard,
    otherwise: Option<QueueKey>,
}

impl MetHere {
    /// The worker did not get it: the home of its queue finds another one.
    pub(crate) fn offer_again(self, node: &Runs) {
        if Handle::try_current().is_ok() {
            node.offer_at_home(self.queue, self.task, self.place, self.shard, self.otherwise);
        }
    }
}

/// Looks after the polls that wait here until the node stops.
pub(crate) async fn look_after_polls(node: Arc<Runs>) {
    let Some(cluster) = node.cluster.clone() else { return std::future::pending().await };
    while !node.is_stopping() {
        tokio::time::sleep(LOOK).await;
        for (home, key, polls) in cluster.edge.look() {
            cluster.tell(home, Told::Polls(Polls { queue: wire_queue(&key), ..polls }));
        }
        // A take that ended begins the next one itself; no poll is to depend on it.
        for key in cluster.edge.wanting() {
            node.take_from_home(&cluster, &key);
        }
    }
}

impl Cluster {
    fn tell(&self, node: NodeId, told: Told) {
        if let Some(link) = self.link(node) {
            link.tell(News { told: Some(told) });
        }
    }
}

impl Runs {
    /// Hands a task of a run that is here to a worker that waits here, if the home of its queue has nothing to order. False
    /// if it has to go to the home. `otherwise` is where it goes if its queue is one worker's own and that is gone.
    pub(crate) fn meet_here(
        &self,
        key: &QueueKey,
        task: &TaskOffer,
        place: &QueuePlace,
        shard: Shard,
        otherwise: Option<&QueueKey>,
    ) -> bool {
        let Some(cluster) = &self.cluster else { return false };
        let Some(dispatch) = cluster.dispatch() else { return false };
        let make = || {
            let met = MetHere {
                queue: key.clone(),
                task: task.clone(),
                place: place.clone(),
                shard,
                otherwise: otherwise.cloned(),
            };
            (task.clone(), Delivery::new(&dispatch, HeldWork::Met(Box::new(met))))
        };
        let reachable = |home: NodeId| cluster.link(home).is_some_and(|link| link.is_open());
        match cluster.edge.meet(key, place.priority, reachable, make) {
            Ok(()) => {
                count(&self.metrics.tasks_met);
                true
            }
            Err(left) => {
                // The caller still has it.
                if let Some((_, delivery)) = left {
                    delivery.delivered();
                }
                false
            }
        }
    }

    /// Lets a poll wait here for a task of a queue whose home is elsewhere. `Err` if it has to look again where that is.
    pub(super) async fn wait_at_edge(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        poll: &Poll,
        home: NodeId,
        homes: u64,
    ) -> Result<Option<Met>, ()> {
        let Some(dispatch) = cluster.dispatch() else { return Ok(None) };
        // Before the look, so that no shutdown is missed.
        let dismissal = dispatch.workers.shutdowns.notified();
        let is_limited = || dispatch.matching.is_configured_with_limits(&poll.queue);
        let is_over =
            || cluster.homes() != homes || self.is_stopping() || dispatch.workers.has_shut_down(&poll.caller.worker);
        let mut wait = cluster.edge.wait(poll, home, is_limited, is_over).ok_or(())?;
        if wait.takes_missing > 0 {
            self.take_from_home(cluster, &poll.queue);
        } else if wait.is_news {
            let polls = Polls {
                queue: wire_queue(&poll.queue),
                sticky: poll.sticky,
                identity: poll.identity.clone(),
                worker: poll.caller.worker.clone(),
                version: Some(poll.version.clone()),
                ..Default::default()
            };
            cluster.tell(home, Told::Polls(polls));
        }
        tokio::select! {
            met = &mut wait.met => met.map_err(|_| ()),
            () = dismissal => Err(()),
            () = tokio::time::sleep_until(poll.deadline) => Ok(None),
        }
    }

    /// Lets as many takes as are missing stand at the home of a queue.
    fn take_from_home(self: &Arc<Self>, cluster: &Arc<Cluster>, key: &QueueKey) {
        cluster.edge.begin_takes(key, |number, asker| {
            let (node, queue) = (self.clone(), key.clone());
            tokio::spawn(async move { node.take_one(&queue, &asker, number).await }).abort_handle()
        });
    }

    /// One take, from when it stands at the home until a poll has what it brought.
    async fn take_one(self: Arc<Self>, key: &QueueKey, asker: &Asker, number: u64) {
        let Some(cluster) = self.cluster.clone() else { return };
        let began = Instant::now();
        let asked = match self.queue_home(key) {
            Place::There(home) => {
                let take = Take {
                    queue: wire_queue(key),
                    identity: asker.identity.clone(),
                    worker: asker.worker.clone(),
                    sticky: asker.sticky,
                    tasks_per_second: asker.tasks_per_second,
                    version: Some(asker.version.clone()),
                    wait_ms: TAKE_MAX.as_millis() as u64,
                };
                cluster.ask(home, Question::Take(take), began + TAKE_MAX + MARGIN).await.ok()
            }
            Place::Here | Place::Nowhere => None,
        };
        match asked {
            Some(Answered { reply: Reply::Task(offer), held }) => {
                cluster.edge.take_ended(key, number, Some(offer.quiet));
                let held = held.map_or(HeldWork::Nothing, |held| HeldWork::Elsewhere(held.lazily()));
                let Some(dispatch) = cluster.dispatch() else { return };
                let delivery = Delivery::new(&dispatch, held);
                match self.task_of(offer.task) {
                    Some(task) => cluster.edge.deliver(key, (task, delivery)),
                    // A query whose asker left.
                    None => delivery.delivered(),
                }
            }
            // Its time is up.
            Some(Answered { reply: Reply::Done(_), .. }) if began.elapsed() + MARGIN >= TAKE_MAX => {
                cluster.edge.take_ended(key, number, None);
            }
            // The worker shut down, or the namespace is gone.
            Some(Answered { reply: Reply::Done(_), .. }) => {
                cluster.edge.take_ended(key, number, None);
                cluster.edge.sent_away(key);
                tokio::time::sleep(AGAIN).await;
            }
            // The home is not there.
            _ => {
                cluster.edge.take_ended(key, number, None);
                tokio::time::sleep(AGAIN).await;
            }
        }
        if !self.is_stopping() {
            self.take_from_home(&cluster, key);
        }
    }

    /// Another node tells who polls a queue whose home is here, and what met there.
    pub(super) fn polls_elsewhere(&self, polls: Polls) {
        let (Some(key), Some(dispatch)) = (queue_of(polls.queue), self.dispatch()) else { return };
        if self.queue_home(&key) != Place::Here || dispatch.workers.has_shut_down(&polls.worker) {
            return;
        }
        let version = polls.version.unwrap_or_default();
        let poller = (!polls.identity.is_empty()).then_some((polls.identity.as_str(), &version));
        dispatch.matching.polled_elsewhere(&key, poller, &polls.met);
    }

    /// Workers limit a queue whose home is elsewhere.
    pub(super) fn limited_elsewhere(&self, queue: Queue) {
        if let (Some(cluster), Some(key)) = (&self.cluster, queue_of(queue)) {
            cluster.edge.limited_by_workers(&key);
        }
    }

    /// A worker wants no more than so many tasks of a queue whose home is here: nothing of it may meet without this node.
    pub(super) fn tell_limited(&self, poll: &Poll) {
        let Some(cluster) = self.cluster.as_ref().filter(|_| poll.tasks_per_second.is_some()) else { return };
        let now = Instant::now();
        let mut told = lock(&cluster.told_limits);
        told.retain(|_, at| now.saturating_duration_since(*at) < TELL_EVERY);
        if told.contains_key(&poll.queue) {
            return;
        }
        told.insert(poll.queue.clone(), now);
        drop(told);
        cluster.tell_all(&News { told: Some(Told::Limited(wire_queue(&poll.queue))) });
    }

    /// A node whose polls come to a queue that is limited may not have heard of it.
    pub(super) fn tell_if_limited(&self, node: NodeId, key: &QueueKey) {
        let is_limited = || self.dispatch().is_some_and(|dispatch| dispatch.matching.is_limited(key));
        if let Some(cluster) = self.cluster.as_ref().filter(|_| is_limited()) {
            cluster.tell(node, Told::Limited(wire_queue(key)));
        }
    }

    /// Configurations of queues have changed.
    pub(crate) fn limits_changed(&self) {
        if let Some(cluster) = &self.cluster
            && let Some(dispatch) = cluster.dispatch()
        {
            cluster.edge.configured(|key| dispatch.matching.is_configured_with_limits(key));
        }
    }

    /// Ends the polls here of some queues whose homes are elsewhere.
    pub(crate) fn end_polls(&self, of: impl Fn(&QueueKey) -> bool) {
        if let Some(cluster) = &self.cluster {
            cluster.edge.end_polls(of);
        }
    }
}
