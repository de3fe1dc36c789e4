//! What other parties write into Nexus requests: links, headers with times, bodies with the headers that describe them, failures with
//! their details, and messages as inputs.

use prost::Message;
use segno_nexus::{
    Content, HttpAnswer, completion_failure_of, from_nexus, from_url, from_worker, http_date, http_date_from,
    message_payload, read_message, read_span, rfc3339_from, start_answer_of, to_nexus, to_url,
};
use segno_proto::{
    common::{
        Link, Payload,
        link::{Activity, Variant},
    },
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    nexus,
    workflowservice::SignalWithStartWorkflowExecutionRequest as Request,
};

const LINK_TYPES: [&str; 4] = ["WorkflowEvent", "Workflow", "Activity", "NexusOperation"];

const REQUEST: &str = "temporal.api.workflowservice.v1.SignalWithStartWorkflowExecutionRequest";

pub(crate) fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        links(text);
        if let Some(span) = read_span(text) {
            assert!(span >= 0, "{text} is a span below zero");
        }
        if let Some(time) = http_date_from(text) {
            assert_eq!(http_date_from(&http_date(time)), Some(time), "{text} changes when it is written");
        }
        rfc3339_from(text);
        content(text);
    }
    messages(input);
    answers(input);
    let details = nexus::Failure { details: input.to_vec().into(), ..Default::default() };
    for kind in ["temporal.api.failure.v1.Failure", "nexus.OperationError", "nexus.HandlerError", "another"] {
        let failure = nexus::Failure { metadata: [("type".to_owned(), kind.to_owned())].into(), ..details.clone() };
        from_worker(&nexus::Failure { cause: Some(Box::new(failure.clone())), ..failure });
    }
    if let Ok(failure) = nexus::Failure::decode(input) {
        from_worker(&failure);
    }
    if let Ok(failure) = Failure::decode(input) {
        // Enumerations whose numbers have no name have no form in JSON; all that came back once comes back again.
        let once = from_nexus(&to_nexus(&failure));
        assert_eq!(from_nexus(&to_nexus(&once)), once, "a failure changes on its way");
    }
}

/// A body, and in front of it the headers that describe it, each in a line. A payload that came back once comes back as it was.
fn content(text: &str) {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let payload = Content::new(headers, body.to_owned().into()).into_payload();
    let Ok(once) = payload.and_then(|payload| Content::of(&payload).into_payload()) else { return };
    assert_eq!(Content::of(&once).into_payload(), Ok(once), "{text} changes on its way");
}

/// Inputs of the server's own operations.
fn messages(data: &[u8]) {
    for encoding in ["binary/protobuf", "json/protobuf"] {
        let metadata = [("encoding".to_owned(), encoding.into())].into();
        let input = Payload { metadata, data: data.to_vec().into(), ..Default::default() };
        let Ok(Some(read)) = read_message::<Request>(REQUEST, &input) else { continue };
        let again: Result<Option<Request>, _> = read_message(REQUEST, &message_payload(REQUEST, &read));
        // Encoded, since a number that is none is not equal to itself.
        let again = again.map(|again| again.map(|again| again.encode_to_vec()));
        assert_eq!(again, Ok(Some(read.encode_to_vec())), "a request changes when it is written");
    }
}

/// Answers of servers elsewhere with this body and this link.
fn answers(body: &[u8]) {
    let link = String::from_utf8_lossy(body).into_owned();
    let headers = [("content-type", "application/json"), ("nexus-operation-state", "failed"), ("nexus-link", &link)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    for status in [200, 201, 400, 424, 502] {
        let answer =
            HttpAnswer { status, headers: headers.clone().into(), body: body.to_vec().into(), ..Default::default() };
        start_answer_of(&answer);
        completion_failure_of(&answer);
    }
}

/// A link that was read is written and read as the same link.
fn links(url: &str) {
    for kind in LINK_TYPES {
        let link = nexus::Link { url: url.to_owned(), r#type: format!("temporal.api.common.v1.Link.{kind}") };
        let Some(read) = from_url(&link) else { continue };
        let written = to_url(&read).expect("what was read from a URL has one");
        assert_eq!(from_url(&written), Some(read), "{url} changes when it is written");
    }
}

pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let info = ApplicationFailureInfo { r#type: "T".to_owned(), non_retryable: true, ..Default::default() };
    let failure = Failure {
        message: "boom".to_owned(),
        failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
        cause: Some(Box::new(Failure { message: "deep".to_owned(), ..Default::default() })),
        ..Default::default()
    };
    let activity = Activity { namespace: "n/s".to_owned(), activity_id: "ä b".to_owned(), run_id: "r".to_owned() };
    let link = to_url(&Link { variant: Some(Variant::Activity(activity)) }).unwrap_or_default();
    let event = "temporal:///namespaces/n/workflows/w%2F1/r/history?eventID=5&eventType=NexusOperationScheduled&referenceType=EventReference";
    let request = "temporal:///namespaces/n/workflows/w/r/history?eventType=EVENT_TYPE_WORKFLOW_EXECUTION_STARTED&referenceType=RequestIdReference&requestID=a+b";
    let seeds = [
        ("failure", failure.encode_to_vec()),
        ("nexus-failure", to_nexus(&failure).encode_to_vec()),
        ("activity", link.url.into_bytes()),
        ("event", event.into()),
        ("request", request.into()),
        ("details", br#"{"applicationFailureInfo":{"type":"T","details":{"payloads":[]}}}"#.into()),
        ("handler-error", br#"{"type":"NOT_FOUND","retryableOverride":false}"#.into()),
        ("span", b"1.5m".into()),
        ("date", b"Thu, 19 Nov 2026 10:00:00 GMT".into()),
        ("json-body", b"content-type: application/json; format=protobuf; message-type=\"a.B\"\n\n{}".into()),
        ("other-body", b"content-type: text/plain\ncontent-language: en\n\nhello".into()),
        ("signal", br#"{"workflowId":"w","signalName":"s","input":{"payloads":[]}}"#.into()),
    ];
    seeds.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}
