//! Tasks of runs, put on their queues.

use segno_deployments::Version;
use segno_engine::{Run, priority};
use segno_matching::{Fairness, PRIORITY_DEFAULT, QueueKey, QueueKind, QueuePlace, QueueService, TaskOffer};
use segno_proto::{Nanos, common::Priority};
use segno_runs::ports::owner::Place;
use segno_store::{NamespaceKey, RunKey, cluster::Shard};
use segno_workers::HomeOffer;

use super::{Dispatch, versions::route_of};

/// A queue as metrics show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueGauge {
    /// The namespace's name.
    pub namespace: String,
    /// The queue's name.
    pub name: String,
    /// `workflow`, `activity` or `nexus`.
    pub kind: &'static str,
    /// Tasks that wait.
    pub backlog: usize,
    /// How long the oldest has waited.
    pub oldest: Nanos,
    /// Polls that wait.
    pub polls_waiting: usize,
}

/// Waiting tasks of a version of workers as metrics show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionGauge {
    /// The namespace's name.
    pub namespace: String,
    /// The version.
    pub version: Version,
    /// Tasks that wait for its workers.
    pub waiting: usize,
    /// Those of them on queues that none of its workers polls.
    pub unserved: usize,
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

impl Dispatch {
    /// Puts the pending workflow task of a run on its queue.
    pub(super) fn queue_workflow_task(&self, run: &Run) {
        let Some(task) = &run.state().task else { return };
        let (namespace, run_key) = (NamespaceKey(run.info.namespace_key), RunKey(run.info.run_key));
        let normal = QueueKey { namespace, kind: QueueKind::Workflow, name: run.info.task_queue.clone() };
        let mut key = match task.sticky {
            true if self.stays_sticky(run) => QueueKey::sticky(namespace, &task.queue, &run.info.task_queue),
            true => normal.clone(),
            false => QueueKey { name: task.queue.clone(), ..normal.clone() },
        };
        let sticky = key.kind == QueueKind::Sticky;
        let offer = TaskOffer::Workflow { run: run_key, stamp: task.stamp, speculative: run.is_speculating() };
        let (priority, fairness) = place_of(run.info.priority.as_ref(), None);
        let place = QueuePlace { priority, fairness, route: route_of(run) };
        let is_here = self.runs.home(key.namespace, key.client_name()) == Place::Here;
        if sticky && is_here && !self.matching.is_served(&key) {
            key = normal;
        } else if sticky && !is_here {
            let offer = HomeOffer { queue: key, task: offer, place, shard: shard_of(run), fallback: Some(normal) };
            return self.offer_elsewhere(offer);
        }
        self.offer(key, offer, place, run);
    }

    /// Offers a task at the home of its queue.
    pub(super) fn offer(&self, key: QueueKey, task: TaskOffer, place: QueuePlace, run: &Run) {
        match self.runs.home(key.namespace, key.client_name()) {
            Place::Here => self.matching.offer(&key, task, place),
            Place::There(_) | Place::Nowhere => {
                let shard = shard_of(run);
                self.offer_elsewhere(HomeOffer { queue: key, task, place, shard, fallback: None });
            }
        }
    }

    /// Offers a task to a poll of this node, if the home of its queue has nothing to order, or else at that home.
    fn offer_elsewhere(&self, offer: HomeOffer) {
        if let Some(remote) = self.remote_queues() {
            remote.match_or_offer(offer);
        }
    }

    /// Puts a pending activity on its queue.
    pub(super) fn queue_activity(&self, run: &Run, scheduled_event_id: i64) {
        let Some(activity) = run.state().activities.get(&scheduled_event_id) else { return };
        let namespace = NamespaceKey(run.info.namespace_key);
        let key = QueueKey { namespace, kind: QueueKind::Activity, name: activity.queue.clone() };
        let run_key = RunKey(run.info.run_key);
        let offer = TaskOffer::Activity { run: run_key, scheduled_event_id, stamp: activity.stamp };
        let (priority, fairness) = place_of(run.info.priority.as_ref(), activity.priority.as_ref());
        self.offer(key, offer, QueuePlace { priority, fairness, route: route_of(run) }, run);
    }

    /// The queues with the most tasks, for metrics.
    pub fn queue_gauges(&self, most: usize) -> Vec<QueueGauge> {
        let gauge = |(key, service, oldest): (QueueKey, QueueService, Nanos)| {
            let namespace = self.runs.namespaces.by_key(key.namespace).map(|namespace| namespace.name.clone());
            let kind = match key.kind {
                QueueKind::Workflow | QueueKind::Sticky => "workflow",
                QueueKind::Activity => "activity",
                QueueKind::Nexus | QueueKind::WorkerCommand => "nexus",
            };
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
        self.matching.largest(most).into_iter().map(gauge).collect()
    }

    /// The versions of workers with the most waiting tasks, for metrics.
    pub fn version_gauges(&self, most: usize) -> Vec<VersionGauge> {
        let gauge = |(namespace, version, waiting, unserved): (NamespaceKey, Version, usize, usize)| {
            let namespace = self.runs.namespaces.by_key(namespace).map(|namespace| namespace.name.clone());
            VersionGauge { namespace: namespace.unwrap_or_default(), version, waiting, unserved }
        };
        self.matching.waiting_by_version(most).into_iter().map(gauge).collect()
    }
}
