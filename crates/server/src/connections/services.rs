//! What the requests of all connections share.

use std::sync::Arc;

use segno_node::Node;
use tonic::service::Routes;

use super::turns::Turns;
use crate::{calls::Handlers, delivery::UnderWay, security::Security};

/// What handles requests.
#[derive(Clone)]
pub(crate) struct Services {
    /// The handlers of the calls in the table.
    pub(crate) handlers: Arc<Handlers>,
    /// Services that are not in the table.
    pub(crate) others: Routes,
    /// Counts the calls under way.
    pub(crate) under_way: UnderWay,
    /// Is told when a connection is gone.
    pub(crate) node: Arc<Node>,
    /// Decides who may call, and how much.
    pub(crate) security: Arc<Security>,
    /// Lets namespaces take turns.
    pub(crate) turns: Arc<Turns>,
}
