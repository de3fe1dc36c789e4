//! Batch operations: jobs that do the same to many executions.
//!
//! A job is two documents: its request, written once, and its progress, written after each page of executions. A
//! restart goes on after the last page that was written. The steps of an unfinished page are repeated; each has the
//! same request id as before, so that completed steps are recognised.
//!
//! The edge defines what a step does ([`BatchSteps`]): it is one of Temporal's calls. The progress of all jobs is in
//! memory until the retention of their namespace has passed.

mod calls;
mod drive;
mod jobs;
mod position;
mod step_id;

pub(crate) use drive::Pace;
pub use jobs::Batches;
pub use jobs::{BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, NewBatch, Step, StepError};
pub use step_id::step_id;
