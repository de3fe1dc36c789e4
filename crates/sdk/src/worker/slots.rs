//! Slots: how many tasks of a kind (tasks, local tasks, workflow tasks) a worker executes at a time. A slot is taken before
//! a poll and free when the task is over.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::resources::Usage;
use crate::lock::lock;

/// Decides how many tasks a worker executes at a time: [`WorkerBuilder::tuner`](super::WorkerBuilder::tuner),
/// [`local_tuner`](super::WorkerBuilder::local_tuner) and [`workflow_tuner`](super::WorkerBuilder::workflow_tuner).
#[derive(Clone, Debug, PartialEq)]
pub struct Tuner {
    /// Slots that exist regardless of the machine's load.
    min: usize,
    /// Slots in all.
    max: usize,
    /// Above `min`: the shares of memory and processors of the machine that may be in use before a further slot is given.
    targets: Option<(f64, f64)>,
}

impl Tuner {
    /// Always this many.
    pub fn fixed(slots: usize) -> Self {
        Self { min: slots, max: slots, targets: None }
    }

    /// From `min` to `max`: further slots only while less than these shares (0 to 1) of the machine's memory and processors
    /// are in use. Linux only; elsewhere it is [`Tuner::fixed`] with `max`.
    pub fn resource_based(memory: f64, cpu: f64, min: usize, max: usize) -> Self {
        Self { min, max, targets: Some((memory, cpu)) }
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let share = |share: f64| share > 0.0 && share <= 1.0;
        if self.max == 0 || self.min > self.max || self.max > Semaphore::MAX_PERMITS {
            return Some(format!("a worker cannot have {} to {} slots for tasks", self.min, self.max));
        }
        match self.targets {
            Some((memory, cpu)) if !share(memory) || !share(cpu) => {
                Some(format!("targets are shares above 0 and at most 1, not {memory} and {cpu}"))
            }
            Some(_) if self.min == 0 => Some("a worker needs at least one slot for tasks".to_owned()),
            _ => None,
        }
    }
}

/// Above its minimum a worker asks for a slot not more often than this, so that the last one shows its effect.
const RAMP: Duration = Duration::from_millis(50);

/// The slots of one kind of one worker.
pub(crate) struct Slots {
    tuner: Tuner,
    free: Arc<Semaphore>,
    used: Arc<AtomicUsize>,
    usage: Mutex<Usage>,
    /// When the last slot above the minimum was given.
    given_at: Mutex<Option<Instant>>,
}

/// Room for one task. It is given back when this is dropped.
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
    used: Arc<AtomicUsize>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slots {
    pub(crate) fn new(tuner: Tuner) -> Self {
        let free = Arc::new(Semaphore::new(tuner.max));
        Self { tuner, free, used: Arc::default(), usage: Mutex::default(), given_at: Mutex::new(None) }
    }

    /// Waits for room.
    pub(crate) async fn reserve(&self) -> Slot {
        // The semaphore is never closed; if it were there would never be room.
        let Ok(permit) = self.free.clone().acquire_owned().await else { return std::future::pending().await };
        while !self.has_resources() {
            tokio::time::sleep(RAMP).await;
        }
        self.slot(permit)
    }

    /// Takes up to `count` slots that are free now.
    pub(crate) fn try_reserve(&self, count: usize) -> Vec<Slot> {
        let mut slots = Vec::new();
        while slots.len() < count {
            let Ok(permit) = self.free.clone().try_acquire_owned() else { break };
            if !self.has_resources() {
                break;
            }
            slots.push(self.slot(permit));
        }
        slots
    }

    /// Waits until all slots are free, and lets none go again.
    pub(crate) async fn drained(&self) {
        if let Ok(all) = self.free.acquire_many(u32::try_from(self.tuner.max).unwrap_or(u32::MAX)).await {
            all.forget();
        }
    }

    /// Slots in use: by tasks, and by polls that wait for one.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Temporal's name for a tuner of this kind.
    pub(crate) fn kind(&self) -> &'static str {
        if self.tuner.targets.is_some() { "ResourceBased" } else { "Fixed" }
    }

    /// Slots in all.
    pub(crate) fn max(&self) -> usize {
        self.tuner.max
    }

    fn slot(&self, permit: OwnedSemaphorePermit) -> Slot {
        self.used.fetch_add(1, Ordering::Relaxed);
        Slot { _permit: permit, used: self.used.clone() }
    }

    fn has_resources(&self) -> bool {
        let Some((memory, cpu)) = self.tuner.targets else { return true };
        if self.used() < self.tuner.min {
            return true;
        }
        let mut given_at = lock(&self.given_at);
        if given_at.is_some_and(|at| at.elapsed() < RAMP) {
            return false;
        }
        let mut usage = lock(&self.usage);
        let room = usage.now().is_none_or(|now| now.memory < memory && now.cpu < cpu);
        if room {
            *given_at = Some(Instant::now());
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn slots_come_back_when_dropped() {
        let slots = Slots::new(Tuner::fixed(2));
        let first = slots.reserve().await;
        assert_eq!(slots.try_reserve(5).len(), 1);
        let _second = slots.try_reserve(1);
        assert_eq!((slots.try_reserve(1).len(), slots.used()), (0, 2));
        drop(first);
        assert_eq!((slots.used(), slots.try_reserve(5).len()), (1, 1));
    }

    #[tokio::test]
    async fn a_busy_machine_gets_the_minimum_only() {
        // No machine uses less than this share.
        let slots = Slots::new(Tuner::resource_based(1e-9, 1e-9, 2, 10));
        let reserved = slots.try_reserve(10).len();
        let expected = if cfg!(target_os = "linux") { 2 } else { 10 };
        assert_eq!(reserved, expected);
        // All of it may be used, but a further slot comes only after a while.
        let slots = Slots::new(Tuner::resource_based(1.0, 1.0, 1, 10));
        let (_first, _second) = (slots.reserve().await, slots.reserve().await);
        assert_eq!(slots.used(), 2);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Tuner::fixed(0).problem().is_some());
        assert!(Tuner::resource_based(0.5, 0.5, 5, 4).problem().is_some());
        assert!(Tuner::resource_based(1.5, 0.5, 1, 4).problem().is_some());
        assert_eq!(Tuner::resource_based(0.8, 0.9, 1, 4).problem(), None);
    }
}
