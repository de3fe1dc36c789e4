//! Worker deployment versions.

use segno_proto::{deployment as wire, enums};

/// What a workflow does when a newer version of its deployment becomes current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersioningBehavior {
    /// Not said: what the deployment says, and if it says nothing as [`AutoUpgrade`](Self::AutoUpgrade).
    #[default]
    Unspecified,
    /// It stays with the version that it began with.
    Pinned,
    /// It goes on with the new one.
    AutoUpgrade,
}

impl VersioningBehavior {
    pub(crate) fn to_wire(self) -> i32 {
        let behavior = match self {
            Self::Unspecified => enums::VersioningBehavior::Unspecified,
            Self::Pinned => enums::VersioningBehavior::Pinned,
            Self::AutoUpgrade => enums::VersioningBehavior::AutoUpgrade,
        };
        behavior as i32
    }
}

/// The version of the program that a worker belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The program.
    pub name: String,
    /// Its version.
    pub build_id: String,
    /// Whether the server routes workflows by version. Otherwise the version is only for people.
    pub use_versioning: bool,
    /// What workflows do that do not say it themselves when a newer version becomes current.
    pub default_behavior: VersioningBehavior,
}

impl Deployment {
    /// A version that the server routes by.
    pub fn new(name: impl Into<String>, build_id: impl Into<String>) -> Self {
        let (name, build_id) = (name.into(), build_id.into());
        Self { name, build_id, use_versioning: true, default_behavior: VersioningBehavior::default() }
    }

    pub(crate) fn to_wire(&self) -> wire::WorkerDeploymentOptions {
        let mode = match self.use_versioning {
            true => enums::WorkerVersioningMode::Versioned,
            false => enums::WorkerVersioningMode::Unversioned,
        };
        wire::WorkerDeploymentOptions {
            deployment_name: self.name.clone(),
            build_id: self.build_id.clone(),
            worker_versioning_mode: mode as i32,
        }
    }

    pub(crate) fn version(&self) -> wire::WorkerDeploymentVersion {
        wire::WorkerDeploymentVersion { deployment_name: self.name.clone(), build_id: self.build_id.clone() }
    }
}
