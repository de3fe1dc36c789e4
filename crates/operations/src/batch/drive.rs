//! Carries out a job: page after page of executions, a few steps at a time.
//!
//! A job has few steps under way, so that it does not delay calls of clients. It stores its progress after each page.

use std::{sync::Arc, time::Duration};

use segno_engine::standalone::WORKFLOW_ID_PREFIX;
use segno_environment::lock::lock;
use segno_proto::enums::BatchOperationState;
use segno_runs::{CallError, FoundRun, ListCaller, ListPosition, Namespace, Standalone};
use segno_store::{Commit, sabotage};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use super::{
    Batches,
    jobs::{BatchPlan, BatchStep, BatchTarget, Job, StepError, info_write, request_document},
    position::StoredPosition,
};

/// Executions between two records of how far a job has come.
const PAGE: usize = 256;
/// Steps under way.
const AT_ONCE: usize = 8;
/// Tries of a step that may succeed later, and the pause after the first.
const TRIES_MAX: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// After a failure of the store.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Some executions of a job, and where the next ones begin.
struct Page {
    targets: Vec<BatchTarget>,
    next: Option<ListPosition>,
    is_last: bool,
}

/// How a job went on.
enum Progress {
    More,
    Ended,
}

impl Batches {
    /// Carries out a job in the background.
    pub(super) fn begin(self: &Arc<Self>, namespace: Arc<Namespace>, job: Arc<Job>) {
        let batches = self.clone();
        tokio::spawn(async move {
            let driving = tokio::spawn(batches.clone().drive(namespace.clone(), job.clone()));
            if driving.await.is_err_and(|error| error.is_panic()) {
                tracing::error!(job = job.info().job_id, "a batch operation ended with a panic");
                let ended = batches.end(namespace.key, &job, BatchOperationState::Failed).await;
                if let Err(error) = ended {
                    tracing::error!(%error, "the end of a batch operation was not recorded");
                }
            }
        });
    }

    async fn drive(self: Arc<Self>, namespace: Arc<Namespace>, job: Arc<Job>) {
        let id = job.info().job_id;
        let mut plan = None;
        let mut pace = None;
        loop {
            let is_over = self.runs.is_stopping() || !self.runs.leads() || !job.info().is_open();
            // A namespace that is being deleted takes its jobs along.
            let gone = self.runs.namespaces.by_key(namespace.key).is_none_or(|known| known.detail.deletion.is_some());
            if is_over || gone {
                return;
            }
            let went_on = match &plan {
                None => match self.plan_of(&namespace, &job).await {
                    Ok(Some(made)) => {
                        pace = Some(Pace::new(made.per_second));
                        plan = Some(made);
                        continue;
                    }
                    Ok(None) => return,
                    Err(error) => Err(error),
                },
                Some(plan) => self.go_on(&namespace, &job, plan, pace.as_mut()).await,
            };
            match went_on {
                Ok(Progress::More) => {}
                Ok(Progress::Ended) => return,
                // A filter that means nothing will not mean more later.
                Err(CallError::Rejected(refused)) => {
                    tracing::warn!(job = id, %refused, "a batch operation cannot be carried out");
                    match self.end(namespace.key, &job, BatchOperationState::Failed).await {
                        Ok(()) | Err(CallError::Rejected(_)) => return,
                        Err(error) => tracing::warn!(job = id, %error, "a batch operation waits for the store"),
                    }
                    self.pause(&job, RETRY_DELAY).await;
                }
                Err(error) => {
                    tracing::warn!(job = id, %error, "a batch operation waits for the store");
                    self.pause(&job, RETRY_DELAY).await;
                }
            }
        }
    }

