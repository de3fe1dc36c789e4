//! What a run knows of versions of workers, as stored, and what follows from it.
//!
//! A run that has never had to do with versions has none of this. History tells most of it: behaviour, version, override and what the
//! run inherited are functions of its events ([`Versioning::started`], [`Versioning::completed`], [`Versioning::set_override`]). History
//! does not tell the transition, its revision, and the notification of a changed target: these live with the started workflow task,
//! in memory until something durable happens, and a run that is rebuilt begins without them. Losing them is harmless: the task is
//! offered again, and the next start finds the same difference between the run's version and its target.

use segno_proto::{
    deployment::{InheritedAutoUpgradeInfo, WorkerDeploymentVersion},
    enums::{ContinueAsNewVersioningBehavior, VersioningBehavior},
    events::{DeclinedTargetVersionUpgrade, WorkflowExecutionStartedEventAttributes},
    workflow::{VersioningOverride, versioning_override::Override},
};

/// A version that tasks go to, and the revision of the routing that says so.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Target {
    /// The version; `None` for workers without one.
    #[prost(message, optional, tag = "1")]
    pub version: Option<WorkerDeploymentVersion>,
    /// The revision of the deployment's routing.
    #[prost(int64, tag = "2")]
    pub revision: i64,
}

/// A run on its way to another version.
#[derive(Clone, PartialEq, prost::Message)]
pub struct VersionTransition {
    /// The version; `None` for workers without one.
    #[prost(message, optional, tag = "1")]
    pub version: Option<WorkerDeploymentVersion>,
    /// Whether an activity was held back. From then on the transition is stored: its end offers the activity again.
    #[prost(bool, tag = "2")]
    pub holds_activities: bool,
}

/// The versioning of a run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Versioning {
    /// The behavior that the worker reported when it completed the last workflow task.
    #[prost(enumeration = "VersioningBehavior", tag = "1")]
    pub behavior: i32,
    /// Its version; `None` if the behaviour is unspecified.
    #[prost(message, optional, tag = "2")]
    pub version: Option<WorkerDeploymentVersion>,
    /// The override of a caller, in the form that history has.
    #[prost(message, optional, tag = "3")]
    pub versioning_override: Option<VersioningOverride>,
    /// Set from the start of a workflow task at another version until one is completed there.
    #[prost(message, optional, tag = "4")]
    pub transition: Option<VersionTransition>,
    /// The revision of the routing that the run last followed; 0 if it is not known.
    #[prost(int64, tag = "5")]
    pub revision: i64,
    /// The target of which the worker of a pinned run was notified.
    #[prost(message, optional, tag = "6")]
    pub notified: Option<Target>,
    /// The target of which an earlier run was notified, and to which it did not move.
    #[prost(message, optional, tag = "7")]
    pub declined: Option<Target>,
    /// How the run before wanted this one to begin.
    #[prost(enumeration = "ContinueAsNewVersioningBehavior", tag = "8")]
    pub initial_behavior: i32,
}

/// The versioning that a run leaves to a child, or to the run that follows it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct InheritedVersioning {
    /// The version to which it is pinned.
    #[prost(message, optional, tag = "1")]
    pub pinned: Option<WorkerDeploymentVersion>,
    /// The version from which it upgrades.
    #[prost(message, optional, tag = "2")]
    pub auto_upgrade: Option<InheritedAutoUpgradeInfo>,
    /// The override.
    #[prost(message, optional, tag = "3")]
    pub versioning_override: Option<VersioningOverride>,
    /// The target to which the run before did not move.
    #[prost(message, optional, tag = "4")]
    pub declined: Option<DeclinedTargetVersionUpgrade>,
}

/// The version to which an override sends workflow tasks.
pub fn override_version(given: &VersioningOverride) -> Option<&WorkerDeploymentVersion> {
    match given.r#override.as_ref()? {
        Override::Pinned(pinned) => pinned.version.as_ref(),
        Override::OneTime(one_time) => one_time.target_deployment_version.as_ref(),
        Override::AutoUpgrade(_) => None,
    }
}

/// The behaviour that an override gives a run.
fn override_behavior(given: &VersioningOverride) -> VersioningBehavior {
    match given.r#override {
        Some(Override::Pinned(_) | Override::OneTime(_)) => VersioningBehavior::Pinned,
        Some(Override::AutoUpgrade(_)) => VersioningBehavior::AutoUpgrade,
        None => VersioningBehavior::Unspecified,
    }
}

impl Versioning {
    /// The versioning in the first event of a run; `None` if it has none.
    pub(crate) fn started(first: &WorkflowExecutionStartedEventAttributes) -> Option<Box<Self>> {
        let mut state = Self { versioning_override: first.versioning_override.clone(), ..Self::default() };
        if let Some(version) = &first.inherited_pinned_version {
            state.behavior = VersioningBehavior::Pinned as i32;
            state.version = Some(version.clone());
        } else if let Some(from) = &first.inherited_auto_upgrade_info {
            state.behavior = VersioningBehavior::AutoUpgrade as i32;
            state.version.clone_from(&from.source_deployment_version);
            state.revision = from.source_deployment_revision_number;
            state.initial_behavior = from.continue_as_new_initial_versioning_behavior;
        }
        state.declined = first.declined_target_version_upgrade.as_ref().map(|declined| Target {
            version: declined.deployment_version.clone(),
            revision: declined.revision_number,
        });
        (state != Self::default()).then(|| Box::new(state))
    }

    /// Applies the completion of a workflow task. A one-time override is over once its target has answered.
    pub(crate) fn completed(&mut self, behavior: VersioningBehavior, version: Option<&WorkerDeploymentVersion>) {
        self.behavior = behavior as i32;
        self.version = version.filter(|_| behavior != VersioningBehavior::Unspecified).cloned();
        let given = self.versioning_override.as_ref();
        if given.is_some_and(|given| is_one_time(given) && override_version(given) == version) {
            self.versioning_override = None;
        }
    }

    /// An override is given or taken back. What was said about targets counts no longer.
    pub(crate) fn set_override(&mut self, given: Option<VersioningOverride>) {
        if given.is_some() {
            (self.notified, self.declined) = (None, None);
        }
        self.versioning_override = given;
    }

    /// The behaviour, leaving aside a transition.
    pub fn settled_behavior(&self) -> VersioningBehavior {
        self.versioning_override.as_ref().map_or(self.behavior(), override_behavior)
    }

    /// The version, leaving aside a transition.
    pub fn settled_version(&self) -> Option<&WorkerDeploymentVersion> {
        self.versioning_override.as_ref().and_then(override_version).or(self.version.as_ref())
    }

    /// The behaviour by which tasks go.
    pub fn effective_behavior(&self) -> VersioningBehavior {
        match self.transition {
            Some(_) => VersioningBehavior::AutoUpgrade,
            None => self.settled_behavior(),
        }
    }

    /// The version at which the run is; `None` for workers without one.
    pub fn effective_version(&self) -> Option<&WorkerDeploymentVersion> {
        match &self.transition {
            Some(transition) => transition.version.as_ref(),
            None if self.settled_behavior() == VersioningBehavior::Unspecified => None,
            None => self.settled_version(),
        }
    }

    /// The version to which the run is pinned.
    pub fn pinned_version(&self) -> Option<&WorkerDeploymentVersion> {
        self.effective_version().filter(|_| self.effective_behavior() == VersioningBehavior::Pinned)
    }
}

/// Whether an override is over once its target has completed a workflow task.
pub fn is_one_time(given: &VersioningOverride) -> bool {
    matches!(given.r#override, Some(Override::OneTime(_)))
}
