//! Setting [damaged runs](crate::damaged) aside.

use std::sync::Arc;

use segno_engine::Run;
use segno_store::RunKey;

use crate::{error::CallError, runs::Runs};

impl Runs {
    /// Sets a run aside.
    pub fn set_aside(&self, run: RunKey, why: &str) {
        self.timers.set(run, None);
        self.no_time_held(run);
        if self.damaged.add(run, why) {
            tracing::error!(
                run = run.0,
                "a run is damaged and set aside: {why}. Its tasks are not offered; terminate or delete the run to be rid of it"
            );
        }
    }

    /// Whether an error ends the task that was to be started: `true` if the task no longer exists, or
    /// never can be started, so that the next one is to be tried.
    pub async fn is_task_over(self: &Arc<Self>, run: RunKey, error: &CallError) -> bool {
        match error {
            // Its new owner offers it again.
            CallError::Rejected(_) | CallError::Moved => true,
            CallError::DataLoss(why) => {
                self.set_aside(run, why);
                true
            }
            CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. } => self.is_gone(run).await,
            _ => false,
        }
    }

    /// Whether a run that its workflow id does not lead to is deleted, or else damaged.
    async fn is_gone(&self, run: RunKey) -> bool {
        match self.load_record(run).await {
            Ok(None) => true,
            Ok(Some(record)) => {
                if Run::decode(record.state).is_ok_and(|run| run.is_running()) {
                    self.set_aside(run, "it is open, but its workflow id does not lead to it");
                }
                true
            }
            Err(CallError::DataLoss(why)) => {
                self.set_aside(run, &why);
                true
            }
            Err(_) => false,
        }
    }
}
