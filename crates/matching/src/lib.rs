//! Task queues: workers wait here, tasks arrive here. Knows tasks and polls, not runs.
//!
//! What a full queue forgot is asked for with [`Refills`]; the task itself is found by the part that knows runs. One lock
//! protects all queues; that of sticky names is taken after it. Nothing waits while it holds a lock.

mod config;
mod fair;
mod key;
mod lane;
#[cfg(test)]
mod lane_tests;
mod limits;
mod poller;
mod poller_scaling;
mod queue;
mod refills;
mod remote;
mod route;
mod stats;
mod task;
mod versions;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use segno_deployments::{Registry, Version};
use segno_environment::{
    clock::{Clock, SLEEP_MAX, until},
    hash::HashMap,
    lock::lock,
    metrics::{Metrics, count},
};
use segno_proto::{Nanos, taskqueue::TaskQueueConfig};
use segno_store::{NamespaceKey, RunKey};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

pub use config::{ConfigKey, DOCUMENT_PREFIX};
pub use key::{QueueKey, QueueKind};
pub use limits::LimitSource;
pub use poller::{Poller, PollerVersion};
pub use queue::{CALL_AGE_MAX, COMMAND_AGE_MAX, QUERY_PRIORITY, TRIAL_PRIORITY};
pub use remote::{Command, RemoteRoute, RemoteTask, TaskKind};
pub use route::TaskRoute;
pub use stats::QueueStats;
pub use task::{Fairness, QueryTask, QueuedTask, TaskOffer, Trial, WorkerCommandTask};
pub use versions::{LaneService, VersionWait};

use lane::PollAnswer;
use limits::QueueLimits;
use queue::{OfferOutcome, Queue};
use refills::Refills;
use route::LaneRouting;

/// A sticky queue without a poll for this long has lost its worker.
const STICKY_SILENCE_MAX: Nanos = 10 * 1_000_000_000;
/// Pollers are remembered for five minutes at least.
const POLLER_MEMORY: Nanos = 300 * 1_000_000_000;
/// The priority of a task that names none.
pub const PRIORITY_DEFAULT: i32 = 3;
/// A limit that held a task back is reported for half a minute.
const LIMIT_MEMORY: Nanos = 30 * 1_000_000_000;
/// From this many queues on, unused ones are forgotten when a new one appears. Then again when there are twice as many as were left.
const QUEUES_SWEEP: usize = 1000;
/// Kinds of queues in which a worker waits.
const KINDS: [QueueKind; 4] = [QueueKind::Workflow, QueueKind::Activity, QueueKind::Nexus, QueueKind::WorkerCommand];

/// A poll, as far as its queue needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct QueuePoll<'a> {
    /// Where.
    pub queue: &'a QueueKey,
    /// The worker's name for people.
    pub identity: &'a str,
    /// The instance key of the worker.
    pub worker: &'a str,
    /// The version of the worker, as it reports it.
    pub version: &'a PollerVersion,
    /// The lane in which it waits, see [`PollerVersion::lane`].
    pub lane: Option<&'a Version>,
    /// How many tasks per second the worker wants handed out on this queue, to all workers together.
    pub tasks_per_second: Option<f64>,
    /// Until when.
    pub deadline: Instant,
    /// Whether the worker is connected to another node.
    pub elsewhere: bool,
}

/// Who serves a queue, and how much waits there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueService {
    /// Polls that wait.
    pub polls_waiting: usize,
    /// When the last poll began; `None` if there was none that is remembered.
    pub last_poll: Option<Nanos>,
    /// Tasks that wait.
    pub backlog: usize,
}

/// All task queues of a node.
pub struct Matching {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Where tasks go.
    deployments: Arc<Registry>,
    /// See [`Queue::new`].
    backlog_max: usize,
    /// How long after its last poll a worker counts as a poller.
    poller_ttl: Nanos,
    /// How long it is remembered that a queue was polled.
    poller_memory: Nanos,
    queues: Mutex<HashMap<QueueKey, Queue>>,
    /// Names of the keys of sticky queues, by the name that their worker knows. Locked after `queues`.
    sticky: Mutex<HashMap<(NamespaceKey, String), Vec<String>>>,
    next_waiting: AtomicU64,
    /// When there are more queues than this, unused ones are forgotten.
    sweep_above: AtomicUsize,
    /// Queues that forgot tasks and have room for them again.
    pub refills: Refills,
    /// Configurations by queue.
    configs: Mutex<HashMap<ConfigKey, Arc<TaskQueueConfig>>>,
    /// Notified when a limit changes, or when polls end: polls that sleep until a task may go try again.
    limits_changed: Notify,
}

