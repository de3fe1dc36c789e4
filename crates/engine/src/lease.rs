//! The lease of a worker process: until when it counts as alive, and which tasks it has.
//!
//! Two kinds of workers share one state machine ([`crate::machine::lease`]). A worker that uses Segno's protocol asks
//! for a lease with each heartbeat and lists its tasks; only its next heartbeat renews the lease. An SDK of Temporal
//! has no leases: each of its calls, and an open connection, counts as a sign of life, and it has the tasks that it was
//! handed.
//!
//! Times are readings of any monotonic clock. This module knows no connections, stores or threads.

use std::collections::{BTreeMap, BTreeSet};

use segno_proto::Nanos;

use crate::{
    limits::SECOND,
    machine::{
        IllegalStep,
        lease::{self as machine, State},
    },
    slots::{HandOver, HeldAttempt, SlotAccounts, SlotReport},
};

/// A stock worker reports once a minute at most: it is silent after three times the usual lease.
const STOCK_LEASES: i64 = 3;
/// The longest that SDKs wait before they repeat a poll that was cut off again before it was answered, 12 s, and time to
/// connect. They begin with 0.2 s and double that with each poll that fails. Which step they are at cannot be known:
/// pollers that fail together may share the steps.
const BACK_OFF_MAX: Nanos = 14 * SECOND;
/// The shortest lease that is granted.
pub const LEASE_MIN: Nanos = SECOND;
/// The longest lease that is granted.
pub const LEASE_MAX: Nanos = 3600 * SECOND;

/// Settings of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// The lease of a worker that asks for none.
    pub lease: Nanos,
    /// How long a stock worker may be without a connection.
    pub grace: Nanos,
    /// When a worker that says what it holds must have said so of an attempt it was handed.
    pub verification: Nanos,
    /// Tokens of heartbeats are counted from here. Another one for each start of the server, so that none of the server
    /// before fits.
    pub tokens_from: u64,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self { lease: 60 * SECOND, grace: 15 * SECOND, verification: 120 * SECOND, tokens_from: 0 }
    }
}

impl LeaseSettings {
    /// How long a stock worker that reports by itself may be silent, and any worker after a restart of the server.
    pub fn stock_lease(&self) -> Nanos {
        self.lease.saturating_mul(STOCK_LEASES)
    }
}

/// An attempt of an activity that a worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// The run, by its number in storage.
    pub run_key: u64,
    /// The activity's scheduled event.
    pub scheduled_event_id: i64,
    /// When the attempt started.
    pub started_time: Nanos,
}

/// A heartbeat of Segno's protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// The token of the answer before; empty the first time.
    pub token: Vec<u8>,
    /// The lease it asks for; 0 for the usual one.
    pub lease: Nanos,
    /// Attempts it has begun to work on. Those it was not handed, and those that are over, are passed over.
    pub bound: Vec<Hold>,
    /// Attempts it has done with.
    pub unbound: Vec<Hold>,
}

/// Why a heartbeat is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeatRefused {
    /// The worker's time is over.
    #[error("worker is inactive: register again with a new worker instance key")]
    Inactive,
    /// An answer was lost, or heartbeats overtook each other. Nothing of this one was taken.
    #[error("token does not match: go on with the current one")]
    TokenMismatch {
        /// The one that fits.
        current: [u8; 8],
    },
    /// There are as many workers as can be kept.
    #[error("there are too many workers")]
    TooMany,
}

/// The consequences of time that has passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseExpiry {
    /// Why the worker is lost, if it is. What it held must move.
    pub lost: Option<LostBecause>,
    /// Attempts it was handed and never spoke of. They must move.
    pub orphans: Vec<Hold>,
}

/// Why a worker is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostBecause {
    /// Its connections are gone.
    Disconnected,
    /// It was silent for too long.
    Silent,
    /// It has shut down.
    ShutDown,
}

