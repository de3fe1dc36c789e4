//! Any message of the protocol as JSON, by its descriptor, for pages that show all of it.
//!
//! Names of fields and enums, times and spans are those of protobuf's JSON. Payloads that hold JSON are shown as that JSON
//! unless the view is exact, which is what SDKs read to replay a history.

use std::{collections::HashMap, sync::OnceLock};

use prost::{
    Message,
    encoding::{WireType, decode_key, decode_varint},
};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use segno_proto::{DESCRIPTORS, common::Payload, duration_nanos, timestamp_nanos};
use serde_json::{Map, Value};

use super::{payloads, times};

/// How payloads are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// As metadata and bytes.
    Exact,
    /// As what is in them.
    Readable,
}

struct Protocol {
    messages: HashMap<String, DescriptorProto>,
    enums: HashMap<String, EnumDescriptorProto>,
}

fn protocol() -> &'static Protocol {
    static PROTOCOL: OnceLock<Protocol> = OnceLock::new();
    PROTOCOL.get_or_init(|| {
        let mut protocol = Protocol { messages: HashMap::new(), enums: HashMap::new() };
        let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap_or_default();
        for file in set.file {
            protocol.add(&format!(".{}", file.package()), file.message_type, file.enum_type);
        }
        protocol
    })
}

impl Protocol {
    fn add(&mut self, scope: &str, messages: Vec<DescriptorProto>, enums: Vec<EnumDescriptorProto>) {
        for kind in enums {
            self.enums.insert(format!("{scope}.{}", kind.name()), kind);
        }
        for mut message in messages {
            let name = format!("{scope}.{}", message.name());
            let (nested, kinds) = (std::mem::take(&mut message.nested_type), std::mem::take(&mut message.enum_type));
            self.add(&name, nested, kinds);
            self.messages.insert(name, message);
        }
    }
}

