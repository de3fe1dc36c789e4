//! Circuit breaker of a destination: after failures in a row its requests wait, and then one of them tries whether it is back.

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row with which it opens.
const FAILURES_MAX: u32 = 6;
/// How long it stays open.
const OPEN_TIME: Duration = Duration::from_secs(60);

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breaker {
    /// Requests are made; so many have failed since the last that did not.
    Closed(u32),
    /// None is made before this moment.
    Open(Instant),
    /// One is under way, and decides.
    Probing,
}

/// Whether a request may be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may.
    Now,
    /// It may, and decides about those that follow.
    Probe,
    /// Not before this moment.
    At(Instant),
    /// Not before the one that decides has ended.
    AfterProbe,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::Closed(0)
    }
}

impl Breaker {
    pub(crate) fn admission(self, now: Instant) -> Admission {
        match self {
            Self::Closed(_) => Admission::Now,
            Self::Open(until) if now < until => Admission::At(until),
            Self::Open(_) => Admission::Probe,
            Self::Probing => Admission::AfterProbe,
        }
    }

    /// A request that was admitted as a probe begins.
    pub(crate) fn probe(&mut self) {
        *self = Self::Probing;
    }

    /// A request has ended. `failed` is whether the destination seems to be down; `None` if that is not known. Those that began before the
    /// breaker opened say nothing about now.
    pub(crate) fn note(&mut self, was_probe: bool, failed: Option<bool>, now: Instant) {
        *self = match (*self, failed) {
            (Self::Closed(failures), Some(true)) if failures + 1 >= FAILURES_MAX => Self::Open(now + OPEN_TIME),
            (Self::Closed(failures), Some(true)) => Self::Closed(failures + 1),
            (Self::Closed(_), Some(false)) => Self::Closed(0),
            (Self::Probing, Some(true)) if was_probe => Self::Open(now + OPEN_TIME),
            (Self::Probing, Some(false)) if was_probe => Self::Closed(0),
            // The next one tries.
            (Self::Probing, None) if was_probe => Self::Open(now),
            (state, _) => state,
        };
    }

    pub(crate) fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_failures_in_a_row_open_it_for_a_minute() {
        let (mut breaker, now) = (Breaker::default(), Instant::now());
        for _ in 0..5 {
            breaker.note(false, Some(true), now);
        }
        breaker.note(false, Some(false), now);
        breaker.note(false, None, now);
        for _ in 0..5 {
            breaker.note(false, Some(true), now);
            assert_eq!(breaker.admission(now), Admission::Now);
        }
        breaker.note(false, Some(true), now);
        let until = now + Duration::from_secs(60);
        assert_eq!((breaker.admission(now), breaker.is_closed()), (Admission::At(until), false));
        // Those that began before.
        breaker.note(false, Some(false), now);
        breaker.note(false, Some(true), now);
        assert_eq!(breaker.admission(now), Admission::At(until));
        assert_eq!(breaker.admission(until), Admission::Probe);
    }

    #[test]
    fn one_request_decides() {
        let now = Instant::now();
        // The outcome of the probe, and what follows.
        let cases = [
            (Some(false), Admission::Now),
            (Some(true), Admission::At(now + Duration::from_secs(60))),
            (None, Admission::Probe),
        ];
        for (outcome, follows) in cases {
            let mut breaker = Breaker::Open(now);
            breaker.probe();
            assert_eq!(breaker.admission(now), Admission::AfterProbe);
            breaker.note(false, Some(false), now);
            assert_eq!(breaker.admission(now), Admission::AfterProbe);
            breaker.note(true, outcome, now);
            assert_eq!(breaker.admission(now), follows);
        }
    }
}
