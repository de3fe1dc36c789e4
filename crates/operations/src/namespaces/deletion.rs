//! Deletes a namespace: it is renamed at once, its runs are deleted one by one in the background, its record last.
//!
//! What holds: the deletion is stored with the namespace, so a restart continues it. No call waits for it, and it
//! deletes a few runs at a time.

use std::{sync::Arc, time::Duration};

use segno_engine::Run;
use segno_environment::{clock::until, finish::finish, lock::lock};
use segno_proto::{Nanos, enums::NamespaceState};
use segno_runs::{CallError, Namespace, NamespaceName, WorkflowKey, namespaces::Deletion};
use segno_store::{Commit, NamespaceKey, RunKey};
use tokio::task::JoinSet;

use super::NamespaceOperations;

/// Runs read at a time.
const PAGE: usize = 64;
/// Runs deleted at the same time.
const AT_ONCE: usize = 8;
/// After this long all calls that found the namespace still in use are over.
const QUIET_PERIOD: Duration = Duration::from_secs(1);
/// Between two looks for runs whose last messages were still under way.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After a failure of the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Characters of its id that a deleted namespace is named after, unless that name is taken.
const SUFFIX_CHARACTERS: usize = 5;

impl NamespaceOperations {
    /// Deletes a namespace. Once this returns it can no longer be used and its name is free; its runs and its record
    /// go in the background, the record not before `delay` is over. Gives back the name it has until then.
    pub async fn delete(self: &Arc<Self>, name: NamespaceName, delay: Nanos) -> Result<String, CallError> {
        let operations = self.clone();
        let now = self.runs.now();
        let (deleted, began) = finish(async move {
            let mut began = false;
            let delete = |namespace: &mut Namespace| {
                began = namespace.detail.deletion.is_none();
                if began {
                    namespace.name = operations.name_when_deleted(namespace);
                    namespace.detail.state = NamespaceState::Deleted as i32;
                    namespace.detail.deletion = Some(Deletion { not_before: now.saturating_add(delay) });
                }
                Ok(())
            };
            let runs = &operations.runs;
            let deleted = runs.namespaces.change(&*runs.store, &name, delete).await?;
            Ok::<_, CallError>((deleted, began))
        })
        .await?;
        if began {
            tracing::info!(namespace = deleted.name, "deleting a namespace");
            tokio::spawn(self.clone().carry_out(deleted.clone()));
        }
        Ok(deleted.name.clone())
    }

    /// `name-deleted-12345`, after its id; with more of the id if another has that name.
    fn name_when_deleted(&self, namespace: &Namespace) -> String {
        let id = &namespace.detail.id;
        let names = (SUFFIX_CHARACTERS..=id.len()).map(|length| {
            let suffix = format!("-deleted-{}", &id[..length]);
            if namespace.name.ends_with(&suffix) { namespace.name.clone() } else { namespace.name.clone() + &suffix }
        });
        let free = |name: &String| *name == namespace.name || self.runs.namespaces.get(name).is_none();
        names.into_iter().find(free).unwrap_or_else(|| id.clone())
    }

    /// Goes on with the deletions that were under way when the node stopped.
    pub fn resume_deletions(self: &Arc<Self>) {
        if !self.runs.leads() {
            return;
        }
        for namespace in self.runs.namespaces.all() {
            if namespace.detail.deletion.is_some() {
                tokio::spawn(self.clone().carry_out(namespace));
            }
        }
    }

    async fn carry_out(self: Arc<Self>, namespace: Arc<Namespace>) {
        // Workers that wait here are sent away.
        if let Some(effects) = self.runs.effects() {
            effects.end_polls(namespace.key);
        }
        if !lock(&self.deleting).insert(namespace.key) {
            return;
        }
        self.delete_while_leading(&namespace).await;
        lock(&self.deleting).remove(&namespace.key);
    }

