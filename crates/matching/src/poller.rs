//! Workers that poll, and what they say of their version.

use segno_deployments::{Version, named_version};
use segno_proto::{
    Nanos, common::WorkerVersionCapabilities, deployment::WorkerDeploymentOptions, enums::WorkerVersioningMode,
};

use super::{key::QueueKind, route::type_of};

/// The version of a worker, as its polls report it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PollerVersion {
    /// Its build.
    #[prost(message, optional, tag = "1")]
    pub capabilities: Option<WorkerVersionCapabilities>,
    /// Its deployment.
    #[prost(message, optional, tag = "2")]
    pub deployment: Option<WorkerDeploymentOptions>,
}

impl PollerVersion {
    /// The report of workers of a version.
    pub fn of(version: Option<&Version>) -> Self {
        let deployment = version.map(|version| WorkerDeploymentOptions {
            deployment_name: version.deployment_name.clone(),
            build_id: version.build_id.clone(),
            worker_versioning_mode: WorkerVersioningMode::Versioned as i32,
        });
        Self { deployment, capabilities: None }
    }

    /// The version of its deployment, if the worker uses versioning. What it says in the newer way comes first.
    pub fn deployment_version(&self) -> Option<Version> {
        self.version().filter(|version| !version.deployment_name.is_empty())
    }

    /// The lane in which the worker waits, in a queue of a kind. A build without a deployment is a lane that gets no tasks.
    pub fn lane(&self, kind: QueueKind) -> Option<Version> {
        type_of(kind).and_then(|_| self.version())
    }

    fn version(&self) -> Option<Version> {
        let version = |name: &String, build: &String| Some(named_version(name.clone(), build.clone()));
        if let Some(options) = &self.deployment {
            let is_versioned = options.worker_versioning_mode == WorkerVersioningMode::Versioned as i32;
            return is_versioned.then(|| version(&options.deployment_name, &options.build_id)).flatten();
        }
        let capabilities = self.capabilities.as_ref().filter(|capabilities| capabilities.use_versioning)?;
        version(&capabilities.deployment_series_name, &capabilities.build_id)
    }
}

/// A worker that polled lately.
#[derive(Clone, Debug, PartialEq)]
pub struct Poller {
    /// The name people know.
    pub identity: String,
    /// When its last poll began.
    pub at: Nanos,
    /// The version that it reported then.
    pub version: PollerVersion,
}
