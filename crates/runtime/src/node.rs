//! A node: everything that runs, tied together.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use segno_engine::{Context, lease::LeaseSettings, limits::Limits, update::UpdateLimits};
use segno_store::{NamespaceKey, RunKey, Store};
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::{
    clock::{Clock, until},
    commands::UnclaimedCommands,
    committer::Committer,
    error::CallError,
    ids::Ids,
    list_limits::ListLimits,
    liveness,
    metrics::{Metrics, count},
    namespaces::{Namespaces, retention},
    outbox,
    polls::Queues,
    queries::DirectQueries,
    slots::{Slots, lock},
    timers::Timers,
    workers::{Leases, Workers},
};

/// Run keys set aside with one write.
const RUN_KEYS_BLOCK: u64 = 1000;
/// Wake-ups carried out at the same time.
const WAKES_MAX: usize = 64;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Memory for cached runs.
    pub cache_bytes_max: usize,
    /// Limits of runs.
    pub limits: Limits,
    /// How long workers count as alive.
    pub leases: LeaseSettings,
    /// Whether polls of a worker that begins to shut down end at once.
    pub polls_end_on_shutdown: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            cache_bytes_max: 64 * 1024 * 1024,
            limits: Limits::default(),
            leases: LeaseSettings::default(),
            polls_end_on_shutdown: true,
        }
    }
}

/// A node of Segno.
pub struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Committer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) slots: Slots,
    pub(crate) list_limits: ListLimits,
    pub(crate) queues: Queues,
    pub(crate) timers: Timers,
    pub(crate) ids: Ids,
    pub(crate) direct_queries: DirectQueries,
    pub(crate) limits: Limits,
    /// Whether polls of a worker that begins to shut down end at once.
    pub polls_end_on_shutdown: bool,
    pub(crate) outgoing: mpsc::UnboundedSender<segno_store::OutboxRow>,
    /// What the node counts.
    pub metrics: Arc<Metrics>,
    /// All namespaces.
    pub namespaces: Namespaces,
    /// Workers that tell about themselves.
    pub workers: Workers,
    /// Until when workers count as alive, and what they hold.
    pub(crate) leases: Leases,
    /// Commands for workers that nobody takes yet.
    pub(crate) unclaimed: UnclaimedCommands,
    /// Workers that said goodbye lately: their polls are over.
    pub(crate) dismissed: Mutex<HashMap<String, Instant>>,
    /// Told when closed runs may be due earlier than before.
    pub(crate) retention_changed: Notify,
    run_keys: Mutex<(u64, u64)>,
    stopping: AtomicBool,
    /// Told once when the node stops.
    pub(crate) stop: Notify,
    last_now: AtomicU64,
}

