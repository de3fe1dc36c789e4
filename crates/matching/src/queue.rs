//! Task queues as a data structure: tasks on one side, waiting workers on the other. No IO, no clock.
//!
//! A queue has a lane for each version of workers, and one for workers without a version. A task meets a waiting worker of its
//! lane directly. What no worker takes waits in the lane's backlog. The backlogs are bounded together: every task can be
//! derived from its run, so a queue over its limit forgets the rest, notes that it did, and is refilled from storage once it
//! runs low.

use std::collections::BTreeMap;

use segno_deployments::Version;
use segno_environment::hash::HashSet;
use segno_proto::Nanos;
use segno_store::RunKey;
use tokio::sync::oneshot;

use super::{
    QueueService,
    lane::{Lane, Lanes, PollAnswer},
    limits::QueueLimits,
    poller::{Poller, PollerVersion},
    route::{LaneRouting, TaskRoute},
    stats::QueueStats,
    task::{Fairness, QueuedTask, TaskOffer},
    versions::{LaneService, VersionWait},
};

/// Commands that wait on one queue.
pub const COMMANDS_MAX: usize = 1000;
/// A command that waited this long is not worth taking. Long enough for a worker that was cut off and taken for lost to
/// come back and hear that it must stop.
pub const COMMAND_AGE_MAX: Nanos = 120 * 1_000_000_000;
/// No caller waits longer for a direct call to a handler.
pub const CALL_AGE_MAX: Nanos = 60 * 1_000_000_000;
/// From this many tasks on, direct calls of other nodes that are over are forgotten when a new one arrives.
const CALLS_SWEEP: usize = 128;
/// Queries come before everything else.
pub const QUERY_PRIORITY: i32 = 0;
/// Trials of a candidate come after everything else.
pub const TRIAL_PRIORITY: i32 = i32::MAX;

/// A sticky queue that was not polled for so long is not polled again: its tasks time out after ten seconds or so.
const WORKER_LOST_AFTER: Nanos = 60 * 1_000_000_000;
/// While a limit holds tasks back, lanes with less urgent tasks try so much later than the one that is next.
const LANE_YIELD: Nanos = 2_000_000;
/// From this many lanes on, idle ones are forgotten when a worker polls.
const LANES_SWEEP: usize = 16;

/// One queue.
pub struct Queue {
    /// Most tasks in the backlog that storage knows as well.
    backlog_max: usize,
    lanes: Lanes,
    /// Tasks in all lanes.
    len: usize,
    /// Where tasks go.
    routing: LaneRouting,
    /// Polls of this queue come from the one worker that has runs in its cache.
    pub sticky: bool,
    /// A worker said that it will not come back to this (sticky) queue.
    pub abandoned: bool,
    /// How much may go.
    pub limits: QueueLimits,
    /// The current version of which it was logged that workers without a version poll nevertheless.
    reported_current: Option<Version>,
}

