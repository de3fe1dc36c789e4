//! Services and state that the requests of all connections share.

use std::sync::Arc;

use segno_node::Node;
use tonic::service::Routes;

use super::fair_share::FairShare;
use crate::{calls::Handlers, delivery::CallsInProgress, security::Security};

/// The handlers of requests.
#[derive(Clone)]
pub(crate) struct Services {
    /// The handlers of the calls in the table.
    pub(crate) handlers: Arc<Handlers>,
    /// Services that are not in the table.
    pub(crate) others: Routes,
    /// Counts the calls under way.
    pub(crate) under_way: CallsInProgress,
    /// The node; notified when a connection is closed.
    pub(crate) node: Arc<Node>,
    /// Decides who may call, and how much.
    pub(crate) security: Arc<Security>,
    /// Fair shares of namespaces.
    pub(crate) fair_share: Arc<FairShare>,
}
