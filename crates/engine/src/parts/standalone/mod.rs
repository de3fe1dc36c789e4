//! Standalone activities: activities that clients start, without a workflow.
//!
//! Such an activity is a run of its own kind ([`state::StandaloneRun`]): no workflow tasks, and one activity, which is
//! pending from the first transition on. That activity is an [`crate::state::Activity`] like those of workflows: offers,
//! attempts, retries, time-outs and reports are those of [`crate::activity`]. Where a workflow would be told of the end, the
//! run closes with the outcome (`end`). What
//! clients and operators ask for is in [`crate::calls`], with rules that differ from those for activities of workflows.

pub mod begin;
pub mod end;
pub mod outcome;
pub mod status;

pub use crate::state::standalone as state;
pub use begin::*;
pub use status::*;
