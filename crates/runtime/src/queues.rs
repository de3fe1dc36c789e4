//! Task queues as a data structure: tasks on one side, waiting workers on the other. No IO, no clock.
//!
//! A task meets a waiting worker directly. What no worker takes waits in the backlog, which is bounded: every task can
//! be derived from its run, so a queue over its limit forgets the rest, notes that it did, and is refilled from storage
//! once it runs low.

use std::collections::{BTreeMap, HashSet};

use segno_proto::{Nanos, common::WorkerVersionCapabilities, deployment::WorkerDeploymentOptions};
use segno_store::{NamespaceKey, RunKey};
use tokio::sync::oneshot;

use crate::{
    fair::{Fairness, Level},
    hash::HashMap,
    poller_scaling::AdviceBudget,
    queries::QueryTask,
    queue_limits::QueueLimits,
    queue_stats::{Measured, QueueStats},
    remote_task::RemoteTask,
    worker_commands::{COMMAND_AGE_MAX, COMMANDS_MAX, WorkerCommandTask},
};

/// Most tasks a queue keeps in memory, unless a node is told otherwise.
pub const BACKLOG_MAX: usize = 50_000;

/// Queries come before everything else.
pub const QUERY_PRIORITY: i32 = 0;

/// Pollers a queue remembers; the one that was silent longest is forgotten first.
pub const POLLERS_MAX: usize = 1000;

/// A sticky queue that nobody polled for so long is not polled again: its tasks time out after ten seconds or so.
const DESERTED_AFTER: Nanos = 60 * 1_000_000_000;

/// Workflow tasks and activities are queued apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// Workflow tasks and queries.
    Workflow,
    /// Workflow tasks and queries of runs that one worker has in its cache.
    Sticky,
    /// Activities.
    Activity,
    /// Commands for workers, which SDKs poll for as Nexus tasks. There are no Nexus endpoints.
    WorkerCommand,
}

/// A queue's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// What is queued.
    pub kind: QueueKind,
    /// The user's name for it; of a sticky queue see [`QueueKey::sticky`].
    pub name: String,
}

impl QueueKey {
    /// The sticky queue that a worker of a normal queue has for the runs in its cache. Both names make the queue: a poll gets
    /// tasks of runs of that normal queue alone, whichever name the worker chose for its own.
    pub fn sticky(namespace: NamespaceKey, name: &str, normal_name: &str) -> Self {
        // The length keeps two pairs of names apart that read the same in a row.
        let name = format!("{}:{normal_name}{name}", normal_name.len());
        Self { namespace, kind: QueueKind::Sticky, name }
    }

    /// The worker's name for its sticky queue, if this is one.
    pub fn sticky_name(&self) -> Option<&str> {
        let (length, names) = self.name.split_once(':').filter(|_| self.kind == QueueKind::Sticky)?;
        names.get(length.parse().ok()?..)
    }

    /// The name by which clients know the queue.
    pub fn client_name(&self) -> &str {
        self.sticky_name().unwrap_or(&self.name)
    }
}

/// What a worker says of its version with a poll. It is shown and decides nothing.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PollerVersion {
    /// Its build.
    #[prost(message, optional, tag = "1")]
    pub capabilities: Option<WorkerVersionCapabilities>,
    /// Its deployment.
    #[prost(message, optional, tag = "2")]
    pub deployment: Option<WorkerDeploymentOptions>,
}

/// A worker that asked lately.
#[derive(Clone, Debug, PartialEq)]
pub struct Poller {
    /// The name people know.
    pub identity: String,
    /// When it last asked.
    pub at: Nanos,
    /// What it said of its version then.
    pub version: PollerVersion,
}

/// A task that waits for a worker. It names the work; whether it still exists is seen when it starts.
#[derive(Clone, Debug)]
pub enum TaskOffer {
    /// A run's pending workflow task.
    Workflow {
        /// The run.
        run: RunKey,
        /// Recognises the very task.
        stamp: u32,
        /// Whether it exists in memory alone.
        speculative: bool,
    },
    /// A pending activity.
    Activity {
        /// The run.
        run: RunKey,
        /// Its scheduled event.
        scheduled_event_id: i64,
        /// Recognises the very attempt.
        stamp: u32,
    },
    /// A query; it exists in memory alone.
    Query(Box<QueryTask>),
    /// A command for a worker; it exists in memory alone.
    Command(Box<WorkerCommandTask>),
    /// A task of a run that another node owns.
    Remote(Box<RemoteTask>),
}

