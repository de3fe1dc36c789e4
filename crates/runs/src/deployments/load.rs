//! Reading deployments, and forgetting those of a namespace that is deleted.

use segno_deployments::{PREFIX, StoredDeployments};
use segno_store::{Commit, DocumentWrite, NamespaceKey};

use crate::{error::CallError, runs::Runs};

/// Documents read, or removed, at a time.
const PAGE: usize = 1000;

impl Runs {
    /// Reads all deployments, at the start and whenever another node changed some.
    pub async fn load_deployments(&self) -> Result<(), CallError> {
        let _alone = self.deployment_locks.reading.write().await;
        for namespace in self.namespaces.all() {
            let key = namespace.key;
            let mut stored = StoredDeployments::default();
            let mut after: Option<String> = None;
            loop {
                let page = self.store.documents(key, PREFIX, after.as_deref(), PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.name.clone());
                for document in page {
                    stored
                        .add(&document.name, document.content)
                        .map_err(|error| CallError::DataLoss(format!("document {:?}: {error}", document.name)))?;
                }
            }
            if self.deployments.replace(key, stored.finish())
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
        loop {
            let page = self.store.documents(namespace, PREFIX, None, PAGE).await?;
            if page.is_empty() {
                break;
            }
            let gone = page.into_iter().map(|document| DocumentWrite { namespace, name: document.name, content: None });
            let commit = Commit { documents: gone.collect(), ..Default::default() };
            self.committer.commit_of(namespace, commit).await?;
        }
        self.deployments.replace(namespace, Vec::new());
        Ok(())
    }
}
