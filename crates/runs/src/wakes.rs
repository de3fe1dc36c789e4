//! Carries out wake-ups, round-robin over namespaces; while several are active each has a share of those under way. A
//! namespace whose thousands of runs wake continuously does not delay the timers of others.

use std::sync::{Arc, Mutex};

use segno_environment::{
    clock::{SLEEP_MAX, sleep_for, until},
    hash::HashSet,
    lock::lock,
    metrics::count,
    namespace_queues::{NamespaceQueues, UnderWay},
    skipping::SkippingClock,
};
use segno_proto::Nanos;
use segno_store::{NamespaceKey, RunKey};
use tokio::sync::futures::Notified;

use crate::runs::Runs;

/// Wake-ups under way at the same time, in all and of one namespace while others are at work.
const UNDER_WAY_MAX: usize = 64;
const SHARE_MAX: usize = 8;
/// When a wake-up that panicked is repeated.
const WAKE_RETRY_DELAY: i64 = 60 * 1_000_000_000;

/// Runs that are due and wait for their wake-up.
#[derive(Default)]
struct DueRuns {
    waiting: NamespaceQueues<Waking>,
    /// Runs in `waiting`: one that is armed again meanwhile is not added twice.
    known: HashSet<RunKey>,
    under_way: Arc<Mutex<UnderWay>>,
}

/// Carries out wake-ups until the node stops.
pub async fn run(runs: Arc<Runs>) {
    let mut due_runs = DueRuns::default();
    while !runs.is_stopping() {
        let earlier = runs.timers.earlier.notified();
        let (due, next) = runs.timers.due(runs.clock.now());
        let is_any_due = !due.is_empty();
        for (namespace, run) in due {
            due_runs.add(&runs, namespace, run);
        }
        due_runs.begin(&runs);
        if let Some(clock) = runs.clock.skipping() {
            if is_any_due || !skip(&runs, clock, next, earlier).await {
                continue;
            }
            runs.clock_moved();
            continue;
        }
        match next {
            Some(at) => {
                let _ = tokio::time::timeout(sleep_for(until(runs.clock.now(), at)), earlier).await;
            }
            None => earlier.await,
        }
    }
}

impl DueRuns {
    fn add(&mut self, runs: &Arc<Runs>, namespace: NamespaceKey, run: RunKey) {
        if !self.known.insert(run) {
            return;
        }
        // From here on the run is in no list until its wake-up has ended.
        if let Some(clock) = runs.clock.skipping() {
            clock.begin();
        }
        self.waiting.push(namespace, Waking { runs: runs.clone(), run, done: false });
    }

    /// Begins as many wake-ups as may be under way.
    fn begin(&mut self, runs: &Arc<Runs>) {
        let most = if runs.committer.is_shared() { SHARE_MAX } else { UNDER_WAY_MAX };
        while let Some((namespace, waking)) = self.take(most) {
            self.known.remove(&waking.run);
            let ended = WakeUpPermit { runs: runs.clone(), namespace, under_way: self.under_way.clone() };
            tokio::spawn(async move {
                count(&waking.runs.metrics.wakes);
                waking.carry_out().await;
                drop(ended);
            });
        }
    }

    fn take(&mut self, most: usize) -> Option<(NamespaceKey, Waking)> {
        let mut under_way = lock(&self.under_way);
        if under_way.total() >= UNDER_WAY_MAX {
            return None;
        }
        let (namespace, waking) = self.waiting.take(|namespace| under_way.of(namespace) < most)?;
        under_way.begin(namespace);
        Some((namespace, waking))
    }
}

/// Makes room for another wake-up when it is dropped.
struct WakeUpPermit {
    runs: Arc<Runs>,
    namespace: NamespaceKey,
    under_way: Arc<Mutex<UnderWay>>,
}

impl Drop for WakeUpPermit {
    fn drop(&mut self) {
        let mut under_way = lock(&self.under_way);
        let others_wait = under_way.of(self.namespace) >= SHARE_MAX || under_way.total() >= UNDER_WAY_MAX;
        under_way.end(self.namespace);
        drop(under_way);
        if others_wait {
            self.runs.timers.earlier.notify_one();
        }
    }
}

/// Skips the time to the next moment for which anything waits, or waits until that may be done. Returns whether it did.
async fn skip(runs: &Runs, clock: &SkippingClock, next: Option<Nanos>, earlier: Notified<'_>) -> bool {
    let changed = clock.changed.notified();
    let Some(at) = next.into_iter().chain(clock.end_sleeps()).min() else {
        tokio::select! {
            biased;
            () = earlier => {}
            () = changed => {}
        }
        return false;
    };
    // A message between runs is followed by a task or a timer of its receiver.
    if runs.outbox.len() == 0 && clock.jump(at) {
        return true;
    }
    let pause = until(clock.now(), at).min(SLEEP_MAX);
    tokio::select! {
        biased;
        () = earlier => {}
        () = changed => {}
        () = tokio::time::sleep(pause) => {}
    }
    false
}

/// A wake-up under way. One that panics is repeated: others go on, and it is not forgotten.
struct Waking {
    runs: Arc<Runs>,
    run: RunKey,
    done: bool,
}

impl Waking {
    async fn carry_out(mut self) {
        self.runs.wake(self.run).await;
        self.done = true;
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        if !self.done {
            self.runs.timers.set(self.run, Some(self.runs.clock.now() + WAKE_RETRY_DELAY));
        }
        if let Some(clock) = self.runs.clock.skipping() {
            clock.end();
        }
    }
}
