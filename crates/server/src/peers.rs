//! Clients' connections, numbered, so that calls say which one they came on and the node hears when one is gone.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use segno_runtime::{ConnectionId, Node};
use tonic::Request;

/// Numbers connections across all servers of a process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A client's connection. The node is told when it is dropped.
pub(crate) struct Peer {
    node: Arc<Node>,
    id: ConnectionId,
}

impl Peer {
    /// A connection that was just made.
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, id: ConnectionId(NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    /// What its requests carry.
    pub(crate) fn number(&self) -> Number {
        Number(self.id)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.node.connection_closed(self.id);
    }
}

/// What a request knows of the connection that it came on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(ConnectionId);

/// The connection that a request came on.
pub(crate) fn of<T>(request: &Request<T>) -> Option<ConnectionId> {
    request.extensions().get::<Number>().map(|number| number.0)
}
