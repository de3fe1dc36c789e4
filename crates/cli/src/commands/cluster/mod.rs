//! `segno cluster ...`: the nodes on one database.

mod drain;
mod fence;
mod status;

noun!(Cluster {
    /// Shows the nodes with their shards and links.
    Status(status::ClusterStatus),
    /// Moves all shards of a node to others.
    Drain(drain::Drain),
    /// Fences a node: its writes are refused at once.
    Fence(fence::Fence),
});
