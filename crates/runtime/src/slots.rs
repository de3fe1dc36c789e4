//! The run cache: one slot per workflow id, holding its current run and the lock that makes writers take turns.
//!
//! Bounded by bytes. Over the limit, each change examines a few slots in the order of the CLOCK algorithm, an
//! approximation of *least recently used* at constant cost: a slot that was used since it was last examined stays. A slot
//! that knows more than storage (a started workflow task whose start is in the tail) is *pinned*: it gives up only what
//! can be read again. A slot that somebody waits on gives up its run and stays as the place to wait at.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use segno_engine::{Run, update::Updates};
use segno_proto::events::HistoryEvent;
use segno_store::{HistoryBatch, NamespaceKey, RunKey, cluster::Shard};
use tokio::sync::watch;

use crate::{combine::WaitingCalls, hash::HashMap, queries::QueryRegistry};

/// History kept in memory per run, so that the next worker's turn needs no read.
const RECENT_BYTES_MAX: usize = 32 * 1024;
/// A slot's own weight besides its run.
const SLOT_BYTES: usize = 1024;
/// What a schedule weighs besides: its specification and its search attributes are many small parts. Measured: 10 KiB of memory
/// for each schedule in the cache.
const SCHEDULE_BYTES: usize = 7 * 1024;
/// Parts of all slots with a lock of their own.
const STRIPES: usize = 16;
/// Slots examined for eviction by one change: what a change costs does not depend on how many slots are pinned.
const EXAMINED_MAX: usize = 32;

/// A workflow id within its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkflowKey {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The user's name.
    pub workflow_id: Arc<str>,
    /// Stands for this run alone: it is closed, another one is the current run, and its activities are carried out all the
    /// same. Such a run has a slot of its own, whose lock may be taken while that of the workflow is held.
    pub(crate) lingering: Option<RunKey>,
}

impl WorkflowKey {
    /// Names a workflow.
    pub fn new(namespace: NamespaceKey, workflow_id: &str) -> Self {
        Self { namespace, workflow_id: workflow_id.into(), lingering: None }
    }

