//! Schedules: what starts workflows at given times.
//!
//! A schedule is a run of its own kind ([`crate::state::schedule::ScheduleRun`]). It has no workflow tasks: when something happens to it
//! (its time comes, a caller changes it, a workflow that it started begins or ends), the engine decides at once what
//! follows. It starts workflows by outbox messages and receives their end by such messages, so that nothing is lost or
//! started twice. [`spec`] says when a schedule acts, `overlap` what happens to actions that overlap, `scheduler` puts both
//! together, [`advance`] carries it out.

pub mod advance;
mod calendar;
mod overlap;
mod parse;
pub mod scheduler;
pub mod spec;
mod view;
mod zone;

pub use advance::NewSchedule;
pub use view::{LIST_TIMES_MAX, ScheduleDescription, describe, list_info, matching_times};

/// Workflow ids of schedules begin so; the id of the schedule follows.
pub const WORKFLOW_ID_PREFIX: &str = "temporal-sys-scheduler:";
/// The workflow type of schedules.
pub const WORKFLOW_TYPE: &str = "temporal-sys-scheduler-workflow";
/// The queue that runs of schedules name. They have no tasks.
pub const QUEUE: &str = "temporal-sys-per-ns-tq";
/// The division in which schedules are listed.
pub const DIVISION: &str = "TemporalScheduler";
/// The search attribute of a division.
pub const DIVISION_ATTRIBUTE: &str = "TemporalNamespaceDivision";
/// The search attribute that says whether a schedule is paused.
pub const PAUSED_ATTRIBUTE: &str = "TemporalSchedulePaused";
/// The search attribute that names the schedule that started a workflow.
pub const STARTED_BY_ATTRIBUTE: &str = "TemporalScheduledById";
/// The search attribute with the time for which a workflow was scheduled.
pub const START_TIME_ATTRIBUTE: &str = "TemporalScheduledStartTime";
