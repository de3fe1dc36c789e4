//! The run cache: one slot per workflow id, with its current run and the lock that serialises writers.
//!
//! Bounded by bytes. Over the limit, each change examines a few slots in the order of the CLOCK algorithm, an
//! approximation of *least recently used* at constant cost: a slot that was used since it was last examined stays. A
//! slot with unstored data (a started workflow task whose start is in the tail) is *pinned*: only its readable-again
//! parts are evicted. A slot with waiting calls gives up its run and stays as their queue.

mod current;
mod waiting;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use segno_engine::Run;
use segno_store::{RunKey, cluster::Shard, sabotage};
use tokio::sync::watch;

pub use current::{Current, Progress, SlotState, WorkflowKey};
pub use waiting::{Call, PendingCall, WaitingCall, request_bytes};
pub use waiting::{RunSelector, with_request_bytes};

use current::SLOT_BYTES;
use segno_environment::{hash::HashMap, lock::lock};
use waiting::WaitingCalls;

/// Parts of all slots with a lock of their own.
const STRIPES: usize = 16;
/// Slots examined for eviction by one change: what a change costs does not depend on how many slots are pinned.
const EXAMINED_MAX: usize = 32;

/// One workflow id.
pub struct Slot {
    /// Which.
    pub key: WorkflowKey,
    /// Its state, one user at a time.
    pub state: Arc<tokio::sync::Mutex<SlotState>>,
    /// Tells long polls about progress.
    pub progress: watch::Sender<Progress>,
    /// Calls that wait for the lock.
    pub calls: WaitingCalls,
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

/// Whether a slot that was examined stays in memory.
enum SlotFate {
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
    pub fn of_shards(&self, is_wanted: impl Fn(Shard) -> bool) -> Vec<Arc<Slot>> {
        let mut found = Vec::new();
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            let wanted = |key: &WorkflowKey| is_wanted(Shard::of(key.namespace, &key.workflow_id));
            found.extend(stripe.slots.iter().filter(|(key, _)| wanted(key)).map(|(_, slot)| slot.clone()));
        }
        found
    }

    /// All current runs in memory that are not being changed.
    pub fn runs(&self) -> Vec<Arc<Run>> {
        let slots = self.of_shards(|_| true);
        let run = |slot: Arc<Slot>| slot.state.try_lock().ok()?.current.as_ref().map(|current| current.run.clone());
        slots.into_iter().filter_map(run).collect()
    }

    /// Notes that a run is the current one of a workflow in memory.
    pub(crate) fn note_run(&self, run: RunKey, key: &WorkflowKey) {
        lock(&self.by_run).insert(run, key.clone());
    }

    /// Forgets what [`Slots::note_run`] noted.
    pub(crate) fn forget_run(&self, run: RunKey) {
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
                SlotFate::Kept => stripe.ring.push_back(key),
                SlotFate::Evicted => {
                    stripe.slots.remove(&key);
                }
            }
        }
        dropped
    }

    /// Drops what a slot can do without.
    fn examine(&self, slot: &Arc<Slot>, dropped: &mut usize) -> SlotFate {
        if slot.used.swap(false, Ordering::Relaxed) {
            return SlotFate::Kept;
        }
        let Ok(mut state) = slot.state.try_lock() else { return SlotFate::Kept };
        let unstored = state.current.as_ref().is_some_and(|current| current.run.has_unstored());
        let unstored = unstored && !sabotage::is_on("evict-tail");
        if unstored || !state.queries.is_empty() {
            if let Some(current) = &mut state.current {
                Arc::make_mut(current).shed();
            }
            self.account(&mut state);
            return SlotFate::Kept;
        }
        if let Some(current) = state.current.take() {
            self.forget_run(current.key());
            *dropped += 1;
        }
        state.loaded = false;
        // The caller holds the stripe, so no call can come to use the slot; one that uses or waits on it already keeps it.
        if Arc::strong_count(slot) > 1 || slot.progress.receiver_count() > 0 {
            self.account(&mut state);
            return SlotFate::Kept;
        }
        self.bytes.fetch_sub(state.bytes, Ordering::Relaxed);
        SlotFate::Evicted
    }

    /// Bytes held, by estimate.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use segno_store::NamespaceKey;

    use super::*;

    fn key(id: usize) -> WorkflowKey {
        WorkflowKey::new(NamespaceKey(1), &format!("w{id}"))
    }

    fn touch(slots: &Slots, id: usize) {
        let slot = slots.get(&key(id));
        let mut state = slot.state.clone().try_lock_owned().expect("it is free");
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
