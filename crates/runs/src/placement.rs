//! Which workflows, queues and duties belong to this node, through the port [`Owner`](crate::ports::owner::Owner).
//!
//! On a node without others a flag is checked first, so that the port costs one comparison.

use std::sync::Arc;

use segno_store::{NamespaceKey, OpenRun, OutboxKey, OutboxRow, RunKey, cluster::NodeId};

use crate::{error::CallError, ports::owner::Place, runs::Runs, slots::WorkflowKey};

/// The low bits of a connection's number are counted by its node.
const CONNECTION_BITS: u32 = 40;
/// The bits of a node's number that its connections have.
const NODE_BITS: u64 = 0xff_ffff;

/// The first bits of the connections of a node.
pub fn connection_prefix(node: NodeId) -> u64 {
    (node.0 & NODE_BITS) << CONNECTION_BITS
}

impl Runs {
    /// Whether there can be no other nodes.
    pub fn is_alone(&self) -> bool {
        self.node_number == 0
    }

    /// The node that serves a workflow.
    pub fn place(&self, workflow: &WorkflowKey) -> Place {
        if self.is_alone() { Place::Here } else { self.owner.place(workflow) }
    }

    /// The node that serves what has a name: a queue, the reports of a worker.
    pub fn home(&self, namespace: NamespaceKey, name: &str) -> Place {
        if self.is_alone() { Place::Here } else { self.owner.home(namespace, name) }
    }

    /// The place of a node, by its number: the queries that it asks are there alone.
    pub fn node_place(&self, node: u64) -> Place {
        if self.is_alone() || node == 0 || node == self.node_number {
            return Place::Here;
        }
        Place::There(NodeId(node))
    }

    /// The node that does what is done once in a cluster: changes of namespaces, deletion of expired runs.
    pub fn leader(&self) -> Place {
        self.home(NamespaceKey(0), "leader")
    }

    /// Whether this node leads; a node without others does.
    pub fn leads(&self) -> bool {
        self.leader() == Place::Here
    }

    /// See [`Owner::admit`](crate::ports::owner::Owner::admit).
    pub fn admit(&self, workflow: &WorkflowKey) -> Result<(), CallError> {
        if self.is_alone() { Ok(()) } else { self.owner.admit(workflow) }
    }

    /// The first bits of the connections of this node.
    pub fn connection_prefix(&self) -> u64 {
        connection_prefix(NodeId(self.node_number))
    }

    /// Open runs of this node.
    pub async fn own_open_runs(&self, after: Option<RunKey>, limit: usize) -> Result<Vec<OpenRun>, CallError> {
        match self.owner.open_runs(after, limit) {
            None => Ok(self.store.open_runs(after, limit).await?),
            Some(page) => Ok(page.await?),
        }
    }

    /// Messages that runs of this node sent.
    pub(crate) async fn own_outbox(&self, after: Option<OutboxKey>, limit: usize) -> Result<Vec<OutboxRow>, CallError> {
        match self.owner.outbox(after, limit) {
            None => Ok(self.store.outbox(after, limit).await?),
            Some(page) => Ok(page.await?),
        }
    }

    /// Deletes a run at the node that serves it.
    pub async fn delete_anywhere(self: &Arc<Self>, workflow: &WorkflowKey, run_id: &str) -> Result<(), CallError> {
        match self.place(workflow) {
            Place::Here => self.delete_run(workflow, run_id).await,
            Place::There(owner) => self.owner.delete_run(owner, workflow, run_id).await,
            Place::Nowhere => Err(CallError::Moved),
        }
    }
}
