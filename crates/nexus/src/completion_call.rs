//! The request that reports the end of an operation to a URL, and the answer to it.

use std::collections::BTreeMap;

use segno_engine::nexus::{OperationEnd, no_value};
use segno_proto::{
    Nanos,
    common::Link,
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    links::to_url,
};

use crate::{
    answers::is_retryable,
    content::Content,
    failure_json::{Unsuccessful, failure_to_json},
    failures::to_nexus,
    http_message::{HttpAnswer, HttpRequest},
    link_header::{LINK_HEADER, links_to_header},
    times::{http_date, rfc3339},
};

/// The end of an operation, as a callback reports it.
#[derive(Clone, Debug)]
pub struct CompletionCall<'a> {
    /// Where.
    pub url: &'a str,
    /// The headers of the callback.
    pub headers: &'a BTreeMap<String, String>,
    /// When the operation was started.
    pub started_time: Nanos,
    /// When it ended.
    pub closed_time: Nanos,
    /// Its start.
    pub link: Option<&'a Link>,
    /// How it ended.
    pub end: &'a OperationEnd,
}

impl CompletionCall<'_> {
    /// The request.
    pub fn request(&self) -> HttpRequest {
        let mut request = HttpRequest::new(self.url.to_owned(), self.headers);
        request.set("nexus-operation-start-time", http_date(self.started_time));
        request.set("nexus-operation-close-time", rfc3339(self.closed_time));
        if let Some(link) = self.link.and_then(to_url) {
            request.set(LINK_HEADER, links_to_header(&[link]));
        }
        let state = match self.end {
            OperationEnd::Completed(result) => {
                request.set_content(Content::of(result.as_ref().unwrap_or(&no_value())));
                "succeeded"
            }
            OperationEnd::Failed(failure) => unsuccessful(&mut request, failure, Unsuccessful::Failed),
            OperationEnd::Canceled(failure) => unsuccessful(&mut request, failure, Unsuccessful::Canceled),
        };
        request.set("nexus-operation-state", state);
        request
    }
}

fn unsuccessful(request: &mut HttpRequest, failure: &Failure, state: Unsuccessful) -> &'static str {
    request.set("content-type", "application/json");
    request.body = failure_to_json(&to_nexus(failure)).into();
    state.state()
}

/// The failure of a report, and whether it is tried again; `None` if it has arrived.
pub fn completion_failure_of(answer: &HttpAnswer) -> Option<(Failure, bool)> {
    if (200..300).contains(&answer.status) {
        return None;
    }
    Some(match answer.handler_error() {
        Some((failure, info)) => {
            let message = if failure.message.is_empty() { String::new() } else { format!(": {}", failure.message) };
            let retryable = is_retryable(&info);
            (undelivered(format!("handler error ({}){message}", info.r#type), retryable), retryable)
        }
        None => (undelivered(answer.unexpected(), true), true),
    })
}

/// The failure of a report.
pub fn undelivered(message: String, retryable: bool) -> Failure {
    let info = ApplicationFailureInfo { non_retryable: !retryable, ..Default::default() };
    Failure { message, failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use segno_proto::enums::EventType;

    use super::*;
    use segno_proto::links::to_event;

    #[test]
    fn ends_are_reported_with_state_times_and_link() {
        let headers =
            [("x-own".to_owned(), "v".to_owned()), ("nexus-operation-token".to_owned(), "t".to_owned())].into();
        let link = to_event("n", "w", "r", 1, EventType::WorkflowExecutionStarted);
        let of = |end: &OperationEnd| {
            let (started_time, closed_time) = (784_111_777_000_000_000, 784_111_778_500_000_000);
            let call = CompletionCall {
                url: "http://c/",
                headers: &headers,
                started_time,
                closed_time,
                link: Some(&link),
                end,
            };
            call.request()
        };
        let done = of(&OperationEnd::Completed(None));
        let wanted = [
            (
                "nexus-link",
                "<temporal:///namespaces/n/workflows/w/r/history?eventID=1&eventType=WorkflowExecutionStarted\
                 &referenceType=EventReference>; type=\"temporal.api.common.v1.Link.WorkflowEvent\"",
            ),
            ("nexus-operation-close-time", "1994-11-06T08:49:38.5Z"),
            ("nexus-operation-start-time", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("nexus-operation-state", "succeeded"),
            ("nexus-operation-token", "t"),
            ("user-agent", "temporalio/server"),
            ("x-own", "v"),
        ];
        let sent: Vec<(&str, &str)> =
            done.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!((sent, done.body.is_empty()), (wanted.to_vec(), true));
        let failed = of(&OperationEnd::Failed(Failure { message: "boom".into(), ..Default::default() }));
        assert_eq!(failed.headers["nexus-operation-state"], "failed");
        assert_eq!(failed.headers["content-type"], "application/json");
        let body = r#"{"message":"boom","metadata":{"type":"temporal.api.failure.v1.Failure"},"details":{}}"#;
        assert_eq!(failed.body, body);
        assert_eq!(of(&OperationEnd::Canceled(Failure::default())).headers["nexus-operation-state"], "canceled");
    }

    #[test]
    fn answers_say_whether_a_report_is_repeated() {
        let of = |status, retryable: &str| {
            let headers = [("nexus-request-retryable".to_owned(), retryable.to_owned())].into();
            completion_failure_of(&HttpAnswer { status, reason: "Reason".into(), headers, ..Default::default() })
        };
        assert_eq!((of(200, ""), of(204, "")), (None, None));
        let failed = |text: &str, retryable| Some((undelivered(text.into(), retryable), retryable));
        assert_eq!(of(404, ""), failed("handler error (NOT_FOUND)", false));
        assert_eq!(of(409, "true"), failed("handler error (CONFLICT)", true));
        assert_eq!(of(503, ""), failed("handler error (UNAVAILABLE)", true));
        assert_eq!(of(503, "false"), failed("handler error (UNAVAILABLE)", false));
        assert_eq!(of(302, ""), failed("unexpected response status: \"302 Reason\"", true));
        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
        let body = r#"{"message":"hm","metadata":{"type":"nexus.HandlerError"},"details":{"type":"NOT_FOUND"}}"#;
        let own = HttpAnswer { status: 400, headers, body: body.into(), ..Default::default() };
        assert_eq!(completion_failure_of(&own), failed("handler error (NOT_FOUND): hm", false));
    }
}
