//! The machine's time.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use segno_proto::Nanos;

/// Nanoseconds since the epoch, never backwards.
pub fn now() -> Nanos {
    static STEADY: SteadyTime = SteadyTime::new();
    // The wall clock is read first: a pause between the two readings makes the difference too small, never too
    // large, and the largest difference counts.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as Nanos);
    STEADY.at(wall, monotonic())
}

/// Nanoseconds since some moment, by a clock that nothing can set.
pub fn monotonic() -> Nanos {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as Nanos
}

/// Wall time that never goes backwards: the monotonic clock plus the largest difference to the wall clock seen so far.
#[derive(Debug)]
struct SteadyTime {
    offset: AtomicI64,
}

impl SteadyTime {
    const fn new() -> Self {
        Self { offset: AtomicI64::new(i64::MIN) }
    }

    /// The time when the two clocks show this.
    fn at(&self, wall: Nanos, monotonic: Nanos) -> Nanos {
        let offset = wall - monotonic;
        monotonic + self.offset.fetch_max(offset, Ordering::Relaxed).max(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn a_wall_clock_set_back_does_not_stop_time() {
        let time = SteadyTime::new();
        assert_eq!(time.at(1000 * SECOND, 5 * SECOND), 1000 * SECOND);
        // An hour back, and two seconds later.
        assert_eq!(time.at(1000 * SECOND - 3600 * SECOND, 5 * SECOND), 1000 * SECOND);
        assert_eq!(time.at(1002 * SECOND - 3600 * SECOND, 7 * SECOND), 1002 * SECOND);
    }

    #[test]
    fn a_wall_clock_set_forward_is_followed_at_once() {
        let time = SteadyTime::new();
        assert_eq!(time.at(1000 * SECOND, 5 * SECOND), 1000 * SECOND);
        assert_eq!(time.at(4601 * SECOND, 6 * SECOND), 4601 * SECOND);
    }

    #[test]
    fn a_wall_clock_that_was_set_back_and_caught_up_counts_again() {
        let time = SteadyTime::new();
        time.at(1000 * SECOND, 0);
        assert_eq!(time.at(995 * SECOND, 5 * SECOND), 1005 * SECOND);
        assert_eq!(time.at(1100 * SECOND, 10 * SECOND), 1100 * SECOND);
    }
}
