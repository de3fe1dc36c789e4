//! What transitions are put together from. A part changes a draft; calls and commands decide which parts they need.
//!
//! The calls on schedules, standalone activities and standalone operations, which are runs without a workflow, are with their parts.

pub mod activity;
pub mod builds;
pub mod callbacks;
pub mod chain;
pub mod close;
mod finish;
pub mod inherit;
pub mod nexus;
pub(crate) mod nexus_begin;
pub mod pause_info;
pub mod problems;
pub mod schedule;
pub mod script;
pub mod signal;
pub mod standalone;
pub mod standalone_nexus;
pub mod start;
pub mod start_options;
pub mod update;
pub mod version_override;
pub mod version_wait;
pub mod versioning;
pub mod workflow_task;
