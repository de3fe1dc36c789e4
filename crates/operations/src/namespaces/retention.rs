//! Deletes closed runs when their namespace's retention is over.
//!
//! A run that closes now is due no earlier than one retention from now. So the loop sleeps until the oldest closed run
//! is due, or for one retention if there is none, or until a retention changes: closing runs do not notify it, and an
//! idle node sleeps. Close times are in storage, so a restart needs no other state.

use std::{sync::Arc, time::Duration};

use segno_environment::{clock::until, hash::HashSet};
use segno_proto::Nanos;
use segno_runs::{CallError, Namespace};
use segno_store::{ReadError, RunKey, Store};

use super::NamespaceOperations;

/// Runs read at a time.
const PAGE: usize = 64;
/// Runs are deleted up to this much late, so that many that closed one after the other go together.
const STEP: Nanos = 1_000_000_000;
/// When to look again for runs whose last messages are still under way, or whose activities are still carried out.
const STUCK: Nanos = 60 * 1_000_000_000;
/// After a failure of the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl NamespaceOperations {
    /// Deletes expired runs until the node stops.
    pub(super) async fn delete_expired_runs(self: Arc<Self>) {
        while !self.runs.is_stopping() {
            let changed = self.retention_changed.notified();
            let pause = match self.delete_expired().await {
                Ok(next) => until(self.runs.clock.now(), next),
                Err(CallError::ShuttingDown) => return,
                Err(error) => {
                    tracing::warn!(%error, "expired runs are not deleted yet; trying again");
                    RETRY_DELAY
                }
            };
            let _ = tokio::time::timeout(pause, changed).await;
        }
    }

    /// Deletes what has expired in all namespaces; says when to look again.
    async fn delete_expired(self: &Arc<Self>) -> Result<Nanos, CallError> {
        let mut next = Nanos::MAX;
        if !self.runs.leads() {
            // Notified when that changes.
            return Ok(next);
        }
        for namespace in self.runs.namespaces.all() {
            // What is being deleted goes as a whole.
            if namespace.detail.deletion.is_none() {
                next = next.min(self.delete_expired_of(&namespace).await?);
            }
        }
        Ok(next.max(self.runs.clock.now().saturating_add(STEP)))
    }

    async fn delete_expired_of(self: &Arc<Self>, namespace: &Namespace) -> Result<Nanos, CallError> {
        let (key, retention) = (namespace.key, namespace.detail.retention);
        let mut stuck = HashSet::default();
        let mut tried: HashSet<RunKey> = HashSet::default();
        let now = self.runs.clock.now();
        let expired = now.saturating_sub(retention);
        loop {
            let limit = PAGE + stuck.len();
            let mut page = self.runs.store.closed_runs(key, expired, limit).await?;
            // One that is still there after it was deleted waits for its messages to arrive.
            stuck.extend(page.iter().copied().filter(|run| tried.contains(run)));
            // One that has work left is kept until that is over.
            stuck.extend(with_work(&*self.runs.store, &page).await?);
            page.retain(|run| !stuck.contains(run));
            if page.is_empty() {
                break;
            }
            self.delete_runs(&page).await?;
            tracing::debug!(namespace = namespace.name, runs = page.len(), "expired runs deleted");
            tried = page.into_iter().collect();
        }
        if !stuck.is_empty() {
            return Ok(now.saturating_add(STUCK));
        }
        let first_job = self.batches.forget(key, expired).await?;
        let first = self.runs.store.first_close(key).await?;
        let first = first.into_iter().chain(first_job).min();
        Ok(first.unwrap_or(now).min(now).saturating_add(retention).saturating_add(1))
    }
}

/// Closed runs whose activities are still carried out. A damaged one has none.
async fn with_work(store: &dyn Store, runs: &[RunKey]) -> Result<Vec<RunKey>, ReadError> {
    let mut working = Vec::new();
    for run in runs {
        match store.load(*run).await {
            Ok(Some(record)) if record.open => working.push(*run),
            Ok(_) | Err(ReadError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(working)
}
