//! The answers of handlers, as workers report them.

use segno_engine::nexus::{OperationEnd, StartAnswer, handler_failure, no_value};
use segno_proto::{
    common::Link,
    enums::NexusHandlerErrorRetryBehavior,
    failure::{CanceledFailureInfo, Failure, NexusHandlerFailureInfo, failure::FailureInfo},
    links::from_url,
    nexus::{self, StartOperationResponse, UnsuccessfulOperationError, response, start_operation_response::Variant},
};

use crate::failures::{from_worker, has_json_details};

/// The longest token of an operation.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// Errors that are not tried again, unless they say otherwise.
const FATAL: [&str; 6] = ["BAD_REQUEST", "UNAUTHENTICATED", "UNAUTHORIZED", "NOT_FOUND", "CONFLICT", "NOT_IMPLEMENTED"];

/// Whether a request that failed with this error is tried again.
pub fn is_retryable(info: &NexusHandlerFailureInfo) -> bool {
    match info.retry_behavior() {
        NexusHandlerErrorRetryBehavior::Retryable => true,
        NexusHandlerErrorRetryBehavior::NonRetryable => false,
        NexusHandlerErrorRetryBehavior::Unspecified => !FATAL.contains(&info.r#type.as_str()),
    }
}

fn not_json() -> String {
    "failure details must be JSON serializable".to_owned()
}

/// The answer to a request to start an operation. The error is the text of an INVALID_ARGUMENT.
pub fn start_answer(response: Option<nexus::Response>) -> Result<StartAnswer, String> {
    let variant = match response.and_then(|response| response.variant) {
        Some(response::Variant::StartOperation(StartOperationResponse { variant })) => variant,
        _ => None,
    };
    let Some(variant) = variant else {
        let failure = handler_failure("INTERNAL", "empty outcome", Default::default());
        return Ok(StartAnswer::Error { failure, retryable: true });
    };
    match variant {
        Variant::SyncSuccess(done) => {
            let result = Some(done.payload.unwrap_or_else(no_value));
            Ok(StartAnswer::Ended(OperationEnd::Completed(result), known_links(&done.links)))
        }
        Variant::AsyncSuccess(started) => {
            let token = if started.operation_token.is_empty() { started.operation_id } else { started.operation_token };
            if token.is_empty() {
                return Err("missing opration token in response".to_owned());
            }
            if token.len() > TOKEN_BYTES_MAX {
                let length = token.len();
                return Err(format!("operation token length exceeds allowed limit ({length}/{TOKEN_BYTES_MAX})"));
            }
            Ok(StartAnswer::Started(token, known_links(&started.links)))
        }
        Variant::OperationError(error) => operation_error(error),
        Variant::Failure(failure) => {
            let is_canceled = matches!(failure.failure_info, Some(FailureInfo::CanceledFailureInfo(_)));
            let end = if is_canceled { OperationEnd::Canceled(failure) } else { OperationEnd::Failed(failure) };
            Ok(StartAnswer::Ended(end, Vec::new()))
        }
    }
}

fn operation_error(error: UnsuccessfulOperationError) -> Result<StartAnswer, String> {
    let failure = error.failure.unwrap_or_default();
    if !has_json_details(&failure) {
        return Err(not_json());
    }
    Ok(match unsuccessful_end(&error.operation_state, from_worker(&failure)) {
        Some(end) => StartAnswer::Ended(end, Vec::new()),
        None => StartAnswer::Error { failure: handler_failure("INTERNAL", "", Default::default()), retryable: true },
    })
}

/// The end of an operation in a state without a result; `None` if that is no such state.
pub(crate) fn unsuccessful_end(state: &str, failure: Failure) -> Option<OperationEnd> {
    match state {
        "failed" => Some(OperationEnd::Failed(failure)),
        "canceled" => Some(OperationEnd::Canceled(Failure {
            failure_info: Some(FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default())),
            ..failure
        })),
        _ => None,
    }
}

/// A request that a handler could not carry out: the failure, and whether it is tried again. The error is the text of an
/// INVALID_ARGUMENT.
pub fn failed_task(error: Option<nexus::HandlerError>, failure: Option<Failure>) -> Result<(Failure, bool), String> {
    if let Some(failure) = failure {
        let Some(FailureInfo::NexusHandlerFailureInfo(info)) = &failure.failure_info else {
            return Err("request Failure must contain error or failure with NexusHandlerFailureInfo".to_owned());
        };
        let retryable = is_retryable(info);
        return Ok((Failure { source: String::new(), ..failure }, retryable));
    }
    let Some(error) = error else { return Err("request must contain error or failure".to_owned()) };
    if error.failure.as_ref().is_some_and(|failure| !has_json_details(failure)) {
        return Err(not_json());
    }
    let info = NexusHandlerFailureInfo { r#type: error.error_type, retry_behavior: error.retry_behavior };
    let retryable = is_retryable(&info);
    let failure = Failure {
        cause: Some(Box::new(from_worker(&error.failure.unwrap_or_default()))),
        failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
        ..Default::default()
    };
    Ok((failure, retryable))
}

/// The links whose types are known. The others are dropped.
pub(crate) fn known_links(links: &[nexus::Link]) -> Vec<Link> {
    links.iter().filter_map(from_url).collect()
}
