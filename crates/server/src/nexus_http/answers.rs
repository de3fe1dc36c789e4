//! Responses of the HTTP port to calls of handlers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use segno_nexus::{
    CONTENT_PREFIX, Content, LINK_HEADER, UPSTREAM_TIMEOUT, Unsuccessful, failure_to_json, handler_error,
    links_to_header, old_form, operation_error, status_of, to_nexus,
};
use segno_node::CallAnswer;
use segno_proto::{
    enums::NexusHandlerErrorRetryBehavior as Retry,
    failure::{NexusHandlerFailureInfo, failure::FailureInfo},
    nexus::{self, StartOperationResponse, response, start_operation_response::Variant},
};
use tonic::{Code, Status};

const JSON: &str = "application/json";
/// Says that a failure is the worker's.
const FAILURE_SOURCE: (&str, &str) = ("temporal-nexus-failure-source", "worker");
const RETRYABLE: &str = "nexus-request-retryable";
const OPERATION_STATE: &str = "nexus-operation-state";

/// An error of the server itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refusal {
    error_type: &'static str,
    message: String,
    retry: Retry,
    /// The worker, or its absence, is the reason.
    is_workers: bool,
}

impl Refusal {
    fn new(error_type: &'static str, message: impl Into<String>) -> Self {
        Self { error_type, message: message.into(), retry: Retry::Unspecified, is_workers: false }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new("BAD_REQUEST", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new("NOT_FOUND", message)
    }

    pub(super) fn exhausted(message: impl Into<String>) -> Self {
        Self::new("RESOURCE_EXHAUSTED", message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new("UNAVAILABLE", message)
    }

    /// No worker answered in time.
    pub(super) fn timed_out() -> Self {
        Self { is_workers: true, ..Self::new(UPSTREAM_TIMEOUT, "upstream timeout") }
    }

    fn internal(message: impl Into<String>) -> Self {
        Self { is_workers: true, ..Self::new("INTERNAL", message) }
    }

    /// The caller need not try again.
    pub(super) fn never_retried(self) -> Self {
        Self { retry: Retry::NonRetryable, ..self }
    }

    /// An error of a call. Texts about the inside of the server stay here.
    pub(super) fn of(status: &Status) -> Self {
        let own = status.message();
        match status.code() {
            Code::AlreadyExists | Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
                Self::bad_request("bad request")
            }
            Code::Aborted | Code::Unavailable => Self::unavailable("service unavailable"),
            // It says how to authenticate.
            Code::Unauthenticated => Self::new("UNAUTHENTICATED", own),
            Code::PermissionDenied => Self::new("UNAUTHORIZED", "permission denied"),
            Code::NotFound => Self::not_found("not found"),
            // It says how long to wait.
            Code::ResourceExhausted => Self::exhausted(own),
            Code::Unimplemented => Self::new("NOT_IMPLEMENTED", "not implemented"),
            Code::DeadlineExceeded => Self::new(UPSTREAM_TIMEOUT, "request timeout"),
            _ => Self::new("INTERNAL", "internal error"),
        }
    }

    pub(super) fn into_response(self) -> Response<Full<Bytes>> {
        let info = NexusHandlerFailureInfo { r#type: self.error_type.to_owned(), retry_behavior: self.retry as i32 };
        let failure = handler_error(info.clone(), &self.message, None);
        handler_failed(&info, &failure, self.is_workers)
    }
}

fn response(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in headers {
        // Contents and links have only values that may be in a header.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(*name), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The error of a handler.
fn handler_failed(info: &NexusHandlerFailureInfo, failure: &nexus::Failure, is_workers: bool) -> Response<Full<Bytes>> {
    let mut headers = vec![(header::CONTENT_TYPE.as_str(), JSON)];
    match info.retry_behavior() {
        Retry::Retryable => headers.push((RETRYABLE, "true")),
        Retry::NonRetryable => headers.push((RETRYABLE, "false")),
        Retry::Unspecified => {}
    }
    if is_workers {
        headers.push(FAILURE_SOURCE);
    }
    response(status_of(&info.r#type), &headers, failure_to_json(failure))
}

/// The response to a call that a worker answered. `is_new_form` if the caller knows the new form of failures.
pub(super) fn answered(answer: CallAnswer, is_cancel: bool, is_new_form: bool) -> Response<Full<Bytes>> {
    let form = |failure: nexus::Failure| if is_new_form { failure } else { old_form(failure) };
    match answer {
        CallAnswer::Completed(_) if is_cancel => response(202, &[], Bytes::new()),
        CallAnswer::Completed(answer) => {
            let variant = match answer.and_then(|answer| answer.variant) {
                Some(response::Variant::StartOperation(StartOperationResponse { variant })) => variant,
                _ => None,
            };
            started(variant, &form).unwrap_or_else(Refusal::into_response)
        }
        CallAnswer::Failed(_, Some(failure)) => {
            let info = match &failure.failure_info {
                Some(FailureInfo::NexusHandlerFailureInfo(info)) => info.clone(),
                _ => NexusHandlerFailureInfo::default(),
            };
            handler_failed(&info, &form(to_nexus(&failure)), true)
        }
        CallAnswer::Failed(error, None) => {
            let error = error.unwrap_or_default();
            let info = NexusHandlerFailureInfo { r#type: error.error_type, retry_behavior: error.retry_behavior };
            let failure = handler_error(info.clone(), "", Some(error.failure.unwrap_or_default()));
            handler_failed(&info, &form(failure), true)
        }
    }
}

fn started(
    variant: Option<Variant>,
    form: &impl Fn(nexus::Failure) -> nexus::Failure,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let (state, cause) = match variant.ok_or_else(|| Refusal::internal("empty outcome"))? {
        Variant::SyncSuccess(done) => {
            let content = done.payload.as_ref().map(Content::of).unwrap_or_default();
            let names: Vec<(String, String)> = content
                .headers
                .into_iter()
                .map(|(name, value)| (format!("{CONTENT_PREFIX}{name}"), value))
                .chain(link_header(&done.links))
                .collect();
            let headers: Vec<_> = names.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            return Ok(response(200, &headers, content.body));
        }
        Variant::AsyncSuccess(started) => {
            let token = if started.operation_token.is_empty() { started.operation_id } else { started.operation_token };
            let links = link_header(&started.links);
            let mut headers = vec![(header::CONTENT_TYPE.as_str(), JSON)];
            headers.extend(links.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            let token = serde_json::Value::from(token);
            return Ok(response(201, &headers, format!(r#"{{"token":{token},"state":"running"}}"#)));
        }
        Variant::OperationError(error) => {
            let failure = error.failure.unwrap_or_default();
            match error.operation_state.as_str() {
                "failed" => (Unsuccessful::Failed, failure),
                "canceled" => (Unsuccessful::Canceled, failure),
                odd => return Err(Refusal::internal(format!("invalid operation state: {odd:?}"))),
            }
        }
        Variant::Failure(failure) => {
            let is_canceled = matches!(failure.failure_info, Some(FailureInfo::CanceledFailureInfo(_)));
            let state = if is_canceled { Unsuccessful::Canceled } else { Unsuccessful::Failed };
            (state, to_nexus(&failure))
        }
    };
    let failure = form(operation_error("operation error", state, cause));
    let headers = [(header::CONTENT_TYPE.as_str(), JSON), (OPERATION_STATE, state.state()), FAILURE_SOURCE];
    Ok(response(424, &headers, failure_to_json(&failure)))
}

fn link_header(links: &[nexus::Link]) -> Option<(String, String)> {
    let links = links_to_header(links);
    (!links.is_empty()).then(|| (LINK_HEADER.to_owned(), links))
}
