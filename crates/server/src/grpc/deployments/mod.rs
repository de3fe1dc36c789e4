//! Calls about worker deployments. Their rules are in `segno_deployments`; here requests are read and answers are made.
//!
//! Any node answers questions. Changes are made by the node that leads, as those of all documents that every node has in memory, so
//! that a deployment has one writer and a change is answered once every node goes by it.

mod changes;
mod create;
mod polls;
mod reads;
mod routing;

use segno_node::{DeploymentError, Namespace};
use segno_proto::deployment::WorkerDeploymentVersion;
use tonic::Status;

use super::{Workflows, failed};

impl Workflows {
    /// The namespace of a call about deployments.
    fn deployments_of(&self, namespace: &str) -> Result<std::sync::Arc<Namespace>, Status> {
        let namespace = self.namespace(namespace)?;
        if self.node.runs.deployment_limits.enabled { Ok(namespace) } else { Err(bad(DeploymentError::Disabled)) }
    }
}

/// A pair as a request has it.
fn pair(version: Option<&WorkerDeploymentVersion>) -> Option<(&str, &str)> {
    version.map(|version| (version.deployment_name.as_str(), version.build_id.as_str()))
}

fn bad(error: DeploymentError) -> Status {
    failed(error.into())
}
