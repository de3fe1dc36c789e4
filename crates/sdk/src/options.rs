//! Options of calls: tasks, local tasks, children.

use std::time::Duration;

use segno_proto::{common, enums};

use crate::{
    priority::Priority,
    versioning::{InitialVersioning, VersioningOverride},
};

/// Start-to-close of a task that names no time-out at all.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// How failed attempts are repeated. The default is Temporal's: without end, after 1 s, doubled up to 100 s.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The wait after the first attempt.
    pub initial_interval: Duration,
    /// The factor of each further wait.
    pub backoff_coefficient: f64,
    /// The longest wait; by default a hundred times the first.
    pub maximum_interval: Option<Duration>,
    /// Attempts in all; 0 is no limit.
    pub maximum_attempts: u32,
    /// Kinds of failures that are not repeated.
    pub non_retryable_kinds: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial_interval: Duration::from_secs(1),
            backoff_coefficient: 2.0,
            maximum_interval: None,
            maximum_attempts: 0,
            non_retryable_kinds: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// At most this many attempts.
    pub fn attempts(maximum_attempts: u32) -> Self {
        Self { maximum_attempts, ..Self::default() }
    }

    pub(crate) fn to_wire(&self) -> common::RetryPolicy {
        common::RetryPolicy {
            initial_interval: wire_duration(self.initial_interval),
            backoff_coefficient: self.backoff_coefficient,
            maximum_interval: self.maximum_interval.and_then(wire_duration),
            maximum_attempts: i32::try_from(self.maximum_attempts).unwrap_or(i32::MAX),
            non_retryable_error_types: self.non_retryable_kinds.clone(),
        }
    }

    pub(crate) fn from_wire(wire: &common::RetryPolicy) -> Self {
        let duration = |value: Option<prost_types::Duration>| value.and_then(|value| Duration::try_from(value).ok());
        Self {
            initial_interval: duration(wire.initial_interval).unwrap_or_default(),
            backoff_coefficient: wire.backoff_coefficient,
            maximum_interval: duration(wire.maximum_interval),
            maximum_attempts: u32::try_from(wire.maximum_attempts).unwrap_or_default(),
            non_retryable_kinds: wire.non_retryable_error_types.clone(),
        }
    }

    /// The wait before the attempt after this one, which counts from 1. `None`: there is none.
    pub(crate) fn next_wait(&self, attempt: u32) -> Option<Duration> {
        if self.maximum_attempts != 0 && attempt >= self.maximum_attempts {
            return None;
        }
        let longest = self.maximum_interval.unwrap_or(self.initial_interval.saturating_mul(100));
        let factor =
            self.backoff_coefficient.max(1.0).powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let wait = self.initial_interval.as_secs_f64() * factor;
        Some(Duration::try_from_secs_f64(wait).unwrap_or(longest).min(longest))
    }
}

/// Effect of the cancellation of a task or child by its workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CancellationType {
    /// A request to cancel is sent, and it counts as cancelled at once.
    #[default]
    TryCancel,
    /// A request to cancel is sent, and the workflow waits for the outcome.
    WaitCompleted,
    /// No request is sent, and it counts as cancelled at once.
    Abandon,
}

/// Effect of the cancellation of a Nexus operation by its workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NexusCancellationType {
    /// A request to cancel is sent, and the operation counts as cancelled at once.
    #[default]
    TryCancel,
    /// A request to cancel is sent, and the workflow waits until the handler has taken it.
    WaitRequested,
    /// A request to cancel is sent, and the workflow waits for the outcome.
    WaitCompleted,
    /// No request is sent, and the operation counts as cancelled at once.
    Abandon,
}

impl NexusCancellationType {
    /// Whether a cancelled operation is waited for.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::WaitRequested | Self::WaitCompleted)
    }
}

