//! Carries out a verification: tries its runs, a few at a time.

use std::sync::Arc;

use segno_environment::lock::lock;
use segno_proto::{
    nanos_duration,
    segno_verification::{State, TryRunRequest},
};
use segno_runs::{CallError, Namespace};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{Job, NewVerification, Trials, Verifications, select::Selection};
use crate::batch::Pace;

/// If so many times as many trials as there may be at a time have no answer in a row, no worker is there.
const SILENCE: usize = 3;

/// How a verification ended.
struct End(State, String);

impl Verifications {
    /// Carries out a verification in the background.
    pub(super) fn begin(
        self: &Arc<Self>,
        namespace: Arc<Namespace>,
        new: NewVerification,
        job: Arc<Job>,
        trials: Arc<dyn Trials>,
    ) {
        let verifications = self.clone();
        tokio::spawn(async move {
            let key = namespace.key;
            let driving = verifications.clone().drive(namespace.clone(), new, job.clone(), trials);
            let End(state, error) = match tokio::spawn(driving).await {
                Ok(Ok(state)) => End(state, String::new()),
                Ok(Err(error)) => End(State::Failed, error.to_string()),
                Err(_) => End(State::Failed, "an internal error; the log of the server has it".to_owned()),
            };
            let runs = &verifications.runs;
            lock(&job.results).close(state, error, runs.now());
            // A node that leads no longer has nothing to write.
            if runs.leads()
                && !runs.is_stopping()
                && let Err(error) = verifications.keep(key, &job.shown()).await
            {
                tracing::warn!(verification = job.id, %error, "the result of a verification was not stored");
            }
            verifications.remove(key);
        });
    }

    async fn drive(
        self: Arc<Self>,
        namespace: Arc<Namespace>,
        new: NewVerification,
        job: Arc<Job>,
        trials: Arc<dyn Trials>,
    ) -> Result<State, CallError> {
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
            if self.is_over(&namespace, &job) {
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
        Ok(if job.is_stopped() { State::Stopped } else { State::Completed })
    }

    fn is_over(&self, namespace: &Namespace, job: &Job) -> bool {
        let gone = self.runs.namespaces.by_key(namespace.key).is_none_or(|known| known.detail.deletion.is_some());
        gone || job.is_stopped() || self.runs.is_stopping() || !self.runs.leads()
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
