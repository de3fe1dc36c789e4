//! The identity of this node for connections: its name, the secret of the cluster, and counters of its connections.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use segno_environment::{
    Environment,
    environment::{Network, Random},
    hash::HashMap,
    lock::lock,
};
use segno_store::cluster::{ClusterMap, NodeId};

use super::{encryption::NodeIdentity, topology::Topology};

/// The bytes of the connections with another node since this one started, in both directions.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) frames_sent: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) frames_received: AtomicU64,
    pub(super) bytes_received: AtomicU64,
    pub(super) connections: AtomicU64,
}

impl Traffic {
    pub(super) fn sent(&self, frames: usize, bytes: usize) {
        self.frames_sent.fetch_add(frames as u64, Ordering::Relaxed);
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn received(&self, frames: usize, bytes: usize) {
        self.frames_received.fetch_add(frames as u64, Ordering::Relaxed);
        self.bytes_received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// The state that all connections of this node share.
pub(super) struct Endpoint {
    pub(super) topology: Arc<Topology>,
    pub(super) secret: [u8; 16],
    /// Proves to other nodes that this is the one that the database names. There is none if there is no listener for them.
    pub(super) identity: Option<Arc<NodeIdentity>>,
    pub(super) random: Arc<dyn Random>,
    pub(super) network: Arc<dyn Network>,
    traffic: Mutex<HashMap<NodeId, Arc<Traffic>>>,
    /// How many connections each node made: the newest counts.
    incoming: Mutex<HashMap<NodeId, u64>>,
}

impl Endpoint {
    pub(super) fn new(topology: Arc<Topology>, identity: Option<Arc<NodeIdentity>>, environment: &Environment) -> Self {
        Self {
            secret: topology.membership.secret(),
            topology,
            identity,
            random: environment.random.clone(),
            network: environment.network.clone(),
            traffic: Mutex::default(),
            incoming: Mutex::default(),
        }
    }

    pub(super) fn traffic_with(&self, node: NodeId) -> Arc<Traffic> {
        lock(&self.traffic).entry(node).or_default().clone()
    }

    /// Forgets the traffic with nodes that are gone.
    pub(super) fn retain_traffic(&self, map: &ClusterMap) {
        lock(&self.traffic).retain(|node, _| map.member(*node).is_some());
    }

    /// Another node made a connection, which replaces its older ones. Gives the number of the connection.
    pub(super) fn number_incoming(&self, from: NodeId) -> u64 {
        let mut incoming = lock(&self.incoming);
        let number = incoming.entry(from).or_default();
        *number += 1;
        *number
    }

    pub(super) fn is_newest_incoming(&self, from: NodeId, number: u64) -> bool {
        lock(&self.incoming).get(&from) == Some(&number)
    }
}
