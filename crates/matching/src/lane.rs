//! A lane of a queue: the tasks that go to workers of one version now, and the polls of those workers.

use std::collections::BTreeMap;

use segno_deployments::Version;
use segno_environment::hash::HashMap;
use segno_proto::Nanos;
use tokio::sync::oneshot;

use super::{
    fair::Level,
    limits::QueueLimits,
    poller::{Poller, PollerVersion},
    poller_scaling::AdviceBudget,
    stats::{QueueStats, TaskRates},
    task::{QueuedTask, TaskOffer},
};

/// Pollers a lane remembers; the one that was silent longest is forgotten first.
pub const POLLERS_MAX: usize = 1000;

/// The answer to a poll that waits.
#[derive(Debug)]
pub enum PollAnswer {
    /// Here is a task.
    Task(QueuedTask),
    /// A limit holds a task back until this time: the poll tries again then.
    RetryAt(Nanos),
}

/// A poll that waits.
pub struct WaitingPoll {
    worker: String,
    pub hand_over: oneshot::Sender<PollAnswer>,
}

/// The last poll of an identity.
struct LastPoll {
    at: Nanos,
    /// The version that the worker named.
    version: PollerVersion,
    /// The instance key of the worker, if it has one.
    worker: String,
}

/// The tasks and polls of one version.
#[derive(Default)]
pub struct Lane {
    /// By priority (lower first), then by fairness and age.
    backlog: BTreeMap<i32, Level>,
    len: usize,
    /// By their numbers, which grow: the longest waiting first.
    waiting: BTreeMap<u64, WaitingPoll>,
    /// Polls that wait at other nodes, which take from here, likewise.
    waiting_elsewhere: BTreeMap<u64, WaitingPoll>,
    /// Tasks were not kept: storage knows them.
    pub overflowed: bool,
    /// When the last poll began.
    pub last_poll: Nanos,
    /// Workers that polled lately, by identity.
    pollers: HashMap<String, LastPoll>,
    /// The rates of tasks that come and go, by priority.
    pub measured: TaskRates,
    /// How much advice to poll more may be given.
    advice: AdviceBudget,
}

impl Lane {
    /// Adds a task: behind the others of its priority and key, or before all of its priority.
    pub fn push(&mut self, queued: QueuedTask, first: bool) {
        self.backlog.entry(queued.priority).or_default().push(queued, first);
        self.len += 1;
    }

    /// The next task, if one waits and may go.
    pub fn take(&mut self, limits: &mut QueueLimits, now: Nanos) -> Option<QueuedTask> {
        let unlimited = limits.is_unlimited();
        let may = |key: &str| unlimited || limits.at(key) <= now;
        let weight = |key: &str, own: f32| limits.weight(key, own);
        let next = self
            .backlog
            .iter_mut()
            .find_map(|(priority, level)| level.pop(may, weight).map(|queued| (*priority, queued, level.is_empty())));
        let (priority, queued, emptied) = next?;
        if emptied {
            self.backlog.remove(&priority);
        }
        if !unlimited {
            let (key, own) = queued.fairness_share();
            limits.spend(key, own, now);
        }
        self.len -= 1;
        self.measured.dispatched(priority, now);
        Some(queued)
    }

    /// Priority of the least urgent task, if storage knows that task.
    pub fn last_priority(&self) -> Option<i32> {
        let (priority, level) = self.backlog.last_key_value()?;
        level.last().is_some_and(|queued| queued.task.is_stored()).then_some(*priority)
    }

    /// Forgets the least urgent task.
    pub fn forget_last(&mut self) {
        let Some(mut level) = self.backlog.last_entry() else { return };
        level.get_mut().pop_last();
        if level.get().is_empty() {
            level.remove();
        }
        self.len -= 1;
        self.overflowed = true;
    }

    /// Takes out the tasks that do not belong here, and appends them to `out`.
    pub fn extract(&mut self, belongs: impl Fn(&QueuedTask) -> bool, out: &mut Vec<QueuedTask>) {
        let before = out.len();
        self.backlog.retain(|_, level| {
            level.extract(&belongs, out);
            !level.is_empty()
        });
        self.len -= out.len() - before;
    }

