//! Whether the writer thread and the background loops, which must never end, still run.

use std::{any::Any, sync::OnceLock};

use tokio::sync::Notify;

/// Whether everything essential runs.
#[derive(Debug, Default)]
pub struct Vitals {
    failure: OnceLock<String>,
    failed: Notify,
}

impl Vitals {
    /// An essential thread or task ended. The first failure counts.
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

    /// Waits for the first failure.
    pub async fn failed(&self) -> String {
        loop {
            let failed = self.failed.notified();
            if let Some(why) = self.failure() {
                return why.to_owned();
            }
            failed.await;
        }
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}
