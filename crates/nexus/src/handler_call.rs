//! The requests to a handler at a URL, and its answers to them.

use std::collections::BTreeMap;

use segno_engine::nexus::{CancelAnswer, OperationEnd, StartAnswer, call_error, no_value};
use segno_proto::{
    Nanos,
    common::{Link, Payload},
    failure::Failure,
    links::{path_part, query_part, to_url},
};

use crate::{
    answers::{TOKEN_BYTES_MAX, is_retryable, known_links, unsuccessful_end},
    failures::{from_nexus, text_detail},
    http_message::{HttpAnswer, HttpRequest},
    link_header::{LINK_HEADER, links_from_header, links_to_header},
    times::milliseconds,
};

const STATE_HEADER: &str = "nexus-operation-state";
const OPERATION_TIMEOUT: &str = "operation-timeout";

/// An operation of a handler at a URL.
#[derive(Clone, Copy, Debug)]
pub struct HandlerCall<'a> {
    /// The URL of the endpoint.
    pub url: &'a str,
    /// The service.
    pub service: &'a str,
    /// The operation.
    pub operation: &'a str,
    /// The headers of the user.
    pub headers: &'a BTreeMap<String, String>,
    /// The time that the handler has for the answer.
    pub time: Nanos,
}

/// What belongs to the start of an operation alone.
#[derive(Clone, Debug)]
pub struct StartCall<'a> {
    /// By which the handler recognises a repetition.
    pub request_id: &'a str,
    /// The input.
    pub input: Option<&'a Payload>,
    /// Where the end of the operation is reported, and the token that names the operation there.
    pub callback: (&'a str, &'a str),
    /// The event that scheduled it.
    pub link: &'a Link,
    /// The time that there is for the whole operation, if it is limited.
    pub operation_time: Option<Nanos>,
}

impl HandlerCall<'_> {
    fn request(&self, more: &str, query: &str) -> HttpRequest {
        let whole = self.url.split('#').next().unwrap_or_default();
        let (base, own) = whole.split_once('?').unwrap_or((whole, ""));
        let [service, operation] = [self.service, self.operation].map(path_part);
        let queries: Vec<&str> = [own, query].into_iter().filter(|part| !part.is_empty()).collect();
        let mark = if queries.is_empty() { "" } else { "?" };
        let url = format!("{}/{service}/{operation}{more}{mark}{}", base.trim_end_matches('/'), queries.join("&"));
        let mut request = HttpRequest::new(url, self.headers);
        request.set("request-timeout", milliseconds(self.time));
        request
    }

    /// The request to start the operation.
    pub fn start(&self, start: &StartCall<'_>) -> HttpRequest {
        let (url, token) = start.callback;
        let mut request = self.request("", &format!("callback={}", query_part(url)));
        request.set("nexus-request-id", start.request_id);
        request.set("nexus-callback-temporal-callback-token", token);
        request.set("temporal-nexus-failure-support", "true");
        let links: Vec<_> = to_url(start.link).into_iter().collect();
        request.set(LINK_HEADER, links_to_header(&links));
        if let Some(time) = start.operation_time {
            request.headers.entry(OPERATION_TIMEOUT.to_owned()).or_insert_with(|| milliseconds(time));
        }
        request.set_content(crate::Content::of(start.input.unwrap_or(&no_value())));
        request
    }

    /// The request to cancel the operation of a token.
    pub fn cancel(&self, token: &str) -> HttpRequest {
        let mut request = self.request("/cancel", "");
        request.set("nexus-operation-token", token);
        request
    }
}

/// The answer to the request to start an operation.
pub fn start_answer_of(answer: &HttpAnswer) -> StartAnswer {
    let started = match answer.status {
        200 => match answer.content().into_payload() {
            Ok(result) => Ok(StartAnswer::Ended(OperationEnd::Completed(Some(result)), links_of(answer))),
            Err(error) => Err(error.to_string()),
        },
        201 => started(answer),
        424 => ended(answer),
        _ => {
            let (failure, retryable) = error_of(answer);
            return StartAnswer::Error { failure, retryable };
        }
    };
    started.unwrap_or_else(|why| StartAnswer::Error { failure: call_error(why, true), retryable: true })
}

/// The answer to the request to cancel an operation.
pub fn cancel_answer_of(answer: &HttpAnswer) -> CancelAnswer {
    if answer.status == 202 {
        return CancelAnswer::Accepted;
    }
    let (failure, retryable) = error_of(answer);
    CancelAnswer::Error { failure, retryable }
}

fn started(answer: &HttpAnswer) -> Result<StartAnswer, String> {
    check_json(answer)?;
    let state = text_detail(&answer.body, "state").unwrap_or_default();
    if state != "running" {
        return Err(format!("invalid operation state in response info: {state:?}"));
    }
    let token = text_detail(&answer.body, "token").filter(|token| !token.is_empty());
    let token = token.ok_or("empty operation token in response")?;
    if token.len() > TOKEN_BYTES_MAX {
        let length = token.len();
        let why = format!("invalid operation token: length exceeds allowed limit ({length}/{TOKEN_BYTES_MAX})");
        return Ok(StartAnswer::Error { failure: call_error(why, false), retryable: false });
    }
    Ok(StartAnswer::Started(token, links_of(answer)))
}

