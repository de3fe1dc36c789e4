//! Worker deployments: loading and storing them, and what their rules need to know of runs and queues. The rules themselves are in
//! the crate `segno-deployments`.
//!
//! What holds: a deployment is changed by one call at a time; a change is stored before any task goes by it, and its call is answered
//! after. Among several nodes the leader makes all changes, so that a deployment has one writer, and other nodes read them again
//! (decision 037).

mod changes;
mod load;
pub(crate) mod pins;
mod register;
pub(crate) mod retention;
mod usage;
mod uses;

use std::sync::{Arc, Mutex};

use segno_environment::{hash::HashMap, lock::lock};
use segno_store::NamespaceKey;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, RwLock};

pub use uses::Uses;

type DeploymentKey = (NamespaceKey, String);

/// Who may change deployments now.
#[derive(Default)]
pub(crate) struct DeploymentLocks {
    by_name: Mutex<HashMap<DeploymentKey, Arc<AsyncMutex<()>>>>,
    /// One new deployment at a time, so that they are counted.
    creating: AsyncMutex<()>,
    /// Held by each change, and alone while all deployments are read again: what was read does not replace a newer change.
    reading: RwLock<()>,
}

impl DeploymentLocks {
    /// Waits until no other call changes a deployment.
    async fn hold(&self, namespace: NamespaceKey, name: &str) -> OwnedMutexGuard<()> {
        let key = (namespace, name.to_owned());
        let mutex = lock(&self.by_name).entry(key).or_default().clone();
        mutex.lock_owned().await
    }

    /// Forgets locks that no call holds or waits for.
    fn forget_unused(&self) {
        lock(&self.by_name).retain(|_, mutex| Arc::strong_count(mutex) > 1);
    }
}
