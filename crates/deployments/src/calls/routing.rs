//! What changes of the current and of the ramping version have in common: their requests, who may make them, and what becomes of
//! the versions that are routed to, or no longer are.

use segno_proto::{Nanos, enums::VersionDrainageStatus};

use crate::{
    deployment::Deployment,
    error::{DeploymentError, precondition},
    limits::DeploymentLimits,
    names,
    routing::MemberQueue,
};

/// A change of routing that is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoutingChange {
    /// The deployment.
    pub name: String,
    /// The version; `None` for workers without one.
    pub build: Option<String>,
    /// The deployment must not have changed since this was given out; empty if it may.
    pub conflict_token: bytes::Bytes,
    /// Who asks.
    pub identity: String,
    /// Whether queues that the version lacks do not matter.
    pub ignore_missing_queues: bool,
    /// Whether a version that no worker polled for is created.
    pub allow_no_pollers: bool,
}

impl RoutingChange {
    /// Checks the names: the build id only if it could be created.
    pub(super) fn check_names(&self) -> Result<(), DeploymentError> {
        names::check_name(&self.name)?;
        match &self.build {
            Some(build) if self.allow_no_pollers => names::check_build(build),
            _ => Ok(()),
        }
    }

    /// The deployment that is changed: a copy, or a new one if that is allowed.
    pub(super) fn deployment(&self, existing: Option<&Deployment>, now: Nanos) -> Result<Deployment, DeploymentError> {
        match existing {
            Some(existing) => Ok(existing.clone()),
            None if self.allow_no_pollers => Ok(Deployment::new(&self.name, now)),
            None => Err(DeploymentError::unknown_deployment(&self.name)),
        }
    }

    pub(super) fn check_token(&self, deployment: &Deployment) -> Result<(), DeploymentError> {
        deployment.check_token(&self.conflict_token)
    }

    /// Makes sure that the version exists.
    pub(super) fn find_version(
        &self,
        deployment: &mut Deployment,
        limits: &DeploymentLimits,
        now: Nanos,
    ) -> Result<(), DeploymentError> {
        let Some(build) = &self.build else { return Ok(()) };
        if deployment.build(build).is_some() {
            return Ok(());
        }
        if !self.allow_no_pollers {
            let text = format!("build ID '{build}' not found in Worker Deployment '{}'", deployment.name);
            return Err(DeploymentError::NotFound(text));
        }
        limits.check_versions(deployment.record.builds.len(), &names::dotted(&deployment.name, Some(build)))?;
        deployment.add_build(build, now);
        Ok(())
    }

    /// Refuses a version that lacks queues with tasks. `what` it is to become, "current" or "ramping".
    pub(super) fn check_queues(
        &self,
        deployment: &Deployment,
        what: &str,
        is_used: &dyn Fn(&MemberQueue) -> bool,
    ) -> Result<(), DeploymentError> {
        let Some(build) = self.build.as_deref().filter(|_| !self.ignore_missing_queues) else { return Ok(()) };
        if missing_queues(deployment, build).iter().any(is_used) {
            let version = names::colon(&deployment.name, Some(build));
            return Err(precondition(format!(
                "proposed {what} version '{version}' is missing active task queues from the current version; \
                 these would become unversioned if it is set as the {what} version"
            )));
        }
        Ok(())
    }
}

/// The queues of the current version that another version lacks.
pub fn missing_queues(deployment: &Deployment, build: &str) -> Vec<MemberQueue> {
    let current = deployment.record.current.as_ref().and_then(|current| deployment.versions.get(current));
    let queues = current.into_iter().flat_map(|version| version.members());
    queues.filter(|queue| !deployment.has(build, queue)).collect()
}

impl Deployment {
    pub(super) fn check_token(&self, token: &[u8]) -> Result<(), DeploymentError> {
        match token.is_empty() || *token == self.conflict_token()[..] {
            true => Ok(()),
            false => Err(precondition("conflict token mismatch")),
        }
    }

    pub(super) fn check_manager(&self, identity: &str) -> Result<(), DeploymentError> {
        let manager = &self.record.manager;
        if manager.is_empty() || manager == identity {
            return Ok(());
        }
        Err(precondition(format!(
            "ManagerIdentity '{manager}' is set and does not match user identity '{identity}'; to proceed, set your own identity as \
             the ManagerIdentity, remove the ManagerIdentity, or wait for the other client to do so"
        )))
    }

    /// A caller changed it: other callers' tokens no longer fit.
    pub(super) fn touch(&mut self, identity: &str, now: Nanos) {
        identity.clone_into(&mut self.record.last_modifier);
        self.record.conflict_time = now.max(self.record.conflict_time + 1);
    }

    /// A version begins to drain.
    pub(super) fn deactivate(&mut self, build: Option<&str>, now: Nanos) {
        let Some(known) = build.and_then(|build| self.build_mut(build)) else { return };
        known.current_since = 0;
        known.ramping_since = 0;
        known.routing_changed = now;
        known.deactivated = now;
        known.set_drainage(VersionDrainageStatus::Draining);
        known.drainage_changed = now;
    }

    /// A version becomes current, or begins to ramp.
    pub(super) fn activate(&mut self, build: Option<&str>, is_current: bool, now: Nanos) {
        let Some(known) = build.and_then(|build| self.build_mut(build)) else { return };
        (known.current_since, known.ramping_since) = if is_current { (now, 0) } else { (0, now) };
        if is_current {
            known.last_current = now;
        }
        if known.first_activated == 0 {
            known.first_activated = now;
        }
        known.routing_changed = now;
        known.deactivated = 0;
        known.set_drainage(VersionDrainageStatus::Unspecified);
        known.drainage_changed = 0;
    }
}
