//! What other parties write into Nexus requests: links, times in headers, and failures with their details.

use prost::Message;
use segno_nexus::{
    HttpAnswer, completion_failure_of, from_nexus, from_url, from_worker, read_span, start_answer_of, to_nexus, to_url,
};
use segno_proto::{
    common::{
        Link,
        link::{Activity, Variant},
    },
    failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
    nexus,
};

const LINK_TYPES: [&str; 4] = ["WorkflowEvent", "Workflow", "Activity", "NexusOperation"];

pub(crate) fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        links(text);
        if let Some(span) = read_span(text) {
            assert!(span >= 0, "{text} is a span below zero");
        }
    }
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
    ];
    seeds.map(|(name, bytes)| (name.to_owned(), bytes)).into()
}
