//! Workers: their heartbeats, leases and tasks, and the recovery of tasks of lost workers.
//!
//! [`Heartbeats`], [`Leases`], the commands and the list of workers that shut down are data without runs and without
//! IO. [`Workers`] has all of them, and moves the work of lost workers.

mod commands;
mod connections;
mod heartbeats;
mod holds;
mod leases;
mod liveness;
mod other_nodes;
mod query;
mod registrations;
mod shutdowns;
mod slots;
mod views;

use std::sync::{Arc, Mutex, OnceLock, Weak};

use segno_matching::{Matching, QueueKey};
use segno_runs::{options::NodeOptions, runs::Runs};
use segno_store::NamespaceKey;
use tokio::sync::{Notify, Semaphore};

pub use connections::Party;
pub use heartbeats::Heartbeats;
pub use leases::{CONTROL_QUEUES, Leases, PollGuard};
pub use liveness::watch;
pub use other_nodes::{HomeOffer, OtherNodes};
pub use query::{BadWorkerQuery, WorkerQuery};
pub use registrations::RegistrationRefused;
pub use views::{Caller, LeaseView, LostWorker};

use commands::UnclaimedCommands;
use registrations::Registrations;
use shutdowns::ShutDownWorkers;

/// Runs of lost workers that are changed at the same time.
const MOVES_MAX: usize = 32;

/// All workers that this node knows.
pub struct Workers {
    runs: Arc<Runs>,
    matching: Arc<Matching>,
    /// The heartbeats of workers.
    pub heartbeats: Heartbeats,
    /// Until when workers count as alive, and what they hold.
    pub leases: Leases,
    /// Commands that no worker takes yet.
    unclaimed: UnclaimedCommands,
    /// Workers that have shut down lately: their polls are over.
    shut_down: Mutex<ShutDownWorkers>,
    /// Notified when a worker shuts down: its polls that wait at other nodes end.
    pub shutdowns: Notify,
    /// Whether polls of a worker that begins to shut down end at once.
    pub polls_end_on_shutdown: bool,
    /// Limits how many workers register in a second.
    registrations: Registrations,
    /// Limits how many runs of all lost workers are changed at the same time.
    moves: Semaphore,
    /// Queues and workers of other nodes. Set when the node starts, if there can be others.
    other_nodes: OnceLock<Weak<dyn OtherNodes>>,
}

impl Workers {
    /// No workers yet.
    pub fn new(runs: Arc<Runs>, matching: Arc<Matching>, options: &NodeOptions) -> Self {
        let leases = Leases::new(options.leases, runs.clock.now() - runs.clock.monotonic());
        Self {
            runs,
            matching,
            heartbeats: Heartbeats::default(),
            leases,
            unclaimed: UnclaimedCommands::default(),
            shut_down: Mutex::default(),
            shutdowns: Notify::new(),
            polls_end_on_shutdown: options.polls_end_on_shutdown,
            registrations: Registrations::default(),
            moves: Semaphore::new(MOVES_MAX),
            other_nodes: OnceLock::new(),
        }
    }

    /// Connects the queues and workers of other nodes.
    pub fn set_other_nodes(&self, other_nodes: Weak<dyn OtherNodes>) {
        let _ = self.other_nodes.set(other_nodes);
    }

    /// Queues and workers of other nodes; `None` if there can be none, or this node has ended.
    fn other_nodes(&self) -> Option<Arc<dyn OtherNodes>> {
        self.other_nodes.get()?.upgrade()
    }

    /// Ends the polls at this node of some queues whose homes are elsewhere.
    pub fn end_polls(&self, of: &dyn Fn(&QueueKey) -> bool) {
        if let Some(other_nodes) = self.other_nodes() {
            other_nodes.end_polls(of);
        }
    }

    /// Forgets all workers of a namespace.
    pub fn forget_namespace(&self, namespace: NamespaceKey) {
        self.heartbeats.forget_namespace(namespace);
        self.leases.forget_namespace(namespace);
        self.registrations.forget_namespace(namespace);
    }
}
