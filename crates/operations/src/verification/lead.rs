//! Beginning verifications anew that were under way when the leading node stopped.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use segno_proto::segno_verification::State;
use segno_runs::{CallError, Namespace};

use super::{Job, Trials, Verifications};

/// A verification is given up when it was interrupted so often: it may be the cause.
const RESTARTS_MAX: i32 = 10;
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Verifications {
    /// Learns how runs are tried, and begins verifications anew that were under way when the node stopped.
    pub fn run(self: &Arc<Self>, trials: Arc<dyn Trials>) {
        if self.trials.set(trials).is_ok() {
            self.follow_leader();
        }
    }

    /// Nodes came or went: the one that leads now carries verifications out.
    pub fn follow_leader(self: &Arc<Self>) {
        let leads = self.trials.get().is_some() && self.runs.leads();
        if self.leading.swap(leads, Ordering::AcqRel) || !leads {
            return;
        }
        for namespace in self.runs.namespaces.all() {
            tokio::spawn(self.clone().resume_stored(namespace));
        }
    }

    /// Begins the verification of a namespace anew, if one is stored and this node does not carry it out.
    pub(super) async fn resume_stored(self: Arc<Self>, namespace: Arc<Namespace>) {
        while let Err(error) = self.try_resume(&namespace).await {
            if self.is_interrupted(&namespace) {
                return;
            }
            tracing::warn!(namespace = namespace.name, %error, "a verification was not begun anew yet; trying again");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }

    async fn try_resume(self: &Arc<Self>, namespace: &Arc<Namespace>) -> Result<(), CallError> {
        let _starting = self.starting.lock().await;
        let can_begin = self.trials.get().is_some() && !self.is_interrupted(namespace);
        if !can_begin || self.running(namespace.key).is_some() {
            return Ok(());
        }
        let Some(mut verification) = self.stored_running(namespace.key).await? else { return Ok(()) };
        verification.restarts += 1;
        if verification.restarts > RESTARTS_MAX {
            let job = Job::of(verification);
            let why = format!("the nodes that carried it out stopped {} times", RESTARTS_MAX + 1);
            job.close(State::Failed, why, self.runs.now());
            return self.keep(namespace.key, &job.shown()).await;
        }
        self.store_running(namespace.key, &verification).await?;
        tracing::info!(
            namespace = namespace.name,
            verification = verification.id,
            "a verification begins anew: the node that carried it out has stopped, or does not lead any more"
        );
        self.begin(namespace.clone(), Job::of(verification));
        Ok(())
    }
}