impl TaskOffer {
    /// Whether storage knows the task, so that a queue may forget it and find it again.
    fn is_stored(&self) -> bool {
        match self {
            Self::Workflow { speculative, .. } => !speculative,
            Self::Activity { .. } => true,
            Self::Query(_) | Self::Command(_) => false,
            // Queries and what is speculative are gone if the queue forgets them.
            Self::Remote(task) => task.query == 0 && !task.speculative,
        }
    }
}

/// A task with its place in a queue.
#[derive(Clone, Debug)]
pub struct Queued {
    /// The task.
    pub task: TaskOffer,
    /// Lower first.
    pub priority: i32,
    /// Since when it waits.
    pub since: Nanos,
    /// Among whom it takes turns, if it has a fairness key.
    pub fairness: Option<Box<Fairness>>,
}

impl Queued {
    /// Its fairness key and weight.
    fn turn(&self) -> (&str, f32) {
        self.fairness.as_ref().map_or(("", 1.0), |fairness| (&*fairness.key, fairness.weight))
    }
}

/// What a waiting worker is told.
#[derive(Debug)]
pub enum Handed {
    /// Here is a task.
    Task(Queued),
    /// There is a task, which may go at this time: look again then.
    Look(Nanos),
}

/// A worker that waits.
struct Waiting {
    worker: String,
    hand_over: oneshot::Sender<Handed>,
}

/// One queue.
pub struct Queue {
    /// Most tasks in the backlog that storage knows as well.
    backlog_max: usize,
    /// By priority (lower first), then by fairness and age.
    backlog: BTreeMap<i32, Level>,
    backlog_len: usize,
    /// By their numbers, which grow: the longest waiting first.
    waiting: BTreeMap<u64, Waiting>,
    /// Polls that wait at other nodes, which take from here, likewise.
    waiting_elsewhere: BTreeMap<u64, Waiting>,
    /// Tasks were not kept: storage knows them.
    pub overflowed: bool,
    /// When a worker last asked.
    pub last_poll: Nanos,
    /// Workers that asked lately, by identity: when, and what they said of their version.
    pollers: HashMap<String, (Nanos, PollerVersion)>,
    /// Polls of this queue come from the one worker that has runs in its cache.
    pub sticky: bool,
    /// A worker said that it will not come back to this (sticky) queue.
    pub abandoned: bool,
    /// What came and went, by priority.
    measured: Measured,
    /// How much may go.
    pub limits: QueueLimits,
    /// How much advice to poll more may be given.
    advice: AdviceBudget,
}

/// What became of an offer.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered {
    /// A waiting worker has it.
    HandedOver,
    /// It waits.
    Kept,
    /// The queue is full; storage knows the task.
    Overflowed,
}

impl Queue {
    /// An empty queue.
    pub fn new(backlog_max: usize) -> Self {
        Self {
            backlog_max,
            backlog: BTreeMap::new(),
            backlog_len: 0,
            waiting: BTreeMap::new(),
            waiting_elsewhere: BTreeMap::new(),
            overflowed: false,
            last_poll: 0,
            pollers: HashMap::default(),
            sticky: false,
            abandoned: false,
            measured: Measured::default(),
            limits: QueueLimits::default(),
            advice: AdviceBudget::default(),
        }
    }

    /// Whether it forgot tasks and has room for many of them again.
    pub fn wants_refill(&self) -> bool {
        self.overflowed && self.backlog_len < (self.backlog_max / 4).max(1)
    }

    /// Whether it takes no more tasks that storage knows.
    pub fn is_full(&self) -> bool {
        self.backlog_len >= self.backlog_max
    }

    /// Offers a task to the longest waiting worker, or keeps it.
    pub fn offer(&mut self, task: TaskOffer, priority: i32, now: Nanos) -> Offered {
        self.offer_fairly(task, priority, None, now)
    }

    /// The same for a task that takes turns with others.
    pub fn offer_fairly(
        &mut self,
        task: TaskOffer,
        priority: i32,
        fairness: Option<Box<Fairness>>,
        now: Nanos,
    ) -> Offered {
        self.measured.added(priority, now);
        self.hand_over_or_keep(Queued { task, priority, since: now, fairness }, now, false)
    }

