//! What can be set of deployments, and what is refused beyond the limits.

use segno_proto::Nanos;

use crate::error::DeploymentError;

const SECOND: Nanos = 1_000_000_000;

/// What can be set of deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeploymentLimits {
    /// Whether there are deployments at all.
    pub enabled: bool,
    /// Most deployments of a namespace.
    pub deployments_max: usize,
    /// Most versions of a deployment.
    pub versions_max: usize,
    /// Most names of queues of a version.
    pub queues_max: usize,
    /// Most versions that have the same queue.
    pub versions_of_queue_max: usize,
    /// How long a version that was deactivated is draining at least.
    pub drainage_grace: Nanos,
    /// How long a worker counts as a poller of its version.
    pub poller_ttl: Nanos,
    /// After so long a version that is inactive or drained, and that has no pollers, is removed; `None` if it is kept.
    pub retention: Option<Nanos>,
}

impl Default for DeploymentLimits {
    fn default() -> Self {
        Self {
            enabled: true,
            deployments_max: 100,
            versions_max: 100,
            queues_max: 100,
            versions_of_queue_max: 200,
            drainage_grace: 10 * SECOND,
            poller_ttl: 300 * SECOND,
            retention: None,
        }
    }
}

impl DeploymentLimits {
    /// Refuses a further deployment.
    pub fn check_deployments(&self, count: usize) -> Result<(), DeploymentError> {
        let max = self.deployments_max;
        reached(count >= max, || format!("reached maximum deployments in namespace ({max})"))
    }

    /// Refuses a further version of a deployment, written `name.build`.
    pub(crate) fn check_versions(&self, count: usize, version: &str) -> Result<(), DeploymentError> {
        let max = self.versions_max;
        match count >= max {
            true => Err(DeploymentError::VersionsFull { version: version.to_owned(), max }),
            false => Ok(()),
        }
    }

    /// Refuses a further queue of a version.
    pub(crate) fn check_queues(&self, count: usize, queue: &str) -> Result<(), DeploymentError> {
        let max = self.queues_max;
        reached(count >= max, || {
            format!(
                "cannot add task queue {queue} since maximum number of task queues ({max}) have been registered in deployment"
            )
        })
    }

    /// Refuses a further version of a queue that so many have.
    pub fn check_versions_of_queue(&self, count: usize) -> Result<(), DeploymentError> {
        let max = self.versions_of_queue_max;
        reached(count >= max, || {
            format!("exceeding maximum number of Deployment Versions in this task queue (limit = {max})")
        })
    }
}

fn reached(is_reached: bool, text: impl FnOnce() -> String) -> Result<(), DeploymentError> {
    if is_reached { Err(DeploymentError::LimitReached(text())) } else { Ok(()) }
}
