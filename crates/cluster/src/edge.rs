//! Polls that wait at the node they came to, of queues whose home is another node. The polls of each lane wait by themselves.
//!
//! A poll waits here, and *takes* wait at the home: a take lets the home give one task to this node. Takes do not
//! belong to polls: a task that arrives goes to the poll that waited longest, and an unused take serves the next poll.
//! So a poll that gets a task of a run of this node costs no frame. A task that arrives when no poll waits is returned
//! to the home, and is next there.
//!
//! What holds: a task of this node is handed to a worker here only while a take of this node waits at the home, and the
//! home has said that no task waits and no limit applies, or has not answered for [`SETTLE_TIME`]. The home gives a waiting
//! task to the first take, so an unanswered take means that no task waits.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use segno_deployments::Version;
use segno_dispatch::{Delivery, Poll};
use segno_environment::{hash::HashMap, lock::lock};
use segno_matching::{PollerVersion, QueueKey, TaskOffer};
use segno_store::cluster::NodeId;
use tokio::{sync::oneshot, task::AbortHandle, time::Instant};

use super::wire::PollReport;

/// A take that stood for so long without an answer stands because nothing waits at the home.
const SETTLE_TIME: Duration = Duration::from_millis(25);
/// How often a home hears of a worker that polls here.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// A limit that workers set is remembered for as long as the home remembers those workers.
const LIMITED_FOR: Duration = Duration::from_secs(300);
/// Pollers of one queue that are remembered. Each poll of any other is reported to the home.
const POLLERS_MAX: usize = 1000;

/// A lane of a queue: polls of workers of one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    pub(super) queue: QueueKey,
    /// `None` for workers without a version.
    pub(super) version: Option<Version>,
}

/// A task offered to a poll, and how it is delivered.
pub(super) type OfferedTask = (TaskOffer, Delivery);

/// The part of a poll that its home needs.
#[derive(Debug)]
pub(super) struct PollInfo {
    pub(super) identity: String,
    pub(super) worker: String,
    pub(super) sticky: bool,
    pub(super) tasks_per_second: Option<f64>,
    pub(super) version: PollerVersion,
}

/// A poll that waits. It receives `None` if it is over; dropping the sender lets it look again where the home is.
struct WaitingPoll {
    info: Arc<PollInfo>,
    hand_over: oneshot::Sender<Option<OfferedTask>>,
}

/// Who polls, and with which worker.
type Poller = (String, String);

/// A take that stands at the home.
struct PendingTake {
    since: Instant,
    request: AbortHandle,
}

/// The polls of one lane.
struct EdgeQueue {
    home: NodeId,
    sticky: bool,
    /// By their numbers, which grow: the longest waiting first.
    waiting: BTreeMap<u64, WaitingPoll>,
    /// By their numbers, likewise.
    takes: BTreeMap<u64, PendingTake>,
    /// Whether the home reported last that no task waits there.
    home_is_empty: bool,
    /// Whether the queue is configured with a limit.
    limited: bool,
    /// Until when a limit counts that workers set.
    limited_until: Option<Instant>,
    /// The pollers that were reported to the home, and when.
    reported: HashMap<Poller, Instant>,
    /// Tasks that workers got here since the last report to the home, by priority.
    local_matches: BTreeMap<i32, u32>,
    /// Most polls that waited at the same time since the last look.
    waiting_most: usize,
}

impl EdgeQueue {
    fn new(home: NodeId, limited: bool) -> Self {
        Self {
            home,
            sticky: false,
            waiting: BTreeMap::new(),
            takes: BTreeMap::new(),
            home_is_empty: false,
            limited,
            limited_until: None,
            reported: HashMap::default(),
            local_matches: BTreeMap::new(),
            waiting_most: 0,
        }
    }

    /// How many takes are to be added: up to one for each poll, but not before half of them are used up, so that they go
    /// together.
    fn takes_missing(&self) -> usize {
        let (takes, waiting) = (self.takes.len(), self.waiting.len());
        if takes < waiting && takes * 2 <= waiting { waiting - takes } else { 0 }
    }

    /// Whether a task of this node may meet a worker here.
    fn may_meet(&self, now: Instant) -> bool {
        let Some((_, oldest)) = self.takes.first_key_value() else { return false };
        let settled = self.home_is_empty || now.saturating_duration_since(oldest.since) >= SETTLE_TIME;
        settled && !self.limited && self.limited_until.is_none_or(|until| until <= now)
    }

