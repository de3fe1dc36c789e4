//! A history event on one line: its number, time, type and main fields.
//!
//! The fields come from the event's descriptor, so every event type is shown, also those of later versions. Fields that
//! are of no use to readers are left out by name.

use segno_proto::events::HistoryEvent;

use super::{
    Json,
    dynamic::{View, to_json},
    plain, time,
};

/// The full name of an event.
pub const EVENT: &str = "temporal.api.history.v1.HistoryEvent";

/// Longest value on a line.
const VALUE_CHARS_MAX: usize = 120;

/// Fields that say nothing to a person who reads along.
const LEFT_OUT: &[&str] = &[
    "header",
    "identity",
    "requestId",
    "originalExecutionRunId",
    "firstExecutionRunId",
    "workflowTaskCompletedEventId",
    "workflowId",
    "sdkMetadata",
    "meteringMetadata",
    "workerVersion",
    "binaryChecksum",
    "historySizeBytes",
    "namespaceId",
    "prevAutoResetPoints",
    "sourceVersionStamp",
    "useWorkflowBuildId",
    "useCompatibleVersion",
    "initiator",
    "priority",
    "rootWorkflowExecution",
    "workflowTaskTimeout",
    "completionCallbacks",
];

/// The type of an event and its important fields.
pub fn summary(event: &HistoryEvent) -> (String, String) {
    let json = to_json(EVENT, event, View::Readable);
    let kind = match json.get("eventType") {
        Some(Json::String(kind)) => kind.clone(),
        other => other.map_or_else(|| "Unknown".to_owned(), Json::to_string),
    };
    let Json::Object(fields) = &json else { return (kind, String::new()) };
    let attributes = fields.iter().find(|(name, _)| name.ends_with("EventAttributes"));
    let mut parts = Vec::new();
    if let Some(summary) = json.get("userMetadata").and_then(|metadata| metadata.get("summary")) {
        parts.push(format!("summary={}", short(summary)));
    }
    if let Some((_, Json::Object(attributes))) = attributes {
        for (name, value) in attributes {
            let nothing = value.is_empty() || is_nothing(value) || (name == "attempt" && *value == Json::number(1));
            if !LEFT_OUT.contains(&name.as_str()) && !nothing {
                parts.push(format!("{name}={}", short(value)));
            }
        }
    }
    (kind, parts.join(" "))
}

/// One line of `segno workflow show`.
pub fn line(event: &HistoryEvent) -> String {
    let (kind, fields) = summary(event);
    let time = time::precise(event.event_time.as_ref());
    plain(format!("{:>5}  {time:<24}  {kind:<40}  {fields}", event.event_id).trim_end()).into_owned()
}

/// Values that are there only because a field had to be filled.
fn is_nothing(value: &Json) -> bool {
    matches!(value, Json::String(text) if text == "0s" || text == "Unspecified" || text == "0")
        || matches!(value, Json::Bool(false))
}

/// A failure with its type and its causes. Nothing of a message is cut off: it is what people look for.
fn failure(value: &Json) -> String {
    let text = |json: Option<&Json>| match json {
        Some(Json::String(text)) => text.clone(),
        _ => String::new(),
    };
    let kind = match (value.get("applicationFailureInfo"), value.get("timeoutFailureInfo")) {
        (Some(info), _) => text(info.get("type")),
        (None, Some(info)) => format!("{} timeout", text(info.get("timeoutType"))),
        (None, None) => String::new(),
    };
    let mut shown = text(value.get("message"));
    if !kind.is_empty() {
        shown.push_str(&format!(" ({kind})"));
    }
    if let Some(cause) = value.get("cause") {
        shown.push_str(&format!(" <- {}", failure(cause)));
    }
    shown
}

