//! A pending activity, as stored in the state of its run. A tag, once used, is never reused for another field.

use segno_proto::{
    Nanos,
    activity::ActivityOptions,
    common::{Payloads, Priority, RetryPolicy, WorkerVersionStamp},
    deployment::WorkerDeploymentVersion,
    failure::Failure,
};

pub use crate::state::script::Script;
pub use crate::state::script::ScriptCheckpoint;
pub use crate::state::script::ScriptGroup;
pub use crate::state::script::ScriptMove;
pub use crate::state::script::ScriptOperation;
pub use crate::state::script::ScriptWakeSet;

/// A pending activity.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Activity {
    /// Id of its scheduled event.
    #[prost(int64, tag = "1")]
    pub scheduled_event_id: i64,
    /// The user's id.
    #[prost(string, tag = "2")]
    pub activity_id: String,
    /// Name of the activity type.
    #[prost(string, tag = "3")]
    pub activity_type: String,
    /// The queue.
    #[prost(string, tag = "4")]
    pub queue: String,
    /// When the first attempt was scheduled.
    #[prost(int64, tag = "5")]
    pub first_scheduled_time: Nanos,
    /// When the current attempt is due (in the future during back-off).
    #[prost(int64, tag = "6")]
    pub scheduled_time: Nanos,
    /// When the current attempt started; 0 while it waits.
    #[prost(int64, tag = "7")]
    pub started_time: Nanos,
    /// From 1.
    #[prost(int32, tag = "8")]
    pub attempt: i32,
    /// Timeouts; 0 is unlimited.
    #[prost(int64, tag = "9")]
    pub schedule_to_start: Nanos,
    /// See above.
    #[prost(int64, tag = "10")]
    pub start_to_close: Nanos,
    /// See above.
    #[prost(int64, tag = "11")]
    pub schedule_to_close: Nanos,
    /// See above.
    #[prost(int64, tag = "12")]
    pub heartbeat: Nanos,
    /// How it is retried, with defaults filled in.
    #[prost(message, optional, tag = "13")]
    pub retry_policy: Option<RetryPolicy>,
    /// Time of the last sign of life of the worker.
    #[prost(int64, tag = "14")]
    pub last_heartbeat_time: Nanos,
    /// The details of its last heartbeat.
    #[prost(message, optional, tag = "15")]
    pub heartbeat_details: Option<Payloads>,
    /// Whether cancellation was requested.
    #[prost(bool, tag = "16")]
    pub cancel_requested: bool,
    /// The event that requested it.
    #[prost(int64, tag = "17")]
    pub cancel_requested_event_id: i64,
    /// Failure of the last attempt.
    #[prost(message, optional, tag = "18")]
    pub last_failure: Option<Failure>,
    /// Who ran the last attempt.
    #[prost(string, tag = "19")]
    pub last_identity: String,
    /// When the last attempt ended.
    #[prost(int64, tag = "20")]
    pub last_attempt_end: Nanos,
    /// Recognises this very attempt; grows with each dispatch.
    #[prost(uint32, tag = "21")]
    pub stamp: u32,
    /// Priority of its tasks.
    #[prost(message, optional, tag = "22")]
    pub priority: Option<Priority>,
    /// Who runs the current attempt.
    #[prost(string, tag = "23")]
    pub started_identity: String,
    /// Request id of the current start.
    #[prost(string, tag = "24")]
    pub request_id: String,
    /// Version stamp of the worker that runs it.
    #[prost(message, optional, tag = "25")]
    pub worker_version: Option<WorkerVersionStamp>,
    /// Who paused it, as long as it is paused.
    #[prost(message, optional, tag = "40")]
    pub pause: Option<PauseInfo>,
    /// It was reset since its last attempt was scheduled; the answer to its worker says so.
    #[prost(bool, tag = "41")]
    pub reset: bool,
    /// The details of heartbeats are forgotten before the next attempt.
    #[prost(bool, tag = "42")]
    pub forget_heartbeat: bool,
    /// The options with which it was scheduled, once they were changed.
    #[prost(message, optional, tag = "43")]
    pub original_options: Option<ActivityOptions>,
    /// The worker process that has the current attempt, as it names itself; empty if it does not.
    #[prost(string, tag = "44")]
    pub worker: String,
    /// The queue on which that worker takes commands; empty if it takes none.
    #[prost(string, tag = "45")]
    pub control_queue: String,
    /// Whether that worker reports by itself, so that its silence means something after a restart of the server.
    #[prost(bool, tag = "46")]
    pub worker_reports: bool,
    /// Whether it belongs to no workflow, see [`crate::parts::standalone`].
    #[prost(bool, tag = "47")]
    pub standalone: bool,
    /// Heartbeats so far, of a standalone activity.
    #[prost(int64, tag = "48")]
    pub heartbeats: i64,
    /// The version of the worker that last took it, if that uses versioning.
    #[prost(message, optional, boxed, tag = "49")]
    pub deployment_version: Option<Box<WorkerDeploymentVersion>>,
    /// The different workers that were lost while they had it, the first ones first. See [`Limits::lost_workers`].
    ///
    /// [`Limits::lost_workers`]: crate::limits::Limits::lost_workers
    #[prost(message, repeated, tag = "50")]
    pub lost_workers: Vec<LostWorker>,
}

/// A worker process that was lost while it had an activity.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LostWorker {
    /// Its instance key.
    #[prost(string, tag = "1")]
    pub worker: String,
    /// As it names itself to people.
    #[prost(string, tag = "2")]
    pub identity: String,
}

/// Who paused a run or an activity, when and why.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PauseInfo {
    /// When.
    #[prost(int64, tag = "1")]
    pub time: Nanos,
    /// Who.
    #[prost(string, tag = "2")]
    pub identity: String,
    /// Why.
    #[prost(string, tag = "3")]
    pub reason: String,
    /// Recognises a repeated call.
    #[prost(string, tag = "4")]
    pub request_id: String,
    /// The workflow rule that paused an activity; empty if a caller did.
    #[prost(string, tag = "5")]
    pub rule_id: String,
    /// How many workers were lost while they had the activity, if the server paused it for that; 0 otherwise.
    #[prost(uint32, tag = "6")]
    pub lost_workers: u32,
}

impl PauseInfo {
    /// Whether the server paused an activity because workers were lost while they had it.
    pub fn is_quarantine(&self) -> bool {
        self.lost_workers > 0
    }
}

/// Whether it may be handed to a worker now.
pub fn is_waiting(activity: &Activity, now: Nanos) -> bool {
    activity.started_time == 0 && activity.pause.is_none() && activity.scheduled_time <= now
}
