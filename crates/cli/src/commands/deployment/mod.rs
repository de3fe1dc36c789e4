//! `segno deployment ...`: versions of workers, and to which of them tasks go.
//!
//! A change first reads the deployment and passes its conflict token on, so that it fails if another client changed the routing in
//! between.

mod change;
mod delete;
mod delete_version;
mod describe;
mod describe_version;
mod list;
mod routing;
mod set_current;
mod set_manager;
mod set_ramping;
mod update_metadata;
mod verify;

use clap::Args;
use segno_proto::{
    deployment::WorkerDeploymentVersion,
    workflowservice::{DescribeWorkerDeploymentRequest, DescribeWorkerDeploymentResponse},
};

use crate::client::{Client, ClientError};

noun!(Deployment {
    /// Lists deployments with their current and ramping versions.
    List(list::List),
    /// Shows a deployment: its routing and its versions.
    Describe(describe::Describe),
    /// Shows a version: its task queues, drainage and metadata.
    DescribeVersion(describe_version::DescribeVersion),
    /// Checks whether workers of a version can replay the runs that would move to it.
    Verify(verify::Verify),
    /// Sends new workflows, and those that upgrade by themselves, to a version.
    #[command(alias = "set-current-version")]
    SetCurrent(set_current::SetCurrent),
    /// Sends a share of new workflows, and of those that upgrade by themselves, to a version.
    #[command(alias = "set-ramping-version")]
    SetRamping(set_ramping::SetRamping),
    /// Reserves changes of a deployment for one identity, or frees them.
    SetManager(set_manager::SetManager),
    /// Adds and removes notes about a version.
    #[command(alias = "update-version-metadata")]
    UpdateMetadata(update_metadata::UpdateMetadata),
    /// Deletes a version that has no workers.
    DeleteVersion(delete_version::DeleteVersion),
    /// Deletes a deployment without versions.
    Delete(delete::Delete),
});

/// Which deployment a command is about.
#[derive(Args, Clone, Debug)]
struct Target {
    /// The deployment.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Which version a command is about.
#[derive(Args, Clone, Debug)]
struct VersionTarget {
    /// The deployment.
    #[arg(value_name = "NAME")]
    name: String,
    /// Build id of the version.
    #[arg(long, value_name = "ID")]
    build_id: String,
}

impl VersionTarget {
    /// As the wire has it.
    fn version(&self) -> Option<WorkerDeploymentVersion> {
        Some(WorkerDeploymentVersion { deployment_name: self.name.clone(), build_id: self.build_id.clone() })
    }

    /// `name:build`, as lists of workflows have it.
    fn text(&self) -> String {
        format!("{}:{}", self.name, self.build_id)
    }
}

/// A deployment as the server describes it.
async fn read(client: &mut Client, name: &str) -> Result<DescribeWorkerDeploymentResponse, ClientError> {
    let message =
        DescribeWorkerDeploymentRequest { namespace: client.namespace.clone(), deployment_name: name.to_owned() };
    client.call("describe the deployment", message).await
}
