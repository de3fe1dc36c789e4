//! Supervises the writer thread and the background loops, which must never end.
//!
//! If one of them panics or ends, the node has failed: it answers no calls, its health says so, and the process ends
//! with a message ([`Runs::failed`]). No acknowledged change is lost: the next start recovers from storage.

use std::sync::{Arc, Weak};

use segno_environment::vitals::panic_text;
use tokio::task::AbortHandle;

use crate::runs::Runs;

impl Runs {
    /// Why the node can no longer work, if it cannot.
    pub fn failure(&self) -> Option<&str> {
        self.vitals.failure()
    }

    /// Waits until the node can no longer work; says why. A node that works keeps its caller waiting.
    pub async fn failed(&self) -> String {
        self.vitals.failed().await
    }

    /// Runs a loop that ends only when the node stops.
    pub fn supervise(self: &Arc<Self>, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.watch_over(what, false, work);
    }

    /// Something essential that is not the node's own ended, and the node cannot go on without it.
    pub fn fail(&self, what: &str, why: &str) {
        self.vitals.fail(what, why);
    }

    /// Runs something essential that comes to an end.
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
        let runs: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            let ended = work.await;
            let Some(runs) = runs.upgrade() else { return };
            match ended {
                Err(error) if error.is_panic() => runs.vitals.fail(what, &panic_text(&*error.into_panic())),
                Ok(()) if !ends && !runs.is_stopping() => runs.vitals.fail(what, "it has to run until the node stops"),
                Ok(()) | Err(_) => {}
            }
        });
        abort
    }
}
