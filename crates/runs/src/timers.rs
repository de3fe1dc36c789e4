//! Wake-ups: one per run, the earliest of everything it waits for.
//!
//! The heap may hold outdated entries; the map has the valid ones. The loop does not poll: it sleeps until the earliest
//! entry or until an earlier one is set.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Mutex};

use segno_environment::{hash::HashMap, lock::lock};
use segno_proto::Nanos;
use segno_store::{NamespaceKey, RunKey, sabotage};
use tokio::sync::Notify;

#[derive(Default)]
struct WakeUps {
    heap: BinaryHeap<Reverse<(Nanos, u64)>>,
    at: HashMap<u64, WakeUp>,
}

/// The wake-up of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WakeUp {
    at: Nanos,
    namespace: NamespaceKey,
}

/// The namespace of a run that was not loaded yet.
const UNKNOWN: NamespaceKey = NamespaceKey(0);

/// All wake-ups of a node.
#[derive(Default)]
pub struct Timers {
    armed: Mutex<WakeUps>,
    /// Notified when an earlier wake-up than before was set.
    pub earlier: Notify,
}

impl Timers {
    /// Sets or clears the wake-up of a run whose namespace is not known.
    pub fn set(&self, run: RunKey, at: Option<Nanos>) {
        self.set_of(UNKNOWN, run, at);
    }

    /// Sets or clears the wake-up of a run of a namespace.
    pub(crate) fn set_of(&self, namespace: NamespaceKey, run: RunKey, at: Option<Nanos>) {
        let mut armed = lock(&self.armed);
        match at {
            None => {
                armed.at.remove(&run.0);
            }
            Some(at) => {
                if armed.at.get(&run.0).is_some_and(|known| known.at == at) {
                    return;
                }
                if armed.at.contains_key(&run.0) && sabotage::is_on("keep-first-wake") {
                    return;
                }
                let earliest = armed.heap.peek().is_none_or(|Reverse((first, _))| at < *first);
                armed.at.insert(run.0, WakeUp { at, namespace });
                armed.heap.push(Reverse((at, run.0)));
                if earliest && !sabotage::is_on("no-earlier-wake") {
                    self.earlier.notify_one();
                }
            }
        }
        if armed.heap.len() > 2 * armed.at.len() + 1024 {
            // Mostly outdated entries: build it anew.
            armed.heap = armed.at.iter().map(|(run, wake_up)| Reverse((wake_up.at, *run))).collect();
        }
    }

    /// Sets a run's wake-up unless it has an earlier one.
    pub fn set_if_earlier(&self, run: RunKey, at: Nanos) {
        if lock(&self.armed).at.get(&run.0).is_none_or(|known| at < known.at) {
            self.set(run, Some(at));
        }
    }

    /// Takes every run that is due, with its namespace; says when the next one is.
    pub fn due(&self, now: Nanos) -> (Vec<(NamespaceKey, RunKey)>, Option<Nanos>) {
        let mut armed = lock(&self.armed);
        let mut due = Vec::new();
        while let Some(Reverse((at, run))) = armed.heap.peek().copied() {
            let counts = armed.at.get(&run).filter(|known| known.at == at).copied();
            if counts.is_some() && at > now {
                return (due, Some(at));
            }
            armed.heap.pop();
            if let Some(wake_up) = counts {
                armed.at.remove(&run);
                due.push((wake_up.namespace, RunKey(run)));
            }
        }
        (due, None)
    }

    /// How many runs have a wake-up.
    pub fn len(&self) -> usize {
        lock(&self.armed).at.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_newest_setting_counts() {
        let timers = Timers::default();
        timers.set(RunKey(1), Some(10));
        timers.set(RunKey(2), Some(20));
        timers.set(RunKey(1), Some(30));
        assert_eq!(timers.due(15), (vec![], Some(20)));
        assert_eq!(timers.due(25), (vec![(UNKNOWN, RunKey(2))], Some(30)));
        timers.set(RunKey(1), None);
        assert_eq!(timers.due(99), (vec![], None));
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn outdated_entries_do_not_pile_up() {
        let timers = Timers::default();
        for at in 0..10_000 {
            timers.set(RunKey(1), Some(at));
        }
        assert!(lock(&timers.armed).heap.len() < 3000);
        assert_eq!(timers.due(10_000).0, vec![(UNKNOWN, RunKey(1))]);
    }

    #[test]
    fn a_thousand_random_times_come_due_in_order_and_once() {
        for seed in 1..=20 {
            let mut random = splitmix(seed);
            let timers = Timers::default();
            // What should be armed, by time and by run.
            let (mut expected, mut at_of) = (BTreeSet::new(), HashMap::default());
            let mut now = 0;
            for _ in 0..1000 {
                let run = random(300);
                if let Some(before) = at_of.remove(&run) {
                    expected.remove(&(before, run));
                }
                let at = (random(4) > 0).then(|| now + random(500) as Nanos);
                timers.set(RunKey(run), at);
                if let Some(at) = at {
                    at_of.insert(run, at);
                    expected.insert((at, run));
                }
                assert_eq!(timers.len(), expected.len(), "seed {seed}");
                if random(8) == 0 {
                    now += random(100) as Nanos;
                    let due: Vec<_> = expected.iter().copied().take_while(|(at, _)| *at <= now).collect();
                    expected.retain(|(at, _)| *at > now);
                    at_of.retain(|_, at| *at > now);
                    let runs = due.into_iter().map(|(_, run)| (UNKNOWN, RunKey(run))).collect();
                    assert_eq!(timers.due(now), (runs, expected.first().map(|(at, _)| *at)), "seed {seed}, at {now}");
                }
            }
            let rest = expected.into_iter().map(|(_, run)| (UNKNOWN, RunKey(run))).collect();
            assert_eq!(timers.due(Nanos::MAX), (rest, None), "seed {seed}");
            assert_eq!(timers.due(Nanos::MAX), (vec![], None), "seed {seed}: each comes once");
        }
    }

    /// Numbers below a bound, the same for the same seed (SplitMix64).
    fn splitmix(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |bound| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % bound
        }
    }
}
