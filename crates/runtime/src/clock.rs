//! Where time comes from. Injected, so that tests and simulations can move it.

use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use segno_proto::Nanos;

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since the epoch.
    fn now(&self) -> Nanos;

    /// Nanoseconds since some moment. Unlike [`Clock::now`] it never jumps, whatever somebody does to the clock.
    fn monotonic(&self) -> Nanos {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as Nanos
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as Nanos)
    }
}

/// The time until a moment, never negative.
pub fn until(now: Nanos, moment: Nanos) -> Duration {
    Duration::from_nanos(moment.saturating_sub(now).max(0) as u64)
}
