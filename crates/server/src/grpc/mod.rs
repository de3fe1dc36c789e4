//! Handlers of all services: requests in, replies out.
//!
//! Each file has the calls of one topic as methods; the [table of calls](crate::calls) names them.

mod access;
mod activities;
mod activity_operations;
mod batch;
mod batch_steps;
mod cluster;
mod completion_pages;
mod deployments;
mod describe;
mod disabled;
mod explain;
mod flows;
mod foreign_tokens;
mod history;
mod leases;
mod links;
mod multi_operation;
mod namespaces;
mod nexus;
mod operator;
mod options;
mod pausing;
mod queries;
mod queue_config;
mod queues;
mod reset;
pub(crate) mod routing;
mod rules;
mod schedules;
mod search_attributes;
mod standalone;
mod starting;
mod system;
mod time_skipping;
mod tokens;
mod updates;
mod verifications;
mod visibility;
mod workers;
mod workflow_tasks;
mod workflows;

use std::sync::Arc;

use segno_node::{Namespace, Node, WorkflowKey};
use segno_proto::{common::WorkflowExecution, enums::NamespaceState};
use tonic::Status;

pub use access::AccessCalls;
pub use batch_steps::BatchCalls;
pub use cluster::ClusterCalls;
pub use disabled::Disabled;
pub use explain::WorkflowExplanations;
pub use flows::FlowCalls;
pub use leases::WorkerLeases;
pub(crate) use nexus::SystemCalls;
pub use operator::Operator;
pub use system::SERVER_VERSION;
pub use time_skipping::TimeSkipping;
pub(crate) use verifications::{TrialCalls, VerificationCalls};

use crate::{
    status,
    validate::{self, size::Sizes},
};

/// Temporal's WorkflowService.
pub struct Workflows {
    node: Arc<Node>,
}

impl Workflows {
    /// The service on a node.
    pub fn new(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// How large what requests carry may be.
    fn sizes(&self) -> Sizes {
        self.node.runs.limits().into()
    }

    /// The namespace a request names, if it can be used.
    fn namespace(&self, name: &str) -> Result<Arc<Namespace>, Status> {
        self.namespace_in(name, namespaces::USABLE)
    }

    /// The namespace a request names, if workflows can be started in it.
    fn open_namespace(&self, name: &str) -> Result<Arc<Namespace>, Status> {
        self.namespace_in(name, namespaces::OPEN)
    }

    fn namespace_in(&self, name: &str, allowed: &[NamespaceState]) -> Result<Arc<Namespace>, Status> {
        validate::namespace::name_length(name).map_err(refused)?;
        if name.is_empty() {
            return Err(Status::invalid_argument("Namespace is empty."));
        }
        let namespace = self.node.runs.namespaces.get(name).ok_or_else(|| status::namespace_not_found(name))?;
        namespaces::in_state(namespace, allowed)
    }
}

/// The workflow an execution names.
fn key_of(namespace: &Namespace, execution: Option<&WorkflowExecution>) -> (WorkflowKey, String) {
    let execution = execution.cloned().unwrap_or_default();
    (WorkflowKey::new(namespace.key, &execution.workflow_id), execution.run_id)
}

fn refused(refused: validate::RequestError) -> Status {
    match refused.code {
        validate::Code::InvalidArgument => Status::invalid_argument(refused.text),
        validate::Code::Unimplemented => Status::unimplemented(refused.text),
    }
}

fn failed(error: segno_node::CallError) -> Status {
    status::from_call(error)
}
