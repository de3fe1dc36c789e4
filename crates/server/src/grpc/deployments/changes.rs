//! DeleteWorkerDeploymentVersion, DeleteWorkerDeployment, UpdateWorkerDeploymentVersionMetadata, SetWorkerDeploymentManager.
//! As in Temporal they are allowed where worker deployments are switched off.

use segno_node::{
    DeploymentError,
    calls::{self, MetadataChange, NewManager},
    names,
};
use segno_proto::{
    deployment::VersionMetadata,
    workflowservice::{
        DeleteWorkerDeploymentRequest, DeleteWorkerDeploymentResponse, DeleteWorkerDeploymentVersionRequest,
        DeleteWorkerDeploymentVersionResponse, SetWorkerDeploymentManagerRequest, SetWorkerDeploymentManagerResponse,
        UpdateWorkerDeploymentVersionMetadataRequest, UpdateWorkerDeploymentVersionMetadataResponse,
        set_worker_deployment_manager_request::NewManagerIdentity,
    },
};
use tonic::Status;

use super::{bad, pair};
use crate::grpc::{Workflows, failed};

impl Workflows {
    #[expect(deprecated, reason = "older clients name versions by strings")]
    pub(crate) async fn delete_deployment_version(
        &self,
        request: DeleteWorkerDeploymentVersionRequest,
    ) -> Result<DeleteWorkerDeploymentVersionResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let given = pair(request.deployment_version.as_ref());
        let (name, build) = names::requested_version(given, &request.version).map_err(bad)?;
        let (runs, of) = (&self.node.runs, name.clone());
        let at = runs.drainage_view();
        // A caller without an identity is no manager, and gets one of its own, as in Temporal.
        let identity = if request.identity.is_empty() { runs.uuid() } else { request.identity };
        let deleted = runs.change_deployment(namespace.key, &name, move |before, _, uses| {
            let mut deployment = before.cloned().ok_or_else(|| DeploymentError::unknown_workflow(&of))?;
            let caller = (identity.as_str(), request.skip_drainage);
            calls::delete_version(&mut deployment, &build, caller, &|| uses.of_version(&build), at)?;
            Ok((Some(deployment), DeleteWorkerDeploymentVersionResponse {}))
        });
        deleted.await.map_err(failed)
    }

    pub(crate) async fn delete_deployment(
        &self,
        request: DeleteWorkerDeploymentRequest,
    ) -> Result<DeleteWorkerDeploymentResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        names::check_name(&request.deployment_name).map_err(bad)?;
        let deleted = self.node.runs.change_deployment(namespace.key, &request.deployment_name, |before, _, _| {
            if let Some(deployment) = before {
                calls::check_deletable(deployment)?;
            }
            Ok((None, DeleteWorkerDeploymentResponse {}))
        });
        deleted.await.map_err(failed)
    }

    #[expect(deprecated, reason = "older clients name versions by strings")]
    pub(crate) async fn update_version_metadata(
        &self,
        request: UpdateWorkerDeploymentVersionMetadataRequest,
    ) -> Result<UpdateWorkerDeploymentVersionMetadataResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let change = MetadataChange {
            upserts: request.upsert_entries,
            removals: request.remove_entries,
            identity: request.identity,
        };
        change.check().map_err(bad)?;
        let named = names::split(&request.version).filter(|(name, build)| !name.is_empty() && !build.is_empty());
        let (name, build) = pair(request.deployment_version.as_ref()).or(named).unwrap_or_default();
        let (name, build) = (name.to_owned(), build.to_owned());
        let of = name.clone();
        let changed = self.node.runs.change_deployment(namespace.key, &name, move |before, _, _| {
            let mut deployment = before.cloned().ok_or_else(|| calls::unknown_version(&of, &build))?;
            let entries = calls::update_metadata(&mut deployment, &build, &change)?;
            let metadata = Some(VersionMetadata { entries });
            Ok((Some(deployment), UpdateWorkerDeploymentVersionMetadataResponse { metadata }))
        });
        changed.await.map_err(failed)
    }

    #[expect(deprecated, reason = "older clients read the manager before")]
    pub(crate) async fn set_deployment_manager(
        &self,
        request: SetWorkerDeploymentManagerRequest,
    ) -> Result<SetWorkerDeploymentManagerResponse, Status> {
        let namespace = self.namespace(&request.namespace)?;
        let manager = match request.new_manager_identity {
            Some(NewManagerIdentity::ManagerIdentity(manager)) => manager,
            Some(NewManagerIdentity::Self_(true)) => request.identity.clone(),
            Some(NewManagerIdentity::Self_(false)) | None => String::new(),
        };
        let new = NewManager { manager, conflict_token: request.conflict_token, identity: request.identity };
        new.check(&request.deployment_name).map_err(bad)?;
        let of = request.deployment_name.clone();
        let changed =
            self.node.runs.change_deployment(namespace.key, &request.deployment_name, move |before, now, _| {
                let mut deployment = before.cloned().ok_or_else(|| DeploymentError::unknown_workflow(&of))?;
                let previous_manager_identity = calls::set_manager(&mut deployment, &new, now)?;
                let conflict_token = deployment.conflict_token();
                Ok((Some(deployment), SetWorkerDeploymentManagerResponse { conflict_token, previous_manager_identity }))
            });
        changed.await.map_err(failed)
    }
}
