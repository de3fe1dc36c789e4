//! Workers that shut down: their polls end, also those that are still arriving, and other workers get the tasks of
//! their sticky queues.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use segno_environment::{hash::HashMap, lock::lock};
use segno_matching::{QueueKind, TaskOffer};
use segno_store::NamespaceKey;
use tokio::time::Instant;

use super::Workers;

/// How long it is known that a worker has shut down.
const SHUTDOWN_MEMORY: Duration = Duration::from_secs(30);

/// Workers that have shut down lately: their polls are over.
#[derive(Debug, Default)]
pub(crate) struct ShutDownWorkers {
    at: HashMap<String, Instant>,
    /// The oldest first, including workers that shut down once more.
    order: VecDeque<(Instant, String)>,
}

impl ShutDownWorkers {
    /// A worker shuts down.
    pub fn add(&mut self, worker: &str) {
        let now = Instant::now();
        while let Some((at, worker)) = self.order.front().filter(|(at, _)| now.duration_since(*at) >= SHUTDOWN_MEMORY) {
            if self.at.get(worker) == Some(at) {
                self.at.remove(worker);
            }
            self.order.pop_front();
        }
        self.at.insert(worker.to_owned(), now);
        self.order.push_back((now, worker.to_owned()));
    }

    /// Whether a worker shut down lately.
    pub fn has(&self, worker: &str) -> bool {
        self.at.get(worker).is_some_and(|at| at.elapsed() < SHUTDOWN_MEMORY)
    }
}

impl Workers {
    /// Whether a worker has shut down, so that its polls are over.
    pub fn has_shut_down(&self, worker: &str) -> bool {
        if worker.is_empty() {
            return false;
        }
        lock(&self.shut_down).has(worker)
    }

    /// A worker process leaves, and perhaps names the queue that it serves: its polls end at once, also those on their way; its
    /// sticky queue is given up.
    pub fn dismiss_worker(self: &Arc<Self>, namespace: NamespaceKey, worker: &str, queue: &str, sticky: &str) {
        if !worker.is_empty() {
            self.leases.leaves(namespace, worker, self.runs.clock.monotonic());
        }
        if self.polls_end_on_shutdown && !worker.is_empty() {
            lock(&self.shut_down).add(worker);
            self.shutdowns.notify_waiters();
            let known = self.leases.queues_of(namespace, worker);
            self.matching.dismiss(namespace, worker, known.iter().map(String::as_str).chain([queue, sticky]));
        }
        if !sticky.is_empty() {
            self.give_up_queue(namespace, sticky);
        }
    }

    /// A worker that shuts down is no longer listed among the pollers of these queues.
    /// `worker` are its identity and its instance key.
    pub fn forget_poller(&self, namespace: NamespaceKey, queue: &str, kinds: &[QueueKind], worker: (&str, &str)) {
        if self.polls_end_on_shutdown {
            self.matching.forget_poller(namespace, queue, kinds, worker);
        }
    }

    /// The only worker that served a sticky queue is gone.
    pub(super) fn give_up_queue(self: &Arc<Self>, namespace: NamespaceKey, sticky: &str) {
        let left = self.matching.abandon(namespace, sticky);
        self.end_sticky_polls(namespace, sticky);
        if !left.is_empty() {
            let workers = self.clone();
            tokio::spawn(async move {
                for task in left {
                    workers.redirect(task).await;
                }
            });
        }
    }

    /// Polls of a sticky queue that wait here end, wherever its home is.
    fn end_sticky_polls(&self, namespace: NamespaceKey, sticky: &str) {
        if !sticky.is_empty() {
            self.end_polls(&|key| key.namespace == namespace && key.sticky_name() == Some(sticky));
        }
    }

    /// Sends a task of an abandoned sticky queue to where it belongs.
    async fn redirect(&self, task: TaskOffer) {
        match task {
            TaskOffer::Workflow { run, .. } => {
                let Ok(Some(key)) = self.runs.workflow_of(run).await else { return };
                let Ok(locked) = self.runs.lock(&key).await else { return };
                if let Some(current) = locked.state.current.as_ref().filter(|current| current.key() == run) {
                    self.runs.offer_workflow_task(&current.run);
                }
            }
            TaskOffer::Activity { .. } | TaskOffer::Nexus { .. } | TaskOffer::Call { .. } => {}
            TaskOffer::Command(_) => {}
            // Its owner hears by the time-out of the sticky queue.
            TaskOffer::Remote(_) => {}
            // The caller notices that its query was withdrawn and offers it on the normal queue.
            TaskOffer::Query(query) => {
                query.withdraw();
            }
        }
    }
}