    /// Names an older run of a workflow whose activities are carried out.
    pub(crate) fn of_lingering(&self, run: RunKey) -> Self {
        Self { lingering: Some(run), ..self.clone() }
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
    /// The state of the script after its last turn, if memory has it.
    pub script_state: Option<Bytes>,
}

impl Current {
    /// A run just loaded or created.
    pub fn new(run: Arc<Run>, version: u64) -> Self {
        Self {
            run,
            version,
            recent: VecDeque::new(),
            woken: 0,
            activity_events: HashMap::default(),
            stored_bytes: 0,
            script_state: None,
        }
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

    /// Gives up what can be read from storage again.
    fn shed(&mut self) {
        self.recent = VecDeque::new();
        self.activity_events = HashMap::default();
        self.script_state = None;
    }

    fn bytes(&self) -> usize {
        let recent: usize = self.recent.iter().map(|batch| batch.events.len() + 64).sum();
        let schedule = if self.run.state().schedule.is_some() { SCHEDULE_BYTES } else { 0 };
        // Decoded state takes about twice its encoded size.
        SLOT_BYTES + schedule + recent + 2 * self.stored_bytes + self.script_state.as_ref().map_or(0, Bytes::len)
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
    /// Durable transitions so far, of a standalone activity or a schedule.
    pub transitions: i64,
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
    /// Whether several calls shared the last commit that was made for calls which waited.
    pub(crate) shared_commit: bool,
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
    /// Calls that wait for the lock.
    pub(crate) calls: WaitingCalls,
    /// Whether it was used since it was last examined for eviction.
    used: AtomicBool,
}

impl Slot {
    fn new(key: WorkflowKey) -> Self {
        let (progress, _) = watch::channel(Progress::default());
        Self { key, state: Arc::default(), progress, calls: WaitingCalls::default(), used: AtomicBool::new(true) }
    }
}

/// Bytes of a workflow id that decide about its stripe.
const HASHED_BYTES: usize = 16;
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// A part of all slots.
#[derive(Default)]
struct Stripe {
    slots: HashMap<WorkflowKey, Arc<Slot>>,
    /// Every slot once, the one that is examined next in front.
    ring: VecDeque<WorkflowKey>,
}

/// What became of a slot that was examined.
enum Examined {
    Kept,
    Evicted,
}

/// All slots in memory.
pub struct Slots {
    stripes: Vec<Mutex<Stripe>>,
    /// The stripe that is examined next.
    hand: AtomicUsize,
    by_run: Mutex<HashMap<RunKey, WorkflowKey>>,
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Slots {
    /// An empty cache that tries to stay below `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::default()).collect();
        let (hand, bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { stripes, hand, by_run: Mutex::default(), bytes, bytes_max }
    }

    /// The stripe of a workflow id. What it decides is who shares a lock, so that a simple hash (FNV-1a) of the end of the id
    /// is enough.
    fn stripe(&self, key: &WorkflowKey) -> &Mutex<Stripe> {
        let end = key.workflow_id.bytes().rev().take(HASHED_BYTES);
        let hash = end.fold(FNV_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        &self.stripes[(hash ^ hash >> 32) as usize % STRIPES]
    }

    /// The slot of a workflow id, made if need be.
    pub fn get(&self, key: &WorkflowKey) -> Arc<Slot> {
        let mut stripe = lock(self.stripe(key));
        if let Some(slot) = stripe.slots.get(key) {
            slot.used.store(true, Ordering::Relaxed);
            return slot.clone();
        }
        let slot = Arc::new(Slot::new(key.clone()));
        stripe.slots.insert(key.clone(), slot.clone());
        stripe.ring.push_back(key.clone());
        slot
    }

    /// The slots of workflows of some shards.
    pub(crate) fn of_shards(&self, is_wanted: impl Fn(Shard) -> bool) -> Vec<Arc<Slot>> {
        let mut found = Vec::new();
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            let wanted = |key: &WorkflowKey| is_wanted(Shard::of(key.namespace, &key.workflow_id));
            found.extend(stripe.slots.iter().filter(|(key, _)| wanted(key)).map(|(_, slot)| slot.clone()));
        }
        found
    }

    /// All current runs in memory that are not being changed.
    pub(crate) fn runs(&self) -> Vec<Arc<Run>> {
        let slots = self.of_shards(|_| true);
        let run = |slot: Arc<Slot>| slot.state.try_lock().ok()?.current.as_ref().map(|current| current.run.clone());
        slots.into_iter().filter_map(run).collect()
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

    /// A current run as memory has it, unless it is being changed.
    pub fn run_in_memory(&self, run: RunKey) -> Option<Arc<Run>> {
        let key = self.workflow_of(run)?;
        let slot = lock(self.stripe(&key)).slots.get(&key).cloned()?;
        let state = slot.state.try_lock().ok()?;
        state.current.as_ref().filter(|current| current.key() == run).map(|current| current.run.clone())
    }

    /// Accounts for what a slot weighs now; drops others if the cache is too heavy. Returns how many were dropped.
    pub fn settle(&self, state: &mut SlotState) -> usize {
        self.account(state);
        if self.bytes.load(Ordering::Relaxed) > self.bytes_max { self.evict() } else { 0 }
    }

    fn account(&self, state: &mut SlotState) {
        let bytes = state.current.as_ref().map_or(SLOT_BYTES, |current| current.bytes());
        let before = std::mem::replace(&mut state.bytes, bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// Examines some slots, until the cache is below its limit. Returns how many runs were dropped.
    fn evict(&self) -> usize {
        let mut dropped = 0;
        for _ in 0..EXAMINED_MAX {
            if self.bytes.load(Ordering::Relaxed) <= self.bytes_max {
                break;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed) % STRIPES;
            let Ok(mut stripe) = self.stripes[hand].try_lock() else { continue };
            let Some(key) = stripe.ring.pop_front() else { continue };
            let Some(slot) = stripe.slots.get(&key) else { continue };
            match self.examine(slot, &mut dropped) {
                Examined::Kept => stripe.ring.push_back(key),
                Examined::Evicted => {
                    stripe.slots.remove(&key);
                }
            }
        }
        dropped
    }

    /// Drops what a slot can do without.
    fn examine(&self, slot: &Arc<Slot>, dropped: &mut usize) -> Examined {
        if slot.used.swap(false, Ordering::Relaxed) {
            return Examined::Kept;
        }
        let Ok(mut state) = slot.state.try_lock() else { return Examined::Kept };
        let unstored = state.current.as_ref().is_some_and(|current| current.run.has_unstored());
        if unstored || !state.queries.is_empty() {
            if let Some(current) = &mut state.current {
                Arc::make_mut(current).shed();
            }
            self.account(&mut state);
            return Examined::Kept;
        }
        if let Some(current) = state.current.take() {
            self.forget_run(current.key());
            *dropped += 1;
        }
        state.loaded = false;
        // The caller holds the stripe, so nobody can come to use the slot; whoever uses or waits on it already keeps it.
        if Arc::strong_count(slot) > 1 || slot.progress.receiver_count() > 0 {
            self.account(&mut state);
            return Examined::Kept;
        }
        self.bytes.fetch_sub(state.bytes, Ordering::Relaxed);
        Examined::Evicted
    }

    /// Bytes held, by estimate.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

pub(crate) use crate::lock::lock;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: usize) -> WorkflowKey {
        WorkflowKey::new(NamespaceKey(1), &format!("w{id}"))
    }

    fn touch(slots: &Slots, id: usize) {
        let slot = slots.get(&key(id));
        let mut state = slot.state.clone().try_lock_owned().expect("nobody has it");
        slots.settle(&mut state);
    }

    fn contains(slots: &Slots, id: usize) -> bool {
        let key = key(id);
        lock(slots.stripe(&key)).slots.contains_key(&key)
    }

    #[test]
    fn the_cache_stays_at_its_limit_and_keeps_what_is_used() {
        let slots = Slots::new(1000 * SLOT_BYTES);
        for id in 0..20_000 {
            touch(&slots, id);
            touch(&slots, 0);
        }
        assert!(slots.bytes() <= 1001 * SLOT_BYTES, "{}", slots.bytes());
        assert!(contains(&slots, 0), "it was used all the time");
        assert!(!contains(&slots, 1), "it was not used for long");
    }

    #[test]
    fn slots_that_somebody_waits_on_stay_and_the_others_go() {
        let slots = Slots::new(100 * SLOT_BYTES);
        let waiting: Vec<_> = (0..1000).map(|id| slots.get(&key(id)).progress.subscribe()).collect();
        for id in 0..3000 {
            touch(&slots, id);
        }
        for _ in 0..3000 {
            touch(&slots, 1_000_000);
        }
        assert!((0..1000).all(|id| contains(&slots, id)), "they are waited on");
        assert!((1000..3000).all(|id| !contains(&slots, id)), "there is no room for them");
        drop(waiting);
        for _ in 0..3000 {
            touch(&slots, 1_000_000);
        }
        assert!(slots.bytes() <= 101 * SLOT_BYTES, "{}", slots.bytes());
    }
}
