//! Configurations of task queues: rate limits and weights of fairness keys, stored as documents, all of them in memory.

use std::sync::Arc;

use prost::Message;
use segno_environment::finish::finish;
use segno_matching::{ConfigKey, DOCUMENT_PREFIX};
use segno_proto::taskqueue::TaskQueueConfig;
use segno_runs::{error::CallError, namespaces::Namespace};
use segno_store::{Commit, Document, DocumentWrite};

use super::Dispatch;

impl Dispatch {
    /// Reads all configurations.
    pub async fn load_queue_configs(&self) -> Result<(), CallError> {
        for namespace in self.runs.namespaces.all() {
            let key = namespace.key;
            let add = |document: Document| {
                let damaged = |why: String| CallError::DataLoss(format!("document {:?}: {why}", document.name));
                let config = TaskQueueConfig::decode(document.content.clone()).map_err(|e| damaged(e.to_string()))?;
                let rest = document.name.strip_prefix(DOCUMENT_PREFIX).and_then(|rest| rest.split_once('/'));
                let known = rest.and_then(|(kind, name)| Some((kind.parse().ok()?, name.to_owned())));
                let (kind, name) = known.ok_or_else(|| damaged("no queue has this name".to_owned()))?;
                self.matching.set_config(ConfigKey { namespace: key, kind, name }, &config);
                Ok(())
            };
            self.runs.each_document(key, DOCUMENT_PREFIX, add).await?;
        }
        self.limits_changed();
        Ok(())
    }

    fn limits_changed(&self) {
        if let Some(remote) = self.remote_queues() {
            remote.limits_changed();
        }
    }

    /// The configuration of a queue of a kind, a number of the wire, if it has one.
    pub fn queue_config(&self, namespace: &Namespace, kind: i32, name: &str) -> Option<TaskQueueConfig> {
        let key = ConfigKey { namespace: namespace.key, kind, name: name.to_owned() };
        self.matching.config(&key).map(|config| TaskQueueConfig::clone(&config))
    }

    /// Changes the configuration of a queue. It is stored and in effect once this returns.
    pub async fn update_queue_config(
        self: &Arc<Self>,
        namespace: &Namespace,
        kind: i32,
        name: &str,
        change: impl FnOnce(&mut TaskQueueConfig) + Send + 'static,
    ) -> Result<TaskQueueConfig, CallError> {
        self.runs.refuse_overload()?;
        let dispatch = self.clone();
        let key = ConfigKey { namespace: namespace.key, kind, name: name.to_owned() };
        finish(async move {
            let _changing = dispatch.configuring.lock().await;
            let before = dispatch.matching.config(&key);
            let mut config = before.as_deref().cloned().unwrap_or_default();
            change(&mut config);
            if before.as_deref() != Some(&config) {
                let content = Some(config.encode_to_vec().into());
                let document = DocumentWrite { namespace: key.namespace, name: key.document(), content };
                let commit = Commit { documents: vec![document], ..Default::default() };
                dispatch.runs.committer.commit_of(key.namespace, commit).await?;
            }
            dispatch.matching.set_config(key, &config);
            dispatch.limits_changed();
            Ok(config)
        })
        .await
    }
}
