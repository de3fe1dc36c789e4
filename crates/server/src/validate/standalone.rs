//! Requests about standalone activities.

use prost::Message;
use segno_engine::{
    search_attributes::Rules,
    standalone::NewStandalone,
    validate::{self as engine, ID_LENGTH_MAX},
};
use segno_node::AllowedTargets;
use segno_proto::{
    command::ScheduleActivityTaskCommandAttributes, duration_nanos, sdk::UserMetadata,
    workflowservice::StartActivityExecutionRequest,
};

use super::{RequestError, links, size::Sizes};

const SUMMARY_BYTES_MAX: usize = 400;
const DETAILS_BYTES_MAX: usize = 20_000;
/// Numbers of the policies that are known: reuse up to this one, conflict up to the other.
const REUSE_POLICY_MAX: i32 = 3;
const CONFLICT_POLICY_MAX: i32 = 2;

/// StartActivityExecution. Takes out what becomes the activity; fills in the request id and the policies.
pub fn start(
    request: &mut StartActivityExecutionRequest,
    rules: &Rules<'_>,
    sizes: Sizes,
    callbacks: Option<&AllowedTargets>,
    new_id: &dyn Fn() -> String,
) -> Result<NewStandalone, RequestError> {
    if request.request_id.is_empty() {
        request.request_id = new_id();
    }
    engine::duration(request.start_delay.as_mut())
        .map_err(|why| RequestError::invalid(format!("invalid StartDelay: {why}")))?;
    let mut attributes = ScheduleActivityTaskCommandAttributes {
        activity_id: request.activity_id.clone(),
        activity_type: request.activity_type.clone(),
        task_queue: request.task_queue.clone(),
        header: request.header.take(),
        schedule_to_close_timeout: request.schedule_to_close_timeout,
        schedule_to_start_timeout: request.schedule_to_start_timeout,
        start_to_close_timeout: request.start_to_close_timeout,
        heartbeat_timeout: request.heartbeat_timeout,
        retry_policy: request.retry_policy.clone(),
        priority: request.priority.clone(),
        ..Default::default()
    };
    engine::schedule_activity(&mut attributes, 0, "")?;
    length("request ID", &request.request_id)?;
    length("identity", &request.identity)?;
    if sizes.is_too_large(request.input.as_ref()) {
        return Err(RequestError::invalid("input exceeds length limit"));
    }
    attributes.input = request.input.take();
    user_metadata(request.user_metadata.as_ref())?;
    if let Some(attributes) = &request.search_attributes {
        rules.check(attributes)?;
    }
    match callbacks {
        Some(allowed) => links::callbacks(&mut request.completion_callbacks, allowed)?,
        None if request.completion_callbacks.is_empty() => {}
        None => return Err(RequestError::invalid("completion callbacks are not enabled for this namespace")),
    }
    let of_callbacks = request.completion_callbacks.iter().flat_map(|callback| &callback.links);
    links::check(request.links.iter().chain(of_callbacks))?;
    on_conflict(request)?;
    policies(request)?;
    Ok(NewStandalone { attributes, start_delay: duration_nanos(request.start_delay.as_ref()) })
}

pub(super) fn user_metadata(metadata: Option<&UserMetadata>) -> Result<(), RequestError> {
    let Some(metadata) = metadata else { return Ok(()) };
    let size = |payload: &Option<segno_proto::common::Payload>| payload.as_ref().map_or(0, Message::encoded_len);
    for (what, length, limit) in [
        ("summary", size(&metadata.summary), SUMMARY_BYTES_MAX),
        ("details", size(&metadata.details), DETAILS_BYTES_MAX),
    ] {
        if length > limit {
            let text = format!("user_metadata.{what} exceeds size limit. Length={length} Limit={limit}");
            return Err(RequestError::invalid(text));
        }
    }
    Ok(())
}

fn on_conflict(request: &StartActivityExecutionRequest) -> Result<(), RequestError> {
    let Some(options) = &request.on_conflict_options else { return Ok(()) };
    if options.attach_completion_callbacks && !options.attach_request_id {
        let text = "on_conflict_options: attach_completion_callbacks requires attach_request_id to be set";
        return Err(RequestError::invalid(text));
    }
    if options.attach_request_id && request.links.is_empty() && request.completion_callbacks.is_empty() {
        let text = "on_conflict_options: attach_request_id requires at least one completion callback or link";
        return Err(RequestError::invalid(text));
    }
    Ok(())
}

fn policies(request: &mut StartActivityExecutionRequest) -> Result<(), RequestError> {
    for (what, policy, max) in [
        ("reuse", &mut request.id_reuse_policy, REUSE_POLICY_MAX),
        ("conflict", &mut request.id_conflict_policy, CONFLICT_POLICY_MAX),
    ] {
        match *policy {
            // Unspecified is the first of both: allow duplicates, and fail.
            0 => *policy = 1,
            known if (1..=max).contains(&known) => {}
            other => return Err(RequestError::invalid(format!("unsupported ID {what} policy: {other}"))),
        }
    }
    Ok(())
}

/// Every request about one activity names it, and its run perhaps.
pub fn named(activity_id: &str, run_id: &str) -> Result<(), RequestError> {
    activity(activity_id)?;
    run(run_id)
}

/// The same for an operation, with its caller and reason.
pub fn operation(
    activity_id: &str,
    run_id: &str,
    request_id: &str,
    identity: &str,
    reason: &str,
    sizes: Sizes,
) -> Result<(), RequestError> {
    activity(activity_id)?;
    length("request ID", request_id)?;
    length("identity", identity)?;
    run(run_id)?;
    if reason.len() > sizes.blob {
        return Err(RequestError::invalid("reason exceeds length limit"));
    }
    Ok(())
}

/// DescribeActivityExecution: a token of a long poll belongs to a run.
pub fn describe(activity_id: &str, run_id: &str, token: &[u8]) -> Result<(), RequestError> {
    activity(activity_id)?;
    if !token.is_empty() && run_id.is_empty() {
        return Err(RequestError::invalid("run id is required when long poll token is provided"));
    }
    run(run_id)
}

fn activity(id: &str) -> Result<(), RequestError> {
    if id.is_empty() {
        return Err(RequestError::invalid("activity ID is required"));
    }
    length("activity ID", id)
}

fn run(id: &str) -> Result<(), RequestError> {
    match id.is_empty() || engine::is_uuid(id) {
        true => Ok(()),
        false => Err(RequestError::invalid("invalid run id: must be a valid UUID")),
    }
}

/// An id, a name or the like.
pub(super) fn length(what: &str, text: &str) -> Result<(), RequestError> {
    if text.len() <= ID_LENGTH_MAX {
        return Ok(());
    }
    Err(RequestError::invalid(format!("{what} exceeds length limit. Length={} Limit={ID_LENGTH_MAX}", text.len())))
}
