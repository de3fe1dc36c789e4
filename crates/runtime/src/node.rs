//! A node: its parts, started together. What they do is theirs.

use std::{ops::Deref, sync::Arc};

use segno_store::{Storage, Store};

use crate::{
    clock::Clock,
    cluster::NodeIdentity,
    dispatch::{self, Dispatch},
    error::CallError,
    local::Local,
    matching::Matching,
    options::NodeOptions,
    runs::Runs,
    workers::{self, Workers},
};

/// A node of Segno.
pub struct Node {
    /// The runs that this node serves.
    pub runs: Arc<Runs>,
    /// Task queues.
    pub matching: Arc<Matching>,
    /// Workers.
    pub workers: Arc<Workers>,
    /// Tasks of runs on their way to workers.
    pub dispatch: Arc<Dispatch>,
}

// Until callers name the part that they mean.
impl Deref for Node {
    type Target = Arc<Runs>;

    fn deref(&self) -> &Arc<Runs> {
        &self.runs
    }
}

impl Node {
    /// Starts a node on a store in this process: recovers what is stored and begins to work.
    pub async fn start(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
    ) -> Result<Arc<Self>, CallError> {
        Self::start_on(Arc::new(Local::new(store)), clock, options).await
    }

    /// Starts a node on any storage.
    pub async fn start_on(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
    ) -> Result<Arc<Self>, CallError> {
        Self::start_among(storage, clock, options, None).await
    }

    /// Starts a node on any storage, reached by other nodes through a listener. They know it by the certificate of its
    /// identity, which is in the database.
    pub async fn start_among(
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
        options: NodeOptions,
        listener: Option<(tokio::net::TcpListener, NodeIdentity)>,
    ) -> Result<Arc<Self>, CallError> {
        let (runs, listener) = Runs::new(storage, clock, options, listener).await?;
        let matching = Matching::new(options.queue_tasks_max, runs.clock.clone(), runs.metrics.clone());
        let matching = Arc::new(matching);
        let workers = Arc::new(Workers::new(runs.clone(), matching.clone(), &options));
        let dispatch = Dispatch::new(runs.clone(), matching.clone(), workers.clone());
        if let Some(cluster) = runs.cluster() {
            cluster.set_dispatch(&dispatch);
        }
        dispatch.load_queue_configs().await?;
        Runs::start(&runs, listener).await?;
        runs.supervise("the watch over workers", workers::watch(workers.clone()));
        runs.supervise("the refill of queues", dispatch::refill(dispatch.clone()));
        Ok(Arc::new(Self { runs, matching, workers, dispatch }))
    }

    /// Stops handing out work: long polls end empty, new calls are refused.
    pub fn shut_down(&self) {
        self.runs.shut_down();
        self.dispatch.stop();
    }

    /// Bytes of cached runs, waiting tasks, armed wake-ups, workers, messages, damaged runs.
    pub fn gauges(&self) -> [(&'static str, &'static str, u64); 6] {
        self.runs.gauges(self.matching.backlog(), self.workers.leases.len())
    }
}
