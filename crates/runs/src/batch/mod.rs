//! Batch operations: jobs that do the same to many executions.
//!
//! A job is two documents: what it is to do, as the edge understands it, written once, and how far it has come, written
//! after each page of executions. A restart goes on after the last page that was written. The steps of the page that was
//! under way are repeated; each has the same request id as before, so that what was done already is recognised.
//!
//! What a step does is the edge's business ([`BatchSteps`]): it is one of Temporal's calls. Memory has the progress of all
//! jobs, which are few, until the retention of their namespace has passed.

mod calls;
mod drive;
mod jobs;
mod position;
mod step_id;

pub use jobs::Batches;
pub use jobs::{BatchInfo, BatchPlan, BatchStep, BatchSteps, BatchTarget, NewBatch, Step, StepError};
pub use step_id::step_id;
