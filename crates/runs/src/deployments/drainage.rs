//! Notes which versions are drained: when a call looks at a deployment, and here for those that no call looks at.

use std::{sync::Arc, time::Duration};

use segno_deployments::BuildRecord;

use crate::{error::CallError, namespaces::Namespace, runs::Runs};

/// Deployments are looked at this often.
const INTERVAL: Duration = Duration::from_secs(60);
/// Deployments of a namespace that are looked at.
const DEPLOYMENTS_MAX: usize = 10_000;

/// Looks at deployments with draining versions until the node stops.
pub async fn watch(runs: Arc<Runs>) {
    while !runs.is_stopping() {
        tokio::time::sleep(INTERVAL).await;
        if !runs.leads() {
            continue;
        }
        for namespace in runs.namespaces.all() {
            if let Err(error) = runs.note_drained(&namespace).await {
                tracing::debug!(%error, namespace = namespace.name, "drained versions are not noted yet");
            }
        }
    }
}

impl Runs {
    async fn note_drained(self: &Arc<Self>, namespace: &Arc<Namespace>) -> Result<(), CallError> {
        for deployment in self.deployments.page(namespace.key, "", DEPLOYMENTS_MAX) {
            if deployment.record.builds.iter().any(BuildRecord::is_draining) {
                self.look_at_deployment(namespace, deployment).await?;
            }
        }
        Ok(())
    }
}
