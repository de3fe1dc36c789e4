//! Reading deployments, and forgetting those of a namespace that is deleted.

use segno_deployments::{PREFIX, StoredDeployments};
use segno_store::{Document, NamespaceKey};

use crate::{error::CallError, runs::Runs};

impl Runs {
    /// Reads all deployments, at the start and whenever another node changed some. One that cannot be read is set aside: it is not
    /// there, and not changed.
    pub async fn load_deployments(&self) -> Result<(), CallError> {
        let _alone = self.deployment_locks.reading.write().await;
        let namespaces = self.namespaces.all();
        self.deployments.retain(|key| namespaces.iter().any(|namespace| namespace.key == key));
        for namespace in namespaces {
            let key = namespace.key;
            let mut stored = StoredDeployments::default();
            let add = |document: Document| {
                stored.add(&document.name, document.content);
                Ok(())
            };
            self.each_document(key, PREFIX, add).await?;
            let loaded = stored.finish();
            for (deployment, why) in self.deployments.set_unreadable(key, loaded.unreadable) {
                tracing::error!(namespace = namespace.name, deployment, why, "a worker deployment is set aside");
            }
            for deployment in &loaded.deployments {
                let known = self.deployments.deployment(key, &deployment.name);
                if known.as_deref() != Some(deployment) {
                    self.watch_grace(key, known.as_deref(), deployment);
                }
                if known.is_none() {
                    // Workflows may have been pinned to its versions that no node has reported.
                    self.pins.add((key, deployment.name.clone()), self.clock_now(), []);
                }
            }
            if self.deployments.replace(key, loaded.deployments)
                && let Some(effects) = self.effects()
            {
                effects.routing_changed(key);
            }
        }
        Ok(())
    }

    /// Removes the deployments of a namespace that is deleted.
    pub async fn forget_deployments(&self, namespace: NamespaceKey) -> Result<(), CallError> {
        let _alone = self.deployment_locks.reading.write().await;
        self.forget_documents(namespace, PREFIX, false).await?;
        self.deployments.replace(namespace, Vec::new());
        self.deployments.set_unreadable(namespace, Default::default());
        Ok(())
    }
}
