//! [`NamespaceOperations`]: registers, changes and deletes namespaces, and deletes their closed runs in time.
//!
//! The namespaces themselves are in the registry of `segno-runs`, which every call reads. Among several nodes the leader deletes.

mod changes;
mod deletion;
mod retention;

use std::sync::{Arc, Mutex};

use segno_environment::hash::HashSet;
use segno_runs::Runs;
use segno_store::NamespaceKey;
use tokio::sync::Notify;

use crate::{batch::Batches, verification::Verifications};

/// Changes namespaces and deletes what belongs to them.
pub struct NamespaceOperations {
    runs: Arc<Runs>,
    batches: Arc<Batches>,
    verifications: Arc<Verifications>,
    /// Namespaces that this node is deleting.
    deleting: Mutex<HashSet<NamespaceKey>>,
    /// Notified when closed runs may be due earlier than before.
    retention_changed: Notify,
}

impl NamespaceOperations {
    /// Operations that have not started: see [`NamespaceOperations::start`].
    pub fn new(runs: Arc<Runs>, batches: Arc<Batches>, verifications: Arc<Verifications>) -> Arc<Self> {
        Arc::new(Self { runs, batches, verifications, deleting: Mutex::default(), retention_changed: Notify::new() })
    }

    /// Starts the deletion of expired runs, and continues deletions of namespaces.
    pub fn start(self: &Arc<Self>) {
        // With a clock that skips, a caller can still read what closed a month of skipped time ago.
        if self.runs.skipping_clock().is_none() {
            self.runs.lifecycle.supervise("the deletion of expired runs", self.clone().delete_expired_runs());
        }
        self.resume_deletions();
    }

    /// Another node leads, or changed namespaces: retention and deletions are checked again.
    pub fn resume(self: &Arc<Self>) {
        self.check_retention();
        self.resume_deletions();
    }

    /// Wakes the loop that deletes expired runs: a retention or the clock changed, or the node stops.
    pub fn check_retention(&self) {
        self.retention_changed.notify_one();
    }
}
