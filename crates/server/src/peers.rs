//! Numbers the connections of clients, so that the node notices when one is closed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

pub(crate) use segno_calls::{CallMetadata, ShortText};
use segno_node::{ConnectionId, Node};
use tonic::Request;

/// Numbers connections across all servers of a process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A client's connection. The node is notified when it is dropped.
pub(crate) struct Peer {
    node: Arc<Node>,
    id: ConnectionId,
}

impl Peer {
    /// A connection that was just made.
    pub(crate) fn new(node: Arc<Node>) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id: ConnectionId(node.runs.connection_prefix() | number), node }
    }

    /// The id that its requests carry.
    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.node.workers.connection_closed(self.id);
    }
}

/// The connection that a request came on.
pub(crate) fn of<T>(request: &Request<T>) -> Option<ConnectionId> {
    CallMetadata::of(request).connection
}