/// Ends a wait however it ends, and returns a task that arrived too late to be taken.
struct Wait<'a> {
    matching: &'a Matching,
    key: &'a QueueKey,
    lane: Option<&'a Version>,
    id: u64,
    /// When it began.
    since: Nanos,
    task: oneshot::Receiver<PollAnswer>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.task.close();
        let mut queues = lock(&self.matching.queues);
        let Some(queue) = queues.get_mut(self.key) else { return };
        queue.forget(self.lane, self.id);
        match self.task.try_recv() {
            Ok(PollAnswer::Task(queued)) => drop(queue.take_back(queued, self.since)),
            // Another poll has to try again then.
            Ok(PollAnswer::RetryAt(_)) => queue.serve(self.since),
            Err(_) => {}
        }
    }
}

/// A poll that sleeps until a limit lets a task go. If it ends before that, another poll sleeps instead.
struct LimitWait<'a> {
    matching: &'a Matching,
    key: &'a QueueKey,
    since: Nanos,
}

impl Drop for LimitWait<'_> {
    fn drop(&mut self) {
        if let Some(queue) = lock(&self.matching.queues).get_mut(self.key) {
            queue.serve(self.since);
        }
    }
}

/// How a poll goes on.
enum PollStep<'a> {
    /// The poll ends: its queue has another home, or its worker left.
    Over,
    Wait(Wait<'a>),
    RetryAt(Nanos),
}

impl Matching {
    /// No queues yet.
    pub fn new(backlog_max: usize, clock: Arc<dyn Clock>, metrics: Arc<Metrics>, deployments: Arc<Registry>) -> Self {
        Self {
            clock,
            metrics,
            deployments,
            backlog_max,
            poller_ttl: POLLER_MEMORY,
            poller_memory: POLLER_MEMORY,
            queues: Mutex::default(),
            sticky: Mutex::default(),
            next_waiting: AtomicU64::new(0),
            sweep_above: AtomicUsize::new(QUEUES_SWEEP),
            refills: Refills::default(),
            configs: Mutex::default(),
            limits_changed: Notify::new(),
        }
    }

    /// The same, with workers that count as pollers for so long after their last poll.
    pub fn with_poller_ttl(self, poller_ttl: Nanos) -> Self {
        Self { poller_ttl, poller_memory: POLLER_MEMORY.max(poller_ttl), ..self }
    }