impl LostBecause {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Disconnected => "its connections are gone and it did not come back in time",
            Self::Silent => "its lease ran out",
            Self::ShutDown => "it has shut down",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HoldState {
    /// When it was handed over, or given up.
    since: Nanos,
    /// How it was handed over.
    by: HandOver,
    /// The worker said that it has it, or need not.
    confirmed: bool,
}

/// A worker process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    state: State,
    /// Grows with each heartbeat of the protocol; 0 if there was none.
    counter: u64,
    /// The lease it asked for by protocol; 0 for stock workers.
    granted: Nanos,
    /// Last sign of life.
    heard: Nanos,
    /// Since when its connections are gone.
    detached: Nanos,
    /// It came back since, and no poll of it was answered yet.
    came_back: bool,
    /// Its silence means that it is lost: it reports by itself, or must show up after a restart.
    silence_counts: bool,
    /// It shuts down: it finishes what it has, without polls and reports.
    leaving: bool,
    holds: BTreeMap<Hold, HoldState>,
    /// Runs whose workflow task it has.
    tasks: BTreeSet<u64>,
    /// Accounts of its slots, if it is a stock worker that reports them.
    slots: Option<Box<SlotAccounts>>,
}

impl Lease {
    /// A worker after its first sign of life.
    pub fn new(now: Nanos) -> Self {
        Self {
            state: State::Active,
            counter: 0,
            granted: 0,
            heard: now,
            detached: 0,
            came_back: false,
            silence_counts: false,
            leaving: false,
            holds: BTreeMap::new(),
            tasks: BTreeSet::new(),
            slots: None,
        }
    }

    /// A worker that storage names. It has one full lease to show up.
    pub fn expected(now: Nanos) -> Self {
        Self { silence_counts: true, ..Self::new(now) }
    }

    /// The state is what the table says, and nothing else changes it. An inactive worker takes no further step: the
    /// node removes its lease at once, so that a step which is not in the table is a defect there.
    fn step(&mut self, on: machine::Event) -> Result<(), IllegalStep> {
        self.state = machine::next(self.state, on)?;
        Ok(())
    }

    /// Where it stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether it speaks Segno's protocol.
    pub fn speaks_protocol(&self) -> bool {
        self.granted > 0
    }

    /// Whether its silence means something, so that it must show up after a restart of the server.
    pub fn reports(&self) -> bool {
        self.speaks_protocol() || self.silence_counts
    }

    /// A stock worker made a call.
    pub fn note_call(&mut self, now: Nanos) -> Result<(), IllegalStep> {
        self.step(machine::Event::Renew)?;
        if !self.speaks_protocol() {
            self.heard = self.heard.max(now);
        }
        Ok(())
    }

    /// A stock worker reported. From now on its silence counts.
    pub fn reported(&mut self, now: Nanos) -> Result<(), IllegalStep> {
        self.note_call(now)?;
        self.silence_counts = true;
        Ok(())
    }

    /// A worker begins to shut down, and keeps what it has until it answers. A stock worker makes no more calls until then,
    /// so that its silence means nothing from now on; when its connections are gone it is. Once it has nothing it is over.
    pub fn leaves(&mut self, now: Nanos) -> Result<(), IllegalStep> {
        self.note_call(now)?;
        self.leaving = true;
        Ok(())
    }

    /// Whether it shuts down.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// A worker has a connection (again).
    pub fn attached(&mut self, now: Nanos) -> Result<(), IllegalStep> {
        let before = self.state;
        self.step(machine::Event::Attach)?;
        self.came_back |= before == State::Detached;
        self.note_call(now)
    }

    /// The last connection of a worker is gone, and with it a call that a living worker makes again at once.
    pub fn detached(&mut self, now: Nanos) -> Result<(), IllegalStep> {
        let before = self.state;
        self.step(machine::Event::Detach)?;
        if before == State::Active {
            self.detached = now;
        }
        Ok(())
    }

