//! Batch operations: jobs that do the same to many executions.
//!
//! A job is two documents: what it is to do, as the edge understands it, written once, and how far it has come, written
//! after each page of executions. A restart goes on after the last page that was written. The steps of the page that was
//! under way are repeated; each has the same request id as before, so that what was done already is recognised.
//!
//! What a step does is the edge's business ([`BatchSteps`]): it is one of Temporal's calls. Memory has the progress of all
//! jobs, which are few, until the retention of their namespace has passed.

mod drive;
mod position;

use std::{
    collections::{BTreeMap, HashMap},
    future::Future,
    hash::Hash,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use segno_engine::{Rejection, uuid, validate::ID_LENGTH_MAX};
use segno_proto::{Nanos, enums::BatchOperationState};
use segno_store::{Commit, DocumentWrite, NamespaceKey};
use siphasher::sip128::{Hasher128, SipHasher13};
use tokio::sync::Notify;

use crate::{error::CallError, finish::finish, namespaces::Namespace, runs::Runs, slots::lock};
use position::StoredPosition;

/// Jobs of a namespace that may be open at the same time, as in Temporal.
const OPEN_MAX: usize = 1;
/// Documents read at a time.
const PAGE: usize = 1000;

/// A job and how far it has come, as it is stored.
#[derive(Clone, PartialEq, Message)]
pub struct BatchInfo {
    /// The user's name for it.
    #[prost(string, tag = "1")]
    pub job_id: String,
    /// What it does.
    #[prost(enumeration = "segno_proto::enums::BatchOperationType", tag = "2")]
    pub operation_type: i32,
    /// Whether it runs.
    #[prost(enumeration = "BatchOperationState", tag = "3")]
    pub state: i32,
    /// When it began, in nanoseconds since the epoch.
    #[prost(int64, tag = "4")]
    pub start_time: Nanos,
    /// When it ended; 0 while it runs.
    #[prost(int64, tag = "5")]
    pub close_time: Nanos,
    /// How many executions there were when it began.
    #[prost(int64, tag = "6")]
    pub total: i64,
    /// Executions to which it was done, or which needed it no more.
    #[prost(int64, tag = "7")]
    pub complete: i64,
    /// Executions that refused it.
    #[prost(int64, tag = "8")]
    pub failed: i64,
    /// Who started it.
    #[prost(string, tag = "9")]
    pub identity: String,
    /// Why.
    #[prost(string, tag = "10")]
    pub reason: String,
    /// The user's filter, if executions are found by one.
    #[prost(string, tag = "11")]
    pub query: String,
    /// Tells it from a later job with the same name.
    #[prost(string, tag = "12")]
    pub run_id: String,
    /// Names the request that started it.
    #[prost(string, tag = "13")]
    pub request_id: String,
    /// Whether `total` is known.
    #[prost(bool, tag = "14")]
    counted: bool,
    /// Executions of a list that were dealt with.
    #[prost(uint64, tag = "15")]
    done: u64,
    /// Where the next page of a filter begins.
    #[prost(message, optional, tag = "16")]
    position: Option<StoredPosition>,
}

impl BatchInfo {
    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        self.state() == BatchOperationState::Running
    }
}

/// A job to start.
#[derive(Clone, Debug)]
pub struct NewBatch {
    /// The user's name for it.
    pub job_id: String,
    /// What it does.
    pub operation_type: i32,
    /// Who starts it.
    pub identity: String,
    /// Why.
    pub reason: String,
    /// The user's filter, if there is one.
    pub query: String,
    /// What it is to do, for [`BatchSteps::prepare`].
    pub request: Bytes,
}

/// An execution to which something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTarget {
    /// Its id.
    pub id: String,
    /// Its run; empty for the current one.
    pub run_id: String,
}

/// How to carry out a job.
pub struct BatchPlan {
    /// Which executions, if a filter finds them.
    pub filter: Option<String>,
    /// Whether it finds standalone activities instead of workflows.
    pub of_activities: bool,
    /// Which executions, otherwise.
    pub targets: Vec<BatchTarget>,
    /// Most steps in a second; no limit if it is 0.
    pub per_second: f64,
    /// What is done to each.
    pub steps: Arc<dyn BatchStep>,
}

/// What became of a step that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The execution refused it and will do so again.
    Final,
    /// It may succeed later.
    Temporary,
}

/// A step under way.
pub type Step = Pin<Box<dyn Future<Output = Result<(), StepError>> + Send>>;

/// What a job does to one execution.
pub trait BatchStep: Send + Sync + 'static {
    /// Does it. Doing it again to the same execution changes nothing.
    fn carry_out(&self, target: BatchTarget) -> Step;
}

