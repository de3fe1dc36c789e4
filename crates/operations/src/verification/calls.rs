//! Starting, showing and stopping verifications.

use std::sync::Arc;

use segno_environment::finish::finish;
use segno_proto::{
    segno_verification::{Candidate, State, Verification},
    timestamp_nanos,
};
use segno_runs::{CallError, Namespace};

use super::{Job, NewVerification, VerificationError, Verifications};

impl Verifications {
    /// Starts a verification. Once this gives its id it will be carried out, if not by this node then by the next one that leads.
    pub async fn start(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        new: NewVerification,
    ) -> Result<String, VerificationError> {
        self.runs.refuse_overload()?;
        let verifications = self.clone();
        finish(async move {
            let _starting = verifications.starting.lock().await;
            verifications.check_room(namespace.key)?;
            if let Some(known) = verifications.stored_running(namespace.key).await? {
                return Err(VerificationError::Busy(known.id));
            }
            let begun = new.begun(verifications.runs.uuid(), verifications.runs.now());
            verifications.store_running(namespace.key, &begun).await?;
            let id = begun.id.clone();
            verifications.begin(namespace, Job::of(begun));
            Ok(id)
        })
        .await
    }

    /// The verification of a candidate that runs, or its last one.
    pub async fn find(&self, namespace: &Namespace, candidate: &Candidate) -> Result<Verification, VerificationError> {
        let running = match self.running(namespace.key) {
            Some(job) => Some(job.shown()),
            None => self.stored_running(namespace.key).await?,
        };
        match running.filter(|running| running.candidate.as_ref() == Some(candidate)) {
            Some(running) => Ok(running),
            None => self.stored_result(namespace.key, candidate).await?.ok_or(VerificationError::Unknown),
        }
    }

    /// The verifications of a namespace, newest first.
    pub async fn list(&self, namespace: &Namespace) -> Result<Vec<Verification>, CallError> {
        let running = self.running(namespace.key).map(|job| job.shown());
        let mut all = self.stored(namespace.key).await?;
        if let Some(running) = running {
            all.retain(|one| one.id != running.id);
            all.push(running);
        }
        all.sort_by_cached_key(|one| std::cmp::Reverse(one.start_time.as_ref().map_or(0, timestamp_nanos)));
        Ok(all)
    }

    /// Stops the verification that runs, if it is the one that is meant or none is named. Once this returns no node carries it out.
    pub async fn stop(self: &Arc<Self>, namespace: &Namespace, id: &str) -> Result<(), VerificationError> {
        let is_meant = |known: &str| id.is_empty() || known == id;
        let _starting = self.starting.lock().await;
        let running = self.running(namespace.key);
        if let Some(job) = running.as_ref().filter(|job| is_meant(&job.id)) {
            job.stop();
            job.over().await;
        }
        // It was interrupted, and would begin anew.
        let waiting = self.stored_running(namespace.key).await?.filter(|waiting| is_meant(&waiting.id));
        match waiting.map(Job::of) {
            Some(job) => {
                job.close(State::Stopped, String::new(), self.runs.now());
                Ok(self.keep(namespace.key, &job.shown()).await?)
            }
            None if running.is_some_and(|job| is_meant(&job.id)) => Ok(()),
            None => Err(VerificationError::NotRunning),
        }
    }
}