    /// Takes back a task that a worker did not get: it is next among those of its priority.
    pub fn take_back(&mut self, queued: Queued, now: Nanos) -> Offered {
        self.measured.given_back(queued.priority, now);
        self.hand_over_or_keep(queued, now, true)
    }

    fn hand_over_or_keep(&mut self, mut queued: Queued, now: Nanos, first: bool) -> Offered {
        if !self.limits.is_unlimited() {
            let kept = self.keep(queued, first);
            self.serve(now);
            return kept;
        }
        // What is here is started here: a worker of this node saves the way.
        let is_own = !matches!(queued.task, TaskOffer::Remote(_));
        while let Some(waiting) = self.next_waiting(is_own) {
            let priority = queued.priority;
            match waiting.hand_over.send(Handed::Task(queued)) {
                Ok(()) => {
                    self.measured.dispatched(priority, now);
                    return Offered::HandedOver;
                }
                // That worker gave up in the same moment; the next one may have it.
                Err(Handed::Task(returned)) => queued = returned,
                Err(Handed::Look(_)) => return Offered::Kept,
            }
        }
        self.keep(queued, first)
    }

    /// Hands out what may go to workers that wait. If something must wait for its time, one worker is told when to look
    /// again; it does this again after that, so that there is always one who looks as long as there are tasks and workers.
    pub fn serve(&mut self, now: Nanos) {
        while self.waiting() > 0 {
            let handed = match (self.take(now), self.later(now)) {
                (Some(queued), _) => Handed::Task(queued),
                (None, Some(at)) => Handed::Look(at),
                (None, None) => return,
            };
            let looks = matches!(handed, Handed::Look(_));
            let Some(waiting) = self.next_waiting(false) else { return };
            match waiting.hand_over.send(handed) {
                Ok(()) if looks => return,
                Ok(()) => {}
                Err(Handed::Task(queued)) => {
                    self.measured.given_back(queued.priority, now);
                    self.keep(queued, true);
                }
                Err(Handed::Look(_)) => {}
            }
        }
    }

    /// The worker that waited longest; one of this node, if there is one and that is wanted.
    fn next_waiting(&mut self, near_first: bool) -> Option<Waiting> {
        let near = match (self.waiting.first_key_value(), self.waiting_elsewhere.first_key_value()) {
            (Some((near, _)), Some((far, _))) => near_first || near < far,
            (_, far) => far.is_none(),
        };
        let next = if near { self.waiting.pop_first() } else { self.waiting_elsewhere.pop_first() };
        next.map(|(_, waiting)| waiting)
    }

    /// Whether nothing waits here and nothing has to wait: a task and a worker may meet elsewhere, and nobody is overtaken.
    pub fn is_quiet(&self) -> bool {
        self.backlog_len == 0 && !self.overflowed && self.limits.is_unlimited()
    }

    /// When the first of the tasks that wait may go, if there are some and none may go now.
    pub fn later(&mut self, now: Nanos) -> Option<Nanos> {
        if self.limits.is_unlimited() || self.backlog_len == 0 {
            return None;
        }
        let keys = self.backlog.values().flat_map(Level::keys);
        let at = keys.map(|key| self.limits.at(key)).min().filter(|at| *at > now)?;
        self.limits.hold(now);
        Some(at)
    }

    fn keep(&mut self, queued: Queued, first: bool) -> Offered {
        if queued.task.is_stored() && self.is_full() && !self.make_room(queued.priority) {
            self.overflowed = true;
            return Offered::Overflowed;
        }
        self.backlog.entry(queued.priority).or_default().push(queued, first);
        self.backlog_len += 1;
        Offered::Kept
    }

    /// Forgets the last task that is less urgent, if storage knows it.
    fn make_room(&mut self, priority: i32) -> bool {
        let Some(mut last) = self.backlog.last_entry() else { return false };
        if *last.key() <= priority || !last.get().last().is_some_and(|queued| queued.task.is_stored()) {
            return false;
        }
        last.get_mut().pop_last();
        if last.get().is_empty() {
            last.remove();
        }
        self.backlog_len -= 1;
        self.overflowed = true;
        true
    }

