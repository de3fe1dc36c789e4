//! Task queues as a data structure: tasks on one side, waiting workers on the other. No IO, no clock.
//!
//! A task meets a waiting worker directly. What no worker takes waits in the backlog, which is bounded: every task can
//! be derived from its run, so a queue over its limit forgets the rest, notes that it did, and is refilled from storage
//! once it runs low.

use std::collections::BTreeMap;

use segno_environment::hash::{HashMap, HashSet};
use segno_proto::{Nanos, common::WorkerVersionCapabilities, deployment::WorkerDeploymentOptions};
use segno_store::RunKey;
use tokio::sync::oneshot;

use super::{
    fair::Level,
    limits::QueueLimits,
    poller_scaling::AdviceBudget,
    stats::{QueueStats, TaskRates},
    task::{Fairness, QueuedTask, TaskOffer},
};

/// Commands that wait on one queue.
pub const COMMANDS_MAX: usize = 1000;
/// A command that waited this long is not worth taking. Long enough for a worker that was cut off and taken for lost to
/// come back and hear that it must stop.
pub const COMMAND_AGE_MAX: Nanos = 120 * 1_000_000_000;
/// Queries come before everything else.
pub const QUERY_PRIORITY: i32 = 0;

/// Pollers a queue remembers; the one that was silent longest is forgotten first.
pub const POLLERS_MAX: usize = 1000;

/// A sticky queue that was not polled for so long is not polled again: its tasks time out after ten seconds or so.
const DESERTED_AFTER: Nanos = 60 * 1_000_000_000;

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

/// A worker that polled lately.
#[derive(Clone, Debug, PartialEq)]
pub struct Poller {
    /// The name people know.
    pub identity: String,
    /// When its last poll began.
    pub at: Nanos,
    /// What it said of its version then.
    pub version: PollerVersion,
}

/// What a waiting poll gets.
#[derive(Debug)]
pub enum PollAnswer {
    /// Here is a task.
    Task(QueuedTask),
    /// A limit holds a task back until this time: the poll tries again then.
    RetryAt(Nanos),
}

/// A poll that waits.
struct WaitingPoll {
    worker: String,
    hand_over: oneshot::Sender<PollAnswer>,
}

/// One queue.
pub struct Queue {
    /// Most tasks in the backlog that storage knows as well.
    backlog_max: usize,
    /// By priority (lower first), then by fairness and age.
    backlog: BTreeMap<i32, Level>,
    backlog_len: usize,
    /// By their numbers, which grow: the longest waiting first.
    waiting: BTreeMap<u64, WaitingPoll>,
    /// Polls that wait at other nodes, which take from here, likewise.
    waiting_elsewhere: BTreeMap<u64, WaitingPoll>,
    /// Tasks were not kept: storage knows them.
    pub overflowed: bool,
    /// When the last poll began.
    pub last_poll: Nanos,
    /// Workers that polled lately, by identity: when, and what they said of their version.
    pollers: HashMap<String, (Nanos, PollerVersion)>,
    /// Polls of this queue come from the one worker that has runs in its cache.
    pub sticky: bool,
    /// A worker said that it will not come back to this (sticky) queue.
    pub abandoned: bool,
    /// What came and went, by priority.
    measured: TaskRates,
    /// How much may go.
    pub limits: QueueLimits,
    /// How much advice to poll more may be given.
    advice: AdviceBudget,
}

/// What became of an offer.
#[derive(Debug, PartialEq, Eq)]
pub enum OfferOutcome {
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
            measured: TaskRates::default(),
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
    pub fn offer(&mut self, task: TaskOffer, priority: i32, now: Nanos) -> OfferOutcome {
        self.offer_fairly(task, priority, None, now)
    }

    /// The same for a task that takes turns with others.
    pub fn offer_fairly(
        &mut self,
        task: TaskOffer,
        priority: i32,
        fairness: Option<Box<Fairness>>,
        now: Nanos,
    ) -> OfferOutcome {
        self.measured.added(priority, now);
        self.hand_over_or_keep(QueuedTask { task, priority, since: now, fairness }, now, false)
    }

    /// Takes back a task that a worker did not get: it is next among those of its priority.
    pub fn take_back(&mut self, queued: QueuedTask, now: Nanos) -> OfferOutcome {
        self.measured.given_back(queued.priority, now);
        self.hand_over_or_keep(queued, now, true)
    }

    fn hand_over_or_keep(&mut self, mut queued: QueuedTask, now: Nanos, first: bool) -> OfferOutcome {
        if !self.limits.is_unlimited() {
            let kept = self.keep(queued, first);
            self.serve(now);
            return kept;
        }
        // What is here is started here: a worker of this node saves the way.
        let is_own = !matches!(queued.task, TaskOffer::Remote(_));
        while let Some(waiting) = self.next_waiting(is_own) {
            let priority = queued.priority;
            match waiting.hand_over.send(PollAnswer::Task(queued)) {
                Ok(()) => {
                    self.measured.dispatched(priority, now);
                    return OfferOutcome::HandedOver;
                }
                // That worker gave up in the same moment; the next one may have it.
                Err(PollAnswer::Task(returned)) => queued = returned,
                Err(PollAnswer::RetryAt(_)) => return OfferOutcome::Kept,
            }
        }
        self.keep(queued, first)
    }

