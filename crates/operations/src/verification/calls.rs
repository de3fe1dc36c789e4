//! Starting, showing and stopping verifications, and keeping their results.

use std::sync::{Arc, Mutex};

use prost::Message;
use segno_environment::finish::finish;
use segno_proto::{
    Nanos, nanos_duration, nanos_timestamp,
    segno_verification::{Candidate, State, Verification},
    timestamp_nanos,
};
use segno_runs::{CallError, Namespace};
use segno_store::{Commit, DocumentWrite, NamespaceKey};
use tokio::sync::watch;

use super::{Job, NewVerification, Trials, VerificationError, Verifications, results::Results};

const PREFIX: &str = "verification/";
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

impl Verifications {
    /// Starts a verification. Gives its id.
    pub fn start(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        new: NewVerification,
        trials: Arc<dyn Trials>,
    ) -> Result<String, VerificationError> {
        self.runs.refuse_overload()?;
        let id = self.runs.uuid();
        let verification = Verification {
            id: id.clone(),
            candidate: Some(new.candidate.clone()),
            state: State::Running as i32,
            identity: new.identity.clone(),
            start_time: Some(nanos_timestamp(self.runs.now())),
            query: new.query.clone(),
            include_pinned: new.include_pinned,
            parallel: new.parallel.try_into().unwrap_or(i32::MAX),
            timeout: Some(nanos_duration(new.timeout.as_nanos().try_into().unwrap_or(i64::MAX))),
            max_per_second: new.per_second.try_into().unwrap_or(i32::MAX),
            ..Default::default()
        };
        let results = Mutex::new(Results::new(verification));
        let job = Arc::new(Job { id: id.clone(), results, stop: watch::Sender::new(false) });
        self.insert(namespace.key, job.clone())?;
        self.begin(namespace, new, job, trials);
        Ok(id)
    }

    /// The verification of a candidate that runs, or its last one.
    pub async fn find(&self, namespace: &Namespace, candidate: &Candidate) -> Result<Verification, VerificationError> {
        let running = self.running(namespace.key).map(|job| job.shown());
        if let Some(running) = running.filter(|running| running.candidate.as_ref() == Some(candidate)) {
            return Ok(running);
        }
        let stored = self.runs.store.document(namespace.key, &document(candidate)).await.map_err(CallError::from)?;
        let found = stored.map(|content| decoded(&document(candidate), content)).transpose()?;
        let horizon = self.runs.now().saturating_sub(KEPT_FOR);
        found.filter(|found| age(found) > horizon).ok_or(VerificationError::Unknown)
    }

    /// The verifications of a namespace, newest first.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<Verification>, CallError> {
        let horizon = self.runs.now().saturating_sub(KEPT_FOR);
        let mut all: Vec<Verification> = self.running(namespace.key).map(|job| job.shown()).into_iter().collect();
        let kept = self.kept(namespace.key).await?.into_iter().map(|(_, kept)| kept);
        all.extend(kept.filter(|kept| age(kept) > horizon));
        all.sort_by_cached_key(|one| std::cmp::Reverse(one.start_time.as_ref().map_or(0, timestamp_nanos)));
        Ok(all)
    }

    /// Stops the verification that runs, if it is the one that is meant or none is named.
    pub fn stop(&self, namespace: &Namespace, id: &str) -> Result<(), VerificationError> {
        let running = self.running(namespace.key);
        let job = running.filter(|job| id.is_empty() || job.id == id).ok_or(VerificationError::NotRunning)?;
        job.stop.send_replace(true);
        Ok(())
    }

    /// Stores the result of a verification, in place of the one before of the same candidate. Old results of others go.
    pub(super) async fn keep(self: &Arc<Self>, namespace: NamespaceKey, ended: &Verification) -> Result<(), CallError> {
        let name = document(&ended.candidate.clone().unwrap_or_default());
        let mut others = self.kept(namespace).await?;
        others.retain(|(other, _)| *other != name);
        others.sort_by_cached_key(|(_, other)| std::cmp::Reverse(age(other)));
        let horizon = self.runs.now().saturating_sub(KEPT_FOR);
        let kept = others.iter().take(KEPT_MAX - 1).filter(|(_, other)| age(other) > horizon).count();
        let gone = others.into_iter().skip(kept).map(|(name, _)| DocumentWrite { namespace, name, content: None });
        let mut documents: Vec<_> = gone.collect();
        documents.push(DocumentWrite { namespace, name, content: Some(ended.encode_to_vec().into()) });
        let runs = self.runs.clone();
        finish(async move {
            let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
            Ok(runs.committer.commit_of(namespace, commit).await.map(drop)?)
        })
        .await
    }

    async fn kept(&self, namespace: NamespaceKey) -> Result<Vec<(String, Verification)>, CallError> {
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
            job.stop.send_replace(true);
        }
        loop {
            let page = self.runs.store.documents(namespace, PREFIX, None, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            let gone = page.into_iter().map(|document| DocumentWrite { namespace, name: document.name, content: None });
            let commit = Commit { documents: gone.collect(), documents_of_one_node: true, ..Default::default() };
            self.runs.committer.commit_of(namespace, commit).await?;
        }
    }
}

fn decoded(name: &str, content: bytes::Bytes) -> Result<Verification, CallError> {
    Verification::decode(content).map_err(|error| CallError::DataLoss(format!("document {name:?}: {error}")))
}
