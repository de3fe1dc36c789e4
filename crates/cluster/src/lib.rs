//! The nodes on one database: which node serves which workflows and queues, and requests between them.
//!
//! A workflow belongs to a shard, and a shard to one node at a time, its owner ([`topology`], [`handover`]). A queue
//! has a home, where tasks and polls meet ([`offers`]), unless both are at the same node and no task waits at the home
//! ([`local_matching`]). Sightings of workers are broadcast ([`sightings`]), because each owner decides about the
//! workers that have tasks of its runs. A client's call is forwarded to the node that owns its subject ([`calls`]).
//!
//! From the bottom up: [`wire`], [`encryption`], [`frames`] and [`handshake`] are a connection; [`topology`] is this
//! node's copy of the shard map; [`link`], [`accept`] and [`peers`] are requests to and from other nodes; [`Cluster`]
//! connects these with the runs, queues and workers.
//!
//! What holds: a run is used only by the node that serves its shard, within its lease ([`Topology::admit`]); the
//! database refuses writes of a fenced node.

mod accept;
mod calls;
mod edge;
mod encryption;
mod endpoint;
mod frames;
mod handover;
mod handshake;
mod link;
mod local_matching;
mod observer;
mod offers;
mod owner;
mod peers;
mod registrations;
mod requests;
mod revisions;
mod sightings;
mod topology;
mod wire;

use std::sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicUsize};

use edge::Edge;
use segno_dispatch::Dispatch;
use segno_environment::{environment::Listener, hash::HashMap, lock::lock};
use segno_matching::QueueKey;
use segno_runs::runs::Runs;
use sightings::AnnouncedWorkers;
use tokio::{task::AbortHandle, time::Instant};

pub use calls::{ClientCalls, ForwardError, ForwardedReply};
pub use encryption::NodeIdentity;
pub use link::LinkMetrics;
pub use observer::ClusterObserver;
pub use peers::Peers;
pub use revisions::ChangedNodes;
pub use topology::LEASE_EXPIRED;
pub use topology::Topology;

/// This node's part in the cluster.
pub struct Cluster {
    dispatch: Arc<Dispatch>,
    runs: Arc<Runs>,
    /// The other nodes.
    pub peers: Arc<Peers>,
    /// Members, owners and homes.
    pub topology: Arc<Topology>,
    observer: Arc<dyn ClusterObserver>,
    /// Accepts connections of other nodes.
    accepting: Mutex<Option<AbortHandle>>,
    /// Makes calls that come from other nodes. It holds the node, and is dropped when the node ends.
    client_calls: RwLock<Option<Arc<dyn ClientCalls>>>,
    announced_workers: AnnouncedWorkers,
    /// Offers that look for the home of their queue.
    offers_under_way: Arc<AtomicUsize>,
    /// All tasks are offered again once at a time.
    offering_all: tokio::sync::Mutex<()>,
    /// Documents are read again once at a time.
    reloading: tokio::sync::Mutex<()>,
    /// Polls that wait here for tasks of queues whose homes are elsewhere.
    edge: Edge,
    /// Queues of which the other nodes heard lately that workers limit them.
    announced_limits: Mutex<HashMap<QueueKey, Instant>>,
}

impl Cluster {
    /// The part of a node that dispatches the tasks of some runs. [`Cluster::join`] begins it.
    pub fn new(dispatch: Arc<Dispatch>, peers: Arc<Peers>, observer: Arc<dyn ClusterObserver>) -> Arc<Self> {
        Arc::new(Self {
            runs: dispatch.runs.clone(),
            dispatch,
            topology: peers.topology.clone(),
            peers,
            observer,
            accepting: Mutex::default(),
            client_calls: RwLock::default(),
            announced_workers: AnnouncedWorkers::default(),
            offers_under_way: Arc::default(),
            offering_all: tokio::sync::Mutex::default(),
            reloading: tokio::sync::Mutex::default(),
            edge: Edge::default(),
            announced_limits: Mutex::default(),
        })
    }

    /// Accepts connections of other nodes until this one ends.
    pub fn accept_nodes(self: &Arc<Self>, listener: Box<dyn Listener>) {
        let endpoint = &self.peers.endpoint;
        let Some(acceptor) = endpoint.identity.as_ref().and_then(|identity| match identity.acceptor() {
            Ok(acceptor) => Some(acceptor),
            Err(error) => {
                tracing::error!(%error, "connections of other nodes cannot be encrypted and are not accepted");
                None
            }
        }) else {
            return;
        };
        let accepting = accept::accept(listener, acceptor, endpoint.clone(), Arc::downgrade(self));
        let task = self.runs.lifecycle.supervise_to_its_end("the listener for other nodes", accepting);
        *lock(&self.accepting) = Some(task);
    }

    /// Takes this node's shards and follows the cluster from then on.
    pub async fn join(self: &Arc<Self>) {
        self.runs.lifecycle.supervise("the comparison of documents", revisions::run(self.clone()));
        self.take_first_shards().await;
        self.runs.lifecycle.supervise("the ownership of shards", handover::run(self.clone()));
        self.runs.lifecycle.supervise("the polls of queues elsewhere", local_matching::run(self.clone()));
    }

    /// Ends all connections with other nodes: no request is sent or answered from now on.
    pub fn close(&self) {
        if let Some(accepting) = lock(&self.accepting).take() {
            accepting.abort();
        }
        self.peers.close();
        self.client_calls.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}
