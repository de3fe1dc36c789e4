//! A clock that jumps to the next wake-up while no work is under way.
//!
//! This is the time skipping of Temporal's test server ([decision
//! 027](../../../docs/internals/decisions/027-time-skipping.md)). Workflow tasks and activities that are scheduled or
//! started hold time, as do messages between runs. Timers, back-offs, time-outs of workflows, schedules and cron do
//! not: they are the times to which the clock jumps. While time is held or locked it passes at its usual pace.
//!
//! Only the timer loop of the runs moves the clock, so that no call is handled between the decision and the jump.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use crate::hash::HashSet;

use segno_proto::Nanos;
use segno_store::RunKey;
use tokio::sync::{Notify, oneshot};

use crate::{lock::lock, system_time};

/// A lock was released that no client held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time skipping is not locked: there were more unlocks than locks")]
pub struct NotLocked;

/// A caller that sleeps until a moment.
struct Sleeper {
    done: oneshot::Sender<()>,
    /// Whether time is locked in the moment in which the sleep ends.
    locks: bool,
}

#[derive(Default)]
struct State {
    /// Locks that clients hold. One less than none, while a task holds time, means that its hold was released: an activity that
    /// sleeps with unlocked time means its own, as in Temporal's test server, which counts both together.
    locks: i64,
    /// Runs with a task that is scheduled or started.
    holding: HashSet<RunKey>,
    /// Wake-ups under way, and transitions whose consequences are carried out.
    under_way: usize,
    /// By moment and by number, since two may have the same moment.
    sleepers: BTreeMap<(Nanos, u64), Sleeper>,
    /// Number of the last sleeper.
    last_sleeper: u64,
}

impl State {
    /// Locks and tasks that hold time.
    fn holds(&self) -> i64 {
        self.locks + self.holding.len() as i64
    }

    fn is_idle(&self) -> bool {
        self.holds() <= 0 && self.under_way == 0
    }

    /// Releases one lock, or what a task holds.
    fn release(&mut self) -> Result<(), NotLocked> {
        if self.holds() <= 0 {
            return Err(NotLocked);
        }
        self.locks -= 1;
        Ok(())
    }
}

/// A clock that jumps while nothing is under way. It begins with the machine's time.
#[derive(Default)]
pub struct SkippingClock {
    /// How far it is ahead of the machine's clock.
    ahead: AtomicI64,
    state: Mutex<State>,
    /// Notified when there may be a reason to jump.
    pub changed: Notify,
}

impl SkippingClock {
    /// A clock whose jumps are locked once, as those of Temporal's test server are at its start.
    pub fn locked() -> Self {
        let clock = Self::default();
        clock.lock_skipping();
        clock
    }

    /// Nanoseconds since the epoch, with what was skipped.
    pub fn now(&self) -> Nanos {
        system_time::now().saturating_add(self.ahead.load(Ordering::SeqCst))
    }

    /// Time passes at its usual pace until each lock has been released.
    pub fn lock_skipping(&self) {
        lock(&self.state).locks += 1;
    }

    /// Releases one lock.
    pub fn unlock_skipping(&self) -> Result<(), NotLocked> {
        let mut state = lock(&self.state);
        state.release()?;
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Sleeps until a moment of this clock.
    pub async fn sleep_until(&self, at: Nanos) {
        let done = self.add_sleeper(&mut lock(&self.state), at, false);
        self.changed.notify_one();
        let _ = done.await;
    }

    /// Releases one lock, sleeps, and locks again in the moment in which the sleep ends: no time is skipped after it. If
    /// the caller goes away meanwhile, the lock is taken all the same.
    pub async fn sleep_unlocked(&self, duration: Nanos) -> Result<(), NotLocked> {
        let done = {
            let mut state = lock(&self.state);
            state.release()?;
            self.add_sleeper(&mut state, self.now().saturating_add(duration), true)
        };
        self.changed.notify_one();
        let _ = done.await;
        Ok(())
    }

    fn add_sleeper(&self, state: &mut State, at: Nanos, locks: bool) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        state.last_sleeper += 1;
        state.sleepers.insert((at, state.last_sleeper), Sleeper { done, locks });
        receiver
    }

