//! Limits of a read: its deadline, and that its caller still waits.
//!
//! A read of many rows checks its [`ReadLimit`] periodically and stops with the error of [`ReadLimit::check`]. A few
//! milliseconds between two checks are short enough. A backend on another machine passes the deadline on and cancels
//! the statement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use crate::ReadError;

/// See the module. Clones share the cancellation.
#[derive(Clone, Debug, Default)]
pub struct ReadLimit {
    deadline: Option<Instant>,
    cancelled: Option<Arc<AtomicBool>>,
}

/// Cancels a read when dropped: kept by the task that waits for it.
#[derive(Debug)]
#[must_use = "the read is cancelled when this is dropped"]
pub struct CancelOnDrop(Arc<AtomicBool>);

impl ReadLimit {
    /// No deadline and no cancellation.
    pub fn none() -> Self {
        Self::default()
    }

    /// A deadline alone.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), cancelled: None }
    }

    /// A deadline, and a guard that cancels the read when it is dropped.
    pub fn cancellable(deadline: Instant) -> (Self, CancelOnDrop) {
        let cancelled = Arc::new(AtomicBool::new(false));
        let guard = CancelOnDrop(Arc::clone(&cancelled));
        (Self { deadline: Some(deadline), cancelled: Some(cancelled) }, guard)
    }

    /// Whether there is anything to check.
    pub fn is_none(&self) -> bool {
        self.deadline.is_none() && self.cancelled.is_none()
    }

    /// The error a read must stop with, if it must stop.
    pub fn check(&self) -> Result<(), ReadError> {
        if self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Err(ReadError::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(ReadError::DeadlineExceeded),
            _ => Ok(()),
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_read_ends_at_its_deadline_or_with_its_caller() {
        assert_eq!(ReadLimit::none().check(), Ok(()));
        let now = Instant::now();
        assert_eq!(ReadLimit::until(now).check(), Err(ReadError::DeadlineExceeded));
        let (limit, caller) = ReadLimit::cancellable(now + Duration::from_secs(3600));
        let copy = limit.clone();
        assert_eq!((limit.check(), copy.check()), (Ok(()), Ok(())));
        drop(caller);
        assert_eq!((limit.check(), copy.check()), (Err(ReadError::Cancelled), Err(ReadError::Cancelled)));
    }
}