/// Options of Nexus operations: [`NexusClient::with_options`](crate::NexusClient::with_options).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NexusOptions {
    /// From scheduling to the end; at most the run's own time-out.
    pub schedule_to_close: Option<Duration>,
    /// From scheduling until the handler has started the operation, or ended it.
    pub schedule_to_start: Option<Duration>,
    /// From the start of an operation that goes on by itself to its end.
    pub start_to_close: Option<Duration>,
    /// The effect of a cancellation.
    pub cancellation: NexusCancellationType,
    /// Headers for the handler. The server makes their names lower case.
    pub headers: Vec<(String, String)>,
    /// A line for people, shown by user interfaces.
    pub summary: Option<String>,
}

/// Options of one call of a task. What is `None` comes from the task's definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleTaskOptions {
    /// Its id, instead of a generated one. A further call with the id of a task of the same kind schedules nothing: it gets the
    /// result of that task. One with the id of a task of another kind is a `DeterminismViolation`.
    pub id: Option<String>,
    /// How urgent it is: above 0 before others (60 and more: before those as well), below 0 after them.
    pub priority_seconds: i32,
    /// Attempts after the first.
    pub max_retries: Option<u32>,
    /// From the start of an attempt to its end (start-to-close); 5 minutes if no time-out is given at all.
    pub timeout: Option<Duration>,
    /// From scheduling to the final end, all attempts included.
    pub schedule_to_close: Option<Duration>,
    /// From scheduling until a worker takes it.
    pub schedule_to_start: Option<Duration>,
    /// Between two heartbeats.
    pub heartbeat_timeout: Option<Duration>,
    /// The task queue, if not the workflow's own.
    pub queue: Option<String>,
    /// How attempts are repeated; `max_retries` goes before its number of attempts.
    pub retry_policy: Option<RetryPolicy>,
    /// How urgent it is, exactly; goes before `priority_seconds`.
    pub priority: Option<Priority>,
    /// The effect of a cancellation.
    pub cancellation: CancellationType,
    /// Never hand it to the worker that schedules it in the same call.
    pub disable_eager: bool,
    /// A line for people, shown by user interfaces.
    pub summary: Option<String>,
}

impl ScheduleTaskOptions {
    /// Filled up from those of the definition.
    pub(crate) fn over(self, definition: Self) -> Self {
        let no_timeout = self.timeout.is_none() && self.schedule_to_close.is_none();
        Self {
            id: self.id,
            priority_seconds: match self.priority_seconds {
                0 => definition.priority_seconds,
                seconds => seconds,
            },
            max_retries: self.max_retries.or(definition.max_retries),
            timeout: self.timeout.or(definition.timeout),
            schedule_to_close: self.schedule_to_close.or(definition.schedule_to_close.filter(|_| no_timeout)),
            schedule_to_start: self.schedule_to_start.or(definition.schedule_to_start),
            heartbeat_timeout: self.heartbeat_timeout.or(definition.heartbeat_timeout),
            queue: self.queue.or(definition.queue),
            retry_policy: self.retry_policy.or(definition.retry_policy),
            priority: self.priority.or(definition.priority.filter(|_| self.priority_seconds == 0)),
            cancellation: self.cancellation,
            disable_eager: self.disable_eager || definition.disable_eager,
            summary: self.summary.or(definition.summary),
        }
    }

    /// How attempts are repeated; `None`: as the server does by itself.
    pub(crate) fn attempts(&self) -> Option<RetryPolicy> {
        let Some(retries) = self.max_retries else { return self.retry_policy.clone() };
        let policy = self.retry_policy.clone().unwrap_or_default();
        Some(RetryPolicy { maximum_attempts: retries.saturating_add(1), ..policy })
    }

    /// The time-out of an attempt; `None` if only all attempts together have one.
    pub(crate) fn start_to_close(&self) -> Option<Duration> {
        match (self.timeout, self.schedule_to_close) {
            (None, None) => Some(DEFAULT_TIMEOUT),
            (timeout, _) => timeout,
        }
    }

    /// The priority that was given, or that the seconds stand for.
    pub(crate) fn wire_priority(&self) -> Option<common::Priority> {
        if let Some(priority) = &self.priority {
            return Some(priority.to_wire());
        }
        let priority_key = match self.priority_seconds {
            60.. => 1,
            1.. => 2,
            0 => return None,
            _ => 4,
        };
        Some(common::Priority { priority_key, ..Default::default() })
    }
}

