//! Why a node that runs is not healthy: causes with names, each there until the part that reported it recovers.
//!
//! A degraded node goes on answering calls; only its health says that an operator, or a load balancer, should act. What ends
//! the node is a failure (see `Runs::fail`), not a cause here.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The last commit failed because of the disk or the database.
pub const STORAGE: &str = "storage";

/// The causes for which a node is degraded, by their names.
#[derive(Debug)]
pub struct Health {
    causes: watch::Sender<BTreeMap<&'static str, String>>,
}

impl Default for Health {
    fn default() -> Self {
        Self { causes: watch::Sender::new(BTreeMap::new()) }
    }
}

impl Health {
    /// The node is degraded from now on, for a cause. The newest reason of a cause counts.
    pub fn degrade(&self, cause: &'static str, why: &str) {
        let changed = self.causes.send_if_modified(|causes| match causes.get(cause) {
            Some(known) if known == why => false,
            _ => {
                causes.insert(cause, why.to_owned());
                true
            }
        });
        if changed {
            tracing::error!("this server is degraded: {cause}: {why}");
        }
    }

    /// The cause is gone. Cheap if it was not there.
    pub fn recover(&self, cause: &'static str) {
        if !self.is_degraded_by(cause) {
            return;
        }
        if self.causes.send_if_modified(|causes| causes.remove(cause).is_some()) {
            tracing::info!("{cause} works again");
        }
    }

    /// Whether a cause is there.
    pub fn is_degraded_by(&self, cause: &str) -> bool {
        self.causes.borrow().contains_key(cause)
    }

    /// All causes with their reasons, in one line; `None` if there are none.
    pub fn degraded(&self) -> Option<String> {
        let causes = self.causes.borrow();
        let texts: Vec<String> = causes.iter().map(|(cause, why)| format!("{cause}: {why}")).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    /// Hears of every change.
    pub fn watch(&self) -> HealthChanges {
        HealthChanges(self.causes.subscribe())
    }
}

/// Changes of a [`Health`].
#[derive(Debug)]
pub struct HealthChanges(watch::Receiver<BTreeMap<&'static str, String>>);

impl HealthChanges {
    /// Waits for the next change; forever once the node is gone.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_node_is_degraded_until_each_cause_is_gone() {
        let health = Health::default();
        let mut changes = health.watch();
        assert_eq!(health.degraded(), None);
        health.degrade(STORAGE, "the disk is full");
        health.degrade("audit log", "no space left");
        changes.next().await;
        assert_eq!(health.degraded().as_deref(), Some("audit log: no space left; storage: the disk is full"));
        health.recover("audit log");
        health.degrade(STORAGE, "an I/O error");
        assert_eq!(health.degraded().as_deref(), Some("storage: an I/O error"));
        health.recover(STORAGE);
        health.recover(STORAGE);
        changes.next().await;
        assert_eq!(health.degraded(), None);
    }
}
