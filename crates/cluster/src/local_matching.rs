//! Tasks that are handed to workers at the node of their run, and reports of that to the home of their queue.
//!
//! The home orders waiting tasks. While no task waits there and no limit applies there is nothing to order, so the
//! owner of a run hands a new task to a worker that polls at the same node ([`super::edge`]). Queries and commands
//! always go through the home.

use std::{sync::Arc, time::Duration};

use segno_dispatch::{Delivery, HeldWork, Poll};
use segno_environment::{lock::lock, metrics::count};
use segno_matching::QueueKey;
use segno_runs::ports::owner::Place;
use segno_store::cluster::NodeId;
use segno_workers::HomeOffer;
use tokio::time::Instant;

use super::{
    Cluster,
    edge::{LaneKey, OfferedTask, PollInfo},
    link::NodeResponse,
    offers::{queue_of, wire_queue},
    wire::{NotificationBody, PollReport, Queue, RequestBody, ResponseBody, Take},
};

/// Between two attempts to reach a home.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// How long a take stands at a home before it is renewed.
const TAKE_MAX: Duration = Duration::from_secs(60);
/// A home may end a take so much before its time.
const MARGIN: Duration = Duration::from_secs(1);
/// How often takes that no poll needs are ended and homes hear of the tasks that were matched here.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Other nodes hear this often that workers limit a queue.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);

/// Maintains the polls that wait here for tasks of queues elsewhere, until the node stops.
pub(super) async fn run(cluster: Arc<Cluster>) {
    while !cluster.runs.is_stopping() {
        tokio::time::sleep(REPORT_INTERVAL).await;
        for (home, key, report) in cluster.edge.take_reports() {
            let report = PollReport { queue: wire_queue(&key.queue), ..report };
            cluster.peers.notify(home, NotificationBody::PollReport(report));
        }
        // A take that ended begins the next one itself; no poll is to depend on it.
        for key in cluster.edge.wanting() {
            cluster.take_from_home(&key);
        }
    }
}

