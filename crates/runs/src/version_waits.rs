//! Runs that wait for a version of workers that no worker has: what lists show of them.

use std::sync::Arc;

use segno_engine::{Run, version_wait, versioning::pinned_version};
use segno_proto::deployment::WorkerDeploymentVersion;
use segno_store::RunKey;

use crate::{error::CallError, runs::Runs};

impl Runs {
    /// Notes that runs wait for a version. Runs that are gone, are served by another node or do not wait any longer are left out.
    pub async fn note_version_waits(
        self: &Arc<Self>,
        runs: &[RunKey],
        version: &WorkerDeploymentVersion,
    ) -> Result<(), CallError> {
        for run in runs {
            match self.note_version_wait(*run, version).await {
                Ok(()) | Err(CallError::Moved | CallError::DataLoss(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn note_version_wait(
        self: &Arc<Self>,
        run: RunKey,
        version: &WorkerDeploymentVersion,
    ) -> Result<(), CallError> {
        let Some(key) = self.workflow_of(run).await? else { return Ok(()) };
        let mut locked = self.lock(&key).await?;
        let Some(current) = &locked.state.current else { return Ok(()) };
        if current.key() != run || !self.may_go_to(&current.run, version) {
            return Ok(());
        }
        let context = self.context_on(&current.run, false).await?;
        let noted = version_wait::note(&current.run, context, version)?;
        self.commit(&mut locked, noted, Vec::new()).await
    }

    /// Whether a task of a run can be one for a version. A queue forgets a task that went another way only when a worker asks for it.
    fn may_go_to(&self, run: &Run, version: &WorkerDeploymentVersion) -> bool {
        match pinned_version(run) {
            Some(pinned) => pinned == version,
            None if run.state().task.is_none() => true,
            None => self.target_of(run, None).is_some_and(|target| target.version.as_ref() == Some(version)),
        }
    }
}
