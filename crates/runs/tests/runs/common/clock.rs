//! A clock that tests move.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use segno_environment::clock::{Clock, SystemClock};

/// The machine's clock, which can jump forward.
#[derive(Default)]
pub struct JumpingClock {
    ahead: AtomicI64,
}

impl JumpingClock {
    pub fn jump(&self, by: Duration) {
        self.ahead.fetch_add(by.as_nanos() as i64, Ordering::SeqCst);
    }
}

impl Clock for JumpingClock {
    fn now(&self) -> i64 {
        SystemClock.now() + self.ahead.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> i64 {
        SystemClock.monotonic()
    }
}