fn ended(answer: &HttpAnswer) -> Result<StartAnswer, String> {
    check_json(answer)?;
    let state = answer.header(STATE_HEADER);
    let failure = answer.failure().map(|failure| from_nexus(&failure));
    match unsuccessful_end(state, failure.clone().unwrap_or_default()) {
        None => Err(answer.with_message(format!("invalid operation state header: {state:?}"))),
        Some(_) if failure.is_none() => Err("the body is no failure".to_owned()),
        Some(end) => Ok(StartAnswer::Ended(end, Vec::new())),
    }
}

fn check_json(answer: &HttpAnswer) -> Result<(), String> {
    match answer.is_json() {
        true => Ok(()),
        false => Err(format!("invalid response content type: {:?}", answer.header("content-type"))),
    }
}

fn error_of(answer: &HttpAnswer) -> (Failure, bool) {
    match answer.handler_error() {
        Some((failure, info)) => (failure, is_retryable(&info)),
        None => (call_error(answer.unexpected(), true), true),
    }
}

/// The links of an answer. They are not essential: those that cannot be read are dropped.
fn links_of(answer: &HttpAnswer) -> Vec<Link> {
    known_links(&links_from_header(answer.header(LINK_HEADER)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        enums::EventType,
        failure::{CanceledFailureInfo, failure::FailureInfo},
    };

    use super::*;
    use segno_proto::links::to_event;

    use crate::http_message::USER_AGENT;

    fn answer(status: u16, headers: &[(&str, &str)], body: &'static str) -> HttpAnswer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        HttpAnswer { status, reason: "Reason".into(), headers: headers.collect(), body: body.into() }
    }

    const JSON: (&str, &str) = ("content-type", "application/json");
    const PLAIN: (&str, &str) = ("content-type", "text/plain");

    #[test]
    fn requests_name_service_and_operation_in_their_path() {
        let headers = [("X-Own", "v"), ("Host", "evil"), ("content-type", "evil"), ("operation-timeout", "7s")];
        let headers: BTreeMap<String, String> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let call = HandlerCall {
            url: "http://h:1/base/?a=b",
            service: "s/1",
            operation: "op x",
            headers: &headers,
            time: 9_999_000_000,
        };
        let link = to_event("n", "w", "r", 5, EventType::NexusOperationScheduled);
        let input = Payload {
            metadata: [("encoding".to_owned(), "json/plain".into())].into(),
            data: "1".into(),
            ..Default::default()
        };
        let start = call.start(&StartCall {
            request_id: "id",
            input: Some(&input),
            callback: ("http://c/d?e", "token"),
            link: &link,
            operation_time: Some(1),
        });
        assert_eq!(start.url, "http://h:1/base/s%2F1/op%20x?a=b&callback=http%3A%2F%2Fc%2Fd%3Fe");
        let wanted = [
            ("content-type", "application/json"),
            ("nexus-callback-temporal-callback-token", "token"),
            (
                "nexus-link",
                "<temporal:///namespaces/n/workflows/w/r/history?eventID=5&eventType=NexusOperationScheduled\
                 &referenceType=EventReference>; type=\"temporal.api.common.v1.Link.WorkflowEvent\"",
            ),
            ("nexus-request-id", "id"),
            ("operation-timeout", "7s"),
            ("request-timeout", "9999ms"),
            ("temporal-nexus-failure-support", "true"),
            ("user-agent", USER_AGENT),
            ("x-own", "v"),
        ];
        let sent: Vec<(&str, &str)> =
            start.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!((sent, &start.body[..]), (wanted.to_vec(), &b"1"[..]));
        let cancel = call.cancel("token");
        assert_eq!(cancel.url, "http://h:1/base/s%2F1/op%20x/cancel?a=b");
        assert_eq!(cancel.headers["nexus-operation-token"], "token");
        assert!(cancel.body.is_empty() && !cancel.headers.contains_key("content-type"));
    }

    #[test]
    fn operations_complete_start_and_fail() {
        let link = "<temporal:///namespaces/n/workflows/w/r/history?eventID=1&eventType=WorkflowExecutionStarted\
                    &referenceType=EventReference>; type=\"temporal.api.common.v1.Link.WorkflowEvent\"";
        match start_answer_of(&answer(200, &[JSON, ("nexus-link", link)], "1")) {
            StartAnswer::Ended(OperationEnd::Completed(Some(result)), links) => {
                assert_eq!(
                    (&result.metadata["encoding"][..], &result.data[..], links.len()),
                    (&b"json/plain"[..], &b"1"[..], 1)
                );
            }
            other => panic!("{other:?}"),
        }
        let empty = start_answer_of(&answer(200, &[("nexus-link", "bad")], ""));
        assert_eq!(empty, StartAnswer::Ended(OperationEnd::Completed(Some(no_value())), Vec::new()));
        let started = start_answer_of(&answer(201, &[JSON], r#"{"token":"t","state":"running"}"#));
        assert_eq!(started, StartAnswer::Started("t".into(), Vec::new()));
        let failed = |state, body| match start_answer_of(&answer(424, &[JSON, (STATE_HEADER, state)], body)) {
            StartAnswer::Ended(end, _) => end,
            other => panic!("{other:?}"),
        };
        let plain = |message: &str| Failure { message: message.into(), ..Default::default() };
        assert_eq!(failed("failed", r#"{"message":"m"}"#), OperationEnd::Failed(plain("m")));
        let wrapped = r#"{"message":"operation error","metadata":{"type":"nexus.OperationError","unwrap-error":"true"},
            "details":{"state":"failed"},"cause":{"message":"inner"}}"#;
        assert_eq!(failed("failed", wrapped), OperationEnd::Failed(plain("inner")));
        let info = Some(FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default()));
        let canceled = OperationEnd::Canceled(Failure { failure_info: info, ..plain("m") });
        assert_eq!(failed("canceled", r#"{"message":"m"}"#), canceled);
        assert_eq!(cancel_answer_of(&answer(202, &[], "")), CancelAnswer::Accepted);
    }

    #[test]
    fn answers_that_mean_nothing_are_asked_for_again() {
        let state = |state| (STATE_HEADER, state);
        let cases = [
            (answer(201, &[PLAIN], "{}"), "invalid response content type: \"text/plain\""),
            (answer(201, &[JSON], "no json"), "invalid operation state in response info: \"\""),
            (
                answer(201, &[JSON], r#"{"token":"t","state":"odd"}"#),
                "invalid operation state in response info: \"odd\"",
            ),
            (answer(201, &[JSON], r#"{"id":"t","state":"running"}"#), "empty operation token in response"),
            (answer(424, &[PLAIN, state("failed")], "x"), "invalid response content type: \"text/plain\""),
            (answer(424, &[JSON], r#"{"message":"m"}"#), "invalid operation state header: \"\": m"),
            (answer(424, &[JSON, state("odd")], r#"{"message":"m"}"#), "invalid operation state header: \"odd\": m"),
            (answer(302, &[], ""), "unexpected response status: \"302 Reason\""),
            (answer(418, &[JSON], r#"{"message":"m"}"#), "unexpected response status: \"418 Reason\": m"),
            (answer(202, &[], ""), "unexpected response status: \"202 Reason\""),
        ];
        for (answer, wanted) in cases {
            match start_answer_of(&answer) {
                StartAnswer::Error { failure, retryable: true } => assert_eq!(failure, call_error(wanted.into(), true)),
                other => panic!("{other:?}"),
            }
        }
        let long = format!(r#"{{"token":"{}","state":"running"}}"#, "x".repeat(4097));
        let long = HttpAnswer { body: long.into(), ..answer(201, &[JSON], "") };
        assert!(matches!(start_answer_of(&long), StartAnswer::Error { retryable: false, .. }));
    }

    #[test]
    fn errors_of_handlers_are_known_by_status_header_and_body() {
        let retry = |value| ("nexus-request-retryable", value);
        let own = r#"{"message":"hm","metadata":{"type":"nexus.HandlerError"},
            "details":{"type":"NOT_FOUND","retryableOverride":false},"cause":{"message":"inner"}}"#;
        // Status, headers, body; type, message, message of the cause, whether it is tried again.
        let cases = [
            (answer(400, &[JSON], r#"{"message":"m"}"#), ("BAD_REQUEST", "", Some("m"), false)),
            (answer(400, &[PLAIN], "m"), ("BAD_REQUEST", "", None, false)),
            (answer(400, &[JSON, retry("true")], r#"{"message":"m"}"#), ("BAD_REQUEST", "", Some("m"), true)),
            (answer(404, &[], ""), ("NOT_FOUND", "", None, false)),
            (answer(503, &[JSON], "no json"), ("UNAVAILABLE", "", None, true)),
            (answer(503, &[retry("false")], ""), ("UNAVAILABLE", "", None, false)),
            (answer(520, &[], ""), ("UPSTREAM_TIMEOUT", "", None, true)),
            (answer(400, &[JSON], own), ("NOT_FOUND", "hm", Some("inner"), false)),
        ];
        for (answer, (kind, message, cause, again)) in cases {
            let CancelAnswer::Error { failure, retryable } = cancel_answer_of(&answer) else { panic!("{answer:?}") };
            let Some(FailureInfo::NexusHandlerFailureInfo(info)) = &failure.failure_info else { panic!("{failure:?}") };
            let inner = failure.cause.as_ref().map(|cause| cause.message.as_str());
            assert_eq!(
                (info.r#type.as_str(), failure.message.as_str(), inner, retryable),
                (kind, message, cause, again)
            );
        }
    }
}
