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
        let Some(last) = script::compactable(run, &limits) else { return };
        match self.removable(run, last).await {
            Ok((from, until)) if from < until => {
                let marker = marker(run, from, until, self.runs.now());
                transition.compaction = Some(Box::new(Compaction { from, until, marker }));
                script::compacted(run, until);
            }
            Ok(_) => {}
            // The next turn tries again.
            Err(error) => tracing::warn!(run = run.info.run_id, %error, "history was not compacted"),
        }
    }

    /// The first event after the first stored batch, and the last one of the batches that end by this event.
    async fn removable(&self, run: &Run, last: i64) -> Result<(i64, i64), CallError> {
        let key = RunKey(run.info.run_key);
        let batch_of = async |event: i64| {
            let found = self.runs.store.history(key, event, event + 1, 1, usize::MAX).await?;
            found.into_iter().next().ok_or_else(|| damaged(run, "an event is missing"))
        };
        Ok((batch_of(1).await?.last_event_id + 1, batch_of(last + 1).await?.first_event_id - 1))
    }
}
