//! The documents of verifications: in each namespace one of the verification that runs, and one of the last result of each candidate.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use segno_environment::finish::finish;
use segno_proto::{
    Nanos,
    segno_verification::{Candidate, Verification},
    timestamp_nanos,
};
use segno_runs::CallError;
use segno_store::{Commit, DocumentWrite, NamespaceKey};

use super::Verifications;

const PREFIX: &str = "verification/";
/// Where the request of the verification that runs is stored. Candidates have longer names.
const RUNNING: &str = "verification/running";
/// Documents read at a time.
const PAGE: usize = 1000;
/// Results that a namespace keeps; the oldest one goes first.
const KEPT_MAX: usize = 200;
/// How long a result is kept.
const KEPT_FOR: Nanos = 30 * 24 * 3600 * 1_000_000_000;

/// The document of the last verification of a candidate.
fn document(candidate: &Candidate) -> String {
    let Candidate { deployment_name, build_id, task_queue, on_task_queue } = candidate;
    match build_id.is_empty() {
        false => format!("{PREFIX}version/{deployment_name}:{build_id}"),
        // The length keeps two pairs of names apart that read the same in a row.
        true => format!("{PREFIX}queue/{}:{task_queue}{on_task_queue}", task_queue.len()),
    }
}

/// Since when a verification counts as old.
fn age(verification: &Verification) -> Nanos {
    verification.close_time.as_ref().map_or(0, timestamp_nanos)
}

fn decoded(name: &str, content: Bytes) -> Result<Verification, CallError> {
    Verification::decode(content).map_err(|error| CallError::DataLoss(format!("document {name:?}: {error}")))
}

impl Verifications {
    async fn read(&self, namespace: NamespaceKey, name: &str) -> Result<Option<Verification>, CallError> {
        let content = self.runs.store.document(namespace, name).await?;
        content.map(|content| decoded(name, content)).transpose()
    }

    async fn write(&self, documents: Vec<DocumentWrite>, namespace: NamespaceKey) -> Result<(), CallError> {
        let runs = self.runs.clone();
        finish(async move {
            let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
            Ok(runs.committer.commit_of(namespace, commit).await.map(drop)?)
        })
        .await
    }

    /// The verification that runs, as it was at its start: this node carries it out, or the one that leads will soon begin it anew.
    /// One that cannot be read is left to the next one, which takes its place.
    pub(super) async fn stored_running(&self, namespace: NamespaceKey) -> Result<Option<Verification>, CallError> {
        match self.read(namespace, RUNNING).await {
            Err(CallError::DataLoss(why)) => {
                tracing::error!(why, "the verification that was under way cannot be read");
                Ok(None)
            }
            found => found,
        }
    }

    /// Stores that a verification runs.
    pub(super) async fn store_running(&self, namespace: NamespaceKey, begun: &Verification) -> Result<(), CallError> {
        let content = Some(begun.encode_to_vec().into());
        self.write(vec![DocumentWrite { namespace, name: RUNNING.to_owned(), content }], namespace).await
    }

    /// The last result of a candidate.
    pub(super) async fn stored_result(
        &self,
        namespace: NamespaceKey,
        candidate: &Candidate,
    ) -> Result<Option<Verification>, CallError> {
        let horizon = self.runs.now().saturating_sub(KEPT_FOR);
        Ok(self.read(namespace, &document(candidate)).await?.filter(|found| age(found) > horizon))
    }

    /// The results of a namespace, and the verification that runs.
    pub(super) async fn stored(&self, namespace: NamespaceKey) -> Result<Vec<Verification>, CallError> {
        let horizon = self.runs.now().saturating_sub(KEPT_FOR);
        let mut all = self.all(namespace).await?;
        all.retain(|(name, one)| name == RUNNING || age(one) > horizon);
        Ok(all.into_iter().map(|(_, one)| one).collect())
    }

    /// Stores the result of the verification that ran, in place of the one before of the same candidate. Old results of others go.
    pub(super) async fn keep(self: &Arc<Self>, namespace: NamespaceKey, ended: &Verification) -> Result<(), CallError> {
        let name = document(&ended.candidate.clone().unwrap_or_default());
        let mut others = self.all(namespace).await?;
        others.retain(|(other, _)| *other != name && other != RUNNING);
        others.sort_by_cached_key(|(_, other)| std::cmp::Reverse(age(other)));
        let horizon = self.runs.now().saturating_sub(KEPT_FOR);
        let kept = others.iter().take(KEPT_MAX - 1).filter(|(_, other)| age(other) > horizon).count();
        let old = others.into_iter().skip(kept).map(|(name, _)| name);
        let gone = old.chain([RUNNING.to_owned()]).map(|name| DocumentWrite { namespace, name, content: None });
        let mut documents: Vec<_> = gone.collect();
        documents.push(DocumentWrite { namespace, name, content: Some(ended.encode_to_vec().into()) });
        self.write(documents, namespace).await
    }

    async fn all(&self, namespace: NamespaceKey) -> Result<Vec<(String, Verification)>, CallError> {
        let (mut all, mut after): (Vec<_>, Option<String>) = (Vec::new(), None);
        loop {
            let page = self.runs.store.documents(namespace, PREFIX, after.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(all) };
            after = Some(last.name.clone());
            for found in page {
                let verification = decoded(&found.name, found.content)?;
                all.push((found.name, verification));
            }
        }
    }

    /// Removes the verifications of a namespace that is deleted.
    pub(crate) async fn forget(&self, namespace: NamespaceKey) -> Result<(), CallError> {
        if let Some(job) = self.running(namespace) {
            job.stop();
        }
        loop {
            let page = self.runs.store.documents(namespace, PREFIX, None, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            let gone = page.into_iter().map(|document| DocumentWrite { namespace, name: document.name, content: None });
            self.write(gone.collect(), namespace).await?;
        }
    }
}
