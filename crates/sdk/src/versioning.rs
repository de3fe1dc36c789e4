//! Worker deployments: versions of workers, and the versions that execute workflows.

use segno_proto::{
    deployment as wire, enums,
    workflow::{
        self,
        versioning_override::{OneTimeOverride, Override, PinnedOverride, PinnedOverrideBehavior},
    },
};

/// Whether a workflow moves to another version when the server's routing does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersioningBehavior {
    /// Not given: [`Deployment::default_behavior`] applies, and if that is not given either
    /// [`AutoUpgrade`](Self::AutoUpgrade).
    #[default]
    Unspecified,
    /// The run stays with the version that executed its first workflow task.
    Pinned,
    /// Each workflow task goes to the version that the routing names.
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

    pub(crate) fn from_wire(behavior: i32) -> Self {
        match enums::VersioningBehavior::try_from(behavior).unwrap_or_default() {
            enums::VersioningBehavior::Unspecified => Self::Unspecified,
            enums::VersioningBehavior::Pinned => Self::Pinned,
            enums::VersioningBehavior::AutoUpgrade => Self::AutoUpgrade,
        }
    }
}

/// A version of a deployment: one build of its program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeploymentVersion {
    /// The deployment.
    pub deployment: String,
    /// The build.
    pub build_id: String,
}

impl DeploymentVersion {
    /// The version with these names.
    pub fn new(deployment: impl Into<String>, build_id: impl Into<String>) -> Self {
        Self { deployment: deployment.into(), build_id: build_id.into() }
    }

    pub(crate) fn to_wire(&self) -> wire::WorkerDeploymentVersion {
        wire::WorkerDeploymentVersion { deployment_name: self.deployment.clone(), build_id: self.build_id.clone() }
    }

    pub(crate) fn from_wire(version: wire::WorkerDeploymentVersion) -> Self {
        Self { deployment: version.deployment_name, build_id: version.build_id }
    }
}

impl std::fmt::Display for DeploymentVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.deployment, self.build_id)
    }
}

/// The version of the program that a worker belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The program.
    pub name: String,
    /// Its version.
    pub build_id: String,
    /// Whether the server routes workflows by version. Otherwise the version is only shown to people.
    pub use_versioning: bool,
    /// The behaviour of workflows whose attribute names none.
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

    pub(crate) fn version(&self) -> DeploymentVersion {
        DeploymentVersion::new(&self.name, &self.build_id)
    }

    /// The behaviour to report for a workflow whose own one is `own`.
    pub(crate) fn behavior(&self, own: VersioningBehavior) -> VersioningBehavior {
        match (self.use_versioning, own, self.default_behavior) {
            (false, ..) => VersioningBehavior::Unspecified,
            // Without a behaviour the server would take the run for an unversioned one.
            (true, VersioningBehavior::Unspecified, VersioningBehavior::Unspecified) => VersioningBehavior::AutoUpgrade,
            (true, VersioningBehavior::Unspecified, default) => default,
            (true, own, _) => own,
        }
    }
}

/// Which version executes a workflow. It precedes the behaviour of the workflow and the routing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersioningOverride {
    /// This version, until the override is removed.
    Pinned {
        /// The deployment.
        deployment: String,
        /// The build.
        build_id: String,
    },
    /// The version that the routing names, until the override is removed.
    AutoUpgrade,
    /// This version, until it has completed one workflow task. Then the override is gone, and the behaviour is the one
    /// that this version reported.
    OneTime {
        /// The deployment.
        deployment: String,
        /// The build.
        build_id: String,
    },
}

impl VersioningOverride {
    pub(crate) fn to_wire(&self) -> workflow::VersioningOverride {
        let version =
            |deployment: &String, build_id: &String| Some(DeploymentVersion::new(deployment, build_id).to_wire());
        let chosen = match self {
            Self::Pinned { deployment, build_id } => Override::Pinned(PinnedOverride {
                behavior: PinnedOverrideBehavior::Pinned as i32,
                version: version(deployment, build_id),
            }),
            Self::AutoUpgrade => Override::AutoUpgrade(true),
            Self::OneTime { deployment, build_id } => {
                Override::OneTime(OneTimeOverride { target_deployment_version: version(deployment, build_id) })
            }
        };
        workflow::VersioningOverride { r#override: Some(chosen), ..Default::default() }
    }

    /// The options of a workflow with this override, or without any, and the mask that changes the override alone.
    pub(crate) fn update(versioning: Option<&Self>) -> (workflow::WorkflowExecutionOptions, prost_types::FieldMask) {
        let options = workflow::WorkflowExecutionOptions {
            versioning_override: versioning.map(Self::to_wire),
            ..Default::default()
        };
        (options, prost_types::FieldMask { paths: vec!["versioning_override".to_owned()] })
    }
}

/// Where the first workflow task of a run goes that continues another one. Later ones follow the behaviour that the
/// worker reports with the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialVersioning {
    /// To the version that the routing names, also if this run is pinned.
    AutoUpgrade,
    /// To the ramping version, at any percentage; to the current one if no version is ramping.
    RampingVersion,
}

impl InitialVersioning {
    pub(crate) fn to_wire(self) -> i32 {
        let behavior = match self {
            Self::AutoUpgrade => enums::ContinueAsNewVersioningBehavior::AutoUpgrade,
            Self::RampingVersion => enums::ContinueAsNewVersioningBehavior::UseRampingVersion,
        };
        behavior as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workflow_decides_before_the_worker() {
        use VersioningBehavior as B;
        let deployment = |default| Deployment { default_behavior: default, ..Deployment::new("shop", "1") };
        for (own, default, reported) in [
            (B::Unspecified, B::Unspecified, B::AutoUpgrade),
            (B::Unspecified, B::Pinned, B::Pinned),
            (B::AutoUpgrade, B::Pinned, B::AutoUpgrade),
            (B::Pinned, B::Unspecified, B::Pinned),
        ] {
            assert_eq!(deployment(default).behavior(own), reported, "{own:?} {default:?}");
            let unversioned = Deployment { use_versioning: false, ..deployment(default) };
            assert_eq!(unversioned.behavior(own), B::Unspecified, "servers refuse a behaviour without versioning");
        }
    }
}
