//! The shell around task queues: workers wait here, tasks arrive here. [`crate::refill`] finds what full queues forgot.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use segno_engine::{
    Run,
    activity::{Sdk, is_waiting},
    priority,
};
use segno_proto::{Nanos, common::Priority, taskqueue::TaskQueueConfig};
use segno_store::{NamespaceKey, RunKey, cluster::Shard};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use crate::{
    clock::{Clock, SLEEP_MAX, until},
    delivery::{Delivery, Held},
    fair::Fairness,
    hash::HashMap,
    metrics::count,
    ports::{elsewhere::HomeOffer, owner::Place},
    queue_config::ConfigKey,
    queue_limits::{LimitSource, QueueLimits},
    queue_stats::QueueStats,
    queues::{Handed, Offered, Poller, PollerVersion, Queue, QueueKey, QueueKind, Queued, TaskOffer},
    refill::Refills,
    runs::Runs,
    slots::lock,
    worker_commands::WorkerCommandTask,
    workers::{CONTROL_QUEUES, Caller, PollGuard},
};

/// A sticky queue that nobody asked for this long has lost its worker.
const STICKY_SILENCE_MAX: Nanos = 10 * 1_000_000_000;
/// Pollers are remembered for five minutes.
const POLLER_MEMORY: Nanos = 300 * 1_000_000_000;
pub(crate) const PRIORITY_DEFAULT: i32 = 3;
/// A limit that held something back is told for half a minute.
const LIMIT_MEMORY: Nanos = 30 * 1_000_000_000;
/// From this many queues on, unused ones are forgotten when a new one appears. Then again when there are twice as many as were left.
const QUEUES_SWEEP: usize = 1000;
/// Kinds of queues in which a worker waits.
const KINDS: [QueueKind; 3] = [QueueKind::Workflow, QueueKind::Activity, QueueKind::WorkerCommand];

/// A worker's wish for work.
#[derive(Clone, Debug)]
pub struct Poll {
    /// Where.
    pub queue: QueueKey,
    /// Who.
    pub identity: String,
    /// The worker process, and how it is reached.
    pub caller: Caller,
    /// Whether only this worker serves the queue.
    pub sticky: bool,
    /// Until when.
    pub deadline: Instant,
    /// How many tasks per second the worker wants handed out on this queue, to all workers together.
    pub tasks_per_second: Option<f64>,
    /// What the worker says of its version.
    pub version: PollerVersion,
    /// The worker's SDK, where it is kept.
    pub sdk: Sdk,
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

/// A queue as metrics show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueGauge {
    /// The namespace's name.
    pub namespace: String,
    /// The queue's name.
    pub name: String,
    /// `workflow` or `activity`.
    pub kind: &'static str,
    /// Tasks that wait.
    pub backlog: usize,
    /// How long the oldest has waited.
    pub oldest: Nanos,
    /// Polls that wait.
    pub polls_waiting: usize,
}

/// All queues of a node.
pub struct Queues {
    /// See [`Queue::new`].
    backlog_max: usize,
    queues: Mutex<HashMap<QueueKey, Queue>>,
    /// Names of the keys of sticky queues, by the name that their worker knows. Locked after `queues`.
    sticky: Mutex<HashMap<(NamespaceKey, String), Vec<String>>>,
    next_waiting: AtomicU64,
    /// When there are more queues than this, unused ones are forgotten.
    sweep_above: AtomicUsize,
    /// Queues that forgot tasks and have room for them again.
    pub(crate) refills: Refills,
    /// Configurations by queue.
    pub(crate) configs: Mutex<HashMap<ConfigKey, Arc<TaskQueueConfig>>>,
    /// One configuration is changed at a time.
    pub(crate) configuring: tokio::sync::Mutex<()>,
    /// Told when a limit changes, or when workers are sent away: polls that sleep until a task may go look again.
    limits_changed: Notify,
}

