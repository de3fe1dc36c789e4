//! [`Runs`]: loads, decides, commits and carries out. The crates above are reached through [`crate::ports`].

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use segno_deployments::{DeploymentLimits, Registry};
use segno_engine::{Context, Run, limits::Limits};
use segno_environment::{
    clock::Clock,
    environment::Environment,
    hash::HashSet,
    health::{self, Health},
    ids::Ids,
    metrics::Metrics,
    skipping::SkippingClock,
};
use segno_store::{FileSizes, NamespaceKey, RunKey, Store};

use crate::{
    committer::Committer,
    completion_pages::CompletionPages,
    damaged::DamagedRuns,
    deployments::{DeploymentLocks, pins::PinSightings},
    endpoints::Endpoints,
    error::CallError,
    executors::LastExecutors,
    lifecycle::Lifecycle,
    list_limits::ListLimits,
    namespaces::Namespaces,
    options::NodeOptions,
    outbox::Outbox,
    ports::{EffectsPort, HttpSenderPort, ScriptTurns, SystemOperationsPort, owner::Owner, queue_use::QueueUsesPort},
    run_keys::RunKeys,
    slots::Slots,
    start_limits::StartLimits,
    timers::Timers,
};

/// Node numbers that the last bits of a moment tell apart: a power of two.
const NODE_NUMBERS: u64 = 1024;

/// The runs that this node serves.
pub struct Runs {
    /// Where runs are stored.
    pub store: Arc<dyn Store>,
    /// The number of this node among others on the same storage; 0 if there can be none.
    pub node_number: u64,
    /// The nodes that serve workflows.
    pub owner: Arc<dyn Owner>,
    /// Makes commits durable.
    pub committer: Committer,
    /// To which versions of workers tasks go.
    pub deployments: Arc<Registry>,
    /// Limits of worker deployments.
    pub deployment_limits: DeploymentLimits,
    pub(crate) deployment_locks: DeploymentLocks,
    pub(crate) pins: PinSightings,
    /// Nexus endpoints.
    pub endpoints: Endpoints,
    /// The part that knows who uses queues.
    pub queue_uses: QueueUsesPort,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// The cache of runs, with a lock for each workflow id.
    pub slots: Slots,
    pub(crate) list_limits: ListLimits,
    pub(crate) start_limits: StartLimits,
    /// When runs are due.
    pub timers: Timers,
    /// Makes ids.
    pub ids: Ids,
    /// Options of the node.
    pub options: NodeOptions,
    /// Completions of workflow tasks that come in pages; none if they may not.
    pub completion_pages: Option<CompletionPages>,
    pub(crate) outbox: Outbox,
    /// The part that hands tasks to workers.
    pub effects: EffectsPort,
    /// The part that sends requests over HTTP.
    pub http_sender: HttpSenderPort,
    /// The operations that workflows call at the server itself.
    pub system_operations: SystemOperationsPort,
    /// Scripts.
    pub scripts: Arc<dyn ScriptTurns>,
    pub(crate) last_executors: LastExecutors,
    pub(crate) damaged: DamagedRuns,
    /// Runs that go as soon as their last messages have arrived.
    pub deleting: Mutex<HashSet<RunKey>>,
    /// Why the node is degraded, if it is.
    pub health: Arc<Health>,
    /// The counters of the node.
    pub metrics: Arc<Metrics>,
    /// All namespaces.
    pub namespaces: Namespaces,
    pub(crate) run_keys: RunKeys,
    /// Whether the node works, stops, has ended or has failed.
    pub lifecycle: Arc<Lifecycle>,
    last_now: AtomicU64,
}

impl Runs {
    /// The limits of runs.
    pub fn limits(&self) -> Limits {
        self.options.limits
    }

    /// The runs of a node that does nothing yet.
    pub async fn new(
        store: Arc<dyn Store>,
        environment: &Environment,
        options: NodeOptions,
        owner: Arc<dyn Owner>,
        scripts: Arc<dyn ScriptTurns>,
    ) -> Result<Arc<Self>, CallError> {
        let metrics = Arc::new(Metrics::default());
        let lifecycle = Arc::<Lifecycle>::default();
        let vitals = lifecycle.vitals.clone();
        let health = Arc::new(Health::default());
        let committer = Committer::start(&store, environment.threads.as_ref(), metrics.clone(), vitals, health.clone())
            .map_err(|error| CallError::Unavailable(format!("the writer thread did not start: {error}")))?;
        let ids = Ids::seeded(&*environment.random);
        let namespaces = Namespaces::load(&*store, &ids).await?;
        Ok(Arc::new(Self {
            store,
            node_number: owner.node(),
            owner,
            committer,
            deployments: Arc::default(),
            deployment_limits: options.deployments,
            deployment_locks: DeploymentLocks::default(),
            pins: PinSightings::default(),
            endpoints: Endpoints::default(),
            queue_uses: QueueUsesPort::default(),
            clock: environment.clock.clone(),
            list_limits: ListLimits::of_cores(environment.cores),
            start_limits: StartLimits::default(),
            slots: Slots::new(options.cache_bytes_max),
            timers: Timers::default(),
            ids,
            options,
            completion_pages: options.completion_pages.then(CompletionPages::default),
            outbox: Outbox::default(),
            effects: EffectsPort::default(),
            http_sender: HttpSenderPort::default(),
            system_operations: SystemOperationsPort::default(),
            scripts,
            last_executors: LastExecutors::default(),
            damaged: DamagedRuns::default(),
            deleting: Mutex::default(),
            health,
            metrics,
            namespaces,
            run_keys: RunKeys::default(),
            lifecycle,
            last_now: AtomicU64::new(0),
        }))
    }

