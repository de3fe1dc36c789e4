//! The port through which the cluster notifies the node of changed documents, shards and leadership.

use segno_runs::{error::CallError, ports::PortFuture};

/// Parts of the node that follow the documents of the cluster, its shards and its leader.
pub trait ClusterObserver: Send + Sync + 'static {
    /// Reads namespaces, queue settings, keys and scripts again.
    fn reload(&self) -> PortFuture<'_, Result<(), CallError>>;

    /// Shards are served here since now, and their tasks are offered.
    fn shards_taken(&self) -> PortFuture<'_, ()>;

    /// Nodes came or went: this node may lead from now on, or lead no longer.
    fn homes_changed(&self);
}
