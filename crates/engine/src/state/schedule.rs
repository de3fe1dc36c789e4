//! A schedule, as stored in the state of its run. A tag, once used, is never reused for another field.

use segno_proto::{
    Nanos,
    common::Payloads,
    enums::ScheduleOverlapPolicy,
    failure::Failure,
    schedule::{BackfillRequest, Schedule, ScheduleActionResult, ScheduleInfo},
};

use crate::shared::Shared;

/// A schedule.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScheduleRun {
    /// The schedule as callers set it; its specification is in canonical form, its policies are filled in.
    #[prost(message, required, tag = "1")]
    pub schedule: Shared<Schedule>,
    /// The past of the schedule as callers see it. Times to come are computed on request.
    #[prost(message, required, tag = "2")]
    pub info: ScheduleInfo,
    /// The user's name for it.
    #[prost(string, tag = "3")]
    pub schedule_id: String,
    /// Times up to here were dealt with.
    #[prost(int64, tag = "4")]
    pub processed: Nanos,
    /// Grows with each change that a caller may have to know of before changing something else.
    #[prost(int64, tag = "5")]
    pub conflict_token: i64,
    /// Actions that were due and are not decided yet, oldest first.
    #[prost(message, repeated, tag = "6")]
    pub buffered: Vec<BufferedStart>,
    /// Backfills that are not done yet.
    #[prost(message, repeated, tag = "7")]
    pub backfills: Vec<BackfillRequest>,
    /// Actions that were decided, in order: their outbox messages are under way, or what became of them waits for that
    /// of an earlier one.
    #[prost(message, repeated, tag = "8")]
    pub starting: Vec<PendingStart>,
    /// When it is to be woken; 0 is never.
    #[prost(int64, tag = "9")]
    pub wake_at: Nanos,
    /// The result of the last workflow that completed.
    #[prost(message, optional, tag = "10")]
    pub last_result: Option<Payloads>,
    /// How the last workflow failed, if none completed since.
    #[prost(message, optional, tag = "11")]
    pub last_failure: Option<Failure>,
    /// Numbers what it starts.
    #[prost(uint64, tag = "12")]
    pub starts: u64,
    /// When backfills may add more actions.
    #[prost(int64, tag = "13")]
    pub backfill_at: Nanos,
}

/// An action that is due.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BufferedStart {
    /// The time that the specification names.
    #[prost(int64, tag = "1")]
    pub nominal: Nanos,
    /// That time with jitter.
    #[prost(int64, tag = "2")]
    pub actual: Nanos,
    /// Its overlap policy; unspecified is that of the schedule.
    #[prost(enumeration = "ScheduleOverlapPolicy", tag = "3")]
    pub policy: i32,
    /// Whether a caller asked for it (trigger, backfill).
    #[prost(bool, tag = "4")]
    pub manual: bool,
}

/// An action whose workflow is being started.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PendingStart {
    /// Its number among the starts of the schedule.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// That time with jitter.
    #[prost(int64, tag = "2")]
    pub actual: Nanos,
    /// Whether it may not overlap with others, so that the schedule waits for its end.
    #[prost(bool, tag = "3")]
    pub single: bool,
    /// Whether what became of it is known.
    #[prost(bool, tag = "4")]
    pub known: bool,
    /// The outcome of the action; nothing if the workflow could not be started.
    #[prost(message, optional, tag = "5")]
    pub result: Option<ScheduleActionResult>,
}
