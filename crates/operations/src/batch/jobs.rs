//! Jobs and their progress.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
};

use bytes::Bytes;
use prost::Message;
use segno_environment::{hash::HashMap, lock::lock};
use segno_proto::{Nanos, enums::BatchOperationState};
use segno_runs::{Namespace, Runs};
use segno_store::{DocumentWrite, NamespaceKey};
use tokio::sync::Notify;

use super::position::StoredPosition;

/// A job and how far it has come, as it is stored.
#[derive(Clone, PartialEq, Message)]
pub struct BatchInfo {
    /// The user's name for it.
    #[prost(string, tag = "1")]
    pub job_id: String,
    /// The operation.
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
    pub(super) counted: bool,
    /// Executions of a list that were dealt with.
    #[prost(uint64, tag = "15")]
    pub(super) done: u64,
    /// Where the next page of a filter begins.
    #[prost(message, optional, tag = "16")]
    pub(super) position: Option<StoredPosition>,
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
    /// The operation.
    pub operation_type: i32,
    /// Who starts it.
    pub identity: String,
    /// Why.
    pub reason: String,
    /// The user's filter, if there is one.
    pub query: String,
    /// The request, for [`BatchSteps::prepare`].
    pub request: Bytes,
}

/// An execution of a job.
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
    /// The operation on each execution.
    pub steps: Arc<dyn BatchStep>,
}

/// Why a step did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepError {
    /// The execution refused it and will do so again.
    Final,
    /// It may succeed later.
    Temporary,
}

/// A step under way.
pub type Step = Pin<Box<dyn Future<Output = Result<(), StepError>> + Send>>;

/// The operation of a job on one execution.
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
pub(super) struct Job {
    pub(super) info: Mutex<BatchInfo>,
    /// Held while progress is written, so that what is stored last is what memory has.
    pub(super) writing: tokio::sync::Mutex<()>,
    /// Notified when it is stopped.
    pub(super) stopped: Notify,
}

pub(super) type Jobs = BTreeMap<String, Arc<Job>>;

/// All batch jobs of a node.
pub struct Batches {
    pub(super) runs: Arc<Runs>,
    pub(super) jobs: Mutex<HashMap<NamespaceKey, Jobs>>,
    /// One job is started at a time, so that two cannot both be the only one.
    pub(super) starting: tokio::sync::Mutex<()>,
    pub(super) steps: OnceLock<Arc<dyn BatchSteps>>,
    /// Whether this node carries them out.
    pub(super) leading: AtomicBool,
}

impl Batches {
    /// No jobs yet.
    pub fn new(runs: Arc<Runs>) -> Arc<Self> {
        Arc::new(Self {
            runs,
            jobs: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            steps: OnceLock::new(),
            leading: AtomicBool::new(false),
        })
    }

    pub(super) fn find(&self, namespace: NamespaceKey, job_id: &str) -> Option<Arc<Job>> {
        lock(&self.jobs).get(&namespace)?.get(job_id).cloned()
    }

    pub(super) fn all(&self, namespace: NamespaceKey) -> Vec<Arc<Job>> {
        lock(&self.jobs).get(&namespace).into_iter().flat_map(|jobs| jobs.values().cloned()).collect()
    }

    pub(super) fn insert(&self, namespace: NamespaceKey, info: BatchInfo) -> Arc<Job> {
        let id = info.job_id.clone();
        let job =
            Arc::new(Job { info: Mutex::new(info), writing: tokio::sync::Mutex::default(), stopped: Notify::new() });
        lock(&self.jobs).entry(namespace).or_default().insert(id, job.clone());
        job
    }
}

impl Job {
    pub(super) fn info(&self) -> BatchInfo {
        lock(&self.info).clone()
    }
}

pub(super) fn info_document(job_id: &str) -> String {
    format!("batch/{job_id}")
}

pub(super) fn request_document(job_id: &str) -> String {
    format!("batch-request/{job_id}")
}

pub(super) fn info_write(namespace: NamespaceKey, info: &BatchInfo) -> DocumentWrite {
    let content = Some(info.encode_to_vec().into());
    DocumentWrite { namespace, name: info_document(&info.job_id), content }
}
