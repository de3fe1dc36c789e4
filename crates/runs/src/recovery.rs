//! Recovery: after a start everything in memory is derived again from storage.
//!
//! Wake-ups are set and messages sent before the node is ready; waiting tasks are offered right after, oldest first,
//! while the node serves calls. An outdated offer is harmless: its stamp matches no task.

use std::sync::Arc;

use segno_engine::Run;
use segno_store::{ReadError, RunKey, Store, sabotage};

use crate::{error::CallError, runs::Runs};

const PAGE: usize = 4096;
/// Runs read at a time when tasks are offered again.
const OFFERS_PAGE: usize = 256;
/// Runs decoded before other tasks of the thread have their turn.
const DECODED_AT_ONCE: usize = 16;
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(1);

impl Runs {
    /// Arms wake-ups, sends messages that were under way and sets out to offer waiting tasks.
    pub async fn recover(self: &Arc<Self>) -> Result<(), CallError> {
        let mut after = None;
        let mut dispatchable = Vec::new();
        // An activity that a worker has always has a time-out.
        let mut waking = Vec::new();
        let mut open_runs = 0_usize;
        loop {
            let page = self.store.open_runs(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key);
            open_runs += page.len();
            for open in page {
                if open.wake_at.is_some() && !sabotage::is_on("forget-timers") {
                    waking.push(open.key);
                    self.timers.set(open.key, open.wake_at);
                }
                if open.dispatchable && !sabotage::is_on("forget-waiting-tasks") {
                    dispatchable.push(open.key);
                }
            }
        }
        let messages = if sabotage::is_on("forget-messages") { 0 } else { self.send_stored().await? };
        if open_runs > 0 || messages > 0 {
            tracing::info!(open_runs, waiting = dispatchable.len(), messages, "recovered");
        }
        let runs = self.clone();
        self.lifecycle.supervise_to_its_end("the recovery of waiting tasks", async move {
            runs.offer_again(dispatchable).await;
            runs.find_holds(waking).await;
        });
        Ok(())
    }

    /// Finds out what workers held before the restart. Each of those workers has one full lease to show up.
    pub async fn find_holds(&self, runs: Vec<RunKey>) {
        for page in runs.chunks(OFFERS_PAGE) {
            while !self.is_stopping() {
                match load_all(&*self.store, page).await {
                    Ok((loaded, _)) => {
                        for run in &loaded {
                            self.restore_holds(run).await;
                        }
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "runs could not be read; trying again");
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                }
            }
        }
    }

    /// Offers the tasks of these runs.
    pub async fn offer_again(&self, runs: Vec<RunKey>) {
        for page in runs.chunks(OFFERS_PAGE) {
            if self.is_stopping() {
                return;
            }
            while !self.is_stopping() {
                match load_all(&*self.store, page).await {
                    Ok((loaded, damaged)) => {
                        for (run, why) in damaged {
                            self.set_aside(run, &why);
                        }
                        for run in &loaded {
                            if let Some(effects) = self.effects() {
                                effects.offers_settle().await;
                            }
                            self.offer_all(run);
                        }
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(%error, "waiting tasks could not be read; trying again");
                        tokio::time::sleep(RETRY_DELAY).await;
                    }
                }
            }
        }
    }
}

/// A run that cannot be read, and why.
type Unreadable = (RunKey, String);

/// Open runs by their keys, and those that are damaged with the reason: one of them does not keep the others from going
/// on.
pub async fn load_all(store: &dyn Store, keys: &[RunKey]) -> Result<(Vec<Run>, Vec<Unreadable>), ReadError> {
    let mut runs = Vec::with_capacity(keys.len());
    let mut damaged = Vec::new();
    for (index, (key, record)) in keys.iter().zip(store.load_many(keys).await).enumerate() {
        if index % DECODED_AT_ONCE == DECODED_AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
        let record = match record {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            Err(error @ ReadError::Damaged(_)) => {
                damaged.push((*key, error.to_string()));
                continue;
            }
            Err(error) => return Err(error),
        };
        match Run::decode(record.state) {
            Ok(run) if run.has_work() => runs.push(run),
            Ok(_) => {}
            Err(error) => damaged.push((*key, error.to_string())),
        }
    }
    Ok((runs, damaged))
}
