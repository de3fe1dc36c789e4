//! Starting, stopping and showing batch operations.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use segno_engine::{Rejection, validate::ID_LENGTH_MAX};
use segno_environment::{finish::finish, lock::lock};
use segno_proto::{Nanos, enums::BatchOperationState};
use segno_runs::{CallError, Namespace};
use segno_store::{Commit, DocumentWrite, NamespaceKey};

use super::{
    Batches,
    jobs::{BatchInfo, BatchSteps, Job, NewBatch, info_document, info_write, request_document},
};

/// Jobs of a namespace that may be open at the same time, as in Temporal.
const OPEN_MAX: usize = 1;

impl Batches {
    /// Reads the progress of all jobs.
    pub async fn load(&self) -> Result<(), CallError> {
        for namespace in self.runs.namespaces.all() {
            let key = namespace.key;
            self.runs.each_message(key, "batch/", |info: BatchInfo| drop(self.insert(key, info))).await?;
        }
        Ok(())
    }

    /// Learns what jobs are to do, and goes on with those that were under way when the node stopped.
    pub fn run(self: &Arc<Self>, steps: Arc<dyn BatchSteps>) {
        if self.steps.set(steps).is_err() || !self.runs.leads() {
            return;
        }
        self.leading.store(true, Ordering::Release);
        for namespace in self.runs.namespaces.all() {
            for job in self.all(namespace.key) {
                if job.info().is_open() {
                    self.begin(namespace.clone(), job);
                }
            }
        }
    }