    /// Hands tasks that may go to waiting polls. If a limit holds a task back, one poll is told when to try again; it does
    /// this again after that, so that one poll always tries as long as there are tasks and polls.
    pub fn serve(&mut self, now: Nanos) {
        while self.waiting() > 0 {
            let handed = match (self.take(now), self.later(now)) {
                (Some(queued), _) => PollAnswer::Task(queued),
                (None, Some(at)) => PollAnswer::RetryAt(at),
                (None, None) => return,
            };
            let looks = matches!(handed, PollAnswer::RetryAt(_));
            let Some(waiting) = self.next_waiting(false) else { return };
            match waiting.hand_over.send(handed) {
                Ok(()) if looks => return,
                Ok(()) => {}
                Err(PollAnswer::Task(queued)) => {
                    self.measured.given_back(queued.priority, now);
                    self.keep(queued, true);
                }
                Err(PollAnswer::RetryAt(_)) => {}
            }
        }
    }

    /// The worker that waited longest; one of this node, if there is one and that is wanted.
    fn next_waiting(&mut self, near_first: bool) -> Option<WaitingPoll> {
        let near = match (self.waiting.first_key_value(), self.waiting_elsewhere.first_key_value()) {
            (Some((near, _)), Some((far, _))) => near_first || near < far,
            (_, far) => far.is_none(),
        };
        let next = if near { self.waiting.pop_first() } else { self.waiting_elsewhere.pop_first() };
        next.map(|(_, waiting)| waiting)
    }

    /// Whether no task waits here and none has to wait: a task that meets a worker elsewhere overtakes no other.
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

    fn keep(&mut self, queued: QueuedTask, first: bool) -> OfferOutcome {
        if queued.task.is_stored() && self.is_full() && !self.make_room(queued.priority) {
            self.overflowed = true;
            return OfferOutcome::Overflowed;
        }
        self.backlog.entry(queued.priority).or_default().push(queued, first);
        self.backlog_len += 1;
        OfferOutcome::Kept
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
    pub fn take(&mut self, now: Nanos) -> Option<QueuedTask> {
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
    pub fn wait(&mut self, id: u64, worker: String, hand_over: oneshot::Sender<PollAnswer>) {
        self.waiting.insert(id, WaitingPoll { worker, hand_over });
    }

    /// The same for a worker at another node.
    pub fn wait_elsewhere(&mut self, id: u64, worker: String, hand_over: oneshot::Sender<PollAnswer>) {
        self.waiting_elsewhere.insert(id, WaitingPoll { worker, hand_over });
    }

    /// A worker gave up waiting.
    pub fn forget(&mut self, id: u64) {
        if self.waiting.remove(&id).is_none() {
            self.waiting_elsewhere.remove(&id);
        }
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

    /// Tasks of a priority met workers at another node.
    pub fn met_elsewhere(&mut self, priority: i32, count: u32, now: Nanos) {
        self.measured.passed(priority, count, now);
    }

    /// A worker polls.
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

    /// An identity will not poll again.
    pub fn forget_poller(&mut self, identity: &str) {
        self.pollers.remove(identity);
    }

    /// Workers that polled since a moment, by identity.
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

    /// Whether a worker takes commands here, and not too many wait already.
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

    /// Whether a task or a poll waits here, or did not long ago.
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

    const BACKLOG_MAX: usize = 50_000;

    fn task(run: u64) -> TaskOffer {
        TaskOffer::Workflow { run: RunKey(run), stamp: 1, speculative: false }
    }

    fn run_of(queued: Option<QueuedTask>) -> Option<u64> {
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
        assert_eq!(queue.offer(task(7), 3, 0), OfferOutcome::HandedOver);
        let Ok(PollAnswer::Task(handed)) = receiver.try_recv() else { panic!("no task") };
        assert_eq!(run_of(Some(handed)), Some(7));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_worker_that_is_gone_swallows_nothing() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (sender, receiver) = oneshot::channel();
        queue.wait(1, "w".into(), sender);
        drop(receiver);
        assert_eq!(queue.offer(task(7), 3, 0), OfferOutcome::Kept);
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
            assert_eq!(queue.offer(task(run), 3, 0), OfferOutcome::Kept);
        }
        assert_eq!(queue.offer(task(1), 3, 0), OfferOutcome::Overflowed);
        assert!(queue.overflowed);
        assert_eq!(queue.len(), BACKLOG_MAX);
    }

    #[test]
    fn a_full_queue_forgets_the_least_urgent_first() {
        let mut queue = Queue::new(BACKLOG_MAX);
        for run in 0..BACKLOG_MAX as u64 {
            queue.offer(task(run), 4, 0);
        }
        assert_eq!(queue.offer(task(1_000_000), 2, 0), OfferOutcome::Kept);
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
        assert_eq!(queue.offer(speculative, 3, 0), OfferOutcome::Kept);
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
        assert_eq!(queue.offer(task(7), 3, 0), OfferOutcome::HandedOver);
        assert!(at_this.try_recv().is_ok() && at_another.try_recv().is_err());
        assert_eq!(queue.offer(task(8), 3, 0), OfferOutcome::HandedOver);
        assert!(at_another.try_recv().is_ok());
        assert_eq!(queue.offer(task(9), 3, 0), OfferOutcome::Kept);
    }

    #[test]
    fn a_task_of_another_node_goes_to_whoever_waited_longest() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (far, mut at_another) = oneshot::channel();
        queue.wait_elsewhere(1, String::new(), far);
        let (near, _at_this) = oneshot::channel();
        queue.wait(2, String::new(), near);
        assert_eq!(queue.offer(TaskOffer::Remote(Box::default()), 3, 0), OfferOutcome::HandedOver);
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
        queue.limits.set_by_worker(5.0);
        assert!(!queue.is_quiet(), "a worker limits it");
    }

    #[test]
    fn dismissed_workers_end_their_polls() {
        let mut queue = Queue::new(BACKLOG_MAX);
        let (sender, mut receiver) = oneshot::channel::<PollAnswer>();
        queue.wait(1, "gone".into(), sender);
        queue.dismiss("gone");
        assert!(receiver.try_recv().is_err());
        assert_eq!(queue.waiting(), 0);
    }
}
