//! Worker deployments on the server: their versions, and the routing between these.

use std::time::SystemTime;

use segno_proto::{
    deployment::{self as wire, RoutingConfig},
    enums::{RoutingConfigUpdateState, WorkerDeploymentVersionStatus as WireStatus},
    workflowservice::{
        DescribeWorkerDeploymentRequest, SetWorkerDeploymentCurrentVersionRequest,
        SetWorkerDeploymentRampingVersionRequest,
    },
};

use super::{Client, ClientError, time};

/// How the server routes workflows to a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VersionStatus {
    /// Not known.
    #[default]
    Unspecified,
    /// It was created by a call, and no worker of it has polled yet.
    Created,
    /// Workers polled; the routing has not named it yet.
    Inactive,
    /// It takes new workflows.
    Current,
    /// It takes a share of the new workflows.
    Ramping,
    /// Only workflows that are pinned to it are left.
    Draining,
    /// No open workflow is pinned to it.
    Drained,
}

impl VersionStatus {
    fn from_wire(status: i32) -> Self {
        match WireStatus::try_from(status).unwrap_or_default() {
            WireStatus::Unspecified => Self::Unspecified,
            WireStatus::Created => Self::Created,
            WireStatus::Inactive => Self::Inactive,
            WireStatus::Current => Self::Current,
            WireStatus::Ramping => Self::Ramping,
            WireStatus::Draining => Self::Draining,
            WireStatus::Drained => Self::Drained,
        }
    }
}

/// One version of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionSummary {
    /// The build.
    pub build_id: String,
    /// How the server routes workflows to it.
    pub status: VersionStatus,
    /// When the server first knew it.
    pub create_time: Option<SystemTime>,
}

/// A worker deployment, as the server describes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeploymentDescription {
    /// The build that takes new workflows; `None`: workers without versioning.
    pub current: Option<String>,
    /// The build that takes a share of them, if any.
    pub ramping: Option<String>,
    /// That share, in percent.
    pub ramping_percentage: f32,
    /// Whether every task queue has the last change of the routing. Temporal's server needs some time for that.
    pub is_propagated: bool,
    /// All versions, newest first.
    pub versions: Vec<VersionSummary>,
}

impl DeploymentDescription {
    fn of(info: wire::WorkerDeploymentInfo) -> Self {
        let build = |version: Option<wire::WorkerDeploymentVersion>| version.map(|version| version.build_id);
        let is_propagated = info.routing_config_update_state() != RoutingConfigUpdateState::InProgress;
        let RoutingConfig {
            current_deployment_version, ramping_deployment_version, ramping_version_percentage, ..
        } = info.routing_config.unwrap_or_default();
        let versions = info.version_summaries.into_iter().map(|summary| VersionSummary {
            build_id: build(summary.deployment_version).unwrap_or_default(),
            status: VersionStatus::from_wire(summary.status),
            create_time: summary.create_time.as_ref().and_then(time),
        });
        Self {
            current: build(current_deployment_version),
            ramping: build(ramping_deployment_version),
            ramping_percentage: ramping_version_percentage,
            is_propagated,
            versions: versions.collect(),
        }
    }

    /// The status of a version. `None`: the server does not know it.
    pub fn status(&self, build_id: &str) -> Option<VersionStatus> {
        self.versions.iter().find(|version| version.build_id == build_id).map(|version| version.status)
    }
}

/// A worker deployment: [`Client::deployment`].
#[derive(Clone, Debug)]
pub struct DeploymentHandle {
    client: Client,
    name: String,
}

impl DeploymentHandle {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its versions and its routing. `ClientError::NotFound` until a worker of it has polled.
    pub async fn describe(&self) -> Result<DeploymentDescription, ClientError> {
        let request = DescribeWorkerDeploymentRequest {
            namespace: self.client.namespace().to_owned(),
            deployment_name: self.name.clone(),
        };
        let answer = self
            .client
            .call(|mut service| {
                let request = request.clone();
                async move { service.describe_worker_deployment(request).await }
            })
            .await?;
        Ok(DeploymentDescription::of(answer.worker_deployment_info.unwrap_or_default()))
    }

    /// Makes a build the current version: it takes new workflows and those with
    /// [`AutoUpgrade`](crate::VersioningBehavior::AutoUpgrade). If it was ramping, the ramp is removed.
    pub async fn set_current(&self, build_id: impl Into<String>) -> Result<(), ClientError> {
        self.change_current(build_id.into()).await
    }

    /// Removes the current version: workers without versioning take new workflows.
    pub async fn unset_current(&self) -> Result<(), ClientError> {
        self.change_current(String::new()).await
    }

    async fn change_current(&self, build_id: String) -> Result<(), ClientError> {
        let request = SetWorkerDeploymentCurrentVersionRequest {
            namespace: self.client.namespace().to_owned(),
            deployment_name: self.name.clone(),
            build_id,
            identity: self.client.identity().to_owned(),
            ..Default::default()
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.set_worker_deployment_current_version(request).await }
            })
            .await?;
        Ok(())
    }

    /// Makes a build the ramping version: it takes this percentage of what the current one would take, chosen by
    /// workflow id.
    pub async fn set_ramping(&self, build_id: impl Into<String>, percentage: f32) -> Result<(), ClientError> {
        self.change_ramping(build_id.into(), percentage).await
    }

    /// Removes the ramping version.
    pub async fn unset_ramping(&self) -> Result<(), ClientError> {
        self.change_ramping(String::new(), 0.0).await
    }

    async fn change_ramping(&self, build_id: String, percentage: f32) -> Result<(), ClientError> {
        let request = SetWorkerDeploymentRampingVersionRequest {
            namespace: self.client.namespace().to_owned(),
            deployment_name: self.name.clone(),
            build_id,
            percentage,
            identity: self.client.identity().to_owned(),
            ..Default::default()
        };
        self.client
            .call(|mut service| {
                let request = request.clone();
                async move { service.set_worker_deployment_ramping_version(request).await }
            })
            .await?;
        Ok(())
    }
}

impl Client {
    /// A worker deployment, by its name: `client.deployment("shop").set_current("2")`.
    pub fn deployment(&self, name: impl Into<String>) -> DeploymentHandle {
        DeploymentHandle { client: self.clone(), name: name.into() }
    }
}
