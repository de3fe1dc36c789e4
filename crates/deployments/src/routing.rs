//! Where the tasks of one queue go that are pinned to no version.

use std::sync::Arc;

use segno_proto::deployment::WorkerDeploymentVersion;

/// A version of the workers of a deployment.
pub type Version = Arc<WorkerDeploymentVersion>;

/// The version of a deployment that has a build id.
pub fn named_version(deployment_name: String, build_id: String) -> Version {
    Arc::new(WorkerDeploymentVersion { deployment_name, build_id })
}

/// What is polled for on a queue. A queue name has members of each type by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueType {
    /// Workflow tasks.
    Workflow,
    /// Activities.
    Activity,
    /// Nexus tasks.
    Nexus,
}

/// A queue that workers of a version have polled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberQueue {
    /// The name of the queue.
    pub name: String,
    /// What is polled for.
    pub kind: QueueType,
}

/// A version that tasks go to, and the revision of the routing that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The version; `None` for workers without one.
    pub version: Option<Version>,
    /// The revision of the deployment's routing; 0 where no deployment has the queue.
    pub revision: i64,
}

/// The share of workflows that go to another version than the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    /// Where they go.
    pub target: Target,
    /// How many of a hundred.
    pub percentage: f32,
}

/// Where the tasks of one queue go that are pinned to no version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueRouting {
    /// Where they go, but for those that ramp.
    pub current: Target,
    /// The ramp, if there is one.
    pub ramp: Option<Ramp>,
}

impl QueueRouting {
    /// Where tasks of a workflow go whose id has this hash.
    pub fn target(&self, hash: u32) -> &Target {
        match &self.ramp {
            Some(ramp) if ramp.takes(hash) => &ramp.target,
            _ => &self.current,
        }
    }
}

impl Ramp {
    /// Whether the workflows whose ids have this hash belong to the ramp.
    pub fn takes(&self, hash: u32) -> bool {
        let position = 100.0 * f64::from(hash) / 4_294_967_296.0;
        self.percentage >= 100.0 || self.percentage > 0.0 && position <= f64::from(self.percentage)
    }
}
