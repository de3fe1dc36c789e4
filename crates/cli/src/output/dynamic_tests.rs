//! Messages as JSON, compared with what protobuf's own JSON mapping says.

use prost_types::{Duration, Timestamp};
use segno_proto::{
    common::{Memo, WorkflowType},
    enums::{EventType, SuggestContinueAsNewReason, TimeoutType},
    events::{
        HistoryEvent, WorkflowExecutionStartedEventAttributes, WorkflowTaskStartedEventAttributes,
        WorkflowTaskTimedOutEventAttributes, history_event::Attributes,
    },
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
    to_json("temporal.api.history.v1.HistoryEvent", event, view).to_string()
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