    /// Nanoseconds since the epoch; never the same twice and never backwards, so that start times tell tasks apart.
    pub fn now(&self) -> i64 {
        let now = self.clock.now().max(0) as u64;
        let mut last = self.last_now.load(Ordering::Relaxed);
        loop {
            let next = match self.node_number {
                0 => now.max(last + 1),
                // The last bits name the node: two of them never have the same moment.
                number => (now.max(last + NODE_NUMBERS) & !(NODE_NUMBERS - 1)) | (number & (NODE_NUMBERS - 1)),
            };
            match self.last_now.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return next as i64,
                Err(newer) => last = newer,
            }
        }
    }

    /// The time of the clock, or the last that [`Runs::now`] gave if that is ahead of a clock which ticks more slowly than calls come:
    /// what was scheduled at that moment is due.
    pub fn reached_now(&self) -> i64 {
        self.clock.now().max(self.last_now.load(Ordering::Relaxed) as i64)
    }

    /// Nanoseconds since the epoch, as the node's clock has it.
    pub fn clock_now(&self) -> i64 {
        self.clock.now()
    }

    /// Time, ids and limits for a call in a namespace that creates no run.
    pub fn context(&self, namespace: NamespaceKey) -> Context {
        let settings = self.namespaces.by_key(namespace).map(|known| known.settings).unwrap_or_default();
        let limits = settings.limits(self.options.limits);
        Context { now: self.now(), new_run_key: 0, new_run_seed: self.ids.bits(), limits, script: None }
    }

    /// Like [`Runs::context`], with a key for a new run if the call may create one.
    pub(crate) async fn context_for(&self, namespace: NamespaceKey, creates: bool) -> Result<Context, CallError> {
        let new_run_key = if creates { self.take_run_key().await?.0 } else { 0 };
        Ok(Context { new_run_key, ..self.context(namespace) })
    }

    async fn take_run_key(&self) -> Result<RunKey, CallError> {
        let taken = self.run_keys.take(&self.store).await;
        // Keys are not set aside by the committer, and it is the committer that notes the health of the store.
        if taken.is_err() && !self.health.is_degraded_by(health::STORAGE) {
            self.committer.probe();
        }
        taken
    }

    /// Like [`Runs::context_for`], for a call on a run: runs that follow it have the current version of its script. What
    /// workers execute they go on to execute, unless the script takes over.
    pub async fn context_on(&self, run: &Run, creates: bool) -> Result<Context, CallError> {
        let namespace = NamespaceKey(run.info.namespace_key);
        let script = if creates { self.scripts.current(namespace, &run.info.workflow_type) } else { None };
        let script = script.filter(|script| script.takes_over || run.state().script.is_some());
        let script = script.map(|script| script.version);
        Ok(Context { script, ..self.context_for(namespace, creates).await? })
    }

    /// The clock, if it jumps while nothing is under way.
    pub fn skipping_clock(&self) -> Option<&SkippingClock> {
        self.clock.skipping()
    }

    /// The name of the store's backend.
    pub fn store_kind(&self) -> &'static str {
        self.store.kind()
    }

    /// A fresh UUID.
    pub fn uuid(&self) -> String {
        self.ids.uuid()
    }

    /// Begins to stop: new calls are refused.
    pub fn shut_down(&self) {
        self.lifecycle.begin_stop();
        // Wakes the timer loop, which then ends.
        self.timers.earlier.notify_one();
        self.outbox.wake();
    }

    /// Tells everything that waits for a moment to look at the clock again: it was moved.
    pub fn clock_moved(&self) {
        self.timers.earlier.notify_one();
        if let Some(effects) = self.effects() {
            effects.clock_moved();
        }
    }

    /// Whether the node is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.lifecycle.is_stopping()
    }

    /// Whether the store is on another machine.
    pub fn is_remote(&self) -> bool {
        !self.store.is_embedded()
    }

    /// The sizes of the files of the store, if it has any.
    pub fn file_sizes(&self) -> Option<FileSizes> {
        self.store.file_sizes()
    }

    /// Bytes of cached runs, waiting tasks, armed wake-ups, workers, messages, damaged runs. The parts above say how many tasks
    /// wait in queues and how many workers there are.
    pub fn gauges(&self, backlog: usize, workers: usize) -> [(&'static str, &'static str, u64); 6] {
        let queued_tasks = backlog + self.scripts.waiting();
        [
            ("cache_bytes", "Bytes of cached runs, by estimate.", self.slots.bytes() as u64),
            ("queued_tasks", "Tasks waiting for a worker.", queued_tasks as u64),
            ("armed_timers", "Runs with a wake-up set.", self.timers.len() as u64),
            ("live_workers", "Workers with a lease.", workers as u64),
            ("waiting_messages", "Messages between runs that have not arrived.", self.outbox.len() as u64),
            ("damaged_runs", "Runs that cannot be read and were set aside.", self.damaged.len() as u64),
        ]
    }
}
