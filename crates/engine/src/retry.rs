//! When to try again: back-off of activities and of whole runs.

use prost::Message;
use segno_proto::{
    Nanos,
    common::RetryPolicy,
    duration_nanos,
    enums::{RetryState, TimeoutType},
    failure::{ApplicationFailureInfo, Failure, ServerFailureInfo, TimeoutFailureInfo, failure::FailureInfo},
};

/// Whether a failure of this kind may be tried again at all.
pub fn is_retryable(failure: &Failure, non_retryable_types: &[String]) -> bool {
    match &failure.failure_info {
        Some(FailureInfo::TerminatedFailureInfo(_) | FailureInfo::CanceledFailureInfo(_)) => false,
        Some(FailureInfo::TimeoutFailureInfo(info)) => match info.timeout_type() {
            kind @ (TimeoutType::StartToClose | TimeoutType::Heartbeat) => {
                let name = format!("TemporalTimeout:{}", timeout_name(kind));
                !non_retryable_types.contains(&name)
            }
            _ => false,
        },
        Some(FailureInfo::ServerFailureInfo(info)) => !info.non_retryable,
        Some(FailureInfo::ApplicationFailureInfo(info)) => {
            !info.non_retryable && !non_retryable_types.contains(&info.r#type)
        }
        _ => true,
    }
}

/// A timeout type as texts name it.
pub fn timeout_name(kind: TimeoutType) -> &'static str {
    match kind {
        TimeoutType::Unspecified => "Unspecified",
        TimeoutType::StartToClose => "StartToClose",
        TimeoutType::ScheduleToStart => "ScheduleToStart",
        TimeoutType::ScheduleToClose => "ScheduleToClose",
        TimeoutType::Heartbeat => "Heartbeat",
    }
}

/// A failure the server reports because time ran out.
pub fn timeout_failure(message: String, kind: TimeoutType) -> Failure {
    Failure {
        message,
        source: "Server".to_owned(),
        failure_info: Some(FailureInfo::TimeoutFailureInfo(TimeoutFailureInfo {
            timeout_type: kind as i32,
            last_heartbeat_details: None,
        })),
        ..Default::default()
    }
}

/// A failure the server makes up.
pub fn server_failure(message: impl Into<String>, non_retryable: bool) -> Failure {
    Failure {
        message: message.into(),
        failure_info: Some(FailureInfo::ServerFailureInfo(ServerFailureInfo { non_retryable })),
        ..Default::default()
    }
}

/// Time until the next attempt, or why there is none. `deadline` of 0 means none; `requested` overrides the policy.
pub fn next_backoff(
    now: Nanos,
    attempt: i32,
    policy: &RetryPolicy,
    deadline: Nanos,
    requested: Option<Nanos>,
) -> Result<Nanos, RetryState> {
    let attempt = attempt.max(1);
    if policy.maximum_attempts > 0 && attempt >= policy.maximum_attempts {
        return Err(RetryState::MaximumAttemptsReached);
    }
    let initial = duration_nanos(policy.initial_interval.as_ref());
    let maximum = requested.unwrap_or_else(|| duration_nanos(policy.maximum_interval.as_ref()));
    let mut interval = requested.unwrap_or_else(|| {
        // A float that grew past the range of Nanos becomes the largest one, and is cut by the maximum below.
        (initial as f64 * policy.backoff_coefficient.powi(attempt - 1)) as Nanos
    });
    if maximum == 0 && interval <= 0 && requested.is_none() {
        return Err(RetryState::Timeout);
    }
    if maximum != 0 && (interval <= 0 || interval > maximum) {
        interval = maximum;
    }
    if deadline > 0 && now.saturating_add(interval) > deadline {
        return Err(RetryState::Timeout);
    }
    Ok(interval)
}

/// How long a policy waits before this attempt, if it is no failure's outcome but asked again later.
pub fn interval_before(policy: &RetryPolicy, attempt: i32) -> Nanos {
    let initial = duration_nanos(policy.initial_interval.as_ref());
    let maximum = duration_nanos(policy.maximum_interval.as_ref());
    // A float beyond the range of Nanos becomes the largest one.
    let interval = (initial as f64 * policy.backoff_coefficient.powi(attempt - 1)).max(0.0) as Nanos;
    if maximum != 0 && (interval <= 0 || interval > maximum) { maximum } else { interval }
}

/// The delay an application failure asks for.
pub fn requested_delay(failure: &Failure) -> Option<Nanos> {
    match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo { next_retry_delay: Some(delay), .. })) => {
            Some(duration_nanos(Some(delay)))
        }
        _ => None,
    }
}

/// A failed attempt's failure as it is kept for the next attempt: one that is too large in short, as the cause of a
/// failure that says so.
pub fn kept(failure: &Failure, bytes_max: usize) -> Failure {
    if failure.encoded_len() <= bytes_max {
        return failure.clone();
    }
    let cause = truncate_to(failure, bytes_max as isize, CAUSES_MAX);
    Failure { cause: Some(Box::new(cause)), ..server_failure("Failure exceeds size limit.", false) }
}

/// A failure small enough to keep: kind, type, message and causes as far as there is room.
pub fn truncate(failure: Failure, bytes_max: usize) -> Failure {
    if failure.encoded_len() <= bytes_max {
        return failure;
    }
    truncate_to(&failure, bytes_max as isize, CAUSES_MAX)
}

/// How many causes of a failure that is shortened are kept.
const CAUSES_MAX: usize = 20;

/// Room is given in the order of importance. What the encoding adds to a text or to a nested message counts as four bytes.
fn truncate_to(failure: &Failure, bytes_max: isize, depth: usize) -> Failure {
    let mut room = bytes_max;
    let failure_info = match &failure.failure_info {
        Some(FailureInfo::ApplicationFailureInfo(info)) => {
            let r#type = cut(&info.r#type, &mut room);
            room -= 8;
            let non_retryable = info.non_retryable;
            let kept = ApplicationFailureInfo { r#type, non_retryable, ..Default::default() };
            Some(FailureInfo::ApplicationFailureInfo(kept))
        }
        Some(FailureInfo::ServerFailureInfo(info)) => {
            room -= 4;
            Some(FailureInfo::ServerFailureInfo(*info))
        }
        _ => None,
    };
    let source = cut(&failure.source, &mut room);
    let message = cut(&failure.message, &mut room);
    let stack_trace = cut(&failure.stack_trace, &mut room);
    let cause = failure.cause.as_ref().filter(|_| room > 4 && depth > 0);
    let cause = cause.map(|cause| Box::new(truncate_to(cause, room - 4, depth - 1)));
    Failure { message, source, stack_trace, failure_info, cause, encoded_attributes: None }
}

/// As much of a text as there is room for.
fn cut(text: &str, room: &mut isize) -> String {
    let most = text.len().min((*room).max(0) as usize);
    // The start of a text is always a boundary.
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    *room -= end as isize;
    if end > 0 {
        *room -= 4;
    }
    text[..end].to_owned()
}