    /// Nodes came or went: the one that leads now carries out the jobs, from what is stored of them.
    pub fn follow_leader(self: &Arc<Self>) {
        let leads = self.steps.get().is_some() && self.runs.leads();
        if self.leading.swap(leads, Ordering::AcqRel) || !leads {
            return;
        }
        let batches = self.clone();
        tokio::spawn(async move {
            let _starting = batches.starting.lock().await;
            lock(&batches.jobs).clear();
            while let Err(error) = batches.load().await {
                tracing::warn!(%error, "batch operations could not be read; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            for namespace in batches.runs.namespaces.all() {
                for job in batches.all(namespace.key).into_iter().filter(|job| job.info().is_open()) {
                    batches.begin(namespace.clone(), job);
                }
            }
        });
    }

    /// Starts a job. Once this returns it will be carried out.
    pub async fn start(self: &Arc<Self>, namespace: Arc<Namespace>, new: NewBatch) -> Result<(), CallError> {
        self.runs.refuse_overload()?;
        let batches = self.clone();
        finish(async move { batches.store(namespace, new).await }).await
    }

    async fn store(self: &Arc<Self>, namespace: Arc<Namespace>, new: NewBatch) -> Result<(), CallError> {
        let _starting = self.starting.lock().await;
        let key = namespace.key;
        let open = self.all(key).iter().filter(|job| lock(&job.info).is_open()).count();
        if open >= OPEN_MAX {
            return Err(CallError::TooManyBatches);
        }
        if new.job_id.len() > ID_LENGTH_MAX {
            return Err(Rejection::InvalidArgument("WorkflowId exceeds length limit.".to_owned()).into());
        }
        if let Some(known) = self.find(key, &new.job_id) {
            return Err(finished(&known.info()).into());
        }
        let info = BatchInfo {
            state: BatchOperationState::Running as i32,
            start_time: self.runs.now(),
            run_id: self.runs.uuid(),
            request_id: self.runs.uuid(),
            job_id: new.job_id,
            operation_type: new.operation_type,
            identity: new.identity,
            reason: new.reason,
            query: new.query,
            ..Default::default()
        };
        let request =
            DocumentWrite { namespace: key, name: request_document(&info.job_id), content: Some(new.request) };
        let documents = vec![info_write(key, &info), request];
        let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
        self.runs.committer.commit_of(key, commit).await?;
        let job = self.insert(key, info);
        self.begin(namespace, job);
        Ok(())
    }

    /// A job, and what it is to do.
    pub async fn describe(&self, namespace: &Namespace, job_id: &str) -> Result<(BatchInfo, Bytes), CallError> {
        let (key, name) = (namespace.key, request_document(job_id));
        let job = self.find(key, job_id).ok_or_else(|| not_found(job_id))?;
        let request = self.runs.store.document(key, &name).await?;
        Ok((job.info(), request.ok_or_else(|| not_found(job_id))?))
    }

    /// All jobs of a namespace, open ones first, last closed first.
    pub fn list(&self, namespace: &Namespace) -> Vec<BatchInfo> {
        let mut all: Vec<BatchInfo> = self.all(namespace.key).iter().map(|job| job.info()).collect();
        let age = |info: &BatchInfo| {
            let closed = if info.is_open() { Nanos::MAX } else { info.close_time };
            (closed, info.start_time, info.run_id.clone())
        };
        all.sort_by_cached_key(|info| std::cmp::Reverse(age(info)));
        all
    }

    /// Stops a job. What it did stays done; once this returns it does nothing more, except for steps under way.
    pub async fn stop(self: &Arc<Self>, namespace: &Namespace, job_id: &str) -> Result<(), CallError> {
        let (batches, key) = (self.clone(), namespace.key);
        let job = self.find(key, job_id).ok_or_else(|| not_found(job_id))?;
        finish(async move { batches.end(key, &job, BatchOperationState::Failed).await }).await
    }

    /// Records the end of a job; refused if it has ended.
    pub(super) async fn end(
        &self,
        namespace: NamespaceKey,
        job: &Job,
        state: BatchOperationState,
    ) -> Result<(), CallError> {
        let _writing = job.writing.lock().await;
        if !job.info().is_open() {
            return Err(Rejection::Closed.into());
        }
        let ended = BatchInfo { state: state as i32, close_time: self.runs.now(), ..job.info() };
        let documents = vec![info_write(namespace, &ended)];
        let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
        self.runs.committer.commit_of(namespace, commit).await?;
        let mut info = lock(&job.info);
        info.state = ended.state;
        info.close_time = ended.close_time;
        drop(info);
        job.stopped.notify_one();
        Ok(())
    }

    /// Forgets jobs that closed before a moment (all of them, if it is the last one there is); says when the first of the
    /// others closed.
    pub(crate) async fn forget(
        &self,
        namespace: NamespaceKey,
        closed_before: Nanos,
    ) -> Result<Option<Nanos>, CallError> {
        let goes = |info: &BatchInfo| closed_before == Nanos::MAX || !info.is_open();
        let closed: Vec<BatchInfo> = self.all(namespace).iter().map(|job| job.info()).filter(goes).collect();
        let (expired, kept): (Vec<_>, Vec<_>) = closed.into_iter().partition(|info| info.close_time < closed_before);
        for info in expired {
            let gone = |name| DocumentWrite { namespace, name, content: None };
            let documents = vec![gone(info_document(&info.job_id)), gone(request_document(&info.job_id))];
            let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
            self.runs.committer.commit_of(namespace, commit).await?;
            if let Some(jobs) = lock(&self.jobs).get_mut(&namespace) {
                jobs.remove(&info.job_id);
            }
        }
        Ok(kept.iter().map(|info| info.close_time).min())
    }
}

fn not_found(job_id: &str) -> CallError {
    CallError::WorkflowNotFound { workflow_id: job_id.to_owned() }
}

/// Temporal's jobs are workflows, and no second one may have the id of the first.
fn finished(known: &BatchInfo) -> Rejection {
    let (id, run_id) = (&known.job_id, &known.run_id);
    Rejection::AlreadyStarted {
        message: format!(
            "Workflow execution already finished. WorkflowId: {id}, RunId: {run_id}. Workflow Id reuse policy: reject \
             duplicate workflow Id."
        ),
        start_request_id: known.request_id.clone(),
        run_id: run_id.clone(),
        first_run_id: run_id.clone(),
    }
}
