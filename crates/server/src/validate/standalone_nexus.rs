//! Requests about standalone Nexus operations.

use prost::Message;
use segno_engine::{
    search_attributes::Rules,
    validate::{self as engine, nexus_commands},
};
use segno_proto::{
    command::ScheduleNexusOperationCommandAttributes, enums::NexusOperationWaitStage,
    workflowservice::StartNexusOperationExecutionRequest,
};

use super::{
    RequestError,
    size::Sizes,
    standalone::{length, user_metadata},
};

/// StartNexusOperationExecution. Takes out what becomes the operation; fills in the request id.
pub fn start(
    request: &mut StartNexusOperationExecutionRequest,
    rules: &Rules<'_>,
    sizes: Sizes,
    new_id: &dyn Fn() -> String,
) -> Result<ScheduleNexusOperationCommandAttributes, RequestError> {
    if request.request_id.is_empty() {
        request.request_id = new_id();
    }
    required("operation_id", &request.operation_id)?;
    length("operation_id", &request.operation_id)?;
    required("endpoint", &request.endpoint)?;
    for (what, name) in [("service", &request.service), ("operation", &request.operation)] {
        required(what, name)?;
        length(what, name)?;
    }
    length("request_id", &request.request_id)?;
    length("identity", &request.identity)?;
    for (what, timeout) in [
        ("schedule_to_close_timeout", &mut request.schedule_to_close_timeout),
        ("schedule_to_start_timeout", &mut request.schedule_to_start_timeout),
        ("start_to_close_timeout", &mut request.start_to_close_timeout),
    ] {
        engine::duration(timeout.as_mut()).map_err(|why| RequestError::invalid(format!("{what} is invalid: {why}")))?;
    }
    let input = request.input.as_ref().map_or(0, Message::encoded_len);
    if input > sizes.blob {
        let text = format!("input exceeds size limit. Length={input} Limit={}", sizes.blob);
        return Err(RequestError::invalid(text));
    }
    if let Some(key) = nexus_commands::reserved_header(&request.nexus_header) {
        return Err(RequestError::invalid(format!("nexus_header contains a disallowed key: {key:?}")));
    }
    if nexus_commands::are_too_large(&request.nexus_header) {
        return Err(RequestError::invalid("nexus_header exceeds size limit"));
    }
    user_metadata(request.user_metadata.as_ref())?;
    if let Some(attributes) = &request.search_attributes {
        rules.check(attributes)?;
    }
    let mut attributes = ScheduleNexusOperationCommandAttributes {
        endpoint: request.endpoint.clone(),
        service: request.service.clone(),
        operation: request.operation.clone(),
        input: request.input.take(),
        schedule_to_close_timeout: request.schedule_to_close_timeout,
        nexus_header: std::mem::take(&mut request.nexus_header),
        schedule_to_start_timeout: request.schedule_to_start_timeout,
        start_to_close_timeout: request.start_to_close_timeout,
    };
    nexus_commands::fit_timeouts(&mut attributes, 0);
    Ok(attributes)
}

/// Every request about one operation names it, and its run perhaps.
pub fn named(operation_id: &str, run_id: &str) -> Result<(), RequestError> {
    required("operation_id", operation_id)?;
    length("operation_id", operation_id)?;
    match run_id.is_empty() || engine::is_uuid(run_id) {
        true => Ok(()),
        false => Err(RequestError::invalid("run_id is not a valid UUID")),
    }
}

/// The same for a call that ends an operation, with its caller and reason.
pub fn ended(
    operation_id: &str,
    run_id: &str,
    request_id: &str,
    identity: &str,
    reason: &str,
) -> Result<(), RequestError> {
    named(operation_id, run_id)?;
    length("request_id", request_id)?;
    length("identity", identity)?;
    length("reason", reason)
}

/// DescribeNexusOperationExecution: a token of a long poll belongs to a run.
pub fn describe(operation_id: &str, run_id: &str, token: &[u8]) -> Result<(), RequestError> {
    if !token.is_empty() && run_id.is_empty() {
        return Err(RequestError::invalid("run_id is required when long_poll_token is provided"));
    }
    named(operation_id, run_id)
}

/// PollNexusOperationExecution: whether it waits for the start, not for the end.
pub fn waits_for_start(operation_id: &str, run_id: &str, stage: i32) -> Result<bool, RequestError> {
    named(operation_id, run_id)?;
    match NexusOperationWaitStage::try_from(stage) {
        Ok(NexusOperationWaitStage::Started) => Ok(true),
        Ok(NexusOperationWaitStage::Unspecified | NexusOperationWaitStage::Closed) => Ok(false),
        Err(_) => Err(RequestError::invalid(format!("unsupported wait_stage: {stage}"))),
    }
}

fn required(what: &str, value: &str) -> Result<(), RequestError> {
    match value.is_empty() {
        true => Err(RequestError::invalid(format!("{what} is required"))),
        false => Ok(()),
    }
}