    /// The plan of a job. `None` if it cannot be carried out, which ends it.
    async fn plan_of(&self, namespace: &Namespace, job: &Job) -> Result<Option<BatchPlan>, CallError> {
        let Some(steps) = self.steps.get() else { return Ok(None) };
        let info = job.info();
        let (key, name) = (namespace.key, request_document(&info.job_id));
        let request = self.runs.store.document(key, &name).await?;
        let request = request.ok_or_else(|| CallError::DataLoss("what it is to do is missing".to_owned()));
        match request.map(|request| steps.prepare(namespace, &info, request)) {
            Ok(Ok(plan)) => Ok(Some(plan)),
            Ok(Err(why)) => {
                tracing::error!(job = info.job_id, why, "a batch operation cannot be carried out");
                self.end(key, job, BatchOperationState::Failed).await?;
                Ok(None)
            }
            Err(why) => {
                tracing::error!(job = info.job_id, %why, "a batch operation cannot be carried out");
                self.end(key, job, BatchOperationState::Failed).await?;
                Ok(None)
            }
        }
    }

    /// Does the next page of a job.
    async fn go_on(
        self: &Arc<Self>,
        namespace: &Arc<Namespace>,
        job: &Arc<Job>,
        plan: &BatchPlan,
        pace: Option<&mut Pace>,
    ) -> Result<Progress, CallError> {
        let before = job.info();
        if !before.counted {
            let total = match &plan.filter {
                Some(filter) => {
                    let (_, counts) = match plan.of_activities {
                        true => {
                            self.runs
                                .count_standalone(Standalone::Activity, ListCaller::default(), namespace, filter)
                                .await?
                        }
                        false => self.runs.count(ListCaller::default(), namespace, filter).await?,
                    };
                    counts.iter().map(|group| group.runs).sum::<u64>().cast_signed()
                }
                None => plan.targets.len() as i64,
            };
            let mut info = lock(&job.info);
            info.total = total;
            info.counted = true;
        }
        let page = self.next_targets(namespace, job, plan).await?;
        let done = page.targets.len() as u64;
        if sabotage::is_on("batch-counts-first") {
            // A fault that harnesses must catch: a page is recorded as done before it is.
            let mut early = job.info();
            early.done += done;
            early.complete += done.cast_signed();
            early.position = page.next.clone().map(StoredPosition::from);
            let documents = vec![info_write(namespace.key, &early)];
            let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
            self.runs.committer.commit_of(namespace.key, commit).await?;
        }
        if !self.do_page(job, plan, page.targets, pace).await {
            // Stopped on the way: a restart does the whole page again.
            return Ok(Progress::More);
        }
        let _writing = job.writing.lock().await;
        let mut info = job.info();
        if !info.is_open() {
            return Ok(Progress::Ended);
        }
        info.done += done;
        info.position = page.next.map(StoredPosition::from);
        if page.is_last {
            info.state = BatchOperationState::Completed as i32;
            info.close_time = self.runs.now();
            // What was there when it ended is what there was.
            info.total = info.complete + info.failed;
        }
        let documents = vec![info_write(namespace.key, &info)];
        let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
        self.runs.committer.commit_of(namespace.key, commit).await?;
        let progress = if info.is_open() { Progress::More } else { Progress::Ended };
        *lock(&job.info) = info;
        Ok(progress)
    }

    async fn next_targets(&self, namespace: &Arc<Namespace>, job: &Job, plan: &BatchPlan) -> Result<Page, CallError> {
        let info = job.info();
        let Some(filter) = &plan.filter else {
            let from = usize::try_from(info.done).unwrap_or(usize::MAX).min(plan.targets.len());
            let to = plan.targets.len().min(from.saturating_add(PAGE));
            let targets = plan.targets[from..to].to_vec();
            return Ok(Page { targets, next: None, is_last: to == plan.targets.len() });
        };
        let position = info.position.map(ListPosition::from);
        let found = match plan.of_activities {
            true => {
                self.runs
                    .list_standalone(Standalone::Activity, ListCaller::default(), namespace, filter, position, PAGE)
                    .await?
            }
            false => self.runs.list(ListCaller::default(), namespace, filter, position, PAGE).await?,
        };
        let id = |workflow_id: &str| match plan.of_activities {
            true => workflow_id.trim_start_matches(WORKFLOW_ID_PREFIX).to_owned(),
            false => workflow_id.to_owned(),
        };
        let target = |run: FoundRun| match run {
            FoundRun::Readable(run) => BatchTarget { id: id(&run.info.workflow_id), run_id: run.info.run_id.clone() },
            FoundRun::Damaged(facts) => BatchTarget { id: id(&facts.workflow_id), run_id: facts.run_id },
        };
        let is_last = found.next.is_none();
        Ok(Page { targets: found.runs.into_iter().map(target).collect(), next: found.next, is_last })
    }

