//! What the slots in a stock worker's heartbeats say about the attempts that it was handed: which of them never arrived.
//!
//! Heartbeats of Temporal's SDKs count activities without naming them: slots in use, and activities processed since the
//! worker started. So an attempt that never arrived is found by counting. Since a heartbeat without used slots, the
//! *baseline*, the worker has *taken up* as many attempts as the slots in use and the growth of the processed ones
//! together. Of the attempts that it was handed since, some are *known* to have arrived: their task token came back, with
//! a heartbeat of the activity or with its result. If the worker has taken up no more than the known ones, none of the
//! others has arrived.
//!
//! Every doubt makes the first number larger or the second one smaller, so that nothing is found: an activity that is
//! completed from elsewhere later counts as processed, one whose result is on its way counts twice, attempts from before
//! the baseline count when they are taken up, and a result without a token is not known. What a worker has received and
//! not taken up yet is in neither number; [`Proof`] rules that out, in a way that depends on the SDK.
//!
//! A heartbeat may be late. The known attempts are those of an earlier heartbeat, received a quarter of the verification
//! time before, and a heartbeat that took longer than that, by the worker's own clock, is not believed.

use segno_proto::Nanos;

/// The slots for activities in a worker's heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReport {
    /// Slots in use.
    pub used: i64,
    /// Activities processed since the worker started.
    pub processed: i64,
    /// Time at which it was made, by the worker's clock.
    pub made_at: Nanos,
    /// Time of the last answer to a poll for activities that had a task, by the same clock. `None` if there was none.
    pub received_at: Option<Nanos>,
    /// Evidence that the worker has not received an attempt without taking it up.
    pub proof: Proof,
}

/// Evidence that a worker has not received an attempt without taking it up, as one does whose event loop is blocked or that
/// limits the rate of its activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// No slot is in use: such a worker waits for the next task, and takes it up when it is received.
    AtRest,
    /// No poll was answered with a task since the attempt was handed over.
    NothingReceived,
}

/// How a worker got an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandOver {
    /// In the answer to a poll.
    Poll,
    /// In the answer to a workflow task. A worker that misses the answer asks for it again.
    Reply,
    /// Before this server knew the worker.
    Earlier,
}

/// An attempt that a worker holds, as far as slots are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldAttempt<T> {
    /// Which one.
    pub hold: T,
    /// Time at which it was handed over.
    pub since: Nanos,
    /// How.
    pub by: HandOver,
    /// Whether it is known to have arrived.
    pub has_arrived: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Baseline {
    received: Nanos,
    processed: i64,
}

/// The known attempts at the time of a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Checkpoint {
    received: Nanos,
    known: i64,
}

/// The accounts of a worker that reports its slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SlotAccounts {
    /// The least time between making and receiving a heartbeat, plus the distance of the two clocks.
    least_lag: Option<Nanos>,
    baseline: Option<Baseline>,
    checkpoint: Option<Checkpoint>,
    /// Attempts that were handed over since the baseline, are known to have arrived, and are over.
    known_over: i64,
}

impl SlotAccounts {
    /// A worker reported its slots. Returns the attempts that never arrived.
    pub fn report<T: Copy>(
        &mut self,
        now: Nanos,
        report: SlotReport,
        held: &[HeldAttempt<T>],
        verification: Nanos,
    ) -> Vec<T> {
        if self.baseline.is_some_and(|baseline| report.processed < baseline.processed) {
            // It counts from the beginning.
            *self = Self::default();
        }
        let lag = now - report.made_at;
        let least_lag = self.least_lag.map_or(lag, |least| least.min(lag));
        self.least_lag = Some(least_lag);
        let spacing = verification / 4;
        if lag - least_lag >= spacing {
            return Vec::new();
        }
        let is_rested = |checkpoint: &Checkpoint| now - checkpoint.received >= spacing;
        let mut missing = Vec::new();
        if let (Some(baseline), Some(checkpoint)) = (self.baseline, self.checkpoint.filter(is_rested)) {
            let taken_up = report.used + report.processed - baseline.processed;
            let is_missing = |held: &&HeldAttempt<T>| {
                held.by == HandOver::Poll
                    && !held.has_arrived
                    && held.since > baseline.received
                    && held.since <= checkpoint.received
                    && held.since.saturating_add(verification) <= now
                    && is_proved(&report, now, held.since)
            };
            if taken_up <= checkpoint.known {
                missing.extend(held.iter().filter(is_missing).map(|held| held.hold));
            }
        }
        let since_baseline = held.iter().filter(|held| self.is_since_baseline(held.since, held.by));
        let all = since_baseline.clone().count();
        let arrived = since_baseline.filter(|held| held.has_arrived).count();
        let known = self.known_over + arrived as i64;
        if report.used == 0 && arrived == all {
            self.baseline = Some(Baseline { received: now, processed: report.processed });
            self.checkpoint = Some(Checkpoint { received: now, known: 0 });
            self.known_over = 0;
        } else if self.checkpoint.as_ref().is_none_or(is_rested) {
            self.checkpoint = Some(Checkpoint { received: now, known });
        }
        missing
    }

    /// An attempt that is known to have arrived is over.
    pub fn note_over(&mut self, since: Nanos, by: HandOver) {
        if self.is_since_baseline(since, by) {
            self.known_over += 1;
        }
    }

    fn is_since_baseline(&self, since: Nanos, by: HandOver) -> bool {
        by != HandOver::Earlier && self.baseline.is_some_and(|baseline| since > baseline.received)
    }
}

/// Whether the worker has not received what was handed over at `since`, unless it has taken it up.
fn is_proved(report: &SlotReport, now: Nanos, since: Nanos) -> bool {
    match (report.proof, report.received_at) {
        (Proof::AtRest, _) => report.used == 0,
        (Proof::NothingReceived, None) => true,
        // The heartbeat was made now or before, so the task was received this long ago at least.
        (Proof::NothingReceived, Some(received_at)) => now - (report.made_at - received_at) < since,
    }
}
