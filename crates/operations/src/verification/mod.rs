//! Verifications: jobs that let workers of a candidate replay open runs, before tasks go to them.
//!
//! A verification selects open runs, has each of them tried at the node that serves it (the port [`Trials`]) and counts what came of
//! it. While it runs it is in the memory of the node that leads; when it ends, its result becomes one document of its candidate,
//! which replaces the one before. It changes no run, so one that is lost with its node is started again by its caller.

mod calls;
mod drive;
mod results;
mod select;

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use segno_environment::{hash::HashMap, lock::lock};
use segno_proto::segno_verification::{Candidate, TryRunRequest, TryRunResponse, Verification};
use segno_runs::{CallError, Runs};
use segno_store::NamespaceKey;
use tokio::sync::watch;

use results::Results;

/// Runs that a verification tries, unless its caller says how many.
pub const SAMPLE_DEFAULT: usize = 1000;
/// Most runs of one verification.
pub const SAMPLE_MAX: usize = 100_000;
/// Trials at a time, and the most there may be.
pub const PARALLEL_DEFAULT: usize = 16;
/// Most trials at a time.
pub const PARALLEL_MAX: usize = 100;
/// Trials begun in a second, unless the caller says how many.
pub const PER_SECOND_DEFAULT: usize = 200;
/// Most trials begun in a second.
pub const PER_SECOND_MAX: usize = 1000;
/// How long a trial may take, unless the caller says it.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// The longest that a trial may take.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// Verifications of all namespaces that a node carries out at a time.
const NODE_MAX: usize = 16;

/// A trial under way.
pub type TrialFuture = Pin<Box<dyn Future<Output = TryRunResponse> + Send>>;

/// Tries runs, wherever they are.
pub trait Trials: Send + Sync + 'static {
    /// Lets a worker replay a run. A trial that cannot be made has no answer.
    fn try_run(&self, request: TryRunRequest) -> TrialFuture;
}

/// A verification to carry out, within the limits.
#[derive(Clone, Debug)]
pub struct NewVerification {
    /// Who is to replay.
    pub candidate: Candidate,
    /// Only runs that fit this filter.
    pub query: String,
    /// Most runs.
    pub sample: usize,
    /// Also runs that are pinned elsewhere.
    pub include_pinned: bool,
    /// Trials at a time.
    pub parallel: usize,
    /// How long a trial may take.
    pub timeout: Duration,
    /// Trials begun in a second.
    pub per_second: usize,
    /// Who starts it.
    pub identity: String,
}

/// Why a call about verifications is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VerificationError {
    /// One runs already.
    #[error("verification {0} is running in this namespace; stop it, or wait until it has ended")]
    Busy(String),
    /// The node carries out as many as it may.
    #[error("too many verifications are running, try again later")]
    TooMany,
    /// There is none.
    #[error("no verification of this candidate is known")]
    Unknown,
    /// None runs that is meant.
    #[error("no such verification is running")]
    NotRunning,
    /// Anything else.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A verification that runs.
struct Job {
    id: String,
    results: Mutex<Results>,
    /// Whether a caller stopped it.
    stop: watch::Sender<bool>,
}

impl Job {
    fn shown(&self) -> Verification {
        lock(&self.results).shown()
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until a caller stops it.
    async fn stopped(&self) {
        // The sender is in the job.
        let _ = self.stop.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// The verifications that this node carries out, at most one of each namespace, and the results of earlier ones.
pub struct Verifications {
    runs: Arc<Runs>,
    running: Mutex<HashMap<NamespaceKey, Arc<Job>>>,
}

impl Verifications {
    /// No verification runs yet.
    pub fn new(runs: Arc<Runs>) -> Arc<Self> {
        Arc::new(Self { runs, running: Mutex::default() })
    }

    fn running(&self, namespace: NamespaceKey) -> Option<Arc<Job>> {
        lock(&self.running).get(&namespace).cloned()
    }

    /// Adds a job, if none runs.
    fn insert(&self, namespace: NamespaceKey, job: Arc<Job>) -> Result<(), VerificationError> {
        let mut running = lock(&self.running);
        if let Some(known) = running.get(&namespace) {
            return Err(VerificationError::Busy(known.id.clone()));
        }
        if running.len() >= NODE_MAX {
            return Err(VerificationError::TooMany);
        }
        running.insert(namespace, job);
        Ok(())
    }

    fn remove(&self, namespace: NamespaceKey) {
        lock(&self.running).remove(&namespace);
    }
}
