//! Wake-ups: one per run, the earliest of everything it waits for.
//!
//! The heap may hold entries that no longer count; the map says which do. Nothing polls: the loop sleeps until the
//! earliest entry or until an earlier one is set.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::Mutex,
};

use segno_proto::Nanos;
use segno_store::RunKey;
use tokio::sync::Notify;

use crate::slots::lock;

#[derive(Default)]
struct Armed {
    heap: BinaryHeap<Reverse<(Nanos, u64)>>,
    at: HashMap<u64, Nanos>,
}

/// All wake-ups of a node.
#[derive(Default)]
pub struct Timers {
    armed: Mutex<Armed>,
    /// Told when an earlier wake-up than before was set.
    pub earlier: Notify,
}

impl Timers {
    /// Sets or clears a run's wake-up.
    pub fn set(&self, run: RunKey, at: Option<Nanos>) {
        let mut armed = lock(&self.armed);
        match at {
            None => {
                armed.at.remove(&run.0);
            }
            Some(at) => {
                if armed.at.get(&run.0) == Some(&at) {
                    return;
                }
                let earliest = armed.heap.peek().is_none_or(|Reverse((first, _))| at < *first);
                armed.at.insert(run.0, at);
                armed.heap.push(Reverse((at, run.0)));
                if earliest {
                    self.earlier.notify_one();
                }
            }
        }
        if armed.heap.len() > 2 * armed.at.len() + 1024 {
            // Mostly outdated entries: build it anew.
            armed.heap = armed.at.iter().map(|(run, at)| Reverse((*at, *run))).collect();
        }
    }

    /// Takes every run that is due; says when the next one is.
    pub fn due(&self, now: Nanos) -> (Vec<RunKey>, Option<Nanos>) {
        let mut armed = lock(&self.armed);
        let mut due = Vec::new();
        while let Some(Reverse((at, run))) = armed.heap.peek().copied() {
            let counts = armed.at.get(&run) == Some(&at);
            if counts && at > now {
                return (due, Some(at));
            }
            armed.heap.pop();
            if counts {
                armed.at.remove(&run);
                due.push(RunKey(run));
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
    use super::*;

    #[test]
    fn the_newest_setting_counts() {
        let timers = Timers::default();
        timers.set(RunKey(1), Some(10));
        timers.set(RunKey(2), Some(20));
        timers.set(RunKey(1), Some(30));
        assert_eq!(timers.due(15), (vec![], Some(20)));
        assert_eq!(timers.due(25), (vec![RunKey(2)], Some(30)));
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
        assert_eq!(timers.due(10_000).0, vec![RunKey(1)]);
    }
}