impl Node {
    /// The limits of runs.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Starts a node on a store: recovers what is stored and begins to work.
    pub async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
    ) -> Result<Arc<Self>, CallError> {
        let metrics = Arc::new(Metrics::default());
        let (committer, _thread) = Committer::start(store.clone(), metrics.clone())
            .map_err(|error| CallError::Unavailable(format!("the writer thread did not start: {error}")))?;
        let ids = Ids::new();
        let namespaces = Namespaces::load(&*store, &ids)?;
        let (outgoing, messages) = mpsc::unbounded_channel();
        let leases = Leases::new(options.leases, clock.now() - clock.monotonic());
        let node = Arc::new(Self {
            store,
            committer,
            clock,
            list_limits: ListLimits::default(),
            slots: Slots::new(options.cache_bytes_max),
            queues: Queues::default(),
            timers: Timers::default(),
            ids,
            direct_queries: DirectQueries::default(),
            limits: options.limits,
            polls_end_on_shutdown: options.polls_end_on_shutdown,
            outgoing,
            metrics,
            namespaces,
            workers: Workers::default(),
            leases,
            unclaimed: UnclaimedCommands::default(),
            dismissed: Mutex::default(),
            retention_changed: Notify::new(),
            run_keys: Mutex::new((0, 0)),
            stopping: AtomicBool::new(false),
            stop: Notify::new(),
            last_now: AtomicU64::new(0),
        });
        node.list_older_runs().await?;
        node.recover().await?;
        tokio::spawn(outbox::deliver(Arc::downgrade(&node), messages));
        tokio::spawn(run_timers(node.clone()));
        tokio::spawn(liveness::watch(node.clone()));
        tokio::spawn(retention::apply(node.clone()));
        node.resume_deletions();
        Ok(node)
    }

    /// Nanoseconds since the epoch; never the same twice and never backwards, so that start times tell tasks apart.
    pub fn now(&self) -> i64 {
        let now = self.clock.now().max(0) as u64;
        let mut last = self.last_now.load(Ordering::Relaxed);
        loop {
            let next = now.max(last + 1);
            match self.last_now.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return next as i64,
                Err(newer) => last = newer,
            }
        }
    }

    /// Time, ids and limits for one call in a namespace.
    pub(crate) fn context(&self, namespace: NamespaceKey) -> Result<Context, CallError> {
        let updates =
            self.namespaces.by_key(namespace).map_or_else(UpdateLimits::default, |known| known.settings.updates);
        Ok(Context {
            now: self.now(),
            new_run_key: self.new_run_key()?.0,
            new_run_seed: self.ids.bits(),
            limits: Limits { updates_suggest: updates.suggest(), ..self.limits },
        })
    }

    fn new_run_key(&self) -> Result<RunKey, CallError> {
        let mut keys = lock(&self.run_keys);
        if keys.0 == keys.1 {
            let first = self.store.reserve_run_keys(RUN_KEYS_BLOCK)?.0;
            *keys = (first, first + RUN_KEYS_BLOCK);
        }
        keys.0 += 1;
        Ok(RunKey(keys.0 - 1))
    }

    /// What keeps the data, in a word.
    pub fn store_kind(&self) -> &'static str {
        self.store.kind()
    }

    /// A fresh UUID.
    pub fn uuid(&self) -> String {
        self.ids.uuid()
    }

    /// Stops handing out work: long polls end empty, new calls are refused.
    pub fn shut_down(&self) {
        self.stopping.store(true, Ordering::Release);
        self.queues.dismiss_everybody();
        self.stop.notify_waiters();
        // The timer loop looks up from its sleep and sees that it is over.
        self.timers.earlier.notify_one();
        self.retention_changed.notify_one();
        self.leases.earlier.notify_one();
    }

    /// Tells everything that waits for a moment to look at the clock again: it was moved.
    pub fn clock_moved(&self) {
        self.timers.earlier.notify_one();
        self.retention_changed.notify_one();
        self.leases.earlier.notify_one();
    }

    /// Whether the node is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Reads from storage on a thread where waiting does no harm.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, segno_store::ReadError> + Send + 'static,
    ) -> Result<T, CallError> {
        let store = self.store.clone();
        let result = tokio::task::spawn_blocking(move || read(&*store)).await;
        Ok(result.map_err(|error| CallError::Unavailable(error.to_string()))??)
    }

    /// Bytes of cached runs, waiting tasks, armed wake-ups, workers.
    pub fn gauges(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("cache_bytes", "Bytes of cached runs, by estimate.", self.slots.bytes() as u64),
            ("queued_tasks", "Tasks waiting for a worker.", self.queues.backlog() as u64),
            ("armed_timers", "Runs with a wake-up set.", self.timers.len() as u64),
            ("live_workers", "Workers with a lease.", self.leases.len() as u64),
        ]
    }
}

/// Carries out wake-ups until the node stops.
async fn run_timers(node: Arc<Node>) {
    let permits = Arc::new(Semaphore::new(WAKES_MAX));
    while !node.is_stopping() {
        let (due, next) = node.timers.due(node.clock.now());
        for run in due {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let node = node.clone();
            tokio::spawn(async move {
                count(&node.metrics.wakes);
                node.wake(run).await;
                drop(permit);
            });
        }
        let earlier = node.timers.earlier.notified();
        match next {
            Some(at) => {
                let _ = tokio::time::timeout(until(node.clock.now(), at), earlier).await;
            }
            None => earlier.await,
        }
    }
}