/// Ends a wait however it ends, and returns a task that arrived too late to be taken.
struct Wait<'a> {
    queues: &'a Queues,
    key: &'a QueueKey,
    id: u64,
    /// When it began.
    since: Nanos,
    task: oneshot::Receiver<Handed>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.task.close();
        let mut queues = lock(&self.queues.queues);
        let Some(queue) = queues.get_mut(self.key) else { return };
        queue.forget(self.id);
        match self.task.try_recv() {
            Ok(Handed::Task(queued)) => drop(queue.take_back(queued, self.since)),
            // Somebody else has to look.
            Ok(Handed::Look(_)) => queue.serve(self.since),
            Err(_) => {}
        }
    }
}

/// A poll that looks again when a task may go. If it ends before that, another one looks.
struct Looking<'a> {
    queues: &'a Queues,
    key: &'a QueueKey,
    since: Nanos,
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        if let Some(queue) = lock(&self.queues.queues).get_mut(self.key) {
            queue.serve(self.since);
        }
    }
}

/// How a poll goes on.
enum Next<'a> {
    /// The poll ends: its queue has another home, or its worker left.
    Over,
    Wait(Wait<'a>),
    LookAt(Nanos),
}

impl Queues {
    /// No queues yet.
    pub fn new(backlog_max: usize) -> Self {
        Self {
            backlog_max,
            queues: Mutex::default(),
            sticky: Mutex::default(),
            next_waiting: AtomicU64::new(0),
            sweep_above: AtomicUsize::new(QUEUES_SWEEP),
            refills: Refills::default(),
            configs: Mutex::default(),
            configuring: tokio::sync::Mutex::default(),
            limits_changed: Notify::new(),
        }
    }