    /// A poll of it was answered, so that it makes the next one without delay. If its connections are gone it has not
    /// heard that answer.
    pub fn answered(&mut self) {
        if self.state == State::Active {
            self.came_back = false;
        }
    }

    /// How long it may be without a connection. One that was cut off, came back and was cut off again before a poll of
    /// it was answered waits before it comes back once more, however healthy it is.
    fn grace(&self, settings: &LeaseSettings) -> Nanos {
        if self.came_back { settings.grace.max(BACK_OFF_MAX) } else { settings.grace }
    }

    /// A worker that speaks the protocol reports. Answers with the next token.
    ///
    /// The first heartbeat registers it, with any token; deltas may come any number of times. They only tell about
    /// attempts that it was handed ([`Lease::hand_over`], [`Lease::restore`]): they never add one.
    pub fn heartbeat(&mut self, now: Nanos, beat: &Beat, settings: &LeaseSettings) -> Result<[u8; 8], BeatRefused> {
        let attached = machine::next(self.state, machine::Event::Attach).map_err(|_| BeatRefused::Inactive)?;
        if self.counter > 0 && beat.token != self.token() {
            return Err(BeatRefused::TokenMismatch { current: self.token() });
        }
        self.state = attached;
        self.counter = self.counter.max(settings.tokens_from) + 1;
        let asked = if beat.lease > 0 { beat.lease } else { settings.lease };
        self.granted = asked.clamp(LEASE_MIN, LEASE_MAX);
        self.heard = self.heard.max(now);
        for hold in &beat.bound {
            // The worker knows an attempt only after it was handed over, so what is not there is over or of others.
            if let Some(held) = self.holds.get_mut(hold) {
                *held = HoldState { since: now, confirmed: true, ..*held };
            }
        }
        for hold in &beat.unbound {
            // If its end is not on record by the time of the next look, it never had one.
            if let Some(held) = self.holds.get_mut(hold).filter(|held| held.confirmed) {
                *held = HoldState { since: now, confirmed: false, ..*held };
            }
        }
        Ok(self.token())
    }

    /// The token of the last answer.
    pub fn token(&self) -> [u8; 8] {
        self.counter.to_le_bytes()
    }

    /// It was handed an attempt.
    pub fn hand_over(&mut self, hold: Hold, by: HandOver, now: Nanos) {
        self.holds.entry(hold).or_insert(HoldState { since: now, by, confirmed: false });
    }

    /// A task token of an attempt came back, so that the attempt has arrived at this stock worker.
    pub fn arrived(&mut self, hold: &Hold) {
        if let Some(held) = self.holds.get_mut(hold).filter(|_| self.granted == 0) {
            held.confirmed = true;
        }
    }

    /// A stock worker reported its slots. Returns attempts that never arrived. They remain on its list until they are given
    /// to others.
    pub fn slots_reported(&mut self, now: Nanos, report: SlotReport, settings: &LeaseSettings) -> Vec<Hold> {
        if self.speaks_protocol() || self.leaving || self.state == State::Inactive {
            return Vec::new();
        }
        let attempt = |(hold, held): (&Hold, &HoldState)| HeldAttempt {
            hold: *hold,
            since: held.since,
            by: held.by,
            has_arrived: held.confirmed,
        };
        let held: Vec<HeldAttempt<Hold>> = self.holds.iter().map(attempt).collect();
        self.slots.get_or_insert_default().report(now, report, &held, settings.verification)
    }

    /// Storage says that it was handed an attempt, before the server restarted. That counts as said by the worker.
    pub fn restore(&mut self, hold: Hold, now: Nanos) {
        self.holds.insert(hold, HoldState { since: now, by: HandOver::Earlier, confirmed: true });
    }

    /// An attempt is over.
    pub fn release(&mut self, hold: &Hold) {
        let released = self.holds.remove(hold);
        if let (Some(slots), Some(held)) = (&mut self.slots, released.filter(|held| held.confirmed)) {
            slots.note_over(held.since, held.by);
        }
    }

