//! Rules of the executor that a test can take out, to prove that the tests which need them fail without.

use std::sync::atomic::{AtomicU8, Ordering};

#[allow(dead_code)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sabotage {
    /// Whoever is asked first is ready first.
    NoGrant = 1,
    /// Dropping sends no cancellation.
    DropWithoutCancel = 2,
    /// Time is the clock's.
    TimeIsNow = 3,
    /// Markers are not compared.
    MarkersNotMatched = 4,
}

static ON: AtomicU8 = AtomicU8::new(0);

#[allow(dead_code)]
pub(crate) fn is_on(sabotage: Sabotage) -> bool {
    ON.load(Ordering::Relaxed) == sabotage as u8
}

#[allow(dead_code)]
pub(crate) fn set(sabotage: Option<Sabotage>) {
    ON.store(sabotage.map_or(0, |sabotage| sabotage as u8), Ordering::Relaxed);
}
