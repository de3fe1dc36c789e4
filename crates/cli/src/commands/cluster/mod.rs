//! `segno cluster ...`: the nodes on one database.

mod drain;
mod fence;
mod status;

noun!(Cluster {
    /// Shows the nodes and what each one owns.
    Status(status::ClusterStatus),
    /// Lets a node hand over everything that it owns.
    Drain(drain::Drain),
    /// Fences a node: it loses its place at once.
    Fence(fence::Fence),
});
