//! How many tasks come to a queue and go from it per second, measured over the last half minute.
//!
//! Counting costs a few instructions: a count per five seconds and direction, overwritten when its time is over.

use std::collections::BTreeMap;

use segno_proto::Nanos;

const SECOND: Nanos = 1_000_000_000;
/// The time that one count covers.
const SLICE: Nanos = 5 * SECOND;
/// So many slices make the half minute.
const SLICES: usize = 6;

/// Statistics of the tasks of one priority in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueStats {
    /// Tasks that wait.
    pub backlog: usize,
    /// How long the oldest of them has waited.
    pub oldest: Nanos,
    /// Tasks that came, per second.
    pub add_rate: f32,
    /// Tasks that went to workers, per second.
    pub dispatch_rate: f32,
}

impl QueueStats {
    /// Adds those of other tasks of the queue.
    pub fn add(&mut self, other: Self) {
        self.backlog += other.backlog;
        self.oldest = self.oldest.max(other.oldest);
        self.add_rate += other.add_rate;
        self.dispatch_rate += other.dispatch_rate;
    }
}

/// A count of the last half minute.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    counts: [u32; SLICES],
    /// The slice of time of the newest count.
    newest: Nanos,
    /// When it began.
    since: Nanos,
}

impl Counter {
    /// Clears what is over. Nothing happens within a slice.
    fn advance(&mut self, now: Nanos) {
        let slice = now / SLICE;
        if slice <= self.newest {
            return;
        }
        if self.since == 0 {
            self.since = now;
        }
        for over in (self.newest + 1).max(slice - SLICES as Nanos + 1)..=slice {
            self.counts[over as usize % SLICES] = 0;
        }
        self.newest = slice;
    }

    fn add(&mut self, now: Nanos) {
        self.add_many(1, now);
    }

    fn add_many(&mut self, many: u32, now: Nanos) {
        self.advance(now);
        let newest = &mut self.counts[self.newest as usize % SLICES];
        *newest = newest.saturating_add(many);
    }

    /// One less, if there was one.
    fn undo(&mut self, now: Nanos) {
        self.advance(now);
        let newest = &mut self.counts[self.newest as usize % SLICES];
        *newest = newest.saturating_sub(1);
    }

    fn per_second(&self, now: Nanos) -> f32 {
        let mut counter = *self;
        counter.advance(now);
        let total: u32 = counter.counts.iter().sum();
        // The newest slice has only begun.
        let covered = (SLICES as Nanos - 1) * SLICE + now % SLICE;
        let measured = covered.min(now - counter.since).max(SECOND);
        total as f32 * SECOND as f32 / measured as f32
    }
}

/// The rates of tasks that come to a queue and go from it, by priority.
#[derive(Debug, Default)]
pub struct TaskRates {
    /// Priorities are few: what users may set, and that of queries.
    counters: BTreeMap<i32, (Counter, Counter)>,
}

impl TaskRates {
    /// A task came.
    pub fn added(&mut self, priority: i32, now: Nanos) {
        self.counters.entry(priority).or_default().0.add(now);
    }

    /// A task went to a worker.
    pub fn dispatched(&mut self, priority: i32, now: Nanos) {
        self.counters.entry(priority).or_default().1.add(now);
    }

    /// Tasks came and went elsewhere.
    pub fn passed(&mut self, priority: i32, many: u32, now: Nanos) {
        let (added, dispatched) = self.counters.entry(priority).or_default();
        added.add_many(many, now);
        dispatched.add_many(many, now);
    }

    /// A task that went came back.
    pub fn given_back(&mut self, priority: i32, now: Nanos) {
        self.counters.entry(priority).or_default().1.undo(now);
    }

    /// Whether nothing came or went since a moment, to within the half minute.
    pub fn is_idle(&self, since: Nanos) -> bool {
        let is_idle = |counter: &Counter| counter.newest < since / SLICE;
        self.counters.values().all(|(added, dispatched)| is_idle(added) && is_idle(dispatched))
    }

    /// The rates by priority.
    pub fn rates(&self, now: Nanos) -> BTreeMap<i32, QueueStats> {
        let stats = |(added, dispatched): &(Counter, Counter)| QueueStats {
            add_rate: added.per_second(now),
            dispatch_rate: dispatched.per_second(now),
            ..Default::default()
        };
        self.counters.iter().map(|(priority, counters)| (*priority, stats(counters))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_cover_the_last_half_minute() {
        let mut measured = TaskRates::default();
        let start = 1_700_000_000 * SECOND;
        for second in 0..60 {
            for _ in 0..10 {
                measured.added(3, start + second * SECOND);
            }
        }
        let rate = |second: Nanos| measured.rates(start + second * SECOND)[&3].add_rate;
        assert!((rate(60) - 10.0).abs() < 0.5, "{}", rate(60));
        assert!(rate(75) < 6.0 && rate(75) > 3.0, "{}", rate(75));
        assert_eq!(rate(95), 0.0);
        assert_eq!(measured.rates(start + 3600 * SECOND)[&3].dispatch_rate, 0.0);
    }

    #[test]
    fn a_queue_that_just_began_is_measured_since_then() {
        let mut measured = TaskRates::default();
        let start = 1_700_000_001 * SECOND;
        for _ in 0..3 {
            measured.added(3, start);
        }
        assert_eq!(measured.rates(start)[&3].add_rate, 3.0);
        assert_eq!(measured.rates(start + 2 * SECOND)[&3].add_rate, 1.5);
        measured.dispatched(3, start);
        measured.given_back(3, start);
        assert_eq!(measured.rates(start + SECOND)[&3].dispatch_rate, 0.0);
    }
}
