//! Queues that forgot tasks and have room for them again.

use std::{collections::BTreeSet, sync::Mutex};

use segno_environment::lock::lock;
use tokio::sync::Notify;

use super::key::QueueKey;

/// Queues that want their forgotten tasks back.
#[derive(Default)]
pub struct Refills {
    wanted: Mutex<BTreeSet<QueueKey>>,
    added: Notify,
}

impl Refills {
    /// Asks for a refill.
    pub fn want(&self, key: &QueueKey) {
        lock(&self.wanted).insert(key.clone());
        self.added.notify_one();
    }

    /// Wakes the loop, which then sees that the node stops.
    pub fn wake(&self) {
        self.added.notify_one();
    }

    /// The next queue to refill.
    pub fn next(&self) -> Option<QueueKey> {
        lock(&self.wanted).pop_first()
    }

    /// Waits until there may be another one.
    pub async fn added(&self) {
        self.added.notified().await;
    }
}
