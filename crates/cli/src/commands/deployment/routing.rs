//! The routing of a deployment in words, and the flags of the commands that change it.

use clap::Args;
use segno_proto::{
    deployment::RoutingConfig,
    workflowservice::{DescribeWorkerDeploymentRequest, DescribeWorkerDeploymentResponse},
};
use tonic::Code;

use super::change::Author;
use crate::{
    client::{Client, request},
    output::plain,
};

/// Workers that say no version, in the words of the protocol.
const UNVERSIONED: &str = "__unversioned__";
/// The same for people.
pub const NO_VERSION: &str = "unversioned workers";

/// Flags of both changes of the routing.
#[derive(Args, Clone, Debug)]
pub struct RoutingChange {
    /// Accept that task queues which the current version serves have no workers in the new one.
    #[arg(long)]
    pub ignore_missing_task_queues: bool,
    /// Accept a version that no worker has polled for yet; it is created.
    #[arg(long)]
    pub allow_no_pollers: bool,
    #[command(flatten)]
    pub author: Author,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
}

impl RoutingChange {
    /// The deployment that is about to change. A deployment that the change creates has no routing and no conflict token yet.
    pub async fn read(&self, client: &mut Client, name: &str) -> anyhow::Result<DescribeWorkerDeploymentResponse> {
        let message =
            DescribeWorkerDeploymentRequest { namespace: client.namespace.clone(), deployment_name: name.to_owned() };
        match client.send(request(message)).await {
            Err(status) if self.allow_no_pollers && status.code() == Code::NotFound => {
                Ok(DescribeWorkerDeploymentResponse::default())
            }
            answer => Ok(client.answer("describe the deployment", answer)?),
        }
    }
}

/// The current version of a deployment.
pub fn current(routing: &RoutingConfig) -> String {
    match &routing.current_deployment_version {
        Some(version) => plain(&version.build_id).into_owned(),
        None => NO_VERSION.to_owned(),
    }
}

/// The ramping version of a deployment with its share; none if there is no ramp.
pub fn ramping(routing: &RoutingConfig) -> Option<String> {
    let build = match &routing.ramping_deployment_version {
        Some(version) => plain(&version.build_id).into_owned(),
        None if routing.ramping_version == UNVERSIONED => NO_VERSION.to_owned(),
        None => return None,
    };
    Some(format!("{build} ({} %)", routing.ramping_version_percentage))
}

#[cfg(test)]
mod tests {
    use segno_proto::deployment::WorkerDeploymentVersion;

    use super::*;

    #[test]
    fn routing_is_shown_by_build_ids() {
        let version = |build: &str| {
            Some(WorkerDeploymentVersion { deployment_name: "orders".to_owned(), build_id: build.to_owned() })
        };
        let mut routing = RoutingConfig::default();
        assert_eq!((current(&routing), ramping(&routing)), (NO_VERSION.to_owned(), None));
        routing.current_deployment_version = version("b1");
        routing.ramping_version = UNVERSIONED.to_owned();
        routing.ramping_version_percentage = 0.5;
        assert_eq!(
            (current(&routing).as_str(), ramping(&routing).as_deref()),
            ("b1", Some("unversioned workers (0.5 %)"))
        );
        routing.ramping_deployment_version = version("b2");
        assert_eq!(ramping(&routing).as_deref(), Some("b2 (0.5 %)"));
    }
}