    /// Notes whether a run holds time.
    pub fn note(&self, run: RunKey, holds: bool) {
        let mut state = lock(&self.state);
        if holds {
            state.holding.insert(run);
        } else {
            state.holding.remove(&run);
        }
        // Also if nothing changed: the run may have a new wake-up.
        if state.is_idle() {
            self.changed.notify_one();
        }
    }

    /// A wake-up, or what follows from a transition, begins. Time is held until it has ended.
    pub fn begin(&self) {
        lock(&self.state).under_way += 1;
    }

    /// Work that began has ended.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.under_way -= 1;
        if state.is_idle() {
            self.changed.notify_one();
        }
    }

    /// Ends the sleeps that are over; says when the next one is.
    pub fn end_sleeps(&self) -> Option<Nanos> {
        let now = self.now();
        let mut state = lock(&self.state);
        while let Some(entry) = state.sleepers.first_entry() {
            if entry.key().0 > now {
                return Some(entry.key().0);
            }
            let sleeper = entry.remove();
            state.locks += i64::from(sleeper.locks);
            let _ = sleeper.done.send(());
        }
        None
    }

    /// Jumps to a moment if time may be skipped. Returns whether it did.
    pub fn jump(&self, to: Nanos) -> bool {
        let state = lock(&self.state);
        if !state.is_idle() {
            return false;
        }
        let by = to - self.now();
        if by > 0 {
            self.ahead.fetch_add(by, Ordering::SeqCst);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;

    const DAY: Nanos = 24 * 3600 * 1_000_000_000;

    #[test]
    fn time_jumps_only_while_nothing_holds_it() {
        let clock = SkippingClock::locked();
        let to = clock.now() + DAY;
        assert!(!clock.jump(to));
        assert_eq!(clock.unlock_skipping(), Ok(()));
        assert_eq!(clock.unlock_skipping(), Err(NotLocked));
        clock.note(RunKey(1), true);
        assert!(!clock.jump(to));
        clock.note(RunKey(1), false);
        clock.begin();
        assert!(!clock.jump(to));
        clock.end();
        assert!(clock.now() < to);
        assert!(clock.jump(to));
        assert!(clock.now() >= to && clock.now() < to + DAY);
    }

    #[test]
    fn an_unlock_releases_what_a_task_holds() {
        let clock = SkippingClock::default();
        let to = clock.now() + DAY;
        clock.note(RunKey(1), true);
        assert!(!clock.jump(to));
        assert_eq!(clock.unlock_skipping(), Ok(()));
        assert_eq!(clock.unlock_skipping(), Err(NotLocked));
        assert!(clock.jump(to));
        clock.lock_skipping();
        assert!(!clock.jump(to + DAY), "it holds time again");
        clock.note(RunKey(1), false);
        assert!(clock.jump(to + DAY));
    }

    #[test]
    fn a_jump_to_the_past_changes_nothing() {
        let clock = SkippingClock::default();
        let before = clock.now();
        assert!(clock.jump(before - DAY));
        assert!(clock.now() >= before);
    }

    #[tokio::test]
    async fn a_sleep_with_unlocked_time_locks_it_at_its_end() {
        let clock = Arc::new(SkippingClock::locked());
        let sleeping = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_unlocked(DAY).await }
        });
        let at = tokio::time::timeout(Duration::from_secs(5), async {
            loop {
                clock.changed.notified().await;
                if let Some(at) = clock.end_sleeps() {
                    return at;
                }
            }
        });
        let at = at.await.expect("the sleep is noted");
        assert!(clock.jump(at));
        assert_eq!(clock.end_sleeps(), None);
        assert_eq!(sleeping.await.expect("it ends"), Ok(()));
        assert!(!clock.jump(at + DAY));
    }
}
