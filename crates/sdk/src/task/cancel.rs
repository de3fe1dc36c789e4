//! Why a task should stop.

use std::fmt;

use tokio::sync::watch;

use crate::failure::Failure;

/// Why a running task is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CancelReason {
    /// The workflow requested it, or has ended.
    CancelRequested,
    /// An operator paused the task. It is tried again when the pause ends.
    Paused,
    /// An operator reset the task. It begins again with its first attempt.
    Reset,
    /// A time-out ran out; the server has given up this attempt.
    TimedOut,
    /// The worker's lease ran out: the server has given the task to another worker.
    WorkerLost,
    /// The worker shuts down, and its time of grace is over.
    WorkerShutdown,
    /// The server does not know this attempt.
    NotFound,
}

impl CancelReason {
    /// The kind of the failure that an attempt ends with if it stops for this reason.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::CancelRequested => "CancelRequested",
            Self::Paused => "Paused",
            Self::Reset => "Reset",
            Self::TimedOut => "TimedOut",
            Self::WorkerLost => "WorkerLost",
            Self::WorkerShutdown => "WorkerShutdown",
            Self::NotFound => "NotFound",
        }
    }
}

impl fmt::Display for CancelReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CancelRequested => "cancellation was requested",
            Self::Paused => "the task was paused",
            Self::Reset => "the task was reset",
            Self::TimedOut => "a time-out ran out",
            Self::WorkerLost => "the worker lost its lease",
            Self::WorkerShutdown => "the worker shuts down",
            Self::NotFound => "the server no longer knows this attempt",
        })
    }
}

/// A cancellation that is delivered at most once, to the code that waits for it.
pub(crate) struct Cancellation(watch::Sender<Option<CancelReason>>);

impl Default for Cancellation {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Cancellation {
    /// Tells it. The first reason counts.
    pub(crate) fn tell(&self, reason: CancelReason) {
        self.0.send_if_modified(|told| {
            let first = told.is_none();
            told.get_or_insert(reason);
            first
        });
    }

    pub(crate) fn reason(&self) -> Option<CancelReason> {
        *self.0.borrow()
    }

    pub(crate) async fn wait(&self) {
        // The sender lives as long as this borrow of it, so that the channel cannot close.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

/// The answer for an attempt that ended as cancelled.
pub(crate) enum CancelledAnswer {
    /// The server requested it: the task counts as canceled.
    Canceled,
    /// It did not ask. A canceled failure would never be tried again, so that it becomes one that is.
    Failed(Failure),
}

/// Decides about an attempt that ended with [`Failure::cancelled`].
pub(crate) fn cancelled(reason: Option<CancelReason>, failure: &Failure) -> CancelledAnswer {
    match reason {
        Some(CancelReason::CancelRequested) => CancelledAnswer::Canceled,
        Some(reason) => CancelledAnswer::Failed(Failure::application(reason.kind(), reason.to_string()).into()),
        None => CancelledAnswer::Failed(Failure::application("Cancelled", failure.message()).into()),
    }
}
