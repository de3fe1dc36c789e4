//! Any message of the protocol as JSON, for pages that show all of it, and texts for its values.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use segno_proto::common::Payload;
use serde_json::{Map, Value};

use super::{codec, payloads, times};

/// How payloads are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// As metadata and bytes, which is what SDKs read to replay a history.
    Exact,
    /// As what is in them.
    Readable,
}

/// A message as the HTTP API shows it. `name` is its full name.
pub(super) fn json(name: &str, message: &impl Message, view: View) -> Value {
    let exact = segno_http_api::message_json(name, &message.encode_to_vec()).unwrap_or_default();
    match view {
        View::Exact => exact,
        View::Readable => readable(exact),
    }
}

/// The payloads of a message that cannot be read here, as a codec server gets them. `name` is its full name.
pub(super) fn encoded(name: &str, message: &impl Message) -> Option<String> {
    fn collect(value: &Value, found: &mut Vec<Payload>) {
        match value {
            Value::Object(object) => match payload(object) {
                Some(payload) => found.push(payload),
                None => object.values().for_each(|value| collect(value, found)),
            },
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(&json(name, message, View::Exact), &mut found);
    codec::attribute(&found)
}

/// Puts what is in payloads in their place.
fn readable(value: Value) -> Value {
    match value {
        Value::Object(object) => match payload(&object) {
            Some(payload) => payloads::json_of(&payload).unwrap_or_else(|| Value::from(payloads::text(&payload))),
            None => object.into_iter().map(|(name, value)| (name, readable(value))).collect(),
        },
        Value::Array(items) => items.into_iter().map(readable).collect(),
        plain => plain,
    }
}

/// The payload that an object stands for: its metadata has an encoding.
fn payload(object: &Map<String, Value>) -> Option<Payload> {
    let bytes = |value: &Value| STANDARD.decode(value.as_str()?).ok();
    let metadata = object.get("metadata")?.as_object()?;
    metadata.get("encoding")?;
    let metadata = metadata.iter().map(|(name, value)| Some((name.clone(), bytes(value)?.into())));
    Some(Payload {
        metadata: metadata.collect::<Option<_>>()?,
        data: object.get("data").and_then(bytes).unwrap_or_default().into(),
        ..Default::default()
    })
}

/// The name of an event or state without its prefix, in words: `Activity task scheduled`.
pub(super) fn words(name: &str, prefix: &str) -> String {
    let text = name.strip_prefix(prefix).unwrap_or(name).replace('_', " ").to_lowercase();
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// The time of an event.
pub(super) fn event_time(event: &segno_proto::events::HistoryEvent) -> segno_proto::Nanos {
    times::nanos(event.event_time.as_ref()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use segno_proto::{
        common::{ActivityType, Payloads},
        enums::EventType,
        events::{ActivityTaskScheduledEventAttributes, HistoryEvent, history_event::Attributes},
        nanos_duration, nanos_timestamp,
    };

    use super::*;

    #[test]
    fn an_event() {
        let input = payloads::typed("{\"a\": 1}").expect("JSON");
        let scheduled = ActivityTaskScheduledEventAttributes {
            activity_id: "5".to_owned(),
            activity_type: Some(ActivityType { name: "pay".to_owned() }),
            input,
            start_to_close_timeout: Some(nanos_duration(1_500_000_000)),
            ..Default::default()
        };
        let event = HistoryEvent {
            event_id: 7,
            event_time: Some(nanos_timestamp(1_000_000_000_250_000_000)),
            event_type: EventType::ActivityTaskScheduled as i32,
            attributes: Some(Attributes::ActivityTaskScheduledEventAttributes(scheduled)),
            ..Default::default()
        };
        let name = "temporal.api.history.v1.HistoryEvent";
        let json = json(name, &event, View::Readable);
        assert_eq!(json["eventId"], "7");
        assert_eq!(json["eventTime"], "2001-09-09T01:46:40.250Z");
        assert_eq!(json["eventType"], "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED");
        let attributes = &json["activityTaskScheduledEventAttributes"];
        assert_eq!(attributes["startToCloseTimeout"], "1.500s");
        assert_eq!(attributes["input"]["payloads"][0]["a"], 1);
        let exact = super::json(name, &event, View::Exact);
        let payload = &exact["activityTaskScheduledEventAttributes"]["input"]["payloads"][0];
        assert_eq!(payload["metadata"]["encoding"], "anNvbi9wbGFpbg==");
        assert_eq!(payload["data"], "eyJhIjogMX0=");
    }

    #[test]
    fn nothing() {
        assert_eq!(
            json("temporal.api.common.v1.Payloads", &Payloads::default(), View::Exact),
            Value::Object(Map::new())
        );
        assert_eq!(words("EVENT_TYPE_TIMER_FIRED", "EVENT_TYPE_"), "Timer fired");
    }
}
