//! Signs of life of workers, told to all nodes.
//!
//! Each node decides by itself whether a worker is lost, about the runs that it owns; so each must know what any of them sees.
//! The node that a worker is connected to tells the others that it is there, at most once a second for each connection, and
//! when the connection is gone, whether a poll was cut off with it. A node whose link breaks says nothing about its workers:
//! they count as if their connections had ended in good order, and have their lease to show up elsewhere.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use segno_store::{NamespaceKey, cluster::NodeId};

use super::{
    prefix_of,
    wire::{Closed, Cut, News, Seen, Told},
};
use crate::{
    dispatch::Poll,
    runs::Runs,
    slots::lock,
    workers::{Caller, ConnectionId, Party},
};

/// A worker that calls often is told this often.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Connections with workers that are remembered. Beyond, everything is told.
const TOLD_MAX: usize = 100_000;

/// Who was told of when.
#[derive(Default)]
pub(crate) struct ToldWorkers {
    told: Mutex<HashMap<(ConnectionId, NamespaceKey, String, String), Instant>>,
}

impl ToldWorkers {
    /// Whether others are to be told now.
    fn is_due(&self, connection: ConnectionId, namespace: NamespaceKey, worker: &str, queue: &str) -> bool {
        let mut told = lock(&self.told);
        let key = (connection, namespace, worker.to_owned(), queue.to_owned());
        if told.get(&key).is_some_and(|at| at.elapsed() < TELL_EVERY) {
            return false;
        }
        if told.len() < TOLD_MAX || told.contains_key(&key) {
            told.insert(key, Instant::now());
        }
        true
    }

    fn forget(&self, connection: ConnectionId) {
        lock(&self.told).retain(|(known, ..), _| *known != connection);
    }
}

impl Runs {
    /// Tells others that a worker called.
    pub(crate) fn tell_called(&self, namespace: NamespaceKey, caller: &Caller) {
        let (Some(cluster), Some(connection)) = (&self.cluster, caller.connection) else { return };
        if caller.worker.is_empty() || !cluster.told.is_due(connection, namespace, &caller.worker, "") {
            return;
        }
        let seen = Seen {
            namespace: namespace.0,
            worker: caller.worker.clone(),
            control_queue: caller.control_queue.clone(),
            connection: connection.0,
            ..Default::default()
        };
        cluster.tell_all(&News { told: Some(Told::Seen(seen)) });
    }

    /// Tells others that a worker polls.
    pub(crate) fn tell_poll(&self, poll: &Poll, is_control: bool) {
        let (Some(cluster), Some(connection)) = (&self.cluster, poll.caller.connection) else { return };
        let worker = if is_control { "" } else { poll.caller.worker.as_str() };
        if worker.is_empty() && !is_control {
            return;
        }
        if !cluster.told.is_due(connection, poll.queue.namespace, worker, &poll.queue.name) {
            return;
        }
        let seen = Seen {
            namespace: poll.queue.namespace.0,
            worker: worker.to_owned(),
            control_queue: if is_control { poll.queue.name.clone() } else { poll.caller.control_queue.clone() },
            connection: connection.0,
            identity: poll.identity.clone(),
            queue: poll.queue.client_name().to_owned(),
            sticky: poll.sticky,
            answered: true,
        };
        cluster.tell_all(&News { told: Some(Told::Seen(seen)) });
    }

    /// Tells others that a connection is gone.
    pub(crate) fn tell_closed(&self, connection: ConnectionId, cut: Vec<Party>) {
        let Some(cluster) = &self.cluster else { return };
        cluster.told.forget(connection);
        let cut = cut.into_iter().map(|party| match party {
            Party::Worker(namespace, worker) => {
                Cut { namespace: namespace.0, worker: worker.to_string(), control_queue: String::new() }
            }
            Party::Control(namespace, queue) => {
                Cut { namespace: namespace.0, worker: String::new(), control_queue: queue.to_string() }
            }
        });
        let closed = Closed { connection: connection.0, cut: cut.collect() };
        cluster.tell_all(&News { told: Some(Told::Closed(closed)) });
    }

    /// Another node heard of a worker.
    pub(super) fn seen_elsewhere(&self, seen: Seen) {
        let Some(dispatch) = self.dispatch() else { return };
        let (namespace, now) = (NamespaceKey(seen.namespace), self.clock.monotonic());
        let connection = ConnectionId(seen.connection);
        if seen.worker.is_empty() {
            dispatch.workers.leases.control_polls_elsewhere(namespace, &seen.control_queue, connection, now);
            return;
        }
        let caller = Caller { worker: seen.worker, control_queue: seen.control_queue, connection: Some(connection) };
        dispatch.workers.leases.seen_elsewhere(
            namespace,
            &caller,
            (&seen.identity, &seen.queue, seen.sticky),
            seen.answered,
            now,
        );
    }

    /// A connection of another node is gone.
    pub(super) fn closed_elsewhere(&self, closed: Closed) {
        let cut = closed.cut.into_iter().map(|cut| {
            let namespace = NamespaceKey(cut.namespace);
            match cut.worker.is_empty() {
                true => Party::Control(namespace, Arc::from(cut.control_queue.as_str())),
                false => Party::Worker(namespace, Arc::from(cut.worker.as_str())),
            }
        });
        let connection = ConnectionId(closed.connection);
        if let Some(dispatch) = self.dispatch() {
            dispatch.workers.leases.connection_cut(connection, cut.collect(), self.clock.monotonic());
        }
    }

    /// Another node can be reached: it is told of all workers here.
    pub(super) fn link_opened(self: &Arc<Self>, to: NodeId) {
        let Some(cluster) = &self.cluster else { return };
        let (Some(link), Some(dispatch)) = (cluster.link(to), self.dispatch()) else { return };
        for (party, connection, control) in dispatch.workers.leases.reached(prefix_of(cluster.me)) {
            let seen = match party {
                Party::Worker(namespace, worker) => Seen {
                    namespace: namespace.0,
                    worker: worker.to_string(),
                    control_queue: control,
                    connection: connection.0,
                    ..Default::default()
                },
                Party::Control(namespace, queue) => Seen {
                    namespace: namespace.0,
                    control_queue: queue.to_string(),
                    connection: connection.0,
                    ..Default::default()
                },
            };
            link.tell(News { told: Some(Told::Seen(seen)) });
        }
        cluster.membership.look();
    }

    /// Another node cannot be reached: what it saw of workers is unknown from now on, and no worker is blamed for it.
    pub(super) fn link_broke(self: &Arc<Self>, to: NodeId) {
        let (Some(dispatch), now) = (self.dispatch(), self.clock.monotonic()) else { return };
        for connection in dispatch.workers.leases.connections_of(prefix_of(to)) {
            dispatch.workers.leases.connection_cut(connection, Vec::new(), now);
        }
    }
}
