//! Writes searchable facts for runs of older data directories, which have none.

use segno_engine::Run;
use segno_store::{Commit, RunKey, RunWrite};

use crate::{error::CallError, runs::Runs};

/// Runs made findable with one commit each, as one group.
const GROUP: usize = 64;
const PROGRESS: usize = 10_000;

impl Runs {
    /// Adds the searchable facts of runs that have none.
    pub(crate) async fn list_older_runs(&self) -> Result<(), CallError> {
        let mut done = 0;
        loop {
            let keys = self.store.unlisted_runs(GROUP).await?;
            if keys.is_empty() {
                break;
            }
            for key in keys {
                self.list_older_run(key).await?;
                done += 1;
                if done % PROGRESS == 0 {
                    tracing::info!(runs = done, "making older runs findable");
                }
            }
        }
        if done > 0 {
            tracing::info!(runs = done, "older runs are findable now");
        }
        Ok(())
    }

    async fn list_older_run(&self, key: RunKey) -> Result<(), CallError> {
        let Some(record) = self.store.load(key).await? else { return Ok(()) };
        let damaged = |error| CallError::DataLoss(format!("run {}: {error}", key.0));
        let run = Run::decode(record.state.clone()).map_err(damaged)?;
        let write = RunWrite {
            key,
            expected_version: record.version,
            state: record.state,
            open: record.open,
            wake_at: record.wake_at,
            dispatchable: record.dispatchable,
            batches: Vec::new(),
            visibility: Some(Box::new(self.facts(&run))),
        };
        Ok(self.committer.commit(Commit { runs: vec![write], ..Default::default() }).await?)
    }
}
