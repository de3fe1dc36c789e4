//! [`Lifecycle`]: whether a node works, stops, has ended or has failed. Supervises the writer thread and the background
//! loops, which must never end.
//!
//! If one of them panics or ends, the node has failed: it answers no calls, its health says so, and the process ends
//! with a message ([`Lifecycle::failed`]). No acknowledged change is lost: the next start recovers from storage.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use segno_environment::vitals::{Vitals, panic_text};
use tokio::{sync::Notify, task::AbortHandle};

/// The life of a node.
#[derive(Default)]
pub struct Lifecycle {
    pub(crate) vitals: Arc<Vitals>,
    stopping: AtomicBool,
    /// Nothing is served now, not even to other nodes.
    ended: AtomicBool,
    /// Notified once when the node stops.
    pub stop: Notify,
}

impl Lifecycle {
    /// Begins to stop: new calls are refused.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stop.notify_waiters();
    }

    /// Whether the node is shutting down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Serves nothing from now on, not even other nodes.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Whether [`Lifecycle::end`] was called: nothing is served.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Why the node can no longer work, if it cannot.
    pub fn failure(&self) -> Option<&str> {
        self.vitals.failure()
    }

    /// Waits until the node can no longer work; says why. A node that works keeps its caller waiting.
    pub async fn failed(&self) -> String {
        self.vitals.failed().await
    }

    /// An essential part outside of the node ended, and the node cannot go on without it.
    pub fn fail(&self, what: &str, why: &str) {
        self.vitals.fail(what, why);
    }

    /// Runs a loop that ends only when the node stops.
    pub fn supervise(self: &Arc<Self>, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.watch_over(what, false, work);
    }

    /// Runs an essential task that comes to an end.
    pub fn supervise_to_its_end(
        self: &Arc<Self>,
        what: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        self.watch_over(what, true, work)
    }

    fn watch_over(
        self: &Arc<Self>,
        what: &'static str,
        ends: bool,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let work = tokio::spawn(work);
        let abort = work.abort_handle();
        let life: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            let ended = work.await;
            let Some(life) = life.upgrade() else { return };
            match ended {
                Err(error) if error.is_panic() => life.vitals.fail(what, &panic_text(&*error.into_panic())),
                Ok(()) if !ends && !life.is_stopping() => life.vitals.fail(what, "it has to run until the node stops"),
                Ok(()) | Err(_) => {}
            }
        });
        abort
    }
}
