//! What operators see of versions of workers at queues: who serves which version, what waits for it, and that workers without a version
//! poll in vain.

use segno_deployments::Version;
use segno_environment::{
    hash::{HashMap, HashSet},
    lock::lock,
};
use segno_proto::Nanos;
use segno_store::{NamespaceKey, RunKey, cluster::NodeId};

use super::{Matching, QueueKey, QueuePoll, QueueService, queue::Queue};

/// Who serves workers of one version at a queue, and how much waits for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneService {
    /// The version; `None` for workers without one.
    pub version: Option<Version>,
    /// Polls and tasks.
    pub service: QueueService,
    /// Workers that polled lately and did not shut down.
    pub pollers: usize,
}

impl LaneService {
    /// Whether a worker polls for the version.
    fn is_served(&self) -> bool {
        self.pollers > 0 || self.service.polls_waiting > 0
    }
}

/// A run of which a task waits for a version of workers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VersionWait {
    /// The version.
    pub version: Version,
    /// The run.
    pub run: RunKey,
    /// The node that serves it, if it is another one.
    pub owner: Option<NodeId>,
}

impl Matching {
    /// Runs of which a task has waited so long for a version of workers that has none. Keeps of `known` what still waits, and returns at
    /// most so many that are not known.
    pub fn new_version_waits(&self, age: Nanos, known: &mut HashSet<VersionWait>, most: usize) -> Vec<VersionWait> {
        let now = self.clock.now();
        let (mut remaining, mut new) = (HashSet::default(), Vec::new());
        for queue in lock(&self.queues).values().filter(|queue| queue.len() > 0) {
            for wait in queue.version_waits(now - self.poller_ttl, now - age) {
                if known.contains(&wait) {
                    remaining.insert(wait);
                } else if new.len() < most {
                    new.push(wait);
                }
            }
        }
        *known = remaining;
        new
    }

    /// Logs, once per queue and current version, that a worker without a version polls and gets nothing.
    pub(super) fn report_unversioned(&self, poll: &QueuePoll<'_>) {
        // Without deployments a poll costs no second lock.
        if poll.lane.is_some() || self.deployments.namespace(poll.queue.namespace).is_none() {
            return;
        }
        let unreported = lock(&self.queues).get_mut(poll.queue).and_then(Queue::unreported_current);
        let Some(current) = unreported else { return };
        tracing::warn!(
            queue = poll.queue.name,
            identity = poll.identity,
            deployment = current.deployment_name,
            build = current.build_id,
            "unversioned worker polls, current version is {}:{}",
            current.deployment_name,
            current.build_id
        );
    }

    /// Who serves the versions of workers at a queue now.
    pub fn lanes(&self, key: &QueueKey) -> Vec<LaneService> {
        let since = self.clock.now() - self.poller_ttl;
        lock(&self.queues).get(key).map(|queue| queue.lanes(since)).unwrap_or_default()
    }

    /// The versions of workers with the most tasks, over all queues: how many tasks wait, and how many of them on queues that no worker
    /// of the version polls.
    pub fn waiting_by_version(&self, most: usize) -> Vec<(NamespaceKey, Version, usize, usize)> {
        let since = self.clock.now() - self.poller_ttl;
        let mut by_version: HashMap<(NamespaceKey, Version), (usize, usize)> = HashMap::default();
        for (key, queue) in lock(&self.queues).iter() {
            for lane in queue.lanes(since) {
                let is_served = lane.is_served();
                let Some(version) = lane.version else { continue };
                let (waiting, unserved) = by_version.entry((key.namespace, version)).or_default();
                *waiting += lane.service.backlog;
                *unserved += if is_served { 0 } else { lane.service.backlog };
            }
        }
        let all = by_version
            .into_iter()
            .map(|((namespace, version), (waiting, unserved))| (namespace, version, waiting, unserved));
        let mut all: Vec<_> = all.collect();
        all.sort_by(|a, b| {
            b.2.cmp(&a.2)
                .then_with(|| (&a.1.deployment_name, &a.1.build_id).cmp(&(&b.1.deployment_name, &b.1.build_id)))
        });
        all.truncate(most);
        all
    }
}
