//! Workers: programs that execute workflows and tasks, and handle Nexus operations.
//!
//! [`Queue::worker`](crate::Queue::worker) makes one; [`Worker::run`] serves until the program calls
//! [`ShutdownHandle::shutdown`]. A failing workflow or task does not end the worker.

mod answer;
mod attempt;
mod builder;
mod cache;
pub(crate) mod codec;
mod commands;
mod deltas;
mod interceptor;
mod lease;
mod local;
mod meter;
mod nexus;
mod nexus_answer;
mod options;
mod pages;
mod payloads;
pub(crate) mod pollers;
mod report;
mod resources;
mod serve;
pub(crate) mod shared;
pub(crate) mod slots;
mod system_thread;
mod tasks;
mod threads;
mod workflow_task;
pub(crate) mod workflows;

use std::sync::Arc;

use tokio::sync::watch;

pub use builder::WorkerBuilder;
pub use interceptor::{NexusInterceptor, TaskInterceptor};
pub use options::Pollers;
pub(crate) use shared::Shared;
pub use slots::Tuner;

pub use crate::versioning::{Deployment, DeploymentVersion, VersioningBehavior};

use crate::client::ClientError;

/// Executes workflows and tasks of one task queue.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker {
    shared: Arc<Shared>,
    shutdown: watch::Sender<bool>,
}

/// Ends a worker, from anywhere. Cheap to clone.
#[derive(Clone)]
pub struct ShutdownHandle(watch::Sender<bool>);

impl ShutdownHandle {
    /// Asks the worker to end: it takes nothing new, finishes what it has, and [`Worker::run`] returns.
    pub fn shutdown(&self) {
        self.0.send_replace(true);
    }
}

impl Worker {
    fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), shutdown: watch::Sender::new(false) }
    }

    /// A handle that ends this worker.
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle(self.shutdown.clone())
    }

    /// Serves until [`ShutdownHandle::shutdown`] is called, then finishes what it has.
    ///
    /// It ends with an error only if the server refuses the worker when it begins: an unknown namespace, a missing
    /// permission. A server that goes away is waited for. If this future is dropped everything ends at once, unanswered.
    pub async fn run(self) -> Result<(), ClientError> {
        self.shared.meter_start();
        serve::serve(self.shared, self.shutdown.subscribe()).await
    }

    /// Serves while `future` runs, then finishes what the worker has. The error of either ends both.
    pub async fn run_until<T, E: From<ClientError>>(
        self,
        future: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let handle = self.shutdown_handle();
        let mut running = std::pin::pin!(self.run());
        let outcome = tokio::select! {
            biased;
            outcome = future => outcome,
            ended = &mut running => {
                // It ends by itself only with an error, or because other code has its handle.
                ended?;
                let message = "the worker was shut down before the future had an outcome".to_owned();
                return Err(ClientError::Configuration(message).into());
            }
        };
        handle.shutdown();
        // The outcome counts more than what comes of the end.
        match (outcome, running.await) {
            (Ok(_), Err(error)) => Err(error.into()),
            (outcome, _) => outcome,
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tasks: Vec<_> = self.shared.tasks.kinds().collect();
        let workflows = self.shared.workflows.kinds();
        f.debug_struct("Worker")
            .field("queue", &self.shared.queue)
            .field("workflows", &workflows)
            .field("tasks", &tasks)
            .field("nexus_services", &self.shared.nexus.services())
            .finish()
    }
}