    async fn delete_while_leading(self: &Arc<Self>, namespace: &Namespace) {
        while !self.runs.is_stopping() && self.runs.leads() {
            match self.try_deletion(namespace).await {
                Ok(()) => {
                    self.runs.owner.publish_namespaces().await;
                    return;
                }
                Err(CallError::ShuttingDown) => return,
                Err(error) => {
                    tracing::warn!(namespace = namespace.name, %error, "a namespace is not deleted yet; trying again");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn try_deletion(self: &Arc<Self>, namespace: &Namespace) -> Result<(), CallError> {
        let key = namespace.key;
        let mut deleted = 0_usize;
        let mut quiet = false;
        // Twice nothing, with a pause between: calls that were under way may have started runs meanwhile.
        loop {
            match self.delete_runs_of(key).await? {
                0 if quiet => break,
                0 => {
                    quiet = true;
                    tokio::time::sleep(QUIET_PERIOD).await;
                }
                found => {
                    deleted += found;
                    quiet = false;
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
        let not_before = namespace.detail.deletion.as_ref().map_or(0, |deletion| deletion.not_before);
        while self.runs.clock.now() < not_before {
            let stopped = self.runs.lifecycle.stop.notified();
            if self.runs.is_stopping()
                || tokio::time::timeout(until(self.runs.clock.now(), not_before), stopped).await.is_ok()
            {
                return Err(CallError::ShuttingDown);
            }
        }
        if let Some(effects) = self.runs.effects() {
            effects.forget_namespace(key);
        }
        self.runs.forget_starts(key);
        self.batches.forget(key, Nanos::MAX).await?;
        self.runs.forget_deployments(key).await?;
        self.verifications.forget(key).await?;
        let runs = self.runs.clone();
        finish(async move { runs.namespaces.forget(&*runs.store, key).await }).await?;
        tracing::info!(namespace = namespace.name, runs = deleted, "a namespace is deleted");
        Ok(())
    }

    /// Deletes what runs a namespace has; says how many it found.
    async fn delete_runs_of(self: &Arc<Self>, namespace: NamespaceKey) -> Result<usize, CallError> {
        let mut found = 0;
        let mut after = None;
        loop {
            let page = self.runs.store.runs_of(namespace, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(*last);
            found += page.len();
            self.delete_runs(&page).await?;
        }
    }

    /// Deletes runs, a few at a time. Those that are gone already are no failure.
    pub(super) async fn delete_runs(self: &Arc<Self>, keys: &[RunKey]) -> Result<(), CallError> {
        for some in keys.chunks(AT_ONCE) {
            if self.runs.is_stopping() {
                return Err(CallError::ShuttingDown);
            }
            let mut deletions = JoinSet::new();
            for run in some.iter().copied() {
                let operations = self.clone();
                deletions.spawn(async move { operations.delete_by_key(run).await });
            }
            let mut result = Ok(());
            // All of them come to their end, also if one fails.
            while let Some(deleted) = deletions.join_next().await {
                result = result.and(deleted.unwrap_or_else(|error| Err(CallError::OutcomeUnknown(error.to_string()))));
            }
            result?;
        }
        Ok(())
    }

    async fn delete_by_key(self: &Arc<Self>, key: RunKey) -> Result<(), CallError> {
        let record = match self.runs.load_record(key).await {
            Ok(Some(record)) => Run::decode(record.state).ok(),
            Ok(None) => return Ok(()),
            Err(CallError::DataLoss(_)) => None,
            Err(error) => return Err(error),
        };
        let Some(run) = record else {
            tracing::error!(run = key.0, "a run that cannot be read is deleted with its namespace or after its time");
            // Where its facts tell which workflow it belongs to, the pointer to it goes too.
            if let Ok(Some(facts)) = self.runs.store.facts(key).await {
                let workflow = WorkflowKey::new(facts.namespace, &facts.workflow_id);
                if self.runs.delete_anywhere(&workflow, &facts.run_id).await.is_ok() {
                    return Ok(());
                }
            }
            return Ok(self.runs.committer.commit(Commit { delete_runs: vec![key], ..Default::default() }).await?);
        };
        let workflow = WorkflowKey::new(NamespaceKey(run.info.namespace_key), &run.info.workflow_id);
        match self.runs.delete_anywhere(&workflow, &run.info.run_id).await {
            Err(CallError::WorkflowNotFound { .. } | CallError::RunNotFound { .. }) => Ok(()),
            result => result,
        }
    }
}
