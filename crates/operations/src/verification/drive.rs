//! Carries out a verification: tries its runs, a few at a time.

use std::{sync::Arc, time::Duration};

use segno_environment::lock::lock;
use segno_proto::{
    nanos_duration,
    segno_verification::{State, TryRunRequest},
};
use segno_runs::{CallError, Namespace};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{Job, NewVerification, Phase, Verifications, select::Selection};
use crate::batch::Pace;

/// If so many times as many trials as there may be at a time have no answer in a row, no worker is there.
const SILENCE: usize = 3;

/// After a failure of the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Verifications {
    /// Carries out a verification in the background.
    pub(super) fn begin(self: &Arc<Self>, namespace: Arc<Namespace>, job: Arc<Job>) {
        lock(&self.running).insert(namespace.key, job.clone());
        let verifications = self.clone();
        tokio::spawn(async move {
            let driving = tokio::spawn(verifications.clone().drive(namespace.clone(), job.clone()));
            let ended = match driving.await {
                Ok(Ok(state)) => state.map(|state| (state, String::new())),
                Ok(Err(_)) if verifications.is_interrupted(&namespace) => None,
                Ok(Err(error)) => Some((State::Failed, error.to_string())),
                Err(_) => Some((State::Failed, "an internal error; the log of the server has it".to_owned())),
            };
            let is_kept = match ended {
                Some((state, error)) => {
                    job.close(state, error, verifications.runs.now());
                    verifications.keep_until_stored(&namespace, &job).await
                }
                None => false,
            };
            lock(&verifications.running).remove(&namespace.key);
            job.phase.send_replace(Phase::Over);
            if !is_kept {
                // This node may lead again.
                verifications.resume_stored(namespace).await;
            }
        });
    }

    /// Stores a result, unless another node has to begin the verification anew.
    async fn keep_until_stored(self: &Arc<Self>, namespace: &Namespace, job: &Job) -> bool {
        while !self.is_interrupted(namespace) {
            match self.keep(namespace.key, &job.shown()).await {
                Ok(()) => return true,
                Err(error) => {
                    tracing::warn!(verification = job.id, %error, "the result of a verification waits for the store");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
        false
    }

    /// Tries the runs. `None` if this node cannot carry it out to its end.
    async fn drive(self: Arc<Self>, namespace: Arc<Namespace>, job: Arc<Job>) -> Result<Option<State>, CallError> {
        let Some(trials) = self.trials.get() else { return Ok(None) };
        let new = NewVerification::of(&job.shown());
        let Selection { found, skipped, targets } = self.select_targets(&namespace, &new, &job).await?;
        lock(&job.results).selected(found, targets.len(), skipped);
        let permits = Arc::new(Semaphore::new(new.parallel));
        let mut pace = Pace::new(new.per_second as f64);
        let mut under_way = JoinSet::new();
        let mut left = targets.len();
        for target in targets {
            let ready = async {
                tokio::time::sleep(pace.wait()).await;
                permits.clone().acquire_owned().await
            };
            let Some(Ok(permit)) = self.unless_stopped(&job, ready).await else { break };
            if self.is_interrupted(&namespace) {
                break;
            }
            let (silent, keeps_failures) = {
                let results = lock(&job.results);
                (results.silent(), results.keeps_failures())
            };
            if silent >= new.parallel * SILENCE {
                lock(&job.results).give_up(left);
                break;
            }
            left -= 1;
            let request = TryRunRequest {
                namespace: namespace.name.clone(),
                workflow_id: target.workflow_id.clone(),
                run_id: target.run_id.clone(),
                candidate: Some(new.candidate.clone()),
                timeout: Some(nanos_duration(new.timeout.as_nanos().try_into().unwrap_or(i64::MAX))),
                locate_event: keeps_failures,
            };
            let (job, trial) = (job.clone(), trials.try_run(request));
            under_way.spawn(async move {
                let tried = trial.await;
                lock(&job.results).note(&target, tried);
                drop(permit);
            });
        }
        let ends = async { while under_way.join_next().await.is_some() {} };
        self.unless_stopped(&job, ends).await;
        Ok(match job.is_stopped() {
            true => Some(State::Stopped),
            false => (!self.is_interrupted(&namespace)).then_some(State::Completed),
        })
    }

    /// Whether this node can carry out no verification of a namespace, because it stops, does not lead, or deletes the namespace.
    pub(super) fn is_interrupted(&self, namespace: &Namespace) -> bool {
        let known = self.runs.namespaces.by_key(namespace.key);
        known.is_none_or(|known| known.detail.deletion.is_some()) || self.runs.is_stopping() || !self.runs.leads()
    }

    /// The output of a future; `None` if the verification is stopped before.
    async fn unless_stopped<T>(&self, job: &Job, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = job.stopped() => None,
            given = future => Some(given),
        }
    }
}