/// A value in few words: what has a name is its name.
fn short(value: &Json) -> String {
    let text = match value {
        Json::String(text) => text.clone(),
        Json::Object(_) if value.get("message").is_some() => return failure(value),
        Json::Object(_) => {
            let name = ["name", "workflowId"].iter().find_map(|name| value.get(name));
            match name {
                Some(Json::String(name)) => name.clone(),
                _ => value.get("fields").or(value.get("indexedFields")).unwrap_or(value).to_string(),
            }
        }
        Json::Array(items) => format!("[{}]", items.iter().map(short).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        common::{ActivityType, WorkflowType},
        enums::EventType,
        events::{
            ActivityTaskFailedEventAttributes, ActivityTaskScheduledEventAttributes,
            WorkflowExecutionStartedEventAttributes, history_event::Attributes,
        },
        failure::{ApplicationFailureInfo, Failure, failure::FailureInfo},
        nanos_duration, nanos_timestamp,
        taskqueue::TaskQueue,
    };

    use super::*;
    use crate::output::payload;

    fn show(kind: EventType, attributes: Attributes) -> String {
        line(&HistoryEvent {
            event_id: 5,
            event_time: Some(nanos_timestamp(1_000_000_000_250_000_000)),
            event_type: kind as i32,
            attributes: Some(attributes),
            ..Default::default()
        })
    }

    #[test]
    fn a_start() {
        let started = WorkflowExecutionStartedEventAttributes {
            workflow_type: Some(WorkflowType { name: "Order".to_owned() }),
            task_queue: Some(TaskQueue { name: "orders".to_owned(), ..Default::default() }),
            input: payload::of_arguments(&["{\"id\":1}".to_owned(), "2".to_owned()]),
            workflow_run_timeout: Some(nanos_duration(0)),
            identity: "somebody".to_owned(),
            attempt: 1,
            ..Default::default()
        };
        let attributes = Attributes::WorkflowExecutionStartedEventAttributes(Box::new(started));
        let shown = show(EventType::WorkflowExecutionStarted, attributes);
        assert_eq!(
            shown,
            "    5  2001-09-09T01:46:40.250Z  WorkflowExecutionStarted                  \
             workflowType=Order taskQueue=orders input=[{\"id\":1}, 2]"
        );
    }

    #[test]
    fn an_activity_and_its_failure() {
        let scheduled = show(
            EventType::ActivityTaskScheduled,
            Attributes::ActivityTaskScheduledEventAttributes(ActivityTaskScheduledEventAttributes {
                activity_id: "1".to_owned(),
                activity_type: Some(ActivityType { name: "pay".to_owned() }),
                start_to_close_timeout: Some(nanos_duration(10_000_000_000)),
                ..Default::default()
            }),
        );
        assert!(scheduled.ends_with("activityId=1 activityType=pay startToCloseTimeout=10s"), "{scheduled}");
        let cause = Failure { message: "deep\ndown".to_owned(), ..Default::default() };
        let failed = show(
            EventType::ActivityTaskFailed,
            Attributes::ActivityTaskFailedEventAttributes(ActivityTaskFailedEventAttributes {
                failure: Some(Failure {
                    message: "broke".to_owned(),
                    cause: Some(Box::new(cause)),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        );
        assert!(failed.ends_with("failure=broke <- deep\\ndown"), "{failed}");
    }

    #[test]
    fn failures_are_shown_whole_and_with_their_types() {
        let info = ApplicationFailureInfo { r#type: "CardError".to_owned(), ..Default::default() };
        let failure = Failure {
            message: "x".repeat(500),
            failure_info: Some(FailureInfo::ApplicationFailureInfo(info)),
            ..Default::default()
        };
        let attributes = ActivityTaskFailedEventAttributes { failure: Some(failure), ..Default::default() };
        let shown = show(EventType::ActivityTaskFailed, Attributes::ActivityTaskFailedEventAttributes(attributes));
        assert!(shown.ends_with(&format!("failure={} (CardError)", "x".repeat(500))), "{shown}");
    }

    #[test]
    fn long_values_are_cut() {
        let long = Json::Raw("x".repeat(500));
        assert_eq!(short(&long).chars().count(), VALUE_CHARS_MAX + 1);
    }
}
