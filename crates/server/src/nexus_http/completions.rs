//! Reports of handlers outside the server that an operation ended. The token in a header authorises them.

use bytes::Bytes;
use http::{HeaderMap, Response, request::Parts};
use http_body_util::Full;
use hyper::body::Incoming;
use prost::Message;
use segno_engine::{
    callbacks::{OPERATION_TOKEN_HEADER, SYSTEM, TOKEN_HEADER},
    outbox::{CallbackReport, ReportedEnd, ReportedOutcome},
};
use segno_nexus::{
    Content, LINK_HEADER, TOKEN_BYTES_MAX, failure_from_json, from_nexus, from_url, http_date_from, links_from_header,
    rfc3339_from,
};
use segno_node::CompletionError;
use segno_proto::{
    Nanos,
    common::{Callback, callback},
    failure::{CanceledFailureInfo, Failure, failure::FailureInfo},
};
use tonic::Status;

use super::{answers::Refusal, check_method, header, read_body};
use crate::{connections::Services, security::Credentials, status};

/// Completes the operation that a report is about.
pub(super) async fn complete(
    services: &Services,
    namespace: Option<String>,
    head: &Parts,
    body: Incoming,
    credentials: &Credentials,
) -> Result<Response<Full<Bytes>>, Refusal> {
    check_method(&head.method)?;
    let runs = &services.node.runs;
    let token = header(&head.headers, TOKEN_HEADER).unwrap_or_default();
    let opened = runs.open_callback_token(&token);
    let opened = opened.filter(|(of, _)| namespace.is_none_or(|named| of.name == named));
    if opened.is_none() {
        let wrong = Status::unauthenticated(CompletionError::Token.to_string());
        let refusal = services.security.refuse_token(credentials, wrong);
        return Err(match refusal.code() {
            tonic::Code::ResourceExhausted => Refusal::of(&refusal),
            _ => invalid(&CompletionError::Token.to_string()),
        });
    }
    let report = report(services, token, &head.headers, body).await?;
    match runs.completed_outside(report).await {
        Ok(()) => Ok(Response::new(Full::default())),
        Err(CompletionError::Call(error)) => Err(Refusal::of(&status::from_call(error))),
        Err(error @ CompletionError::Token) => Err(invalid(&error.to_string())),
        Err(error @ (CompletionError::Closed | CompletionError::OperationNotFound)) => {
            Err(Refusal::not_found(error.to_string()))
        }
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal::bad_request(message)
}

/// The report, as the node of the caller gets it.
async fn report(
    services: &Services,
    token: String,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<CallbackReport, Refusal> {
    let text = |name: &str| header(headers, name).unwrap_or_default();
    let operation_token = header(headers, OPERATION_TOKEN_HEADER).unwrap_or_else(|| text("nexus-operation-id"));
    if operation_token.len() > TOKEN_BYTES_MAX {
        let length = operation_token.len();
        return Err(invalid(&format!("operation token length exceeds allowed limit ({length}/{TOKEN_BYTES_MAX})")));
    }
    let now = services.node.runs.clock_now();
    let started_time = time(headers, "nexus-operation-start-time", http_date_from)
        .ok_or_else(|| invalid("failed to parse operation start time header"))?;
    time(headers, "nexus-operation-close-time", rfc3339_from)
        .ok_or_else(|| invalid("failed to parse operation close time header"))?;
    let links = links_from_header(&text(LINK_HEADER));
    let links = links.map_err(|_| invalid("failed to decode links from request headers"))?;
    let state = text("nexus-operation-state");
    let outcome = match state.as_str() {
        "succeeded" => {
            let body = read_body(body).await.ok_or_else(|| invalid("invalid result content"))?;
            let limit = services.node.runs.limits().blob_bytes;
            result(headers, body, limit)?
        }
        "failed" | "canceled" => {
            let kind = text("content-type");
            let media_type = kind.split(';').next().unwrap_or_default().trim();
            if !media_type.eq_ignore_ascii_case("application/json") {
                return Err(invalid(&format!("invalid request content type: {kind:?}")));
            }
            let malformed = || invalid("failed to decode Failure from request body");
            let body = read_body(body).await.ok_or_else(malformed)?;
            failed(&body, state == "canceled").ok_or_else(malformed)?
        }
        _ => return Err(invalid(&format!("invalid request operation state: {state:?}"))),
    };
    let header = [(TOKEN_HEADER, token), (OPERATION_TOKEN_HEADER, operation_token)];
    let header = header.map(|(name, value)| (name.to_owned(), value)).into();
    let variant = callback::Variant::Nexus(callback::Nexus { url: SYSTEM.to_owned(), header });
    Ok(CallbackReport {
        callback: Callback { variant: Some(variant), ..Default::default() },
        // The clock of the handler may be ahead.
        started_time: started_time.min(now),
        reported: Some(ReportedEnd { outcome: Some(outcome), links: links.iter().filter_map(from_url).collect() }),
        ..Default::default()
    })
}

/// A time in a header, 0 if there is none; `None` if it is malformed.
fn time(headers: &HeaderMap, name: &str, read: fn(&str) -> Option<Nanos>) -> Option<Nanos> {
    match header(headers, name) {
        Some(text) => read(&text),
        None => Some(0),
    }
}

fn result(headers: &HeaderMap, body: Bytes, limit: usize) -> Result<ReportedOutcome, Refusal> {
    let headers = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let payload = Content::new(headers, body).into_payload().map_err(|_| invalid("invalid result content"))?;
    match payload.encoded_len() > limit {
        true => Err(invalid("result exceeds size limit")),
        false => Ok(ReportedOutcome::Completed(payload)),
    }
}

/// The failure of an operation; `None` if it is malformed.
fn failed(body: &[u8], is_canceled: bool) -> Option<ReportedOutcome> {
    let failure = from_nexus(&failure_from_json(body).ok()?);
    if matches!(failure.failure_info, Some(FailureInfo::CanceledFailureInfo(_))) {
        return Some(ReportedOutcome::Canceled(failure));
    }
    if !is_canceled {
        return Some(ReportedOutcome::Failed(failure));
    }
    let info = FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default());
    Some(ReportedOutcome::Canceled(Failure { failure_info: Some(info), ..failure }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(outcome: Option<ReportedOutcome>) -> (&'static str, String) {
        match outcome {
            Some(ReportedOutcome::Failed(failure)) => ("failed", failure.message),
            Some(ReportedOutcome::Canceled(failure)) => ("canceled", failure.message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn failures_say_how_an_operation_ended() {
        let plain = br#"{"message":"m"}"#;
        assert_eq!(message(failed(plain, false)), ("failed", "m".to_owned()));
        assert_eq!(message(failed(plain, true)), ("canceled", "m".to_owned()));
        let canceled = br#"{"message":"c","metadata":{"type":"nexus.OperationError"},"details":{"state":"canceled"}}"#;
        assert_eq!(message(failed(canceled, false)), ("canceled", "c".to_owned()));
        assert_eq!(failed(b"x", false), None);
    }
}
