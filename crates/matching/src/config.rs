//! Names of the configurations of task queues.

use segno_store::NamespaceKey;

use super::key::{QueueKey, QueueKind};

/// Names of documents with configurations begin with this.
pub const DOCUMENT_PREFIX: &str = "queue-config/";
/// Numbers of the kinds of queues on the wire.
const WORKFLOW: i32 = 1;
const ACTIVITY: i32 = 2;
const NEXUS: i32 = 3;

/// The key of a configuration. Kinds are numbers of the wire, since more can be configured than there is here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConfigKey {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The type of the queue, as the protocol numbers it.
    pub kind: i32,
    /// The name of the queue.
    pub name: String,
}

impl ConfigKey {
    /// The configuration that is in effect for a queue.
    pub fn of(key: &QueueKey) -> Self {
        let kind = match key.kind {
            QueueKind::Workflow | QueueKind::Sticky => WORKFLOW,
            QueueKind::Activity => ACTIVITY,
            QueueKind::Nexus | QueueKind::WorkerCommand => NEXUS,
        };
        Self { namespace: key.namespace, kind, name: key.name.clone() }
    }

    /// The queue that the limits of this configuration hold for, if they hold for one.
    pub fn limited_queue(&self) -> Option<QueueKey> {
        let key = QueueKey { namespace: self.namespace, kind: QueueKind::Activity, name: self.name.clone() };
        Some(key).filter(|_| self.kind == ACTIVITY)
    }

    /// The name of its document.
    pub fn document(&self) -> String {
        format!("{DOCUMENT_PREFIX}{}/{}", self.kind, self.name)
    }
}
