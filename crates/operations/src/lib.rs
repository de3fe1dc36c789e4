//! Operations over many runs, and what an operator sets up: namespaces are registered, changed and deleted
//! ([`namespaces`]), batch jobs do the same to many executions ([`batch`]), verifications let workers of a candidate replay
//! open runs ([`verification`]), exports and imports move a whole store ([`moving`]), and access keys say who may call
//! ([`access_keys`]).
//!
//! Each is a struct of its own above [`Runs`](segno_runs::Runs) and uses only its public methods.

mod access_keys;
mod batch;
mod moving;
mod namespaces;
pub mod verification;

pub use access_keys::{AccessKey, AccessKeys, NewKeyError};
pub use batch::{
    BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, Batches, NewBatch, Step, StepError, step_id,
};
pub use moving::{ExportCounts, MoveError, export, import};
pub use namespaces::NamespaceOperations;
pub use verification::{NewVerification, TrialFuture, Trials, VerificationError, Verifications};
