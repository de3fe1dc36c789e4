//! What workers need of other nodes: the queue of their commands may have its home there, and other nodes own runs
//! whose tasks a worker of this node has.
//!
//! A single node has no implementation of this port.

use std::sync::Arc;

use segno_environment::connection::ConnectionId;
use segno_matching::{QueueKey, QueuePlace, TaskOffer};
use segno_store::{NamespaceKey, cluster::Shard};

use super::{Caller, Party};

/// A task of a run that this node serves, and the queue it is for.
#[derive(Clone, Debug)]
pub struct HomeOffer {
    /// The queue.
    pub queue: QueueKey,
    /// The task.
    pub task: TaskOffer,
    /// Its place in the order of the queue.
    pub place: QueuePlace,
    /// The shard of its workflow: once it is served elsewhere, the offer is dropped.
    pub shard: Shard,
    /// The queue for everyone, if the worker whose own queue this is is gone.
    pub fallback: Option<QueueKey>,
}

/// Queues and workers of other nodes.
pub trait OtherNodes: Send + Sync + 'static {
    /// Offers a task at the home of its queue. A sticky queue that no worker serves sends it to the fallback.
    fn offer_at_home(self: Arc<Self>, offer: HomeOffer);

    /// Ends the polls at this node of some queues whose homes are elsewhere.
    fn end_polls(&self, of: &dyn Fn(&QueueKey) -> bool);

    /// A worker called this node.
    fn worker_called(&self, namespace: NamespaceKey, caller: &Caller);

    /// A client's connection is gone, and with it the polls of some workers.
    fn connection_closed(&self, connection: ConnectionId, cut: Vec<Party>);
}
