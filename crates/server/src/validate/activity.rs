//! Heartbeats and outcomes of activities, by task token and by id.
//!
//! Too large payloads are not refused: the functions return the failure to record instead. The by-id forms check the
//! ids as well. Temporal omits some checks there, and so does this module.

use segno_proto::failure::{Failure, failure::FailureInfo};
use segno_proto::workflowservice::{
    RecordActivityTaskHeartbeatByIdRequest, RecordActivityTaskHeartbeatRequest, RespondActivityTaskCanceledByIdRequest,
    RespondActivityTaskCanceledRequest, RespondActivityTaskCompletedByIdRequest, RespondActivityTaskCompletedRequest,
    RespondActivityTaskFailedByIdRequest, RespondActivityTaskFailedRequest,
};

use super::{
    RequestError, identity,
    size::{self, Sizes},
};

const HEARTBEAT: &str = "Heartbeat details exceed size limit.";
const RESULT: &str = "Complete result exceeds size limit.";
const CANCEL: &str = "Cancel details exceed size limit.";

/// The failure to record in place of what a worker sent, if that was too large.
pub type ReplacementFailure = Option<Failure>;

/// RecordActivityTaskHeartbeat. With a failure, fail the activity with it and tell the worker to cancel.
pub fn heartbeat(
    request: &mut RecordActivityTaskHeartbeatRequest,
    sizes: Sizes,
) -> Result<ReplacementFailure, RequestError> {
    Ok(sizes.is_too_large(request.details.as_ref()).then(|| size::server_failure(HEARTBEAT)))
}

/// RecordActivityTaskHeartbeatById; see [`heartbeat`].
pub fn heartbeat_by_id(
    request: &mut RecordActivityTaskHeartbeatByIdRequest,
    sizes: Sizes,
) -> Result<ReplacementFailure, RequestError> {
    by_id(&request.activity_id, "")?;
    Ok(sizes.is_too_large(request.details.as_ref()).then(|| size::server_failure(HEARTBEAT)))
}

/// RespondActivityTaskCompleted.
pub fn completed(
    request: &mut RespondActivityTaskCompletedRequest,
    sizes: Sizes,
) -> Result<ReplacementFailure, RequestError> {
    identity(&request.identity)?;
    Ok(sizes.is_too_large(request.result.as_ref()).then(|| size::server_failure(RESULT)))
}

/// RespondActivityTaskCompletedById.
pub fn completed_by_id(
    request: &mut RespondActivityTaskCompletedByIdRequest,
    sizes: Sizes,
) -> Result<ReplacementFailure, RequestError> {
    by_id(&request.activity_id, &request.identity)?;
    Ok(sizes.is_too_large(request.result.as_ref()).then(|| size::server_failure(RESULT)))
}

/// RespondActivityTaskCanceled.
pub fn canceled(
    request: &mut RespondActivityTaskCanceledRequest,
    sizes: Sizes,
) -> Result<ReplacementFailure, RequestError> {
    identity(&request.identity)?;
    Ok(sizes.is_too_large(request.details.as_ref()).then(|| size::server_failure(CANCEL)))
}

/// RespondActivityTaskCanceledById.
pub fn canceled_by_id(
    request: &mut RespondActivityTaskCanceledByIdRequest,
    sizes: Sizes,
) -> Result<ReplacementFailure, RequestError> {
    by_id(&request.activity_id, &request.identity)?;
    Ok(sizes.is_too_large(request.details.as_ref()).then(|| size::server_failure(CANCEL)))
}

/// RespondActivityTaskFailed. Drops heartbeat details and replaces a failure that are too large, and returns what the
/// response says about that.
pub fn failed(request: &mut RespondActivityTaskFailedRequest, sizes: Sizes) -> Result<Vec<Failure>, RequestError> {
    if let Some(failure) = &request.failure
        && !matches!(failure.failure_info, Some(FailureInfo::ApplicationFailureInfo(_)))
    {
        return Err(RequestError::invalid("Failure must have ApplicationFailureInfo."));
    }
    next_retry_delays(request.failure.as_ref())?;
    identity(&request.identity)?;
    Ok(failed_sizes(&mut request.last_heartbeat_details, &mut request.failure, sizes))
}

/// RespondActivityTaskFailedById; see [`failed`].
pub fn failed_by_id(
    request: &mut RespondActivityTaskFailedByIdRequest,
    sizes: Sizes,
) -> Result<Vec<Failure>, RequestError> {
    by_id(&request.activity_id, &request.identity)?;
    next_retry_delays(request.failure.as_ref())?;
    Ok(failed_sizes(&mut request.last_heartbeat_details, &mut request.failure, sizes))
}

fn failed_sizes<M: prost::Message>(
    details: &mut Option<M>,
    failure: &mut Option<Failure>,
    sizes: Sizes,
) -> Vec<Failure> {
    let mut said = Vec::new();
    if sizes.is_too_large(details.as_ref()) {
        *details = None;
        said.push(size::server_failure(HEARTBEAT));
    }
    said.extend(sizes.replace(failure));
    said
}

/// Without a workflow the id names a standalone activity.
fn by_id(activity_id: &str, identity_given: &str) -> Result<(), RequestError> {
    if activity_id.is_empty() {
        return Err(RequestError::invalid("ActivityId is not set on request."));
    }
    identity(identity_given)
}

/// The delay that an application failure asks for, anywhere in the chain of causes, must be one protobuf allows.
fn next_retry_delays(failure: Option<&Failure>) -> Result<(), RequestError> {
    /// 10,000 years.
    const SECONDS_MAX: i64 = 315_576_000_000;
    let mut current = failure;
    while let Some(failure) = current {
        if let Some(FailureInfo::ApplicationFailureInfo(info)) = &failure.failure_info
            && let Some(delay) = &info.next_retry_delay
        {
            let fault = if delay.seconds < -SECONDS_MAX {
                Some("exceeds -10000 years")
            } else if delay.seconds > SECONDS_MAX {
                Some("exceeds +10000 years")
            } else if !(-999_999_999..=999_999_999).contains(&delay.nanos) {
                Some("has out-of-range nanos")
            } else if (delay.seconds > 0 && delay.nanos < 0) || (delay.seconds < 0 && delay.nanos > 0) {
                Some("has seconds and nanos with different signs")
            } else {
                None
            };
            if let Some(fault) = fault {
                let parts = [("seconds", delay.seconds), ("nanos", delay.nanos.into())];
                let set = parts.iter().filter(|(_, value)| *value != 0);
                let shown: Vec<String> = set.map(|(name, value)| format!("{name}:{value}")).collect();
                return Err(RequestError::invalid(format!(
                    "NextRetryDelay is not a valid duration: proto: duration ({}) {fault}",
                    shown.join(" ")
                )));
            }
        }
        current = failure.cause.as_deref();
    }
    Ok(())
}