    /// A queue, with its limits if it is new.
    fn queue<'a>(&self, queues: &'a mut HashMap<QueueKey, Queue>, key: &QueueKey) -> &'a mut Queue {
        if !queues.contains_key(key) {
            let mut queue = Queue::new(self.backlog_max);
            queue.sticky = key.kind == QueueKind::Sticky;
            if let Some(config) = lock(&self.configs).get(&ConfigKey::of(key)) {
                queue.limits.configure(config);
            }
            queues.insert(key.clone(), queue);
        }
        queues.get_mut(key).expect("it was inserted if it was not there")
    }

    /// A configuration is in effect from now on.
    pub(crate) fn configure(&self, key: &QueueKey, config: &TaskQueueConfig, now: Nanos) {
        let mut queues = lock(&self.queues);
        if let Some(queue) = queues.get_mut(key) {
            queue.limits.configure(config);
            queue.serve(now);
        }
        drop(queues);
        self.limits_changed.notify_waiters();
    }

    /// The rate at which a queue may hand out tasks, and whether some had to wait for it lately.
    pub fn limit_of(&self, key: &QueueKey, now: Nanos) -> (Option<(f64, LimitSource)>, bool) {
        let queues = lock(&self.queues);
        match queues.get(key) {
            Some(queue) => (queue.limits.rate(), queue.limits.held_since(now - LIMIT_MEMORY)),
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
    pub(crate) fn is_configured_with_limits(&self, key: &QueueKey) -> bool {
        let mut limits = QueueLimits::default();
        if let Some(config) = lock(&self.configs).get(&ConfigKey::of(key)) {
            limits.configure(config);
        }
        !limits.is_unlimited()
    }

    /// Whether a queue is limited, by its configuration or by workers.
    pub(crate) fn is_limited(&self, key: &QueueKey) -> bool {
        lock(&self.queues).get(key).is_some_and(|queue| !queue.limits.is_unlimited())
    }

    /// See [`Queue::is_quiet`].
    pub(crate) fn is_quiet(&self, key: &QueueKey) -> bool {
        lock(&self.queues).get(key).is_some_and(Queue::is_quiet)
    }

    /// Somebody polls a queue at another node, and tasks met workers there.
    pub(crate) fn polled_elsewhere(
        &self,
        key: &QueueKey,
        poller: Option<(&str, &PollerVersion)>,
        met: &BTreeMap<i32, u32>,
        now: Nanos,
    ) {
        let mut queues = lock(&self.queues);
        let queue = self.queue(&mut queues, key);
        if let Some((identity, version)) = poller {
            queue.polled(identity, version, now);
        }
        met.iter().for_each(|(priority, count)| queue.met_elsewhere(*priority, *count, now));
    }

    /// Whether a queue takes no more tasks that storage knows.
    pub(crate) fn is_full(&self, key: &QueueKey) -> bool {
        lock(&self.queues).get(key).is_some_and(Queue::is_full)
    }

    /// Waits for a task; `None` if time is up or the worker shut down, which `is_over` tells.
    async fn poll(
        &self,
        poll: &Poll,
        elsewhere: bool,
        clock: &Arc<dyn Clock>,
        is_over: impl Fn() -> bool,
    ) -> Option<Queued> {
        let mut is_new = true;
        loop {
            let changed = self.limits_changed.notified();
            if !is_new && is_over() {
                return None;
            }
            let now = clock.now();
            let next = match self.take_or_wait(poll, elsewhere, std::mem::take(&mut is_new), now, &is_over) {
                Ok(queued) => return Some(queued),
                Err(next) => next,
            };
            let at = match next {
                Next::Over => return None,
                Next::LookAt(at) => at,
                Next::Wait(mut wait) => match tokio::time::timeout_at(poll.deadline, &mut wait.task).await {
                    Ok(Ok(Handed::Task(queued))) => return Some(queued),
                    Ok(Ok(Handed::Look(at))) => at,
                    Ok(Err(_)) | Err(_) => return None,
                },
            };
            let looking = Looking { queues: self, key: &poll.queue, since: now };
            let pause = until(clock.now(), at).min(SLEEP_MAX);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = changed => {}
                () = tokio::time::sleep_until(poll.deadline) => return None,
            }
            // It looks itself.
            std::mem::forget(looking);
        }
    }

    /// Takes a task, or begins to wait for one.
    fn take_or_wait<'a>(
        &'a self,
        poll: &'a Poll,
        elsewhere: bool,
        is_new: bool,
        now: Nanos,
        is_over: &impl Fn() -> bool,
    ) -> Result<Queued, Next<'a>> {
        let mut queues = lock(&self.queues);
        if queues.len() > self.sweep_above.load(Ordering::Relaxed) && !queues.contains_key(&poll.queue) {
            // Sticky queues of workers that are long gone.
            queues.retain(|_, queue| queue.in_use(now, POLLER_MEMORY));
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
        if poll.queue.kind == QueueKind::Sticky && !queues.contains_key(&poll.queue) {
            self.note_sticky(&poll.queue);
        }
        let queue = self.queue(&mut queues, &poll.queue);
        if is_new {
            queue.polled(&poll.identity, &poll.version, now);
            if let Some(per_second) = poll.tasks_per_second {
                queue.limits.asked(per_second);
            }
        }
        if queue.wants_refill() {
            self.refills.want(&poll.queue);
        }
        if let Some(queued) = queue.take(now) {
            if !queue.limits.is_unlimited() {
                queue.serve(now);
            }
            return Ok(queued);
        }
        if let Some(at) = queue.later(now) {
            return Err(Next::LookAt(at));
        }
        // Asked under the lock: whoever ends the polls of a queue finds this one, or it sees why.
        if is_over() {
            return Err(Next::Over);
        }
        let id = self.next_waiting.fetch_add(1, Ordering::Relaxed);
        let (hand_over, task) = oneshot::channel();
        match elsewhere {
            false => queue.wait(id, poll.caller.worker.clone(), hand_over),
            true => queue.wait_elsewhere(id, poll.caller.worker.clone(), hand_over),
        }
        Err(Next::Wait(Wait { queues: self, key: &poll.queue, id, since: now, task }))
    }

    /// Offers a command to a worker. Gives it back if nobody takes commands there.
    pub fn offer_command(&self, key: &QueueKey, command: WorkerCommandTask, now: Nanos) -> Option<WorkerCommandTask> {
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
    pub fn offer(&self, key: QueueKey, task: TaskOffer, priority: i32, now: Nanos) -> Offered {
        self.offer_fairly(&key, task, priority, None, now)
    }

    /// Offers a task that takes turns with others.
    pub(crate) fn offer_fairly(
        &self,
        key: &QueueKey,
        task: TaskOffer,
        priority: i32,
        fairness: Option<Box<Fairness>>,
        now: Nanos,
    ) -> Offered {
        let mut queues = lock(&self.queues);
        self.queue(&mut queues, key).offer_fairly(task, priority, fairness, now)
    }

    /// Returns a task to the front of its queue.
    pub(crate) fn take_back(&self, key: &QueueKey, queued: Queued, now: Nanos) {
        let mut queues = lock(&self.queues);
        self.queue(&mut queues, key).take_back(queued, now);
    }

    /// Whether a worker is there for a sticky queue.
    pub fn is_served(&self, key: &QueueKey, now: Nanos) -> bool {
        let queues = lock(&self.queues);
        queues.get(key).is_some_and(|queue| {
            !queue.abandoned && (queue.waiting() > 0 || now - queue.last_poll < STICKY_SILENCE_MAX)
        })
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
    pub(crate) fn abandon(&self, namespace: NamespaceKey, sticky: &str) -> Vec<TaskOffer> {
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
    pub(crate) fn forget_moved(&self, is_here: impl Fn(&QueueKey) -> bool) {
        for (_, queue) in lock(&self.queues).iter_mut().filter(|(key, _)| !is_here(key)) {
            queue.dismiss_all();
            queue.drain();
            queue.overflowed = false;
        }
        self.limits_changed.notify_waiters();
    }

    /// Forgets all queues of a namespace; polls there end empty.
    pub fn forget_namespace(&self, namespace: NamespaceKey) {
        lock(&self.queues).retain(|key, _| key.namespace != namespace);
        lock(&self.sticky).retain(|(of, _), _| *of != namespace);
    }

    /// Ends every poll.
    pub fn dismiss_everybody(&self) {
        for queue in lock(&self.queues).values_mut() {
            queue.dismiss_all();
        }
        self.limits_changed.notify_waiters();
    }

    /// Tasks waiting in all queues.
    pub fn backlog(&self, now: Nanos) -> usize {
        let mut queues = lock(&self.queues);
        for queue in queues.values_mut().filter(|queue| queue.is_deserted(now)) {
            queue.drain();
        }
        queues.values().map(Queue::len).sum()
    }

    /// Tasks waiting in one queue.
    pub fn backlog_of(&self, key: &QueueKey) -> usize {
        lock(&self.queues).get(key).map_or(0, Queue::len)
    }

    /// How many polls more or fewer a worker should make, see [`crate::poller_scaling`].
    pub fn advice(&self, key: &QueueKey, waited: Nanos, now: Nanos) -> i32 {
        lock(&self.queues).get_mut(key).map_or(0, |queue| queue.advice(waited, now))
    }

    /// Workers that asked lately.
    pub fn pollers(&self, key: &QueueKey, now: Nanos) -> Vec<Poller> {
        let mut queues = lock(&self.queues);
        queues.get_mut(key).map(|queue| queue.pollers(now - POLLER_MEMORY)).unwrap_or_default()
    }

    /// The queues with the most tasks, sticky ones and those for commands left out.
    fn largest(&self, now: Nanos, most: usize) -> Vec<(QueueKey, QueueService, Nanos)> {
        let queues = lock(&self.queues);
        let shown = queues.iter().filter(|(key, queue)| !queue.sticky && key.kind != QueueKind::WorkerCommand);
        let mut all: Vec<_> = shown
            .filter(|(_, queue)| queue.in_use(now, POLLER_MEMORY))
            .map(|(key, queue)| {
                let oldest = queue.stats(now).values().map(|stats| stats.oldest).max().unwrap_or(0);
                let last_poll = Some(queue.last_poll);
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
            last_poll: (queue.last_poll != 0).then_some(queue.last_poll),
            backlog: queue.len(),
        })
    }

    /// An identity did not ask lately after all.
    pub(crate) fn forget_poller(&self, namespace: NamespaceKey, name: &str, kinds: &[QueueKind], identity: &str) {
        let mut queues = lock(&self.queues);
        for kind in kinds {
            if let Some(queue) = queues.get_mut(&QueueKey { namespace, kind: *kind, name: name.to_owned() }) {
                queue.forget_poller(identity);
            }
        }
    }

    /// What a queue can say of its tasks, by priority.
    pub fn stats(&self, key: &QueueKey, now: Nanos) -> BTreeMap<i32, QueueStats> {
        lock(&self.queues).get(key).map(|queue| queue.stats(now)).unwrap_or_default()
    }

    /// A queue is about to get back what it forgot.
    pub(crate) fn begin_refill(&self, key: &QueueKey) {
        if let Some(queue) = lock(&self.queues).get_mut(key) {
            queue.overflowed = false;
        }
    }

    /// Storage knows tasks of a queue that memory does not.
    pub(crate) fn mark_overflowed(&self, key: &QueueKey) {
        let mut queues = lock(&self.queues);
        let queue = self.queue(&mut queues, key);
        queue.overflowed = true;
        // Workers may have emptied it meanwhile and wait.
        if queue.wants_refill() {
            self.refills.want(key);
        }
    }

    /// See [`Queue::known_tasks`].
    pub(crate) fn known_tasks(&self, key: &QueueKey) -> std::collections::HashSet<(RunKey, i64)> {
        lock(&self.queues).get(key).map(Queue::known_tasks).unwrap_or_default()
    }
}

fn shard_of(run: &Run) -> Shard {
    Shard::of(NamespaceKey(run.info.namespace_key), &run.info.workflow_id)
}

/// Where a task stands in a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueuePlace {
    /// Lower first.
    pub(crate) priority: i32,
    pub(crate) fairness: Option<Box<Fairness>>,
}

impl QueuePlace {
    /// A place by priority alone.
    pub(crate) fn of(priority: i32) -> Self {
        Self { priority, fairness: None }
    }
}

/// Priority and fairness of a task, by what its run and it itself say.
fn place_of(workflow: Option<&Priority>, own: Option<&Priority>) -> (i32, Option<Box<Fairness>>) {
    let key = priority::merged_key(workflow, own);
    let (fairness_key, weight) = priority::merged_fairness(workflow, own);
    let fairness = (!fairness_key.is_empty()).then(|| Box::new(Fairness { key: fairness_key.into(), weight }));
    (if key > 0 { key } else { PRIORITY_DEFAULT }, fairness)
}

impl Runs {
    /// Waits for a task of a queue, wherever its home is. Dropping the delivery returns the task.
    pub(crate) async fn wait_for_task(self: &Arc<Self>, poll: &Poll) -> Option<(TaskOffer, Delivery)> {
        match self.elsewhere() {
            None => self.wait_with_guard(poll).await,
            Some(elsewhere) => elsewhere.wait_for_task(poll).await,
        }
    }

    /// Waits for a task of a node without others, unless the worker shut down or the node stops.
    async fn wait_with_guard(self: &Arc<Self>, poll: &Poll) -> Option<(TaskOffer, Delivery)> {
        if self.is_stopping() || self.is_dismissed(&poll.caller.worker) {
            return None;
        }
        let guard = self.poll_begins(poll);
        let taken = self.wait_here(poll, false).await;
        if let Some(guard) = guard {
            guard.answered();
        }
        taken
    }

    /// Waits for a task in a queue whose home is here; for a worker at another node if `elsewhere`. Whoever drops the delivery
    /// returns the task.
    pub(crate) async fn wait_here(self: &Arc<Self>, poll: &Poll, elsewhere: bool) -> Option<(TaskOffer, Delivery)> {
        if self.is_stopping() || self.is_dismissed(&poll.caller.worker) {
            return None;
        }
        let is_over = || {
            let moved = self.queue_home(&poll.queue) != Place::Here;
            moved || self.is_stopping() || self.is_dismissed(&poll.caller.worker)
        };
        let queued = self.queues.poll(poll, elsewhere, &self.clock, is_over).await?;
        let task = queued.task.clone();
        Some((task, Delivery::new(self, Held::Queued(poll.queue.clone(), queued))))
    }

    /// A poll is a sign of life. On a queue for commands it stands for all workers of its process.
    pub(crate) fn poll_begins(&self, poll: &Poll) -> Option<PollGuard<'_>> {
        let (namespace, now) = (poll.queue.namespace, self.clock.monotonic());
        let is_control = poll.queue.kind == QueueKind::WorkerCommand && poll.queue.name.starts_with(CONTROL_QUEUES);
        if let Some(elsewhere) = self.elsewhere() {
            elsewhere.worker_polls(poll, is_control);
        }
        if is_control {
            return self.leases.control_poll_begins(namespace, &poll.queue.name, poll.caller.connection, now);
        }
        self.leases.poll_begins(poll, now)
    }

    /// Sends a task of an abandoned sticky queue to where it belongs.
    pub(crate) async fn redirect(&self, task: TaskOffer) {
        match task {
            TaskOffer::Workflow { run, .. } => {
                let Ok(Some(key)) = self.workflow_of(run).await else { return };
                let Ok(locked) = self.lock(&key).await else { return };
                if let Some(current) = locked.state.current.as_ref().filter(|current| current.key() == run) {
                    self.offer_workflow_task(&current.run);
                }
            }
            TaskOffer::Activity { .. } => {}
            TaskOffer::Command(_) => {}
            // Its owner hears by the time-out of the sticky queue.
            TaskOffer::Remote(_) => {}
            // The asker notices that its query was withdrawn and asks on the normal queue.
            TaskOffer::Query(query) => {
                query.withdraw();
            }
        }
    }

    /// Puts the pending workflow task of a run on its queue.
    pub(crate) fn offer_workflow_task(&self, run: &Run) {
        let Some(task) = &run.state().task else { return };
        let (namespace, run_key) = (NamespaceKey(run.info.namespace_key), RunKey(run.info.run_key));
        if run.state().script.is_some() {
            if !self.flows.is_held_back(run) {
                self.flows.resumes.offer(namespace, run_key);
            }
            return;
        }
        let normal = QueueKey { namespace, kind: QueueKind::Workflow, name: run.info.task_queue.clone() };
        let mut key = match task.sticky {
            true => QueueKey::sticky(namespace, &task.queue, &run.info.task_queue),
            false => QueueKey { name: task.queue.clone(), ..normal.clone() },
        };
        let offer = TaskOffer::Workflow { run: run_key, stamp: task.stamp, speculative: run.is_speculating() };
        let (priority, fairness) = place_of(run.info.priority.as_ref(), None);
        let place = QueuePlace { priority, fairness };
        let is_here = self.queue_home(&key) == Place::Here;
        if task.sticky && is_here && !self.queues.is_served(&key, self.clock.now()) {
            key = normal;
        } else if task.sticky && !is_here {
            let offer = HomeOffer { queue: key, task: offer, place, shard: shard_of(run), fallback: Some(normal) };
            return self.offer_elsewhere(offer);
        }
        self.offer(key, offer, place, run);
    }

    /// Offers a task at the home of its queue.
    fn offer(&self, key: QueueKey, task: TaskOffer, place: QueuePlace, run: &Run) {
        match self.queue_home(&key) {
            Place::Here => self.offer_here(key, task, place),
            Place::There(_) | Place::Nowhere => {
                let shard = shard_of(run);
                self.offer_elsewhere(HomeOffer { queue: key, task, place, shard, fallback: None });
            }
        }
    }

    /// Offers a task to a poll of this node, if the home of its queue has nothing to order, or else at that home.
    fn offer_elsewhere(&self, offer: HomeOffer) {
        if let Some(elsewhere) = self.elsewhere() {
            elsewhere.match_or_offer(offer);
        }
    }

    /// Offers a task in a queue whose home is here.
    pub(crate) fn offer_here(&self, key: QueueKey, task: TaskOffer, place: QueuePlace) {
        let QueuePlace { priority, fairness } = place;
        self.note(self.queues.offer_fairly(&key, task, priority, fairness, self.clock.now()));
    }

    /// Puts a pending activity on its queue.
    pub(crate) fn offer_activity(&self, run: &Run, scheduled_event_id: i64) {
        let Some(activity) = run.state().activities.get(&scheduled_event_id) else { return };
        let namespace = NamespaceKey(run.info.namespace_key);
        let key = QueueKey { namespace, kind: QueueKind::Activity, name: activity.queue.clone() };
        let run_key = RunKey(run.info.run_key);
        let offer = TaskOffer::Activity { run: run_key, scheduled_event_id, stamp: activity.stamp };
        let (priority, fairness) = place_of(run.info.priority.as_ref(), activity.priority.as_ref());
        self.offer(key, offer, QueuePlace { priority, fairness }, run);
    }

    fn note(&self, offered: Offered) {
        if offered == Offered::Overflowed {
            count(&self.metrics.queue_overflows);
        }
    }

    /// Offers everything of a run that waits for a worker.
    pub(crate) fn offer_all(&self, run: &Run) {
        if run.is_paused() {
            return;
        }
        let now = self.clock.now();
        if run.state().task.as_ref().is_some_and(|task| task.started_event_id == 0) {
            self.offer_workflow_task(run);
        }
        for (id, activity) in &run.state().activities {
            if is_waiting(activity, now) {
                self.offer_activity(run, *id);
            }
        }
    }

    /// Tasks waiting in a queue.
    pub fn backlog_of(&self, key: &QueueKey) -> usize {
        self.queues.backlog_of(key)
    }

    /// How many polls more or fewer a worker should make whose poll of a queue took so long to bring a task.
    pub fn poller_advice(&self, key: &QueueKey, waited: Duration) -> i32 {
        let waited = Nanos::try_from(waited.as_nanos()).unwrap_or(Nanos::MAX);
        self.queues.advice(key, waited, self.clock.now())
    }

    /// What a queue can say of its tasks, by priority.
    pub fn queue_stats(&self, key: &QueueKey) -> BTreeMap<i32, QueueStats> {
        self.queues.stats(key, self.clock.now())
    }

    /// The queues with the most tasks, for metrics.
    pub fn queue_gauges(&self, most: usize) -> Vec<QueueGauge> {
        let gauge = |(key, service, oldest): (QueueKey, QueueService, Nanos)| {
            let namespace = self.namespaces.by_key(key.namespace).map(|namespace| namespace.name.clone());
            let kind = if key.kind == QueueKind::Workflow { "workflow" } else { "activity" };
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
        self.queues.largest(self.clock.now(), most).into_iter().map(gauge).collect()
    }

    /// Who serves a queue whose home is here.
    pub fn queue_service(&self, key: &QueueKey) -> QueueService {
        self.queues.service(key)
    }

    /// The rate at which a queue may hand out tasks, and whether some had to wait for it lately.
    pub fn queue_limit(&self, key: &QueueKey) -> (Option<(f64, LimitSource)>, bool) {
        self.queues.limit_of(key, self.clock.now())
    }

    /// Workers that asked a queue lately.
    pub fn pollers(&self, key: &QueueKey) -> Vec<Poller> {
        self.queues.pollers(key, self.clock.now())
    }
}