/// Options of a task that the workflow's own worker executes, without a task queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalOptions {
    /// From the start of an attempt to its end; 5 minutes if not given.
    pub timeout: Option<Duration>,
    /// From scheduling to the final end, all attempts included.
    pub schedule_to_close: Option<Duration>,
    /// How attempts are repeated.
    pub retry_policy: Option<RetryPolicy>,
}

/// The fate of a child when its parent closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParentClosePolicy {
    /// It is terminated.
    #[default]
    Terminate,
    /// It goes on.
    Abandon,
    /// It receives a request to cancel.
    RequestCancel,
}

/// Whether an id that was used may be used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdReusePolicy {
    /// If no run with it is open.
    #[default]
    AllowDuplicate,
    /// If the last run did not complete.
    AllowDuplicateFailedOnly,
    /// Never.
    RejectDuplicate,
}

/// The effect of a start while a run with the id is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdConflictPolicy {
    /// The start fails.
    #[default]
    Fail,
    /// The open run is taken.
    UseExisting,
    /// The open run is terminated.
    TerminateExisting,
}

impl IdReusePolicy {
    pub(crate) fn to_wire(self) -> i32 {
        match self {
            Self::AllowDuplicate => enums::WorkflowIdReusePolicy::AllowDuplicate as i32,
            Self::AllowDuplicateFailedOnly => enums::WorkflowIdReusePolicy::AllowDuplicateFailedOnly as i32,
            Self::RejectDuplicate => enums::WorkflowIdReusePolicy::RejectDuplicate as i32,
        }
    }
}

/// Options of a child workflow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildOptions {
    /// Its name below the parent: the workflow id is `<parent id>/<name>`. Empty: a generated id.
    pub name: String,
    /// Its workflow id, taken as it is.
    pub workflow_id: Option<String>,
    /// The task queue, if not the parent's own.
    pub queue: Option<String>,
    /// Its fate when the parent closes.
    pub parent_close_policy: ParentClosePolicy,
    /// The effect of a cancellation.
    pub cancellation: CancellationType,
    /// Whether an id that was used may be used again.
    pub id_reuse_policy: IdReusePolicy,
    /// All runs together.
    pub execution_timeout: Option<Duration>,
    /// One run.
    pub run_timeout: Option<Duration>,
    /// One workflow task.
    pub task_timeout: Option<Duration>,
    /// How failed runs are repeated; not at all by default.
    pub retry_policy: Option<RetryPolicy>,
    /// A cron schedule.
    pub cron: Option<String>,
    /// How urgent it and its tasks are; as the parent if not given.
    pub priority: Option<Priority>,
    /// Notes for people.
    pub memo: Vec<(String, serde_json::Value)>,
    /// Values to search by.
    pub search_attributes: Vec<(String, serde_json::Value)>,
    /// Which version executes it; otherwise it inherits the version of the parent if its queue is of that version.
    pub versioning: Option<VersioningOverride>,
    /// A line for people, shown by user interfaces.
    pub summary: Option<String>,
}

/// Differences of the next run to this one: [`Context::continue_as_new_with_options`]. What is `None` or empty stays
/// as it is.
///
/// [`Context::continue_as_new_with_options`]: crate::Context::continue_as_new_with_options
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContinueOptions {
    /// The task queue.
    pub queue: Option<String>,
    /// One run.
    pub run_timeout: Option<Duration>,
    /// One workflow task.
    pub task_timeout: Option<Duration>,
    /// How failed runs are repeated.
    pub retry_policy: Option<RetryPolicy>,
    /// Notes for people that are added or changed.
    pub memo: Vec<(String, serde_json::Value)>,
    /// Values to search by that are added or changed.
    pub search_attributes: Vec<(String, serde_json::Value)>,
    /// The version that executes its first workflow task; otherwise a pinned run stays on its version.
    pub initial_versioning: Option<InitialVersioning>,
}

pub(crate) fn wire_duration(duration: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(duration).ok()
}