/// The outcome of an offer.
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
    pub fn new(backlog_max: usize, routing: LaneRouting) -> Self {
        Self {
            backlog_max,
            lanes: Lanes::default(),
            len: 0,
            routing,
            sticky: false,
            abandoned: false,
            limits: QueueLimits::default(),
            reported_current: None,
        }
    }

    /// Whether the lane of a poll forgot tasks and has room for many of them again.
    pub fn wants_refill(&self, version: Option<&Version>) -> bool {
        let room = (self.share() / 4).max(1);
        self.lanes.get(version).is_some_and(|lane| lane.overflowed && lane.len() < room)
    }

    /// The same for any of the lanes.
    pub fn wants_any_refill(&self) -> bool {
        self.lanes.iter().any(|(version, _)| self.wants_refill(version))
    }

    /// How many tasks each lane may have when all have many.
    fn share(&self) -> usize {
        self.backlog_max / self.lanes.count()
    }

    /// Whether it takes no more tasks that storage knows, but for lanes without workers.
    pub fn is_full(&self, now: Nanos, memory: Nanos) -> bool {
        let has_enough = |lane: &Lane| lane.len() >= self.share() || now - lane.last_poll >= memory;
        self.len >= self.backlog_max && self.lanes.iter().all(|(_, lane)| has_enough(lane))
    }

    /// Whether storage knows tasks which are not here.
    pub fn is_overflowed(&self) -> bool {
        self.lanes.iter().any(|(_, lane)| lane.overflowed)
    }

    /// Notes that storage knows tasks which are not here.
    pub fn mark_overflowed(&mut self) {
        self.lanes.iter_mut().for_each(|(_, lane)| lane.overflowed = true);
    }

    /// Forgets that note.
    pub fn clear_overflowed(&mut self) {
        self.lanes.iter_mut().for_each(|(_, lane)| lane.overflowed = false);
    }

    /// Offers a task to the longest waiting worker of its lane, or keeps it.
    pub fn offer(&mut self, task: TaskOffer, priority: i32, now: Nanos) -> OfferOutcome {
        self.offer_routed(task, priority, None, TaskRoute::default(), now)
    }

    /// The same for a task that takes turns with others, and goes to some version.
    pub fn offer_routed(
        &mut self,
        task: TaskOffer,
        priority: i32,
        fairness: Option<Box<Fairness>>,
        route: TaskRoute,
        now: Nanos,
    ) -> OfferOutcome {
        if task.is_call() && self.len >= CALLS_SWEEP {
            self.forget_calls(|queued| now - queued.since > CALL_AGE_MAX);
        }
        let queued = QueuedTask { task, priority, since: now, fairness, route };
        let version = self.routing.version_for(&queued.route).cloned();
        self.lanes.open(version.as_ref()).measured.added(priority, now);
        self.hand_over_or_keep(queued, version, now, false)
    }

    /// Takes back a task that a worker did not get: it is next among those of its priority.
    pub fn take_back(&mut self, queued: QueuedTask, now: Nanos) -> OfferOutcome {
        let version = self.routing.version_for(&queued.route).cloned();
        self.lanes.open(version.as_ref()).measured.given_back(queued.priority, now);
        self.hand_over_or_keep(queued, version, now, true)
    }

    fn hand_over_or_keep(
        &mut self,
        mut queued: QueuedTask,
        version: Option<Version>,
        now: Nanos,
        first: bool,
    ) -> OfferOutcome {
        let version = version.as_ref();
        if !self.limits.is_unlimited() {
            let kept = self.keep(queued, version, first);
            self.serve(now);
            return kept;
        }
        // What is here is started here: a worker of this node saves the way.
        let is_own = !matches!(queued.task, TaskOffer::Remote(_));
        let lane = self.lanes.open(version);
        while let Some(waiting) = lane.next_waiting(is_own) {
            let priority = queued.priority;
            match waiting.hand_over.send(PollAnswer::Task(queued)) {
                Ok(()) => {
                    lane.measured.dispatched(priority, now);
                    return OfferOutcome::HandedOver;
                }
                // That worker gave up in the same moment; the next one may have it.
                Err(PollAnswer::Task(returned)) => queued = returned,
                Err(PollAnswer::RetryAt(_)) => return OfferOutcome::Kept,
            }
        }
        self.keep(queued, version, first)
    }

    /// The current version, if all tasks go to versions and this was not reported yet; from now on it counts as reported.
    pub fn unreported_current(&mut self) -> Option<Version> {
        let current = self.routing.only_versions().filter(|current| self.reported_current.as_ref() != Some(current))?;
        self.reported_current = Some(current.clone());
        Some(current)
    }

    /// Reads the routing again: tasks whose version changed go to other lanes, by their age, and polls that wait are served.
    pub fn reroute(&mut self, routing: LaneRouting, now: Nanos) {
        self.routing = routing;
        let (routing, mut moved) = (&self.routing, Vec::new());
        for (version, lane) in self.lanes.iter_mut() {
            lane.extract(|queued| routing.version_for(&queued.route) == version, &mut moved);
        }
        for queued in moved {
            self.lanes.open(self.routing.version_for(&queued.route)).push(queued, false);
        }
        self.lanes.iter_mut().for_each(|(_, lane)| lane.sort_by_age());
        if self.is_overflowed() {
            // The versions of forgotten tasks may have changed as well.
            self.mark_overflowed();
        }
        self.serve(now);
    }

    /// Hands tasks that may go to waiting polls, in each lane. The lane with the most urgent task comes first.
    pub fn serve(&mut self, now: Nanos) {
        if self.lanes.count() == 1 {
            return self.serve_lane(None, now);
        }
        let ready = self.lanes.iter().filter(|(_, lane)| lane.waiting() > 0);
        let mut ready: Vec<_> = ready.filter_map(|(version, lane)| Some((lane.head()?, version.cloned()))).collect();
        ready.sort_unstable_by_key(|(head, _)| *head);
        for (_, version) in ready {
            self.serve_lane(version.as_ref(), now);
        }
    }

    /// Hands tasks of a lane to its polls. If a limit holds a task back, one poll is told when to try again; it does this
    /// again after that, so that one poll always tries as long as there are tasks and polls.
    fn serve_lane(&mut self, version: Option<&Version>, now: Nanos) {
        while self.lanes.get(version).is_some_and(|lane| lane.waiting() > 0) {
            let handed = match (self.take(version, now), self.later(version, now)) {
                (Some(queued), _) => PollAnswer::Task(queued),
                (None, Some(at)) => PollAnswer::RetryAt(at),
                (None, None) => return,
            };
            let looks = matches!(handed, PollAnswer::RetryAt(_));
            let lane = self.lanes.open(version);
            let Some(waiting) = lane.next_waiting(false) else { return };
            match waiting.hand_over.send(handed) {
                Ok(()) if looks => return,
                Ok(()) => {}
                Err(PollAnswer::Task(queued)) => {
                    lane.measured.given_back(queued.priority, now);
                    self.keep(queued, version, true);
                }
                Err(PollAnswer::RetryAt(_)) => {}
            }
        }
    }

    /// Whether no task waits for a version here and none has to wait: one that meets a worker elsewhere overtakes no other.
    pub fn is_quiet(&self, version: Option<&Version>) -> bool {
        let is_quiet = |lane: &Lane| lane.len() == 0 && !lane.overflowed;
        self.lanes.get(version).is_none_or(is_quiet) && self.limits.is_unlimited()
    }

    /// When the first of the tasks of a lane may go, if there are some and none may go now.
    pub fn later(&mut self, version: Option<&Version>, now: Nanos) -> Option<Nanos> {
        if self.limits.is_unlimited() {
            return None;
        }
        let lane = self.lanes.get(version)?;
        let at = lane.earliest(&self.limits).filter(|at| *at > now)?;
        let head = lane.head();
        self.limits.hold(now);
        let is_next = !self.lanes.iter().filter_map(|(_, lane)| lane.head()).any(|other| Some(other) < head);
        Some(if is_next { at } else { at.saturating_add(LANE_YIELD) })
    }

    fn keep(&mut self, queued: QueuedTask, version: Option<&Version>, first: bool) -> OfferOutcome {
        let is_over = queued.task.is_stored() && self.len >= self.backlog_max;
        if is_over && !self.make_room(version, queued.priority) {
            self.lanes.open(version).overflowed = true;
            return OfferOutcome::Overflowed;
        }
        self.lanes.open(version).push(queued, first);
        self.len += 1;
        OfferOutcome::Kept
    }

    /// Forgets the last task of the largest lane if the lane of this one has fewer, or the last task of its own lane if that
    /// is less urgent.
    fn make_room(&mut self, version: Option<&Version>, priority: i32) -> bool {
        let own = self.lanes.get(version).map_or(0, Lane::len);
        let last = |lane: &Lane| lane.last_priority();
        let largest = self.lanes.iter().max_by_key(|(_, lane)| lane.len());
        let larger =
            largest.filter(|(_, lane)| lane.len() > own + 1 && last(lane).is_some()).map(|(of, _)| of.cloned());
        let from = match larger {
            Some(from) => from,
            None => {
                let less_urgent = self.lanes.get(version).and_then(last).is_some_and(|last| last > priority);
                if !less_urgent {
                    return false;
                }
                version.cloned()
            }
        };
        self.lanes.open(from.as_ref()).forget_last();
        self.len -= 1;
        true
    }

    /// The next task for workers of a version, if one waits and may go.
    pub fn take(&mut self, version: Option<&Version>, now: Nanos) -> Option<QueuedTask> {
        let taken = self.lanes.get_mut(version)?.take(&mut self.limits, now)?;
        self.len -= 1;
        Some(taken)
    }

    /// Lets a worker wait; at another node if `elsewhere`. Numbers grow from one worker to the next.
    pub fn wait(
        &mut self,
        version: Option<&Version>,
        id: u64,
        worker: String,
        elsewhere: bool,
        hand_over: oneshot::Sender<PollAnswer>,
    ) {
        self.lanes.open(version).wait(id, worker, elsewhere, hand_over);
    }

    /// A worker gave up waiting.
    pub fn forget(&mut self, version: Option<&Version>, id: u64) {
        if let Some(lane) = self.lanes.get_mut(version) {
            lane.forget(id);
        }
    }

    /// Ends all polls of a worker: they end empty, at once.
    pub fn dismiss(&mut self, worker: &str) {
        self.lanes.iter_mut().for_each(|(_, lane)| lane.dismiss(worker));
    }

    /// Ends all polls.
    pub fn dismiss_all(&mut self) {
        self.lanes.iter_mut().for_each(|(_, lane)| lane.dismiss_all());
    }

    /// Tasks of a priority met workers of a version at another node.
    pub fn count_remote_matches(&mut self, version: Option<&Version>, priority: i32, count: u32, now: Nanos) {
        self.lanes.open(version).measured.passed(priority, count, now);
    }

    /// A worker polls; `worker` are its identity and its instance key. Idle lanes are forgotten after `memory`.
    pub fn polled(
        &mut self,
        version: Option<&Version>,
        worker: (&str, &str),
        said: &PollerVersion,
        now: Nanos,
        memory: Nanos,
    ) {
        self.abandoned = false;
        if self.lanes.count() >= LANES_SWEEP && self.lanes.get(version).is_none() {
            self.lanes.forget_idle(now - memory);
        }
        self.lanes.open(version).polled(worker, said, now);
    }

    /// A worker will not poll again; see [`Lane::forget_poller`].
    pub fn forget_poller(&mut self, worker: (&str, &str)) {
        self.lanes.iter_mut().for_each(|(_, lane)| lane.forget_poller(worker));
    }

    /// A worker process will not poll again.
    pub fn forget_worker(&mut self, worker: &str) {
        self.lanes.iter_mut().for_each(|(_, lane)| lane.forget_worker(worker));
    }

    /// Workers that polled since a moment, by identity.
    pub fn pollers(&mut self, since: Nanos) -> Vec<Poller> {
        let mut pollers: Vec<_> = self.lanes.iter_mut().flat_map(|(_, lane)| lane.pollers(since)).collect();
        pollers.sort_unstable_by(|a, b| a.identity.cmp(&b.identity));
        pollers
    }

    /// Whether a worker of a version waits here, or polled since a moment and did not shut down.
    pub fn is_polled_by(&self, version: Option<&Version>, since: Nanos) -> bool {
        self.lanes.get(version).is_some_and(|lane| lane.is_polled(since))
    }

    /// The same of a worker of any version, or of none.
    pub fn is_polled(&self, since: Nanos) -> bool {
        self.lanes.iter().any(|(_, lane)| lane.is_polled(since))
    }

    /// Who serves the versions of workers that have a lane here.
    pub fn lanes(&self, since: Nanos) -> Vec<LaneService> {
        let service = |(version, lane): (Option<&Version>, &Lane)| LaneService {
            version: version.cloned(),
            service: QueueService {
                polls_waiting: lane.waiting(),
                last_poll: Some(lane.last_poll).filter(|last| *last != 0),
                backlog: lane.len(),
            },
            pollers: lane.pollers_since(since),
        };
        self.lanes.iter().map(service).collect()
    }

    /// Runs with a task that came before a time, for a version of which no worker has polled since another one.
    pub fn version_waits(&self, polled_since: Nanos, before: Nanos) -> impl Iterator<Item = VersionWait> {
        let unserved = self.lanes.iter().filter_map(move |(version, lane)| {
            let version = version.filter(|_| !lane.is_polled(polled_since))?;
            Some((version, lane))
        });
        unserved.flat_map(move |(version, lane)| {
            let old = lane.tasks().filter(move |queued| queued.since <= before);
            let run_of = |queued: &QueuedTask| queued.task.stored_run();
            old.filter_map(run_of).map(|(run, owner)| VersionWait { version: version.clone(), run, owner })
        })
    }

    /// When the last poll began; 0 if there was none.
    pub fn last_poll(&self) -> Nanos {
        self.lanes.iter().map(|(_, lane)| lane.last_poll).max().unwrap_or(0)
    }

    /// Whether a worker takes commands here, and not too many wait already.
    pub fn takes_commands(&self, now: Nanos) -> bool {
        let served = self.waiting() > 0 || now - self.last_poll() < COMMAND_AGE_MAX;
        served && self.len < COMMANDS_MAX
    }

    /// Forgets direct calls to handlers that are over.
    pub fn forget_calls(&mut self, is_over: impl Fn(&QueuedTask) -> bool) {
        let mut over = Vec::new();
        for (_, lane) in self.lanes.iter_mut() {
            lane.extract(|queued| !queued.task.is_call() || !is_over(queued), &mut over);
        }
        self.len -= over.len();
    }

    /// Takes everything that waits, for another queue.
    pub fn drain(&mut self) -> Vec<TaskOffer> {
        self.len = 0;
        self.lanes.iter_mut().flat_map(|(_, lane)| lane.drain()).collect()
    }

    /// How many tasks wait, how long the oldest has, and how many come and go, by priority. Queries and trials have
    /// priorities of their own and do not count.
    pub fn stats(&self, now: Nanos) -> BTreeMap<i32, QueueStats> {
        let mut stats: BTreeMap<i32, QueueStats> = BTreeMap::new();
        for (priority, of_lane) in self.lanes.iter().flat_map(|(_, lane)| lane.stats(now)) {
            stats.entry(priority).or_default().add(of_lane);
        }
        stats.remove(&QUERY_PRIORITY);
        stats.remove(&TRIAL_PRIORITY);
        stats
    }

    /// The same of the tasks that go to workers of a version now.
    pub fn stats_of(&self, version: Option<&Version>, now: Nanos) -> BTreeMap<i32, QueueStats> {
        let mut stats = self.lanes.get(version).map(|lane| lane.stats(now)).unwrap_or_default();
        stats.remove(&QUERY_PRIORITY);
        stats.remove(&TRIAL_PRIORITY);
        stats
    }

    /// How many polls more or fewer a worker should make whose poll waited so long.
    pub fn advice(&mut self, version: Option<&Version>, waited: Nanos, now: Nanos) -> i32 {
        let sticky = self.sticky;
        self.lanes.get_mut(version).map_or(0, |lane| lane.advice(waited, now, sticky))
    }

    /// Whether a task or a poll waits here, or did not long ago.
    pub fn in_use(&self, now: Nanos, memory: Nanos) -> bool {
        self.len > 0 || self.waiting() > 0 || self.is_overflowed() || now - self.last_poll() < memory
    }

    /// Whether the worker of a sticky queue is gone. Tasks that wait there time out and are offered elsewhere; what is left
    /// here is out of date.
    pub fn has_lost_its_worker(&self, now: Nanos) -> bool {
        self.sticky && self.waiting() == 0 && now - self.last_poll() > WORKER_LOST_AFTER
    }

    /// Tasks waiting.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Tasks waiting for workers of a version.
    pub fn len_of(&self, version: Option<&Version>) -> usize {
        self.lanes.get(version).map_or(0, Lane::len)
    }

    /// Workers waiting.
    pub fn waiting(&self) -> usize {
        self.lanes.iter().map(|(_, lane)| lane.waiting()).sum()
    }

    /// Tasks that wait here, for refilling without doubles: the run, and the scheduled event of an activity or 0.
    pub fn known_tasks(&self) -> HashSet<(RunKey, i64)> {
        let tasks = self.lanes.iter().flat_map(|(_, lane)| lane.tasks());
        tasks
            .filter_map(|queued| match &queued.task {
                TaskOffer::Workflow { run, .. } => Some((*run, 0)),
                TaskOffer::Activity { run, scheduled_event_id, .. }
                | TaskOffer::Nexus { run, scheduled_event_id, .. } => Some((*run, *scheduled_event_id)),
                TaskOffer::Call { .. } | TaskOffer::Query(_) | TaskOffer::Command(_) | TaskOffer::Remote(_) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            lane::POLLERS_MAX,
            remote::{RemoteTask, TaskKind},
        },
        *,
    };

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
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        let (sender, mut receiver) = oneshot::channel();
        queue.wait(None, 1, "w".into(), false, sender);
        assert_eq!(queue.offer(task(7), 3, 0), OfferOutcome::HandedOver);
        let Ok(PollAnswer::Task(handed)) = receiver.try_recv() else { panic!("no task") };
        assert_eq!(run_of(Some(handed)), Some(7));
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_worker_that_is_gone_swallows_nothing() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        let (sender, receiver) = oneshot::channel();
        queue.wait(None, 1, "w".into(), false, sender);
        drop(receiver);
        assert_eq!(queue.offer(task(7), 3, 0), OfferOutcome::Kept);
        assert_eq!(run_of(queue.take(None, 0)), Some(7));
    }

    #[test]
    fn lower_priority_keys_come_first_and_ties_by_age() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        for (run, priority) in [(1, 3), (2, 3), (3, 1), (4, 5)] {
            queue.offer(task(run), priority, 0);
        }
        let order: Vec<_> = std::iter::from_fn(|| run_of(queue.take(None, 0))).collect();
        assert_eq!(order, [3, 1, 2, 4]);
    }

    #[test]
    fn a_full_queue_notes_that_storage_knows_more() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        for run in 0..BACKLOG_MAX as u64 {
            assert_eq!(queue.offer(task(run), 3, 0), OfferOutcome::Kept);
        }
        assert_eq!(queue.offer(task(1), 3, 0), OfferOutcome::Overflowed);
        assert!(queue.is_overflowed());
        assert_eq!(queue.len(), BACKLOG_MAX);
    }

    #[test]
    fn a_full_queue_forgets_the_least_urgent_first() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        for run in 0..BACKLOG_MAX as u64 {
            queue.offer(task(run), 4, 0);
        }
        assert_eq!(queue.offer(task(1_000_000), 2, 0), OfferOutcome::Kept);
        assert!(queue.is_overflowed(), "another one was forgotten for it");
        assert_eq!(queue.len(), BACKLOG_MAX);
        assert_eq!(run_of(queue.take(None, 0)), Some(1_000_000));
    }

    #[test]
    fn calls_whose_callers_left_are_forgotten() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        queue.offer(task(7), 3, 0);
        queue.offer(TaskOffer::Call { id: 1 }, 3, 0);
        queue.offer(TaskOffer::Call { id: 2 }, 3, 0);
        queue.forget_calls(|queued| matches!(queued.task, TaskOffer::Call { id: 1 }));
        assert_eq!(queue.len(), 2);
        let remote = || {
            let call = RemoteTask { kind: TaskKind::Call as i32, query: 3, ..Default::default() };
            TaskOffer::Remote(Box::new(call))
        };
        for _ in queue.len()..CALLS_SWEEP {
            queue.offer(remote(), 3, CALL_AGE_MAX / 2);
        }
        queue.offer(remote(), 3, CALL_AGE_MAX + 1);
        assert_eq!(queue.len(), CALLS_SWEEP, "the oldest made room");
        queue.offer(remote(), 3, 2 * CALL_AGE_MAX);
        assert_eq!(queue.len(), 3, "a task of a run, the last call and the one before it");
    }

    #[test]
    fn a_full_queue_keeps_what_storage_does_not_know() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        for run in 0..BACKLOG_MAX as u64 {
            queue.offer(task(run), 3, 0);
        }
        let speculative = TaskOffer::Workflow { run: RunKey(7), stamp: 1, speculative: true };
        assert_eq!(queue.offer(speculative, 3, 0), OfferOutcome::Kept);
    }

    #[test]
    fn a_task_that_is_taken_back_keeps_its_priority_and_its_age() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        for (run, priority) in [(1, 1), (2, 3), (3, 5), (4, 5)] {
            queue.offer(task(run), priority, 10);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take(None, 20)).take(3).collect();
        for queued in taken.into_iter().rev() {
            queue.take_back(queued, 30);
        }
        assert_eq!(queue.stats(40)[&5].oldest, 30);
        let order: Vec<_> = std::iter::from_fn(|| run_of(queue.take(None, 40))).collect();
        assert_eq!(order, [1, 2, 3, 4]);
    }

    #[test]
    fn pollers_are_few_and_the_newest_are_known() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        for at in 0..10 * POLLERS_MAX as Nanos {
            queue.polled(None, (&format!("worker {at}"), ""), &PollerVersion::default(), at, Nanos::MAX);
        }
        let pollers = queue.pollers(-1);
        assert_eq!(pollers.len(), POLLERS_MAX);
        assert!(pollers.iter().all(|poller| poller.at >= 9 * POLLERS_MAX as Nanos));
    }

    #[test]
    fn giving_up_waiting_costs_the_same_however_many_wait() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        let mut kept = Vec::new();
        for id in 0..200_000 {
            let (sender, receiver) = oneshot::channel();
            queue.wait(None, id, String::new(), false, sender);
            kept.push(receiver);
        }
        // Scanning all that wait each time would take minutes.
        for id in (0..200_000).rev() {
            queue.forget(None, id);
        }
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn a_queue_knows_how_much_waits_and_since_when() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        let second = 1_000_000_000;
        for (run, priority, at) in [(1, 3, 10), (2, 3, 20), (3, 1, 30)] {
            queue.offer(task(run), priority, at * second);
        }
        let stats = queue.stats(40 * second);
        assert_eq!((stats[&3].backlog, stats[&3].oldest), (2, 30 * second));
        assert_eq!((stats[&1].backlog, stats[&1].oldest), (1, 10 * second));
        queue.take(None, 40 * second);
        let stats = queue.stats(40 * second);
        assert_eq!((stats[&1].backlog, stats[&1].oldest), (0, 0));
        assert!(stats[&1].dispatch_rate > 0.0 && stats[&3].dispatch_rate == 0.0);
    }

    #[test]
    fn a_task_of_this_node_goes_to_a_worker_of_this_node_first() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        let (far, mut at_another) = oneshot::channel();
        queue.wait(None, 1, String::new(), true, far);
        let (near, mut at_this) = oneshot::channel();
        queue.wait(None, 2, String::new(), false, near);
        assert_eq!(queue.waiting(), 2);
        assert_eq!(queue.offer(task(7), 3, 0), OfferOutcome::HandedOver);
        assert!(at_this.try_recv().is_ok() && at_another.try_recv().is_err());
        assert_eq!(queue.offer(task(8), 3, 0), OfferOutcome::HandedOver);
        assert!(at_another.try_recv().is_ok());
        assert_eq!(queue.offer(task(9), 3, 0), OfferOutcome::Kept);
    }

    #[test]
    fn a_task_of_another_node_goes_to_whoever_waited_longest() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        let (far, mut at_another) = oneshot::channel();
        queue.wait(None, 1, String::new(), true, far);
        let (near, _at_this) = oneshot::channel();
        queue.wait(None, 2, String::new(), false, near);
        assert_eq!(queue.offer(TaskOffer::Remote(Box::default()), 3, 0), OfferOutcome::HandedOver);
        assert!(at_another.try_recv().is_ok());
    }

    #[test]
    fn a_queue_is_quiet_while_nothing_waits_and_nothing_is_limited() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        assert!(queue.is_quiet(None));
        queue.offer(task(1), 3, 0);
        assert!(!queue.is_quiet(None), "a task waits");
        queue.take(None, 0);
        assert!(queue.is_quiet(None));
        queue.limits.set_by_worker(5.0);
        assert!(!queue.is_quiet(None), "a worker limits it");
    }

    #[test]
    fn dismissed_workers_end_their_polls() {
        let mut queue = Queue::new(BACKLOG_MAX, LaneRouting::SingleLane);
        let (sender, mut receiver) = oneshot::channel::<PollAnswer>();
        queue.wait(None, 1, "gone".into(), false, sender);
        queue.dismiss("gone");
        assert!(receiver.try_recv().is_err());
        assert_eq!(queue.waiting(), 0);
    }
}
