//! Limits of starts of a namespace: open workflows, and starts per second.
//!
//! Every new workflow counts, no matter whether a client, a run or a schedule starts it. A client is refused; a start
//! by a run or a schedule is stored as a message and waits in the [outbox](crate::outbox) until there is room. Runs
//! that follow another (continue-as-new, retry, cron, reset) take its place and do not count.
//!
//! In a cluster each node counts the starts that it makes.

use std::{fmt, sync::Mutex, time::Duration};

use segno_environment::{hash::HashMap, lock::lock, token_bucket::TokenBucket};
use segno_store::NamespaceKey;
use tokio::time::Instant;

/// How many seconds' worth of starts may come at once.
const BURST_SECONDS: f64 = 2.0;
/// How old a count of open workflows may be.
const COUNT_AGE: Duration = Duration::from_secs(1);
/// How often it is logged that children of a namespace have to wait.
const LOGGED_EVERY: Duration = Duration::from_secs(10);
/// Namespaces that are remembered; those that started nothing for a minute are forgotten first.
const NAMESPACES_MAX: usize = 1024;
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Why a workflow may not be started now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRefusal {
    limit: StartLimit,
    most: usize,
    /// When to try again.
    pub after: Duration,
}

/// Which limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartLimit {
    Open,
    Rate,
}

impl StartRefusal {
    /// Whether it is the rate of starts, not the number of open workflows.
    pub fn is_rate(&self) -> bool {
        self.limit == StartLimit::Rate
    }
}

impl fmt::Display for StartRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.most;
        match self.limit {
            StartLimit::Open => write!(
                f,
                "the namespace may have {most} open workflows and has as many; end some, or raise \
                 segno.limit.open-workflows"
            ),
            StartLimit::Rate => write!(
                f,
                "the namespace may start {most} workflows a second; try again later, or raise \
                 segno.limit.starts-per-second"
            ),
        }
    }
}

/// The starts and the open workflows of a namespace.
struct Starts {
    rate: TokenBucket,
    open: Option<OpenCount>,
    /// Workflows that were let in and are not stored yet, or failed: a count may not have them.
    under_way: u64,
    logged: Option<Instant>,
}

/// How many workflows were open a moment ago, with those that were started here since.
struct OpenCount {
    counted_at: Instant,
    runs: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct StartLimits(Mutex<HashMap<NamespaceKey, Starts>>);

impl StartLimits {
    fn with<T>(&self, namespace: NamespaceKey, now: Instant, use_it: impl FnOnce(&mut Starts) -> T) -> T {
        let mut all = lock(&self.0);
        if all.len() >= NAMESPACES_MAX && !all.contains_key(&namespace) {
            all.retain(|_, starts| {
                starts.under_way > 0 || now.saturating_duration_since(starts.rate.used_at()) < IDLE_MAX
            });
        }
        let new = || Starts { rate: TokenBucket::full(now), open: None, under_way: 0, logged: None };
        use_it(all.entry(namespace).or_insert_with(new))
    }

    /// Takes a start from the rate of a namespace.
    pub fn take(&self, namespace: NamespaceKey, per_second: usize, now: Instant) -> Result<(), StartRefusal> {
        let taken = self.with(namespace, now, |starts| starts.rate.take(per_second, BURST_SECONDS, now));
        taken.map_err(|after| StartRefusal { limit: StartLimit::Rate, most: per_second, after })
    }

    /// Counts a workflow that is to be opened; `None` if they have to be counted first.
    pub fn open(&self, namespace: NamespaceKey, most: usize, now: Instant) -> Option<Result<(), StartRefusal>> {
        self.with(namespace, now, |starts| {
            let open = starts.open.as_mut();
            let open = open.filter(|open| now.saturating_duration_since(open.counted_at) < COUNT_AGE)?;
            if open.runs >= most as u64 {
                return Some(Err(StartRefusal { limit: StartLimit::Open, most, after: COUNT_AGE }));
            }
            open.runs += 1;
            starts.under_way += 1;
            Some(Ok(()))
        })
    }

    /// Workflows that were let in and are not stored yet.
    pub fn under_way(&self, namespace: NamespaceKey, now: Instant) -> u64 {
        self.with(namespace, now, |starts| starts.under_way)
    }

    /// Notes how many workflows were open at a moment.
    pub(crate) fn note_open(&self, namespace: NamespaceKey, began: Instant, counted_at: Instant, runs: u64) {
        self.with(namespace, counted_at, |starts| {
            // Another start may have counted meanwhile, and more were let in since.
            let is_newer = |open: &OpenCount| open.counted_at > began;
            if !starts.open.as_ref().is_some_and(is_newer) {
                starts.open = Some(OpenCount { counted_at, runs });
            }
        });
    }

    /// A workflow that was let in is stored, or was not started.
    pub fn end(&self, namespace: NamespaceKey) {
        if let Some(starts) = lock(&self.0).get_mut(&namespace) {
            starts.under_way = starts.under_way.saturating_sub(1);
        }
    }

    /// Whether to log that starts wait: not too often.
    pub(crate) fn is_to_be_logged(&self, namespace: NamespaceKey, now: Instant) -> bool {
        self.with(namespace, now, |starts| {
            let is_due = starts.logged.is_none_or(|at| now.saturating_duration_since(at) >= LOGGED_EVERY);
            if is_due {
                starts.logged = Some(now);
            }
            is_due
        })
    }

    /// The namespace is deleted.
    pub fn forget_namespace(&self, namespace: NamespaceKey) {
        lock(&self.0).remove(&namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NamespaceKey = NamespaceKey(1);

    #[test]
    fn starts_come_at_a_rate() {
        let (limits, begun) = (StartLimits::default(), Instant::now());
        assert!((0..20).all(|_| limits.take(A, 10, begun).is_ok()), "two seconds' worth");
        let refused = limits.take(A, 10, begun).expect_err("empty");
        assert_eq!((refused.is_rate(), refused.after), (true, Duration::from_millis(100)));
        assert!(limits.take(NamespaceKey(2), 10, begun).is_ok(), "another namespace");
        let later = begun + Duration::from_secs(1);
        assert_eq!((0..20).filter(|_| limits.take(A, 10, later).is_ok()).count(), 10);
        limits.forget_namespace(A);
        assert_eq!((0..30).filter(|_| limits.take(A, 10, later).is_ok()).count(), 20);
    }

    #[test]
    fn open_workflows_are_counted_again_after_a_while() {
        let (limits, begun) = (StartLimits::default(), Instant::now());
        assert_eq!(limits.open(A, 3, begun), None, "not counted yet");
        limits.with(A, begun, |starts| starts.open = Some(OpenCount { counted_at: begun, runs: 1 }));
        assert_eq!([limits.open(A, 3, begun), limits.open(A, 3, begun)], [Some(Ok(())), Some(Ok(()))]);
        assert!(limits.open(A, 3, begun).is_some_and(|open| open.is_err_and(|refused| !refused.is_rate())));
        assert_eq!(limits.open(A, 3, begun + COUNT_AGE), None);
    }

    #[test]
    fn idle_namespaces_are_forgotten() {
        let (limits, begun) = (StartLimits::default(), Instant::now());
        for number in 0..2 * NAMESPACES_MAX as u32 {
            let _ = limits.take(NamespaceKey(number), 10, begun + u32::from(number > 1023) * 2 * IDLE_MAX);
        }
        assert_eq!(lock(&limits.0).len(), NAMESPACES_MAX);
    }
}