    /// Puts tasks that came from other lanes where their age says.
    pub fn sort_by_age(&mut self) {
        self.backlog.values_mut().for_each(Level::sort_by_age);
    }

    /// Priority and age of its most urgent task.
    pub fn head(&self) -> Option<(i32, Nanos)> {
        let (priority, level) = self.backlog.first_key_value()?;
        Some((*priority, level.oldest()?))
    }

    /// When the first of its tasks may go.
    pub fn earliest(&self, limits: &QueueLimits) -> Option<Nanos> {
        self.backlog.values().flat_map(Level::keys).map(|key| limits.at(key)).min()
    }

    /// Lets a worker wait; at another node if `elsewhere`. Numbers grow from one worker to the next.
    pub fn wait(&mut self, id: u64, worker: String, elsewhere: bool, hand_over: oneshot::Sender<PollAnswer>) {
        let waiting = if elsewhere { &mut self.waiting_elsewhere } else { &mut self.waiting };
        waiting.insert(id, WaitingPoll { worker, hand_over });
    }

    /// A worker gave up waiting.
    pub fn forget(&mut self, id: u64) {
        if self.waiting.remove(&id).is_none() {
            self.waiting_elsewhere.remove(&id);
        }
    }

    /// The worker that waited longest; one of this node, if there is one and that is wanted.
    pub fn next_waiting(&mut self, near_first: bool) -> Option<WaitingPoll> {
        let near = match (self.waiting.first_key_value(), self.waiting_elsewhere.first_key_value()) {
            (Some((near, _)), Some((far, _))) => near_first || near < far,
            (_, far) => far.is_none(),
        };
        let next = if near { self.waiting.pop_first() } else { self.waiting_elsewhere.pop_first() };
        next.map(|(_, waiting)| waiting)
    }

    /// Ends all polls of a worker: they end empty, at once.
    pub fn dismiss(&mut self, worker: &str) {
        self.waiting.retain(|_, waiting| waiting.worker != worker);
        self.waiting_elsewhere.retain(|_, waiting| waiting.worker != worker);
    }

    /// Ends all polls.
    pub fn dismiss_all(&mut self) {
        self.waiting.clear();
        self.waiting_elsewhere.clear();
    }

    /// A worker polls; `worker` are its identity and its instance key.
    pub fn polled(&mut self, (identity, worker): (&str, &str), version: &PollerVersion, now: Nanos) {
        self.last_poll = now;
        if let Some(last) = self.pollers.get_mut(identity) {
            last.at = now;
            if last.version != *version {
                last.version.clone_from(version);
            }
            if last.worker != worker {
                worker.clone_into(&mut last.worker);
            }
            return;
        }
        if self.pollers.len() >= POLLERS_MAX {
            let oldest = self.pollers.iter().min_by_key(|(_, last)| last.at).map(|(identity, _)| identity.clone());
            oldest.map(|identity| self.pollers.remove(&identity));
        }
        let last = LastPoll { at: now, version: version.clone(), worker: worker.to_owned() };
        self.pollers.insert(identity.to_owned(), last);
    }

    /// A worker will not poll again; it is known by its identity and its instance key. Another worker of the same identity may: its last
    /// poll has another key. Polls of older SDKs have none.
    pub fn forget_poller(&mut self, (identity, worker): (&str, &str)) {
        if self.pollers.get(identity).is_some_and(|last| last.worker.is_empty() || last.worker == worker) {
            self.pollers.remove(identity);
        }
    }

    /// A worker process will not poll again.
    pub fn forget_worker(&mut self, worker: &str) {
        self.pollers.retain(|_, last| last.worker != worker || worker.is_empty());
    }

    /// Workers that polled since a moment.
    pub fn pollers(&mut self, since: Nanos) -> impl Iterator<Item = Poller> {
        self.pollers.retain(|_, last| last.at > since);
        self.pollers.iter().map(|(identity, last)| Poller {
            identity: identity.clone(),
            at: last.at,
            version: last.version.clone(),
        })
    }

