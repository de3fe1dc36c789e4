//! Workers that shut down: their polls end, also those on their way, and what waits in their sticky queues goes to others.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use segno_store::NamespaceKey;

use crate::{hash::HashMap, queues::QueueKind, runs::Runs, slots::lock};

/// How long it is known that a worker has shut down.
const MEMORY: Duration = Duration::from_secs(30);

/// Workers that have shut down lately: their polls are over.
#[derive(Debug, Default)]
pub(crate) struct ShutDownWorkers {
    at: HashMap<String, Instant>,
    /// The oldest first, including workers that shut down once more.
    order: VecDeque<(Instant, String)>,
}

impl ShutDownWorkers {
    /// A worker shuts down.
    pub(crate) fn add(&mut self, worker: &str) {
        let now = Instant::now();
        while let Some((at, worker)) = self.order.front().filter(|(at, _)| now.duration_since(*at) >= MEMORY) {
            if self.at.get(worker) == Some(at) {
                self.at.remove(worker);
            }
            self.order.pop_front();
        }
        self.at.insert(worker.to_owned(), now);
        self.order.push_back((now, worker.to_owned()));
    }

    /// Whether a worker shut down lately.
    pub(crate) fn has(&self, worker: &str) -> bool {
        self.at.get(worker).is_some_and(|at| at.elapsed() < MEMORY)
    }
}

impl Runs {
    /// Whether a worker has shut down, so that its polls are over.
    pub(crate) fn is_dismissed(&self, worker: &str) -> bool {
        if worker.is_empty() {
            return false;
        }
        lock(&self.dismissed).has(worker)
    }

    /// A worker process leaves, and perhaps names the queue that it serves: its polls end at once, also those on their way; its
    /// sticky queue is given up.
    pub fn dismiss_worker(self: &Arc<Self>, namespace: NamespaceKey, worker: &str, queue: &str, sticky: &str) {
        if !worker.is_empty() {
            self.leases.leaves(namespace, worker, self.clock.monotonic());
        }
        if self.polls_end_on_shutdown && !worker.is_empty() {
            lock(&self.dismissed).add(worker);
            self.dismissals.notify_waiters();
            let known = self.leases.queues_of(namespace, worker);
            self.queues.dismiss(namespace, worker, known.iter().map(String::as_str).chain([queue, sticky]));
        }
        if !sticky.is_empty() {
            self.give_up_queue(namespace, sticky);
        }
    }

    /// A worker that shuts down is no longer listed among the pollers of these queues.
    pub fn forget_poller(&self, namespace: NamespaceKey, queue: &str, kinds: &[QueueKind], identity: &str) {
        if self.polls_end_on_shutdown {
            self.queues.forget_poller(namespace, queue, kinds, identity);
        }
    }

    /// The only worker that served a sticky queue is gone.
    pub(crate) fn give_up_queue(self: &Arc<Self>, namespace: NamespaceKey, sticky: &str) {
        let left = self.queues.abandon(namespace, sticky);
        self.end_sticky_polls(namespace, sticky);
        if !left.is_empty() {
            let node = self.clone();
            tokio::spawn(async move {
                for task in left {
                    node.redirect(task).await;
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
}
