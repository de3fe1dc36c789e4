//! Verifications: jobs that let workers of a candidate replay open runs, before tasks go to them.
//!
//! A verification selects open runs, has each of them tried at the node that serves it (the port [`Trials`]) and counts what came of
//! it. The node that leads carries it out. What it is to do is a document from its start to its end, what it has counted is in memory.
//! If the node stops, the next one that leads begins it anew, which is harmless, because it changes no run. When it ends, its result
//! becomes a document of its candidate, which replaces the one before.

mod calls;
mod documents;
mod drive;
mod lead;
mod results;
mod select;

use std::{
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use segno_environment::{hash::HashMap, lock::lock};
use segno_proto::{
    Nanos, duration_nanos, nanos_duration, nanos_timestamp,
    segno_verification::{Candidate, State, TryRunRequest, TryRunResponse, Verification},
};
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

impl NewVerification {
    /// The verification that does this.
    fn begun(self, id: String, now: Nanos) -> Verification {
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        Verification {
            id,
            candidate: Some(self.candidate),
            state: State::Running as i32,
            identity: self.identity,
            start_time: Some(nanos_timestamp(now)),
            query: self.query,
            include_pinned: self.include_pinned,
            parallel: number(self.parallel),
            timeout: Some(nanos_duration(self.timeout.as_nanos().try_into().unwrap_or(i64::MAX))),
            max_per_second: number(self.per_second),
            sample_size: number(self.sample),
            ..Default::default()
        }
    }

    /// The request of a verification.
    fn of(verification: &Verification) -> Self {
        let number = |number: i32| usize::try_from(number).unwrap_or_default();
        let timeout = duration_nanos(verification.timeout.as_ref());
        Self {
            candidate: verification.candidate.clone().unwrap_or_default(),
            query: verification.query.clone(),
            sample: number(verification.sample_size),
            include_pinned: verification.include_pinned,
            parallel: number(verification.parallel),
            timeout: Duration::from_nanos(timeout.unsigned_abs()),
            per_second: number(verification.max_per_second),
            identity: verification.identity.clone(),
        }
    }
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

/// A verification that this node carries out.
struct Job {
    id: String,
    results: Mutex<Results>,
    phase: watch::Sender<Phase>,
}

/// How far this node is with a verification.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Running,
    /// A caller stopped it.
    Stopping,
    /// This node carries it out no longer.
    Over,
}

impl Job {
    fn of(verification: Verification) -> Arc<Self> {
        let id = verification.id.clone();
        Arc::new(Self {
            id,
            results: Mutex::new(Results::new(verification)),
            phase: watch::Sender::new(Phase::Running),
        })
    }

    fn shown(&self) -> Verification {
        lock(&self.results).shown()
    }

    fn close(&self, state: State, error: String, now: Nanos) {
        lock(&self.results).close(state, error, now);
    }

    fn stop(&self) {
        self.phase.send_if_modified(|phase| {
            let runs = *phase == Phase::Running;
            if runs {
                *phase = Phase::Stopping;
            }
            runs
        });
    }

    fn is_stopped(&self) -> bool {
        *self.phase.borrow() == Phase::Stopping
    }

    /// Waits until a caller stops it.
    async fn stopped(&self) {
        // The sender is in the job.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Stopping).await;
    }

    /// Waits until this node carries it out no longer.
    async fn over(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Over).await;
    }
}

/// The verifications that this node carries out, at most one of each namespace, and the results of earlier ones.
pub struct Verifications {
    runs: Arc<Runs>,
    running: Mutex<HashMap<NamespaceKey, Arc<Job>>>,
    trials: OnceLock<Arc<dyn Trials>>,
    /// Held while a verification comes to be the one of its namespace, or is stopped before it is that.
    starting: tokio::sync::Mutex<()>,
    /// Whether this node carries them out.
    leading: AtomicBool,
}

impl Verifications {
    /// No verification runs yet.
    pub fn new(runs: Arc<Runs>) -> Arc<Self> {
        Arc::new(Self {
            runs,
            running: Mutex::default(),
            trials: OnceLock::new(),
            starting: tokio::sync::Mutex::default(),
            leading: AtomicBool::new(false),
        })
    }

    fn running(&self, namespace: NamespaceKey) -> Option<Arc<Job>> {
        lock(&self.running).get(&namespace).cloned()
    }

    /// Refuses a further verification of a namespace, or of the node.
    fn check_room(&self, namespace: NamespaceKey) -> Result<(), VerificationError> {
        let running = lock(&self.running);
        match running.get(&namespace) {
            Some(known) => Err(VerificationError::Busy(known.id.clone())),
            None if running.len() >= NODE_MAX => Err(VerificationError::TooMany),
            None => Ok(()),
        }
    }
}
