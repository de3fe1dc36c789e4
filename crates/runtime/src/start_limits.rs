//! How many workflows a namespace may start: open ones at a time, and starts in a second.
//!
//! Every new workflow counts, no matter whether a client, a run or a schedule starts it. A client is refused; what a run or a
//! schedule starts is stored as a message and waits in the [outbox](crate::outbox) until there is room. Runs that follow another
//! (continue-as-new, retry, cron, reset) take its place and do not count.
//!
//! In a cluster each node counts the starts that it makes.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use segno_engine::start::Start;
use segno_store::NamespaceKey;

use crate::{error::CallError, list_limits::ListCaller, namespaces::Namespace, runs::Runs, slots::lock};

/// How many seconds' worth of starts may come at once.
const BURST_SECONDS: f64 = 2.0;
/// Children that the runs of a namespace may start in a second if nothing is set. A start by a client has no such limit.
const CHILDREN_PER_SECOND: usize = 1000;
/// How old a count of open workflows may be.
const COUNT_AGE: Duration = Duration::from_secs(1);
/// Workflows that are open. Counts by status are kept, so that nothing is searched.
const OPEN: &str = "ExecutionStatus = 'Running' OR ExecutionStatus = 'Paused'";
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

/// What is known of a namespace.
struct Starts {
    tokens: f64,
    /// When tokens were counted last.
    seen: Instant,
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

impl Starts {
    /// Takes one of so many starts in a second, or says when there will be one.
    fn take(&mut self, per_second: usize, now: Instant) -> Result<(), Duration> {
        let per_second = per_second as f64;
        let most = per_second * BURST_SECONDS;
        let passed = now.saturating_duration_since(self.seen).as_secs_f64();
        self.tokens = (self.tokens + passed * per_second).min(most);
        self.seen = now;
        if self.tokens < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.tokens) / per_second));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct StartLimits(Mutex<HashMap<NamespaceKey, Starts>>);

impl StartLimits {
    fn with<T>(&self, namespace: NamespaceKey, now: Instant, use_it: impl FnOnce(&mut Starts) -> T) -> T {
        let mut all = lock(&self.0);
        if all.len() >= NAMESPACES_MAX && !all.contains_key(&namespace) {
            all.retain(|_, starts| starts.under_way > 0 || now.saturating_duration_since(starts.seen) < IDLE_MAX);
        }
        let new = || Starts { tokens: f64::MAX, seen: now, open: None, under_way: 0, logged: None };
        use_it(all.entry(namespace).or_insert_with(new))
    }

    /// Takes a start from the rate of a namespace.
    fn take(&self, namespace: NamespaceKey, per_second: usize, now: Instant) -> Result<(), StartRefusal> {
        let taken = self.with(namespace, now, |starts| starts.take(per_second, now));
        taken.map_err(|after| StartRefusal { limit: StartLimit::Rate, most: per_second, after })
    }

    /// Counts a workflow that is to be opened; `None` if they have to be counted first.
    fn open(&self, namespace: NamespaceKey, most: usize, now: Instant) -> Option<Result<(), StartRefusal>> {
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

    /// Whether to log that starts wait: not too often.
    pub fn is_to_be_logged(&self, namespace: NamespaceKey, now: Instant) -> bool {
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

/// A workflow that was counted as open, until it is stored.
pub(crate) struct CountedStart {
    node: Arc<Runs>,
    namespace: NamespaceKey,
}

impl Drop for CountedStart {
    fn drop(&mut self) {
        if let Some(starts) = lock(&self.node.start_limits.0).get_mut(&self.namespace) {
            starts.under_way = starts.under_way.saturating_sub(1);
        }
    }
}

impl Runs {
    /// Counts a workflow that is to be created, unless its namespace has or starts too many. `replaces` says whether it takes
    /// the place of an open one. What is given back is kept until it is stored.
    pub(crate) async fn count_start(
        self: &Arc<Self>,
        start: &Start,
        replaces: bool,
    ) -> Result<Option<CountedStart>, CallError> {
        if start.options.schedule.is_some() || start.options.standalone.is_some() {
            return Ok(None);
        }
        let Some(namespace) = self.namespaces.by_key(NamespaceKey(start.namespace_key)) else { return Ok(None) };
        let limits = namespace.settings.calls;
        let per_second = match limits.starts_per_second {
            0 if start.parent.is_some() => CHILDREN_PER_SECOND,
            set => set,
        };
        if per_second > 0 {
            self.start_limits.take(namespace.key, per_second, Instant::now())?;
        }
        if limits.open_runs == 0 || replaces {
            return Ok(None);
        }
        self.count_open(&namespace, limits.open_runs).await?;
        Ok(Some(CountedStart { node: self.clone(), namespace: namespace.key }))
    }

    async fn count_open(&self, namespace: &Arc<Namespace>, most: usize) -> Result<(), CallError> {
        if let Some(counted) = self.start_limits.open(namespace.key, most, Instant::now()) {
            return Ok(counted?);
        }
        let began = Instant::now();
        let under_way = self.start_limits.with(namespace.key, began, |starts| starts.under_way);
        let (_, counts) = self.count(ListCaller::default(), namespace, OPEN).await?;
        let runs = counts.iter().map(|group| group.runs).sum::<u64>() + under_way;
        let counted_at = Instant::now();
        self.start_limits.with(namespace.key, counted_at, |starts| {
            // Another start may have counted meanwhile, and more were let in since.
            let is_newer = |open: &OpenCount| open.counted_at > began;
            if !starts.open.as_ref().is_some_and(is_newer) {
                starts.open = Some(OpenCount { counted_at, runs });
            }
        });
        let counted = self.start_limits.open(namespace.key, most, counted_at);
        // The namespace was forgotten meanwhile.
        Ok(counted.unwrap_or(Ok(()))?)
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