/// Knows what jobs are to do.
pub trait BatchSteps: Send + Sync + 'static {
    /// Understands what a job is to do; says why if it cannot be done.
    fn prepare(&self, namespace: &Namespace, info: &BatchInfo, request: Bytes) -> Result<BatchPlan, String>;
}

/// A job in memory.
struct Job {
    info: Mutex<BatchInfo>,
    /// Held while progress is written, so that what is stored last is what memory has.
    writing: tokio::sync::Mutex<()>,
    /// Told when it is stopped.
    stopped: Notify,
}

type Jobs = BTreeMap<String, Arc<Job>>;

/// All jobs of a node.
#[derive(Default)]
pub(crate) struct Batches {
    jobs: Mutex<HashMap<NamespaceKey, Jobs>>,
    /// One job is started at a time, so that two cannot both be the only one.
    starting: tokio::sync::Mutex<()>,
    steps: OnceLock<Arc<dyn BatchSteps>>,
    /// Whether this node carries them out.
    leading: AtomicBool,
}

impl Batches {
    fn find(&self, namespace: NamespaceKey, job_id: &str) -> Option<Arc<Job>> {
        lock(&self.jobs).get(&namespace)?.get(job_id).cloned()
    }

    fn all(&self, namespace: NamespaceKey) -> Vec<Arc<Job>> {
        lock(&self.jobs).get(&namespace).into_iter().flat_map(|jobs| jobs.values().cloned()).collect()
    }

    fn insert(&self, namespace: NamespaceKey, info: BatchInfo) -> Arc<Job> {
        let id = info.job_id.clone();
        let job =
            Arc::new(Job { info: Mutex::new(info), writing: tokio::sync::Mutex::default(), stopped: Notify::new() });
        lock(&self.jobs).entry(namespace).or_default().insert(id, job.clone());
        job
    }
}

impl Job {
    fn info(&self) -> BatchInfo {
        lock(&self.info).clone()
    }
}

fn info_document(job_id: &str) -> String {
    format!("batch/{job_id}")
}

fn request_document(job_id: &str) -> String {
    format!("batch-request/{job_id}")
}

fn info_write(namespace: NamespaceKey, info: &BatchInfo) -> DocumentWrite {
    let content = Some(info.encode_to_vec().into());
    DocumentWrite { namespace, name: info_document(&info.job_id), content }
}

impl Runs {
    /// Reads the progress of all jobs.
    pub(crate) async fn load_batches(&self) -> Result<(), CallError> {
        for namespace in self.namespaces.all() {
            let key = namespace.key;
            let mut after: Option<String> = None;
            loop {
                let last = after.clone();
                let page = self.store.documents(key, "batch/", last.as_deref(), PAGE).await?;
                let Some(end) = page.last() else { break };
                after = Some(end.name.clone());
                for document in page {
                    let info = BatchInfo::decode(document.content)
                        .map_err(|error| CallError::DataLoss(format!("document {:?}: {error}", document.name)))?;
                    self.batches.insert(key, info);
                }
            }
        }
        Ok(())
    }

    /// Learns what jobs are to do, and goes on with those that were under way when the node stopped.
    pub fn run_batches(self: &Arc<Self>, steps: Arc<dyn BatchSteps>) {
        if self.batches.steps.set(steps).is_err() || !self.leads() {
            return;
        }
        self.batches.leading.store(true, Ordering::Release);
        for namespace in self.namespaces.all() {
            for job in self.batches.all(namespace.key) {
                if job.info().is_open() {
                    self.begin_batch(namespace.clone(), job);
                }
            }
        }
    }

