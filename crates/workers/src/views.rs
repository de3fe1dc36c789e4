//! Leases from outside: who calls, how a lease is shown, and what the end of leases leaves behind.

use std::collections::BTreeSet;

use segno_engine::lease::{Hold, LostBecause};
use segno_environment::connection::ConnectionId;
use segno_proto::Nanos;
use segno_store::NamespaceKey;

/// A worker that is lost, and what must move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostWorker {
    /// Its namespace.
    pub namespace: NamespaceKey,
    /// Its instance key.
    pub worker: String,
    /// Why it is lost.
    pub because: LostBecause,
    /// Whether it had begun to shut down.
    pub is_leaving: bool,
    /// Runs of which it holds tasks.
    pub runs: BTreeSet<u64>,
    /// Sticky queues without a worker now.
    pub sticky: BTreeSet<String>,
    /// Queues in which its polls may wait, those included.
    pub queues: Vec<String>,
}

/// The leases that have expired.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DueLeases {
    /// Workers that are lost.
    pub lost: Vec<LostWorker>,
    /// Attempts that never reached the worker they were handed to.
    pub orphans: Vec<(NamespaceKey, Hold)>,
    /// When to look next.
    pub next: Option<Nanos>,
    /// More is due already.
    pub is_more: bool,
}

/// The lease of a worker, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// The worker's instance key.
    pub worker: String,
    /// When it was heard of for the first time; `None` if only storage knows it.
    pub first_heard: Option<Nanos>,
    /// As it names itself to people; empty if it never polled.
    pub identity: String,
    /// The queue that it serves; empty if it never polled.
    pub task_queue: String,
    /// Whether it has shut down.
    pub leaving: bool,
    /// Whether its connections are gone.
    pub detached: bool,
    /// Whether it speaks Segno's protocol.
    pub speaks_protocol: bool,
    /// Time until it counts as lost if nothing is heard of it; `None` if nothing limits that.
    pub remaining: Option<Nanos>,
    /// The time since its last sign of life.
    pub silent: Nanos,
    /// Connections that lead to it.
    pub connections: usize,
    /// Attempts of activities that it holds.
    pub holds: Vec<Hold>,
    /// Runs whose workflow task it has.
    pub tasks: Vec<u64>,
}

/// Who calls: the worker as it names itself, and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Its instance key; empty if it has none.
    pub worker: String,
    /// The queue on which it takes commands; empty if it takes none.
    pub control_queue: String,
    /// The connection that the call came on.
    pub connection: Option<ConnectionId>,
}