    /// A queue, with its limits and routing if it is new.
    fn queue<'a>(&self, queues: &'a mut HashMap<QueueKey, Queue>, key: &QueueKey) -> &'a mut Queue {
        if !queues.contains_key(key) {
            let mut queue = Queue::new(self.backlog_max, LaneRouting::read(&self.deployments, key));
            queue.sticky = key.kind == QueueKind::Sticky;
            if let Some(config) = lock(&self.configs).get(&ConfigKey::of(key)) {
                queue.limits.configure(config);
            }
            queues.insert(key.clone(), queue);
        }
        queues.get_mut(key).expect("it was inserted if it was not there")
    }

    /// A configuration is in effect from now on, also for the queue if that is in memory.
    pub fn set_config(&self, key: ConfigKey, config: &TaskQueueConfig) {
        let before = lock(&self.configs).insert(key.clone(), Arc::new(config.clone()));
        let Some(key) = key.limited_queue().filter(|_| before.as_deref() != Some(config)) else { return };
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.get_mut(&key) {
            queue.limits.configure(config);
            queue.serve(self.clock.now());
        }
        drop(queues);
        self.limits_changed.notify_waiters();
    }

    /// The configuration of a queue, if it has one.
    pub fn config(&self, key: &ConfigKey) -> Option<Arc<TaskQueueConfig>> {
        lock(&self.configs).get(key).cloned()
    }

    /// The rate at which a queue may hand out tasks, and whether some had to wait for it lately.
    pub fn limit_of(&self, key: &QueueKey) -> (Option<(f64, LimitSource)>, bool) {
        let queues = lock(&self.queues);
        match queues.get(key) {
            Some(queue) => (queue.limits.rate(), queue.limits.held_since(self.clock.now() - LIMIT_MEMORY)),
            None => {
                let mut limits = QueueLimits::default();
                if let Some(config) = lock(&self.configs).get(&ConfigKey::of(key)) {
                    limits.configure(config);
                }
                (limits.rate(), false)
            }
        }
    }

    /// Whether the configuration of a queue has a limit.
    pub fn is_configured_with_limits(&self, key: &QueueKey) -> bool {
        let mut limits = QueueLimits::default();
        if let Some(config) = lock(&self.configs).get(&ConfigKey::of(key)) {
            limits.configure(config);
        }
        !limits.is_unlimited()
    }

    /// Whether a queue is limited, by its configuration or by workers.
    pub fn is_limited(&self, key: &QueueKey) -> bool {
        lock(&self.queues).get(key).is_some_and(|queue| !queue.limits.is_unlimited())
    }

    /// See [`Queue::is_quiet`].
    pub fn is_quiet(&self, key: &QueueKey, lane: Option<&Version>) -> bool {
        lock(&self.queues).get(key).is_some_and(|queue| queue.is_quiet(lane))
    }

    /// A worker polls a queue at another node, if it has an identity, and tasks met workers of its version there. `worker` are its
    /// identity and its instance key.
    pub fn polled_elsewhere(
        &self,
        key: &QueueKey,
        worker: (&str, &str),
        version: &PollerVersion,
        met: &BTreeMap<i32, u32>,
    ) {
        let now = self.clock.now();
        let lane = version.lane(key.kind);
        let mut queues = lock(&self.queues);
        let queue = self.queue(&mut queues, key);
        if !worker.0.is_empty() {
            queue.polled(lane.as_ref(), worker, version, now, self.poller_memory);
        }
        met.iter().for_each(|(priority, count)| queue.count_remote_matches(lane.as_ref(), *priority, *count, now));
    }

    /// Whether a queue takes no more tasks that storage knows.
    pub fn is_full(&self, key: &QueueKey) -> bool {
        let now = self.clock.now();
        lock(&self.queues).get(key).is_some_and(|queue| queue.is_full(now, self.poller_memory))
    }

    /// The routing of a namespace has changed: its queues read it again, and polls that wait are served by it. Once this
    /// returns no task goes to a version to which it does not belong.
    pub fn routing_changed(&self, namespace: NamespaceKey) {
        let now = self.clock.now();
        for (key, queue) in lock(&self.queues).iter_mut().filter(|(key, _)| key.namespace == namespace) {
            queue.reroute(LaneRouting::read(&self.deployments, key), now);
        }
        // Polls that sleep because of a limit may have another task to sleep for.
        self.limits_changed.notify_waiters();
    }

    /// The version whose workers get a task now; `None` for those without a version.
    pub fn version_for(&self, key: &QueueKey, route: &TaskRoute) -> Option<Version> {
        LaneRouting::read(&self.deployments, key).version_for(route).cloned()
    }

    /// Whether a worker of a version waits in a queue, or polled it lately and did not shut down since.
    pub fn is_polled_by(&self, key: &QueueKey, version: Option<&Version>) -> bool {
        let since = self.clock.now() - self.poller_ttl;
        lock(&self.queues).get(key).is_some_and(|queue| queue.is_polled_by(version, since))
    }

    /// The same of a worker of any version, or of none.
    pub fn is_polled(&self, key: &QueueKey) -> bool {
        let since = self.clock.now() - self.poller_ttl;
        lock(&self.queues).get(key).is_some_and(|queue| queue.is_polled(since))
    }

    /// Statistics of the tasks that go to workers of a version now, by priority.
    pub fn stats_of(&self, key: &QueueKey, version: Option<&Version>) -> BTreeMap<i32, QueueStats> {
        let now = self.clock.now();
        lock(&self.queues).get(key).map(|queue| queue.stats_of(version, now)).unwrap_or_default()
    }

    /// Waits for a task; `None` if time is up or the poll is over, which `is_over` tells.
    pub async fn poll(&self, poll: &QueuePoll<'_>, is_over: impl Fn() -> bool) -> Option<QueuedTask> {
        let mut is_new = true;
        loop {
            let changed = self.limits_changed.notified();
            if !is_new && is_over() {
                return None;
            }
            let now = self.clock.now();
            let is_first = std::mem::take(&mut is_new);
            let taken = self.take_or_wait(poll, is_first, now, &is_over);
            if is_first {
                self.report_unversioned(poll);
            }
            let next = match taken {
                Ok(queued) => return Some(queued),
                Err(next) => next,
            };
            let at = match next {
                PollStep::Over => return None,
                PollStep::RetryAt(at) => at,
                PollStep::Wait(mut wait) => match tokio::time::timeout_at(poll.deadline, &mut wait.task).await {
                    Ok(Ok(PollAnswer::Task(queued))) => return Some(queued),
                    Ok(Ok(PollAnswer::RetryAt(at))) => at,
                    Ok(Err(_)) | Err(_) => return None,
                },
            };
            let wait = LimitWait { matching: self, key: poll.queue, since: now };
            let pause = until(self.clock.now(), at).min(SLEEP_MAX);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(poll.deadline) => return None,
                () = tokio::time::sleep(pause) => {}
                () = changed => {}
            }
            // This poll tries again itself.
            std::mem::forget(wait);
        }
    }

    /// Takes a task, or begins to wait for one.
    fn take_or_wait<'a>(
        &'a self,
        poll: &QueuePoll<'a>,
        is_new: bool,
        now: Nanos,
        is_over: &impl Fn() -> bool,
    ) -> Result<QueuedTask, PollStep<'a>> {
        let mut queues = lock(&self.queues);
        if queues.len() > self.sweep_above.load(Ordering::Relaxed) && !queues.contains_key(poll.queue) {
            // Sticky queues of workers that are long gone.
            queues.retain(|_, queue| queue.in_use(now, self.poller_memory));
            lock(&self.sticky).retain(|(namespace, _), names| {
                let is_there = |name: &String| {
                    let key = QueueKey { namespace: *namespace, kind: QueueKind::Sticky, name: name.clone() };
                    queues.contains_key(&key)
                };
                names.retain(is_there);
                !names.is_empty()
            });
            self.sweep_above.store(QUEUES_SWEEP.max(2 * queues.len()), Ordering::Relaxed);
        }
        if poll.queue.kind == QueueKind::Sticky && !queues.contains_key(poll.queue) {
            self.note_sticky(poll.queue);
        }
        let queue = self.queue(&mut queues, poll.queue);
        if is_new {
            queue.polled(poll.lane, (poll.identity, poll.worker), poll.version, now, self.poller_memory);
            if let Some(per_second) = poll.tasks_per_second {
                queue.limits.set_by_worker(per_second);
            }
        }
        if queue.wants_refill(poll.lane) {
            self.refills.want(poll.queue);
        }
        if let Some(queued) = queue.take(poll.lane, now) {
            if !queue.limits.is_unlimited() {
                queue.serve(now);
            }
            return Ok(queued);
        }
        if let Some(at) = queue.later(poll.lane, now) {
            return Err(PollStep::RetryAt(at));
        }
        // Evaluated under the lock: the call that ends the polls of a queue finds this one, or this one sees the reason.
        if is_over() {
            return Err(PollStep::Over);
        }
        let id = self.next_waiting.fetch_add(1, Ordering::Relaxed);
        let (hand_over, task) = oneshot::channel();
        queue.wait(poll.lane, id, poll.worker.to_owned(), poll.elsewhere, hand_over);
        Err(PollStep::Wait(Wait { matching: self, key: poll.queue, lane: poll.lane, id, since: now, task }))
    }

    /// Offers a command to a worker. Gives it back if no worker takes commands there.
    pub fn offer_command(&self, key: &QueueKey, command: WorkerCommandTask) -> Option<WorkerCommandTask> {
        let now = self.clock.now();
        let mut queues = lock(&self.queues);
        match queues.get_mut(key) {
            Some(queue) if queue.takes_commands(now) => {
                queue.offer(TaskOffer::Command(Box::new(command)), PRIORITY_DEFAULT, now);
                None
            }
            _ => Some(command),
        }
    }

    /// Offers a task.
    pub fn offer(&self, key: &QueueKey, task: TaskOffer, place: QueuePlace) {
        let QueuePlace { priority, fairness, route } = place;
        let now = self.clock.now();
        let mut queues = lock(&self.queues);
        if self.queue(&mut queues, key).offer_routed(task, priority, fairness, route, now) == OfferOutcome::Overflowed {
            count(&self.metrics.queue_overflows);
        }
    }

    /// Returns a task to the front of its queue.
    pub fn take_back(&self, key: &QueueKey, queued: QueuedTask) {
        let now = self.clock.now();
        let mut queues = lock(&self.queues);
        self.queue(&mut queues, key).take_back(queued, now);
    }

    /// Whether a worker is there for a sticky queue.
    pub fn is_served(&self, key: &QueueKey) -> bool {
        let now = self.clock.now();
        let queues = lock(&self.queues);
        queues.get(key).is_some_and(|queue| {
            !queue.abandoned && (queue.waiting() > 0 || now - queue.last_poll() < STICKY_SILENCE_MAX)
        })
    }

    /// A worker process is gone: it is no longer listed among the pollers of these queues.
    pub fn forget_worker<'a>(&self, namespace: NamespaceKey, worker: &str, names: impl IntoIterator<Item = &'a str>) {
        let mut queues = lock(&self.queues);
        for name in names {
            let mut key = QueueKey { namespace, kind: QueueKind::Workflow, name: name.to_owned() };
            for kind in KINDS {
                key.kind = kind;
                if let Some(queue) = queues.get_mut(&key) {
                    queue.forget_worker(worker);
                }
            }
        }
    }

    /// A worker process leaves: its polls in some queues end.
    pub fn dismiss<'a>(&self, namespace: NamespaceKey, worker: &str, queues_of: impl IntoIterator<Item = &'a str>) {
        let mut queues = lock(&self.queues);
        self.limits_changed.notify_waiters();
        for name in queues_of {
            let mut key = QueueKey { namespace, kind: QueueKind::Workflow, name: name.to_owned() };
            for kind in KINDS {
                key.kind = kind;
                if let Some(queue) = queues.get_mut(&key) {
                    queue.dismiss(worker);
                }
            }
            for key in self.sticky_queues(namespace, name) {
                if let Some(queue) = queues.get_mut(&key) {
                    queue.dismiss(worker);
                }
            }
        }
    }

    /// The worker of a sticky queue leaves: polls there end, and what waited there is returned for others.
    pub fn abandon(&self, namespace: NamespaceKey, sticky: &str) -> Vec<TaskOffer> {
        let mut queues = lock(&self.queues);
        self.limits_changed.notify_waiters();
        let mut left = Vec::new();
        for key in self.sticky_queues(namespace, sticky) {
            if let Some(queue) = queues.get_mut(&key) {
                queue.abandoned = true;
                queue.dismiss_all();
                left.append(&mut queue.drain());
            }
        }
        left
    }

    /// The queues that have this name as a sticky one, by the normal queues of their workers: usually one.
    fn sticky_queues(&self, namespace: NamespaceKey, sticky: &str) -> Vec<QueueKey> {
        let normal = lock(&self.sticky).get(&(namespace, sticky.to_owned())).cloned().unwrap_or_default();
        normal.into_iter().map(|name| QueueKey { namespace, kind: QueueKind::Sticky, name }).collect()
    }

    /// Notes a sticky queue by the name that its worker knows.
    fn note_sticky(&self, key: &QueueKey) {
        if let Some(name) = key.sticky_name() {
            let mut sticky = lock(&self.sticky);
            let names = sticky.entry((key.namespace, name.to_owned())).or_default();
            if !names.contains(&key.name) {
                names.push(key.name.clone());
            }
        }
    }

    /// Forgets what waits in queues whose home is elsewhere now; polls there end, and ask there.
    pub fn forget_moved(&self, is_here: impl Fn(&QueueKey) -> bool) {
        for (_, queue) in lock(&self.queues).iter_mut().filter(|(key, _)| !is_here(key)) {
            queue.dismiss_all();
            queue.drain();
            queue.clear_overflowed();
        }
        self.limits_changed.notify_waiters();
    }

    /// Forgets all queues of a namespace; polls there end empty.
    pub fn forget_namespace(&self, namespace: NamespaceKey) {
        lock(&self.queues).retain(|key, _| key.namespace != namespace);
        lock(&self.sticky).retain(|(of, _), _| *of != namespace);
    }

    /// Ends every poll.
    pub fn dismiss_all(&self) {
        for queue in lock(&self.queues).values_mut() {
            queue.dismiss_all();
        }
        self.limits_changed.notify_waiters();
    }

    /// Tasks waiting in all queues.
    pub fn backlog(&self) -> usize {
        let now = self.clock.now();
        let mut queues = lock(&self.queues);
        for queue in queues.values_mut().filter(|queue| queue.has_lost_its_worker(now)) {
            queue.drain();
        }
        queues.values().map(Queue::len).sum()
    }

    /// Tasks waiting in one queue for workers of a version.
    pub fn backlog_of(&self, key: &QueueKey, version: &PollerVersion) -> usize {
        let lane = version.lane(key.kind);
        lock(&self.queues).get(key).map_or(0, |queue| queue.len_of(lane.as_ref()))
    }

    /// How many polls more or fewer a worker should make, see [`poller_scaling`].
    pub fn advice(&self, key: &QueueKey, version: &PollerVersion, waited: Duration) -> i32 {
        let lane = version.lane(key.kind);
        let waited = Nanos::try_from(waited.as_nanos()).unwrap_or(Nanos::MAX);
        let now = self.clock.now();
        lock(&self.queues).get_mut(key).map_or(0, |queue| queue.advice(lane.as_ref(), waited, now))
    }

    /// Workers that polled lately.
    pub fn pollers(&self, key: &QueueKey) -> Vec<Poller> {
        let now = self.clock.now();
        let mut queues = lock(&self.queues);
        queues.get_mut(key).map(|queue| queue.pollers(now - self.poller_ttl)).unwrap_or_default()
    }

    /// The queues with the most tasks, sticky ones and those for commands left out.
    pub fn largest(&self, most: usize) -> Vec<(QueueKey, QueueService, Nanos)> {
        let now = self.clock.now();
        let queues = lock(&self.queues);
        let shown = queues.iter().filter(|(key, queue)| !queue.sticky && key.kind != QueueKind::WorkerCommand);
        let mut all: Vec<_> = shown
            .filter(|(_, queue)| queue.in_use(now, self.poller_memory))
            .map(|(key, queue)| {
                let oldest = queue.stats(now).values().map(|stats| stats.oldest).max().unwrap_or(0);
                let last_poll = Some(queue.last_poll());
                let service = QueueService { polls_waiting: queue.waiting(), last_poll, backlog: queue.len() };
                (key.clone(), service, oldest)
            })
            .collect();
        all.sort_by(|(a, of_a, _), (b, of_b, _)| of_b.backlog.cmp(&of_a.backlog).then_with(|| a.name.cmp(&b.name)));
        all.truncate(most);
        all
    }

    /// Who serves a queue now.
    pub fn service(&self, key: &QueueKey) -> QueueService {
        lock(&self.queues).get(key).map_or_else(QueueService::default, |queue| QueueService {
            polls_waiting: queue.waiting(),
            last_poll: Some(queue.last_poll()).filter(|last| *last != 0),
            backlog: queue.len(),
        })
    }

    /// A worker did not poll lately after all. `worker` are its identity and its instance key: another worker may have the same
    /// identity.
    pub fn forget_poller(&self, namespace: NamespaceKey, name: &str, kinds: &[QueueKind], worker: (&str, &str)) {
        let mut queues = lock(&self.queues);
        for kind in kinds {
            if let Some(queue) = queues.get_mut(&QueueKey { namespace, kind: *kind, name: name.to_owned() }) {
                queue.forget_poller(worker);
            }
        }
    }

    /// Statistics of the tasks of a queue, by priority.
    pub fn stats(&self, key: &QueueKey) -> BTreeMap<i32, QueueStats> {
        let now = self.clock.now();
        lock(&self.queues).get(key).map(|queue| queue.stats(now)).unwrap_or_default()
    }

    /// The caller of a direct call left.
    pub fn withdraw_call(&self, key: &QueueKey, call: u64) {
        if let Some(queue) = lock(&self.queues).get_mut(key) {
            queue.forget_calls(|queued| matches!(queued.task, TaskOffer::Call { id } if id == call));
        }
    }

    /// A queue is about to get back what it forgot.
    pub fn begin_refill(&self, key: &QueueKey) {
        if let Some(queue) = lock(&self.queues).get_mut(key) {
            queue.clear_overflowed();
        }
    }

    /// Storage knows tasks of a queue that memory does not.
    pub fn mark_overflowed(&self, key: &QueueKey) {
        let mut queues = lock(&self.queues);
        let queue = self.queue(&mut queues, key);
        queue.mark_overflowed();
        // Workers may have emptied it meanwhile and wait.
        if queue.wants_any_refill() {
            self.refills.want(key);
        }
    }

    /// See [`Queue::known_tasks`].
    pub fn known_tasks(&self, key: &QueueKey) -> segno_environment::hash::HashSet<(RunKey, i64)> {
        lock(&self.queues).get(key).map(Queue::known_tasks).unwrap_or_default()
    }
}

/// Where a task stands in a queue.
#[derive(Clone, Debug)]
pub struct QueuePlace {
    /// Lower first.
    pub priority: i32,
    /// Its share among tasks of the same priority.
    pub fairness: Option<Box<Fairness>>,
    /// By what its lane is found.
    pub route: TaskRoute,
}

impl QueuePlace {
    /// A place by priority alone, for a task that is for one worker.
    pub fn of(priority: i32) -> Self {
        Self { priority, fairness: None, route: TaskRoute::default() }
    }
}
