//! Temporal's OperatorService. Its methods are in the files of their topics.

use std::sync::Arc;

use segno_node::Node;

/// Temporal's OperatorService.
pub struct Operator {
    pub(super) node: Arc<Node>,
    /// Where the server listens: gRPC and HTTP.
    pub(super) addresses: (String, String),
}

impl Operator {
    /// The service on a node.
    pub fn new(node: Arc<Node>, addresses: (String, String)) -> Self {
        Self { node, addresses }
    }
}
