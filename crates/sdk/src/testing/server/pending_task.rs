//! A pending task: its time-outs and retries, as Temporal's server decides them.

use std::time::Duration;

use segno_proto::{
    Nanos,
    common::{self, Payload},
    duration_nanos,
    enums::RetryState,
    events::*,
    nanos_duration,
};

use super::event::IDENTITY;
use crate::failure::{Failure, FailureKind};

/// A task that has not ended.
pub(crate) struct PendingTask {
    pub(crate) attributes: ActivityTaskScheduledEventAttributes,
    pub(crate) scheduled_at: Nanos,
    pub(crate) attempt: u32,
    /// Whether the attempt is under way; if not, it waits for its time.
    pub(crate) running: bool,
    /// The event id of the last request to cancel it.
    pub(crate) cancel_requested: Option<i64>,
    pub(crate) last_failure: Option<Failure>,
    pub(crate) heartbeat: Vec<Payload>,
    /// When the attempt began, or was last heard of.
    pub(super) heard_at: Nanos,
}

impl PendingTask {
    pub(crate) fn new(attributes: ActivityTaskScheduledEventAttributes, now: Nanos) -> Self {
        Self {
            attributes,
            scheduled_at: now,
            attempt: 1,
            running: false,
            cancel_requested: None,
            last_failure: None,
            heartbeat: Vec::new(),
            heard_at: now,
        }
    }

    /// When schedule-to-close ends.
    fn expires(&self) -> Option<Nanos> {
        let span = duration_nanos(self.attributes.schedule_to_close_timeout.as_ref());
        (span > 0).then(|| self.scheduled_at.saturating_add(span))
    }

    pub(super) fn started(&self) -> ActivityTaskStartedEventAttributes {
        ActivityTaskStartedEventAttributes {
            scheduled_event_id: 0,
            identity: IDENTITY.to_owned(),
            request_id: String::new(),
            attempt: i32::try_from(self.attempt).unwrap_or(i32::MAX),
            last_failure: self.last_failure.as_ref().map(Failure::to_wire),
            ..Default::default()
        }
    }

    /// Whether there is another attempt, and after which wait.
    pub(super) fn retry(&self, failure: &Failure, now: Nanos) -> Result<Nanos, RetryState> {
        if self.cancel_requested.is_some() {
            return Err(RetryState::CancelRequested);
        }
        let policy = self.attributes.retry_policy.clone().unwrap_or_else(default_retry_policy);
        let named = match failure.kind() {
            FailureKind::Application { kind, .. } => policy.non_retryable_error_types.contains(kind),
            _ => false,
        };
        if failure.is_non_retryable()
            || named
            || matches!(failure.kind(), FailureKind::Cancelled | FailureKind::Terminated)
        {
            return Err(RetryState::NonRetryableFailure);
        }
        if policy.maximum_attempts > 0 && i64::from(self.attempt) >= i64::from(policy.maximum_attempts) {
            return Err(RetryState::MaximumAttemptsReached);
        }
        let wait = match failure.next_retry_delay() {
            Some(delay) => i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX),
            None => backoff(&policy, self.attempt),
        };
        match self.expires() {
            Some(expires) if now.saturating_add(wait) >= expires => Err(RetryState::Timeout),
            _ => Ok(wait),
        }
    }
}

/// The retry policy of a task that has none.
fn default_retry_policy() -> common::RetryPolicy {
    common::RetryPolicy {
        initial_interval: Some(nanos_duration(1_000_000_000)),
        backoff_coefficient: 2.0,
        maximum_interval: Some(nanos_duration(100_000_000_000)),
        maximum_attempts: 0,
        non_retryable_error_types: Vec::new(),
    }
}

/// The same policy with what it leaves open, as the server stores it.
pub(crate) fn complete_retry_policy(policy: Option<common::RetryPolicy>) -> common::RetryPolicy {
    let defaults = default_retry_policy();
    let Some(mut policy) = policy else { return defaults };
    if duration_nanos(policy.initial_interval.as_ref()) == 0 {
        policy.initial_interval = defaults.initial_interval;
    }
    if policy.backoff_coefficient == 0.0 {
        policy.backoff_coefficient = defaults.backoff_coefficient;
    }
    if duration_nanos(policy.maximum_interval.as_ref()) == 0 {
        let initial = duration_nanos(policy.initial_interval.as_ref());
        policy.maximum_interval = Some(nanos_duration(initial.saturating_mul(100)));
    }
    policy
}

fn backoff(policy: &common::RetryPolicy, attempt: u32) -> Nanos {
    let initial = Duration::from_nanos(u64::try_from(duration_nanos(policy.initial_interval.as_ref())).unwrap_or(0));
    let longest = duration_nanos(policy.maximum_interval.as_ref());
    let factor = policy.backoff_coefficient.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
    let wait = (initial.as_secs_f64() * factor * 1e9) as i64;
    if longest > 0 { wait.min(longest) } else { wait }
}