    /// Ends takes beyond so many, the newest first.
    fn end_takes(&mut self, kept: usize) {
        while self.takes.len() > kept {
            if let Some((_, take)) = self.takes.pop_last() {
                take.request.abort();
            }
        }
    }

    /// Without a poll and a take nothing is known of the home.
    fn settle(&mut self) {
        self.home_is_empty &= !self.waiting.is_empty() || !self.takes.is_empty();
    }

    /// Hands a task to the poll that waited longest. Returns the task if no poll waits.
    fn hand_over(&mut self, task: OfferedTask) -> Option<OfferedTask> {
        let mut task = Some(task);
        while let Some((_, waiting)) = self.waiting.pop_first() {
            match waiting.hand_over.send(task) {
                Ok(()) => return None,
                // That worker gave up in the same moment.
                Err(returned) => task = returned,
            }
        }
        task
    }

    /// Ends the poll that waited longest.
    fn end_one(&mut self) {
        while let Some((_, waiting)) = self.waiting.pop_first() {
            if waiting.hand_over.send(None).is_ok() {
                return;
            }
        }
    }

    /// Whether this poller is to be reported to the home now.
    fn is_due(&mut self, poller: Poller, now: Instant) -> bool {
        if self.reported.get(&poller).is_some_and(|at| now.saturating_duration_since(*at) < REPORT_INTERVAL) {
            return false;
        }
        if self.reported.len() < POLLERS_MAX || self.reported.contains_key(&poller) {
            self.reported.insert(poller, now);
        }
        true
    }
}

/// A poll that waits here.
pub(super) struct EdgeWait<'a> {
    edge: &'a Edge,
    key: &'a LaneKey,
    id: u64,
    /// The task; nothing if the poll is over. An error says that it has to look again where the home is.
    pub(super) outcome: oneshot::Receiver<Option<OfferedTask>>,
    /// How many takes the home is to get.
    pub(super) takes_missing: usize,
    /// Whether the poller is to be reported to the home.
    pub(super) is_news: bool,
}

impl Drop for EdgeWait<'_> {
    fn drop(&mut self) {
        // What came too late is dropped with the receiver, and is given back by that.
        if let Some(queue) = lock(&self.edge.queues).get_mut(self.key) {
            queue.waiting.remove(&self.id);
            queue.settle();
        }
    }
}

/// All polls that wait here for tasks of queues whose homes are elsewhere.
#[derive(Default)]
pub(super) struct Edge {
    queues: Mutex<HashMap<LaneKey, EdgeQueue>>,
    next: AtomicU64,
}

