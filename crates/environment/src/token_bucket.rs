//! A token bucket: so many actions in a second, and several seconds' worth of them at once.

use std::time::Duration;

use tokio::time::Instant;

/// See the module. It begins full.
#[derive(Debug)]
pub struct TokenBucket {
    tokens: f64,
    counted_at: Instant,
}

impl TokenBucket {
    /// A full one.
    pub fn full(now: Instant) -> Self {
        Self { tokens: f64::MAX, counted_at: now }
    }

    /// When it was used last.
    pub fn used_at(&self) -> Instant {
        self.counted_at
    }

    /// Takes one of so many in a second, or says when there will be one. As many as in `burst_seconds` may come at once.
    pub fn take(&mut self, per_second: usize, burst_seconds: f64, now: Instant) -> Result<(), Duration> {
        let per_second = per_second as f64;
        let passed = now.saturating_duration_since(self.counted_at).as_secs_f64();
        self.tokens = (self.tokens + passed * per_second).min(per_second * burst_seconds);
        self.counted_at = now;
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.tokens) / per_second));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}
