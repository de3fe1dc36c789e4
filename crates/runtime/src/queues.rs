//! Task queues as a data structure: tasks on one side, waiting workers on the other. No IO, no clock.
//!
//! A task meets a waiting worker directly. What no worker takes waits in the backlog, which is bounded: every task can
//! be derived from its run, so a queue over its limit forgets the rest, notes that it did, and is refilled from storage
//! once it runs low.

use std::collections::{BTreeMap, HashSet, VecDeque};

use segno_proto::Nanos;
use segno_store::{NamespaceKey, RunKey};
use tokio::sync::oneshot;

use crate::{
    commands::{COMMAND_AGE_MAX, COMMANDS_MAX, WorkerCommandTask},
    queries::QueryTask,
    queue_stats::{Measured, QueueStats},
};

/// Most tasks a queue keeps in memory.
pub const BACKLOG_MAX: usize = 50_000;

/// Queries come before everything else.
pub const QUERY_PRIORITY: i32 = 0;

/// Workflow tasks and activities are queued apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// Workflow tasks and queries.
    Workflow,
    /// Activities.
    Activity,
    /// Nexus tasks. There are no endpoints, so these are commands for workers alone.
    Nexus,
}

/// A queue's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// What is queued.
    pub kind: QueueKind,
    /// The user's name for it, or a worker's for its sticky queue.
    pub name: String,
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
}

/// A worker that waits.
struct Waiting {
    id: u64,
    worker: String,
    hand_over: oneshot::Sender<TaskOffer>,
}

/// A task and since when it waits.
struct Kept {
    task: TaskOffer,
    since: Nanos,
}

/// One queue.
#[derive(Default)]
pub struct Queue {
    /// By priority (lower first), then by age.
    backlog: BTreeMap<i32, VecDeque<Kept>>,
    backlog_len: usize,
    waiting: VecDeque<Waiting>,
    /// Tasks were not kept: storage knows them.
    pub overflowed: bool,
    /// When a worker last asked.
    pub last_poll: Nanos,
    /// Workers that asked lately, by identity, and when.
    pub pollers: BTreeMap<String, Nanos>,
    /// A worker said that it will not come back to this (sticky) queue.
    pub abandoned: bool,
    /// What came and went, by priority.
    measured: Measured,
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
    /// Offers a task to the longest waiting worker, or keeps it.
    pub fn offer(&mut self, task: TaskOffer, priority: i32, now: Nanos) -> Offered {
        self.measured.added(priority, now);
        self.hand_over_or_keep(task, priority, now, false)
    }

    /// Takes back a task that a worker did not get: it is next.
    pub fn take_back(&mut self, task: TaskOffer, priority: i32, now: Nanos) -> Offered {
        self.measured.given_back(priority, now);
        self.hand_over_or_keep(task, priority, now, true)
    }

    fn hand_over_or_keep(&mut self, mut task: TaskOffer, priority: i32, now: Nanos, first: bool) -> Offered {
        while let Some(waiting) = self.waiting.pop_front() {
            match waiting.hand_over.send(task) {
                Ok(()) => {
                    self.measured.dispatched(priority, now);
                    return Offered::HandedOver;
                }
                // That worker gave up in the same moment; the next one may have it.
                Err(returned) => task = returned,
            }
        }
        self.keep(Kept { task, since: now }, priority, first)
    }

    fn keep(&mut self, kept: Kept, priority: i32, first: bool) -> Offered {
        let derivable = !matches!(kept.task, TaskOffer::Query(_) | TaskOffer::Command(_));
        if derivable && self.backlog_len >= BACKLOG_MAX {
            self.overflowed = true;
            return Offered::Overflowed;
        }
        let tasks = self.backlog.entry(priority).or_default();
        if first {
            tasks.push_front(kept);
        } else {
            tasks.push_back(kept);
        }
        self.backlog_len += 1;
        Offered::Kept
    }

    /// The next task, if one waits.
    pub fn take(&mut self, now: Nanos) -> Option<TaskOffer> {
        let mut entry = self.backlog.first_entry()?;
        let priority = *entry.key();
        let kept = entry.get_mut().pop_front();
        if entry.get().is_empty() {
            entry.remove();
        }
        self.backlog_len -= usize::from(kept.is_some());
        self.measured.dispatched(priority, now);
        kept.map(|kept| kept.task)
    }

    /// Lets a worker wait.
    pub fn wait(&mut self, id: u64, worker: String, hand_over: oneshot::Sender<TaskOffer>) {
        self.waiting.push_back(Waiting { id, worker, hand_over });
    }

    /// A worker gave up waiting.
    pub fn forget(&mut self, id: u64) {
        self.waiting.retain(|waiting| waiting.id != id);
    }

