//! The clock of a node. It is injected, so that tests and simulations can move it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use segno_proto::Nanos;
use segno_store::cluster::{Membership, TimeReading};
use tokio::time::Instant;

use crate::lock::lock;
use crate::{skipping::SkippingClock, system_time};

/// The longest sleep until a moment of the wall clock. An operator may set that clock forward meanwhile, and a sleep is
/// measured by the monotonic clock, which does not notice.
pub const SLEEP_MAX: Duration = Duration::from_secs(1);
/// The same if the moment is further away than [`FAR`]: a server that only waits for such moments, for example one with many
/// schedules, is at rest.
const SLEEP_FAR_MAX: Duration = Duration::from_secs(10);
const FAR: Duration = Duration::from_secs(3600);

/// How long to sleep before looking at the clock again, if nothing is due before a moment that is so far away.
pub fn sleep_for(left: Duration) -> Duration {
    left.min(if left > FAR { SLEEP_FAR_MAX } else { SLEEP_MAX })
}

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since the epoch. Never goes backwards.
    fn now(&self) -> Nanos;

    /// Nanoseconds since some moment. Unlike [`Clock::now`] it never jumps, also when the machine's clock is set.
    fn monotonic(&self) -> Nanos;

    /// The same clock if it jumps while nothing is under way.
    fn skipping(&self) -> Option<&SkippingClock> {
        None
    }
}

/// The machine's clock. If an operator sets it back, time goes on from where it was, at the pace of the monotonic clock,
/// until the wall clock has caught up: a timer of two seconds takes two seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        system_time::now()
    }

    fn monotonic(&self) -> Nanos {
        system_time::monotonic()
    }
}

/// The time of the runtime, from a moment on. It passes as sleeps do, also if the runtime is paused or simulated.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    began_at: Nanos,
    began: Instant,
}

impl RuntimeClock {
    /// A clock that shows this now.
    pub fn from(now: Nanos) -> Self {
        Self { began_at: now, began: Instant::now() }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Nanos {
        self.began_at + self.monotonic()
    }

    fn monotonic(&self) -> Nanos {
        self.began.elapsed().as_nanos() as Nanos
    }
}

impl Clock for SkippingClock {
    fn now(&self) -> Nanos {
        self.now()
    }

    fn monotonic(&self) -> Nanos {
        system_time::monotonic()
    }

    fn skipping(&self) -> Option<&SkippingClock> {
        Some(self)
    }
}

/// The clock of the database that nodes share: a wrong clock of one node fires no timer too early or too late, and what one
/// node wrote is not in the future of another one. In between readings it goes at the pace of the monotonic clock.
///
/// If the database's clock is ahead, it is followed at once. If it is behind, this one goes a little slower until they agree:
/// time never goes backwards, and never stands still.
#[derive(Debug, Default)]
pub struct DatabaseClock {
    steering: Mutex<Steering>,
    /// Database time minus monotonic time.
    offset: AtomicI64,
    /// The latest time that was told.
    told: AtomicI64,
}

/// The offset of the database's clock, as far as it is known.
#[derive(Debug, Default)]
struct Steering {
    /// When the last reading came, monotonic.
    last: Option<Nanos>,
}

/// How much slower than the monotonic clock this one goes while it is ahead: a twentieth.
const SLOWER: Nanos = 20;

impl DatabaseClock {
    /// The clock of the database that has this membership.
    pub fn following(membership: &dyn Membership) -> Arc<Self> {
        let clock = Arc::new(Self::default());
        let steered = Arc::downgrade(&clock);
        membership.follow_time(Box::new(move |reading| {
            if let Some(clock) = steered.upgrade() {
                let TimeReading { database, asked, answered } = reading;
                let now = clock.monotonic();
                let at = |moment: Instant| now - moment.elapsed().as_nanos() as Nanos;
                clock.steer(database, at(asked), at(answered));
            }
        }));
        clock
    }

    /// The database's clock showed this between two moments of the monotonic clock.
    fn steer(&self, database: Nanos, asked: Nanos, answered: Nanos) {
        let mut steering = lock(&self.steering);
        let (least, most) = (database - answered, database - asked);
        let offset = self.offset.load(Ordering::Relaxed);
        let next = match steering.last {
            // The first one: in the middle is most likely.
            None => least + (most - least) / 2,
            Some(last) => offset.max(least).min(most.max(offset - (answered - last).max(0) / SLOWER)),
        };
        steering.last = Some(answered);
        self.offset.store(next, Ordering::Relaxed);
    }

    fn at(&self, monotonic: Nanos) -> Nanos {
        let time = monotonic + self.offset.load(Ordering::Relaxed);
        self.told.fetch_max(time, Ordering::Relaxed).max(time)
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Nanos {
        self.at(self.monotonic())
    }

    fn monotonic(&self) -> Nanos {
        system_time::monotonic()
    }
}

/// The time until a moment, never negative.
pub fn until(now: Nanos, moment: Nanos) -> Duration {
    Duration::from_nanos(moment.saturating_sub(now).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn sleeps_are_short_enough_to_notice_that_the_clock_was_set() {
        let seconds = Duration::from_secs;
        assert_eq!(sleep_for(Duration::ZERO), Duration::ZERO);
        assert_eq!(sleep_for(Duration::from_millis(300)), Duration::from_millis(300));
        assert_eq!(sleep_for(seconds(1800)), seconds(1));
        assert_eq!(sleep_for(seconds(3600)), seconds(1));
        assert_eq!(sleep_for(seconds(3601)), seconds(10));
    }

    #[test]
    fn the_database_is_followed_whatever_this_machine_believes() {
        let clock = DatabaseClock::default();
        clock.steer(1_000 * SECOND, 10 * SECOND, 12 * SECOND);
        assert_eq!(clock.at(12 * SECOND), 1_001 * SECOND, "in the middle of the round trip");
        // A reading that agrees within its round trip changes nothing.
        clock.steer(1_002 * SECOND, 12 * SECOND, 14 * SECOND);
        assert_eq!(clock.at(14 * SECOND), 1_003 * SECOND);
        // Ahead: followed as far as is certain.
        clock.steer(2_000 * SECOND, 14 * SECOND, 15 * SECOND);
        assert_eq!(clock.at(15 * SECOND), 2_000 * SECOND);
    }

    #[test]
    fn a_database_that_is_behind_is_approached_and_time_goes_on() {
        let clock = DatabaseClock::default();
        clock.steer(1_000 * SECOND, 0, 0);
        // The database lost ten seconds.
        let (mut before, mut seconds) = (clock.at(0), 0);
        while clock.at(seconds * SECOND) - (990 + seconds) * SECOND > SECOND / 10 {
            seconds += 1;
            clock.steer((990 + seconds) * SECOND, seconds * SECOND, seconds * SECOND);
            let now = clock.at(seconds * SECOND);
            assert!(now - before >= SECOND * 9 / 10 && now - before <= SECOND, "{}", now - before);
            before = now;
        }
        assert!((190..=200).contains(&seconds), "{seconds}");
        // Never backwards, not by a nanosecond.
        assert!(clock.at(seconds * SECOND - 1) >= before);
    }
}