    /// Nodes came or went: the one that leads now carries out the jobs, from what is stored of them.
    pub(crate) fn lead_batches(self: &Arc<Self>) {
        let leads = self.batches.steps.get().is_some() && self.leads();
        if self.batches.leading.swap(leads, Ordering::AcqRel) || !leads {
            return;
        }
        let node = self.clone();
        tokio::spawn(async move {
            let _starting = node.batches.starting.lock().await;
            lock(&node.batches.jobs).clear();
            while let Err(error) = node.load_batches().await {
                tracing::warn!(%error, "batch operations could not be read; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            for namespace in node.namespaces.all() {
                for job in node.batches.all(namespace.key).into_iter().filter(|job| job.info().is_open()) {
                    node.begin_batch(namespace.clone(), job);
                }
            }
        });
    }

    /// Starts a job. Once this returns it will be carried out.
    pub async fn start_batch(self: &Arc<Self>, namespace: Arc<Namespace>, new: NewBatch) -> Result<(), CallError> {
        self.refuse_overload()?;
        let node = self.clone();
        finish(async move { node.store_batch(namespace, new).await }).await
    }

    async fn store_batch(self: &Arc<Self>, namespace: Arc<Namespace>, new: NewBatch) -> Result<(), CallError> {
        let _starting = self.batches.starting.lock().await;
        let key = namespace.key;
        let open = self.batches.all(key).iter().filter(|job| lock(&job.info).is_open()).count();
        if open >= OPEN_MAX {
            return Err(CallError::TooManyBatches);
        }
        if new.job_id.len() > ID_LENGTH_MAX {
            return Err(Rejection::InvalidArgument("WorkflowId exceeds length limit.".to_owned()).into());
        }
        if let Some(known) = self.batches.find(key, &new.job_id) {
            return Err(finished(&known.info()).into());
        }
        let info = BatchInfo {
            state: BatchOperationState::Running as i32,
            start_time: self.now(),
            run_id: self.uuid(),
            request_id: self.uuid(),
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
        self.committer.commit_of(key, commit).await?;
        let job = self.batches.insert(key, info);
        self.begin_batch(namespace, job);
        Ok(())
    }

    /// A job, and what it is to do.
    pub async fn batch(&self, namespace: &Namespace, job_id: &str) -> Result<(BatchInfo, Bytes), CallError> {
        let (key, name) = (namespace.key, request_document(job_id));
        let job = self.batches.find(key, job_id).ok_or_else(|| not_found(job_id))?;
        let request = self.store.document(key, &name).await?;
        Ok((job.info(), request.ok_or_else(|| not_found(job_id))?))
    }

    /// All jobs of a namespace, open ones first, last closed first.
    pub fn batch_list(&self, namespace: &Namespace) -> Vec<BatchInfo> {
        let mut all: Vec<BatchInfo> = self.batches.all(namespace.key).iter().map(|job| job.info()).collect();
        let age = |info: &BatchInfo| {
            let closed = if info.is_open() { Nanos::MAX } else { info.close_time };
            (closed, info.start_time, info.run_id.clone())
        };
        all.sort_by_cached_key(|info| std::cmp::Reverse(age(info)));
        all
    }

    /// Stops a job. What it did stays done; once this returns it does nothing more, except for steps under way.
    pub async fn stop_batch(self: &Arc<Self>, namespace: &Namespace, job_id: &str) -> Result<(), CallError> {
        let (node, key) = (self.clone(), namespace.key);
        let job = self.batches.find(key, job_id).ok_or_else(|| not_found(job_id))?;
        finish(async move { node.end_batch(key, &job, BatchOperationState::Failed).await }).await
    }

    /// Records the end of a job; refused if it has ended.
    async fn end_batch(&self, namespace: NamespaceKey, job: &Job, state: BatchOperationState) -> Result<(), CallError> {
        let _writing = job.writing.lock().await;
        if !job.info().is_open() {
            return Err(Rejection::Closed.into());
        }
        let ended = BatchInfo { state: state as i32, close_time: self.now(), ..job.info() };
        let documents = vec![info_write(namespace, &ended)];
        let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
        self.committer.commit_of(namespace, commit).await?;
        let mut info = lock(&job.info);
        info.state = ended.state;
        info.close_time = ended.close_time;
        drop(info);
        job.stopped.notify_one();
        Ok(())
    }

    /// Forgets jobs that closed before a moment (all of them, if it is the last one there is); says when the first of the
    /// others closed.
    pub(crate) async fn forget_batches(
        &self,
        namespace: NamespaceKey,
        closed_before: Nanos,
    ) -> Result<Option<Nanos>, CallError> {
        let goes = |info: &BatchInfo| closed_before == Nanos::MAX || !info.is_open();
        let closed: Vec<BatchInfo> = self.batches.all(namespace).iter().map(|job| job.info()).filter(goes).collect();
        let (expired, kept): (Vec<_>, Vec<_>) = closed.into_iter().partition(|info| info.close_time < closed_before);
        for info in expired {
            let gone = |name| DocumentWrite { namespace, name, content: None };
            let documents = vec![gone(info_document(&info.job_id)), gone(request_document(&info.job_id))];
            let commit = Commit { documents, documents_of_one_node: true, ..Default::default() };
            self.committer.commit_of(namespace, commit).await?;
            if let Some(jobs) = lock(&self.batches.jobs).get_mut(&namespace) {
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

/// A request id made of texts: the same texts give the same id.
pub fn step_id(parts: &[&str]) -> String {
    let mut hasher = SipHasher13::new();
    parts.iter().for_each(|part| part.hash(&mut hasher));
    let hash = hasher.finish128();
    uuid(5, hash.h1, hash.h2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_ids_repeat_and_differ() {
        let id = step_id(&["job", "signal", "wf", "run"]);
        assert_eq!(id, step_id(&["job", "signal", "wf", "run"]));
        assert_ne!(id, step_id(&["job", "signal", "wfr", "un"]));
        assert_ne!(id, step_id(&["job", "cancel", "wf", "run"]));
        assert!(segno_engine::validate::is_uuid(&id));
    }
}
