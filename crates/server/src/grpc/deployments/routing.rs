//! SetWorkerDeploymentCurrentVersion and SetWorkerDeploymentRampingVersion.

use std::{collections::BTreeSet, sync::Arc};

use segno_node::{
    MemberQueue, Namespace,
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
        let used = self.prepare_routing(&namespace, &change).await?;
        let (limits, name) = (self.node.runs.deployment_limits, change.name.clone());
        let changed = self.node.runs.change_deployment(namespace.key, &name, move |before, now| {
            let set = calls::set_current(before, &change, &limits, now, &|queue| used.contains(queue))?;
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
        let used = self.prepare_routing(&namespace, &change).await?;
        let (limits, name) = (self.node.runs.deployment_limits, change.name.clone());
        let changed = self.node.runs.change_deployment(namespace.key, &name, move |before, now| {
            let set = calls::set_ramping(before, &change, percentage, &limits, now, &|queue| used.contains(queue))?;
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

    /// Makes room for a version that may be created, and finds which of the queues it lacks have tasks that would lose their workers.
    async fn prepare_routing(
        &self,
        namespace: &Arc<Namespace>,
        change: &RoutingChange,
    ) -> Result<BTreeSet<MemberQueue>, Status> {
        let runs = &self.node.runs;
        let Some(build) = &change.build else { return Ok(BTreeSet::new()) };
        if change.allow_no_pollers {
            runs.make_room(namespace, &change.name, build).await.map_err(failed)?;
        }
        let Some(deployment) = runs.deployments.deployment(namespace.key, &change.name) else {
            return Ok(BTreeSet::new());
        };
        if change.ignore_missing_queues {
            return Ok(BTreeSet::new());
        }
        // A queue that has moved to another deployment loses nothing.
        let is_here = |queue: &MemberQueue| {
            let current =
                runs.deployments.routing(namespace.key, queue).and_then(|found| found.current.version.clone());
            current.is_none_or(|version| version.deployment_name == change.name)
        };
        let missing = calls::missing_queues(&deployment, build).into_iter().filter(is_here).collect();
        Ok(runs.queues_with_tasks(namespace, missing).await)
    }
}
