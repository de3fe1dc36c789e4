//! Checks of requests of clients and workers, shared by the RPC edge and the commands of a workflow task.
//!
//! A check may fill in defaults and cap values where Temporal does, hence the `&mut`; refusals have the text that
//! Temporal would send, since users search for these texts. The order of checks is Temporal's for the same reason: the
//! first fault found is reported. Checks use neither a workflow's state nor a clock.
//!
//! The checks of whole commands are in [`commands`] and [`workflow_commands`], those of activities in [`activity`].

pub mod activity;
pub mod commands;
pub mod nexus_commands;
pub mod text;
pub mod workflow_commands;

use prost_types::Duration;
use segno_proto::{Nanos, common, duration_nanos, enums, nanos_duration, taskqueue};

pub use activity::schedule_activity;

pub use crate::limits::ID_LENGTH_MAX;
use crate::limits::{SECOND, TASK_TIMEOUT_DEFAULT, TASK_TIMEOUT_MAX};

/// Durations are cut to 100 years, which leaves room for adding them to a point in time.
const DURATION_SECONDS_MAX: i64 = 100 * 365 * 24 * 3600;
const FAIRNESS_KEY_LENGTH_MAX: usize = 64;

/// The text of an InvalidArgument error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(pub String);

impl Invalid {
    /// A refusal with this text.
    pub fn new(text: impl Into<String>) -> Invalid {
        Invalid(text.into())
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// Refuses negative and malformed durations and caps very long ones. An absent duration is fine.
pub fn duration(duration: Option<&mut Duration>) -> Result<(), Invalid> {
    let Some(duration) = duration else { return Ok(()) };
    if (duration.seconds > 0 && duration.nanos < 0) || (duration.seconds < 0 && duration.nanos > 0) {
        return Err(Invalid::new("duration has seconds and nanos with different signs"));
    }
    let nanos = duration_nanos(Some(duration));
    if nanos < 0 {
        return Err(Invalid::new("negative duration"));
    }
    if nanos > DURATION_SECONDS_MAX * SECOND {
        *duration = Duration { seconds: DURATION_SECONDS_MAX, nanos: 0 };
    }
    Ok(())
}

/// Fills in what a retry policy leaves open, then checks it.
pub fn retry_policy(policy: &mut common::RetryPolicy) -> Result<(), Invalid> {
    retry_policy_defaults(policy);
    retry_policy_as_given(policy)
}

/// Checks a retry policy that gets no defaults.
pub fn retry_policy_as_given(policy: &mut common::RetryPolicy) -> Result<(), Invalid> {
    // A single attempt is no retry at all, so the rest does not matter.
    if policy.maximum_attempts == 1 {
        return Ok(());
    }
    duration(policy.initial_interval.as_mut())
        .map_err(|why| Invalid(format!("invalid InitialInterval set on retry policy: {why}")))?;
    if policy.backoff_coefficient < 1.0 {
        return Err(Invalid::new("BackoffCoefficient cannot be less than 1 on retry policy."));
    }
    duration(policy.maximum_interval.as_mut())
        .map_err(|why| Invalid(format!("invalid MaximumInterval set on retry policy: {why}")))?;
    let maximum = duration_nanos(policy.maximum_interval.as_ref());
    if maximum > 0 && maximum < duration_nanos(policy.initial_interval.as_ref()) {
        return Err(Invalid::new("MaximumInterval cannot be less than InitialInterval on retry policy."));
    }
    if policy.maximum_attempts < 0 {
        return Err(Invalid::new("MaximumAttempts cannot be negative on retry policy."));
    }
    for kind in policy.non_retryable_error_types.iter().filter_map(|name| name.strip_prefix("TemporalTimeout:")) {
        match text::timeout_type(kind) {
            None | Some(enums::TimeoutType::Unspecified) => {
                return Err(Invalid(format!("Invalid timeout type value: {kind}.")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// First interval a second, then twice as long each time up to a hundred times that, without end.
fn retry_policy_defaults(policy: &mut common::RetryPolicy) {
    if duration_nanos(policy.initial_interval.as_ref()) == 0 {
        policy.initial_interval = Some(nanos_duration(SECOND));
    }
    if duration_nanos(policy.maximum_interval.as_ref()) == 0 {
        // Wraps as Go's multiplication does; the result is then refused as negative or capped.
        let maximum = duration_nanos(policy.initial_interval.as_ref()).wrapping_mul(100);
        policy.maximum_interval = Some(nanos_duration(maximum));
    }
    if policy.backoff_coefficient == 0.0 {
        policy.backoff_coefficient = 2.0;
    }
}

/// Checks a task queue to poll or look at: a whole queue or a sticky one. Fills in name and kind.
pub fn task_queue(queue: Option<&mut taskqueue::TaskQueue>, default_name: &str) -> Result<(), Invalid> {
    let Some(queue) = queue else { return Err(Invalid::new("taskQueue is not set")) };
    if queue.kind == enums::TaskQueueKind::Unspecified as i32 {
        queue.kind = enums::TaskQueueKind::Normal as i32;
    }
    if queue.name.is_empty() {
        if default_name.is_empty() {
            return Err(Invalid::new("missing task queue name"));
        }
        queue.name = default_name.to_owned();
    }
    task_queue_name_length(&queue.name)?;
    if queue.name.starts_with("/_sys/") {
        return Err(Invalid::new("task queue name cannot start with reserved prefix /_sys/"));
    }
    if queue.kind == enums::TaskQueueKind::Sticky as i32 && !queue.normal_name.is_empty() {
        task_queue_name_length(&queue.normal_name)?;
    }
    Ok(())
}

/// Checks a task queue that work is sent to; the server's own queues are off limits except from themselves.
pub fn task_queue_user_defined(
    queue: Option<&mut taskqueue::TaskQueue>,
    default_name: &str,
    parent_queue: &str,
) -> Result<(), Invalid> {
    let Some(queue) = queue else { return task_queue(None, default_name) };
    task_queue(Some(queue), default_name)?;
    if !is_internal_queue(&queue.name) || is_internal_queue(parent_queue) {
        return Ok(());
    }
    let mut text = format!("cannot use internal per-namespace task queue:{}", queue.name);
    if !parent_queue.is_empty() {
        text += &format!(" (in parent component task queue: {parent_queue})");
    }
    Err(Invalid(text))
}

fn task_queue_name_length(name: &str) -> Result<(), Invalid> {
    if name.len() > ID_LENGTH_MAX { Err(Invalid::new("taskQueue length exceeds limit")) } else { Ok(()) }
}

fn is_internal_queue(name: &str) -> bool {
    name.starts_with("temporal-sys-per-ns-") || name == "temporal-sys-worker-controller-per-ns-tq"
}

/// Checks priority, fairness key and weight.
pub fn priority(priority: Option<&common::Priority>) -> Result<(), Invalid> {
    let Some(priority) = priority else { return Ok(()) };
    if priority.priority_key < 0 {
        return Err(Invalid::new("priority key can't be negative"));
    }
    if priority.fairness_key.len() > FAIRNESS_KEY_LENGTH_MAX {
        return Err(Invalid::new("fairness key length exceeds limit"));
    }
    if priority.fairness_weight < 0.0 {
        return Err(Invalid::new("must be greater than zero"));
    }
    Ok(())
}

/// The run timeout in effect: never longer than the execution timeout. Zero means none.
pub fn effective_run_timeout(run_timeout: Nanos, execution_timeout: Nanos) -> Nanos {
    match (run_timeout, execution_timeout) {
        (run, 0) => run,
        (0, execution) => execution,
        (run, execution) => run.min(execution),
    }
}

/// The workflow task timeout in effect: the default if none is given, at most two minutes and the run timeout.
pub fn effective_task_timeout(task_timeout: Nanos, run_timeout: Nanos) -> Nanos {
    let task = if task_timeout == 0 { TASK_TIMEOUT_DEFAULT } else { task_timeout };
    let task = task.min(TASK_TIMEOUT_MAX);
    if run_timeout == 0 { task } else { task.min(run_timeout) }
}

/// Whether a text is a UUID in any of the forms Temporal takes: plain, `urn:uuid:`, braced, or without hyphens.
pub fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let plain = match bytes.len() {
        36 => bytes,
        45 if bytes[..9].eq_ignore_ascii_case(b"urn:uuid:") => &bytes[9..],
        38 if bytes[0] == b'{' && bytes[37] == b'}' => &bytes[1..37],
        32 => return bytes.iter().all(u8::is_ascii_hexdigit),
        _ => return false,
    };
    plain.iter().enumerate().all(|(at, byte)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

#[cfg(test)]
mod tests;
