//! The run cache: one slot per workflow id, holding its current run and the lock that makes writers take turns.
//!
//! Bounded by bytes: when it is over its limit, slots nobody uses are dropped, except those that know more than storage
//! (a started workflow task whose start is in the tail) or that someone waits on.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use segno_engine::{Run, update::Updates};
use segno_proto::events::HistoryEvent;
use segno_store::{HistoryBatch, NamespaceKey, RunKey};
use tokio::sync::watch;

use crate::queries::QueryRegistry;

/// History kept in memory per run, so that the next worker's turn needs no read.
const RECENT_BYTES_MAX: usize = 32 * 1024;
/// A slot's own weight besides its run.
const SLOT_BYTES: usize = 1024;
const SHARDS: usize = 16;

/// A workflow id within its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkflowKey {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The user's name.
    pub workflow_id: Arc<str>,
}

impl WorkflowKey {
    /// Names a workflow.
    pub fn new(namespace: NamespaceKey, workflow_id: &str) -> Self {
        Self { namespace, workflow_id: workflow_id.into() }
    }
}

/// The current run of a workflow id, as stored and beyond.
#[derive(Clone, Debug)]
pub struct Current {
    /// The run.
    pub run: Arc<Run>,
    /// Its version in storage.
    pub version: u64,
    /// The newest stored batches, without a gap up to the newest.
    pub recent: VecDeque<HistoryBatch>,
    /// Until when the run has been woken: what became due since was not offered yet.
    pub woken: i64,
    /// Scheduled events of pending activities, for handing out their input.
    pub activity_events: HashMap<i64, Arc<HistoryEvent>>,
    /// Size of the stored form.
    pub stored_bytes: usize,
}

impl Current {
    /// A run just loaded or created.
    pub fn new(run: Arc<Run>, version: u64) -> Self {
        Self { run, version, recent: VecDeque::new(), woken: 0, activity_events: HashMap::new(), stored_bytes: 0 }
    }

    /// The number storage knows the run by.
    pub fn key(&self) -> RunKey {
        RunKey(self.run.info.run_key)
    }

    /// Remembers batches that were just stored.
    pub fn remember(&mut self, batches: &[HistoryBatch]) {
        self.recent.extend(batches.iter().cloned());
        let mut bytes: usize = self.recent.iter().map(|batch| batch.events.len()).sum();
        while bytes > RECENT_BYTES_MAX {
            let Some(dropped) = self.recent.pop_front() else { break };
            bytes -= dropped.events.len();
        }
    }

    fn bytes(&self) -> usize {
        let recent: usize = self.recent.iter().map(|batch| batch.events.len() + 64).sum();
        // Decoded state takes about twice its encoded size.
        SLOT_BYTES + recent + 2 * self.stored_bytes
    }
}

/// How far a workflow id has come; what long polls wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current run.
    pub run_key: u64,
    /// Its next event.
    pub next_event_id: i64,
    /// Whether it is closed.
    pub closed: bool,
    /// Completed workflow tasks, by the started event of the last one.
    pub last_completed_started_id: i64,
    /// Counts changes of updates.
    pub updates: u64,
}

/// What the lock of a slot protects.
#[derive(Default)]
pub struct SlotState {
    /// Whether storage was asked.
    pub loaded: bool,
    /// The current run, if the workflow id has one.
    pub current: Option<Arc<Current>>,
    /// Queries that wait for a workflow task.
    pub(crate) queries: QueryRegistry,
    /// How the updates of the run before the current one ended, for those who still wait for them.
    pub(crate) previous_updates: Option<(RunKey, Updates)>,
    /// Weight at the last look.
    bytes: usize,
}

/// One workflow id.
pub struct Slot {
    /// Which.
    pub key: WorkflowKey,
    /// Its state, one user at a time.
    pub state: Arc<tokio::sync::Mutex<SlotState>>,
    /// Tells long polls about progress.
    pub progress: watch::Sender<Progress>,
}

impl Slot {
    fn new(key: WorkflowKey) -> Self {
        let (progress, _) = watch::channel(Progress::default());
        Self { key, state: Arc::default(), progress }
    }
}

/// All slots in memory.
pub struct Slots {
    shards: Vec<Mutex<HashMap<WorkflowKey, Arc<Slot>>>>,
    by_run: Mutex<HashMap<RunKey, WorkflowKey>>,
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Slots {
    /// An empty cache that tries to stay below `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, by_run: Mutex::default(), bytes: AtomicUsize::new(0), bytes_max }
    }

    fn shard(&self, key: &WorkflowKey) -> &Mutex<HashMap<WorkflowKey, Arc<Slot>>> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.shards[hasher.finish() as usize % SHARDS]
    }

    /// The slot of a workflow id, made if need be.
    pub fn get(&self, key: &WorkflowKey) -> Arc<Slot> {
        let mut shard = lock(self.shard(key));
        if let Some(slot) = shard.get(key) {
            return slot.clone();
        }
        let slot = Arc::new(Slot::new(key.clone()));
        shard.insert(key.clone(), slot.clone());
        slot
    }

    /// Notes that a run is the current one of a workflow in memory.
    pub fn note_run(&self, run: RunKey, key: &WorkflowKey) {
        lock(&self.by_run).insert(run, key.clone());
    }

    /// Forgets what [`Slots::note_run`] noted.
    pub fn forget_run(&self, run: RunKey) {
        lock(&self.by_run).remove(&run);
    }

    /// The workflow whose current run this is, if it is in memory.
    pub fn workflow_of(&self, run: RunKey) -> Option<WorkflowKey> {
        lock(&self.by_run).get(&run).cloned()
    }

    /// Accounts for what a slot weighs now; drops others if the cache is too heavy. Returns how many were dropped.
    pub fn settle(&self, state: &mut SlotState) -> usize {
        let bytes = state.current.as_ref().map_or(SLOT_BYTES, |current| current.bytes());
        let before = std::mem::replace(&mut state.bytes, bytes);
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bytes.fetch_sub(before, Ordering::Relaxed);
        if total.saturating_sub(before) > self.bytes_max { self.evict() } else { 0 }
    }

    /// Drops idle slots until the cache is a tenth below its limit, or nothing is left to drop.
    fn evict(&self) -> usize {
        let target = self.bytes_max / 10 * 9;
        let mut dropped = 0;
        for shard in &self.shards {
            let Ok(mut shard) = shard.try_lock() else { continue };
            shard.retain(|_, slot| {
                if self.bytes.load(Ordering::Relaxed) <= target || Arc::strong_count(slot) > 1 {
                    return true;
                }
                let Ok(state) = slot.state.try_lock() else { return true };
                let unstored = state.current.as_ref().is_some_and(|current| current.run.has_unstored());
                if unstored || !state.queries.is_empty() || slot.progress.receiver_count() > 0 {
                    return true;
                }
                self.bytes.fetch_sub(state.bytes, Ordering::Relaxed);
                if let Some(current) = &state.current {
                    self.forget_run(current.key());
                }
                dropped += 1;
                false
            });
            if self.bytes.load(Ordering::Relaxed) <= target {
                break;
            }
        }
        dropped
    }

    /// Bytes held, by estimate.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Locks a mutex whose holders never panic half-way.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