impl Edge {
    /// Lets a poll wait. `None` if it has to look again, which `is_over` tells; it is asked under the lock, so that a
    /// caller that sends polls away finds this one, or this one sees why.
    pub(super) fn wait<'a>(
        &'a self,
        poll: &Poll,
        key: &'a LaneKey,
        home: NodeId,
        is_limited: impl FnOnce() -> bool,
        is_over: impl FnOnce() -> bool,
    ) -> Option<EdgeWait<'a>> {
        let now = Instant::now();
        let mut queues = lock(&self.queues);
        if is_over() {
            return None;
        }
        if !queues.contains_key(key) {
            queues.insert(key.clone(), EdgeQueue::new(home, is_limited()));
        }
        let queue = queues.get_mut(key)?;
        if queue.home != home {
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (hand_over, outcome) = oneshot::channel();
        let info = PollInfo {
            identity: poll.identity.clone(),
            worker: poll.caller.worker.clone(),
            sticky: poll.sticky,
            tasks_per_second: poll.tasks_per_second,
            version: poll.version.clone(),
        };
        queue.waiting.insert(id, WaitingPoll { info: Arc::new(info), hand_over });
        queue.waiting_most = queue.waiting_most.max(queue.waiting.len());
        queue.sticky = poll.sticky;
        if poll.tasks_per_second.is_some() {
            queue.limited_until = Some(now + LIMITED_FOR);
        }
        let takes_missing = queue.takes_missing();
        // A take names the poller as well.
        let is_news = queue.is_due((poll.identity.clone(), poll.caller.worker.clone()), now) && takes_missing == 0;
        Some(EdgeWait { edge: self, key, id, outcome, takes_missing, is_news })
    }

    /// Lets as many takes as are missing stand at the home, in the name of the newest poll. `begin` begins one under its
    /// number; it is called under the lock, so that no take ends before it is known.
    pub(super) fn begin_takes(&self, key: &LaneKey, begin: impl Fn(u64, Arc<PollInfo>) -> AbortHandle) {
        let mut queues = lock(&self.queues);
        let Some(queue) = queues.get_mut(key) else { return };
        let Some((_, newest)) = queue.waiting.last_key_value() else { return };
        let (info, since) = (newest.info.clone(), Instant::now());
        for _ in 0..queue.takes_missing() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            queue.takes.insert(number, PendingTake { since, request: begin(number, info.clone()) });
        }
    }

    /// Queues with polls that too few takes stand for.
    pub(super) fn wanting(&self) -> Vec<LaneKey> {
        let queues = lock(&self.queues);
        queues.iter().filter(|(_, queue)| queue.takes_missing() > 0).map(|(key, _)| key.clone()).collect()
    }

    /// A take ended. `home_is_empty`: whether no task waits at the home, if it said so with a task.
    pub(super) fn take_ended(&self, key: &LaneKey, number: u64, home_is_empty: Option<bool>) {
        if let Some(queue) = lock(&self.queues).get_mut(key)
            && queue.takes.remove(&number).is_some()
        {
            queue.home_is_empty = home_is_empty == Some(true);
            queue.settle();
        }
    }

    /// The home sent a take away: one poll ends for it.
    pub(super) fn sent_away(&self, key: &LaneKey) {
        if let Some(queue) = lock(&self.queues).get_mut(key) {
            queue.end_one();
        }
    }

    /// Hands a task that the home gave to a poll. One that no poll waits for is given back with the delivery; then all
    /// takes that are left have a poll.
    pub(super) fn deliver(&self, key: &LaneKey, task: OfferedTask) {
        let mut queues = lock(&self.queues);
        let left = match queues.get_mut(key) {
            Some(queue) => {
                let left = queue.hand_over(task);
                if left.is_some() {
                    queue.end_takes(0);
                    queue.settle();
                }
                left
            }
            None => Some(task),
        };
        drop(queues);
        drop(left);
    }

    /// Lets a task of this node meet a worker here, if that overtakes no other task. `make` makes what the worker gets; it is
    /// given back if no worker takes it.
    pub(super) fn meet(
        &self,
        key: &LaneKey,
        priority: i32,
        is_reachable: impl FnOnce(NodeId) -> bool,
        make: impl FnOnce() -> OfferedTask,
    ) -> Result<(), Option<OfferedTask>> {
        let mut queues = lock(&self.queues);
        let Some(queue) = queues.get_mut(key) else { return Err(None) };
        if queue.waiting.is_empty() || !queue.may_meet(Instant::now()) || !is_reachable(queue.home) {
            return Err(None);
        }
        match queue.hand_over(make()) {
            None => {
                *queue.local_matches.entry(priority).or_default() += 1;
                Ok(())
            }
            left => Err(left),
        }
    }

    /// Ends takes that no poll needs, forgets queues that no worker polls, and returns the reports for the homes.
    pub(super) fn take_reports(&self) -> Vec<(NodeId, LaneKey, PollReport)> {
        let mut news = Vec::new();
        let now = Instant::now();
        lock(&self.queues).retain(|key, queue| {
            let needed = std::mem::replace(&mut queue.waiting_most, queue.waiting.len());
            queue.end_takes(needed);
            queue.settle();
            if !queue.local_matches.is_empty() {
                let polls = PollReport {
                    sticky: queue.sticky,
                    met: std::mem::take(&mut queue.local_matches),
                    version: Some(PollerVersion::of(key.version.as_ref())),
                    ..Default::default()
                };
                news.push((queue.home, key.clone(), polls));
            }
            queue.reported.retain(|_, at| now.saturating_duration_since(*at) < REPORT_INTERVAL);
            queue.limited_until = queue.limited_until.filter(|until| *until > now);
            let in_use = !queue.waiting.is_empty() || !queue.takes.is_empty() || !queue.reported.is_empty();
            in_use || queue.limited_until.is_some()
        });
        news
    }

    /// Workers limit a queue.
    pub(super) fn limited_by_workers(&self, key: &QueueKey) {
        for (_, queue) in lock(&self.queues).iter_mut().filter(|(lane, _)| lane.queue == *key) {
            queue.limited_until = Some(Instant::now() + LIMITED_FOR);
        }
    }

    /// Configurations have changed.
    pub(super) fn configured(&self, is_limited: impl Fn(&QueueKey) -> bool) {
        for (key, queue) in lock(&self.queues).iter_mut() {
            queue.limited = is_limited(&key.queue);
        }
    }

    /// Lets all polls of queues that have another home now look again.
    pub(super) fn forget_moved(&self, has_moved: impl Fn(&QueueKey, NodeId) -> bool) {
        lock(&self.queues).retain(|key, queue| {
            let moved = has_moved(&key.queue, queue.home);
            if moved {
                queue.end_takes(0);
            }
            !moved
        });
    }

    /// Ends all polls of some queues.
    pub(super) fn end_polls(&self, of: impl Fn(&QueueKey) -> bool) {
        lock(&self.queues).retain(|key, queue| {
            let ends = of(&key.queue);
            while ends && !queue.waiting.is_empty() {
                queue.end_one();
            }
            if ends {
                queue.end_takes(0);
            }
            !ends
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> EdgeQueue {
        EdgeQueue::new(NodeId(7), false)
    }

    fn polls(queue: &mut EdgeQueue, count: u64) {
        for id in 0..count {
            let info = PollInfo {
                identity: String::new(),
                worker: String::new(),
                sticky: false,
                tasks_per_second: None,
                version: PollerVersion::default(),
            };
            queue.waiting.insert(id, WaitingPoll { info: Arc::new(info), hand_over: oneshot::channel().0 });
        }
    }

    fn add_takes(queue: &mut EdgeQueue, count: u64, since: Instant) {
        for number in 0..count {
            let asking = tokio::spawn(std::future::pending::<()>()).abort_handle();
            queue.takes.insert(number, PendingTake { since, request: asking });
        }
    }

    #[tokio::test]
    async fn takes_are_added_when_half_of_them_are_used_up() {
        let missing = |waiting, standing| {
            let mut queue = queue();
            polls(&mut queue, waiting);
            add_takes(&mut queue, standing, Instant::now());
            queue.takes_missing()
        };
        assert_eq!((missing(0, 0), missing(1, 0), missing(1, 1)), (0, 1, 0));
        assert_eq!((missing(2, 1), missing(3, 2), missing(4, 2)), (1, 0, 2));
        assert_eq!((missing(16, 9), missing(16, 8), missing(16, 0)), (0, 8, 16));
        assert_eq!(missing(1, 5), 0, "takes that are left serve the next polls");
    }

    #[tokio::test]
    async fn a_task_meets_a_worker_only_if_the_home_said_that_nothing_waits() {
        let now = Instant::now();
        let mut queue = queue();
        polls(&mut queue, 1);
        assert!(!queue.may_meet(now), "no take stands");
        add_takes(&mut queue, 1, now);
        assert!(!queue.may_meet(now), "the home may be about to answer");
        assert!(queue.may_meet(now + SETTLE_TIME), "it had nothing");
        queue.home_is_empty = true;
        assert!(queue.may_meet(now), "it said so");
        queue.takes.clear();
        assert!(!queue.may_meet(now), "no take stands");
    }

    #[tokio::test]
    async fn no_task_of_a_limited_queue_meets_a_worker_without_the_home() {
        let now = Instant::now();
        let mut queue = queue();
        polls(&mut queue, 1);
        add_takes(&mut queue, 1, now);
        queue.home_is_empty = true;
        queue.limited = true;
        assert!(!queue.may_meet(now), "configured");
        queue.limited = false;
        queue.limited_until = Some(now + LIMITED_FOR);
        assert!(!queue.may_meet(now), "workers limit it");
        assert!(queue.may_meet(now + LIMITED_FOR));
    }

    #[tokio::test]
    async fn without_polls_and_takes_nothing_is_known_of_the_home() {
        let mut queue = queue();
        queue.home_is_empty = true;
        add_takes(&mut queue, 1, Instant::now());
        queue.settle();
        assert!(queue.home_is_empty);
        queue.end_takes(0);
        queue.settle();
        assert!(!queue.home_is_empty);
    }

    #[tokio::test]
    async fn a_home_is_told_of_a_poller_once_a_second() {
        let now = Instant::now();
        let mut queue = queue();
        let poller = |name: &str| (name.to_owned(), String::new());
        assert!(queue.is_due(poller("a"), now));
        assert!(!queue.is_due(poller("a"), now));
        assert!(queue.is_due(poller("b"), now));
        assert!(queue.is_due(poller("a"), now + REPORT_INTERVAL));
    }
}
