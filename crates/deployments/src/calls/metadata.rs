//! UpdateWorkerDeploymentVersionMetadata.

use std::collections::BTreeMap;

use segno_proto::common::Payload;

use crate::{
    deployment::Deployment,
    error::{DeploymentError, invalid},
};

/// A change of the notes about a version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataChange {
    /// What is added or replaced, before anything is removed.
    pub upserts: BTreeMap<String, Payload>,
    /// What is removed.
    pub removals: Vec<String>,
    /// Who asks.
    pub identity: String,
}

impl MetadataChange {
    /// Refuses a change of nothing.
    pub fn check(&self) -> Result<(), DeploymentError> {
        match self.upserts.is_empty() && self.removals.is_empty() {
            true => Err(invalid("At least one of remove_entries or upsert_entries must be provided")),
            false => Ok(()),
        }
    }
}

/// Changes the metadata of a version that is there. Gives back what it has then.
pub fn update_metadata(
    deployment: &mut Deployment,
    build: &str,
    change: &MetadataChange,
) -> Result<BTreeMap<String, Payload>, DeploymentError> {
    if deployment.build(build).is_none() {
        return Err(unknown_version(&deployment.name, build));
    }
    let version = deployment.version_mut(build);
    version.last_modifier.clone_from(&change.identity);
    version.had_metadata = true;
    version.metadata.extend(change.upserts.clone());
    version.metadata.retain(|key, _| !change.removals.contains(key));
    Ok(version.metadata.clone())
}

/// The refusal of a version that is not there.
pub fn unknown_version(name: &str, build: &str) -> DeploymentError {
    let workflow = format!("temporal-sys-worker-deployment-version:{name}:{build}");
    DeploymentError::NotFound(format!("workflow not found for ID: {workflow}"))
}
