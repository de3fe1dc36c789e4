//! Tasks of a run: attempts, time-outs, retries.

use crate::interface::{Failure, FailureInfo, RetryPolicy, ScheduleTask, TimeoutKind};

/// A task that has not ended.
pub(super) struct Task {
    /// What the script asked for.
    pub order: ScheduleTask,
    /// When it was scheduled.
    pub scheduled_at: i64,
    /// The attempts so far.
    pub attempt: u32,
    /// Whether an attempt is under way.
    pub is_running: bool,
    /// Whether it was asked to cancel.
    pub is_cancel_requested: bool,
}

/// When to try again after this attempt; `None` if that was the last one.
pub(super) fn next_attempt(policy: Option<&RetryPolicy>, attempt: u32, failure: &Failure) -> Option<i64> {
    let default = RetryPolicy::default();
    let policy = policy.unwrap_or(&default);
    let is_named = |name: &str| policy.non_retryable.iter().any(|listed| listed == name);
    let is_retryable = match &failure.info {
        FailureInfo::Application { kind, non_retryable, .. } => !non_retryable && !is_named(kind),
        FailureInfo::Timeout { kind, .. } => {
            *kind != TimeoutKind::ScheduleToClose && !is_named(&format!("TemporalTimeout:{kind:?}"))
        }
        FailureInfo::Server { non_retryable } => !non_retryable,
        FailureInfo::Canceled { .. } | FailureInfo::Terminated => false,
        _ => true,
    };
    let attempts_max = u32::try_from(policy.max_attempts).unwrap_or(0);
    if !is_retryable || attempts_max > 0 && attempt >= attempts_max {
        return None;
    }
    let initial = if policy.initial_interval > 0 { policy.initial_interval } else { 1_000 };
    let most = if policy.max_interval > 0 { policy.max_interval } else { initial.saturating_mul(100) };
    let backoff = if policy.backoff >= 1.0 { policy.backoff } else { 2.0 };
    let interval = initial as f64 * backoff.powi(i32::try_from(attempt).unwrap_or(i32::MAX).saturating_sub(1));
    #[expect(clippy::cast_possible_truncation, reason = "a cast of a double saturates")]
    Some((interval.round() as i64).clamp(0, most))
}

/// The failure of a time-out.
pub(super) fn timed_out(kind: TimeoutKind) -> Failure {
    Failure {
        message: format!("activity {kind:?} timeout"),
        info: FailureInfo::Timeout { kind, last_heartbeat: Vec::new() },
        ..Failure::default()
    }
}

/// The failure of a canceled operation.
pub(super) fn canceled(details: Vec<crate::interface::Payload>) -> Failure {
    Failure { message: "canceled".to_owned(), info: FailureInfo::Canceled { details }, ..Failure::default() }
}

/// The failure as the server reports it to the run.
pub(super) fn of_task(task: &Task, cause: Failure) -> Failure {
    Failure {
        message: "Activity task failed".to_owned(),
        cause: Some(Box::new(cause)),
        info: FailureInfo::Activity {
            id: task.order.id.clone(),
            name: task.order.name.clone(),
            scheduled_event_id: 0,
            started_event_id: 0,
            identity: "test".to_owned(),
            retry_state: 0,
        },
        ..Failure::default()
    }
}