    /// Sends away all waiting workers of a process: their polls end empty at once.
    pub fn dismiss(&mut self, worker: &str) {
        self.waiting.retain(|waiting| waiting.worker != worker);
    }

    /// Sends everybody away.
    pub fn dismiss_all(&mut self) {
        self.waiting.clear();
    }

    /// Whether somebody who takes commands is there, and not too many wait already.
    pub fn takes_commands(&self, now: Nanos) -> bool {
        let served = !self.waiting.is_empty() || now - self.last_poll < COMMAND_AGE_MAX;
        served && self.backlog_len < COMMANDS_MAX
    }

    /// Takes everything that waits, for another queue.
    pub fn drain(&mut self) -> Vec<TaskOffer> {
        self.backlog_len = 0;
        std::mem::take(&mut self.backlog).into_values().flatten().map(|kept| kept.task).collect()
    }

    /// How many tasks wait, how long the oldest has, and how many come and go, by priority. Queries have a priority of
    /// their own and do not count.
    pub fn stats(&self, now: Nanos) -> BTreeMap<i32, QueueStats> {
        let mut stats = self.measured.rates(now);
        for (priority, tasks) in &self.backlog {
            let stats = stats.entry(*priority).or_default();
            stats.backlog = tasks.len();
            stats.oldest = tasks.front().map_or(0, |kept| (now - kept.since).max(0));
        }
        stats.remove(&QUERY_PRIORITY);
        stats
    }

    /// Whether somebody waits here, or did not long ago.
    pub fn in_use(&self, now: Nanos, memory: Nanos) -> bool {
        self.backlog_len > 0 || !self.waiting.is_empty() || self.overflowed || now - self.last_poll < memory
    }

    /// Tasks waiting.
    pub fn len(&self) -> usize {
        self.backlog_len
    }

    /// Workers waiting.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Runs whose workflow task waits here (for refilling without doubles).
    pub fn known_runs(&self) -> HashSet<(RunKey, i64)> {
        let tasks = self.backlog.values().flatten();
        tasks
            .filter_map(|kept| match &kept.task {
                TaskOffer::Workflow { run, .. } => Some((*run, 0)),
                TaskOffer::Activity { run, scheduled_event_id, .. } => Some((*run, *scheduled_event_id)),
                TaskOffer::Query(_) | TaskOffer::Command(_) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(run: u64) -> TaskOffer {
        TaskOffer::Workflow { run: RunKey(run), stamp: 1 }
    }

    fn run_of(task: Option<TaskOffer>) -> Option<u64> {
        match task {
            Some(TaskOffer::Workflow { run, .. }) => Some(run.0),
            _ => None,
        }
    }

    #[test]
    fn a_waiting_worker_gets_the_task_directly() {
        let mut queue = Queue::default();
        let (sender, mut receiver) = oneshot::channel();
        queue.wait(1, "w".into(), sender);
        assert_eq!(queue.offer(task(7), 3, 0), Offered::HandedOver);
        assert_eq!(run_of(receiver.try_recv().ok()), Some(7));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_worker_that_is_gone_swallows_nothing() {
        let mut queue = Queue::default();
        let (sender, receiver) = oneshot::channel();
        queue.wait(1, "w".into(), sender);
        drop(receiver);
        assert_eq!(queue.offer(task(7), 3, 0), Offered::Kept);
        assert_eq!(run_of(queue.take(0)), Some(7));
    }

    #[test]
    fn lower_priority_keys_come_first_and_ties_by_age() {
        let mut queue = Queue::default();
        for (run, priority) in [(1, 3), (2, 3), (3, 1), (4, 5)] {
            queue.offer(task(run), priority, 0);
        }
        let order: Vec<_> = std::iter::from_fn(|| run_of(queue.take(0))).collect();
        assert_eq!(order, [3, 1, 2, 4]);
    }

    #[test]
    fn a_full_queue_notes_that_storage_knows_more() {
        let mut queue = Queue::default();
        for run in 0..BACKLOG_MAX as u64 {
            assert_eq!(queue.offer(task(run), 3, 0), Offered::Kept);
        }
        assert_eq!(queue.offer(task(1), 3, 0), Offered::Overflowed);
        assert!(queue.overflowed);
        assert_eq!(queue.len(), BACKLOG_MAX);
    }

    #[test]
    fn a_queue_knows_how_much_waits_and_since_when() {
        let mut queue = Queue::default();
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
    fn dismissed_workers_end_their_polls() {
        let mut queue = Queue::default();
        let (sender, mut receiver) = oneshot::channel::<TaskOffer>();
        queue.wait(1, "gone".into(), sender);
        queue.dismiss("gone");
        assert!(receiver.try_recv().is_err());
        assert_eq!(queue.waiting(), 0);
    }
}
