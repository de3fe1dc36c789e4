//! Names of task queues.

use segno_store::NamespaceKey;

/// Workflow tasks and activities are queued apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// Workflow tasks and queries.
    Workflow,
    /// Workflow tasks and queries of runs that one worker has in its cache.
    Sticky,
    /// Activities.
    Activity,
    /// Requests to the handlers of Nexus operations.
    Nexus,
    /// Commands for workers, which SDKs poll for as Nexus tasks.
    WorkerCommand,
}

/// A queue's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey {
    /// The namespace.
    pub namespace: NamespaceKey,
    /// The kind of its tasks.
    pub kind: QueueKind,
    /// The user's name for it; of a sticky queue see [`QueueKey::sticky`].
    pub name: String,
}

impl QueueKey {
    /// The sticky queue that a worker of a normal queue has for the runs in its cache. Both names make the queue: a poll gets
    /// tasks of runs of that normal queue alone, whichever name the worker chose for its own.
    pub fn sticky(namespace: NamespaceKey, name: &str, normal_name: &str) -> Self {
        // The length keeps two pairs of names apart that read the same in a row.
        let name = format!("{}:{normal_name}{name}", normal_name.len());
        Self { namespace, kind: QueueKind::Sticky, name }
    }

    /// The worker's name for its sticky queue, if this is one.
    pub fn sticky_name(&self) -> Option<&str> {
        let (length, names) = self.name.split_once(':').filter(|_| self.kind == QueueKind::Sticky)?;
        names.get(length.parse().ok()?..)
    }

    /// The name by which clients know the queue.
    pub fn client_name(&self) -> &str {
        self.sticky_name().unwrap_or(&self.name)
    }
}
