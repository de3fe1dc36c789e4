//! A request to the handler of an operation at the URL of its endpoint.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri};
use segno_engine::nexus::{
    CancelAnswer, REQUEST_TIMEOUT, RequestRef, StartAnswer, call_error, operation_time, request_time,
};
use segno_http_client::{AllowedTargets, RequestError, RequestLimits, send};
use segno_nexus::{HandlerCall, HttpAnswer, HttpRequest, StartCall, cancel_answer_of, start_answer_of, to_event};
use segno_proto::{Nanos, enums::EventType};
use segno_runs::{RequestOutcome, TakenRequest, endpoints::EndpointTarget, error::CallError};
use segno_store::RunKey;

use crate::sender::Sender;

/// Most bytes of the body of an answer.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// So much earlier than the engine the sender gives a request up, so that it is the sender that says why.
const MARGIN: Nanos = 250_000_000;
/// The pause after a request that the settings of the server do not allow.
pub(crate) const PAUSE_OF_SETTINGS: Nanos = 60_000_000_000;

/// Why there is no answer.
pub(crate) enum Failed {
    /// The settings of the server do not allow the request.
    BySettings(String),
    /// The handler, or the way to it.
    Outside { why: String, retryable: bool },
}

impl Sender {
    /// Lets the handler of an operation have its request, and its run the answer.
    pub(crate) async fn call_handler(self: &Arc<Self>, run: RunKey, request: RequestRef) -> Option<bool> {
        let taken = self.runs.take_request_when_possible(run, request).await?;
        let outcome = self.outcome(&taken, request).await;
        let is_down = outcome.as_ref().ok().and_then(is_down);
        self.runs.end_request(&taken.current.run, request, outcome).await;
        is_down
    }

    /// Makes the request, unless the endpoint of the operation has no URL any longer.
    async fn outcome(&self, taken: &TakenRequest, request: RequestRef) -> Result<RequestOutcome, CallError> {
        let (operation, run) = (&taken.operation, &taken.current.run);
        let endpoint = self.runs.endpoints.find(&operation.endpoint_id, &operation.endpoint);
        let url = match endpoint.as_ref().and_then(|endpoint| endpoint.target.as_ref()) {
            Some(EndpointTarget::External(url)) => url,
            _ => return Ok(RequestOutcome::GivenBack),
        };
        let scheduled = self.runs.scheduled_operation(&taken.current, request.scheduled_event_id).await?;
        if let Some(endpoint) = &endpoint {
            self.runs.metrics.nexus_requests_by_endpoint.count([&run.info.namespace, &endpoint.name]);
        }
        let now = self.runs.clock_now();
        let time = request_time(operation, now).min(REQUEST_TIMEOUT - MARGIN);
        let call = HandlerCall {
            url,
            service: &operation.service,
            operation: &operation.operation,
            headers: &scheduled.nexus_header,
            time,
        };
        let sent = match (request.cancel, &self.settings.callback_url) {
            (true, _) => call.cancel(&operation.token),
            (false, None) => {
                let why = "external endpoints need the setting nexus-callback-url: the address under which their handlers reach \
                           the HTTP port of this server";
                return Ok(postponed(why.to_owned()));
            }
            (false, Some(callback)) => {
                let info = &run.info;
                let id = operation.scheduled_event_id;
                let kind = EventType::NexusOperationScheduled;
                let token = self.runs.callback_token(run, operation);
                call.start(&StartCall {
                    request_id: &operation.request_id,
                    input: scheduled.input.as_ref(),
                    callback: (&callback.of(&info.namespace, &info.namespace_id), &token),
                    link: &to_event(&info.namespace, &info.workflow_id, &info.run_id, id, kind),
                    operation_time: operation_time(operation, now),
                })
            }
        };
        let answer = exchange(sent, &self.settings.endpoint_targets, time).await;
        let outcome = match (answer, request.cancel) {
            (Ok(answer), false) => RequestOutcome::Start(start_answer_of(&answer)),
            (Ok(answer), true) => RequestOutcome::Cancel(cancel_answer_of(&answer)),
            (Err(Failed::BySettings(why)), _) => postponed(why),
            (Err(Failed::Outside { why, retryable }), cancel) => {
                let failure = call_error(why, retryable);
                match cancel {
                    false => RequestOutcome::Start(StartAnswer::Error { failure, retryable }),
                    true => RequestOutcome::Cancel(CancelAnswer::Error { failure, retryable }),
                }
            }
        };
        if is_down(&outcome) == Some(true) {
            self.runs.metrics.nexus_request_failed();
        }
        Ok(outcome)
    }
}

/// The settings of the server do not allow a request.
fn postponed(why: String) -> RequestOutcome {
    RequestOutcome::Postponed(call_error(why, true), PAUSE_OF_SETTINGS)
}

/// Whether the handler seems to be down; `None` if nothing is known of it.
fn is_down(outcome: &RequestOutcome) -> Option<bool> {
    match outcome {
        RequestOutcome::Start(StartAnswer::Error { retryable, .. })
        | RequestOutcome::Cancel(CancelAnswer::Error { retryable, .. }) => Some(*retryable),
        RequestOutcome::Start(_) | RequestOutcome::Cancel(_) => Some(false),
        RequestOutcome::Postponed(..) | RequestOutcome::GivenBack => None,
    }
}

/// Sends a request to an allowed URL, and reads the answer.
pub(crate) async fn exchange(
    request: HttpRequest,
    targets: &AllowedTargets,
    time: Nanos,
) -> Result<HttpAnswer, Failed> {
    let failed = |why: String| Failed::Outside { why, retryable: true };
    let url: Uri = request.url.parse().map_err(|error| failed(format!("not a URL: {error}")))?;
    targets.check(&url).map_err(|refused| Failed::BySettings(refused.to_string()))?;
    let mut sent = Request::post(url.clone()).body(request.body).map_err(|error| failed(error.to_string()))?;
    for (name, value) in request.headers {
        // Those that HTTP cannot carry are left out: other servers never get them either.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            sent.headers_mut().insert(name, value);
        }
    }
    let time = Duration::from_nanos(u64::try_from(time).unwrap_or_default());
    let limits = RequestLimits { time, body_bytes: BODY_BYTES_MAX };
    match send(sent, limits, |address| targets.check_address(&url, address)).await {
        Ok(answer) => Ok(read(answer)),
        Err(RequestError::NotAllowed(refused)) => Err(Failed::BySettings(refused.to_string())),
        Err(error @ RequestError::BodyTooLarge) => Err(Failed::Outside { why: error.to_string(), retryable: false }),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn read(answer: http::Response<Bytes>) -> HttpAnswer {
    let (head, body) = answer.into_parts();
    let reason = head.status.canonical_reason().unwrap_or_default().to_owned();
    let mut read = HttpAnswer { status: head.status.as_u16(), reason, body, ..Default::default() };
    for (name, value) in &head.headers {
        let Ok(value) = value.to_str() else { continue };
        let known: &mut String = read.headers.entry(name.as_str().to_owned()).or_default();
        if !known.is_empty() {
            known.push_str(", ");
        }
        known.push_str(value);
    }
    read
}
