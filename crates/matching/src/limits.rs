//! How many tasks per second a queue may hand out, in all and for each fairness key.
//!
//! Tasks are kept apart by the inverse of the rate. There is no burst: a limit of five per second is one task every 200 ms.

use std::collections::BTreeMap;

use segno_environment::hash::HashMap;
use segno_proto::{Nanos, taskqueue::TaskQueueConfig};

const SECOND: f64 = 1_000_000_000.0;
/// From this many keys on, those that may have a task anyway are forgotten.
const KEYS_MAX: usize = 1024;

/// One limit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    per_second: f64,
    /// When the next task may go.
    next: Nanos,
}

impl Limit {
    fn new(per_second: f64) -> Self {
        Self { per_second, next: 0 }
    }

    /// When a task may go; `Nanos::MAX` is never.
    fn at(&self) -> Nanos {
        if self.per_second > 0.0 { self.next } else { Nanos::MAX }
    }

    /// A task goes.
    fn spend(&mut self, now: Nanos) {
        let apart = if self.per_second > 0.0 { SECOND / self.per_second } else { 0.0 };
        // Who is a little late does not lose what he is late by.
        let from = if now - self.next < apart as Nanos { self.next } else { now };
        self.next = from.saturating_add(apart as Nanos);
    }
}

/// Where a queue's limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// UpdateTaskQueueConfig.
    Api,
    /// A worker said it with a poll.
    Worker,
}

/// The limits of a queue.
#[derive(Debug, Default)]
pub struct QueueLimits {
    api: Option<Limit>,
    worker: Option<Limit>,
    per_key: Option<f64>,
    keys: HashMap<String, Limit>,
    weights: BTreeMap<String, f32>,
    /// When a task last had to wait.
    held: Nanos,
}

impl QueueLimits {
    /// Takes over a configuration.
    pub fn configure(&mut self, config: &TaskQueueConfig) {
        let rate = |limit: &Option<segno_proto::taskqueue::RateLimitConfig>| {
            let limit = limit.as_ref().and_then(|limit| limit.rate_limit);
            limit.map(|limit| f64::from(limit.requests_per_second))
        };
        let api = rate(&config.queue_rate_limit);
        if self.api.map(|limit| limit.per_second) != api {
            self.api = api.map(Limit::new);
        }
        let per_key = rate(&config.fairness_keys_rate_limit_default);
        if self.per_key != per_key || self.weights != config.fairness_weight_overrides {
            self.keys.clear();
        }
        self.per_key = per_key;
        self.weights.clone_from(&config.fairness_weight_overrides);
    }

    /// A worker says how many tasks it wants handed out.
    pub fn set_by_worker(&mut self, per_second: f64) {
        if self.worker.is_none_or(|limit| limit.per_second != per_second) {
            self.worker = Some(Limit::new(per_second));
        }
    }

    /// The rate in effect: what was configured comes before what workers say.
    pub fn rate(&self) -> Option<(f64, LimitSource)> {
        let worker = self.worker.map(|limit| (limit.per_second, LimitSource::Worker));
        self.api.map(|limit| (limit.per_second, LimitSource::Api)).or(worker)
    }

    fn queue(&self) -> Option<&Limit> {
        self.api.as_ref().or(self.worker.as_ref())
    }

    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        self.queue().is_none() && self.per_key.is_none()
    }

    /// When a task of a key may go.
    pub fn at(&self, key: &str) -> Nanos {
        let own = self.per_key.map_or(0, |per_key| match self.keys.get(key) {
            Some(limit) => limit.at(),
            None if per_key > 0.0 => 0,
            None => Nanos::MAX,
        });
        own.max(self.queue().map_or(0, Limit::at))
    }

    /// A task of a key goes.
    pub fn spend(&mut self, key: &str, weight: f32, now: Nanos) {
        if let Some(limit) = self.api.as_mut().or(self.worker.as_mut()) {
            limit.spend(now);
        }
        let Some(per_key) = self.per_key else { return };
        if self.keys.len() >= KEYS_MAX {
            self.keys.retain(|_, limit| limit.at() > now);
        }
        // A key with twice the weight may have twice as much.
        let rate = per_key * f64::from(self.weight(key, weight));
        self.keys.entry(key.to_owned()).or_insert_with(|| Limit::new(rate)).spend(now);
    }

    /// The weight of a key, given the weight in its task.
    pub fn weight(&self, key: &str, own: f32) -> f32 {
        self.weights.get(key).copied().unwrap_or(own)
    }

    /// A task has to wait.
    pub fn hold(&mut self, now: Nanos) {
        self.held = now;
    }

    /// Whether a task had to wait since a moment.
    pub fn held_since(&self, since: Nanos) -> bool {
        self.held > since
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::taskqueue::{RateLimit, RateLimitConfig};

    use super::*;

    fn config(queue: Option<f32>, key: Option<f32>) -> TaskQueueConfig {
        let limit = |rate: Option<f32>| {
            rate.map(|rate| RateLimitConfig {
                rate_limit: Some(RateLimit { requests_per_second: rate }),
                metadata: None,
            })
        };
        TaskQueueConfig {
            queue_rate_limit: limit(queue),
            fairness_keys_rate_limit_default: limit(key),
            fairness_weight_overrides: BTreeMap::from([("b".to_owned(), 2.0)]),
        }
    }

    /// How many tasks of a key go in ten seconds, if one is always there.
    fn in_ten_seconds(limits: &mut QueueLimits, key: &str) -> usize {
        let mut gone = 0;
        for now in (0..10_000).map(|ms| 1_000_000_000_000 + ms * 1_000_000) {
            while limits.at(key) <= now {
                limits.spend(key, 1.0, now);
                gone += 1;
            }
        }
        gone
    }

    #[test]
    fn limits_hold() {
        let mut limits = QueueLimits::default();
        assert!(limits.is_unlimited());
        limits.configure(&config(Some(5.0), None));
        assert!((50..=51).contains(&in_ten_seconds(&mut limits, "")));
        limits.configure(&config(Some(0.0), None));
        assert_eq!(in_ten_seconds(&mut limits, ""), 0);
        limits.configure(&config(None, Some(3.0)));
        assert!((30..=31).contains(&in_ten_seconds(&mut limits, "a")));
        assert!((60..=61).contains(&in_ten_seconds(&mut limits, "b")), "twice the weight, twice the rate");
        limits.configure(&config(None, None));
        assert!(limits.is_unlimited());
    }

    #[test]
    fn what_was_configured_comes_before_what_workers_say() {
        let mut limits = QueueLimits::default();
        limits.set_by_worker(7.0);
        assert_eq!(limits.rate(), Some((7.0, LimitSource::Worker)));
        limits.configure(&config(Some(5.0), None));
        assert_eq!(limits.rate(), Some((5.0, LimitSource::Api)));
    }
}
