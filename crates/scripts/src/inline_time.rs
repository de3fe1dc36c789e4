//! How much time of the threads that serve calls the turns of a namespace have used.

use std::{sync::Mutex, time::Duration};

use segno_environment::{hash::HashMap, lock::lock};
use segno_store::NamespaceKey;
use tokio::time::Instant;

/// The time of a turn that is not counted.
const SMALL_TURN: Duration = Duration::from_micros(250);
/// Time for larger turns that a namespace gets in a second while other namespaces are at work.
const TIME_PER_SECOND: Duration = Duration::from_millis(50);
/// Namespaces that are remembered; those that have all of their time again are forgotten first.
const NAMESPACES_MAX: usize = 1024;

/// Time of inline turns that were not small, by namespace.
#[derive(Default)]
pub(super) struct InlineTime(Mutex<HashMap<NamespaceKey, UsedTime>>);

/// The time that a namespace used and has not got back.
struct UsedTime {
    used: Duration,
    at: Instant,
}

impl UsedTime {
    fn left_at(&self, now: Instant) -> Duration {
        let regained = now.saturating_duration_since(self.at).mul_f64(TIME_PER_SECOND.as_secs_f64());
        self.used.saturating_sub(regained)
    }
}

impl InlineTime {
    /// Whether a namespace used more than it gets in a second.
    pub(crate) fn is_used_up(&self, namespace: NamespaceKey, now: Instant) -> bool {
        lock(&self.0).get(&namespace).is_some_and(|used| used.left_at(now) >= TIME_PER_SECOND)
    }

    /// A turn was executed.
    pub fn note(&self, namespace: NamespaceKey, took: Duration, now: Instant) {
        if took < SMALL_TURN {
            return;
        }
        let mut all = lock(&self.0);
        if all.len() >= NAMESPACES_MAX {
            all.retain(|_, used| used.left_at(now) > Duration::ZERO);
        }
        let entry = all.entry(namespace).or_insert(UsedTime { used: Duration::ZERO, at: now });
        // One long turn is not held against a namespace for long.
        let used = (entry.left_at(now) + took).min(2 * TIME_PER_SECOND);
        *entry = UsedTime { used, at: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_turns_use_up_time_that_comes_back() {
        let (time, begun) = (InlineTime::default(), Instant::now());
        let (a, b) = (NamespaceKey(1), NamespaceKey(2));
        for _ in 0..10_000 {
            time.note(a, SMALL_TURN / 2, begun);
        }
        assert!(!time.is_used_up(a, begun), "small turns do not count");
        for _ in 0..1000 {
            time.note(a, Duration::from_millis(2), begun);
        }
        assert!(time.is_used_up(a, begun) && !time.is_used_up(b, begun));
        assert!(!time.is_used_up(a, begun + Duration::from_millis(1001)), "however much it was");
    }
}
