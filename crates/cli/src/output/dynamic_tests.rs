//! Messages as JSON, compared with what protobuf's own JSON mapping says.

use prost_types::{Any, Duration, Timestamp};
use segno_proto::{
    common::{Memo, WorkflowExecution, WorkflowType},
    enums::{EventType, SuggestContinueAsNewReason, TimeoutType},
    events::{
        HistoryEvent, WorkflowExecutionStartedEventAttributes, WorkflowTaskStartedEventAttributes,
        WorkflowTaskTimedOutEventAttributes, history_event::Attributes,
    },
    protocol,
    taskqueue::PollerInfo,
    workflow::WorkflowExecutionInfo,
};

use super::{View, short_name, to_json};
use crate::output::payload;

fn event(attributes: Attributes) -> HistoryEvent {
    HistoryEvent {
        event_id: 7,
        event_time: Some(Timestamp { seconds: 1_000_000_000, nanos: 5_000_000 }),
        event_type: EventType::WorkflowTaskStarted as i32,
        attributes: Some(attributes),
        ..Default::default()
    }
}

fn show(event: &HistoryEvent, view: View) -> String {
    to_json("temporal.api.history.v1.HistoryEvent", event, view).expect("an event").to_string()
}

#[test]
fn times_enums_numbers_and_packed_lists() {
    let event = event(Attributes::WorkflowTaskStartedEventAttributes(WorkflowTaskStartedEventAttributes {
        scheduled_event_id: 6,
        suggest_continue_as_new: true,
        suggest_continue_as_new_reasons: vec![
            SuggestContinueAsNewReason::HistorySizeTooLarge as i32,
            SuggestContinueAsNewReason::TooManyHistoryEvents as i32,
        ],
        history_size_bytes: -1,
        ..Default::default()
    }));
    assert_eq!(
        show(&event, View::Exact),
        r#"{"eventId":"7","eventTime":"2001-09-09T01:46:40.005Z","eventType":"EVENT_TYPE_WORKFLOW_TASK_STARTED","#
            .to_owned()
            + r#""workflowTaskStartedEventAttributes":{"scheduledEventId":"6","suggestContinueAsNew":true,"#
            + r#""suggestContinueAsNewReasons":["SUGGEST_CONTINUE_AS_NEW_REASON_HISTORY_SIZE_TOO_LARGE","#
            + r#""SUGGEST_CONTINUE_AS_NEW_REASON_TOO_MANY_HISTORY_EVENTS"],"historySizeBytes":"-1"}}"#
    );
}

#[test]
fn payloads_by_view() {
    let started = WorkflowExecutionStartedEventAttributes {
        workflow_type: Some(WorkflowType { name: "W".to_owned() }),
        input: payload::of_arguments(&["{\"z\":1}".to_owned()]),
        workflow_run_timeout: Some(Duration { seconds: 1, nanos: 500_000_000 }),
        memo: Some(Memo { fields: [("k".to_owned(), payload::of_json("2"))].into() }),
        attempt: 1,
        ..Default::default()
    };
    let event = event(Attributes::WorkflowExecutionStartedEventAttributes(Box::new(started)));
    let decoded = show(&event, View::Decoded);
    assert!(decoded.contains(r#""input":[{"z":1}]"#), "{decoded}");
    assert!(decoded.contains(r#""memo":{"fields":{"k":2}}"#), "{decoded}");
    assert!(decoded.contains(r#""workflowRunTimeout":"1.500s""#), "{decoded}");
    let exact = show(&event, View::Exact);
    let payload = r#"{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"eyJ6IjoxfQ=="}"#;
    assert!(exact.contains(&format!(r#""input":{{"payloads":[{payload}]}}"#)), "{exact}");
}

#[test]
fn enums_in_short() {
    let event = event(Attributes::WorkflowTaskTimedOutEventAttributes(WorkflowTaskTimedOutEventAttributes {
        timeout_type: TimeoutType::StartToClose as i32,
        ..Default::default()
    }));
    assert!(show(&event, View::Readable).contains(r#""timeoutType":"StartToClose""#));
    assert_eq!(short_name("EventType", "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"), "WorkflowExecutionStarted");
    assert_eq!(short_name("Severity", "HIGH"), "High");
    assert_eq!(short_name("WorkflowTaskFailedCause", "WORKFLOW_TASK_FAILED_CAUSE_BAD_BINARY"), "BadBinary");
}

#[test]
fn doubles_and_messages_inside() {
    let poller = PollerInfo { identity: "me".to_owned(), rate_per_second: 100_000.0, ..Default::default() };
    let json = to_json("temporal.api.taskqueue.v1.PollerInfo", &poller, View::Decoded).expect("a poller");
    assert_eq!(json.to_string(), r#"{"identity":"me","ratePerSecond":100000}"#);
    let info = WorkflowExecutionInfo {
        execution: Some(WorkflowExecution { workflow_id: "w".to_owned(), run_id: "r".to_owned() }),
        history_length: i64::MAX,
        ..Default::default()
    };
    let json = to_json("temporal.api.workflow.v1.WorkflowExecutionInfo", &info, View::Decoded).expect("info");
    let expected = r#"{"execution":{"workflowId":"w","runId":"r"},"historyLength":"9223372036854775807"}"#;
    assert_eq!(json.to_string(), expected);
}

#[test]
fn any_shows_what_is_in_it() {
    let body = Any {
        type_url: "type.googleapis.com/temporal.api.common.v1.WorkflowType".to_owned(),
        value: prost::Message::encode_to_vec(&WorkflowType { name: "W".to_owned() }),
    };
    let message = protocol::Message { id: "m".to_owned(), body: Some(body), ..Default::default() };
    let json = to_json("temporal.api.protocol.v1.Message", &message, View::Decoded).expect("a message").to_string();
    let expected = r#""body":{"@type":"type.googleapis.com/temporal.api.common.v1.WorkflowType","name":"W"}"#;
    assert!(json.contains(expected), "{json}");
}

#[test]
fn nonsense_is_refused() {
    assert!(to_json("temporal.api.Nothing", &WorkflowType::default(), View::Exact).is_err());
    let cut = super::bytes_to_json(".temporal.api.common.v1.WorkflowType", b"\x0a\x7fx", View::Exact);
    assert!(cut.is_err());
}
