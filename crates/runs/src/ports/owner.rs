//! What runs need of the cluster: which node serves a workflow, and requests to that node about its runs.
//!
//! What holds: a run is read and changed only after [`Owner::admit`] allowed it. With one store in this process there is one node, and
//! [`Alone`] is its cluster.

use std::collections::BTreeMap;

use segno_deployments::{PinTimes, calls::Registration};
use segno_engine::outbox::OutboxMessage;
use segno_store::{NamespaceKey, OpenRun, OutboxKey, OutboxRow, Read, RunKey, cluster::NodeId};

use super::PortFuture;
use crate::{error::CallError, slots::WorkflowKey};

/// Where a workflow, a queue or a query is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this node.
    Here,
    /// On another node.
    There(NodeId),
    /// It is being handed over, or has no node yet.
    Nowhere,
}

/// The outcome of a message at its receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// It arrived, or its receiver no longer wants it.
    Done,
    /// It arrived, and its row went with the same commit.
    Removed,
    /// A child was started: the id of its run.
    Started(String),
    /// It was rejected: its sender gets this cause.
    Rejected(i32),
}

/// A page read from storage; `None` if all that is stored belongs to this node.
pub type OwnPage<T> = Option<Read<Vec<T>>>;

/// The nodes that serve workflows.
pub trait Owner: Send + Sync + 'static {
    /// The number of this node; 0 if it is alone.
    fn node(&self) -> u64;

    /// The node that serves a workflow.
    fn place(&self, workflow: &WorkflowKey) -> Place;

    /// The node that serves what has a name: a queue, the reports of a worker, the leader's duties.
    fn home(&self, namespace: NamespaceKey, name: &str) -> Place;

    /// Refuses a call on a workflow that another node serves ([`CallError::Moved`]), and every call while this node is not within its
    /// lease ([`CallError::Unavailable`]). In both cases nothing was done.
    fn admit(&self, workflow: &WorkflowKey) -> Result<(), CallError>;

    /// Waits while the database is away for a moment, so that a failover of a few seconds delays calls instead of failing them.
    /// `refusal` is what [`Owner::admit`] gave.
    fn admit_when_available<'a>(
        &'a self,
        workflow: &'a WorkflowKey,
        refusal: CallError,
    ) -> PortFuture<'a, Result<(), CallError>>;

    /// A run of a workflow was changed.
    fn count_commit(&self, workflow: &WorkflowKey);

    /// Open runs of the workflows that this node serves.
    fn open_runs(&self, after: Option<RunKey>, limit: usize) -> OwnPage<OpenRun>;

    /// Messages that runs of this node sent.
    fn outbox(&self, after: Option<OutboxKey>, limit: usize) -> OwnPage<OutboxRow>;

    /// Lets the node that serves the receiver of a message carry out the receiver's half.
    fn deliver<'a>(
        &'a self,
        to: NodeId,
        message: &'a OutboxMessage,
        key: OutboxKey,
    ) -> PortFuture<'a, Result<DeliveryResult, CallError>>;

    /// Lets the node that serves a workflow delete one of its runs.
    fn delete_run<'a>(
        &'a self,
        at: NodeId,
        workflow: &'a WorkflowKey,
        run_id: &'a str,
    ) -> PortFuture<'a, Result<(), CallError>>;

    /// Lets the node that leads make a queue a member of a version of workers.
    fn register_poller<'a>(
        &'a self,
        leader: NodeId,
        namespace: NamespaceKey,
        registration: &'a Registration,
    ) -> PortFuture<'a, Result<(), CallError>>;

    /// Reports to the node that leads when workflows were pinned to versions of a deployment, and no longer were, by build id.
    fn report_pins<'a>(
        &'a self,
        leader: NodeId,
        namespace: NamespaceKey,
        deployment: &'a str,
        times: &'a BTreeMap<String, PinTimes>,
    ) -> PortFuture<'a, Result<(), CallError>>;

    /// Namespaces were changed here: waits until all other nodes have read them, or a lease has passed.
    fn publish_namespaces(&self) -> PortFuture<'_, ()>;
}

/// The cluster of a node on a store of its own: every workflow is served here.
pub struct Alone;

impl Owner for Alone {
    fn node(&self) -> u64 {
        0
    }

    fn place(&self, _: &WorkflowKey) -> Place {
        Place::Here
    }

    fn home(&self, _: NamespaceKey, _: &str) -> Place {
        Place::Here
    }

    fn admit(&self, _: &WorkflowKey) -> Result<(), CallError> {
        Ok(())
    }

    fn admit_when_available<'a>(&'a self, _: &'a WorkflowKey, _: CallError) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(async { Ok(()) })
    }

    fn count_commit(&self, _: &WorkflowKey) {}

    fn open_runs(&self, _: Option<RunKey>, _: usize) -> OwnPage<OpenRun> {
        None
    }

    fn outbox(&self, _: Option<OutboxKey>, _: usize) -> OwnPage<OutboxRow> {
        None
    }

    fn deliver<'a>(
        &'a self,
        _: NodeId,
        _: &'a OutboxMessage,
        _: OutboxKey,
    ) -> PortFuture<'a, Result<DeliveryResult, CallError>> {
        Box::pin(async { Err(CallError::Moved) })
    }

    fn delete_run<'a>(&'a self, _: NodeId, _: &'a WorkflowKey, _: &'a str) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(async { Err(CallError::Moved) })
    }

    fn register_poller<'a>(
        &'a self,
        _: NodeId,
        _: NamespaceKey,
        _: &'a Registration,
    ) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(async { Err(CallError::Moved) })
    }

    fn report_pins<'a>(
        &'a self,
        _: NodeId,
        _: NamespaceKey,
        _: &'a str,
        _: &'a BTreeMap<String, PinTimes>,
    ) -> PortFuture<'a, Result<(), CallError>> {
        Box::pin(async { Err(CallError::Moved) })
    }

    fn publish_namespaces(&self) -> PortFuture<'_, ()> {
        Box::pin(async {})
    }
}
