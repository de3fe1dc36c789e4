//! Watching over what must never end: the writer thread and the background loops.
//!
//! If one of them panics or ends by itself, the node has failed: it answers no call any more, its health says so, and the
//! process ends with a message ([`Runs::failed`]). Nothing is lost: whoever starts it again finds everything stored.

use std::{
    any::Any,
    sync::{Arc, OnceLock, Weak},
};

use tokio::{sync::Notify, task::AbortHandle};

use crate::runs::Runs;

/// Whether everything essential runs.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    failure: OnceLock<String>,
    failed: Notify,
}

impl Vitals {
    /// Something essential ended. The first failure counts.
    pub fn fail(&self, what: &str, why: &str) {
        let text = format!("{what} ended: {why}");
        tracing::error!("{text}; the server cannot go on and must be restarted. Nothing that was acknowledged is lost");
        let _ = self.failure.set(text);
        self.failed.notify_waiters();
    }

    /// The first failure.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

impl Runs {
    /// Why the node cannot work any more, if it cannot.
    pub fn failure(&self) -> Option<&str> {
        self.vitals.failure()
    }

    /// Waits until the node cannot work any more; says why. A node that works keeps its caller waiting.
    pub async fn failed(&self) -> String {
        loop {
            let failed = self.vitals.failed.notified();
            if let Some(why) = self.failure() {
                return why.to_owned();
            }
            failed.await;
        }
    }

    /// Runs a loop that ends only when the node stops.
    pub(crate) fn supervise(self: &Arc<Self>, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
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
        let node: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            let ended = work.await;
            let Some(node) = node.upgrade() else { return };
            match ended {
                Err(error) if error.is_panic() => node.vitals.fail(what, &panic_text(&*error.into_panic())),
                Ok(()) if !ends && !node.is_stopping() => node.vitals.fail(what, "nobody told it to"),
                Ok(()) | Err(_) => {}
            }
        });
        abort
    }
}
