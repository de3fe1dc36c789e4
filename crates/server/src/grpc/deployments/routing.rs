//! SetWorkerDeploymentCurrentVersion and SetWorkerDeploymentRampingVersion.

use segno_node::{
    calls::{self, RoutingChange},
    names,
};
use segno_proto::workflowservice::{
    SetWorkerDeploymentCurrentVersionRequest, SetWorkerDeploymentCurrentVersionResponse,
    SetWorkerDeploymentRampingVersionRequest, SetWorkerDeploymentRampingVersionResponse,
};
use tonic::Status;

use super::bad;
use crate::grpc::{Workflows, failed};

impl Workflows {
    #[expect(deprecated, reason = "older clients name versions by strings")]
    pub(crate) async fn set_current_version(
        &self,
        request: SetWorkerDeploymentCurrentVersionRequest,
    ) -> Result<SetWorkerDeploymentCurrentVersionResponse, Status> {
        let namespace = self.deployments_of(&request.namespace)?;
        let change = RoutingChange {
            name: request.deployment_name,
            build: None,
            conflict_token: request.conflict_token,
            identity: request.identity,
            ignore_missing_queues: request.ignore_missing_task_queues,
            allow_no_pollers: request.allow_no_pollers,
        };
        let change = calls::current_request(change, &request.build_id, &request.version).map_err(bad)?;
        let (limits, name) = (self.node.runs.deployment_limits, change.name.clone());
        let changed = self.node.runs.change_deployment(namespace.key, &name, move |before, now, uses| {
            let set = calls::set_current(before, &change, &limits, now, &|queue| uses.has_tasks(queue))?;
            let response = SetWorkerDeploymentCurrentVersionResponse {
                conflict_token: set.deployment.conflict_token(),
                previous_version: names::dotted(&change.name, set.previous.as_deref()),
                previous_deployment_version: set.previous.as_deref().map(|build| set.deployment.version(build)),
            };
            Ok((Some(set.deployment), response))
        });
        changed.await.map_err(failed)
    }

    #[expect(deprecated, reason = "older clients name versions by strings")]
    pub(crate) async fn set_ramping_version(
        &self,
        request: SetWorkerDeploymentRampingVersionRequest,
    ) -> Result<SetWorkerDeploymentRampingVersionResponse, Status> {
        let namespace = self.deployments_of(&request.namespace)?;
        let percentage = request.percentage;
        let change = RoutingChange {
            name: request.deployment_name,
            build: None,
            conflict_token: request.conflict_token,
            identity: request.identity,
            ignore_missing_queues: request.ignore_missing_task_queues,
            allow_no_pollers: request.allow_no_pollers,
        };
        let named = (request.build_id.as_str(), request.version.as_str());
        let change = calls::ramping_request(change, named, percentage).map_err(bad)?;
        let (limits, name) = (self.node.runs.deployment_limits, change.name.clone());
        let changed = self.node.runs.change_deployment(namespace.key, &name, move |before, now, uses| {
            let set = calls::set_ramping(before, &change, percentage, &limits, now, &|queue| uses.has_tasks(queue))?;
            let previous = set.previous.as_ref().map(Option::as_deref);
            let response = SetWorkerDeploymentRampingVersionResponse {
                conflict_token: set.deployment.conflict_token(),
                previous_version: previous.map(|build| names::dotted(&change.name, build)).unwrap_or_default(),
                previous_deployment_version: previous.flatten().map(|build| set.deployment.version(build)),
                previous_percentage: set.previous_percentage,
            };
            Ok((Some(set.deployment), response))
        });
        changed.await.map_err(failed)
    }
}