    /// The next task, if one waits and may go.
    pub fn take(&mut self, now: Nanos) -> Option<Queued> {
        let limits = &self.limits;
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
            let (key, own) = queued.turn();
            self.limits.spend(key, own, now);
        }
        self.backlog_len -= 1;
        self.measured.dispatched(priority, now);
        Some(queued)
    }

    /// Lets a worker wait. Numbers grow from one worker to the next.
    pub fn wait(&mut self, id: u64, worker: String, hand_over: oneshot::Sender<Handed>) {
        self.waiting.insert(id, Waiting { worker, hand_over });
    }

    /// The same for a worker at another node.
    pub fn wait_elsewhere(&mut self, id: u64, worker: String, hand_over: oneshot::Sender<Handed>) {
        self.waiting_elsewhere.insert(id, Waiting { worker, hand_over });
    }

    /// A worker gave up waiting.
    pub fn forget(&mut self, id: u64) {
        if self.waiting.remove(&id).is_none() {
            self.waiting_elsewhere.remove(&id);
        }
    }

    /// Sends away all waiting workers of a process: their polls end empty at once.
    pub fn dismiss(&mut self, worker: &str) {
        self.waiting.retain(|_, waiting| waiting.worker != worker);
        self.waiting_elsewhere.retain(|_, waiting| waiting.worker != worker);
    }

    /// Sends everybody away.
    pub fn dismiss_all(&mut self) {
        self.waiting.clear();
        self.waiting_elsewhere.clear();
    }

    /// Tasks of a priority met workers at another node.
    pub fn met_elsewhere(&mut self, priority: i32, count: u32, now: Nanos) {
        self.measured.passed(priority, count, now);
    }

    /// A worker asked.
    pub fn polled(&mut self, identity: &str, version: &PollerVersion, now: Nanos) {
        self.last_poll = now;
        self.abandoned = false;
        if let Some((at, known)) = self.pollers.get_mut(identity) {
            *at = now;
            if known != version {
                known.clone_from(version);
            }
            return;
        }
        if self.pollers.len() >= POLLERS_MAX {
            let oldest = self.pollers.iter().min_by_key(|(_, (at, _))| *at).map(|(identity, _)| identity.clone());
            oldest.map(|identity| self.pollers.remove(&identity));
        }
        self.pollers.insert(identity.to_owned(), (now, version.clone()));
    }

    /// An identity will not ask again.
    pub fn forget_poller(&mut self, identity: &str) {
        self.pollers.remove(identity);
    }

    /// Workers that asked since a moment, by identity.
    pub fn pollers(&mut self, since: Nanos) -> Vec<Poller> {
        self.pollers.retain(|_, (at, _)| *at > since);
        let poller = |(identity, (at, version)): (&String, &(Nanos, PollerVersion))| Poller {
            identity: identity.clone(),
            at: *at,
            version: version.clone(),
        };
        let mut pollers: Vec<_> = self.pollers.iter().map(poller).collect();
        pollers.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
        pollers
    }

    /// Whether somebody who takes commands is there, and not too many wait already.
    pub fn takes_commands(&self, now: Nanos) -> bool {
        let served = self.waiting() > 0 || now - self.last_poll < COMMAND_AGE_MAX;
        served && self.backlog_len < COMMANDS_MAX
    }

    /// Takes everything that waits, for another queue.
    pub fn drain(&mut self) -> Vec<TaskOffer> {
        self.backlog_len = 0;
        std::mem::take(&mut self.backlog).into_values().flat_map(Level::into_tasks).map(|queued| queued.task).collect()
    }

    /// How many tasks wait, how long the oldest has, and how many come and go, by priority. Queries have a priority of
    /// their own and do not count.
    pub fn stats(&self, now: Nanos) -> BTreeMap<i32, QueueStats> {
        let mut stats = self.measured.rates(now);
        for (priority, tasks) in &self.backlog {
            let stats = stats.entry(*priority).or_default();
            stats.backlog = tasks.len();
            stats.oldest = tasks.oldest().map_or(0, |since| (now - since).max(0));
        }
        stats.remove(&QUERY_PRIORITY);
        stats
    }

    /// How many polls more or fewer a worker should make whose poll waited so long.
    pub fn advice(&mut self, waited: Nanos, now: Nanos) -> i32 {
        let mut budget = std::mem::take(&mut self.advice);
        let stats = || self.stats(now).into_values().collect();
        let advice = budget.advice(waited, self.pollers.len(), now, self.sticky, stats);
        self.advice = budget;
        advice
    }

    /// Whether somebody waits here, or did not long ago.
    pub fn in_use(&self, now: Nanos, memory: Nanos) -> bool {
        self.backlog_len > 0 || self.waiting() > 0 || self.overflowed || now - self.last_poll < memory
    }

    /// Whether the worker of a sticky queue is gone. Tasks that wait there time out and are offered elsewhere; what is left
    /// here is out of date.
    pub fn is_deserted(&self, now: Nanos) -> bool {
        self.sticky && self.waiting() == 0 && now - self.last_poll > DESERTED_AFTER
    }

    /// Tasks waiting.
    pub fn len(&self) -> usize {
        self.backlog_len
    }

    /// Workers waiting.
    pub fn waiting(&self) -> usize {
        self.waiting.len() + self.waiting_elsewhere.len()
    }

    /// Tasks that wait here, for refilling without doubles: the run, and the scheduled event of an activity or 0.
    pub fn known_tasks(&self) -> HashSet<(RunKey, i64)> {
        let tasks = self.backlog.values().flat_map(Level::iter);
        tasks
            .filter_map(|queued| match &queued.task {
                TaskOffer::Workflow { run, .. } => Some((*run, 0)),
                TaskOffer::Activity { run, scheduled_event_id, .. } => Some((*run, *scheduled_event_id)),
                TaskOffer::Query(_) | TaskOffer::Command(_) | TaskOffer::Remote(_) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(run: u64) -> TaskOffer {
        TaskOffer::Workflow { run: RunKey(run), stamp: 1, speculative: false }
    }

    fn run_of(queued: Option<Queued>) -> Option<u64> {
        match queued.map(|queued| queued.task) {
            Some(TaskOffer::Workflow { run, .. }) => Some(run.0),
            _ => None,
        }
    }

    #[test]
    fn a_waiting_worker_gets_the_task_directly() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (sender, mut receiver) = oneshot::channel();
        queue.wait(1, "w".into(), sender);
        assert_eq!(queue.offer(task(7), 3, 0), Offered::HandedOver);
        let Ok(Handed::Task(handed)) = receiver.try_recv() else { panic!("no task") };
        assert_eq!(run_of(Some(handed)), Some(7));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_worker_that_is_gone_swallows_nothing() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (sender, receiver) = oneshot::channel();
        queue.wait(1, "w".into(), sender);
        drop(receiver);
        assert_eq!(queue.offer(task(7), 3, 0), Offered::Kept);
        assert_eq!(run_of(queue.take(0)), Some(7));
    }

    #[test]
    fn lower_priority_keys_come_first_and_ties_by_age() {
        let mut queue = Queue::new(BACKLOG_MAX);
        for (run, priority) in [(1, 3), (2, 3), (3, 1), (4, 5)] {
            queue.offer(task(run), priority, 0);
        }
        let order: Vec<_> = std::iter::from_fn(|| run_of(queue.take(0))).collect();
        assert_eq!(order, [3, 1, 2, 4]);
    }

    #[test]
    fn a_full_queue_notes_that_storage_knows_more() {
        let mut queue = Queue::new(BACKLOG_MAX);
        for run in 0..BACKLOG_MAX as u64 {
            assert_eq!(queue.offer(task(run), 3, 0), Offered::Kept);
        }
        assert_eq!(queue.offer(task(1), 3, 0), Offered::Overflowed);
        assert!(queue.overflowed);
        assert_eq!(queue.len(), BACKLOG_MAX);
    }

    #[test]
    fn a_full_queue_forgets_the_least_urgent_first() {
        let mut queue = Queue::new(BACKLOG_MAX);
        for run in 0..BACKLOG_MAX as u64 {
            queue.offer(task(run), 4, 0);
        }
        assert_eq!(queue.offer(task(1_000_000), 2, 0), Offered::Kept);
        assert!(queue.overflowed, "another one was forgotten for it");
        assert_eq!(queue.len(), BACKLOG_MAX);
        assert_eq!(run_of(queue.take(0)), Some(1_000_000));
    }

    #[test]
    fn a_full_queue_keeps_what_storage_does_not_know() {
        let mut queue = Queue::new(BACKLOG_MAX);
        for run in 0..BACKLOG_MAX as u64 {
            queue.offer(task(run), 3, 0);
        }
        let speculative = TaskOffer::Workflow { run: RunKey(7), stamp: 1, speculative: true };
        assert_eq!(queue.offer(speculative, 3, 0), Offered::Kept);
    }

    #[test]
    fn a_task_that_is_taken_back_keeps_its_priority_and_its_age() {
        let mut queue = Queue::new(BACKLOG_MAX);
        for (run, priority) in [(1, 1), (2, 3), (3, 5), (4, 5)] {
            queue.offer(task(run), priority, 10);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take(20)).take(3).collect();
        for queued in taken.into_iter().rev() {
            queue.take_back(queued, 30);
        }
        assert_eq!(queue.stats(40)[&5].oldest, 30);
        let order: Vec<_> = std::iter::from_fn(|| run_of(queue.take(40))).collect();
        assert_eq!(order, [1, 2, 3, 4]);
    }

    #[test]
    fn pollers_are_few_and_the_newest_are_known() {
        let mut queue = Queue::new(BACKLOG_MAX);
        for at in 0..10 * POLLERS_MAX as Nanos {
            queue.polled(&format!("worker {at}"), &PollerVersion::default(), at);
        }
        let pollers = queue.pollers(-1);
        assert_eq!(pollers.len(), POLLERS_MAX);
        assert!(pollers.iter().all(|poller| poller.at >= 9 * POLLERS_MAX as Nanos));
    }

    #[test]
    fn giving_up_waiting_costs_the_same_however_many_wait() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let mut kept = Vec::new();
        for id in 0..200_000 {
            let (sender, receiver) = oneshot::channel();
            queue.wait(id, String::new(), sender);
            kept.push(receiver);
        }
        // Scanning all that wait each time would take minutes.
        for id in (0..200_000).rev() {
            queue.forget(id);
        }
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn a_queue_knows_how_much_waits_and_since_when() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let second = 1_000_000_000;
        for (run, priority, at) in [(1, 3, 10), (2, 3, 20), (3, 1, 30)] {
            queue.offer(task(run), priority, at * second);
        }
        let stats = queue.stats(40 * second);
        assert_eq!((stats[&3].backlog, stats[&3].oldest), (2, 30 * second));
        assert_eq!((stats[&1].backlog, stats[&1].oldest), (1, 10 * second));
        queue.take(40 * second);
        let stats = queue.stats(40 * second);
        assert_eq!((stats[&1].backlog, stats[&1].oldest), (0, 0));
        assert!(stats[&1].dispatch_rate > 0.0 && stats[&3].dispatch_rate == 0.0);
    }

    #[test]
    fn a_task_of_this_node_goes_to_a_worker_of_this_node_first() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (far, mut at_another) = oneshot::channel();
        queue.wait_elsewhere(1, String::new(), far);
        let (near, mut at_this) = oneshot::channel();
        queue.wait(2, String::new(), near);
        assert_eq!(queue.waiting(), 2);
        assert_eq!(queue.offer(task(7), 3, 0), Offered::HandedOver);
        assert!(at_this.try_recv().is_ok() && at_another.try_recv().is_err());
        assert_eq!(queue.offer(task(8), 3, 0), Offered::HandedOver);
        assert!(at_another.try_recv().is_ok());
        assert_eq!(queue.offer(task(9), 3, 0), Offered::Kept);
    }

    #[test]
    fn a_task_of_another_node_goes_to_whoever_waited_longest() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (far, mut at_another) = oneshot::channel();
        queue.wait_elsewhere(1, String::new(), far);
        let (near, _at_this) = oneshot::channel();
        queue.wait(2, String::new(), near);
        assert_eq!(queue.offer(TaskOffer::Remote(Box::default()), 3, 0), Offered::HandedOver);
        assert!(at_another.try_recv().is_ok());
    }

    #[test]
    fn a_queue_is_quiet_while_nothing_waits_and_nothing_is_limited() {
        let mut queue = Queue::new(BACKLOG_MAX);
        assert!(queue.is_quiet());
        queue.offer(task(1), 3, 0);
        assert!(!queue.is_quiet(), "a task waits");
        queue.take(0);
        assert!(queue.is_quiet());
        queue.limits.asked(5.0);
        assert!(!queue.is_quiet(), "a worker limits it");
    }

    #[test]
    fn dismissed_workers_end_their_polls() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (sender, mut receiver) = oneshot::channel::<Handed>();
        queue.wait(1, "gone".into(), sender);
        queue.dismiss("gone");
        assert!(receiver.try_recv().is_err());
        assert_eq!(queue.waiting(), 0);
    }
}
