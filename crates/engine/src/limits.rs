//! Limits, and what happens beyond them. Units are in the names; values are Temporal's defaults.

use segno_proto::Nanos;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;

/// Longest id, name or key a client may send, in bytes.
pub const ID_LENGTH_MAX: usize = 1000;
/// Largest payload of one field, unless [`Limits`] says otherwise.
pub const BLOB_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The part of a failure that is kept if it is too large as a whole, unless [`Limits`] says otherwise.
pub const FAILURE_BYTES_KEPT: usize = 512 * 1024;
/// Largest memo.
pub const MEMO_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most events that wait for one workflow task.
pub const BUFFERED_EVENTS_MAX: usize = 100;
/// Most bytes that wait for one workflow task.
pub const BUFFERED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Most events of one run; passing it ends the run.
pub const HISTORY_EVENTS_MAX: i64 = 51_200;
/// Most bytes of history of one run; passing it ends the run.
pub const HISTORY_BYTES_MAX: i64 = 50 * 1024 * 1024;
/// From here on the server suggests to the worker to continue as new, unless [`Limits`] says otherwise.
pub const HISTORY_EVENTS_SUGGEST: i64 = 4096;
/// From here on the server suggests to the worker to continue as new, unless [`Limits`] says otherwise.
pub const HISTORY_BYTES_SUGGEST: i64 = 4 * 1024 * 1024;
/// How long a speculative workflow task may wait on a normal queue before it becomes a normal one, unless [`Limits`] says otherwise.
pub const SPECULATIVE_SCHEDULE_TO_START: Nanos = 5 * SECOND;
/// Events since the last completed task up to which a speculative one may be discarded, for workers that can take it, unless
/// [`Limits`] says otherwise.
pub const DISCARD_EVENTS_MAX: i64 = 10;
/// Largest state of one run; passing it ends the run.
pub const STATE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of history that one answer of a worker may add, unless [`Limits`] says otherwise; passing it ends the run.
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most pending activities, children, signals and cancel requests of one run, each.
pub const PENDING_MAX: usize = 2000;
/// Most pending Nexus operations of one run, unless [`Limits`] says otherwise.
pub const PENDING_OPERATIONS_MAX: usize = 2000;
/// Most signals of one run.
pub const SIGNALS_MAX: i64 = 10_000;
/// Signal request ids remembered for recognising repeated calls.
pub const SIGNAL_REQUEST_IDS_MAX: usize = 1000;
/// Updates that earlier runs of a chain completed, remembered for recognising repeated ones.
pub const EARLIER_UPDATES_MAX: usize = 1000;
/// Results of activities remembered for recognising repeated ones.
pub const RESULT_DIGESTS_MAX: usize = 64;
/// Largest failure kept of an activity attempt.
pub const ACTIVITY_FAILURE_BYTES_MAX: usize = 4 * 1024;
/// The part of a reported failure of a workflow task that is kept; it is written with every change of the run.
pub const REPORTED_FAILURE_BYTES_MAX: usize = 16 * 1024;
/// Time a worker has for a workflow task, unless told otherwise.
pub const TASK_TIMEOUT_DEFAULT: Nanos = 10 * SECOND;
/// Longest time a worker may have.
pub const TASK_TIMEOUT_MAX: Nanos = 120 * SECOND;
/// Longest chain of workflow task heartbeats without progress.
pub const TASK_HEARTBEAT_MAX: Nanos = 30 * 60 * SECOND;
/// Attempts that are retried at once; later ones get more time.
pub const TASK_ATTEMPTS_PLAIN: i32 = 3;
/// Longest extension of a failing task's time.
pub const TASK_RETRY_EXTENSION_MAX: Nanos = 10 * 60 * SECOND;
/// Runs of a chain begin at least this far apart.
pub const RUN_INTERVAL_MIN: Nanos = SECOND;
/// Points to reset to that a run remembers.
pub const RESET_POINTS_MAX: usize = 20;

/// Events of a script between two checkpoints, unless [`Limits`] says otherwise.
pub const SCRIPT_EVENTS_KEPT: i64 = 10_000;

/// Different workers that may be lost while they have an activity before it is paused, unless [`Limits`] says otherwise.
pub const LOST_WORKERS_MAX: usize = 3;

/// Limits that the operator of the server may set. They come in with each call, like the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events from which on the server suggests to continue as new.
    pub history_events_suggest: i64,
    /// Bytes of history from which on the server suggests to continue as new.
    pub history_bytes_suggest: i64,
    /// Updates from which on the server suggests to continue as new.
    pub updates_suggest: usize,
    /// Largest payload of one field, in bytes.
    pub blob_bytes: usize,
    /// Bytes that are kept of a failure that is too large as a whole.
    pub failure_bytes_kept: usize,
    /// Most bytes of history that one answer of a worker may add.
    pub transaction_bytes: usize,
    /// Most pending Nexus operations of one run.
    pub pending_operations: usize,
    /// How long a speculative workflow task may wait on a normal queue before it becomes a normal one.
    pub speculative_schedule_to_start: Nanos,
    /// Events since the last completed task up to which a speculative one may be discarded, for workers that can take it.
    pub discard_events: i64,
    /// Events of a script between two checkpoints. History is compacted when twice as many are there.
    pub script_events_kept: i64,
    /// Different workers that may be lost while they have an activity before it is paused; 0 for no limit.
    pub lost_workers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history_events_suggest: HISTORY_EVENTS_SUGGEST,
            history_bytes_suggest: HISTORY_BYTES_SUGGEST,
            updates_suggest: UpdateLimits::default().suggest(),
            blob_bytes: BLOB_BYTES_MAX,
            failure_bytes_kept: FAILURE_BYTES_KEPT,
            transaction_bytes: TRANSACTION_BYTES_MAX,
            pending_operations: PENDING_OPERATIONS_MAX,
            speculative_schedule_to_start: SPECULATIVE_SCHEDULE_TO_START,
            discard_events: DISCARD_EVENTS_MAX,
            script_events_kept: SCRIPT_EVENTS_KEPT,
            lost_workers: LOST_WORKERS_MAX,
        }
    }
}

/// The limits of a namespace for updates; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateLimits {
    /// Updates of one run that are not completed.
    pub in_flight: usize,
    /// Bytes of their requests.
    pub in_flight_bytes: usize,
    /// Updates of one run, rejected ones aside.
    pub total: usize,
}

impl Default for UpdateLimits {
    fn default() -> Self {
        // Temporal allows 10 in flight: its registry is cleared by any error and every entry is paid for then. Here
        // one that waits costs its bytes and nothing else.
        Self { in_flight: 100, in_flight_bytes: 20 * 1024 * 1024, total: 2000 }
    }
}

impl UpdateLimits {
    /// How many updates a run may have had before the server suggests to continue as new: nine tenths of the limit.
    pub fn suggest(&self) -> usize {
        match self.total {
            0 => usize::MAX,
            total => total - total / 10,
        }
    }
}
