//! DescribeWorkerDeployment, ListWorkerDeployments, DescribeWorkerDeploymentVersion.

use std::sync::Arc;

use bytes::Bytes;
use segno_node::{
    DeploymentError, DrainageView, ListCaller, MemberQueue, Namespace, PinnedCounts, WorkerDeployment, names,
};
use segno_proto::workflowservice::{
    DescribeWorkerDeploymentRequest, DescribeWorkerDeploymentResponse, DescribeWorkerDeploymentVersionRequest,
    DescribeWorkerDeploymentVersionResponse, ListWorkerDeploymentsRequest, ListWorkerDeploymentsResponse,
    describe_worker_deployment_version_response::VersionTaskQueue,
    list_worker_deployments_response::WorkerDeploymentSummary,
};
use tonic::{Request, Status};

use super::{bad, pair};
use crate::{
    grpc::{Workflows, failed, visibility::caller},
    status::not_found,
};

const PAGE_SIZE_MAX: usize = 1000;

impl Workflows {
    pub(crate) async fn describe_deployment(
        &self,
        request: Request<DescribeWorkerDeploymentRequest>,
    ) -> Result<DescribeWorkerDeploymentResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.deployments_of(&request.namespace)?;
        let name = request.deployment_name;
        names::check_name(&name).map_err(bad)?;
        let Some(deployment) = self.node.runs.deployments.deployment(namespace.key, &name) else {
            return Err(bad(DeploymentError::unknown_deployment(&name)));
        };
        let (pinned, at) = self.look_at(caller, &namespace, &deployment).await?;
        Ok(DescribeWorkerDeploymentResponse {
            conflict_token: deployment.conflict_token(),
            worker_deployment_info: Some(deployment.info(&pinned, at)),
        })
    }

    pub(crate) async fn list_deployments(
        &self,
        request: Request<ListWorkerDeploymentsRequest>,
    ) -> Result<ListWorkerDeploymentsResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.deployments_of(&request.namespace)?;
        let wanted = usize::try_from(request.page_size).unwrap_or_default();
        let size = if (1..=PAGE_SIZE_MAX).contains(&wanted) { wanted } else { PAGE_SIZE_MAX };
        let after = after_of(&request.next_page_token)?;
        // One more says whether there is a next page.
        let mut page = self.node.runs.deployments.page(namespace.key, &after, size + 1);
        let has_more = page.len() > size;
        page.truncate(size);
        let next = page.last().filter(|_| has_more);
        let next_page_token = next.map(|last| token_after(&last.name)).unwrap_or_default();
        let mut worker_deployments = Vec::with_capacity(page.len());
        for deployment in page {
            let (pinned, at) = self.look_at(caller, &namespace, &deployment).await?;
            worker_deployments.push(summary_of(&deployment, &pinned, at));
        }
        Ok(ListWorkerDeploymentsResponse { next_page_token, worker_deployments })
    }

    #[expect(deprecated, reason = "older clients name versions by strings")]
    pub(crate) async fn describe_deployment_version(
        &self,
        request: Request<DescribeWorkerDeploymentVersionRequest>,
    ) -> Result<DescribeWorkerDeploymentVersionResponse, Status> {
        let (caller, request) = (caller(&request), request.into_inner());
        let namespace = self.deployments_of(&request.namespace)?;
        let given = pair(request.deployment_version.as_ref());
        if given.is_none() && request.version.is_empty() {
            return Err(Status::invalid_argument("deployment version cannot be empty"));
        }
        let (name, build) = names::requested_version(given, &request.version).map_err(bad)?;
        names::check_build(&build).map_err(bad)?;
        let unknown = || not_found("Worker Deployment Version not found");
        let deployment = self.node.runs.deployments.deployment(namespace.key, &name).ok_or_else(unknown)?;
        if deployment.build(&build).is_none() {
            return Err(unknown());
        }
        let (pinned, at) = self.look_at(caller, &namespace, &deployment).await?;
        let info = deployment.version_info(&build, &pinned, at).ok_or_else(unknown)?;
        let queues: Vec<MemberQueue> =
            deployment.versions.get(&build).map(|version| version.members().collect()).unwrap_or_default();
        let shared = Arc::new(deployment.version(&build));
        let mut version_task_queues = Vec::with_capacity(queues.len());
        for queue in queues {
            let stats = match request.report_task_queue_stats {
                true => {
                    let found = self.node.runs.queue_use(namespace.key, &queue, Some(&shared)).await;
                    Some(found.map_err(failed)?)
                }
                false => None,
            };
            let (stats, stats_by_priority_key) =
                stats.map(|found| (Some(found.stats), found.stats_by_priority)).unwrap_or_default();
            let r#type = queue.kind.wire() as i32;
            version_task_queues.push(VersionTaskQueue { name: queue.name, r#type, stats, stats_by_priority_key });
        }
        Ok(DescribeWorkerDeploymentVersionResponse { worker_deployment_version_info: Some(info), version_task_queues })
    }

    /// The workflows pinned to the versions of a deployment, and the moment at which that is so.
    async fn look_at(
        &self,
        caller: ListCaller,
        namespace: &Arc<Namespace>,
        deployment: &WorkerDeployment,
    ) -> Result<(PinnedCounts, DrainageView), Status> {
        let runs = &self.node.runs;
        let pinned = runs.pinned_counts(caller, namespace, deployment).await.map_err(failed)?;
        Ok((pinned, runs.drainage_view()))
    }
}

fn summary_of(deployment: &WorkerDeployment, pinned: &PinnedCounts, at: DrainageView) -> WorkerDeploymentSummary {
    let record = &deployment.record;
    let summary = |build: &str| deployment.build(build).map(|build| deployment.summary(build, pinned, at));
    WorkerDeploymentSummary {
        name: deployment.name.clone(),
        create_time: Some(segno_proto::nanos_timestamp(record.created)),
        routing_config: Some(deployment.routing_config()),
        latest_version_summary: record.builds.last().map(|build| deployment.summary(build, pinned, at)),
        current_version_summary: record.current.as_deref().and_then(summary),
        ramping_version_summary: deployment.ramping_build().flatten().and_then(summary),
    }
}

/// A token says after which name the next page begins.
const TOKEN_PREFIX: &str = "after:";

fn token_after(name: &str) -> Bytes {
    format!("{TOKEN_PREFIX}{name}").into()
}

fn after_of(token: &[u8]) -> Result<String, Status> {
    if token.is_empty() {
        return Ok(String::new());
    }
    let name = std::str::from_utf8(token).ok().and_then(|token| token.strip_prefix(TOKEN_PREFIX));
    name.map(str::to_owned).ok_or_else(|| Status::invalid_argument("invalid next page token"))
}
