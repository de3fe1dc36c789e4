//! Configurations of task queues: rate limits and weights of fairness keys, stored as documents, all of them in memory.

use std::sync::Arc;

use prost::Message;
use segno_proto::taskqueue::TaskQueueConfig;
use segno_store::{Commit, DocumentWrite, NamespaceKey};

use crate::{
    error::CallError,
    finish::finish,
    namespaces::Namespace,
    queues::{QueueKey, QueueKind},
    runs::Runs,
    slots::lock,
};

const PREFIX: &str = "queue-config/";
/// Documents read at a time.
const PAGE: usize = 1000;
/// Numbers of the kinds of queues on the wire.
const WORKFLOW: i32 = 1;
const ACTIVITY: i32 = 2;
const NEXUS: i32 = 3;

/// What a configuration is known by. Kinds are numbers of the wire, since more can be configured than there is here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConfigKey {
    namespace: NamespaceKey,
    kind: i32,
    name: String,
}

impl ConfigKey {
    pub(crate) fn of(key: &QueueKey) -> Self {
        let kind = match key.kind {
            QueueKind::Workflow | QueueKind::Sticky => WORKFLOW,
            QueueKind::Activity => ACTIVITY,
            QueueKind::WorkerCommand => NEXUS,
        };
        Self { namespace: key.namespace, kind, name: key.name.clone() }
    }

    fn document(&self) -> String {
        format!("{PREFIX}{}/{}", self.kind, self.name)
    }
}

impl Runs {
    /// Reads all configurations.
    pub(crate) async fn load_queue_configs(&self) -> Result<(), CallError> {
        for namespace in self.namespaces.all() {
            let key = namespace.key;
            let mut after: Option<String> = None;
            loop {
                let last = after.clone();
                let page = self.store.documents(key, PREFIX, last.as_deref(), PAGE).await?;
                let Some(end) = page.last() else { break };
                after = Some(end.name.clone());
                for document in page {
                    let damaged = |why: String| CallError::DataLoss(format!("document {:?}: {why}", document.name));
                    let config =
                        TaskQueueConfig::decode(document.content.clone()).map_err(|e| damaged(e.to_string()))?;
                    let rest = document.name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/'));
                    let known = rest.and_then(|(kind, name)| Some((kind.parse().ok()?, name.to_owned())));
                    let (kind, name) = known.ok_or_else(|| damaged("no queue has this name".to_owned()))?;
                    self.take_config(ConfigKey { namespace: key, kind, name }, &config);
                }
            }
        }
        self.limits_changed();
        Ok(())
    }

    /// A configuration is in effect from now on, also for the queue if that is in memory.
    fn take_config(&self, key: ConfigKey, config: &TaskQueueConfig) {
        let before = lock(&self.queues.configs).insert(key.clone(), Arc::new(config.clone()));
        if key.kind == ACTIVITY && before.as_deref() != Some(config) {
            let queue = QueueKey { namespace: key.namespace, kind: QueueKind::Activity, name: key.name };
            self.queues.configure(&queue, config, self.clock.now());
        }
    }

    /// The configuration of a queue of a kind, a number of the wire, if somebody configured it.
    pub fn queue_config(&self, namespace: &Namespace, kind: i32, name: &str) -> Option<TaskQueueConfig> {
        let key = ConfigKey { namespace: namespace.key, kind, name: name.to_owned() };
        lock(&self.queues.configs).get(&key).map(|config| TaskQueueConfig::clone(config))
    }

    /// Changes the configuration of a queue. It is stored and in effect once this returns.
    pub async fn update_queue_config(
        self: &Arc<Self>,
        namespace: &Namespace,
        kind: i32,
        name: &str,
        change: impl FnOnce(&mut TaskQueueConfig) + Send + 'static,
    ) -> Result<TaskQueueConfig, CallError> {
        self.refuse_overload()?;
        let node = self.clone();
        let key = ConfigKey { namespace: namespace.key, kind, name: name.to_owned() };
        finish(async move {
            let _changing = node.queues.configuring.lock().await;
            let before = lock(&node.queues.configs).get(&key).cloned();
            let mut config = before.as_deref().cloned().unwrap_or_default();
            change(&mut config);
            if before.as_deref() != Some(&config) {
                let content = Some(config.encode_to_vec().into());
                let document = DocumentWrite { namespace: key.namespace, name: key.document(), content };
                let commit = Commit { documents: vec![document], ..Default::default() };
                node.committer.commit_of(key.namespace, commit).await?;
            }
            node.take_config(key, &config);
            node.limits_changed();
            Ok(config)
        })
        .await
    }
}