impl Cluster {
    /// Hands a task of a run that is here to a worker that polls here, if the home of its queue has nothing to order. False
    /// if it has to go to the home.
    pub(super) fn match_here(&self, offer: &HomeOffer) -> bool {
        let make = || (offer.task.clone(), Delivery::new(&self.dispatch, HeldWork::Matched(Box::new(offer.clone()))));
        let is_reachable = |home: NodeId| self.peers.is_reachable(home);
        let version = self.dispatch.matching.version_for(&offer.queue, &offer.place.route);
        let key = LaneKey { queue: offer.queue.clone(), version };
        match self.edge.meet(&key, offer.place.priority, is_reachable, make) {
            Ok(()) => {
                count(&self.runs.metrics.tasks_met);
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

    /// Lets a poll wait here for a task of a queue whose home is elsewhere. `Err` if it has to look up the home again.
    pub(super) async fn wait_at_edge(
        self: &Arc<Self>,
        poll: &Poll,
        home: NodeId,
        homes: u64,
    ) -> Result<Option<OfferedTask>, ()> {
        // Before the look, so that no shutdown is missed.
        let (runs, workers) = (&self.runs, &self.dispatch.workers);
        let dismissal = workers.shutdowns.notified();
        let is_limited = || self.dispatch.matching.is_configured_with_limits(&poll.queue);
        let is_over =
            || self.topology.homes() != homes || runs.is_stopping() || workers.has_shut_down(&poll.caller.worker);
        let key = LaneKey { queue: poll.queue.clone(), version: poll.version.lane(poll.queue.kind) };
        let mut wait = self.edge.wait(poll, &key, home, is_limited, is_over).ok_or(())?;
        if wait.takes_missing > 0 {
            self.take_from_home(&key);
        } else if wait.is_news {
            let polls = PollReport {
                queue: wire_queue(&poll.queue),
                sticky: poll.sticky,
                identity: poll.identity.clone(),
                worker: poll.caller.worker.clone(),
                version: Some(poll.version.clone()),
                ..Default::default()
            };
            self.peers.notify(home, NotificationBody::PollReport(polls));
        }
        tokio::select! {
            biased;
            outcome = &mut wait.outcome => outcome.map_err(|_| ()),
            () = dismissal => Err(()),
            () = tokio::time::sleep_until(poll.deadline) => Ok(None),
        }
    }

    /// Lets as many takes as are missing stand at the home of a queue.
    fn take_from_home(self: &Arc<Self>, key: &LaneKey) {
        self.edge.begin_takes(key, |number, info| {
            let (cluster, key) = (self.clone(), key.clone());
            tokio::spawn(async move { cluster.take_one(&key, &info, number).await }).abort_handle()
        });
    }

    /// One take, from when it stands at the home until a poll has what it brought.
    async fn take_one(self: Arc<Self>, key: &LaneKey, info: &PollInfo, number: u64) {
        let began = Instant::now();
        let response = match self.runs.home(key.queue.namespace, key.queue.client_name()) {
            Place::There(home) => {
                let take = Take {
                    queue: wire_queue(&key.queue),
                    identity: info.identity.clone(),
                    worker: info.worker.clone(),
                    sticky: info.sticky,
                    tasks_per_second: info.tasks_per_second,
                    version: Some(info.version.clone()),
                    wait_ms: TAKE_MAX.as_millis() as u64,
                };
                self.peers.request(home, RequestBody::Take(take), began + TAKE_MAX + MARGIN).await.ok()
            }
            Place::Here | Place::Nowhere => None,
        };
        match response {
            Some(NodeResponse { body: ResponseBody::Task(offer), held }) => {
                self.edge.take_ended(key, number, Some(offer.quiet));
                let held = held.map_or(HeldWork::Nothing, |held| HeldWork::Remote(Box::new(held.lazily())));
                let delivery = Delivery::new(&self.dispatch, held);
                match self.task_of(offer.task) {
                    Some(task) => self.edge.deliver(key, (task, delivery)),
                    // A query that was withdrawn.
                    None => delivery.delivered(),
                }
            }
            // Its time is up.
            Some(NodeResponse { body: ResponseBody::Done(_), .. }) if began.elapsed() + MARGIN >= TAKE_MAX => {
                self.edge.take_ended(key, number, None);
            }
            // The worker shut down, or the namespace is gone.
            Some(NodeResponse { body: ResponseBody::Done(_), .. }) => {
                self.edge.take_ended(key, number, None);
                self.edge.sent_away(key);
                tokio::time::sleep(RETRY_DELAY).await;
            }
            // The home cannot be reached.
            _ => {
                self.edge.take_ended(key, number, None);
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
        if !self.runs.is_stopping() {
            self.take_from_home(key);
        }
    }

    /// Another node reports the polls of a queue whose home is here, and the tasks that were matched there.
    pub(super) fn note_polls(&self, report: PollReport) {
        let Some(key) = queue_of(report.queue) else { return };
        if self.runs.home(key.namespace, key.client_name()) != Place::Here
            || self.dispatch.workers.has_shut_down(&report.worker)
        {
            return;
        }
        let version = report.version.unwrap_or_default();
        let worker = (report.identity.as_str(), report.worker.as_str());
        self.dispatch.matching.polled_elsewhere(&key, worker, &version, &report.met);
    }

    /// Workers limit a queue whose home is elsewhere.
    pub(super) fn note_limit(&self, queue: Queue) {
        if let Some(key) = queue_of(queue) {
            self.edge.limited_by_workers(&key);
        }
    }

    /// A worker limits the rate of a queue whose home is here: no task of it may be matched without this node.
    pub(super) fn announce_limit(&self, poll: &Poll) {
        if poll.tasks_per_second.is_none() {
            return;
        }
        let now = Instant::now();
        let mut announced = lock(&self.announced_limits);
        announced.retain(|_, at| now.saturating_duration_since(*at) < ANNOUNCE_INTERVAL);
        if announced.contains_key(&poll.queue) {
            return;
        }
        announced.insert(poll.queue.clone(), now);
        drop(announced);
        self.peers.broadcast(NotificationBody::QueueLimited(wire_queue(&poll.queue)));
    }

    /// A node whose polls come to a queue that is limited may not have heard of it.
    pub(super) fn announce_limit_to(&self, node: NodeId, key: &QueueKey) {
        if self.dispatch.matching.is_limited(key) {
            self.peers.notify(node, NotificationBody::QueueLimited(wire_queue(key)));
        }
    }
}