    /// Whether a worker waits here, or polled since a moment and did not shut down.
    pub fn is_polled(&self, since: Nanos) -> bool {
        self.waiting() > 0 || self.pollers.values().any(|last| last.at > since)
    }

    /// How many workers polled since a moment and did not shut down.
    pub fn pollers_since(&self, since: Nanos) -> usize {
        self.pollers.values().filter(|last| last.at > since).count()
    }

    /// Whether nothing is here that a later poll or task would miss.
    pub fn is_idle(&self, since: Nanos) -> bool {
        self.len == 0 && !self.overflowed && !self.is_polled(since) && self.measured.is_idle(since)
    }

    /// Takes everything that waits.
    pub fn drain(&mut self) -> impl Iterator<Item = TaskOffer> + use<> {
        self.len = 0;
        std::mem::take(&mut self.backlog).into_values().flat_map(Level::into_tasks).map(|queued| queued.task)
    }

    /// How many tasks wait, how long the oldest has, and how many come and go, by priority.
    pub fn stats(&self, now: Nanos) -> BTreeMap<i32, QueueStats> {
        let mut stats = self.measured.rates(now);
        for (priority, tasks) in &self.backlog {
            let stats = stats.entry(*priority).or_default();
            stats.backlog = tasks.len();
            stats.oldest = tasks.oldest().map_or(0, |since| (now - since).max(0));
        }
        stats
    }

    /// How many polls more or fewer a worker should make whose poll waited so long.
    pub fn advice(&mut self, waited: Nanos, now: Nanos, is_sticky: bool) -> i32 {
        let mut budget = std::mem::take(&mut self.advice);
        let counts = |priority: &i32| ![super::QUERY_PRIORITY, super::TRIAL_PRIORITY].contains(priority);
        let stats = || self.stats(now).into_iter().filter(|(priority, _)| counts(priority));
        let stats = || stats().map(|(_, stats)| stats).collect();
        let advice = budget.advice(waited, self.pollers.len(), now, is_sticky, stats);
        self.advice = budget;
        advice
    }

    /// Tasks waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Workers waiting.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.waiting_elsewhere.len()
    }

    /// All tasks.
    pub fn tasks(&self) -> impl Iterator<Item = &QueuedTask> {
        self.backlog.values().flat_map(Level::iter)
    }
}

/// The lanes of a queue.
#[derive(Default)]
pub struct Lanes {
    /// For workers without a version; the only one of most queues.
    unversioned: Lane,
    versions: HashMap<Version, Lane>,
}

impl Lanes {
    /// How many there are.
    pub fn count(&self) -> usize {
        1 + self.versions.len()
    }

    /// The lane of a version, if it is there.
    pub fn get(&self, version: Option<&Version>) -> Option<&Lane> {
        version.map_or(Some(&self.unversioned), |version| self.versions.get(version))
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, version: Option<&Version>) -> Option<&mut Lane> {
        match version {
            None => Some(&mut self.unversioned),
            Some(version) => self.versions.get_mut(version),
        }
    }

    /// The lane of a version.
    pub fn open(&mut self, version: Option<&Version>) -> &mut Lane {
        let Some(version) = version else { return &mut self.unversioned };
        if !self.versions.contains_key(version) {
            // Forgotten tasks may be of this version.
            let overflowed = self.iter().any(|(_, lane)| lane.overflowed);
            self.versions.insert(version.clone(), Lane { overflowed, ..Lane::default() });
        }
        self.versions.get_mut(version).expect("it was inserted if it was not there")
    }

    /// All of them with their versions.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&Version>, &Lane)> {
        let versions = self.versions.iter().map(|(version, lane)| (Some(version), lane));
        std::iter::once((None, &self.unversioned)).chain(versions)
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Option<&Version>, &mut Lane)> {
        let versions = self.versions.iter_mut().map(|(version, lane)| (Some(version), lane));
        std::iter::once((None, &mut self.unversioned)).chain(versions)
    }

    /// Forgets lanes without tasks that no worker has used since a moment.
    pub fn forget_idle(&mut self, since: Nanos) {
        self.versions.retain(|_, lane| !lane.is_idle(since));
    }
}
