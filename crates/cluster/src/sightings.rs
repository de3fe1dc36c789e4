//! Sightings of workers, broadcast to all nodes.
//!
//! Each node decides whether a worker is lost for the runs that it owns, so each must know of calls at any node. The
//! node that a worker is connected to broadcasts its calls, at most once a second for each connection, and when the
//! connection is gone, whether a poll was cut off with it. When the link to a node breaks, its workers count as
//! disconnected without a cut-off poll, and have their lease to reconnect elsewhere.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_dispatch::Poll;
use segno_environment::{connection::ConnectionId, hash::HashMap, lock::lock};
use segno_runs::placement::connection_prefix;
use segno_store::{NamespaceKey, cluster::NodeId};
use segno_workers::{Caller, Party};
use tokio::time::Instant;

use super::{
    Cluster,
    link::LinkHandler,
    wire::{ConnectionClosed, InterruptedPoll, NotificationBody, WorkerSighting},
};

/// A worker that calls often is announced this often.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// Connections with workers that are remembered. Beyond, every sign of life is broadcast.
const ANNOUNCED_MAX: usize = 100_000;

/// When each worker was announced on each connection.
#[derive(Default)]
pub(super) struct AnnouncedWorkers {
    announced: Mutex<HashMap<(ConnectionId, NamespaceKey, String, String), Instant>>,
}

impl AnnouncedWorkers {
    /// Whether a worker is to be announced now.
    fn is_due(&self, connection: ConnectionId, namespace: NamespaceKey, worker: &str, queue: &str) -> bool {
        let mut announced = lock(&self.announced);
        let key = (connection, namespace, worker.to_owned(), queue.to_owned());
        if announced.get(&key).is_some_and(|at| at.elapsed() < ANNOUNCE_INTERVAL) {
            return false;
        }
        if announced.len() < ANNOUNCED_MAX || announced.contains_key(&key) {
            announced.insert(key, Instant::now());
        }
        true
    }

    fn forget(&self, connection: ConnectionId) {
        lock(&self.announced).retain(|(known, ..), _| *known != connection);
    }
}

impl Cluster {
    /// Broadcasts that a worker called.
    pub(super) fn announce_call(&self, namespace: NamespaceKey, caller: &Caller) {
        let Some(connection) = caller.connection else { return };
        if caller.worker.is_empty() || !self.announced_workers.is_due(connection, namespace, &caller.worker, "") {
            return;
        }
        self.peers.broadcast(NotificationBody::WorkerSighting(WorkerSighting {
            namespace: namespace.0,
            worker: caller.worker.clone(),
            control_queue: caller.control_queue.clone(),
            connection: connection.0,
            ..Default::default()
        }));
    }

    /// Broadcasts that a worker polls.
    pub(super) fn announce_poll(&self, poll: &Poll, is_control: bool) {
        let Some(connection) = poll.caller.connection else { return };
        let worker = if is_control { "" } else { poll.caller.worker.as_str() };
        if worker.is_empty() && !is_control {
            return;
        }
        if !self.announced_workers.is_due(connection, poll.queue.namespace, worker, &poll.queue.name) {
            return;
        }
        self.peers.broadcast(NotificationBody::WorkerSighting(WorkerSighting {
            namespace: poll.queue.namespace.0,
            worker: worker.to_owned(),
            control_queue: if is_control { poll.queue.name.clone() } else { poll.caller.control_queue.clone() },
            connection: connection.0,
            identity: poll.identity.clone(),
            queue: poll.queue.client_name().to_owned(),
            sticky: poll.sticky,
            answered: true,
        }));
    }

    /// Broadcasts that a connection is gone.
    pub(super) fn announce_closed(&self, connection: ConnectionId, cut: Vec<Party>) {
        self.announced_workers.forget(connection);
        let cut = cut.into_iter().map(|party| match party {
            Party::Worker(namespace, worker) => {
                InterruptedPoll { namespace: namespace.0, worker: worker.to_string(), control_queue: String::new() }
            }
            Party::Control(namespace, queue) => {
                InterruptedPoll { namespace: namespace.0, worker: String::new(), control_queue: queue.to_string() }
            }
        });
        let closed = ConnectionClosed { connection: connection.0, cut: cut.collect() };
        self.peers.broadcast(NotificationBody::ConnectionClosed(closed));
    }

    /// A worker called or polled at another node.
    pub(super) fn note_sighting(&self, sighting: WorkerSighting) {
        let (namespace, now) = (NamespaceKey(sighting.namespace), self.runs.clock.monotonic());
        let (leases, connection) = (&self.dispatch.workers.leases, ConnectionId(sighting.connection));
        if sighting.worker.is_empty() {
            leases.control_polls_elsewhere(namespace, &sighting.control_queue, connection, now);
            return;
        }
        let WorkerSighting { worker, control_queue, identity, queue, sticky, answered, .. } = sighting;
        let caller = Caller { worker, control_queue, connection: Some(connection) };
        leases.seen_elsewhere(namespace, &caller, (&identity, &queue, sticky), answered, now);
    }

    /// A connection of another node is gone.
    pub(super) fn note_closed(&self, closed: ConnectionClosed) {
        let cut = closed.cut.into_iter().map(|cut| {
            let namespace = NamespaceKey(cut.namespace);
            match cut.worker.is_empty() {
                true => Party::Control(namespace, Arc::from(cut.control_queue.as_str())),
                false => Party::Worker(namespace, Arc::from(cut.worker.as_str())),
            }
        });
        let connection = ConnectionId(closed.connection);
        self.dispatch.workers.leases.connection_cut(connection, cut.collect(), self.runs.clock.monotonic());
    }

    /// Forgets the workers that another node saw: they are unknown from now on, and that counts against no worker.
    pub(super) fn forget_workers_of(&self, node: NodeId) {
        let now = self.runs.clock.monotonic();
        for connection in self.dispatch.workers.leases.connections_of(connection_prefix(node)) {
            self.dispatch.workers.leases.connection_cut(connection, Vec::new(), now);
        }
    }
}

impl LinkHandler for Cluster {
    /// Announces all workers of this node to another one that can be reached now.
    fn connected(&self, to: NodeId) {
        for (party, connection, control) in self.dispatch.workers.leases.reached(connection_prefix(self.topology.me)) {
            let sighting = match party {
                Party::Worker(namespace, worker) => WorkerSighting {
                    namespace: namespace.0,
                    worker: worker.to_string(),
                    control_queue: control,
                    connection: connection.0,
                    ..Default::default()
                },
                Party::Control(namespace, queue) => WorkerSighting {
                    namespace: namespace.0,
                    control_queue: queue.to_string(),
                    connection: connection.0,
                    ..Default::default()
                },
            };
            self.peers.notify(to, NotificationBody::WorkerSighting(sighting));
        }
        self.topology.membership.check_map();
    }
}
