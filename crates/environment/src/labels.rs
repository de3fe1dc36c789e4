//! Counters with labels, of bounded number, and distributions of times.
//!
//! A look-up hashes the labels and takes a read lock that writers take only for new labels: some tens of nanoseconds beside
//! calls of tens of microseconds.

use std::{
    hash::BuildHasher,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::hash::{HashMap, RandomState};

/// Most combinations of labels of one family. Those that come later are counted together.
const COMBINATIONS_MAX: usize = 1_000;
/// The value of every label of what is counted together.
pub const OTHER: &str = "__other__";
/// Most bytes of a label.
const LABEL_BYTES_MAX: usize = 200;

/// Counters that differ in `N` labels.
#[derive(Debug)]
pub struct Family<const N: usize> {
    hasher: RandomState,
    counters: RwLock<HashMap<u64, Counter<N>>>,
    others: AtomicU64,
}

#[derive(Debug)]
struct Counter<const N: usize> {
    labels: [String; N],
    value: AtomicU64,
}

impl<const N: usize> Default for Family<N> {
    fn default() -> Self {
        Self { hasher: RandomState::default(), counters: RwLock::default(), others: AtomicU64::new(0) }
    }
}

impl<const N: usize> Family<N> {
    /// Counts one.
    pub fn count(&self, labels: [&str; N]) {
        // Two combinations with the same hash of 64 bits would be counted as one; nothing else would go wrong.
        let key = self.hasher.hash_one(labels);
        if let Some(counter) = self.counters.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            counter.value.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut counters = self.counters.write().unwrap_or_else(PoisonError::into_inner);
        if counters.len() >= COMBINATIONS_MAX && !counters.contains_key(&key) {
            self.others.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let labels = labels.map(|label| shortened(label).to_owned());
        let counter = counters.entry(key).or_insert_with(|| Counter { labels, value: AtomicU64::new(0) });
        counter.value.fetch_add(1, Ordering::Relaxed);
    }

    /// All combinations with their values, sorted; what was counted together comes last.
    pub fn read(&self) -> Vec<([String; N], u64)> {
        let counters = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        let value = |counter: &Counter<N>| (counter.labels.clone(), counter.value.load(Ordering::Relaxed));
        let mut all: Vec<_> = counters.values().map(value).collect();
        all.sort_unstable();
        let others = self.others.load(Ordering::Relaxed);
        if others > 0 {
            all.push((std::array::from_fn(|_| OTHER.to_owned()), others));
        }
        all
    }
}

fn shortened(label: &str) -> &str {
    let end = (0..=label.len().min(LABEL_BYTES_MAX)).rev().find(|end| label.is_char_boundary(*end));
    &label[..end.unwrap_or(0)]
}

/// How long things take.
#[derive(Debug, Default)]
pub struct Latency {
    /// Times up to each of [`Latency::BOUNDS`] and above the one before, then those above all of them.
    buckets: [AtomicU64; Latency::BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Latency {
    /// Upper bounds in microseconds: 100 µs to 60 s.
    pub const BOUNDS: [u64; 17] = [
        100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000, 60_000_000,
    ];

    /// Counts a time.
    pub fn observe(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let place = Self::BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Upper bound of each bucket in seconds (`None` above the last) with the number of times up to it, and the sum of all
    /// times in seconds.
    pub fn read(&self) -> (Vec<(Option<f64>, u64)>, f64) {
        let bounds = Self::BOUNDS.into_iter().map(|micros| Some(micros as f64 / 1e6)).chain([None]);
        let mut total = 0;
        let counted = bounds.zip(&self.buckets).map(|(bound, bucket)| {
            total += bucket.load(Ordering::Relaxed);
            (bound, total)
        });
        (counted.collect(), self.micros.load(Ordering::Relaxed) as f64 / 1e6)
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_bounded() {
        let family = Family::<2>::default();
        for number in 0..COMBINATIONS_MAX + 5 {
            family.count(["n", &number.to_string()]);
        }
        family.count(["n", "7"]);
        let all = family.read();
        assert_eq!(all.len(), COMBINATIONS_MAX + 1);
        assert_eq!(all.last().unwrap(), &([OTHER.to_owned(), OTHER.to_owned()], 5));
        assert!(all.contains(&(["n".to_owned(), "7".to_owned()], 2)));
    }

    #[test]
    fn labels_are_shortened_at_a_character() {
        assert_eq!(shortened(&"ä".repeat(150)).len(), 200);
        assert_eq!(shortened("a"), "a");
    }

    #[test]
    fn times_are_counted_in_their_buckets() {
        let latency = Latency::default();
        for micros in [0, 100, 101, 90_000_000] {
            latency.observe(Duration::from_micros(micros));
        }
        let (buckets, sum) = latency.read();
        assert_eq!((buckets[0], buckets[1]), ((Some(0.0001), 2), (Some(0.00025), 3)));
        assert_eq!((buckets[17], latency.count()), ((None, 4), 4));
        assert!((sum - 90.000_201).abs() < 1e-9);
    }
}
