//! Limits of calls per namespace and per caller: rates, bytes, polls at the same time. Limits of starts are in
//! `segno-runs`.
//!
//! Rates are token buckets of two seconds, so that bursts are allowed. A call over a limit is refused at once with
//! RESOURCE_EXHAUSTED and the time to try again, and costs only the check.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_node::{CallLimits, HashMap, Namespace};
use segno_proto::enums::{ResourceExhaustedCause, ResourceExhaustedScope};
use tonic::Status;

use segno_calls::status;
use segno_node::lock::lock;
use tokio::time::Instant;

/// How many seconds' worth a bucket holds.
const BURST_SECONDS: f64 = 2.0;
/// Buckets that are full tell nothing; when there are so many, those are forgotten.
const BUCKETS_MAX: usize = 10_000;

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    seen: Instant,
}

impl Bucket {
    /// Takes tokens, or says when there will be enough.
    fn take(&mut self, count: f64, per_second: f64, now: Instant) -> Result<(), Duration> {
        let most = per_second * BURST_SECONDS;
        let passed = now.saturating_duration_since(self.seen).as_secs_f64();
        self.tokens = (self.tokens + passed * per_second).min(most);
        self.seen = now;
        // One call may be larger than what a bucket holds: it has to wait until that is full.
        if self.tokens >= count.min(most) {
            self.tokens -= count;
            return Ok(());
        }
        Err(Duration::from_secs_f64((count.min(most) - self.tokens) / per_second))
    }
}

/// The quantities that are limited.
#[derive(Clone, PartialEq, Eq, Hash)]
enum UsageAmount {
    Calls(u32),
    Bytes(u32),
    CallsOf(String),
}

/// Counts what has limits.
#[derive(Default)]
pub struct Limiter {
    buckets: Mutex<HashMap<UsageAmount, Bucket>>,
    polls: Arc<Mutex<HashMap<u32, usize>>>,
}

/// One poll of a namespace that limits them.
pub struct CountedPoll {
    polls: Arc<Mutex<HashMap<u32, usize>>>,
    namespace: u32,
}

impl Drop for CountedPoll {
    fn drop(&mut self) {
        let mut polls = lock(&self.polls);
        if let Some(count) = polls.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                polls.remove(&self.namespace);
            }
        }
    }
}

impl Limiter {
    fn take(&self, counted: UsageAmount, count: usize, per_second: usize) -> Result<(), Duration> {
        if per_second == 0 {
            return Ok(());
        }
        let (now, per_second) = (Instant::now(), per_second as f64);
        let mut buckets = lock(&self.buckets);
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(&counted) {
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.seen).as_secs_f64() < BURST_SECONDS);
        }
        let full = Bucket { tokens: per_second * BURST_SECONDS, seen: now };
        buckets.entry(counted).or_insert(full).take(count as f64, per_second, now)
    }

    /// Counts a call of a caller whose rate is limited.
    pub fn caller(&self, name: &str, per_second: usize) -> Result<(), Status> {
        if per_second == 0 {
            return Ok(());
        }
        self.take(UsageAmount::CallsOf(name.to_owned()), 1, per_second).map_err(|after| {
            let text = format!("{name:?} may make {per_second} calls a second");
            status::exhausted(text, ResourceExhaustedCause::RpsLimit, ResourceExhaustedScope::Namespace, after)
        })
    }

    /// Counts a call of a namespace.
    pub fn call(&self, namespace: &Namespace, bytes: usize) -> Result<(), Status> {
        let CallLimits { per_second, bytes_per_second, .. } = namespace.settings.calls;
        let scope = ResourceExhaustedScope::Namespace;
        self.take(UsageAmount::Calls(namespace.key.0), 1, per_second).map_err(|after| {
            status::exhausted("namespace rate limit exceeded", ResourceExhaustedCause::RpsLimit, scope, after)
        })?;
        self.take(UsageAmount::Bytes(namespace.key.0), bytes, bytes_per_second).map_err(|after| {
            let text = format!("the namespace may send {bytes_per_second} bytes of requests a second");
            status::exhausted(text, ResourceExhaustedCause::RpsLimit, scope, after)
        })
    }

    /// Counts a poll until it is dropped.
    pub fn poll(&self, namespace: &Namespace) -> Result<Option<CountedPoll>, Status> {
        let most = namespace.settings.calls.pollers;
        if most == 0 {
            return Ok(None);
        }
        let mut polls = lock(&self.polls);
        let count = polls.entry(namespace.key.0).or_default();
        if *count >= most {
            return Err(status::exhausted(
                "namespace concurrent poller limit exceeded",
                ResourceExhaustedCause::ConcurrentLimit,
                ResourceExhaustedScope::Namespace,
                Duration::from_secs(1),
            ));
        }
        *count += 1;
        Ok(Some(CountedPoll { polls: self.polls.clone(), namespace: namespace.key.0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_what_it_has_and_says_when_there_is_more() {
        let begin = Instant::now();
        let mut bucket = Bucket { tokens: 20.0, seen: begin };
        assert!((0..20).all(|_| bucket.take(1.0, 10.0, begin).is_ok()));
        let after = bucket.take(1.0, 10.0, begin).expect_err("empty");
        assert!((after.as_secs_f64() - 0.1).abs() < 1e-9, "{after:?}");
        assert!(bucket.take(1.0, 10.0, begin + Duration::from_millis(100)).is_ok());
        // Larger than what it holds: let in when it is full, and paid for afterwards.
        let full = begin + Duration::from_secs(60);
        assert!(bucket.take(50.0, 10.0, full).is_ok());
        assert!(bucket.take(1.0, 10.0, full + Duration::from_secs(3)).is_err());
        assert!(bucket.take(1.0, 10.0, full + Duration::from_secs(4)).is_ok());
    }
}
