//! CreateWorkerDeployment, CreateWorkerDeploymentVersion, and the configurations of compute providers, which Segno does not have.

use segno_node::{DeploymentError, calls, names};
use segno_proto::workflowservice::{
    CreateWorkerDeploymentRequest, CreateWorkerDeploymentResponse, CreateWorkerDeploymentVersionRequest,
    CreateWorkerDeploymentVersionResponse,
};
use tonic::Status;

use super::bad;
use crate::grpc::{Workflows, failed};

const NO_COMPUTE: &str = "compute configurations are not supported";

impl Workflows {
    pub(crate) async fn create_deployment(
        &self,
        request: CreateWorkerDeploymentRequest,
    ) -> Result<CreateWorkerDeploymentResponse, Status> {
        let namespace = self.deployments_of(&request.namespace)?;
        let CreateWorkerDeploymentRequest { deployment_name: name, identity, request_id, .. } = request;
        if name.is_empty() {
            return Err(Status::invalid_argument("deployment name cannot be empty"));
        }
        names::check_name(&name).map_err(bad)?;
        let (runs, of) = (&self.node.runs, name.clone());
        let request_id = if request_id.is_empty() { runs.uuid() } else { request_id };
        let created = runs.change_deployment(namespace.key, &name, move |before, now, _| {
            let deployment = calls::create(before, &of, &identity, &request_id, now)?;
            let conflict_token = deployment.conflict_token();
            Ok((Some(deployment), CreateWorkerDeploymentResponse { conflict_token }))
        });
        created.await.map_err(failed)
    }

    pub(crate) async fn create_deployment_version(
        &self,
        request: CreateWorkerDeploymentVersionRequest,
    ) -> Result<CreateWorkerDeploymentVersionResponse, Status> {
        let namespace = self.deployments_of(&request.namespace)?;
        let version = request.deployment_version.unwrap_or_default();
        let (name, build) = (version.deployment_name, version.build_id);
        for (field, value) in [("deployment name", &name), ("build ID", &build)] {
            if value.is_empty() {
                return Err(Status::invalid_argument(format!("{field} cannot be empty")));
            }
        }
        names::check_name(&name).and_then(|()| names::check_build(&build)).map_err(bad)?;
        if request.compute_config.is_some_and(|config| !config.scaling_groups.is_empty()) {
            return Err(no_compute());
        }
        let runs = &self.node.runs;
        if runs.deployments.deployment(namespace.key, &name).is_none() {
            return Err(bad(DeploymentError::unknown_deployment(&name)));
        }
        let request_id = if request.request_id.is_empty() { runs.uuid() } else { request.request_id };
        let created = runs.create_deployment_version(&namespace, (name, build), request.identity, request_id);
        created.await.map_err(failed)?;
        Ok(CreateWorkerDeploymentVersionResponse {})
    }

    /// The answer to calls about configurations of compute providers: Segno starts no workers.
    pub(crate) fn no_compute(&self, namespace: &str) -> Status {
        self.deployments_of(namespace).map_or_else(|status| status, |_| no_compute())
    }
}

fn no_compute() -> Status {
    Status::unimplemented(NO_COMPUTE)
}
