//! A node: its parts, started together. What they do is theirs.

use std::{ops::Deref, sync::Arc};

use segno_engine::{lease::LeaseSettings, limits::Limits};
use segno_store::Store;

use crate::{clock::Clock, cluster::NodeIdentity, error::CallError, queues::BACKLOG_MAX, runs::Runs};

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Memory for cached runs.
    pub cache_bytes_max: usize,
    /// Limits of runs.
    pub limits: Limits,
    /// How long workers count as alive.
    pub leases: LeaseSettings,
    /// Whether polls of a worker that begins to shut down end at once.
    pub polls_end_on_shutdown: bool,
    /// Whether workflows may be paused.
    pub workflow_pause: bool,
    /// Whether there are workflow rules.
    pub workflow_rules: bool,
    /// Whether completions of workflow tasks may come in pages.
    pub completion_pages: bool,
    /// Most tasks that a queue keeps in memory; it reads the others from storage when it runs low.
    pub queue_tasks_max: usize,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            cache_bytes_max: 64 * 1024 * 1024,
            limits: Limits::default(),
            leases: LeaseSettings::default(),
            polls_end_on_shutdown: true,
            workflow_pause: false,
            workflow_rules: false,
            completion_pages: false,
            queue_tasks_max: BACKLOG_MAX,
        }
    }
}

/// A node of Segno.
pub struct Node {
    /// The runs that this node serves.
    pub runs: Arc<Runs>,
}

// Until callers name the part that they mean.
impl Deref for Node {
    type Target = Arc<Runs>;

    fn deref(&self) -> &Arc<Runs> {
        &self.runs
    }
}

impl Node {
    /// Starts a node on a store: recovers what is stored and begins to work.
    pub async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
    ) -> Result<Arc<Self>, CallError> {
        Self::start_among(store, clock, options, None).await
    }

    /// Starts a node on a store, reached by other nodes through a listener. They know it by the certificate of its
    /// identity, which is in the database.
    pub async fn start_among(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
        listener: Option<(tokio::net::TcpListener, NodeIdentity)>,
    ) -> Result<Arc<Self>, CallError> {
        let runs = Runs::start_among(store, clock, options, listener).await?;
        Ok(Arc::new(Self { runs }))
    }
}
