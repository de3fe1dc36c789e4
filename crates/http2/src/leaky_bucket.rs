//! A rate limit that allows bursts. Time is an input: milliseconds since the connection was accepted.

/// A bucket that each event fills and that drains at a constant rate.
#[derive(Debug)]
pub(crate) struct LeakyBucket {
    level: u64,
    level_max: u64,
    drain_per_ms: u64,
    drained_at_ms: u64,
}

impl LeakyBucket {
    pub(crate) fn new(level_max: u64, drain_per_ms: u64) -> Self {
        Self { level: 0, level_max, drain_per_ms, drained_at_ms: 0 }
    }

    /// Adds to the bucket; false when it overflows.
    #[must_use]
    pub(crate) fn add(&mut self, amount: u64, now_ms: u64) -> bool {
        let elapsed = now_ms.saturating_sub(self.drained_at_ms);
        if elapsed > 0 {
            self.drain(elapsed.saturating_mul(self.drain_per_ms));
            self.drained_at_ms = now_ms;
        }
        self.level += amount;
        self.level <= self.level_max
    }

    /// Takes an amount out, apart from what drains with time.
    pub(crate) fn drain(&mut self, amount: u64) {
        self.level = self.level.saturating_sub(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_pass_and_the_rate_is_kept() {
        let mut bucket = LeakyBucket::new(100, 2);
        assert!((0..100).all(|_| bucket.add(1, 0)));
        assert!(!bucket.add(1, 0));
        assert!(bucket.add(1, 1), "two drained");
        assert!(!bucket.add(1, 1));
        bucket.drain(1);
        assert!(bucket.add(0, 1));
        // Idle time is worth no more than an empty bucket.
        assert!(bucket.add(100, 1_000_000));
        assert!(!bucket.add(1, 1_000_000));
        assert!(!bucket.add(1, 999_999), "time that goes back drains nothing");
    }
}
