//! What the dispatch of tasks needs of the other nodes. A task is offered at the home of its queue, which may be another node than the
//! one that serves its run, and a worker polls at the node it is connected to.
//!
//! A node without others has no implementation of this port: all of it is in its own queues.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use segno_deployments::{MemberQueue, Version};
use segno_engine::activity::Sdk;
use segno_environment::connection::ConnectionId;
use segno_matching::{QueueKey, QueuePlace, RemoteTask, TaskOffer};
use segno_runs::{
    error::CallError,
    ports::{PortFuture, queue_use::QueueUse},
};
use segno_store::{NamespaceKey, RunKey, cluster::NodeId};
use segno_workers::{HomeOffer, OtherNodes};

use super::{Delivery, Poll};

/// A task that another node holds for a worker until it knows whether the worker got it. Dropping it gives the task back.
pub trait RemoteHold: fmt::Debug + Send {
    /// The worker has the task.
    fn delivered(self: Box<Self>);
}

/// A call that comes from another node, or goes to one.
#[derive(Clone, Debug)]
pub struct ForwardedCall {
    /// Its method.
    pub path: String,
    /// Its message.
    pub body: Bytes,
    /// How long the client waits.
    pub timeout: Option<Duration>,
    /// The client's connection.
    pub connection: Option<ConnectionId>,
    /// Whether it is one of people's tools.
    pub is_tool: bool,
    /// The client's SDK.
    pub sdk: Sdk,
    /// The task that it gets, if it is a poll.
    pub task: Option<RemoteTask>,
}

/// The outcome of a poll.
#[derive(Debug)]
pub enum PollOutcome<T> {
    /// A task of a run that is here.
    Here(T),
    /// The whole response, made by the node that serves the run.
    There {
        /// The response's message.
        body: Bytes,
        /// Gives the task back unless it is delivered.
        delivery: Option<Delivery>,
    },
}

impl<T> PollOutcome<T> {
    /// The task, if its run is here.
    pub fn here(self) -> Option<T> {
        match self {
            Self::Here(task) => Some(task),
            Self::There { .. } => None,
        }
    }
}

/// Queues and polls of other nodes.
pub trait RemoteQueues: OtherNodes + Send + Sync + 'static {
    /// Hands a task to a worker that polls at this node, if the home of the queue has nothing to order; else offers it at the home.
    fn match_or_offer(self: Arc<Self>, offer: HomeOffer);

    /// Offers what only memory knows, a query or a direct call, at the home of its queue. False if it is one worker's own queue and that
    /// worker is not there.
    fn offer_unstored<'a>(
        &'a self,
        queue: &'a QueueKey,
        task: TaskOffer,
        place: QueuePlace,
        sticky: bool,
    ) -> PortFuture<'a, bool>;

    /// Waits until not too many offers are under way.
    fn offers_settle(&self) -> PortFuture<'_, ()>;

    /// Asks the nodes that serve other runs to offer the tasks of a queue again.
    fn request_offers<'a>(&'a self, queue: &'a QueueKey) -> PortFuture<'a, ()>;

    /// Waits for a task of a queue, wherever its home is. Dropping the delivery returns the task.
    fn wait_for_task<'a>(self: Arc<Self>, poll: &'a Poll) -> PortFuture<'a, Option<(TaskOffer, Delivery)>>;

    /// How workers of a version use a queue whose home is another node.
    fn queue_use<'a>(
        &'a self,
        home: NodeId,
        namespace: NamespaceKey,
        queue: &'a MemberQueue,
        version: Option<&'a Version>,
    ) -> PortFuture<'a, Result<QueueUse, CallError>>;

    /// Has runs of another node note that they wait for a version of workers.
    fn note_version_waits<'a>(
        &'a self,
        owner: NodeId,
        runs: &'a [RunKey],
        version: &'a Version,
    ) -> PortFuture<'a, Result<(), CallError>>;

    /// Reads the documents of the cluster if this node has an older revision.
    fn reach_revision(&self, revision: i64) -> PortFuture<'_, Result<(), CallError>>;

    /// Lets the node that serves the run of a task start it for a poll, and gives its response to the poll. `None` if the task is over.
    fn start_task<'a>(
        &'a self,
        task: RemoteTask,
        delivery: Delivery,
        call: &'a ForwardedCall,
    ) -> PortFuture<'a, Option<(Bytes, Option<Delivery>)>>;

    /// The task of a run of this node that a poll at another node gets.
    fn own_task(&self, task: &RemoteTask) -> Option<TaskOffer>;

    /// Configurations of queues have changed.
    fn limits_changed(&self);

    /// A worker polls at this node.
    fn worker_polls(&self, poll: &Poll, is_control: bool);
}