/// A message as JSON. `name` is its full name. What cannot be read is left out.
pub(super) fn json(name: &str, message: &impl Message, view: View) -> Value {
    of_bytes(&format!(".{name}"), &message.encode_to_vec(), view)
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(u32, Wire<'a>)> {
    let (tag, kind) = decode_key(rest).ok()?;
    let mut fixed = |length: usize| {
        let (taken, left) = rest.split_at_checked(length)?;
        *rest = left;
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(taken);
        Some(Wire::Number(u64::from_le_bytes(bytes)))
    };
    let value = match kind {
        WireType::Varint => Wire::Number(decode_varint(rest).ok()?),
        WireType::SixtyFourBit => fixed(8)?,
        WireType::ThirtyTwoBit => fixed(4)?,
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
            let (taken, left) = rest.split_at_checked(length)?;
            *rest = left;
            Wire::Bytes(taken)
        }
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    Some((tag, value))
}

fn of_bytes(name: &str, bytes: &[u8], view: View) -> Value {
    if let Some(known) = well_known(name, bytes, view) {
        return known;
    }
    let Some(message) = protocol().messages.get(name) else { return Value::Null };
    let mut found = Map::new();
    let mut rest = bytes;
    while let Some((tag, wire)) = next(&mut rest) {
        let Some(field) = message.field.iter().find(|field| field.number() as u32 == tag) else { continue };
        let key = field.json_name().to_owned();
        if let (Some(entry), Wire::Bytes(bytes)) = (map_entry(field), &wire) {
            let object = found.entry(key).or_insert_with(|| Value::Object(Map::new()));
            if let (Value::Object(object), Some((name, value))) = (object, map_item(entry, bytes, view)) {
                object.insert(name, value);
            }
        } else if field.label() == Label::Repeated {
            let list = found.entry(key).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(items) = list else { continue };
            match wire {
                Wire::Bytes(packed) if is_number(field) => unpack(field, packed, view, items),
                wire => items.push(one(field, &wire, view)),
            }
        } else {
            found.insert(key, one(field, &wire, view));
        }
    }
    Value::Object(found)
}

fn is_number(field: &FieldDescriptorProto) -> bool {
    !matches!(field.r#type(), Type::String | Type::Bytes | Type::Message | Type::Group)
}

fn unpack(field: &FieldDescriptorProto, mut packed: &[u8], view: View, items: &mut Vec<Value>) {
    while let Ok(number) = decode_varint(&mut packed) {
        items.push(one(field, &Wire::Number(number), view));
        if packed.is_empty() {
            break;
        }
    }
}

fn map_entry(field: &FieldDescriptorProto) -> Option<&'static DescriptorProto> {
    let is_list = field.label() == Label::Repeated && field.r#type() == Type::Message;
    let entry = protocol().messages.get(field.type_name()).filter(|_| is_list)?;
    entry.options.as_ref().is_some_and(|options| options.map_entry()).then_some(entry)
}

fn map_item(entry: &DescriptorProto, bytes: &[u8], view: View) -> Option<(String, Value)> {
    let [key_field, value_field] = entry.field.as_slice() else { return None };
    let (mut key, mut value) = (String::new(), Value::Null);
    let mut rest = bytes;
    while let Some((tag, wire)) = next(&mut rest) {
        match (tag, one(if tag == 1 { key_field } else { value_field }, &wire, view)) {
            (1, Value::String(text)) => key = text,
            (1, other) => key = other.to_string(),
            (_, found) => value = found,
        }
    }
    Some((key, value))
}

/// Numbers of 64 bits are texts, since JSON readers lose their last digits.
fn one(field: &FieldDescriptorProto, wire: &Wire<'_>, view: View) -> Value {
    match (field.r#type(), wire) {
        (Type::Bool, Wire::Number(n)) => Value::Bool(*n != 0),
        (Type::Int32 | Type::Sfixed32, Wire::Number(n)) => Value::from(*n as i32),
        (Type::Uint32 | Type::Fixed32, Wire::Number(n)) => Value::from(*n as u32),
        (Type::Int64 | Type::Sfixed64, Wire::Number(n)) => Value::from((*n as i64).to_string()),
        (Type::Uint64 | Type::Fixed64, Wire::Number(n)) => Value::from(n.to_string()),
        (Type::Sint32 | Type::Sint64, Wire::Number(n)) => Value::from((n >> 1) as i64 ^ -((n & 1) as i64)),
        (Type::Double, Wire::Number(n)) => Value::from(f64::from_bits(*n)),
        (Type::Float, Wire::Number(n)) => Value::from(f64::from(f32::from_bits(*n as u32))),
        (Type::Enum, Wire::Number(n)) => enum_name(field.type_name(), *n as i32),
        (Type::String, Wire::Bytes(bytes)) => Value::from(String::from_utf8_lossy(bytes)),
        (Type::Bytes, Wire::Bytes(bytes)) => Value::from(base64(bytes)),
        (Type::Message, Wire::Bytes(bytes)) => of_bytes(field.type_name(), bytes, view),
        _ => Value::Null,
    }
}

fn enum_name(kind: &str, number: i32) -> Value {
    let found = protocol().enums.get(kind).and_then(|kind| kind.value.iter().find(|value| value.number() == number));
    found.map_or_else(|| Value::from(number), |value| Value::from(value.name()))
}

fn well_known(name: &str, bytes: &[u8], view: View) -> Option<Value> {
    match name {
        ".google.protobuf.Timestamp" => {
            let time = prost_types::Timestamp::decode(bytes).ok()?;
            let nanos = i128::from(timestamp_nanos(&time));
            jiff::Timestamp::from_nanosecond(nanos).ok().map(|time| Value::from(time.to_string()))
        }
        ".google.protobuf.Duration" => {
            let nanos = duration_nanos(Some(&prost_types::Duration::decode(bytes).ok()?));
            let (seconds, rest) = (nanos / 1_000_000_000, (nanos % 1_000_000_000).abs());
            let digits = format!("{rest:09}");
            Some(Value::from(match digits.trim_end_matches('0') {
                "" => format!("{seconds}s"),
                digits => format!("{seconds}.{digits}s"),
            }))
        }
        ".temporal.api.common.v1.Payload" if view == View::Readable => {
            let payload = Payload::decode(bytes).ok()?;
            Some(payloads::json_of(&payload).unwrap_or_else(|| Value::from(payloads::text(&payload))))
        }
        _ => None,
    }
}

/// The name of an event or state without its prefix, in words: `Activity task scheduled`.
pub(super) fn words(name: &str, prefix: &str) -> String {
    let text = name.strip_prefix(prefix).unwrap_or(name).replace('_', " ").to_lowercase();
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// Base64 (RFC 4648) with padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * index)) as usize & 63];
            text.push(if index <= chunk.len() { letter.into() } else { '=' });
        }
    }
    text
}

/// When something was, of an event.
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
        assert_eq!(json["eventTime"], "2001-09-09T01:46:40.25Z");
        assert_eq!(json["eventType"], "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED");
        let attributes = &json["activityTaskScheduledEventAttributes"];
        assert_eq!(attributes["startToCloseTimeout"], "1.5s");
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
