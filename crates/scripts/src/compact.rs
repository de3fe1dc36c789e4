//! Removes old history of scripts. Turns never read it, so a script may loop for years.

use segno_engine::{Compaction, Run, Transition, script};
use segno_runs::{compaction::marker, error::CallError};
use segno_store::{NamespaceKey, RunKey};

use super::{error::damaged, host::Scripts};

impl Scripts {
    /// Adds the removal of old history to a transition if there is much of it. The first batch, with the first event,
    /// stays.
    pub(super) async fn compact(&self, run: &mut Run, transition: &mut Transition) {
        let limits = self.runs.context(NamespaceKey(run.info.namespace_key)).limits;
        let Some(until) = script::compactable(run, &limits) else { return };
        match self.first_removable(run).await {
            Ok(from) if from < until => {
                let marker = marker(run, from, until, self.runs.now());
                transition.compaction = Some(Box::new(Compaction { from, until, marker }));
                script::compacted(run, until);
            }
            Ok(_) => {}
            // The next turn tries again.
            Err(error) => tracing::warn!(run = run.info.run_id, %error, "history was not compacted"),
        }
    }

    /// The first event after the first stored batch.
    async fn first_removable(&self, run: &Run) -> Result<i64, CallError> {
        let key = RunKey(run.info.run_key);
        let first = self.runs.store.history(key, 1, 2, 1, usize::MAX).await?;
        first.first().map(|batch| batch.last_event_id + 1).ok_or_else(|| damaged(run, "no first event"))
    }
}
