//! SetWorkerDeploymentManager: who alone may change the routing. It guards against accidents; every caller may take over.

use segno_proto::Nanos;

use crate::{
    deployment::Deployment,
    error::{DeploymentError, invalid},
    names,
};

/// A new manager.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewManager {
    /// The manager; empty for none.
    pub manager: String,
    /// The deployment must not have changed since this was given out; empty if it may.
    pub conflict_token: bytes::Bytes,
    /// Who asks.
    pub identity: String,
}

impl NewManager {
    /// Checks the request.
    pub fn check(&self, name: &str) -> Result<(), DeploymentError> {
        if self.identity.is_empty() {
            return Err(invalid("Identity is required"));
        }
        names::check_name(name)
    }
}

/// Sets the manager. Gives back the one before.
pub fn set_manager(deployment: &mut Deployment, new: &NewManager, now: Nanos) -> Result<String, DeploymentError> {
    let previous = deployment.record.manager.clone();
    if previous == new.manager && deployment.record.last_modifier == new.identity {
        return Ok(previous);
    }
    deployment.check_token(&new.conflict_token)?;
    deployment.touch(&new.identity, now);
    deployment.record.manager.clone_from(&new.manager);
    Ok(previous)
}
