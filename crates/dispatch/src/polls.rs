//! Polls of workers: how a task gets from its queue to a worker.

use std::sync::Arc;

use segno_deployments::Version;
use segno_engine::activity::Sdk;
use segno_matching::{PollerVersion, QueueKey, QueueKind, QueuePoll, RemoteTask, TaskOffer};
use segno_proto::common::WorkerVersionStamp;
use segno_runs::{error::CallError, ports::owner::Place};
use segno_workers::{CONTROL_QUEUES, Caller, PollGuard};
use tokio::time::Instant;

use super::{
    Dispatch,
    delivery::{Delivery, HeldWork},
    remote_queues::{ForwardedCall, PollOutcome},
};

/// A worker's poll for a task.
#[derive(Clone, Debug)]
pub struct Poll {
    /// Where.
    pub queue: QueueKey,
    /// Who.
    pub identity: String,
    /// The worker process, and how it is reached.
    pub caller: Caller,
    /// Whether only this worker serves the queue.
    pub sticky: bool,
    /// Until when.
    pub deadline: Instant,
    /// How many tasks per second the worker wants handed out on this queue, to all workers together.
    pub tasks_per_second: Option<f64>,
    /// The version of the worker, as it reports it.
    pub version: PollerVersion,
    /// The worker's SDK, where it matters.
    pub sdk: Sdk,
}

impl Poll {
    /// The poll as its queue needs it. `elsewhere` if the worker is connected to another node.
    fn at_queue<'a>(&'a self, lane: Option<&'a Version>, elsewhere: bool) -> QueuePoll<'a> {
        QueuePoll {
            queue: &self.queue,
            identity: &self.identity,
            worker: &self.caller.worker,
            version: &self.version,
            lane,
            tasks_per_second: self.tasks_per_second,
            deadline: self.deadline,
            elsewhere,
        }
    }
}

/// A task of a worker: a workflow task or an activity, started.
pub trait WorkerTask: Sized + Send + 'static {
    /// Starts what a queue offered. `None` if it no longer exists.
    fn begin(
        dispatch: &Arc<Dispatch>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        offer: TaskOffer,
        delivery: Delivery,
    ) -> impl Future<Output = Result<Option<Self>, CallError>> + Send;
}

impl Dispatch {
    /// Waits for a task on a node without others.
    pub async fn poll_here<T: WorkerTask>(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
    ) -> Result<Option<T>, CallError> {
        Ok(self.poll(poll, worker_version, None).await?.and_then(PollOutcome::here))
    }

    /// Waits for a task, wherever its run is. `call` is what its owner needs to answer the poll.
    pub async fn poll<T: WorkerTask>(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        call: Option<&ForwardedCall>,
    ) -> Result<Option<PollOutcome<T>>, CallError> {
        loop {
            let Some((offer, delivery)) = self.wait_for_task(poll).await else { return Ok(None) };
            if let TaskOffer::Remote(task) = offer {
                match self.start_elsewhere(*task, delivery, call).await {
                    // A worker that shut down meanwhile would not look at it: dropping it gives it back.
                    Some(_) if self.workers.has_shut_down(&poll.caller.worker) => return Ok(None),
                    Some(begun) => return Ok(Some(begun)),
                    None => continue,
                }
            }
            // Answered, replaced or gone meanwhile: wait for another one.
            if let Some(started) = T::begin(self, poll, worker_version.clone(), offer, delivery).await? {
                return Ok(Some(PollOutcome::Here(started)));
            }
        }
    }

    /// Starts a task for a poll that another node made.
    pub async fn begin_for<T: WorkerTask>(
        self: &Arc<Self>,
        poll: &Poll,
        worker_version: Option<WorkerVersionStamp>,
        task: &RemoteTask,
    ) -> Result<Option<T>, CallError> {
        let Some(remote) = self.remote_queues() else { return Ok(None) };
        // The home may know a newer routing: without it the task would return to the same worker at once.
        remote.reach_revision(task.revision).await?;
        let Some(offer) = remote.own_task(task) else { return Ok(None) };
        // Until it is started the queue's home holds it.
        T::begin(self, poll, worker_version, offer, Delivery::new(self, HeldWork::Nothing)).await
    }

    /// Waits for a task of a queue, wherever its home is. Dropping the delivery returns the task.
    pub async fn wait_for_task(self: &Arc<Self>, poll: &Poll) -> Option<(TaskOffer, Delivery)> {
        match self.remote_queues() {
            None => self.wait_with_guard(poll).await,
            Some(remote) => remote.wait_for_task(poll).await,
        }
    }

    /// Lets the node that serves the run of a task start it for a poll. `None` if it is over.
    async fn start_elsewhere<T>(
        &self,
        task: RemoteTask,
        delivery: Delivery,
        call: Option<&ForwardedCall>,
    ) -> Option<PollOutcome<T>> {
        let (body, delivery) = self.remote_queues()?.start_task(task, delivery, call?).await?;
        Some(PollOutcome::There { body, delivery })
    }

    /// Waits for a task of a node without others, unless the worker shut down or the node stops.
    pub async fn wait_with_guard(self: &Arc<Self>, poll: &Poll) -> Option<(TaskOffer, Delivery)> {
        if self.runs.is_stopping() || self.workers.has_shut_down(&poll.caller.worker) {
            return None;
        }
        let guard = self.poll_begins(poll);
        let taken = self.wait_here(poll, false).await;
        if let Some(guard) = guard {
            guard.answered();
        }
        taken
    }

    /// Waits for a task in a queue whose home is here; for a worker at another node if `elsewhere`. Dropping the delivery
    /// returns the task.
    pub async fn wait_here(self: &Arc<Self>, poll: &Poll, elsewhere: bool) -> Option<(TaskOffer, Delivery)> {
        if self.runs.is_stopping() || self.workers.has_shut_down(&poll.caller.worker) {
            return None;
        }
        let is_over = || {
            let moved = self.runs.home(poll.queue.namespace, poll.queue.client_name()) != Place::Here;
            moved || self.runs.is_stopping() || self.workers.has_shut_down(&poll.caller.worker)
        };
        let lane = poll.version.lane(poll.queue.kind);
        let queued = self.matching.poll(&poll.at_queue(lane.as_ref(), elsewhere), is_over).await?;
        let task = queued.task.clone();
        Some((task, Delivery::new(self, HeldWork::Queued(poll.queue.clone(), queued))))
    }

    /// A poll is a sign of life. On a queue for commands it stands for all workers of its process.
    pub fn poll_begins(&self, poll: &Poll) -> Option<PollGuard<'_>> {
        let (namespace, now) = (poll.queue.namespace, self.runs.clock.monotonic());
        let is_control = poll.queue.kind == QueueKind::WorkerCommand && poll.queue.name.starts_with(CONTROL_QUEUES);
        if let Some(remote) = self.remote_queues() {
            remote.worker_polls(poll, is_control);
        }
        if is_control {
            return self.workers.leases.control_poll_begins(namespace, &poll.queue.name, poll.caller.connection, now);
        }
        self.workers.leases.poll_begins(
            namespace,
            &poll.caller,
            poll.queue.client_name(),
            &poll.identity,
            poll.sticky,
            now,
        )
    }
}