    /// It was handed the workflow task of a run.
    pub fn hand_over_task(&mut self, run_key: u64) {
        self.tasks.insert(run_key);
    }

    /// It has that workflow task no more.
    pub fn release_task(&mut self, run_key: u64) {
        self.tasks.remove(&run_key);
    }

    /// The attempts it holds.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.holds.keys()
    }

    /// The runs whose workflow task it has.
    pub fn tasks(&self) -> impl Iterator<Item = u64> {
        self.tasks.iter().copied()
    }

    /// All runs of which it holds tasks.
    pub fn runs(&self) -> BTreeSet<u64> {
        self.holds.keys().map(|hold| hold.run_key).chain(self.tasks.iter().copied()).collect()
    }

    /// Whether it has shut down and holds nothing.
    fn is_done(&self) -> bool {
        self.leaving && self.is_idle()
    }

    /// Whether it holds nothing.
    pub fn is_idle(&self) -> bool {
        self.holds.is_empty() && self.tasks.is_empty()
    }

    /// Time of its last sign of life.
    pub fn last_heard(&self) -> Nanos {
        self.heard
    }

    /// Until when it counts as alive without a sign of life; `None` if nothing limits that.
    pub fn alive_until(&self, settings: &LeaseSettings) -> Option<Nanos> {
        if self.state == State::Inactive {
            return None;
        }
        if self.speaks_protocol() {
            return Some(self.heard.saturating_add(self.granted));
        }
        let silent = (self.silence_counts && !self.leaving).then(|| self.heard.saturating_add(settings.stock_lease()));
        let gone =
            (self.state == State::Detached).then(|| self.detached.max(self.heard).saturating_add(self.grace(settings)));
        // A task may still be on its way to it.
        let done = self.is_done().then(|| self.heard.saturating_add(settings.grace));
        silent.into_iter().chain(gone).chain(done).min()
    }

    /// The next moment at which the lease changes by itself.
    pub fn wake_at(&self, settings: &LeaseSettings) -> Option<Nanos> {
        if self.state == State::Inactive {
            return None;
        }
        let unverified = self.holds.values().filter(|held| self.speaks_protocol() && !held.confirmed);
        let verification = unverified.map(|held| held.since.saturating_add(settings.verification)).min();
        self.alive_until(settings).into_iter().chain(verification).min()
    }

    /// Lets happen what is due. What is not due stays untouched. A worker that is lost keeps the list of what it held.
    pub fn expire(&mut self, now: Nanos, settings: &LeaseSettings) -> LeaseExpiry {
        let mut due = LeaseExpiry::default();
        // A worker is lost once: nothing is due after that.
        let Ok(expired) = machine::next(self.state, machine::Event::Expire) else { return due };
        if self.alive_until(settings).is_some_and(|until| until <= now) {
            due.lost = Some(match self.state {
                _ if self.speaks_protocol() => LostBecause::Silent,
                _ if self.is_done() => LostBecause::ShutDown,
                State::Detached => LostBecause::Disconnected,
                _ => LostBecause::Silent,
            });
            self.state = expired;
            return due;
        }
        if self.speaks_protocol() {
            let late = |held: &HoldState| !held.confirmed && held.since.saturating_add(settings.verification) <= now;
            due.orphans = self.holds.iter().filter(|(_, held)| late(held)).map(|(hold, _)| *hold).collect();
            self.holds.retain(|_, held| !late(held));
        }
        due
    }

    /// It said that it is over.
    pub fn shut_down(&mut self) -> Result<(), IllegalStep> {
        self.step(machine::Event::ShutDown)
    }

    /// The server itself was away: no worker is lost for what the server did not hear meanwhile.
    pub fn excuse(&mut self, away: Nanos) {
        self.heard = self.heard.saturating_add(away);
        self.detached = self.detached.saturating_add(away);
        self.holds.values_mut().for_each(|held| held.since = held.since.saturating_add(away));
        // The times in them are no longer comparable.
        self.slots = None;
    }
}