    /// Carries out the steps of a page. `false` if it was stopped on the way.
    async fn do_page(
        self: &Arc<Self>,
        job: &Arc<Job>,
        plan: &BatchPlan,
        targets: Vec<BatchTarget>,
        mut pace: Option<&mut Pace>,
    ) -> bool {
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut steps = JoinSet::new();
        let counts = (job.info().complete, job.info().failed);
        let mut stopped = false;
        for target in targets {
            if let Some(pace) = &mut pace {
                self.pause(job, pace.wait()).await;
            }
            if self.runs.is_stopping() || !job.info().is_open() {
                stopped = true;
                break;
            }
            let Ok(permit) = permits.clone().acquire_owned().await else { break };
            let (batches, step, job) = (self.clone(), plan.steps.clone(), job.clone());
            steps.spawn(async move {
                let outcome = batches.try_step(&*step, target).await;
                match outcome {
                    Some(true) => lock(&job.info).complete += 1,
                    Some(false) => lock(&job.info).failed += 1,
                    None => {}
                }
                drop(permit);
                outcome.is_some()
            });
        }
        let mut all = !stopped;
        while let Some(done) = steps.join_next().await {
            match done {
                Ok(known) => all &= known,
                Err(error) if error.is_panic() => lock(&job.info).failed += 1,
                Err(_) => all = false,
            }
        }
        if !all && job.info().is_open() {
            // Nothing of this page counts: it is done again.
            let mut info = lock(&job.info);
            (info.complete, info.failed) = counts;
        }
        all
    }

    /// Whether a step succeeded; nothing if the node stops before that is known.
    async fn try_step(&self, step: &dyn BatchStep, target: BatchTarget) -> Option<bool> {
        let mut pause = PAUSE;
        for _ in 0..TRIES_MAX {
            match step.carry_out(target.clone()).await {
                Ok(()) => return Some(true),
                Err(StepError::Final) => return Some(false),
                Err(StepError::Temporary) if self.runs.is_stopping() => return None,
                Err(StepError::Temporary) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
        Some(false)
    }

    /// Waits, but not for longer than a job runs.
    async fn pause(&self, job: &Job, pause: Duration) {
        if !pause.is_zero() && job.info().is_open() && !self.runs.is_stopping() {
            let waits = async {
                tokio::select! {
                    biased;
                    () = job.stopped.notified() => {}
                    () = self.runs.lifecycle.stop.notified() => {}
                }
            };
            let _ = tokio::time::timeout(pause, waits).await;
        }
    }
}

/// Keeps steps apart.
pub(crate) struct Pace {
    apart: Duration,
    next: Instant,
}

impl Pace {
    pub(crate) fn new(per_second: f64) -> Self {
        let apart = if per_second > 0.0 { Duration::try_from_secs_f64(1.0 / per_second) } else { Ok(Duration::ZERO) };
        Self { apart: apart.unwrap_or(Duration::MAX), next: Instant::now() }
    }

    /// How long the next step has to wait.
    pub(crate) fn wait(&mut self) -> Duration {
        let now = Instant::now();
        let at = self.next.max(now);
        self.next = at.checked_add(self.apart).unwrap_or(at);
        at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_kept_apart() {
        let mut pace = Pace::new(10.0);
        assert!(pace.wait() < Duration::from_millis(1));
        let second = pace.wait();
        assert!(second > Duration::from_millis(90) && second <= Duration::from_millis(100), "{second:?}");
        assert_eq!(Pace::new(0.0).wait(), Duration::ZERO);
    }
}
